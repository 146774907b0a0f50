"""What a fleet may have beyond equal engines: each option by what it is for, all by what they must not break."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import (
    OUTCOMES,
    Adapters,
    Outage,
    Speculation,
    Tier,
    Workload,
    crash,
    replay,
    rolling_upgrade,
    scale_schedule,
)
from estimator.replay.arrivals import poisson
from tests.estimator.replay_cases import constant_step, physical_step, roomy, workloads

STEP_S = 0.01


def steady(n: int, rate_rps: float, isl: int = 20, osl: int = 50) -> Workload:
    return Workload.of(np.arange(n) / rate_rps, np.full(n, isl), np.full(n, osl))


@settings(max_examples=60, deadline=None)
@given(
    workloads(4), st.integers(1, 4), st.booleans(), st.sampled_from(["round_robin", "least_load", "prefix"]), st.data()
)
def test_no_request_is_forgotten_when_replicas_come_and_go(
    workload: Workload, replicas: int, resend: bool, router: str, data: st.DataObject
) -> None:
    moments = st.floats(0, 3)
    outages = []
    for r in range(replicas):
        if data.draw(st.booleans()):
            from_s, drain_s, away_s = data.draw(moments), data.draw(moments), data.draw(st.floats(0.01, 3))
            back_s = math.inf if data.draw(st.booleans()) else from_s + drain_s + away_s
            outages.append(Outage(r, from_s, from_s + drain_s, back_s))
    limits = roomy(kv_blocks=30, block_tokens=4, max_model_len=100, max_num_seqs=6, prefix_caching=True)
    result = replay(
        workload,
        physical_step(),
        limits,
        replicas=replicas,
        router=router,  # type: ignore[arg-type]
        outages=outages,
        resend=resend,
    )
    finished = np.isin(result.outcome, [OUTCOMES.index("finished"), OUTCOMES.index("capped")])
    lost = result.outcome == OUTCOMES.index("lost")
    np.testing.assert_array_equal(np.isfinite(result.e2e_s), finished)
    assert (finished | lost).all()
    if (resend and any(math.isfinite(o.back_s) for o in outages)) or (len(outages) < replicas and resend):
        assert finished.all()
    for o in outages:
        ended_s = (result.arrival_s + result.e2e_s)[(result.replica == o.replica) & finished]
        assert not ((ended_s > o.gone_s) & (ended_s < o.back_s)).any()
    assert (result.ttft_s[finished] <= result.e2e_s[finished]).all()


def test_requests_of_a_crashed_replica_start_over_at_another_or_are_lost() -> None:
    w = steady(20, 10.0, osl=100)
    outage = [crash(0, 0.55, ready_s=5.0)]
    kept = replay(w, constant_step(STEP_S), roomy(), replicas=2, router="round_robin", outages=outage)
    again = kept.sends > 1
    np.testing.assert_array_equal(np.flatnonzero(again), [0, 2, 4])
    # They begin anew at 0.55 s, in a step of the other engine, and need a hundred steps.
    assert (kept.arrival_s + kept.e2e_s)[again] == pytest.approx(0.55 + 1.0, abs=2 * STEP_S)
    assert (kept.replica[:] == 1)[5:].all()
    lost = replay(w, constant_step(STEP_S), roomy(), replicas=2, router="round_robin", outages=outage, resend=False)
    np.testing.assert_array_equal(np.flatnonzero(lost.outcome == OUTCOMES.index("lost")), [0, 2, 4])


def test_a_drained_replica_loses_nothing_and_comes_back_cold() -> None:
    n = 40
    w = Workload.of(np.arange(n) * 1.0, np.full(n, 53), np.full(n, 10), np.arange(n + 1) * 3, np.tile([1, 2, 3], n), 16)
    limits = roomy(prefix_caching=True)
    upgrade = rolling_upgrade(2, start_s=10.0, drain_s=2.0, ready_s=5.0)
    result = replay(w, constant_step(STEP_S), limits, replicas=2, router="round_robin", outages=upgrade)
    assert (result.sends == 1).all()
    assert not ((result.replica == 0) & (result.arrival_s >= 10.0) & (result.arrival_s < 17.0)).any()
    cold = np.flatnonzero(result.cached_tokens == 0)
    np.testing.assert_array_equal(result.arrival_s[cold], [0.0, 1.0, 17.0, 24.0])


def test_requests_wait_for_a_replica_when_none_is_open() -> None:
    w = steady(10, 10.0, osl=1)
    result = replay(w, constant_step(STEP_S), roomy(), outages=[crash(0, 0.25, ready_s=3.0)])
    assert result.ttft_s[5] == pytest.approx(3.25 - 0.5 + STEP_S)


def test_scaling_up_takes_the_ready_time_and_scaling_down_drains() -> None:
    most, outages = scale_schedule([(0.0, 1), (10.0, 3), (20.0, 2)], ready_s=4.0, drain_s=1.0)
    assert most == 3
    assert [(o.replica, o.from_s, o.gone_s, o.back_s) for o in outages] == [
        (1, 0.0, 0.0, 14.0),
        (2, 0.0, 0.0, 14.0),
        (2, 20.0, 21.0, math.inf),
    ]
    used = replay(
        steady(300, 10.0, osl=2), constant_step(STEP_S), roomy(), replicas=most, router="round_robin", outages=outages
    )
    open_at = [
        set(used.replica[(used.arrival_s >= a) & (used.arrival_s < b)]) for a, b in ((0, 14), (14, 20), (20, 31))
    ]
    assert open_at == [{0}, {0, 1, 2}, {0, 1}]


def test_the_prefix_router_sends_a_conversation_where_its_past_is() -> None:
    n, users = 400, 20
    rng = np.random.default_rng(1)
    user = rng.integers(0, users, n)
    ids = (user[:, None] * 100 + np.arange(8)).ravel()
    w = Workload.of(poisson(n, 5.0, 1), np.full(n, 130), np.full(n, 20), np.arange(n + 1) * 8, ids, 16)
    found = {
        router: replay(w, physical_step(), roomy(prefix_caching=True), replicas=4, router=router).cached_tokens.sum()
        for router in ("round_robin", "least_load", "prefix")
    }
    # A conversation is new to one replica once, and to the others up to once each.
    assert found["prefix"] == (n - users) * 128
    assert found["prefix"] > found["round_robin"] and found["prefix"] > found["least_load"]


@settings(max_examples=40, deadline=None)
@given(workloads(4), st.integers(2, 64))
def test_the_time_series_adds_up_to_the_totals(workload: Workload, bins: int) -> None:
    limits = roomy(kv_blocks=25, block_tokens=4, max_model_len=100, max_num_seqs=4)
    result = replay(workload, physical_step(), limits, series_bins=bins)
    series = result.series
    assert series is not None and len(series.start_s) <= bins
    whole_s = series.bin_s
    assert series.running.sum() * whole_s == pytest.approx(result.running_mean * result.makespan_s)
    assert series.busy_share.sum() * whole_s == pytest.approx(result.busy_share * result.makespan_s)
    assert series.preemptions.sum() == result.preemptions.sum()
    busy_s = series.busy_share.sum() * whole_s
    for name, share in result.waits_share.items():
        assert series.waits_share[name].sum() * whole_s == pytest.approx(share * busy_s, abs=1e-9)
    assert (series.kv_usage <= 1 + 1e-9).all() and (series.running <= limits.max_num_seqs + 1e-9).all()
    without = replay(workload, physical_step(), limits)
    np.testing.assert_array_equal(without.e2e_s, result.e2e_s)


def test_the_time_series_says_when_which_limit_bound() -> None:
    # Two requests a step's worth for 10 s, then a burst that max_num_seqs holds back, then silence.
    w = Workload.of([*np.arange(100) / 10, *np.full(50, 10.0), 30.0], [20] * 151, [10] * 100 + [100] * 50 + [1])
    series = replay(w, constant_step(STEP_S), roomy(max_num_seqs=10), series_bins=64).series
    assert series is not None
    bound = series.binding()
    at = [int(s / series.bin_s) for s in (5.0, 11.0, 25.0)]
    assert [bound[i] for i in at] == ["none", "max_num_seqs", "none"]
    assert series.waiting[at[1]] > 20 and series.running[at[1]] == pytest.approx(10, rel=0.01)


def test_a_warm_cache_is_found_from_the_first_request_on() -> None:
    ids = [1, 2, 3, 1, 2, 3]
    w = Workload.of([0.0, 1.0], [53, 53], [2, 2], [0, 3, 6], ids, 16)
    limits = roomy(prefix_caching=True, kv_blocks=100)
    assert replay(w, constant_step(STEP_S), limits).cached_tokens.tolist() == [0, 48]
    warm = replay(w, constant_step(STEP_S), limits, warm_hashes=np.arange(3))
    assert warm.cached_tokens.tolist() == [48, 48]
    # Of more than fit, the last stay.
    tight = roomy(prefix_caching=True, kv_blocks=4)
    assert replay(w, constant_step(STEP_S), tight, warm_hashes=np.asarray([2, 1, 0])).cached_tokens[0] == 48


@pytest.mark.parametrize("where", ["host", "remote"])
def test_what_the_device_forgot_is_loaded_from_a_tier_and_takes_its_time(where: str) -> None:
    a, b = (1, 2, 3), (11, 12, 13)
    ids = [*a, *b, *a]
    w = Workload.of([0.0, 10.0, 20.0], [53] * 3, [2] * 3, [0, 3, 6, 9], ids, 16)
    small = roomy(prefix_caching=True, kv_blocks=5)
    tier = Tier(blocks=100, seconds_per_block=0.1, lookup_seconds=0.05)
    result = replay(w, constant_step(STEP_S), small, **{where: tier})  # type: ignore[arg-type]
    # Two blocks of the first prompt went for the second one; the deepest go first.
    on_device = replay(w, constant_step(STEP_S), small).cached_tokens[2]
    loaded = result.host_tokens[2] + result.remote_tokens[2]
    assert result.cached_tokens[2] == 48 and loaded == 48 - on_device > 0
    assert result.ttft_s[2] == pytest.approx(STEP_S + 0.05 + loaded / 16 * 0.1)


def test_accepted_drafts_shorten_answers_by_as_much() -> None:
    n = 300
    w = steady(n, 2.0, osl=200)
    plain = replay(w, constant_step(STEP_S), roomy())
    drafted = replay(w, constant_step(STEP_S), roomy(), speculation=Speculation.per_token(3, 0.7, seed=1))
    # Tokens a step: 1 + 0.7 + 0.49 + 0.343 (arXiv:2211.17192, equation 1).
    assert plain.tpot_s.mean() / drafted.tpot_s.mean() == pytest.approx(2.533, rel=0.01)
    never = replay(w, constant_step(STEP_S), roomy(), speculation=Speculation.per_token(3, 0.0))
    np.testing.assert_allclose(never.e2e_s, plain.e2e_s)
    again = replay(w, constant_step(STEP_S), roomy(), speculation=Speculation.per_token(3, 0.7, seed=1))
    np.testing.assert_array_equal(again.e2e_s, drafted.e2e_s)


def test_fewer_adapters_in_a_batch_than_are_asked_for_make_a_queue_that_others_pass() -> None:
    n = 60
    w = Workload.of(np.zeros(n), np.full(n, 10), np.full(n, 20)).asking(adapter=np.arange(n) % 6)
    one, six = (replay(w, constant_step(STEP_S), roomy(), adapters=Adapters(most, load_seconds=0.1)) for most in (1, 6))
    assert six.makespan_s == pytest.approx(20 * STEP_S + 6 * 0.1)
    assert one.makespan_s == pytest.approx(6 * (20 * STEP_S + 0.1))
    assert one.waits_share["max_loras"] > 0.8
    np.testing.assert_array_equal(np.argsort(one.ttft_s, kind="stable")[:10] % 6, 0)


def test_urgent_requests_pass_the_queue() -> None:
    n = 200
    urgent = np.arange(n) % 10 == 0
    w = steady(n, 100.0, osl=20).asking(priority=np.where(urgent, 0, 1))
    limits = roomy(max_num_seqs=4, priority_scheduling=True)
    result = replay(w, constant_step(STEP_S), limits)
    assert result.queue_s[urgent].max() < result.queue_s[~urgent].mean() / 4
    fcfs = replay(w, constant_step(STEP_S), roomy(max_num_seqs=4))
    assert result.makespan_s == pytest.approx(fcfs.makespan_s)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tier(-1, 0.0), "must not be negative"),
        (lambda: Tier.of_bytes(2**30, 0.0, 1e9), "not a tier"),
        (lambda: Speculation((0.5, 0.6)), "add up to 1"),
        (lambda: Speculation.per_token(0, 0.5), "at least 1"),
        (lambda: Speculation.per_token(40, 0.5), "at most 31"),
        (lambda: Adapters(0), "at least 1"),
        (lambda: Outage(0, 5.0, 4.0), "from_s <= gone_s"),
        (lambda: scale_schedule([(1.0, 2)], 1.0, 1.0), "rise from 0"),
        (lambda: scale_schedule([(0.0, 0)], 1.0, 1.0), "at least one"),
        (lambda: rolling_upgrade(2, 0.0, 1.0, 1.0, at_once=0), "at_once"),
        (lambda: steady(3, 1.0).asking(patience_s=0.0), "above 0 seconds"),
        (lambda: steady(3, 1.0).asking(adapter=-2), "from -1"),
        (lambda: replay(steady(3, 1.0), constant_step(0.1), roomy(), outages=[crash(1, 0.0, 1.0)]), "1 replicas"),
        (
            lambda: replay(
                steady(3, 1.0), constant_step(0.1), roomy(), outages=[crash(0, 0.0, 2.0), crash(0, 1.0, 2.0)]
            ),
            "out already",
        ),
        (lambda: replay(steady(3, 1.0), constant_step(0.1), roomy(), outages=[crash(0, 0, 1)], clients=1), "open loop"),
        (lambda: replay(steady(3, 1.0), constant_step(0.1), roomy(), series_bins=1), "series_bins"),
        (lambda: replay(steady(3, 1.0), constant_step(0.1), roomy(), warm_hashes=np.arange(1)), "warm start"),
    ],
)
def test_options_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
