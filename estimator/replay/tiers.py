"""Prefix cache beyond the device: a host tier for each engine, and a remote one they share.

Belongs here: which hashes a tier holds, and what loading them costs. Does not: the device's own blocks (`blocks`).

A tier is written through: a hash enters it when its last block is full on the device, and the least recently written or
loaded one leaves. What the device no longer holds is loaded with the step that admits the request, and the whole batch
waits for it, as with a synchronous KV connector (LMCache's default in vLLM).
"""

from __future__ import annotations

from estimator.replay.compiled import inner
from estimator.replay.state import ABSENT_HASH, HOST, NONE, REMOTE, Fleet


@inner
def _unlink(f: Fleet, t: int, key: int) -> None:
    tier = f.tiers[t]
    links = f.hashes[t]
    older = links[key].older
    newer = links[key].newer
    if older == NONE:
        tier.oldest = newer
    else:
        links[older].newer = newer
    if newer == NONE:
        tier.newest = older
    else:
        links[newer].older = older
    links[key].older = ABSENT_HASH
    tier.held -= 1


@inner
def _use(f: Fleet, t: int, key: int) -> None:
    """Tier `t` holds hash `key`, the most recently used."""
    tier = f.tiers[t]
    links = f.hashes[t]
    if tier.hashes_max == 0:
        return
    if links[key].older != ABSENT_HASH:
        _unlink(f, t, key)
    elif tier.held == tier.hashes_max:
        _unlink(f, t, tier.oldest)
    links[key].older = tier.newest
    links[key].newer = NONE
    if tier.newest == NONE:
        tier.oldest = key
    else:
        links[tier.newest].newer = key
    tier.newest = key
    tier.held += 1


@inner
def store(f: Fleet, e: int, key: int) -> None:
    """Engine `e` has computed all of hash `key`."""
    _use(f, e, key)
    _use(f, len(f.tiers) - 1, key)


@inner
def find_beyond(f: Fleet, e: int, r: int, hits: int, most: int) -> tuple[int, int]:
    """Blocks of request `r` behind its first `hits` that the host's tier and the remote one hold, `most` in all.

    The nearer tier is asked first for each hash; the first one that neither holds ends the search.
    """
    per = f.rules[0].hash_blocks
    q = f.requests[r]
    remote = len(f.tiers) - 1
    from_host = 0
    from_remote = 0
    limit = min(most, q.hashed)
    at = hits
    while at < limit and at % per == 0:
        key = f.ids[q.first_hash + at // per]
        got = min(per, limit - at)
        if f.hashes[e, key].older != ABSENT_HASH:
            from_host += got
        elif f.hashes[remote, key].older != ABSENT_HASH:
            from_remote += got
        else:
            break
        at += got
    return from_host, from_remote


@inner
def load(f: Fleet, e: int, r: int, hits: int, from_host: int, from_remote: int) -> None:
    """Request `r` loads what `find_beyond` found; the step in the making takes that much longer."""
    per = f.rules[0].hash_blocks
    g = f.engines[e]
    q = f.requests[r]
    remote = len(f.tiers) - 1
    for at in range(hits, hits + from_host + from_remote, per):
        key = f.ids[q.first_hash + at // per]
        _use(f, e if f.hashes[e, key].older != ABSENT_HASH else remote, key)
    if from_host > 0:
        g.load_s += f.tiers[e].lookup_s + from_host * f.tiers[e].block_s
    if from_remote > 0:
        g.load_s += f.tiers[remote].lookup_s + from_remote * f.tiers[remote].block_s
    if q.sends == 1 and q.preemptions == 0:
        q.loaded[HOST] = from_host * f.rules[0].block_tokens
        q.loaded[REMOTE] = from_remote * f.rules[0].block_tokens
