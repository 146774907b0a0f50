"""Closed loops: clients beyond the seats wait for one, and no figure of a benchmark beats the datasheet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.architecture import Architecture
from estimator.hardware import GB
from estimator.serving import Layout, Protocol, ServingCase, predict
from estimator.serving.fit import PRIORS
from estimator.weights import weights
from tests.estimator.step_models import H100, IDEAL, architectures, gqa

TYPICAL = {name: prior.typical for name, prior in PRIORS.items()} | {
    "expert_imbalance_factor": 1.2,
    "collective_pcie_us": 35.0,
    "collective_network_us": 30.0,
}
ENGINES = ("vllm", "sglang", "tensorrt-llm")


def case_of(
    clients: float, isl: float = 1000, osl: float = 200, engine: str = "vllm", model: Architecture | None = None
) -> ServingCase:
    architecture = model or gqa()
    load = Protocol(concurrency=clients)
    sized = weights(architecture)
    case = ServingCase(architecture, sized, H100, engine, "", "bf16", Layout(1), load, isl, osl, 8192, 1024)
    return replace(case, exclusive_prefill=engine == "sglang")


def seen(case: ServingCase, coefficients: dict[str, float] = TYPICAL) -> tuple[float, float]:
    answer = predict(case, coefficients)
    ttft_ms, tpot_ms = answer["ttft_mean_ms"], answer["tpot_mean_ms"]
    assert ttft_ms is not None and tpot_ms is not None
    return ttft_ms, tpot_ms


def test_clients_beyond_what_the_cache_holds_wait_and_the_others_keep_their_pace() -> None:
    crowded = case_of(64)
    held_16 = replace(crowded, kv_tokens=16 * 1100.0)
    assert seen(held_16)[1] == pytest.approx(seen(case_of(16))[1], rel=0.1)
    assert seen(held_16)[0] > 5 * seen(crowded)[0]
    assert seen(replace(crowded, kv_tokens=64 * 1100.0)) == seen(crowded)


def test_a_cache_smaller_than_a_request_still_serves_one_at_a_time() -> None:
    assert seen(replace(case_of(4), kv_tokens=10.0))[1] == pytest.approx(seen(case_of(1))[1], rel=0.05)


def test_the_pool_of_sglang_is_not_known_and_seats_nobody_out() -> None:
    assert seen(replace(case_of(64, engine="sglang"), kv_tokens=100.0)) == seen(case_of(64, engine="sglang"))


def test_an_answer_of_one_token_has_no_time_between_tokens() -> None:
    answer = predict(case_of(4, osl=1), TYPICAL)
    assert answer["tpot_mean_ms"] is None
    assert answer["e2e_mean_ms"] == answer["ttft_mean_ms"]


LOADS = {
    "model": architectures(),
    "engine": st.sampled_from(ENGINES),
    "clients": st.integers(1, 64),
    "isl": st.integers(1, 4000),
    "osl": st.integers(2, 300),
}


@settings(max_examples=40, deadline=None)
@given(**LOADS)
def test_no_benchmark_beats_the_datasheet(model: Architecture, engine: str, clients: int, isl: int, osl: int) -> None:
    """Even without any overhead: a token reads the dense weights once, a prompt multiplies every active parameter."""
    ttft_ms, tpot_ms = seen(case_of(clients, isl, osl, engine, model), IDEAL)
    dense = sum(x.attention.parameters + x.feed_forward.dense_parameters for x in model.layers)
    routed = sum(x.feed_forward.experts_per_token * x.feed_forward.expert_parameters for x in model.layers)
    assert tpot_ms >= 2e3 * (dense + model.embedding_parameters) / (H100.memory_bandwidth_gbs * GB)
    shortest = 0.9 * isl  # fixed lengths are spread by a tenth
    assert ttft_ms >= 2e3 * (dense + routed) * (shortest - 1) / (H100.fp16_dense_tflops * 1e12)


@settings(max_examples=40, deadline=None)
@given(factor=st.floats(1, 4), **LOADS)
def test_a_faster_accelerator_is_never_slower(
    factor: float, model: Architecture, engine: str, clients: int, isl: int, osl: int
) -> None:
    case = case_of(clients, isl, osl, engine, model)
    for faster in (
        replace(H100, memory_bandwidth_gbs=H100.memory_bandwidth_gbs * factor),
        replace(H100, fp16_dense_tflops=H100.fp16_dense_tflops * factor),
    ):
        quick = seen(replace(case, accelerator=faster))
        assert all(q <= s * (1 + 1e-9) for q, s in zip(quick, seen(case), strict=True))


@settings(max_examples=40, deadline=None)
@given(**LOADS)
def test_twice_the_clients_or_the_prompt_are_never_faster(
    model: Architecture, engine: str, clients: int, isl: int, osl: int
) -> None:
    """Up to what drawing other lengths moves a mean by."""
    slack = 1.05
    ttft_ms, tpot_ms = seen(case_of(clients, isl, osl, engine, model))
    more_ttft_ms, more_tpot_ms = seen(case_of(2 * clients, isl, osl, engine, model))
    assert more_ttft_ms * slack >= ttft_ms and more_tpot_ms * slack >= tpot_ms
    long_ttft_ms, long_tpot_ms = seen(case_of(clients, 2 * isl + 4, osl, engine, model))
    assert long_ttft_ms * slack >= ttft_ms and long_tpot_ms * slack >= tpot_ms
