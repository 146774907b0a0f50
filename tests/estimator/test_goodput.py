"""What a promise means, and the largest rate that keeps it: known where queues are, cautious where they are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.goodput import Goodput, ServiceLevel, goodput, goodput_of, queue_growth
from estimator.replay import Handoff, Pool, Replay, Workload, replay, replay_separated
from estimator.replay.arrivals import evenly_spaced, poisson
from tests.estimator.replay_cases import constant_step, physical_step, roomy

STEP_S = 0.01


def served(ttft_s: list[float], tpot_s: list[float] | None = None, e2e_s: list[float] | None = None) -> Replay:
    """A replay with these latencies: each request alone on a constant step, then overwritten."""
    n = len(ttft_s)
    result = replay(Workload.of(np.arange(n) * 10.0, [5] * n, [5] * n), constant_step(STEP_S), roomy())
    for name, values in (("ttft_s", ttft_s), ("tpot_s", tpot_s), ("e2e_s", e2e_s)):
        if values is not None:
            object.__setattr__(result, name, np.asarray(values))
    return result


def one_server(n: int, rate_rps: float, seed: int = 1) -> Workload:
    """One-token answers, one at a time: a queue whose capacity is one request a step."""
    return Workload.of(poisson(n, rate_rps, seed), np.full(n, 5), np.full(n, 1))


def search(workload: Workload, slo: ServiceLevel, **options: object) -> Goodput:
    return goodput(workload, constant_step(STEP_S), roomy(max_num_seqs=1), slo, **options)


def test_a_percentile_is_a_latency_somebody_had() -> None:
    result = served([float(i) for i in range(1, 101)])
    slo = ServiceLevel(ttft_s={0.5: 50.0, 0.99: 99.0}, attainment=0.5)
    assert [(t.name, t.figure) for t in slo.targets(result)[:2]] == [("ttft_p50", 50.0), ("ttft_p99", 99.0)]
    assert slo.meets(result)
    assert not ServiceLevel(ttft_s={0.99: 98.9}, attainment=0.5).meets(result)


def test_a_request_attains_only_when_every_latency_is_within_its_limit() -> None:
    result = served([1.0, 3.0, 1.0, 1.0], [0.1, 0.1, 0.3, np.nan], [5.0, 5.0, 5.0, 20.0])
    assert ServiceLevel({0.99: 2.0}, {0.99: 0.2}).attained(result) == 0.5
    np.testing.assert_array_equal(
        ServiceLevel({0.99: 2.0}, {0.99: 0.2}, {0.9: 10.0}).attaining(result), [True, False, False, False]
    )


def test_the_limit_of_the_largest_quantile_is_the_one_a_request_must_keep() -> None:
    result = served([1.0, 1.0, 1.0, 4.0])
    assert ServiceLevel({0.5: 1.0, 0.99: 5.0}).attained(result) == 1.0


def test_a_rejected_request_misses_and_is_infinitely_slow() -> None:
    w = Workload.of(np.arange(100) * 1.0, [5] * 98 + [500] * 2, [5] * 100)
    result = replay(w, constant_step(STEP_S), roomy(max_model_len=100))
    slo = ServiceLevel({0.99: 10.0}, attainment=0.99)
    assert slo.attained(result) == 0.98
    assert not slo.meets(result)
    assert slo.binding(result) == ("ttft_p99", -1.0)
    assert ServiceLevel({0.95: 10.0}, attainment=0.95).meets(result)


def test_the_target_with_the_least_margin_binds() -> None:
    result = served([1.0] * 4, [0.1] * 4, [4.0] * 4)
    assert ServiceLevel({0.99: 2.0}, {0.99: 0.15}, {0.9: 10.0}).binding(result) == ("tpot_p99", pytest.approx(0.5))
    late = served([1.0, 1.0, 1.0, 9.0])
    assert ServiceLevel({0.5: 2.0}, attainment=0.9).binding(late) == ("attainment", pytest.approx(0.1 / 0.25 - 1))


def test_only_counted_requests_count() -> None:
    result = served([9.0, 1.0, 1.0])
    slo = ServiceLevel({0.99: 2.0})
    assert not slo.meets(result)
    assert slo.meets(result, np.asarray([False, True, True]))
    with pytest.raises(ValueError, match="no request counts"):
        slo.meets(result, np.zeros(3, dtype=bool))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a limit"),
        ({"ttft_s": {99: 1.0}}, "quantile 99"),
        ({"ttft_s": {0.99: 0.0}}, "limit 0.0 s"),
        ({"tpot_s": {0.99: float("inf")}}, "limit inf s"),
        ({"ttft_s": {0.99: 1.0}, "attainment": 0.0}, "attainment 0.0"),
    ],
)
def test_a_promise_nobody_can_keep_or_break_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServiceLevel(**arguments)  # type: ignore[arg-type]


def test_goodput_of_one_server_is_where_its_tail_meets_the_limit() -> None:
    # M/D/1: wait above t has a tail of exp(-theta t) with rate = theta / (exp(theta s) - 1); at theta = 50/s, the
    # 99.9th percentile of the wait is near ln(prefactor / 0.001) / 50. Found by the search, checked by a replay.
    slo = ServiceLevel({0.99: 0.1}, attainment=0.99)
    w = one_server(100_000, 50.0)
    found = search(w, slo)
    assert found.monotone and not found.saturated and not found.unreachable
    assert found.binding == "ttft_p99"
    assert 0 <= found.margin_ratio < 0.2
    assert slo.meets(found.replay)
    over = replay(w.scaled(1.03 * found.rate_rps / w.rate_rps), constant_step(STEP_S), roomy(max_num_seqs=1))
    assert not slo.meets(over)
    # Well short of the 100 requests a second it serves when nobody minds waiting.
    assert 75 < found.rate_rps < 95


def test_goodput_of_a_metronome_is_the_service_rate() -> None:
    n = 5000
    w = Workload.of(evenly_spaced(n, 10.0), np.full(n, 5), np.full(n, 1))
    found = search(w, ServiceLevel({0.99: 0.015}))
    assert found.rate_rps == pytest.approx(1 / STEP_S, rel=0.025)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 1000.0))
def test_where_the_search_starts_does_not_matter(guess_rps: float) -> None:
    slo = ServiceLevel({0.99: 0.1})
    w = one_server(5000, 50.0)
    assert search(w, slo, guess_rps=guess_rps).rate_rps == pytest.approx(search(w, slo).rate_rps, rel=0.02)


def test_a_tighter_promise_never_yields_more() -> None:
    w = one_server(10_000, 50.0)
    rates = [search(w, ServiceLevel({0.99: limit})).rate_rps for limit in (0.03, 0.05, 0.1, 0.3)]
    assert rates == sorted(rates)
    assert rates[0] < 0.8 * rates[-1]


def test_a_promise_broken_next_to_idle_is_unreachable_and_says_by_how_much() -> None:
    found = search(one_server(2000, 50.0), ServiceLevel({0.99: 0.008}))
    assert found.unreachable and found.rate_rps == 0
    assert found.binding == "ttft_p99"
    assert "ttft_p99 is" in found.reason and "limit 8 ms" in found.reason
    assert len(found.evaluations) <= 3
    too_long = Workload.of(np.arange(100) * 1.0, [5] * 90 + [500] * 10, [5] * 100)
    refused = goodput(too_long, constant_step(STEP_S), roomy(max_model_len=100), ServiceLevel({0.99: 10.0}))
    assert refused.unreachable and "10 of 100 requests are longer" in refused.reason


def test_a_short_window_does_not_hide_overload_behind_a_patient_promise() -> None:
    # Ten seconds of waiting allowed, six seconds of requests: no rate breaks the target, but above 100 requests a
    # second queues grow for as long as it lasts.
    w = one_server(600, 100.0)
    found = search(w, ServiceLevel({0.99: 10.0}))
    assert found.rate_rps < 110
    over = replay(w.scaled(2.0 * 100 / w.rate_rps), constant_step(STEP_S), roomy(max_num_seqs=1))
    assert ServiceLevel({0.99: 10.0}).meets(over)
    assert queue_growth(over) == pytest.approx(1.0, rel=0.1)


def test_a_workload_too_light_to_find_a_limit_is_flagged() -> None:
    w = Workload.of(np.arange(20) * 1.0, [5] * 20, [50] * 20)
    found = goodput(w, constant_step(STEP_S), roomy(), ServiceLevel({0.99: 1.0}))
    assert found.saturated


def test_warm_up_takes_out_the_same_requests_at_every_rate() -> None:
    cold = Workload.of(np.concatenate(([0.0] * 200, np.arange(1, 2001) * 0.1)), np.full(2200, 5), np.full(2200, 1))
    slo = ServiceLevel({0.99: 0.05})
    assert search(cold, slo).unreachable
    warm = search(cold, slo, warmup_s=10.0)
    assert int(warm.counted.sum()) == 1901
    assert warm.rate_rps > 20


def test_the_cap_on_evaluations_is_kept() -> None:
    found = search(one_server(3000, 50.0), ServiceLevel({0.99: 0.1}), max_evaluations=6, guess_rps=1e-3)
    assert len(found.evaluations) == 6
    assert found.rate_rps == max(e.rate_rps for e in found.evaluations if e.feasible)
    # Out of replays before the limit was near: not passed off as found.
    assert found.failed_rps > found.rate_rps * (1 + found.tolerance) and not found.found


def test_the_search_ends_within_its_tolerance() -> None:
    found = goodput(
        Workload.of(poisson(3000, 2.0, 1), np.full(3000, 300), np.full(3000, 50)),
        physical_step(),
        roomy(max_num_batched_tokens=2048, max_num_seqs=64),
        ServiceLevel({0.99: 2.0}, {0.99: 0.1}),
        tolerance=0.01,
    )
    assert found.found and found.monotone and found.tolerance == 0.01
    assert found.failed_rps == min(e.rate_rps for e in found.evaluations if not e.feasible)
    assert found.rate_rps < found.failed_rps <= found.rate_rps * 1.01


@pytest.mark.parametrize(
    ("holds", "answer_rps", "monotone"),
    [
        (lambda rate: rate < 60, 60.0, True),
        # Holds again just above the first failure: the answer stays below it, and is said to be doubtful.
        (lambda rate: rate < 60 or 64 < rate < 70, 60.0, False),
        # Fails just below what seemed to be the limit: the search goes down, and says so.
        (lambda rate: rate < 50 or 56 < rate < 60, 50.0, False),
    ],
)
def test_a_search_that_was_fooled_answers_below_the_lowest_failure_and_says_so(
    holds: Callable[[float], bool], answer_rps: float, monotone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meets(_: ServiceLevel, result: Replay, counted: np.ndarray) -> bool:
        return holds((len(result.arrival_s) - 1) / float(result.arrival_s[-1] - result.arrival_s[0]))

    monkeypatch.setattr(ServiceLevel, "meets", meets)
    found = search(one_server(2000, 58.0), ServiceLevel({0.99: 1.0}), guess_rps=57.0)
    assert found.monotone == monotone and found.found == monotone
    assert answer_rps / 1.02 <= found.rate_rps < answer_rps


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_evaluations": 3}, "evaluations"),
        ({"warmup_s": 1e9}, "no request counts"),
    ],
)
def test_a_search_that_cannot_work_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(one_server(100, 50.0), ServiceLevel({0.99: 0.1}), **arguments)
    with pytest.raises(ValueError, match="at least 2 requests"):
        search(Workload.of([0.0, 0.0], [5, 5], [5, 5]), ServiceLevel({0.99: 0.1}))


def test_ranks_in_lockstep_have_a_goodput_as_one() -> None:
    """Four ranks that each serve one request a step, and a router that knows them, serve four times as many."""
    w = one_server(20_000, 50.0)
    slo = ServiceLevel({0.99: 0.1})
    limits, step = roomy(max_num_seqs=1), constant_step(STEP_S)
    alone = search(w, slo).rate_rps
    together = goodput_of(lambda played: replay(played, step, limits, ranks=4), w, slo, alone_s=STEP_S)
    assert together.found
    assert 3.9 * alone < together.rate_rps < 4 / STEP_S


@pytest.mark.parametrize(("prompts_at_once", "answers_at_once", "limit_rps"), [(1, 2, 20.0), (1, 64, 100.0)])
def test_two_pools_serve_what_the_busier_of_them_can(
    prompts_at_once: int, answers_at_once: int, limit_rps: float
) -> None:
    """A prompt takes a step of 10 ms, an answer ten. Clients have their first token before the decode pool is asked:
    that it falls behind shows in the waits between the pools alone."""
    w = Workload.of(evenly_spaced(4000, 10.0), np.full(4000, 5), np.full(4000, 11))
    prefill, decode = (
        Pool(constant_step(STEP_S), roomy(max_num_seqs=seats)) for seats in (prompts_at_once, answers_at_once)
    )
    way = Handoff(1.0, 1e9, first_token="prefill")
    slo = ServiceLevel({0.99: 1.0})
    found = goodput_of(lambda played: replay_separated(played, prefill, decode, way).waiting, w, slo, alone_s=0.11)
    assert found.found
    assert found.rate_rps == pytest.approx(limit_rps, rel=0.05)
