"""From a model, its weights and an accelerator to the parameters of a step: ideal datasheet times x coefficients.

Belongs here: what is read, computed and exchanged in a step, per GPU. Does not: the step itself (`kernel`) and the
choice of coefficients (`coefficients`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estimator.architecture import Architecture, Attention
from estimator.hardware import GB, Accelerator
from estimator.step_time.coefficients import check_coefficients
from estimator.step_time.kernel import STEP_FIELDS

TERA = 1e12
ACTIVATION_BYTES = 2.0
"""Activations cross the links in 16 bits, whatever the weights are."""
COLLECTIVES_PER_LAYER = 2
"""One all-reduce behind attention, one behind the feed-forward (Megatron-LM, arXiv:1909.08053, section 3)."""
PCIE_X16_ONE_WAY_GBS = {3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}
"""One direction of a x16 slot by PCIe generation (PCI-SIG line rates less encoding)."""


class WeightsLike(Protocol):
    """What step time needs to know of a model's weights; bytes are of the whole model, before any division."""

    @property
    def dense_bytes(self) -> float:
        """Weights every token uses, without the input embedding: attention, dense and shared FFN, norms, LM head."""

    @property
    def expert_bytes(self) -> float:
        """Routed experts, all of them."""

    @property
    def embedding_bytes(self) -> float:
        """Input embedding: looked up, not streamed; a tied head streams it."""

    @property
    def dense_compute(self) -> str:
        """Type the dense GEMMs run in: bf16, fp16, fp8, int8 or fp4."""

    @property
    def expert_compute(self) -> str:
        """Type the expert GEMMs run in."""


def compute_flops(accelerator: Accelerator, dtype: str) -> float:
    """Dense FLOP/s of GEMMs in `dtype`; a type without tensor cores here is widened first and runs at the 16-bit rate.

    That is how W4A16, and FP8 or FP4 on older cards, run (Marlin kernels).
    """
    rates = {
        "fp8": accelerator.fp8_dense_tflops,
        "int8": accelerator.int8_dense_tops,
        "fp4": accelerator.fp4_dense_tflops,
    }
    return (rates.get(dtype) or accelerator.fp16_dense_tflops) * TERA


def one_way_link_bytes_per_s(accelerator: Accelerator) -> float:
    """Bytes a second to a peer in one direction: half of NVLink's two-way figure, a x16 slot where there is no NVLink.

    A card whose PCIe generation no source gives is taken as generation 4.
    """
    if accelerator.interconnect_gbs > 0:
        return accelerator.interconnect_gbs / 2 * GB
    return PCIE_X16_ONE_WAY_GBS.get(accelerator.pcie_gen or 4, PCIE_X16_ONE_WAY_GBS[4]) * GB


def _kv_read_s_per_token(
    attention: Attention, accelerator: Accelerator, tp: int, kv_cache_bytes: float, kv_read_factor: float
) -> float:
    """One cached token of one layer, read by a decode step.

    GQA: heads are divided over TP and never below one a rank; MLA's latent is held whole by every rank, and there its
    heads' FLOPs on each cached byte can outlast the read, so the longer of the two counts.
    """
    if attention.kind == "mla":
        read = attention.kv_elements_per_token * kv_cache_bytes / (accelerator.memory_bandwidth_gbs * GB)
        flops = 4 * attention.heads / tp * attention.kv_elements_per_token
        return kv_read_factor * max(read, flops / compute_flops(accelerator, "bf16"))
    if attention.kv_elements_per_token == 0:
        return 0.0
    per_rank = attention.kv_elements_per_token * max(1.0, attention.kv_heads / tp) / attention.kv_heads
    return kv_read_factor * per_rank * kv_cache_bytes / (accelerator.memory_bandwidth_gbs * GB)


def _is_windowed(attention: Attention) -> bool:
    return attention.window_tokens is not None and attention.kind in ("sliding", "chunked")


def step_parameters(  # noqa: PLR0917 - the order callers read it in
    architecture: Architecture,
    weights: WeightsLike,
    accelerator: Accelerator,
    tp: int,
    coefficients: Mapping[str, float],
    ep: int = 1,
    kv_cache_bytes: float = 2.0,
) -> NDArray[np.float64]:
    """The parameters of `step_seconds` for one replica on `tp` GPUs, laid out as STEP_FIELDS.

    `ep` is the number of expert-parallel groups among those GPUs (1: every expert is sliced over all of them); it must
    divide `tp`. `kv_cache_bytes` is the size of one cached element. Experts spread over ranks (`ep` > 1) leave the
    bytes a rank streams and exchanges unchanged on average, and cost the busiest rank's share of FLOPs.

    Raises ValueError for a `tp` or `ep` that cannot be, and for coefficients that are missing or beat the datasheet.
    """
    if tp < 1 or ep < 1 or tp % ep:
        raise ValueError(f"tensor parallel {tp} with expert parallel {ep}: both at least 1, and ep must divide tp")
    check_coefficients(coefficients)
    c = coefficients
    bandwidth = accelerator.memory_bandwidth_gbs * GB * tp
    layers = architecture.layers
    moe = [layer.feed_forward for layer in layers if layer.feed_forward.experts > 0]

    body = sum(x.attention.parameters + x.norm_parameters + x.feed_forward.dense_parameters for x in layers)
    routed = sum(f.experts_per_token * f.expert_parameters for f in moe)
    # A tied head streams the embedding's bytes, which dense_bytes leaves out; a separate head is in it and as large.
    head_bytes = weights.embedding_bytes
    body_bytes = weights.dense_bytes - (0.0 if architecture.tied_embeddings else head_bytes)

    p = dict.fromkeys(STEP_FIELDS, 0.0)
    p["step_overhead_s"] = c["step_overhead_us"] * 1e-6
    p["layer_overhead_s"] = len(layers) * c["layer_overhead_us"] * 1e-6
    p["moe_layer_overhead_s"] = len(moe) * c["moe_layer_overhead_us"] * 1e-6
    p["prefill_overhead_s"] = len(layers) * c["prefill_layer_overhead_us"] * 1e-6
    p["sequence_overhead_s_per_sequence"] = c["sequence_overhead_us"] * 1e-6
    dense_flops = compute_flops(accelerator, weights.dense_compute) * tp
    p["dense_read_s"] = c["dense_read_factor"] * body_bytes / bandwidth
    p["dense_flops_s_per_token"] = c["dense_flops_factor"] * 2 * body / dense_flops
    p["head_read_s"] = c["dense_read_factor"] * head_bytes / bandwidth
    p["head_flops_s_per_sequence"] = (
        c["dense_flops_factor"] * 2 * architecture.embedding_parameters / (compute_flops(accelerator, "bf16") * tp)
    )
    if moe:
        imbalance = c["expert_imbalance_factor"] if ep > 1 else 1.0
        expert_flops = compute_flops(accelerator, weights.expert_compute) * tp
        p["expert_read_s"] = c["expert_read_factor"] * weights.expert_bytes / bandwidth
        p["expert_unused_share"] = float(np.mean([1 - f.experts_per_token / f.experts for f in moe]))
        p["expert_flops_s_per_token"] = c["expert_flops_factor"] * imbalance * 2 * routed / expert_flops
    if tp > 1:
        latency = c["collective_us"] if accelerator.interconnect_gbs > 0 else c["collective_pcie_us"]
        collectives = COLLECTIVES_PER_LAYER * len(layers)
        exchanged = architecture.hidden_size * ACTIVATION_BYTES * 2 * (tp - 1) / tp
        p["collective_latency_s"] = collectives * latency * 1e-6
        p["collective_bytes_s_per_token"] = (
            c["collective_bytes_factor"] * collectives * exchanged / one_way_link_bytes_per_s(accelerator)
        )

    window = np.inf
    attention_s = c["attention_flops_factor"] / (compute_flops(accelerator, "bf16") * tp)
    for attention in (layer.attention for layer in layers):
        windowed = _is_windowed(attention)
        read_s = _kv_read_s_per_token(attention, accelerator, tp, kv_cache_bytes, c["kv_read_factor"])
        pair_s = attention_s * 2 * attention.heads * (attention.head_dim + (attention.v_head_dim or attention.head_dim))
        if attention.kv_elements_per_token == 0:
            pair_s = 0.0
        p["kv_window_s_per_token" if windowed else "kv_full_s_per_token"] += read_s
        p["attention_window_s_per_pair" if windowed else "attention_full_s_per_pair"] += pair_s
        # A recurrent state is read and written back once a step.
        p["state_s_per_sequence"] += c["kv_read_factor"] * 2 * attention.state_elements * kv_cache_bytes / bandwidth
        if windowed and attention.window_tokens is not None:
            window = attention.window_tokens if np.isinf(window) else max(window, attention.window_tokens)
    p["window_tokens"] = window
    return np.array([p[name] for name in STEP_FIELDS], dtype=np.float64)
