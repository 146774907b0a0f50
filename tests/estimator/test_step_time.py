"""A step obeys physics: never above the datasheet, never faster with more to do, each term where it belongs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.architecture import Architecture
from estimator.hardware import Accelerator
from estimator.step_time import (
    STEP_FIELDS,
    STEP_TERMS,
    WINDOW_INDEX,
    step_parameters,
    step_seconds,
    step_terms,
)
from estimator.weights import weights
from tests.estimator.step_models import H100, IDEAL, L40S, accelerators, architectures, coefficient_sets, gqa, mla

BATCH = st.fixed_dictionaries(
    {
        "decodes": st.integers(0, 512),
        "context": st.integers(1, 30_000),
        "prompts": st.integers(0, 4),
        "prefill": st.integers(1, 8192),
        "cached": st.integers(0, 8192),
    }
)
TP = st.sampled_from([1, 2, 4, 8])
LAYOUT = st.tuples(TP, st.sampled_from([1, 2, 8]), st.booleans()).map(
    lambda of: {"tp": of[0], "dp": of[1], "ep": of[0] * of[1] if of[2] else 1}
)
"""TP ranks, attention ranks, and whether experts are spread over all of them."""


def parameters(
    architecture: Architecture,
    accelerator: Accelerator = H100,
    tp: int = 1,
    coefficients: dict[str, float] | None = None,
    **options: Any,
) -> np.ndarray[Any, np.dtype[np.float64]]:
    return step_parameters(architecture, weights(architecture), accelerator, tp, coefficients or IDEAL, **options)


def arguments(p: np.ndarray[Any, np.dtype[np.float64]], batch: dict[str, int]) -> tuple[float, ...]:
    prefill = batch["prefill"] if batch["prompts"] else 0
    return (
        batch["decodes"] + prefill,
        batch["decodes"] + batch["prompts"],
        batch["decodes"] * batch["context"],
        batch["decodes"] * min(batch["context"], p[WINDOW_INDEX]),
        prefill * (batch["cached"] + prefill / 2),
        prefill,
    )


@settings(max_examples=60, deadline=None)
@given(architectures(), accelerators(), coefficient_sets(), LAYOUT, BATCH, st.sampled_from([None, 0.1, 1.0, 3.0]))
def test_no_step_uses_more_than_the_peak_flops_or_bandwidth_of_its_gpus(
    architecture: Architecture,
    accelerator: Accelerator,
    coefficients: dict[str, float],
    layout: dict[str, int],
    batch: dict[str, int],
    among: float | None,
) -> None:
    """Of one attention rank, with the experts that its GPUs hold, among ranks that have `among` times its tokens."""
    p = parameters(architecture, accelerator, coefficients=coefficients, **layout)
    tp, dp = layout["tp"], layout["dp"]
    tokens, sequences, kv_full, kv_window, pairs, prefill = arguments(p, batch)
    routed_tokens = tokens if among is None else among * tokens
    others = () if among is None else (routed_tokens,)
    seconds = step_seconds(p, tokens, sequences, kv_full, kv_window, pairs, prefill, *others)
    layers = architecture.layers
    dense = sum(x.attention.parameters + x.norm_parameters + x.feed_forward.dense_parameters for x in layers)
    routed = sum(x.feed_forward.experts_per_token * x.feed_forward.expert_parameters for x in layers)
    flops = 2 * dense * tokens + 2 * routed * routed_tokens + 2 * architecture.embedding_parameters * sequences
    kv_bytes = 0.0
    expert_bytes = 0.0
    for forward in (layer.feed_forward for layer in layers if layer.feed_forward.experts):
        touched = 1 - (1 - forward.experts_per_token / forward.experts) ** (routed_tokens * dp)
        expert_bytes += 2 * forward.experts * forward.expert_parameters * touched / dp
    for attention in (layer.attention for layer in layers):
        kv_bytes += sequences * 2 * (2 * attention.state_elements + 2 * attention.state_fp32_elements)
        if attention.kind == "linear":
            continue
        windowed = attention.kind == "sliding"
        kv_bytes += 2 * attention.kv_elements_per_token * (kv_window if windowed else kv_full)
        seen = min(pairs, prefill * (attention.window_tokens or np.inf)) if windowed and prefill else pairs
        flops += 2 * attention.heads * (attention.head_dim + (attention.v_head_dim or attention.head_dim)) * seen
    slack = 1 + 1e-9
    assert flops <= seconds * accelerator.fp16_dense_tflops * 1e12 * tp * slack
    read = 2 * dense + 2 * architecture.embedding_parameters + expert_bytes + kv_bytes
    assert read <= seconds * accelerator.memory_bandwidth_gbs * 1e9 * tp * slack


@settings(max_examples=60, deadline=None)
@given(architectures(), coefficient_sets(), LAYOUT, BATCH, st.sampled_from(["decodes", "context", "prefill", "cached"]))
def test_a_step_with_more_to_do_is_never_faster(
    architecture: Architecture, coefficients: dict[str, float], layout: dict[str, int], batch: dict[str, int], more: str
) -> None:
    p = parameters(architecture, H100, coefficients=coefficients, **layout)
    less = step_seconds(p, *arguments(p, batch))
    assert step_seconds(p, *arguments(p, {**batch, more: 2 * batch[more] + 1})) >= less * (1 - 1e-12)


@settings(max_examples=40, deadline=None)
@given(architectures(), coefficient_sets(), LAYOUT, BATCH, st.floats(0, 4), st.floats(1, 4))
def test_a_rank_is_never_faster_for_tokens_of_other_ranks(
    architecture: Architecture,
    coefficients: dict[str, float],
    layout: dict[str, int],
    batch: dict[str, int],
    among: float,
    more: float,
) -> None:
    p = parameters(architecture, H100, coefficients=coefficients, **layout)
    of_rank = tuple(float(x) for x in arguments(p, batch))
    few, many = among * of_rank[0], more * among * of_rank[0]
    assert step_seconds(p, *(*of_rank, many)) >= step_seconds(p, *(*of_rank, few)) * (1 - 1e-12)
    assert step_seconds(p, *(*of_rank, of_rank[0])) == step_seconds(p, *of_rank)


@settings(max_examples=40, deadline=None)
@given(architectures(), coefficient_sets(), LAYOUT, BATCH, st.floats(1, 4))
def test_more_bandwidth_flops_or_link_is_never_slower(
    architecture: Architecture,
    coefficients: dict[str, float],
    layout: dict[str, int],
    batch: dict[str, int],
    factor: float,
) -> None:
    slower = parameters(architecture, H100, coefficients=coefficients, **layout)
    seconds = step_seconds(slower, *arguments(slower, batch))
    for better in (
        replace(H100, memory_bandwidth_gbs=H100.memory_bandwidth_gbs * factor),
        replace(H100, fp16_dense_tflops=H100.fp16_dense_tflops * factor),
        replace(H100, interconnect_gbs=H100.interconnect_gbs * factor),
    ):
        faster = parameters(architecture, better, coefficients=coefficients, **layout)
        assert step_seconds(faster, *arguments(faster, batch)) <= seconds * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(architectures(), coefficient_sets(), TP, BATCH)
def test_the_terms_of_a_step_sum_to_it_and_none_is_negative(
    architecture: Architecture, coefficients: dict[str, float], tp: int, batch: dict[str, int]
) -> None:
    p = parameters(architecture, H100, tp, coefficients)
    terms = step_terms(p, *arguments(p, batch))
    seconds = step_seconds(p, *arguments(p, batch))
    assert tuple(terms) == STEP_TERMS
    assert sum(terms.values()) == pytest.approx(seconds, rel=1e-9)
    assert min(terms.values()) >= -1e-9 * seconds


def test_zeros_but_for_the_step_overhead_are_a_constant_step() -> None:
    p = np.zeros(len(STEP_FIELDS))
    p[STEP_FIELDS.index("step_overhead_s")] = 0.01
    assert step_seconds(p, 1, 1, 100, 100, 0, 0) == 0.01
    assert step_seconds(p, 5000, 300, 1e6, 1e6, 1e7, 4000) == 0.01


def test_a_lone_decode_of_llama_8b_streams_its_weights_without_the_embedding() -> None:
    """15.0 GB of 16-bit weights over 3,350 GB/s: 4.48 ms, plus a KV cache of 128 KiB a token."""
    p = parameters(gqa())
    assert step_seconds(p, 1, 1, 0, 0, 0, 0) == pytest.approx(15.01e9 / 3350e9, rel=0.002)
    with_context = step_seconds(p, 1, 1, 10_000, 10_000, 0, 0) - step_seconds(p, 1, 1, 0, 0, 0, 0)
    assert with_context == pytest.approx(10_000 * 131_072 / 3350e9)


def test_a_tied_head_streams_the_embedding_all_the_same() -> None:
    tied = replace(gqa(), tied_embeddings=True)
    assert parameters(tied) == pytest.approx(parameters(gqa()))


def test_a_vision_tower_is_not_streamed_by_text_steps() -> None:
    assert parameters(replace(gqa(), vision_parameters=10**9)) == pytest.approx(parameters(gqa()))


def test_experts_touched_follow_the_batch_not_the_model() -> None:
    """8 experts, 2 a token: one token reads a quarter of them, two 1 - 0.75^2, many all."""
    moe = gqa(experts=8, experts_per_token=2)
    p = parameters(moe)
    every = float(p[STEP_FIELDS.index("expert_read_s")])
    free = np.array(p)
    free[STEP_FIELDS.index("expert_read_s")] = 0

    def share(tokens: int) -> float:
        return float(step_seconds(p, tokens, 1, 0, 0, 0, 0) - step_seconds(free, tokens, 1, 0, 0, 0, 0)) / every

    assert share(1) == pytest.approx(0.25, rel=1e-3)
    assert share(2) == pytest.approx(1 - 0.75**2, rel=1e-3)
    assert share(64) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("ranks", [2, 8])
def test_one_ranks_prompt_costs_experts_a_share_of_what_a_prompt_on_every_rank_costs(ranks: int) -> None:
    p = parameters(gqa(layers=4, experts=64, experts_per_token=4, intermediate=1024), dp=ranks, ep=ranks)
    prompt = (1e6, 1.0, 0.0, 0.0, 1e6 * 5e5, 1e6)
    all_alike, alone = step_terms(p, *prompt), step_terms(p, *prompt, 1e6 / ranks)
    experts = "expert weights and FLOPs"
    assert alone.pop(experts) == pytest.approx(all_alike.pop(experts) / ranks, rel=1e-3)
    assert alone == pytest.approx(all_alike)
    # 64 tokens of one rank touch as many of the experts as 64 tokens of all ranks.
    few = (64.0, 64.0, 0.0, 0.0, 0.0, 0.0)
    spread = (64.0 / ranks, 64.0 / ranks, 0.0, 0.0, 0.0, 0.0)
    assert step_terms(p, *few, 64.0 / ranks)[experts] == step_terms(p, *spread)[experts]


def test_weights_and_flops_of_a_gemm_overlap_instead_of_adding_up() -> None:
    p = parameters(gqa())
    read, flops = p[STEP_FIELDS.index("dense_read_s")], p[STEP_FIELDS.index("dense_flops_s_per_token")]
    balance = read / flops
    knee = step_terms(p, balance, 1, 0, 0, 0, 0)["dense weights and FLOPs"]
    assert knee == pytest.approx(read * 2**0.25)
    assert step_terms(p, 8 * balance, 1, 0, 0, 0, 0)["dense weights and FLOPs"] == pytest.approx(8 * read, rel=1e-3)


def test_kv_heads_are_divided_over_ranks_down_to_one_and_latents_not_at_all() -> None:
    index = STEP_FIELDS.index("kv_full_s_per_token")
    eight_heads = [parameters(gqa(), tp=tp)[index] for tp in (1, 2, 8, 16)]
    assert eight_heads[1] == pytest.approx(eight_heads[0] / 2)
    assert eight_heads[3] == eight_heads[2] == pytest.approx(eight_heads[0] / 8)
    latents = [parameters(mla(), tp=tp)[index] for tp in (1, 2, 8)]
    assert latents[0] == pytest.approx(27 * 576 * 2 / 3350e9)
    assert latents[1] == latents[2] == latents[0]


def test_an_fp8_cache_halves_the_kv_read() -> None:
    index = STEP_FIELDS.index("kv_full_s_per_token")
    assert parameters(gqa(), kv_cache_bytes=1.0)[index] == parameters(gqa())[index] / 2


def test_windowed_layers_read_and_attend_no_further_than_their_window() -> None:
    mixed = parameters(gqa(layers=2, windowed_layers=1, window_tokens=1024))
    full = parameters(gqa(layers=2))
    assert mixed[WINDOW_INDEX] == 1024
    assert np.isinf(full[WINDOW_INDEX])
    assert step_seconds(mixed, 1, 1, 8192, 1024, 0, 0) < step_seconds(full, 1, 1, 8192, 8192, 0, 0)
    pairs = 8192 * 4096.0
    attention = step_terms(mixed, 8192, 1, 0, 0, pairs, 8192)["prefill attention"]
    everything = step_terms(full, 8192, 1, 0, 0, pairs, 8192)["prefill attention"]
    assert attention == pytest.approx(everything / 2 * (1 + 1024 / 4096))


def test_tensor_parallel_ranks_meet_over_nvlink_one_way_or_over_pcie() -> None:
    """Two all-reduces a layer, each sending 2 (T-1)/T of a 16-bit hidden state a token over half of 900 GB/s."""
    index = STEP_FIELDS.index("collective_bytes_s_per_token")
    sent = 2 * 32 * 4096 * 2 * 2 * 3 / 4
    assert parameters(gqa(), tp=4)[index] == pytest.approx(sent / 450e9)
    assert parameters(gqa(), L40S, tp=4)[index] == pytest.approx(sent / 31.5e9)
    assert parameters(gqa(), tp=1)[index] == 0
    latencies = {**IDEAL, "collective_us": 10.0, "collective_pcie_us": 40.0}
    latency = STEP_FIELDS.index("collective_latency_s")
    assert parameters(gqa(), tp=4, coefficients=latencies)[latency] == pytest.approx(64 * 10e-6)
    assert parameters(gqa(), L40S, tp=4, coefficients=latencies)[latency] == pytest.approx(64 * 40e-6)


def test_ranks_of_several_nodes_meet_over_the_network_too() -> None:
    """16 ranks of 8 a node: an all-reduce in each node, then of an eighth of it over 400 Gb/s, one adapter a GPU."""
    index, latency = STEP_FIELDS.index("collective_bytes_s_per_token"), STEP_FIELDS.index("collective_latency_s")
    hidden = 4096 * 2
    times = {**IDEAL, "collective_us": 10.0, "collective_network_us": 30.0}
    across = parameters(gqa(), tp=16, coefficients=times)
    assert across[index] == pytest.approx(64 * hidden * (2 * 7 / 8 / 450e9 + 2 / 2 / 8 / 50e9))
    assert across[latency] == pytest.approx(64 * 40e-6)
    rack = replace(H100, node_gpus=72)
    inside = parameters(gqa(), rack, tp=16, coefficients=times)
    assert inside[index] == pytest.approx(64 * hidden * 2 * 15 / 16 / 450e9) and inside[index] < across[index]
    assert inside[latency] == pytest.approx(64 * 10e-6)


def test_experts_of_several_nodes_are_reached_over_the_network() -> None:
    """Of 16 attention ranks, half of what is dispatched and combined goes to the other node of 8."""
    index = STEP_FIELDS.index("collective_bytes_s_per_token")
    moe = gqa(experts=32, experts_per_token=4, intermediate=1024)
    near, far = (
        step_parameters(moe, weights(moe), replace(H100, node_gpus=node), 1, IDEAL, dp=16)[index] for node in (16, 8)
    )
    sent = 2 * 32 * 4096 * 2 * 4
    assert near == pytest.approx(sent / 450e9)
    assert far == pytest.approx(sent * (0.5 / 450e9 + 0.5 / 50e9))


def test_types_without_tensor_cores_compute_at_the_16_bit_rate() -> None:
    index = STEP_FIELDS.index("dense_flops_s_per_token")
    a100 = Accelerator("A100-80GB-SXM", 79.25, 2039, 312, None, 624, None, 600, 4)

    def flops_s(accelerator: Accelerator, precision: str) -> float:
        p = step_parameters(gqa(), weights(gqa(), precision), accelerator, 1, IDEAL)
        return float(p[index])

    assert flops_s(H100, "fp8") == pytest.approx(flops_s(H100, "bf16") * 989 / 1979)
    assert flops_s(a100, "fp8") == flops_s(a100, "bf16")
    assert flops_s(H100, "int4") == flops_s(H100, "bf16")
    assert flops_s(H100, "nvfp4") == flops_s(H100, "bf16")


def test_a_step_with_prefill_costs_the_longer_of_device_and_host() -> None:
    quiet, busy = IDEAL, {**IDEAL, "prefill_layer_host_us": 1000.0}
    short = (10, 1, 0, 0, 50, 10)
    assert step_seconds(parameters(gqa(), coefficients=busy), *short) == pytest.approx(0.032, rel=0.001)
    long = (8192, 1, 0, 0, 8192 * 4096.0, 8192)
    device = step_seconds(parameters(gqa(), coefficients=quiet), *long)
    assert step_seconds(parameters(gqa(), coefficients=busy), *long) == pytest.approx(device, rel=0.01)
    decode = (1, 1, 100, 100, 0, 0)
    assert step_seconds(parameters(gqa(), coefficients=busy), *decode) == step_seconds(parameters(gqa()), *decode)


def test_expert_parallelism_costs_its_busiest_rank() -> None:
    moe = gqa(experts=8, experts_per_token=2)
    uneven = {**IDEAL, "expert_imbalance_factor": 1.5}
    index = STEP_FIELDS.index("expert_flops_s_per_token")
    sliced = parameters(moe, tp=4, coefficients=uneven)
    spread = parameters(moe, tp=4, coefficients=uneven, ep=4)
    assert spread[index] == pytest.approx(1.5 * sliced[index])


@pytest.mark.parametrize(("tp", "ep"), [(0, 1), (4, 3), (2, 4)])
def test_shapes_that_cannot_be_are_refused(tp: int, ep: int) -> None:
    with pytest.raises(ValueError, match="ep must divide the ranks"):
        parameters(gqa(), tp=tp, ep=ep)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dense_read_factor": 0.9}, "dense_read_factor is 0.9; it must be a number of at least 1 x"),
        ({"layer_overhead_us": -1.0}, "layer_overhead_us is -1"),
        ({"step_overhead_us": float("nan")}, "step_overhead_us is nan"),
    ],
)
def test_coefficients_that_beat_the_datasheet_are_refused(change: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parameters(gqa(), coefficients={**IDEAL, **change})


def test_a_missing_coefficient_is_named() -> None:
    short = {name: value for name, value in IDEAL.items() if name != "kv_read_factor"}
    with pytest.raises(ValueError, match="kv_read_factor is missing"):
        parameters(gqa(), coefficients=short)
