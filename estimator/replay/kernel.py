"""A fleet in time: requests arrive, engines catch up, and the loops are compiled and cached.

Belongs here: the open and the closed loop, and their cached entries. Does not: an engine's step (`engine`), or where a
request goes (`routing`).
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
from numba import njit

from estimator.replay import blocks, compiled, engine, loads, queues, routing, schedule, state, tiers, transitions
from estimator.replay.engine import Step, advance
from estimator.replay.routing import ROUND_ROBIN, choose, enqueue, keep, outage
from estimator.replay.state import CANCELLED, LOST, NONE, REJECTED, Fleet, Records
from estimator.replay.transitions import send
from estimator.step_time import kernel as step_kernel


def fingerprint(*modules: ModuleType | None) -> int:
    """A number that changes with the source of any of `modules`."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(inspect.getsource(module).encode() if module else b"")
    return int.from_bytes(digest.digest()[:7], "big")


def _entries(source: int) -> tuple[Callable[..., int], Callable[..., int]]:  # noqa: PLR0915
    """The two loops, compiled on first use and kept on disk under `source`.

    Numba looks for changes in the file of a cached function only, and would run yesterday's step time for ever. So the
    entries alone are cached, and what they are compiled from is a constant they close over, which is part of the key.
    """

    @njit(cache=True)
    def open_loop(f: Fleet, p: Step, outages: Records, router: int, stale_s: float) -> int:  # noqa: PLR0912
        """Requests arrive at their `sent_s` whatever the engines do. An engine catches up when someone looks at it."""
        totals = f.totals[0]
        n = len(f.engines)
        coming = 0
        past = 0
        now_s = 0.0
        while True:
            if totals.held_first != NONE and totals.opened > 0:
                r = totals.held_first
                totals.held_first = f.requests[r].after
                if f.requests[r].deadline_s <= now_s:
                    f.requests[r].outcome = CANCELLED
                    continue
            else:
                while coming < len(f.requests) and f.requests[coming].outcome == REJECTED:
                    coming += 1
                more = coming < len(f.requests)
                if past < len(outages) and not (more and f.requests[coming].sent_s < outages[past].at_s):
                    now_s = outages[past].at_s
                    advance(f, outages[past].engine, p, now_s)
                    outage(f, outages[past].engine, outages[past].kind)
                    past += 1
                    continue
                if not more:
                    break
                r = coming
                coming += 1
                now_s = f.requests[r].sent_s
                f.requests[r].queued_s = now_s
                if totals.opened == 0:
                    keep(f, r)
                    continue
            if router != ROUND_ROBIN and n > 1:
                # What the router knows of an engine: its load when it last reported, and what was sent there since.
                report_s = math.floor(now_s / stale_s) * stale_s if stale_s > 0.0 else now_s
                if report_s > totals.reported_s:
                    totals.reported_s = report_s
                    for e in range(n):
                        advance(f, e, p, report_s)
                        f.engines[e].seen = f.engines[e].outstanding
            e = choose(f, r, router)
            advance(f, e, p, now_s)
            enqueue(f, e, r, now_s)
        while totals.held_first != NONE:
            f.requests[totals.held_first].outcome = LOST
            totals.held_first = f.requests[totals.held_first].after
        for e in range(n):
            advance(f, e, p, np.inf)
        return source

    @njit(cache=True)
    def closed_loop(f: Fleet, p: Step, router: int, request_s: float) -> int:
        """All clients start at 0: client c sends requests c, c + clients, ..., each when the one before ended.

        A request reaches its engine `request_s` after it was sent. Engines take turns in order of time, so that ends,
        and with them arrivals, are met in order.
        """
        n = len(f.engines)
        for c in range(f.rules[0].clients):
            send(f, c, 0.0)
        while True:
            arrival_s = np.inf
            r = f.totals[0].sent_first
            if r != NONE:
                arrival_s = f.requests[r].sent_s + request_s
            first = 0
            second_s = np.inf
            for e in range(1, n):
                if f.engines[e].end_s < f.engines[first].end_s:
                    second_s = f.engines[first].end_s
                    first = e
                else:
                    second_s = min(second_s, f.engines[e].end_s)
            end_s = f.engines[first].end_s
            if arrival_s > end_s:
                advance(f, first, p, max(min(arrival_s, second_s), np.nextafter(end_s, np.inf)))
            elif arrival_s == np.inf:
                return source
            else:
                f.totals[0].sent_first = f.requests[r].after
                for e in range(n):
                    f.engines[e].seen = f.engines[e].outstanding
                f.requests[r].queued_s = arrival_s
                enqueue(f, choose(f, r, router), r, arrival_s)

    return open_loop, closed_loop


COMPILED = (blocks, compiled, engine, loads, queues, routing, schedule, state, tiers, transitions, step_kernel)
"""What the loops are compiled from, beside the module they stand in."""

run_open, run_closed = _entries(fingerprint(inspect.getmodule(_entries), *COMPILED))
