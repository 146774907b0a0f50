"""What a GPU holds beside weights and cache: activation peak, memory outside the allocator, CUDA graphs.

Belongs here: the physics of the profiling run, with coefficients from the engine profile. Does not: the coefficients'
values (`warehouse/catalog/engines.csv`).

Activation peak of vLLM's profiling run, in bytes, is the larger of two moments:

    forward  = n x e x (c_f x h + w) + base           w = 3 x width / TP of a gated feed-forward, or the grouped GEMM's
    sampler  = s x V x (e + k) + c_s x n x h x e + workspace + base

n = max_num_batched_tokens, s = min(max_num_seqs, n), h hidden size, V vocabulary, e bytes of an activation, k bytes a
logit costs in the sampler (float32 logits, probabilities and noise: 12; more before 0.17). The grouped GEMM of routed
experts holds n x top_k rows of max(2 width/TP, h) and of max(width/TP, h); from 0.12 on it stays while sampling.
"""

from __future__ import annotations

from collections.abc import Mapping

from estimator.architecture import Architecture
from estimator.engines import EngineSettings, Known
from estimator.hardware import GIB
from estimator.memory.ranks import BYTES, Stage
from estimator.weights import Weights

QUERY_WIDTH = 4096
"""Width of the queries on a rank the profile's figure of CUDA graphs is for; no start-up shows it growing beyond."""
WORKSPACE_ROWS = 65_536
"""Tokens the grouped GEMM works on at once; longer batches are cut (vLLM fused_moe chunk size)."""


def value(known: Mapping[str, Known], name: str, default: float = 0.0) -> float:
    """A profile value, or the default where the engine has none."""
    return known[name].value if name in known else default


def _widest(stage: Stage) -> tuple[int, int, int]:
    """Widest dense width, expert width and top-k of a stage's layers."""
    forwards = [layer.feed_forward for layer in stage.layers]
    return (
        max((f.intermediate_size for f in forwards), default=0),
        max((f.expert_intermediate_size for f in forwards), default=0),
        max((f.experts_per_token for f in forwards), default=0),
    )


def activation_gib(
    architecture: Architecture,
    weights: Weights,
    settings: EngineSettings,
    stage: Stage,
    tp: int,
    expert_ranks: int,
    ep: int,
    known: Mapping[str, Known],
) -> float:
    """The profiling run's activation peak on one rank of a stage, GiB."""
    tokens, hidden = settings.max_num_batched_tokens, architecture.hidden_size
    size = 4 if weights.scheme.dense_bits == 32 else BYTES[architecture.dtype]
    dense, expert, top_k = _widest(stage)
    grouped = _workspace(tokens, hidden, expert / max(1, expert_ranks // ep), top_k) * size
    attention = max(
        (
            layer.attention.heads * (layer.attention.head_dim * 2 + layer.attention.v_head_dim) / tp
            for layer in stage.layers
            if layer.attention.kind == "mla"
        ),
        default=0.0,
    )
    hidden_rows = tokens * hidden * size
    peak = max(tokens * 3 * dense / tp * size, grouped, tokens * attention * size)
    base = value(known, "activation_base_gib") * GIB
    forward = value(known, "forward_hidden_copies", 3.0) * hidden_rows + peak
    forward += value(known, "forward_base_gib", base / GIB) * GIB
    if not (stage.first and stage.last):
        forward += 2 * hidden_rows  # hidden states and residual between stages
    samples = settings.chunked_prefill is False or value(known, "chunked_profile_samples", 1.0) > 0
    sampler = 0.0
    if stage.last and samples and "sampler_bytes_per_logit" in known:
        logits = min(settings.max_num_seqs, tokens) * architecture.vocab_size
        keeps = value(known, "expert_workspace_persists") > 0 and weights.scheme.scheme not in {"mxfp4", "nvfp4"}
        sampler = (
            logits * (size + value(known, "sampler_bytes_per_logit"))
            + value(known, "sampler_hidden_copies", 1.0) * hidden_rows
            + (grouped if keeps else 0.0)
            + base
        )
    vision = value(known, "vision_activation_gib") if architecture.multimodal and stage.first else 0.0
    return max(forward, sampler) / GIB + vision


def _workspace(tokens: int, hidden: int, width: float, top_k: int) -> float:
    """Elements the grouped GEMM of routed experts works in; 0 without experts."""
    return min(tokens, WORKSPACE_ROWS) * top_k * (max(2 * width, hidden) + max(width, hidden))


def warm_up_gib(
    architecture: Architecture,
    settings: EngineSettings,
    stage: Stage,
    expert_ranks: int,
    ep: int,
    known: Mapping[str, Known],
) -> float:
    """What the warm-up after the cache is allocated takes, GiB: drawing for a full batch of sequences, sorted, beside
    the experts' workspace. 0 where the profiling run took as much, so that it is left anyway."""
    logit = value(known, "warm_up_bytes_per_logit")
    if not stage.last or not logit:
        return 0.0
    tokens = settings.max_num_batched_tokens
    _, expert, top_k = _widest(stage)
    width = expert / max(1, expert_ranks // ep)
    grouped = _workspace(tokens, architecture.hidden_size, width, top_k) * BYTES[architecture.dtype]
    return (min(settings.max_num_seqs, tokens) * architecture.vocab_size * logit + grouped) / GIB


def non_torch(known: Mapping[str, Known], tp: int, pp: int) -> Known:
    """Memory outside the allocator at this many ranks, GiB: the profile's TP 1, 2, 4 and 8, the nearest at or below."""
    if tp == 1 and pp > 1 and "non_torch_gib_pp" in known:
        return known["non_torch_gib_pp"]
    sizes = [size for size in (8, 4, 2, 1) if size <= tp]
    for size in sizes:
        if f"non_torch_gib_tp{size}" in known:
            return known[f"non_torch_gib_tp{size}"]
    return Known(0.0, "assumed", "the profile has no figure")


def graph_gib(settings: EngineSettings, stage: Stage, tp: int, known: Mapping[str, Known]) -> float:
    """CUDA graphs of a stage, GiB: a base, each layer by the width of its queries on a rank, and more with experts, by
    how many batch sizes are captured."""
    if settings.enforce_eager:
        return 0.0
    routed = any(layer.feed_forward.experts for layer in stage.layers)
    whole = value(known, "graph_base_gib") + len(stage.layers) * value(known, "graph_gib_per_layer")
    widths = (layer.attention.heads * layer.attention.head_dim / tp for layer in stage.layers)
    whole += sum(min(1.0, width / QUERY_WIDTH) for width in widths) * value(known, "graph_gib_per_query_width")
    whole += value(known, "graph_gib_experts") if routed else 0.0
    largest = value(known, "graph_capture_sequences", 512.0)
    captured = min(largest, 2.0 * settings.max_num_seqs)
    return float(whole * (captured / largest) ** 0.5)
