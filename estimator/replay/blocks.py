"""KV blocks of an engine: a pool with a prefix cache, least recently used out first.

Belongs here: what holding, finding, publishing and evicting blocks does to the pool. Does not: when the scheduler asks.

Blocks are handled in runs, not one by one. All engine blocks under one hash of the trace (32 blocks of 16 tokens under
a Mooncake hash of 512) are found, used and evicted together from the deep end, so a run record with a count stands for
them, and a 100,000-token prompt costs 200 look-ups instead of 6,250. Who uses the first blocks of a run also
holds those that others add to it, which vLLM would free one by one. The queue of idle runs is vLLM's free queue: blocks
of an ended request enter it last block first, so deep blocks are evicted before the shared ones above them.
Where two requests compute the same block at once, the later one's copy is given back when it becomes hashable; vLLM
keeps both until they end.
"""

from __future__ import annotations

from typing import Any

from estimator.replay.compiled import inner
from estimator.replay.state import NONE, OWN, Fleet, Records


@inner
def blocks_for(tokens: int, block_tokens: int) -> int:
    """Blocks that `tokens` tokens fill, the last one perhaps partly."""
    return (tokens + block_tokens - 1) // block_tokens


@inner
def _queue_append(g: Any, runs: Records, s: int) -> None:
    """Run `s` is idle from now on, the most recently used."""
    runs[s].older = g.newest
    runs[s].newer = NONE
    if g.newest == NONE:
        g.oldest = s
    else:
        runs[g.newest].newer = s
    g.newest = s
    g.idle += runs[s].blocks


@inner
def _queue_remove(g: Any, runs: Records, s: int) -> None:
    """Run `s` is idle no more."""
    older = runs[s].older
    newer = runs[s].newer
    if older == NONE:
        g.oldest = newer
    else:
        runs[older].newer = newer
    if newer == NONE:
        g.newest = older
    else:
        runs[newer].older = older
    g.idle -= runs[s].blocks


@inner
def _new_run(f: Fleet, e: int, key: int, blocks: int) -> int:
    g = f.engines[e]
    s: int = g.spare
    if s != NONE:
        g.spare = f.runs[e, s].newer
    else:
        s = g.fresh
        g.fresh += 1
    run = f.runs[e, s]
    run.key = key
    run.blocks = blocks
    run.users = 0
    return s


@inner
def _drop_run(f: Fleet, e: int, s: int) -> None:
    g = f.engines[e]
    f.runs[e, s].newer = g.spare
    g.spare = s


@inner
def free_blocks(g: Any) -> int:
    """Blocks that can be taken."""
    free: int = g.empty + g.idle
    return free


@inner
def take(f: Fleet, e: int, blocks: int) -> None:
    """Use `blocks` more blocks, of which there must be enough: empty ones first, then the least recently used."""
    g = f.engines[e]
    if blocks <= g.empty:
        g.empty -= blocks
        return
    short = blocks - g.empty
    g.empty = 0
    runs = f.runs[e]
    while short > 0:
        s = g.oldest
        if short < runs[s].blocks:
            runs[s].blocks -= short
            g.idle -= short
            return
        short -= runs[s].blocks
        _queue_remove(g, runs, s)
        key = runs[s].key
        if key >= 0:
            f.hashes[e, key].run = NONE
        elif key <= OWN:
            f.requests[OWN - key].own_run = NONE
        _drop_run(f, e, s)


@inner
def release(f: Fleet, e: int, r: int, ahead: int, comes_back: bool) -> None:
    """Request `r`, which holds `computed` tokens and blocks for `ahead` more, gives back its blocks.

    What is hashed can be hit until evicted.
    """
    g = f.engines[e]
    q = f.requests[r]
    rules = f.rules[0]
    held = blocks_for(q.computed + ahead, rules.block_tokens)
    if not rules.caching:
        g.empty += held
        return
    runs = f.runs[e]
    full = q.computed // rules.block_tokens
    shared = min(full, q.hashed)
    if held > shared:
        s = _new_run(f, e, OWN - r if comes_back else NONE, held - shared)
        _queue_append(g, runs, s)
        if comes_back:
            q.own_run = s
            q.own_full = full - shared if shared == q.hashed else 0
    first = q.first_hash
    for k in range(blocks_for(shared, f.rules[0].hash_blocks) - 1, -1, -1):
        s = int(f.hashes[e, f.ids[first + k]].run)
        runs[s].users -= 1
        if runs[s].users == 0:
            _queue_append(g, runs, s)


@inner
def find(f: Fleet, e: int, r: int, most: int) -> tuple[int, int]:
    """Leading blocks of request `r` that are cached, at most `most`, and how many of them are idle."""
    q = f.requests[r]
    runs = f.runs[e]
    hits = 0
    idle = 0
    limit = min(most, q.hashed)
    at = q.first_hash
    while hits < limit:
        s = int(f.hashes[e, f.ids[at]].run)
        if s == NONE:
            break
        got = min(runs[s].blocks, limit - hits)
        hits += got
        if runs[s].users == 0:
            idle += got
        if got < f.rules[0].hash_blocks:
            break
        at += 1
    if hits == q.hashed and hits < most and q.own_run != NONE:
        own = min(q.own_full, runs[q.own_run].blocks, most - hits)
        hits += own
        idle += own
    return hits, idle


@inner
def hold(f: Fleet, e: int, r: int, hits: int) -> None:
    """Request `r` uses its first `hits` cached blocks, as `find` counted them.

    Blocks of an idle run past those it uses become empty: it is about to compute them again.
    """
    g = f.engines[e]
    q = f.requests[r]
    runs = f.runs[e]
    shared = min(hits, q.hashed)
    first = q.first_hash
    for k in range(blocks_for(shared, f.rules[0].hash_blocks)):
        s = int(f.hashes[e, f.ids[first + k]].run)
        if runs[s].users == 0:
            _queue_remove(g, runs, s)
            used = min(runs[s].blocks, shared - k * f.rules[0].hash_blocks)
            g.empty += runs[s].blocks - used
            runs[s].blocks = used
        runs[s].users += 1
    if q.own_run != NONE:
        # What it does not use of its own run, a partly filled block at least, keeps its place in the queue.
        s = int(q.own_run)
        q.own_run = NONE
        own = hits - shared
        if own == runs[s].blocks:
            _queue_remove(g, runs, s)
            _drop_run(f, e, s)
        else:
            runs[s].blocks -= own
            runs[s].key = NONE
            g.idle -= own


@inner
def publish(f: Fleet, e: int, r: int, before: int, after: int) -> None:
    """Hashed blocks `before` to `after` of request `r` are full now and can be hit."""
    g = f.engines[e]
    runs = f.runs[e]
    k = before // f.rules[0].hash_blocks
    while k * f.rules[0].hash_blocks < after:
        had = max(0, before - k * f.rules[0].hash_blocks)
        has = min(f.rules[0].hash_blocks, after - k * f.rules[0].hash_blocks)
        key = f.ids[f.requests[r].first_hash + k]
        s = int(f.hashes[e, key].run)
        if s == NONE:
            s = _new_run(f, e, key, has)
            runs[s].users = 1
            f.hashes[e, key].run = s
        else:
            if had == 0:
                if runs[s].users == 0:
                    _queue_remove(g, runs, s)
                runs[s].users += 1
            g.empty += max(0, min(has, runs[s].blocks) - had)
            runs[s].blocks = max(runs[s].blocks, has)
        k += 1
