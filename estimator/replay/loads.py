"""Requests that wait for KV on its way into their blocks, while the steps of their engine go on without them.

Belongs here: how such a load starts and lands, and blocks held for another engine to fetch. Does not: where KV comes
from: a tier (`tiers`) or the engine that computed it (`handoff`).

vLLM V1 with a connector that loads asynchronously: the head of the queue gets blocks and then waits aside; requests
behind it are admitted past it. Once its KV is there it stands before all that wait (`skipped_waiting` comes first).
vLLM allocates blocks for what is loaded only, and can lock up when those who hold them all want one more; here a load
starts with blocks for all that is known of the request, so that it can always go on.
"""

from __future__ import annotations

import numpy as np

from estimator.replay.blocks import blocks_for, publish, release, take
from estimator.replay.compiled import inner, only_with
from estimator.replay.queues import wait_push
from estimator.replay.state import HOST, LOADING, NONE, REMOTE, WAITING, Fleet
from estimator.replay.tiers import load_s

FIRST = 2**61
"""Taken from the rank of a request whose KV is there."""
HAD = -1
"""Tokens another engine has for a request that has asked for them."""


@only_with("ports", 0)
def loading(f: Fleet, e: int) -> int:
    """Requests of engine `e` that wait for their KV."""
    assert f.ports is not None
    n: int = f.ports[e].loading
    return n


@only_with("ports", np.inf)
def landing_s(f: Fleet, e: int) -> float:
    """When the next load of engine `e` is there, as far as that is known; infinite when none is."""
    assert f.ports is not None
    first = f.ports[e].first
    return np.inf if first == NONE else float(f.requests[first].ready_s)


@only_with("ports", 0)
def landed_blocks(f: Fleet, r: int) -> int:
    """Blocks that queued request `r` holds because its KV is there already."""
    q = f.requests[r]
    return blocks_for(q.isl + q.generated, f.rules[0].block_tokens) if q.computed > 0 else 0


@only_with("ports")
def joins_landed(f: Fleet, r: int) -> None:
    """Request `r`, whose KV is there, leaves the queue: it has its own rank again."""
    f.requests[r].rank += FIRST


@only_with("ports", False)
def reads_only(f: Fleet, r: int) -> bool:
    """Whether request `r`, handed over, computes the last token of its prompt again: a decode in all but name."""
    q = f.requests[r]
    again: bool = q.remote == HAD and q.generated == 0 and q.chunk == 1
    return again


@inner
def note_out(f: Fleet, e: int, r: int) -> None:
    """The loop has to see to request `r` of engine `e`."""
    assert f.ports is not None
    port = f.ports[e]
    f.requests[r].next = NONE
    if port.out_first == NONE:
        port.out_first = r
    else:
        f.requests[port.out_last].next = r
    port.out_last = r


@inner
def _lands_at(f: Fleet, e: int, r: int, ready_s: float) -> None:
    """Put request `r` into the list of loads where its time says."""
    assert f.ports is not None
    port = f.ports[e]
    q = f.requests[r]
    q.ready_s = ready_s
    before = port.last
    while before != NONE and f.requests[before].ready_s > ready_s:
        before = f.requests[before].before
    after = port.first if before == NONE else f.requests[before].after
    q.before = before
    q.after = after
    if before == NONE:
        port.first = r
    else:
        f.requests[before].after = r
    if after == NONE:
        port.last = r
    else:
        f.requests[after].before = r


@inner
def _unlink(f: Fleet, e: int, r: int) -> None:
    assert f.ports is not None
    port = f.ports[e]
    q = f.requests[r]
    if q.before == NONE:
        port.first = q.after
    else:
        f.requests[q.before].after = q.after
    if q.after == NONE:
        port.last = q.before
    else:
        f.requests[q.after].before = q.before


@only_with("ports", False)
def starts_load(f: Fleet, e: int, r: int, hits: int, from_host: int, from_remote: int, now_s: float) -> bool:
    """Request `r`, just taken from the queue and using its first `hits` blocks, waits for KV behind them, if any."""
    assert f.ports is not None
    rules = f.rules[0]
    q = f.requests[r]
    port = f.ports[e]
    tokens = (from_host + from_remote) * rules.block_tokens
    handed = q.remote > 0
    if handed:
        tokens = max(0, q.remote - hits * rules.block_tokens)
        q.remote = HAD
    elif tokens == 0 or not rules.loads_async:
        return False
    take(f, e, blocks_for(q.isl + q.generated, rules.block_tokens) - hits)
    q.computed = hits * rules.block_tokens
    q.chunk = tokens
    q.place = LOADING
    port.loading += 1
    if handed:
        note_out(f, e, r)
        return True
    host_s, remote_s = load_s(f, e, r, hits, from_host, from_remote)
    ready_s = now_s
    if from_host > 0:
        port.free_s[HOST] = max(port.free_s[HOST], now_s) + host_s
        ready_s = port.free_s[HOST]
    if from_remote > 0:
        port.free_s[REMOTE] = max(port.free_s[REMOTE], now_s) + remote_s
        ready_s = max(ready_s, port.free_s[REMOTE])
    _lands_at(f, e, r, ready_s)
    return True


@inner
def land(f: Fleet, e: int, r: int, now_s: float) -> None:
    """The KV of request `r` is there: it goes before all that wait, and its blocks can be hit."""
    assert f.ports is not None
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    before = min(q.computed // rules.block_tokens, q.hashed)
    q.computed += q.chunk
    q.chunk = 0
    after = min(q.computed // rules.block_tokens, q.hashed)
    if rules.caching and after > before:
        publish(f, e, r, before, after)
    f.ports[e].loading -= 1
    q.place = WAITING
    q.rank -= FIRST
    wait_push(g, f.requests, r)
    g.shut = 0
    if g.asleep and g.end_s > now_s:
        g.end_s = now_s


@only_with("ports")
def collect(f: Fleet, e: int, now_s: float) -> None:
    """All loads of engine `e` that are there by now land."""
    assert f.ports is not None
    while f.ports[e].first != NONE and f.requests[f.ports[e].first].ready_s <= now_s:
        r = f.ports[e].first
        _unlink(f, e, r)
        land(f, e, r, now_s)


@only_with("ports")
def drop_load(f: Fleet, e: int, r: int) -> None:
    """Request `r`, which waits in the queue or for its KV, is given up: blocks it holds are free."""
    assert f.ports is not None
    q = f.requests[r]
    if q.place == LOADING:
        f.ports[e].loading -= 1
        if f.ports[e].first != NONE:
            _unlink(f, e, r)
    elif q.remote > 0:
        note_out(f, e, r)
    if q.place == LOADING or q.computed > 0:
        release(f, e, r, q.isl + q.generated - q.computed, False)


@only_with("ports", NONE)
def first_load(f: Fleet, e: int) -> int:
    """The request of engine `e` that waits for a tier and whose KV is there first; NONE when none waits."""
    assert f.ports is not None
    r: int = f.ports[e].first
    if r == NONE:
        f.ports[e].free_s[:] = 0.0
    return r


@only_with("ports", False)
def keeps_blocks(f: Fleet, e: int, r: int) -> bool:
    """Whether request `r`, which ended here, keeps its blocks until another engine has fetched them."""
    if f.rules[0].hands_over:
        note_out(f, e, r)
        return True
    return False


@inner
def let_go(f: Fleet, e: int, r: int, now_s: float) -> None:
    """Engine `e` need not keep the blocks of request `r` any longer."""
    g = f.engines[e]
    release(f, e, r, 0, False)
    g.shut = 0
    if g.asleep and g.waiting > 0 and g.end_s > now_s:
        g.end_s = now_s
