"""Prefix cache beyond the device: a host tier for each engine, and a remote one they share.

Belongs here: which hashes a tier holds, and what loading them costs. Does not: the device's own blocks (`blocks`), or
how a request waits for what is on its way (`loads`).

A tier is written through: a hash enters it when its last block is full on the device, and the least recently written or
loaded one leaves. What the device no longer holds is loaded with the step that admits the request, and the whole batch
waits for it, as with a synchronous KV connector (LMCache's default in vLLM); or beside the steps (`loads`).
"""

from __future__ import annotations

from estimator.replay.compiled import inner, only_with
from estimator.replay.state import ABSENT_HASH, HOST, NONE, REMOTE, Fleet


@inner
def _unlink(f: Fleet, t: int, key: int) -> None:
    assert f.tiers is not None
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
    assert f.tiers is not None
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


@only_with("tiers")
def store(f: Fleet, e: int, r: int, before: int, after: int) -> None:
    """Engine `e` has computed blocks `before` to `after` of request `r`, hashes of which are whole now."""
    assert f.tiers is not None
    per = f.rules[0].hash_blocks
    for k in range(before // per, after // per):
        key = f.ids[f.requests[r].first_hash + k]
        _use(f, e, key)
        _use(f, len(f.tiers) - 1, key)


@only_with("tiers", (0, 0))
def find_beyond(f: Fleet, e: int, r: int, hits: int, most: int) -> tuple[int, int]:
    """Blocks of request `r` behind its first `hits` that the host's tier and the remote one hold, `most` in all.

    The nearer tier is asked first for each hash; the first one that neither holds ends the search.
    """
    assert f.tiers is not None
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


@only_with("tiers", (0.0, 0.0))
def load_s(f: Fleet, e: int, r: int, hits: int, from_host: int, from_remote: int) -> tuple[float, float]:
    """Seconds to load what `find_beyond` found, from the host and from the remote tier; both note that it was used."""
    assert f.tiers is not None
    per = f.rules[0].hash_blocks
    q = f.requests[r]
    remote = len(f.tiers) - 1
    for at in range(hits, hits + from_host + from_remote, per):
        key = f.ids[q.first_hash + at // per]
        _use(f, e if f.hashes[e, key].older != ABSENT_HASH else remote, key)
    if q.sends == 1 and q.preemptions == 0:
        q.loaded[HOST] = from_host * f.rules[0].block_tokens
        q.loaded[REMOTE] = from_remote * f.rules[0].block_tokens
    host_s = f.tiers[e].lookup_s + from_host * f.tiers[e].block_s if from_host > 0 else 0.0
    remote_s = f.tiers[remote].lookup_s + from_remote * f.tiers[remote].block_s if from_remote > 0 else 0.0
    return host_s, remote_s


@only_with("tiers")
def empty_host(f: Fleet, e: int) -> None:
    """The host of engine `e` is gone with what it held."""
    assert f.tiers is not None
    f.tiers[e].held = 0
    f.tiers[e].oldest = NONE
    f.tiers[e].newest = NONE
