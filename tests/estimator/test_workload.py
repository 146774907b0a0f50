"""Workload shape: joint buckets, windows and the stretch to plan on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.workload import (
    busiest_window,
    count_dispersion,
    full_window_rates,
    gap_variation,
    joint_buckets,
    seasons,
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


def test_counts_show_bursts_that_gaps_alone_do_not() -> None:
    """Both have Poisson's gaps inside their busy stretches; one is quiet for every other ten minutes."""
    rng = np.random.default_rng(2)
    steady = np.cumsum(rng.exponential(1.0, 20_000))
    stretched = steady + np.floor(steady / 600) * 600
    even, bursty = count_dispersion(steady, 60.0), count_dispersion(stretched, 60.0)
    assert even == pytest.approx(1, abs=0.2)
    assert bursty is not None and bursty > 10
    assert count_dispersion(steady[:100], 60.0) is None


MONDAY_S = 1_767_571_200.0  # 2026-01-05 00:00 UTC


def test_a_season_is_a_rate_over_the_time_the_trace_spends_in_it() -> None:
    """Nine days, so Monday and Tuesday come twice: twice the requests, the same rate."""
    arrival_s = np.arange(0, 9 * 86_400, 60.0)
    found = {(s.period, s.slot): s for s in seasons(MONDAY_S, arrival_s)}
    assert len(found) == 24 + 7
    assert found["weekday", 0].requests == 2 * found["weekday", 2].requests
    assert {round(s.factor, 2) for s in found.values()} == {1.0}
    assert sum(s.requests for s in found.values() if s.period == "hour") == len(arrival_s)


def test_the_busy_hour_and_the_quiet_weekday_stand_out() -> None:
    second = np.arange(0, 14 * 86_400, 30.0)
    keep = np.where((second // 3_600) % 24 == 9, 1.0, 0.2) * np.where((second // 86_400) % 7 == 6, 0.1, 1.0)
    arrival_s = second[np.random.default_rng(3).random(len(second)) < keep]
    first = float(arrival_s[0])
    found = seasons(MONDAY_S + first, arrival_s - first)
    hours = [s for s in found if s.period == "hour"]
    weekdays = [s for s in found if s.period == "weekday"]
    assert max(hours, key=lambda s: s.factor).slot == 9 and min(weekdays, key=lambda s: s.factor).slot == 6


def test_where_an_hour_or_a_weekday_was_not_seen_there_are_none_to_compare() -> None:
    assert seasons(MONDAY_S, np.arange(0, 80_000, 60.0)) == []
    assert {s.period for s in seasons(MONDAY_S, np.arange(0, 3 * 86_400, 60.0))} == {"hour"}


@given(GAPS, st.floats(0, 1e9))
def test_seasons_count_every_arrival_and_every_hour(gaps: list[float], start_s: float) -> None:
    arrival_s = np.cumsum(gaps) - gaps[0]
    for period in ("hour", "weekday"):
        found = [s for s in seasons(start_s, arrival_s) if s.period == period]
        if found:
            assert sum(s.requests for s in found) == len(arrival_s)
            assert sum(s.covered_h for s in found) == pytest.approx(arrival_s[-1] / 3_600)
