"""Where a request goes: the router, what it knows, and replicas that come and go.

Belongs here: routers, admission limits, outages. Does not: an engine's step (`engine`), the order of events (`kernel`).
"""

from __future__ import annotations

import numpy as np

from estimator.replay.blocks import find
from estimator.replay.compiled import inner
from estimator.replay.loads import first_load, loading
from estimator.replay.queues import wait_pop, wait_push
from estimator.replay.state import (
    ABSENT,
    ABSENT_HASH,
    DONE,
    KILL,
    LOST,
    NONE,
    OPEN,
    OWN,
    REFUSED,
    WAITING,
    Fleet,
)
from estimator.replay.tiers import empty_host
from estimator.replay.transitions import give_up, send

ROUND_ROBIN, LEAST_LOAD, PREFIX = range(3)
ROUTERS = {"round_robin": ROUND_ROBIN, "least_load": LEAST_LOAD, "prefix": PREFIX}

_MATCH_SHARE = 0.3
_IMBALANCE = 64
_IMBALANCE_RATIO = 1.5


@inner
def enqueue(f: Fleet, e: int, r: int, now_s: float) -> None:
    """Request `r` reaches engine `e`, which has caught up with now, and joins its queue unless that is full."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    if g.waiting + loading(f, e) >= rules.max_waiting or g.outstanding >= rules.max_outstanding:
        q.outcome = REFUSED
        g.seen -= 1
        if rules.clients > 0:
            send(f, r + rules.clients, now_s)
        return
    q.engine = e
    q.sends += 1
    q.place = WAITING
    q.rank = (np.int64(q.priority) << 40) + f.totals[0].tickets
    f.totals[0].tickets += 1
    wait_push(g, f.requests, r)
    g.outstanding += 1
    if rules.priority or rules.max_loras > 0:
        g.shut = 0
    g.deadline_s = min(g.deadline_s, q.deadline_s)
    if g.asleep and g.end_s > now_s:
        g.end_s = now_s


@inner
def _least_loaded(f: Fleet, turn: int) -> int:
    """The open engine with the fewest requests outstanding, as the router knows; among equals the first from `turn` on.

    `turn` must be open.
    """
    n = len(f.engines)
    best = turn
    for k in range(1, n):
        e = (turn + k) % n
        if f.engines[e].open and f.engines[e].seen < f.engines[best].seen:
            best = e
    return best


@inner
def _best_match(f: Fleet, r: int, turn: int) -> int:
    """The open engine that has the longest prefix of request `r`, where that is worth more than balance.

    The least loaded one when the prefix is shorter than `_MATCH_SHARE` of the prompt (thresholds: assumed, no source),
    or when loads lie more than `_IMBALANCE` requests and `_IMBALANCE_RATIO` times apart.
    """
    n = len(f.engines)
    q = f.requests[r]
    least = _least_loaded(f, turn)
    most_seen = 0
    best = least
    best_hits = 0
    for k in range(n):
        e = (turn + k) % n
        if f.engines[e].open:
            most_seen = max(most_seen, f.engines[e].seen)
            hits, _ = find(f, e, r, q.isl)
            if hits > best_hits or (hits == best_hits and f.engines[e].seen < f.engines[best].seen):
                best = e
                best_hits = hits
    fewest = f.engines[least].seen
    if most_seen - fewest > _IMBALANCE and most_seen > _IMBALANCE_RATIO * fewest:
        return least
    return best if best_hits * f.rules[0].block_tokens >= _MATCH_SHARE * q.isl else least


@inner
def next_open(f: Fleet) -> int:
    """The engine whose turn it is; one must be open."""
    n = len(f.engines)
    e: int = (f.totals[0].turn + 1) % n
    while not f.engines[e].open:
        e = (e + 1) % n
    return e


@inner
def choose(f: Fleet, r: int, router: int) -> int:
    """The open engine request `r` goes to, by what the router knows."""
    e = next_open(f)
    if router == LEAST_LOAD:
        e = _least_loaded(f, e)
    elif router == PREFIX:
        e = _best_match(f, r, e)
    f.engines[e].seen += 1
    f.totals[0].turn = e
    return e


@inner
def choose_rank(f: Fleet, r: int, router: int) -> int:
    """The engine request `r` goes to where replicas have ranks: the replica by the router, the rank by its replica.

    A replica knows its own ranks as they are and takes the one with the least 4 x waiting + running, the first among
    equals (`DPLBAsyncMPClient`, vLLM). The prefix router sees ranks.
    """
    ranks = f.rules[0].ranks
    if ranks == 1 or router == PREFIX:
        return choose(f, r, router)
    n = len(f.engines) // ranks
    best: int = (f.totals[0].turn // ranks + 1) % n
    while not f.engines[best * ranks].open:
        best = (best + 1) % n
    if router == LEAST_LOAD:
        turn = best
        least = 2**60
        for k in range(n):
            c = (turn + k) % n
            seen = 0
            for i in range(c * ranks, (c + 1) * ranks):
                seen += f.engines[i].seen
            if f.engines[c * ranks].open and seen < least:
                best = c
                least = seen
    e: int = best * ranks
    lightest = 2**60
    for i in range(best * ranks, (best + 1) * ranks):
        weight = 4 * (f.engines[i].waiting + loading(f, i)) + f.engines[i].running
        if weight < lightest:
            e = i
            lightest = weight
    f.engines[e].seen += 1
    f.totals[0].turn = e
    return e


@inner
def keep(f: Fleet, r: int) -> None:
    """Request `r` is without a replica for now."""
    totals = f.totals[0]
    f.requests[r].after = NONE
    if totals.held_first == NONE:
        totals.held_first = r
    else:
        f.requests[totals.held_last].after = r
    totals.held_last = r


@inner
def _starts_over(f: Fleet, r: int) -> None:
    """The replica of request `r` is gone: it is sent again, or lost."""
    q = f.requests[r]
    q.own_run = NONE
    if not f.rules[0].resend:
        q.place = DONE
        q.outcome = LOST
        return
    q.place = ABSENT
    q.computed = 0
    q.generated = 0
    q.chunk = 0
    q.stall_s = 0.0
    q.first_s = np.nan
    keep(f, r)


@inner
def _empty(f: Fleet, e: int) -> None:
    """Take everything off engine `e`, its caches too."""
    g = f.engines[e]
    while g.running > 0 or g.waiting > 0 or first_load(f, e) != NONE:
        if g.running > 0 or g.waiting == 0:
            r = g.head if g.running > 0 else first_load(f, e)
            give_up(f, e, r)
        else:
            r = wait_pop(g, f.requests)
            g.outstanding -= 1
        _starts_over(f, r)
    g.asleep = 1
    g.end_s = np.inf
    g.wait_root = NONE
    g.finishes = 0
    g.crossings = 0
    for key in range(f.hashes.shape[1]):
        f.hashes[e, key].run = NONE
        f.hashes[e, key].older = ABSENT_HASH
    empty_host(f, e)
    s = g.oldest
    while s != NONE:
        key = f.runs[e, s].key
        if key <= OWN:
            f.requests[OWN - key].own_run = NONE
        s = f.runs[e, s].newer
    g.oldest = NONE
    g.newest = NONE
    g.spare = NONE
    g.fresh = 0
    g.idle = 0
    g.empty = f.rules[0].kv_blocks
    for a in range(f.adapters.shape[1]):
        f.adapters[e, a].step = NONE


@inner
def outage(f: Fleet, e: int, kind: int) -> None:
    """Engine `e`, caught up with now, opens, closes or is gone."""
    g = f.engines[e]
    f.totals[0].opened -= g.open
    g.open = 1 if kind == OPEN else 0
    f.totals[0].opened += g.open
    if kind == KILL:
        _empty(f, e)
