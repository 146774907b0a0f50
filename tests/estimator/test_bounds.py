"""Bounds of a replica: K from memory, L from TPOT, TTFT, the one that binds, and the closed forms they meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.architecture import Architecture
from estimator.bounds import (
    Bounds,
    MeanLoad,
    bounds,
    concurrency_at,
    decode_step_seconds,
    decode_tokens_per_s_per_replica,
    decode_tokens_per_s_per_user,
    largest_batch,
    prefill_seconds,
    rate_at,
    saturated_rps,
    tpot_seconds,
    ttft_seconds,
    zero_load_tpot_seconds,
    zero_load_ttft_seconds,
)
from estimator.replay import EngineLimits, Workload, replay
from estimator.step_time import STEP_FIELDS, step_parameters, step_seconds
from estimator.weights import weights
from tests.estimator.step_models import H100, IDEAL, architectures, coefficient_sets, gqa

Parameters = np.ndarray[Any, np.dtype[np.float64]]
LOAD = MeanLoad(isl_tokens=500, osl_tokens=250, max_num_batched_tokens=8192, max_num_seqs=256, request_s=0.01)


@dataclass(frozen=True)
class Holds:
    """A memory account that holds a fixed number of tokens."""

    tokens: float

    def max_concurrency(self, length_tokens: float) -> float:
        return self.tokens / length_tokens


def constant(step_s: float) -> Parameters:
    p = np.zeros(len(STEP_FIELDS))
    p[STEP_FIELDS.index("step_overhead_s")] = step_s
    return p


def llama_8b(**coefficients: float) -> Parameters:
    return step_parameters(gqa(), weights(gqa()), H100, 1, {**IDEAL, **coefficients})


def bound(p: Parameters, tokens: float = 500_000, **changes: Any) -> Bounds:
    shape = {"isl_tokens": 500.0, "osl_tokens": 250.0, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
    return bounds(p, Holds(tokens), **{**shape, **changes})


def test_an_idle_replica_prefills_then_decodes_alone() -> None:
    p = llama_8b()
    prefill = step_seconds(p, 500, 1, 0, 0, 500 * 250.0, 500)
    assert prefill_seconds(p, 500, 8192) == pytest.approx(prefill)
    assert zero_load_ttft_seconds(p, LOAD) == pytest.approx(0.01 + prefill)
    assert zero_load_tpot_seconds(p, LOAD) == pytest.approx(step_seconds(p, 1, 1, 625, 625, 0, 0))
    assert ttft_seconds(p, LOAD, 1) == pytest.approx(zero_load_ttft_seconds(p, LOAD))


def test_a_long_prompt_is_prefilled_in_chunks_that_see_what_came_before() -> None:
    p = llama_8b()
    chunks = step_seconds(p, 2048, 1, 0, 0, 2048 * 1024.0, 2048) + step_seconds(
        p, 952, 1, 0, 0, 952 * (2048 + 476.0), 952
    )
    assert prefill_seconds(p, 3000, 2048) == pytest.approx(chunks)


def test_users_and_replica_share_a_decode_step() -> None:
    p = llama_8b()
    assert decode_tokens_per_s_per_user(p, 64, 1000) == pytest.approx(1 / decode_step_seconds(p, 64, 1000))
    assert decode_tokens_per_s_per_replica(p, 64, 1000) == pytest.approx(64 / decode_step_seconds(p, 64, 1000))


def test_tpot_adds_the_prefill_of_the_others_to_the_decode_step() -> None:
    """TPOT = t(C) + (C-1)/OSL [t(C-1 decodes + a prompt) - t(C)]."""
    p = llama_8b(step_overhead_us=300.0)
    plain = step_seconds(p, 26, 26, 26 * 625, 26 * 625, 0, 0)
    mixed = step_seconds(p, 525, 26, 25 * 625, 25 * 625, 500 * 250.0, 500)
    assert tpot_seconds(p, LOAD, 26) == pytest.approx(plain + 25 / 250 * (mixed - plain))


def test_prompts_that_fall_on_one_step_share_it() -> None:
    """1,001 at once with 250 tokens out: four prompts on each step, which is then a step of 3,000 tokens."""
    p = llama_8b()
    mixed = step_seconds(p, 3000, 1004, 1000 * 625, 1000 * 625, 2000 * 250.0, 2000)
    assert tpot_seconds(p, LOAD, 1001) == pytest.approx(mixed)


@settings(max_examples=40, deadline=None)
@given(
    architectures(), coefficient_sets(), st.integers(1, 2000), st.integers(1, 2000), st.floats(1, 400), st.booleans()
)
def test_tpot_never_falls_as_more_requests_run_at_once(
    architecture: Architecture, coefficients: dict[str, float], isl: int, osl: int, requests: float, alone: bool
) -> None:
    p = step_parameters(architecture, weights(architecture), H100, 1, coefficients)
    load = MeanLoad(isl, osl, 8192, 512, exclusive_prefill=alone)
    assert tpot_seconds(p, load, requests * 1.3 + 1) >= tpot_seconds(p, load, requests) * (1 - 1e-9)


def test_decodes_wait_for_prompts_that_have_steps_of_their_own() -> None:
    """TPOT = t(C) + (C-1)/OSL t(prompt); TTFT, half a step aside, is that of an idle replica."""
    p = llama_8b(step_overhead_us=300.0)
    alone = replace(LOAD, exclusive_prefill=True)
    decode, prompt = decode_step_seconds(p, 51, 625), prefill_seconds(p, 500, 8192)
    assert tpot_seconds(p, alone, 51) == pytest.approx(decode + 50 / 250 * prompt)
    assert ttft_seconds(p, alone, 51) == pytest.approx(0.01 + decode / 2 + prompt)
    assert saturated_rps(constant(0.01), replace(alone, max_num_batched_tokens=1000)) == pytest.approx(2 / 0.01)


@pytest.mark.parametrize("exclusive", [False, True])
def test_the_mean_field_tpot_is_near_that_of_a_replayed_closed_loop(exclusive: bool) -> None:
    p = llama_8b(step_overhead_us=300.0)
    rng = np.random.default_rng(1)
    n = 1280
    workload = Workload.of(np.zeros(n), rng.integers(400, 601, n), rng.integers(200, 301, n))
    limits = EngineLimits(10**6, 256, 8192, 10**5, prefix_caching=False, exclusive_prefill=exclusive)
    seen = replay(workload, p, limits, clients=64).tpot_s[64:].mean()
    assert tpot_seconds(p, replace(LOAD, exclusive_prefill=exclusive), 64) == pytest.approx(seen, rel=0.05)


def test_l_is_the_last_batch_inside_the_target() -> None:
    p = llama_8b(step_overhead_us=300.0)
    found = largest_batch(p, LOAD, 0.012)
    assert tpot_seconds(p, LOAD, found) <= 0.012 < tpot_seconds(p, LOAD, found + 1)
    assert largest_batch(p, LOAD, 0.001) == 0


def test_with_a_constant_step_rate_follows_littles_law() -> None:
    """10 ms steps: 250 tokens take one prefill and 249 decode steps, half a step of waiting when others run."""
    p = constant(0.01)
    assert tpot_seconds(p, LOAD, 50) == pytest.approx(0.01)
    assert rate_at(p, LOAD, 50) == pytest.approx(50 / (0.01 * 250.5))
    assert concurrency_at(p, LOAD, 50 / (0.01 * 250.5), 256) == pytest.approx(50, rel=1e-6)
    assert concurrency_at(p, LOAD, 1000.0, 256) == np.inf


def test_no_rate_is_past_the_token_budget() -> None:
    """A budget of 1,000 tokens over 749 tokens a request, 10 ms a step: 133.5 requests a second at most."""
    tight = replace(LOAD, max_num_batched_tokens=1000)
    assert saturated_rps(constant(0.01), tight) == pytest.approx(1000 / 749 / 0.01)
    assert rate_at(constant(0.01), tight, 10_000) == pytest.approx(1000 / 749 / 0.01)
    assert bound(constant(0.01), tokens=1e9, max_num_batched_tokens=100, max_num_seqs=4096).binding == "token budget"


def test_memory_binds_when_fewer_requests_fit_than_tpot_allows() -> None:
    found = bound(llama_8b(), tokens=7_500, tpot_target_s=1.0)
    assert (found.k_requests, found.concurrency_limit, found.binding) == (10.0, 10, "KV memory (K)")
    assert found.l_requests is not None
    assert found.l_requests > 256


def test_tpot_binds_when_its_target_is_met_by_fewer_than_fit() -> None:
    found = bound(llama_8b(), tpot_target_s=0.008)
    assert found.binding == "TPOT (L)"
    assert found.concurrency_limit == found.l_requests
    assert found.capacity_rps == pytest.approx(rate_at(llama_8b(), replace(LOAD, request_s=0), found.concurrency_limit))


def test_max_num_seqs_binds_when_nothing_else_does() -> None:
    found = bound(llama_8b(), max_num_seqs=8)
    assert (found.binding, found.concurrency_limit, found.l_requests) == ("max_num_seqs", 8, None)


def test_a_target_an_idle_replica_misses_leaves_no_capacity_and_is_named() -> None:
    assert (bound(llama_8b(), ttft_target_s=0.001).capacity_rps, bound(llama_8b(), ttft_target_s=0.001).binding) == (
        0,
        "TTFT",
    )
    assert bound(llama_8b(), tpot_target_s=0.001).binding == "TPOT (L)"
    assert bound(llama_8b(), e2e_target_s=0.1).binding == "E2E"
    assert bound(llama_8b(), e2e_target_s=0.1).capacity_rps == 0
    assert (bound(llama_8b(), tokens=100).capacity_rps, bound(llama_8b(), tokens=100).binding) == (0, "KV memory (K)")


def test_looser_targets_and_more_memory_never_lower_the_capacity() -> None:
    p = llama_8b(step_overhead_us=300.0)
    by_tpot = [bound(p, tpot_target_s=t).capacity_rps for t in (0.006, 0.008, 0.01, 0.02, 0.05)]
    by_memory = [bound(p, tokens=n, tpot_target_s=0.02).capacity_rps for n in (10**3, 10**4, 10**5, 10**6)]
    assert by_tpot == sorted(by_tpot)
    assert by_memory == sorted(by_memory)


def test_an_answer_of_one_token_is_all_prefill() -> None:
    load = MeanLoad(1000, 1, 8192, 256)
    assert rate_at(llama_8b(), load, 256) <= saturated_rps(llama_8b(), load)
    assert bound(llama_8b(), isl_tokens=1000.0, osl_tokens=1.0).capacity_rps > 0


@pytest.mark.parametrize("change", [{"isl_tokens": 0.0}, {"osl_tokens": 0.5}, {"max_num_seqs": 0}])
def test_lengths_and_limits_below_one_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bound(llama_8b(), **change)
