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
def _route(f: Fleet, p: Step, router: int, stale_s: float, turn: int, now_s: float) -> int:
    """The engine a request that arrives now goes to; `turn` is where the search for the least loaded starts."""
    rules = f.rules[0]
    n = len(f.engines)
    if router == ROUND_ROBIN or n == 1:
        return turn
    if stale_s > 0.0 and rules.clients == 0:
        # The router knows each engine's load as of the last report, plus what it sent there since.
        report_s = math.floor(now_s / stale_s) * stale_s
        if report_s > f.totals[0].reported_s:
            f.totals[0].reported_s = report_s
            for e in range(n):
                advance(f, e, p, report_s)
                f.engines[e].seen = f.engines[e].outstanding
    else:
        for e in range(n):
            if rules.clients == 0:
                advance(f, e, p, now_s)
            f.engines[e].seen = f.engines[e].outstanding
    best = turn
    for k in range(1, n):
        e = (turn + k) % n
        if f.engines[e].seen < f.engines[best].seen:
            best = e
    f.engines[best].seen += 1
    return best


@njit()
def _run_open(f: Fleet, p: Step, router: int, stale_s: float) -> None:
    """Replay requests that arrive at their `sent_s` whatever the engines do."""
    turn = 0
    n = len(f.engines)
    for r in range(len(f.requests)):
        if f.requests[r].outcome == REJECTED:
            continue
        now_s = f.requests[r].sent_s
        e = _route(f, p, router, stale_s, turn, now_s)
        turn = (e + 1) % n
        advance(f, e, p, now_s)
        _enqueue(f, e, r, now_s)
    for e in range(n):
        advance(f, e, p, np.inf)


@njit()
def _run_closed(f: Fleet, p: Step, router: int, request_s: float) -> None:
    """Replay `rules.clients` clients that all start at 0: client c sends requests c, c + clients, ... one at a time.

    Each reaches its engine `request_s` after it was sent. Engines take turns in order of time, so that ends, and with
    them arrivals, are met in order.
    """
    rules = f.rules[0]
    for c in range(rules.clients):
        send(f, c, 0.0)
    turn = 0
    n = len(f.engines)
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
        if arrival_s <= end_s:
            if arrival_s == np.inf:
                return
            f.totals[0].sent_first = f.requests[r].after
            e = _route(f, p, router, 0.0, turn, arrival_s)
            turn = (e + 1) % n
            _enqueue(f, e, r, arrival_s)
        else:
            advance(f, first, p, max(min(arrival_s, second_s), np.nextafter(end_s, np.inf)))


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
        _run_open(f, p, router, stale_s)
        return source

    @njit(cache=True)
    def closed_loop(f: Fleet, p: Step, router: int, request_s: float) -> int:
        _run_closed(f, p, router, request_s)
        return source

    return open_loop, closed_loop


run_open, run_closed = _entries(
    _fingerprint(
        inspect.getmodule(_run_open),
        blocks,
        engine,
        queues,
        state,
        transitions,
        step_kernel,
    )
)
