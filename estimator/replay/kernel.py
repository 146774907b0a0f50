"""A fleet in time: requests are routed to engines, engines catch up, and the loops are compiled and cached.

Belongs here: the router, the open and the closed loop, and their cached entries. Does not: an engine's step (`engine`).
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
from numba import njit

from estimator.replay import blocks, engine, queues, state, transitions
from estimator.replay.engine import Step, advance
from estimator.replay.queues import wait_append
from estimator.replay.state import NONE, REJECTED, WAITING, Fleet
from estimator.replay.transitions import send
from estimator.step_time import kernel as step_kernel

ROUND_ROBIN, LEAST_LOAD = range(2)
ROUTERS = {"round_robin": ROUND_ROBIN, "least_load": LEAST_LOAD}


@njit()
def _enqueue(f: Fleet, e: int, r: int, now_s: float) -> None:
    g = f.engines[e]
    q = f.requests[r]
    q.queued_s = now_s
    q.engine = e
    q.place = WAITING
    wait_append(g, f.requests, r)
    g.outstanding += 1
    if g.asleep and g.end_s > now_s:
        g.end_s = now_s


@njit()
def _least_loaded(f: Fleet, turn: int) -> int:
    """The engine with the fewest requests outstanding, as the router knows; among equals the first from `turn` on."""
    n = len(f.engines)
    best = turn
    for k in range(1, n):
        e = (turn + k) % n
        if f.engines[e].seen < f.engines[best].seen:
            best = e
    f.engines[best].seen += 1
    return best


def _fingerprint(*modules: ModuleType | None) -> int:
    digest = hashlib.sha256()
    for module in modules:
        digest.update(inspect.getsource(module).encode() if module else b"")
    return int.from_bytes(digest.digest()[:7], "big")


def _entries(source: int) -> tuple[Callable[..., int], Callable[..., int]]:
    """The two loops, compiled on first use and kept on disk under `source`.

    Numba looks for changes in the file of a cached function only, and would run yesterday's step time for ever. So the
    entries alone are cached, and what they are compiled from is a constant they close over, which is part of the key.
    """

    @njit(cache=True)
    def open_loop(f: Fleet, p: Step, router: int, stale_s: float) -> int:
        """Requests arrive at their `sent_s` whatever the engines do. An engine catches up when someone looks at it."""
        n = len(f.engines)
        turn = n - 1
        reported_s = -np.inf
        for r in range(len(f.requests)):
            if f.requests[r].outcome == REJECTED:
                continue
            now_s = f.requests[r].sent_s
            turn = (turn + 1) % n
            if router == LEAST_LOAD and n > 1:
                # What the router knows of an engine: its load when it last reported, and what was sent there since.
                report_s = math.floor(now_s / stale_s) * stale_s if stale_s > 0.0 else now_s
                if report_s > reported_s:
                    reported_s = report_s
                    for e in range(n):
                        advance(f, e, p, report_s)
                        f.engines[e].seen = f.engines[e].outstanding
                turn = _least_loaded(f, turn)
            advance(f, turn, p, now_s)
            _enqueue(f, turn, r, now_s)
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
        turn = n - 1
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
                turn = (turn + 1) % n
                if router == LEAST_LOAD:
                    for e in range(n):
                        f.engines[e].seen = f.engines[e].outstanding
                    turn = _least_loaded(f, turn)
                _enqueue(f, turn, r, arrival_s)

    return open_loop, closed_loop


run_open, run_closed = _entries(
    _fingerprint(
        inspect.getmodule(_entries),
        blocks,
        engine,
        queues,
        state,
        transitions,
        step_kernel,
    )
)
