"""Settings whose answer is known without a computer: queues with one server, steady decoding, chunked prompts."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.replay import Workload, replay
from estimator.replay.arrivals import evenly_spaced, gamma, poisson, spread_over_grid
from tests.estimator.replay_cases import constant_step, roomy, step_of

STEP_S = 0.01


def one_server_wait_s(rate_rps: float, service_s: np.ndarray) -> float:
    """Pollaczek-Khinchine: mean wait with Poisson arrivals and one server, from the service times themselves."""
    load = rate_rps * service_s.mean()
    return float(rate_rps * (service_s**2).mean() / (2 * (1 - load)))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_sequence_at_a_time_of_one_step_each_queues_like_m_d_1(load: float) -> None:
    n = 1_000_000
    w = Workload.of(poisson(n, load / STEP_S, seed=1), np.full(n, 5), np.full(n, 1))
    result = replay(w, constant_step(STEP_S), roomy(max_num_seqs=1))
    expected = STEP_S * load / (2 * (1 - load))
    assert result.queue_s.mean() == pytest.approx(expected, rel=0.02)
    np.testing.assert_allclose(result.e2e_s, result.queue_s + STEP_S, rtol=1e-6)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_one_sequence_at_a_time_of_geometric_length_queues_like_m_m_1(load: float) -> None:
    n, mean_steps = 1_000_000, 50
    osl = np.random.default_rng(2).geometric(1 / mean_steps, n)
    rate = load / (mean_steps * STEP_S)
    w = Workload.of(poisson(n, rate, seed=3), np.full(n, 5), osl)
    result = replay(w, constant_step(STEP_S), roomy(max_num_seqs=1))
    assert result.queue_s.mean() == pytest.approx(one_server_wait_s(rate, osl * STEP_S), rel=0.02)
    service_s = mean_steps * STEP_S
    assert result.e2e_s.mean() == pytest.approx(service_s / (1 - load), rel=0.02)


def test_without_a_limit_on_sequences_nobody_waits_longer_than_the_step_in_flight() -> None:
    # Infinitely many servers: an arrival meets a step half way through, on average, when steps never stop.
    n = 100_000
    w = Workload.of(poisson(n, 20 / STEP_S / 50, seed=4), np.full(n, 5), np.full(n, 50))
    result = replay(w, constant_step(STEP_S), roomy())
    assert result.queue_s.max() <= STEP_S
    assert result.queue_s.mean() == pytest.approx(STEP_S / 2, rel=0.02)
    np.testing.assert_allclose(result.tpot_s, STEP_S)
    # Insensitivity: mean running is offered load, rate times 50 steps.
    assert result.running_mean == pytest.approx(20, rel=0.02)


def test_a_long_prompt_is_computed_in_chunks_of_the_budget() -> None:
    w = Workload.of([0.0], [1000], [3])
    per_token = step_of(step_overhead_s=1.0, dense_flops_s_per_token=0.001)
    result = replay(w, per_token, roomy(max_num_batched_tokens=1000, max_num_seqs=10))
    assert result.ttft_s[0] == pytest.approx(1 + 1.0)
    result = replay(w, per_token, roomy(max_num_batched_tokens=300, max_num_seqs=10))
    assert result.ttft_s[0] == pytest.approx(4 + 1.0)
    result = replay(w, per_token, roomy(long_prefill_threshold=100))
    assert result.ttft_s[0] == pytest.approx(10 + 1.0)
    assert result.steps == 10 + 2


def test_prefill_attention_does_not_depend_on_how_the_prompt_is_cut() -> None:
    # Sum of chunk x (context + chunk / 2) over chunks is ISL^2 / 2, whatever the chunks.
    w = Workload.of([0.0], [1000], [1])
    pairs = step_of(step_overhead_s=1e-9, attention_full_s_per_pair=1e-6)
    for budget in (1000, 300, 7):
        result = replay(w, pairs, roomy(max_num_batched_tokens=budget, max_num_seqs=5))
        assert result.ttft_s[0] == pytest.approx(0.5, rel=1e-3)


def test_decoding_requests_keep_their_token_while_a_prompt_is_computed() -> None:
    w = Workload.of([0.0, 0.055], [10, 1000], [30, 5])
    result = replay(w, constant_step(STEP_S), roomy(max_num_batched_tokens=100, max_num_seqs=10))
    assert result.e2e_s[0] == pytest.approx(30 * STEP_S)
    # 99 tokens a step beside the one that decodes: 11 steps, from the step after its arrival on.
    assert result.ttft_s[1] == pytest.approx(0.06 - 0.055 + 11 * STEP_S)


def test_without_chunks_a_prompt_waits_for_a_step_it_fits_in() -> None:
    w = Workload.of([0.0, 0.0], [60, 60], [1, 1])
    whole = roomy(max_model_len=100, max_num_batched_tokens=100, max_num_seqs=10, chunked_prefill=False)
    np.testing.assert_allclose(replay(w, constant_step(STEP_S), whole).ttft_s, [STEP_S, 2 * STEP_S])


def test_a_window_caps_what_a_decode_step_reads() -> None:
    w = Workload.of([0.0], [50], [101])
    windowed = step_of(step_overhead_s=1e-9, kv_window_s_per_token=1.0, window_tokens=100.0)
    # Context grows from 50 to 149 over 100 decode steps: 50 + ... + 99, then 100 fifty times.
    assert replay(w, windowed, roomy()).e2e_s[0] == pytest.approx(sum(range(50, 100)) + 50 * 100)
    full = step_of(step_overhead_s=1e-9, kv_full_s_per_token=1.0)
    assert replay(w, full, roomy()).e2e_s[0] == pytest.approx(sum(range(50, 150)))


def test_made_up_arrivals_have_the_rate_and_the_burstiness_asked_for() -> None:
    for times, variation in (
        (evenly_spaced(100_000, 20.0), 0.0),
        (poisson(100_000, 20.0, seed=1), 1.0),
        (gamma(100_000, 20.0, 2.0, seed=1), 2.0),
    ):
        gaps = np.diff(times)
        assert 1 / gaps.mean() == pytest.approx(20, rel=0.02)
        assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03, abs=1e-6)
    np.testing.assert_array_equal(poisson(50, 3.0, seed=7), poisson(50, 3.0, seed=7))
    assert (poisson(50, 3.0, seed=7) != poisson(50, 3.0, seed=8)).any()


def test_times_on_a_grid_are_spread_within_their_grid_step() -> None:
    grid = np.repeat([0.0, 3.0, 6.0], [10, 1, 5])
    spread = spread_over_grid(grid, 3.0, seed=1)
    np.testing.assert_array_equal(np.floor(spread / 3) * 3, grid)
    assert (np.diff(spread) > 0).all()


@pytest.mark.parametrize(
    "wrong", [lambda: poisson(0, 1.0, 1), lambda: poisson(5, 0.0, 1), lambda: gamma(5, 1.0, -1, 1)]
)
def test_arrivals_without_a_rate_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"at least 1|positive and finite"):
        wrong()  # type: ignore[operator]


def test_superposed_traffic_has_the_rate_and_flatter_bursts_and_loses_no_request() -> None:
    bursty = Workload.of(gamma(2000, 10.0, 2.0, seed=1), np.full(2000, 40), np.arange(2000) % 7 + 1)
    for factor in (1.0, 2.0, 3.5, 8.0):
        laid = bursty.superposed(factor, seed=1)
        assert laid.rate_rps == pytest.approx(factor * bursty.rate_rps, rel=0.03)
        assert len(laid) == pytest.approx(factor * len(bursty), rel=0.03)
        assert (np.diff(laid.arrival_s) >= 0).all()
        whole = np.repeat(np.sort(bursty.osl_tokens), int(factor))
        if factor == int(factor):
            np.testing.assert_array_equal(np.sort(laid.osl_tokens), whole)
    np.testing.assert_array_equal(bursty.superposed(1.0, seed=1).arrival_s, bursty.arrival_s)
    laid_gaps, warped_gaps = (np.diff(w.arrival_s) for w in (bursty.superposed(40.0, seed=1), bursty.scaled(40.0)))
    # Many independent streams together are Poisson (Palm and Khinchine); a warped one keeps its variation of 2.
    assert laid_gaps.std() / laid_gaps.mean() < 1.5
    assert warped_gaps.std() / warped_gaps.mean() > 2


def test_copies_of_a_trace_share_prefixes_only_when_told_to() -> None:
    w = Workload.of([0.0, 1.0, 5.0], [40, 40, 40], [1, 1, 1], [0, 2, 4, 6], [1, 2, 1, 2, 1, 3], 16)
    apart, shared = (w.superposed(2.0, seed=3, shared_prefixes=together) for together in (False, True))
    assert (apart.hashes, shared.hashes) == (6, 3)
    for laid in (apart, shared):
        np.testing.assert_array_equal(np.diff(laid.hash_offsets), 2)
    with pytest.raises(ValueError, match="positive and finite"):
        w.superposed(0.0, seed=1)
    with pytest.raises(ValueError, match="all arrive at once"):
        Workload.of([1.0, 1.0], [4, 4], [1, 1]).superposed(2.0, seed=1)


def test_the_burst_of_a_closed_loop_is_told_apart_from_its_steady_state() -> None:
    # C clients with k prompts each, all starting at once, prompts computed one after the other: the first ones wait
    # (C + 1) / 2 prompts on average, those in steady state about one and a half.
    clients, prompts = 8, 20
    n = clients * prompts
    per_token = step_of(step_overhead_s=1e-3, dense_flops_s_per_token=1e-4)
    rng = np.random.default_rng(1)
    w = Workload.of(np.zeros(n), np.full(n, 500), rng.integers(50, 150, n))
    result = replay(w, per_token, roomy(max_num_batched_tokens=512, max_num_seqs=100), clients=clients)
    phases = result.phases(clients)
    assert sum(mask.sum() for mask in phases.values()) == n
    assert not (phases["burst"] & phases["steady"]).any()
    prompt_s = 1e-3 + 500e-4
    burst, steady = (result.ttft_s[phases[name]].mean() for name in ("burst", "steady"))
    assert burst == pytest.approx((clients + 1) / 2 * prompt_s, rel=0.1)
    assert prompt_s < steady < 2 * prompt_s < burst
    # While the load is steady, all clients have a request out.
    out = [(result.arrival_s <= t) & (t < result.arrival_s + result.e2e_s) for t in result.arrival_s[phases["steady"]]]
    assert {int(there.sum()) for there in out} == {clients}
    with pytest.raises(ValueError, match="closed loop"):
        result.phases(0)
