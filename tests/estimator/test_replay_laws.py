"""Laws every replay obeys, whatever the workload: nothing lost, nothing before its cause, nothing beyond the pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import OUTCOMES, EngineLimits, Replay, Workload, replay
from tests.estimator.replay_cases import constant_step, physical_step, roomy, workloads

TIGHT = EngineLimits(
    kv_blocks=24, block_tokens=4, max_num_seqs=8, max_num_batched_tokens=32, max_model_len=90, prefix_caching=True
)
PER_REQUEST = (
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "queue_s",
    "itl_max_s",
    "replica",
    "cached_tokens",
    "preemptions",
    "outcome",
)

fleets = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 3),
        "router": st.sampled_from(["least_load", "round_robin"]),
        "router_stale_s": st.sampled_from([0.0, 0.05]),
        "request_seconds": st.sampled_from([0.0, 0.01]),
        "clients": st.sampled_from([0, 0, 1, 5]),
    }
)


@settings(max_examples=80, deadline=None)
@given(workloads(4), fleets)
def test_every_request_ends_once_and_in_order_of_cause(workload: Workload, fleet: dict[str, object]) -> None:
    result = replay(workload, physical_step(), TIGHT, **fleet)
    served = result.outcome != OUTCOMES.index("rejected")
    too_long = (workload.isl_tokens >= TIGHT.max_model_len) | (workload.isl_tokens > TIGHT.kv_tokens)
    np.testing.assert_array_equal(served, ~too_long)
    for name in ("ttft_s", "e2e_s", "queue_s"):
        assert np.isfinite(getattr(result, name)[served]).all(), name
        assert np.isnan(getattr(result, name)[~served]).all(), name
    assert ((result.replica[served] >= 0) & (result.replica[served] < fleet["replicas"])).all()
    assert (result.replica[~served] == -1).all()
    assert (result.queue_s[served] >= 0).all()
    assert (result.ttft_s[served] > result.queue_s[served]).all()
    assert (result.e2e_s[served] >= result.ttft_s[served]).all()
    several = served & (result.osl_tokens > 1)
    decode_s = result.e2e_s[several] - result.ttft_s[several]
    np.testing.assert_allclose(result.tpot_s[several], decode_s / (result.osl_tokens[several] - 1))
    assert (result.itl_max_s[several] >= result.tpot_s[several] * (1 - 1e-9)).all()
    assert result.gap_counts.sum() == (result.osl_tokens[served] - 1).sum()


@settings(max_examples=80, deadline=None)
@given(workloads(4), fleets)
def test_no_engine_holds_more_than_its_pool_or_its_sequences(workload: Workload, fleet: dict[str, object]) -> None:
    unshared = replay(workload, physical_step(), replace(TIGHT, prefix_caching=False), **fleet)
    assert unshared.max_active_tokens <= TIGHT.kv_tokens
    # With shared prefixes tokens count for each request that holds them, blocks once.
    result = replay(workload, physical_step(), TIGHT, **fleet)
    assert 0 <= result.kv_usage_p99 <= 1
    assert result.running_mean <= TIGHT.max_num_seqs
    assert 0 <= result.busy_share <= 1
    assert (result.cached_tokens < workload.isl_tokens).all()


@settings(max_examples=30, deadline=None)
@given(workloads(4), fleets)
def test_the_same_input_gives_the_same_output(workload: Workload, fleet: dict[str, object]) -> None:
    once, again = (replay(workload, physical_step(), TIGHT, **fleet) for _ in range(2))
    for name in PER_REQUEST:
        np.testing.assert_array_equal(getattr(once, name), getattr(again, name), err_msg=name)


@settings(max_examples=60, deadline=None)
@given(workloads(4), st.booleans())
def test_an_engine_works_exactly_while_somebody_waits_for_it(workload: Workload, caching: bool) -> None:
    result = replay(workload, physical_step(), replace(TIGHT, prefix_caching=caching))
    served = np.isfinite(result.e2e_s)
    ends = np.maximum.accumulate((workload.arrival_s + result.e2e_s)[served])
    starts = np.maximum(workload.arrival_s[served], np.concatenate(([0.0], ends[:-1])))
    asked_s = np.maximum(0.0, ends - starts).sum()
    assert result.busy_share * result.makespan_s == pytest.approx(asked_s, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(workloads(4), fleets)
def test_a_machine_half_as_fast_under_half_the_rate_is_the_same_machine(
    workload: Workload, fleet: dict[str, object]
) -> None:
    # A step time has the unit of time throughout, so with powers of two not even the last bit may differ.
    slow = physical_step() * 2
    fleet = {**fleet, "router_stale_s": 0.0, "request_seconds": 0.0}
    fast_result = replay(workload, physical_step(), TIGHT, **fleet)
    slow_result = replay(workload.scaled(0.5), slow, TIGHT, **fleet)
    for name in ("ttft_s", "e2e_s", "queue_s", "itl_max_s"):
        np.testing.assert_array_equal(2 * getattr(fast_result, name), getattr(slow_result, name), err_msg=name)


def test_doubling_step_time_doubles_the_latency_of_requests_that_meet_nobody() -> None:
    lone = Workload.of(np.arange(20) * 100.0, np.arange(1, 21) * 50, np.arange(20, 0, -1))
    once = replay(lone, physical_step(), roomy())
    twice = replay(lone, physical_step() * 2, roomy())
    np.testing.assert_allclose(twice.ttft_s, 2 * once.ttft_s, rtol=1e-9)
    np.testing.assert_allclose(twice.e2e_s, 2 * once.e2e_s, rtol=1e-9)
    assert (once.queue_s == 0).all()


@settings(max_examples=40, deadline=None)
@given(workloads(4), st.data())
def test_what_comes_later_changes_nothing_before_it(workload: Workload, data: st.DataObject) -> None:
    full = replay(workload, physical_step(), TIGHT)
    at = data.draw(st.integers(1, len(workload)), label="requests kept")
    cut_s = workload.arrival_s[at - 1]
    kept = int(np.searchsorted(workload.arrival_s, cut_s, side="right"))
    part = replay(workload.window(0.0, np.nextafter(cut_s, np.inf)), physical_step(), TIGHT)
    first_s = workload.arrival_s[:kept] + full.ttft_s[:kept]
    known = first_s <= cut_s
    np.testing.assert_array_equal(full.ttft_s[:kept][known], part.ttft_s[known])


def squeezed(kv_blocks: int) -> Replay:
    """Two requests that fit alone and not together: the younger one is preempted after its first token."""
    pair = Workload.of([0.0, 0.0], [16, 16], [40, 40])
    limits = roomy(kv_blocks=kv_blocks, block_tokens=4)
    return replay(pair, constant_step(0.01), limits)


def test_a_later_preemption_leaves_the_first_token_where_it_was() -> None:
    free, tight = squeezed(100), squeezed(16)
    assert free.preemptions.sum() == 0
    np.testing.assert_array_equal(tight.preemptions, [0, 1])
    np.testing.assert_array_equal(tight.ttft_s, free.ttft_s)
    assert tight.e2e_s[0] == free.e2e_s[0]
    assert tight.e2e_s[1] > free.e2e_s[1]
    # Its client saw the gap: from the preemption until the first request had ended and it was computed again.
    assert tight.itl_max_s[1] > 10 * free.itl_max_s[1]
    assert tight.itl_s(1.0) == pytest.approx(tight.itl_max_s[1], rel=0.008)


def test_mean_running_is_arrival_rate_times_time_in_the_engine() -> None:
    rng = np.random.default_rng(1)
    w = Workload.of(np.cumsum(rng.exponential(0.05, 3000)), rng.integers(10, 500, 3000), rng.integers(1, 200, 3000))
    result = replay(w, physical_step(), roomy())
    in_engine_s = (result.e2e_s - result.queue_s).sum()
    assert result.running_mean == pytest.approx(in_engine_s / result.makespan_s, rel=1e-9)


def test_time_outside_the_engine_is_added_to_ttft_and_e2e_and_to_nothing_else() -> None:
    rng = np.random.default_rng(2)
    w = Workload.of(np.cumsum(rng.exponential(0.01, 300)), rng.integers(10, 500, 300), rng.integers(2, 50, 300))
    bare, dressed = (replay(w, physical_step(), roomy(), request_seconds=s) for s in (0.0, 0.25))
    np.testing.assert_allclose(dressed.ttft_s, bare.ttft_s + 0.25)
    np.testing.assert_allclose(dressed.e2e_s, bare.e2e_s + 0.25)
    np.testing.assert_array_equal(dressed.tpot_s, bare.tpot_s)
    np.testing.assert_array_equal(dressed.queue_s, bare.queue_s)


def test_an_answer_stops_where_the_context_does() -> None:
    w = Workload.of([0.0, 10.0, 20.0, 30.0], [90, 99, 100, 10], [100, 5, 5, 5])
    result = replay(w, constant_step(0.01), roomy(max_model_len=100))
    assert [OUTCOMES[o] for o in result.outcome] == ["capped", "capped", "rejected", "finished"]
    np.testing.assert_array_equal(result.osl_tokens, [10, 1, 0, 5])


def test_steady_state_leaves_out_warm_up_and_drain_by_arrival() -> None:
    w = Workload.of(np.arange(11) * 1.0, np.full(11, 10), np.full(11, 2))
    result = replay(w, constant_step(0.01), roomy())
    np.testing.assert_array_equal(np.flatnonzero(result.steady(warmup_s=2, drain_s=3)), np.arange(2, 8))
    assert result.steady().all()


def test_figures_of_the_fleet_can_be_kept_to_the_steady_part() -> None:
    busy_then_idle = Workload.of([0.0, 0.0, 100.0], [10, 10, 10], [100, 100, 1])
    whole = replay(busy_then_idle, constant_step(0.01), roomy())
    part = replay(busy_then_idle, constant_step(0.01), roomy(), account_to_s=1.0)
    assert part.busy_share == pytest.approx(1.0)
    assert part.running_mean == pytest.approx(2.0)
    assert whole.busy_share == pytest.approx(1.01 / 100.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": 0}, "replicas is 0"),
        ({"clients": -1}, "clients is -1"),
        ({"request_seconds": float("nan")}, "request_seconds"),
        ({"step": np.zeros(3)}, "STEP_FIELDS names"),
        ({"step": constant_step(0.0)}, "must be positive and finite"),
        ({"step": constant_step(np.nan)}, "must be positive and finite"),
    ],
)
def test_arguments_that_make_no_sense_are_named(change: dict[str, object], message: str) -> None:
    given_arguments = {"step": constant_step(0.01), "limits": roomy(), **change}
    with pytest.raises(ValueError, match=message):
        replay(Workload.of([0.0], [10], [10]), **given_arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_blocks": 0}, "kv_blocks is 0"),
        ({"max_num_batched_tokens": 10}, "below max_num_seqs"),
        ({"chunked_prefill": False}, "without chunked prefill"),
        ({"long_prefill_threshold": -1}, "long_prefill_threshold"),
    ],
)
def test_limits_no_engine_starts_with_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        roomy(**change)
