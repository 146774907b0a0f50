"""What a prefix cache would find in a trace: tokens hit by a cache of any size, and by an endless one.

One pass gives every size at once. A block's reuse distance is the number of distinct blocks used since it was last
used; a cache that evicts the least recently used block holds it as long as it has more blocks than that (Mattson et
al., IBM Systems Journal 9, 1970). A prefix is only as good as its first missing block, so the distance of a block is at
least that of the blocks before it.

Belongs here: block ids in, tokens out. Does not: what a replay's engines evict when (`estimator.replay.blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NEVER = int(np.iinfo(np.int64).max)
"""The distance of a block that was not used before."""


@njit(cache=True)
def _distances(offsets: Ints, blocks: Ints, distinct: int) -> Ints:
    """For each block of each request, the size of cache, in blocks, above which it and all before it are hits."""
    accesses = len(blocks)
    tree = np.zeros(accesses + 1, dtype=np.int64)  # Fenwick: a one where a block was used last
    last = np.full(distinct, -1, dtype=np.int64)
    found = np.empty(accesses, dtype=np.int64)
    in_use, now = 0, 0
    for request in range(len(offsets) - 1):
        start, stop = offsets[request], offsets[request + 1]
        reach = 0
        for i in range(start, stop):
            at = last[blocks[i]]
            if at < 0:
                reach = NEVER
            elif reach != NEVER:
                before, j = 0, at + 1
                while j > 0:
                    before += tree[j]
                    j -= j & -j
                reach = max(reach, in_use - before)
            found[i] = reach
        # Ends are let go of before beginnings, as engines do: the beginning of a chain is used last.
        for i in range(stop - 1, start - 1, -1):
            block = blocks[i]
            at = last[block]
            if at >= 0:
                j = at + 1
                while j <= accesses:
                    tree[j] -= 1
                    j += j & -j
            else:
                in_use += 1
            j = now + 1
            while j <= accesses:
                tree[j] += 1
                j += j & -j
            last[block] = now
            now += 1
    return found


@dataclass(frozen=True, slots=True)
class Reuse:
    """Tokens of each hashed block, and the size of cache, in blocks, above which it is found."""

    block_tokens: int
    tokens: Ints
    distance: Ints
    working_set_blocks: int

    def hit_tokens(self, capacity_tokens: float) -> int:
        """Input tokens found by a least-recently-used cache of `capacity_tokens`; infinite is an endless one."""
        blocks = capacity_tokens // self.block_tokens if np.isfinite(capacity_tokens) else NEVER
        return int(self.tokens[self.distance < blocks].sum())

    @property
    def working_set_tokens(self) -> int:
        """Tokens of all distinct blocks: what an endless cache comes to hold."""
        return self.working_set_blocks * self.block_tokens


def reuse(isl_tokens: Ints, offsets: Ints, ids: Ints, block_tokens: int) -> Reuse:
    """Reuse of the blocks of requests in order of arrival.

    Request i has `isl_tokens[i]` input tokens and the chained block ids `ids[offsets[i]:offsets[i + 1]]`, each of
    `block_tokens`, the last one perhaps partial.
    """
    distinct, blocks = np.unique(ids, return_inverse=True)
    counts = np.diff(offsets)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], counts)
    left = np.repeat(isl_tokens, counts) - place * block_tokens
    tokens = np.clip(left, 0, block_tokens).astype(np.int64)
    distance = _distances(offsets.astype(np.int64), blocks.astype(np.int64), len(distinct))
    return Reuse(block_tokens, tokens, distance, len(distinct))


def tier_hits(found: Reuse, capacities_tokens: Sequence[float]) -> list[tuple[float, int, int]]:
    """For cache tiers of rising total size: the size, tokens hit up to it, and tokens only this tier adds."""
    rows, before = [], 0
    for capacity in sorted(capacities_tokens):
        hit = found.hit_tokens(capacity)
        rows.append((capacity, hit, hit - before))
        before = hit
    return rows
