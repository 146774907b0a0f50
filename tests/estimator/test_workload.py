"""Workload shape: joint buckets, windows and the stretch to plan on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.workload import (
    busiest_window,
    full_window_rates,
    gap_variation,
    joint_buckets,
    window_counts,
)

LENGTHS = st.lists(st.tuples(st.integers(1, 3_000_000), st.integers(1, 200_000)), min_size=1, max_size=200)
GAPS = st.lists(st.floats(0, 5_000, allow_nan=False), min_size=2, max_size=300)


@given(LENGTHS)
def test_every_request_is_in_exactly_one_bucket_and_inside_its_bounds(lengths: list[tuple[int, int]]) -> None:
    isl = np.array([i for i, _ in lengths])
    osl = np.array([o for _, o in lengths])
    buckets = joint_buckets(isl, osl)
    assert sorted(np.concatenate([b.members for b in buckets]).tolist()) == list(range(len(lengths)))
    assert len({b.name for b in buckets}) == len(buckets)
    for b in buckets:
        assert (isl[b.members] >= b.isl_from_tokens).all() and (isl[b.members] <= b.isl_to_tokens).all()
        assert (osl[b.members] >= b.osl_from_tokens).all() and (osl[b.members] <= b.osl_to_tokens).all()


def test_two_traces_of_equal_mean_input_are_told_apart() -> None:
    """The trace-to-GPU method's example: half 100 and half 3,900 tokens is not all 2,000."""
    osl = np.full(100, 100)
    a = joint_buckets(np.array([100, 3_900] * 50), osl)
    b = joint_buckets(np.full(100, 2_000), osl)
    assert [len(x.members) for x in a] == [50, 50]
    assert [len(x.members) for x in b] == [100]


@given(GAPS, st.floats(0.5, 500))
def test_windows_lose_no_arrival(gaps: list[float], window_s: float) -> None:
    arrival_s = np.cumsum(gaps)
    assert window_counts(arrival_s, window_s).sum() == len(gaps)


@settings(deadline=None)
@given(GAPS, st.sampled_from([60.0, 600.0, 3600.0]))
def test_the_planning_window_lies_in_the_trace_and_counts_requests(gaps: list[float], window_s: float) -> None:
    arrival_s = np.cumsum(gaps)
    tokens = np.arange(1, len(gaps) + 1)
    found = busiest_window(arrival_s, tokens, window_s)
    assert arrival_s[0] <= found.warm_from_s <= found.start_s < found.end_s
    assert ((arrival_s >= found.start_s) & (arrival_s < found.end_s)).any() or arrival_s[-1] == arrival_s[0]


def test_the_busiest_window_is_where_the_tokens_are_not_where_the_requests_are() -> None:
    many_short = np.linspace(0, 3_600, 1_000, endpoint=False)
    few_long = np.linspace(36_000, 39_600, 200, endpoint=False)
    arrival_s = np.concatenate([many_short, few_long])
    tokens = np.concatenate([np.full(1_000, 100), np.full(200, 10_000)])
    found = busiest_window(arrival_s, tokens, 3_600.0)
    assert found.start_s == pytest.approx(36_000, abs=60)
    assert found.start_s - found.warm_from_s == pytest.approx(300)


def test_a_metronome_has_no_variation_and_poisson_has_one() -> None:
    assert gap_variation(np.arange(100.0)) == pytest.approx(0)
    poisson = np.cumsum(np.random.default_rng(1).exponential(1.0, 50_000))
    assert gap_variation(poisson) == pytest.approx(1, abs=0.02)
    assert gap_variation(np.array([1.0, 2.0])) is None


def test_rates_leave_out_the_window_that_was_cut_short() -> None:
    arrival_s = np.arange(0, 130, 1.0)
    assert full_window_rates(arrival_s, 60.0).tolist() == [1.0, 1.0]
