"""Links that carry the KV of a prompt from the engine that computed it to the one that decodes.

Belongs here: posting a transfer, waiting for a place on the link, sharing its bandwidth. Does not: who holds which
blocks meanwhile (`loads`), or what happens before and after (`stepwise`).

Those on a link share it equally, so each gets bandwidth / active. What every transfer has been given since the link was
last idle is one number, `served`; a transfer that starts now ends when that has grown by its bytes (its `tag`).
"""

from __future__ import annotations

import numpy as np

from estimator.replay.compiled import inner
from estimator.replay.state import NONE, Records

# Whose link it is: of the prefill replica, of the decode replica, or one for all.
BY_PREFILL, BY_DECODE, BY_FLEET = range(3)

# Where the client gets its first token from: as soon as it is sampled; from the decode replica, which got it with the
# KV; or from the decode replica, which computes the last token of the prompt again and samples it.
FROM_PREFILL, WITH_KV, FROM_DECODE = range(3)

# The way of one request's KV.
MOVE = np.dtype(
    [
        ("handed_s", "f8"),  # its prompt was computed
        ("reserved_s", "f8"),  # it had blocks where it is to be decoded
        ("started_s", "f8"),  # its first byte left
        ("arrived_s", "f8"),  # its last byte was there
        ("bytes", "f8"),
        ("tag", "f8"),
        ("link", "i8"),
        ("next", "i8"),  # behind it in one of the lists below
    ],
    align=True,
)

LINK = np.dtype(
    [
        ("moment_s", "f8"),  # `served` is up to date as of
        ("served", "f8"),
        ("active", "i8"),
        ("first", "i8"),  # on the link, in order of their ends
        ("queue_first", "i8"),
        ("queue_last", "i8"),
    ],
    align=True,
)

# How KV gets from one pool to the other.
WAY = np.dtype(
    [
        ("token_bytes", "f8"),
        ("bytes_per_s", "f8"),  # of one link
        ("post_s", "f8"),  # from blocks being there until the transfer is asked for
        ("at_once", "i8"),  # transfers on one link
        ("by", "i8"),
        ("first_token", "i8"),
        ("post_first", "i8"),  # those being posted, in order
        ("post_last", "i8"),
    ],
    align=True,
)


def new_moves(n: int) -> Records:
    """Nothing has moved yet."""
    moves = np.zeros(n, dtype=MOVE)
    for name in ("handed_s", "reserved_s", "started_s", "arrived_s"):
        moves[name] = np.nan
    moves["next"] = NONE
    return moves


def new_links(n: int) -> Records:
    """Idle links."""
    links = np.zeros(n, dtype=LINK)
    for name in ("first", "queue_first", "queue_last"):
        links[name] = NONE
    return links


def new_way() -> Records:
    """A way that carries nothing."""
    way = np.zeros(1, dtype=WAY)
    way["post_first"] = way["post_last"] = NONE
    return way


@inner
def post(moves: Records, way: Records, r: int, link: int, tokens: int, now_s: float) -> None:
    """Blocks for request `r` are there: `tokens` of KV are asked for."""
    m = moves[r]
    w = way[0]
    m.reserved_s = now_s
    m.bytes = tokens * w.token_bytes
    m.link = link
    m.next = NONE
    if w.post_first == NONE:
        w.post_first = r
    else:
        moves[w.post_last].next = r
    w.post_last = r


@inner
def _ends_s(moves: Records, links: Records, way: Records, k: int) -> float:
    """When the next transfer on link `k` ends, if none joins."""
    link = links[k]
    if link.first == NONE:
        return np.inf
    ends: float = link.moment_s + (moves[link.first].tag - link.served) * link.active / way[0].bytes_per_s
    return ends


@inner
def next_link(moves: Records, links: Records, way: Records) -> tuple[float, int]:
    """When something next happens on a link, and on which; NONE where it is that a transfer was posted."""
    at_s = np.inf
    on: int = NONE
    for k in range(len(links)):
        ends_s = _ends_s(moves, links, way, k)
        if ends_s < at_s:
            at_s = ends_s
            on = k
    first = way[0].post_first
    if first != NONE and moves[first].reserved_s + way[0].post_s < at_s:
        at_s = moves[first].reserved_s + way[0].post_s
        on = NONE
    return at_s, on


@inner
def _start(moves: Records, links: Records, way: Records, r: int, now_s: float) -> None:
    m = moves[r]
    link = links[m.link]
    if link.active > 0:
        link.served += (now_s - link.moment_s) * way[0].bytes_per_s / link.active
    else:
        link.served = 0.0
    link.moment_s = now_s
    m.started_s = now_s
    m.tag = link.served + m.bytes
    link.active += 1
    before: int = NONE
    after = link.first
    while after != NONE and moves[after].tag <= m.tag:
        before = after
        after = moves[after].next
    m.next = after
    if before == NONE:
        link.first = r
    else:
        moves[before].next = r


@inner
def posted(moves: Records, links: Records, way: Records, now_s: float) -> None:
    """The transfer posted first takes its place on its link, or waits for one."""
    w = way[0]
    r = w.post_first
    w.post_first = moves[r].next
    link = links[moves[r].link]
    if link.active < w.at_once:
        _start(moves, links, way, r, now_s)
        return
    moves[r].next = NONE
    if link.queue_first == NONE:
        link.queue_first = r
    else:
        moves[link.queue_last].next = r
    link.queue_last = r


@inner
def arrive(moves: Records, links: Records, way: Records, k: int, now_s: float) -> int:
    """The transfer on link `k` that ends now; the next one waiting takes its place."""
    link = links[k]
    r: int = link.first
    link.served = moves[r].tag
    link.moment_s = now_s
    link.first = moves[r].next
    link.active -= 1
    moves[r].arrived_s = now_s
    if link.queue_first != NONE:
        waiting = link.queue_first
        link.queue_first = moves[waiting].next
        _start(moves, links, way, waiting, now_s)
    return r
