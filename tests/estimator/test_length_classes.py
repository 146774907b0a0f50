"""Length classes: cost is alike inside them, they follow the data, and kinds far apart are told."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.length_classes import (
    ALIKE_OCTAVES,
    MOST_CLASSES,
    class_ends,
    joint_ends,
    lattice_tokens,
    relative_cost,
    split,
)

LENGTHS = st.lists(st.tuples(st.integers(1, 2_000_000), st.integers(1, 200_000)), min_size=1, max_size=120)
TRACE_A = (np.array([100, 3_900] * 500), np.full(1_000, 100))
TRACE_B = (np.full(1_000, 2_000), np.full(1_000, 100))
"""The trace-to-GPU method's two traces: one mean input, two workloads."""


def test_a_mean_does_not_tell_the_two_traces_apart_but_their_classes_do() -> None:
    assert TRACE_A[0].mean() == TRACE_B[0].mean() and TRACE_A[1].mean() == TRACE_B[1].mean()
    assert [len(ends) for ends in joint_ends(*TRACE_A)] == [2, 1]
    assert [len(ends) for ends in joint_ends(*TRACE_B)] == [1, 1]


def test_two_kinds_far_apart_are_told_and_one_kind_is_not_parted() -> None:
    found = split(*TRACE_A)
    assert found is not None
    assert found.by == "input" and 100 <= found.at_tokens < 3_900
    assert found.long_share == 0.5 and found.long_cost_share > 0.85 and found.times_apart > 8
    assert split(*TRACE_B) is None


@pytest.mark.parametrize("deviation", [0.2, 0.9, 1.6])
def test_one_wide_bell_of_lengths_is_no_reason_for_two_pools(deviation: float) -> None:
    rng = np.random.default_rng(4)
    isl = np.clip(rng.lognormal(6.5, deviation, 4_000), 1, 200_000).astype(np.int64)
    osl = np.clip(rng.lognormal(5.0, 0.5, 4_000), 1, 20_000).astype(np.int64)
    assert split(isl, osl) is None


def test_long_answers_to_short_questions_part_by_output() -> None:
    rng = np.random.default_rng(5)
    isl = np.clip(rng.lognormal(5.0, 0.3, 2_000), 1, None).astype(np.int64)
    osl = np.where(np.arange(2_000) % 4 == 0, 6_000, 40) + rng.integers(0, 20, 2_000)
    found = split(isl, osl)
    assert found is not None and found.by == "output" and 60 <= found.at_tokens < 6_000


@given(LENGTHS)
def test_classes_hold_every_length_and_rise(lengths: list[tuple[int, int]]) -> None:
    isl, osl = (np.array(side) for side in zip(*lengths, strict=True))
    for values, ends in zip((isl, osl), joint_ends(isl, osl), strict=True):
        assert len(ends) <= MOST_CLASSES and list(ends) == sorted(set(ends)) and ends[-1] >= values.max()
        assert set(ends) <= set(lattice_tokens(int(values.max())).tolist())


@given(LENGTHS)
def test_cost_is_alike_inside_a_class_unless_no_more_classes_may_be(
    lengths: list[tuple[int, int]],
) -> None:
    isl = np.array([i for i, _ in lengths])
    cost = relative_cost(isl, np.zeros_like(isl))
    ends = class_ends(isl, cost)
    weights = 0.5 / len(isl) + 0.5 * cost / cost.sum()
    y, at = np.log2(cost), np.searchsorted(ends, isl)
    centre = np.bincount(at, weights * y) / np.maximum(np.bincount(at, weights), 1e-300)
    left = float((weights * (y - centre[at]) ** 2).sum()) ** 0.5
    assert left <= ALIKE_OCTAVES + 1e-9 or len(ends) == MOST_CLASSES


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.integers(1, 4))
def test_no_other_cut_leaves_less_spread(lengths: list[int], most: int) -> None:
    """Against every way to cut, tried one by one."""
    isl = np.array(lengths)
    cost = relative_cost(isl, np.zeros_like(isl))
    weights, y = 0.5 / len(isl) + 0.5 * cost / cost.sum(), np.log2(cost)
    lattice = lattice_tokens(int(isl.max()))
    cells = np.unique(np.searchsorted(lattice, isl))

    def spread(ends: tuple[int, ...]) -> float:
        at = np.searchsorted(lattice[list(ends)], isl)
        total = 0.0
        for group in set(at.tolist()):
            inside = at == group
            mean = np.average(y[inside], weights=weights[inside])
            total += float((weights[inside] * (y[inside] - mean) ** 2).sum())
        return total

    found = class_ends(isl, cost, most)
    classes = len(found)
    every = ((*cut, cells[-1]) for cut in itertools.combinations(cells[:-1], classes - 1))
    least = min(spread(cut) for cut in every)
    assert spread(tuple(np.searchsorted(lattice, found))) == pytest.approx(least, abs=1e-9)


def test_an_output_token_costs_more_than_an_input_token_and_long_contexts_more_a_token() -> None:
    one = relative_cost(np.array([1_000, 2_000, 100_000, 1]), np.array([0, 0, 0, 1_000]))
    assert one[3] > one[0]
    assert one[2] / 100_000 > one[1] / 2_000 > one[0] / 1_000
