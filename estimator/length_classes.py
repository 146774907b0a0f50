"""Length classes that follow the data: boundaries between which requests cost alike; kinds too far apart to share.

Lengths of one value a request in, boundaries out. Nothing here knows a model or an accelerator: cost is relative, in
the work of one input token of a short prompt.

Classes are intervals of a length. Their boundaries are taken from a lattice of four steps an octave (so that next
week's trace has the same ones) by exact dynamic programming: of all ways to cut into k classes the one that leaves the
least squared deviation of log2(cost) inside them (Fisher, JASA 53, 1958), with k the smallest that leaves less than
half an octave. A request weighs half for being one and half by its share of the cost: neither many short ones nor few
long ones decide alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ATTENTION_TOKENS = 32_768.0
"""Context at which attention costs a token as much as all else (assumed): parameters over layers x width x 2, which is
31 thousand for 8 billion parameters in 32 layers of 4,096, and 53 thousand for 70 billion in 80 of 8,192."""
OUTPUT_WEIGHT = 4.0
"""Input tokens that cost as much as one output token (assumed): what most providers charge for one, 3 to 5 times."""
ALIKE_OCTAVES = 0.5
"""Deviation of log2(cost) inside a class, root mean square, that counts as alike: a factor of 1.4."""
MOST_CLASSES = 6
STEPS_AN_OCTAVE = 4
SPLIT_EXPLAINS = 0.8
"""Share of the variance of log2(cost) that two classes must explain before they are two kinds of request: cutting a
bell in two explains 2/pi = 0.64 of it, cutting an even spread 0.75, so that neither is taken for two."""
SPLIT_OCTAVES = 3.0
"""How far apart the two must be: a factor of eight in cost."""
SPLIT_SHARE = 0.05
"""Share of the requests, and of the cost, that the smaller side must have to be worth a pool."""


def relative_cost(isl_tokens: Ints, osl_tokens: Ints) -> Floats:
    """Work of each request in input tokens of a short prompt: prefill, and decode at its mean context.

    `isl (1 + isl / 2A) + w osl (1 + (isl + osl / 2) / A)` with A = ATTENTION_TOKENS, w = OUTPUT_WEIGHT; the attention
    of a prompt runs over half of it on average.
    """
    isl, osl = isl_tokens.astype(np.float64), osl_tokens.astype(np.float64)
    prefill = isl * (1 + isl / (2 * ATTENTION_TOKENS))
    return prefill + OUTPUT_WEIGHT * osl * (1 + (isl + osl / 2) / ATTENTION_TOKENS)


def lattice_tokens(longest: int) -> Ints:
    """Possible upper ends of a class: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ... up to the first at `longest`."""
    octaves = np.arange(max(2, int(np.ceil(np.log2(max(longest, 2)))) + 1))
    steps = np.arange(STEPS_AN_OCTAVE, 2 * STEPS_AN_OCTAVE) / STEPS_AN_OCTAVE
    ends = np.unique(np.ceil(np.outer(2.0**octaves, steps)).astype(np.int64))
    return ends[: int(np.searchsorted(ends, longest)) + 1]


@dataclass(frozen=True, slots=True)
class _Cells:
    """Requests gathered by lattice cell: upper ends, cumulated weight, and its first two moments of log2(cost)."""

    ends: Ints
    weight: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, lengths: Ints, cost: Floats) -> _Cells:
        ends = lattice_tokens(int(lengths.max()))
        cell = np.searchsorted(ends, lengths)
        weights = 0.5 / len(cost) + 0.5 * cost / cost.sum()
        y = np.log2(cost)
        sums = [np.bincount(cell, weights * y**power, minlength=len(ends)) for power in range(3)]
        held = np.bincount(cell, minlength=len(ends)) > 0
        weight, first, second = (np.concatenate(([0.0], np.cumsum(part[held]))) for part in sums)
        return cls(ends[held], weight, first, second)

    def spread(self, start: Ints | int, stop: Ints | int) -> Floats:
        """Weighted squared deviation of y over the cells from `start` up to, not including, `stop`."""
        weight, first = self.weight[stop] - self.weight[start], self.first[stop] - self.first[start]
        spread: Floats = np.maximum(self.second[stop] - self.second[start] - first**2 / weight, 0.0)
        return spread

    def cuts(self, most: int) -> list[tuple[float, list[int]]]:
        """For 1, 2, ... classes: the least spread left inside them, and the cells each of them ends before."""
        cells = len(self.ends)
        best = self.spread(0, np.arange(1, cells + 1))
        ends = [[stop] for stop in range(1, cells + 1)]
        found = [(float(best[-1]), ends[-1])]
        for classes in range(2, min(most, cells) + 1):
            new, new_ends = np.full(cells, np.inf), [list[int]() for _ in range(cells)]
            for last in range(classes - 1, cells):
                starts = np.arange(classes - 1, last + 1)
                totals = best[starts - 1] + self.spread(starts, last + 1)
                at = int(np.argmin(totals))
                new[last], new_ends[last] = totals[at], [*ends[int(starts[at]) - 1], last + 1]
            best, ends = new, new_ends
            found.append((float(best[-1]), ends[-1]))
        return found


def class_ends(lengths: Ints, cost: Floats, most: int = MOST_CLASSES) -> tuple[int, ...]:
    """Upper ends of the fewest classes of a length inside which cost is alike, or of `most` of them, in tokens.

    `lengths` and `cost` (above 0) have one value a request; at least one. The last end is at least the longest length.
    """
    cells = _Cells.of(lengths, cost)
    cuts = cells.cuts(most)
    _, ends = next((cut for cut in cuts if cut[0] ** 0.5 <= ALIKE_OCTAVES), cuts[-1])
    return tuple(int(cells.ends[end - 1]) for end in ends)


def joint_ends(isl_tokens: Ints, osl_tokens: Ints) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Upper ends of the classes of input, by what a prompt costs, and of output, by what an answer does, in tokens."""
    nothing = np.zeros_like(isl_tokens)
    return (
        class_ends(isl_tokens, relative_cost(isl_tokens, nothing)),
        class_ends(osl_tokens, relative_cost(nothing, osl_tokens)),
    )


@dataclass(frozen=True, slots=True)
class Split:
    """Two kinds of request: those of up to `at_tokens` of the length called `by` ('input' or 'output'), and the longer.

    `times_apart`: typical cost of a longer one over that of a shorter one; `explains`: share of the variance of
    log2(cost) that the cut explains; `long_share`, `long_cost_share`: the longer side's shares of requests and of cost.
    """

    by: str
    at_tokens: int
    times_apart: float
    explains: float
    long_share: float
    long_cost_share: float


def split(isl_tokens: Ints, osl_tokens: Ints) -> Split | None:
    """The cut by input or output length that parts two kinds of request most clearly; None where there are not two.

    Two are far enough apart for pools of their own when the cut explains SPLIT_EXPLAINS of the variance of log2(cost),
    their typical costs are SPLIT_OCTAVES apart, and the smaller side has SPLIT_SHARE of requests and of cost.
    """
    cost = relative_cost(isl_tokens, osl_tokens)
    found = (_cut(by, lengths, cost) for by, lengths in (("input", isl_tokens), ("output", osl_tokens)))
    apart = [cut for cut in found if cut is not None]
    return max(apart, key=lambda cut: cut.explains, default=None)


def _cut(by: str, lengths: Ints, cost: Floats) -> Split | None:
    cells = _Cells.of(lengths, cost)
    cuts = cells.cuts(2)
    if len(cuts) < 2 or cuts[0][0] <= 0:
        return None
    at = int(cells.ends[cuts[1][1][0] - 1])
    longer = lengths > at
    y = np.log2(cost)
    made = Split(
        by,
        at,
        float(2 ** (y[longer].mean() - y[~longer].mean())),
        1 - cuts[1][0] / cuts[0][0],
        float(longer.mean()),
        float(cost[longer].sum() / cost.sum()),
    )
    shares = (made.long_share, 1 - made.long_share, made.long_cost_share)
    apart = made.explains >= SPLIT_EXPLAINS and made.times_apart >= 2**SPLIT_OCTAVES and min(shares) >= SPLIT_SHARE
    return made if apart else None
