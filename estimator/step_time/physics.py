"""From a model, its weights and an accelerator to the parameters of a step: ideal datasheet times x coefficients.

Belongs here: what is read, computed and exchanged in a step, per GPU. Does not: the step itself (`kernel`) and the
choice of coefficients (`coefficients`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.architecture import Architecture, Attention
from estimator.hardware import GB, Accelerator
from estimator.step_time.coefficients import check_coefficients
from estimator.step_time.kernel import STEP_FIELDS
from estimator.weights import Weights

TERA = 1e12
ACTIVATION_BYTES = 2.0
"""Activations cross the links in 16 bits, whatever the weights are."""
COLLECTIVES_PER_LAYER = 2
"""One all-reduce behind attention, one behind the feed-forward (Megatron-LM, arXiv:1909.08053, section 3)."""
PCIE_X16_ONE_WAY_GBS = {3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0}
"""One direction of a x16 slot by PCIe generation (PCI-SIG line rates less encoding)."""

NETWORK_ONE_WAY_GBS = {True: 50.0, False: 12.5}
"""One direction of a GPU's share of its node's network, by whether the node has NVLink: a 400 Gb/s adapter a GPU as in
HGX and DGX systems, a 100 Gb/s share in servers of PCIe cards (assumed: no catalogue says what a cluster has)."""


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


@dataclass(frozen=True, slots=True)
class _Streamed:
    """Bytes and multiplied parameters of one rank in a step, by the GEMM they belong to."""

    body_bytes: float
    body_parameters: float
    head_bytes: float
    head_parameters: float
    expert_bytes: float
    routed_parameters: float


def _streamed(architecture: Architecture, weights: Weights, tp: int) -> _Streamed:
    """What a rank streams: the body without embedding, head and vision tower; the head; all routed experts.

    The input embedding is looked up, not streamed, unless it is the head too. Projections that every rank holds whole
    (MLA down-projections, indexers) are not divided over TP.
    """
    layers = architecture.layers
    plain_bytes = weights.embedding_bytes / architecture.embedding_parameters
    head_bits = weights.scheme.head_bits
    head_bytes = weights.embedding_bytes
    if not architecture.tied_embeddings and head_bits != 16:
        head_bytes = architecture.head_parameters * head_bits / 8 * weights.scale
    vision_bytes = architecture.vision_parameters * plain_bytes
    separate_head = 0.0 if architecture.tied_embeddings else head_bytes
    body_bytes = weights.dense_bytes - weights.embedding_bytes - separate_head - vision_bytes
    body = sum(x.attention.parameters + x.norm_parameters + x.feed_forward.dense_parameters for x in layers)
    whole = sum(x.attention.replicated_parameters for x in layers)
    whole_bytes = whole * weights.scheme.attention_bits / 8 * weights.scale
    return _Streamed(
        body_bytes=(body_bytes - whole_bytes) / tp + whole_bytes,
        body_parameters=(body - whole) / tp + whole,
        head_bytes=head_bytes / tp,
        head_parameters=architecture.embedding_parameters / tp,
        expert_bytes=weights.expert_bytes / tp,
        routed_parameters=sum(x.feed_forward.experts_per_token * x.feed_forward.expert_parameters for x in layers) / tp,
    )


def _kv_read_s_per_token(attention: Attention, accelerator: Accelerator, tp: int, kv_cache_bytes: float) -> float:
    """One token of context in one layer, read by a decode step at datasheet bandwidth.

    GQA: heads are divided over TP, never below one a rank. MLA's latent is held whole by every rank, and there its
    heads' FLOPs on each cached byte can outlast the read, so the longer of the two counts. A sparse-attention indexer's
    cache is read whole beside it; that it then leaves most of the context unread is not credited.
    """
    if attention.kv_elements_per_token == 0:
        return 0.0
    elements = attention.kv_elements_per_token / attention.compress_ratio
    bandwidth = accelerator.memory_bandwidth_gbs * GB
    if attention.kind == "mla":
        read = (elements * kv_cache_bytes + attention.index_bytes_per_token) / bandwidth
        flops = 4 * attention.heads / tp * elements
        return max(read, flops / compute_flops(accelerator, "fp16"))
    elements *= max(1.0, attention.kv_heads / tp) / attention.kv_heads
    return (elements * kv_cache_bytes + attention.index_bytes_per_token) / bandwidth


def _pair_flops(attention: Attention) -> float:
    """FLOPs of a query token against a context token, all heads: 2 head_dim for the score, 2 v_head_dim to gather."""
    if attention.kind in ("linear", "none"):
        return 0.0
    return 2.0 * attention.heads * (attention.head_dim + (attention.v_head_dim or attention.head_dim))


def _state_bytes(attention: Attention) -> float:
    """Bytes of a recurrent state, read and written back once a step."""
    return 2.0 * (2 * attention.state_elements + 2 * attention.state_fp32_elements)


def _collectives(
    accelerator: Accelerator,
    c: Mapping[str, float],
    tp: int,
    ranks: int,
    reductions: int,
    exchanges: int,
    reduced_bytes: float,
    exchanged_bytes: float,
) -> tuple[float, float]:
    """Latency of a step's collectives in seconds, and ideal seconds a token spends on links.

    Inside a node ranks meet over NVLink or PCIe. An all-reduce over more is one in each node, then one of each rank's
    share over the network (NCCL's hierarchy of rings); of an exchange over more ranks than a node has, what is meant
    for other nodes takes the network.
    """
    node = accelerator.node_gpus
    link, network = one_way_link_bytes_per_s(accelerator), NETWORK_ONE_WAY_GBS[accelerator.interconnect_gbs > 0] * GB
    latency_us = c["collective_us"] if accelerator.interconnect_gbs > 0 else c["collective_pcie_us"]
    across_us = c["collective_network_us"]
    inside = min(tp, node)
    nodes = -(-tp // node)
    reduced_s = reduced_bytes * (2 * (inside - 1) / inside / link + 2 * (nodes - 1) / nodes / inside / network)
    away = max(0.0, 1 - node / ranks)
    exchanged_s = exchanged_bytes * ((1 - away) / link + away / network)
    latency_s = 1e-6 * (
        reductions * (latency_us + (across_us if nodes > 1 else 0.0))
        + exchanges * (latency_us + (across_us if away else 0.0))
    )
    return latency_s, reductions * reduced_s + exchanges * exchanged_s


def step_parameters(
    architecture: Architecture,
    weights: Weights,
    accelerator: Accelerator,
    tp: int,
    coefficients: Mapping[str, float],
    ep: int = 1,
    kv_cache_bytes: float = 2.0,
    dp: int = 1,
) -> NDArray[np.float64]:
    """The parameters of `step_seconds` for one replica of `dp` attention ranks of `tp` GPUs, laid out as STEP_FIELDS.

    `ep` is the number of expert-parallel groups among those GPUs (1: every expert is sliced over all of them); it must
    divide `tp` x `dp`. `kv_cache_bytes` is the size of one cached element. Experts spread over ranks (`ep` > 1) leave
    the bytes a rank streams and exchanges unchanged on average, and cost the busiest rank's share of FLOPs.

    With `dp` > 1 a step is that of one attention rank, its tokens and sequences alone, all ranks alike: each holds
    attention and dense layers over its own `tp` GPUs, experts are spread over all `tp` x `dp`, touched by every rank's
    tokens, and reached by a dispatch and a combine in place of the second all-reduce.

    Raises ValueError for a `tp`, `dp` or `ep` that cannot be, and for coefficients that are missing or beat the
    datasheet.
    """
    if tp < 1 or dp < 1 or ep < 1 or (tp * dp) % ep:
        raise ValueError(
            f"tensor parallel {tp} x {dp} attention ranks with expert parallel {ep}: all at least 1, and ep must divide"
            " the ranks"
        )
    check_coefficients(coefficients)
    c = coefficients
    layers = architecture.layers
    moe = [layer.feed_forward for layer in layers if layer.feed_forward.experts > 0]
    bandwidth = accelerator.memory_bandwidth_gbs * GB
    rank = _streamed(architecture, weights, tp)

    p = dict.fromkeys(STEP_FIELDS, 0.0)
    p["step_overhead_s"] = c["step_overhead_us"] * 1e-6
    kinds = [layer.attention.kind for layer in layers]
    p["layer_overhead_s"] = 1e-6 * (
        len(layers) * c["layer_overhead_us"]
        + kinds.count("mla") * c["mla_layer_overhead_us"]
        + kinds.count("linear") * c["linear_layer_overhead_us"]
    )
    p["moe_layer_overhead_s"] = len(moe) * c["moe_layer_overhead_us"] * 1e-6
    p["prefill_host_s"] = len(layers) * c["prefill_layer_host_us"] * 1e-6
    # Every sequence is a row of tiles of its own in every layer's attention, however short its context.
    p["sequence_overhead_s_per_sequence"] = 1e-6 * (
        c["sequence_overhead_us"] + len(layers) * c["sequence_layer_overhead_us"]
    )

    flops_16 = compute_flops(accelerator, "fp16")
    dense_s = c["dense_flops_factor"] * 2 / compute_flops(accelerator, weights.dense_compute)
    p["dense_read_s"] = c["dense_read_factor"] * rank.body_bytes / bandwidth
    p["dense_flops_s_per_token"] = dense_s * rank.body_parameters
    p["head_read_s"] = c["dense_read_factor"] * rank.head_bytes / bandwidth
    p["head_flops_s_per_sequence"] = c["dense_flops_factor"] * 2 * rank.head_parameters / flops_16
    if moe:
        imbalance = c["expert_imbalance_factor"] if ep > 1 else 1.0
        expert_s = c["expert_flops_factor"] * imbalance * 2 / compute_flops(accelerator, weights.expert_compute)
        p["expert_read_s"] = c["expert_read_factor"] * rank.expert_bytes / dp / bandwidth
        p["expert_unused_share"] = float(np.mean([1 - f.experts_per_token / f.experts for f in moe])) ** dp
        p["expert_flops_s_per_token"] = expert_s * rank.routed_parameters
    reductions = (0 if tp == 1 else COLLECTIVES_PER_LAYER * len(layers)) - (0 if tp == 1 or dp == 1 else len(moe))
    exchanges = 0 if dp == 1 else COLLECTIVES_PER_LAYER * len(moe)
    # Each token goes to the ranks its experts are on and comes back, never to more ranks than there are.
    copies = float(np.mean([min(f.experts_per_token, tp * dp - 1) for f in moe])) if exchanges else 0.0
    hidden_bytes = architecture.hidden_size * ACTIVATION_BYTES
    latency_s, bytes_s = _collectives(
        accelerator, c, tp, tp * dp, reductions, exchanges, hidden_bytes, copies * hidden_bytes / tp
    )
    p["collective_latency_s"] = latency_s
    p["collective_bytes_s_per_token"] = c["collective_bytes_factor"] * bytes_s

    windows = []
    for attention in (layer.attention for layer in layers):
        kind = "full"
        if attention.window_tokens is not None and attention.kind in ("sliding", "chunked"):
            kind = "window"
            windows.append(float(attention.window_tokens))
        read_s = c["kv_read_factor"] * _kv_read_s_per_token(attention, accelerator, tp, kv_cache_bytes)
        p[f"kv_{kind}_s_per_token"] += read_s
        p[f"attention_{kind}_s_per_pair"] += c["attention_flops_factor"] * _pair_flops(attention) / (flops_16 * tp)
        p["state_s_per_sequence"] += c["kv_read_factor"] * _state_bytes(attention) / (bandwidth * tp)
    # Windows of several sizes in one model are taken as the widest: an upper bound on what is read.
    p["window_tokens"] = max(windows, default=np.inf)
    return np.array([p[name] for name in STEP_FIELDS], dtype=np.float64)
