"""What one rank holds of the weights: TP slices, copies, pipeline stages, experts.

Belongs here: division of bytes over ranks. Does not: bytes of a whole model (`estimator.weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from estimator.architecture import Architecture, Attention, Layer
from estimator.engines import Known
from estimator.memory.limits import VOCABULARY_PAD, stage_layers
from estimator.weights import Weights, layer_bytes

BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage: its layers and whether it holds the embedding and the head."""

    layers: tuple[Layer, ...]
    first: bool
    last: bool


def stages(architecture: Architecture, pp: int) -> list[Stage]:
    """The pipeline stages in order."""
    out: list[Stage] = []
    start = 0
    sizes = stage_layers(len(architecture.layers), pp)
    for index, size in enumerate(sizes):
        out.append(Stage(architecture.layers[start : start + size], index == 0, index == len(sizes) - 1))
        start += size
    return out


def rank_weight_bytes(
    architecture: Architecture,
    weights: Weights,
    stage: Stage,
    tp: int,
    expert_ranks: int,
    ep: int,
    known: Mapping[str, Known],
) -> float:
    """Bytes of weights one rank of a stage holds once loaded.

    Slices of 1/TP; k and v copied beyond kv_heads ranks; MLA's down-projections, routers and norms whole; embedding
    and head on their stages, vocabulary padded; the rotary table whole; MLA's absorbed projections beside the
    originals (vLLM keeps both); MXFP4 experts padded. Experts are spread over `ep` of `expert_ranks` and cut over the
    rest: whole ones a rank where the two are equal, slices of all of them where `ep` is 1.
    """
    scheme = weights.scheme
    bits = 8.0 * BYTES[architecture.dtype] if scheme.dense_bits != 32 else 32.0
    total = sum(_layer(layer, weights, bits, tp, expert_ranks, ep, known, architecture) for layer in stage.layers)
    vocabulary = -(-architecture.vocab_size // VOCABULARY_PAD) * VOCABULARY_PAD / tp
    table = vocabulary * architecture.hidden_size * bits / 8
    head_bits = bits if scheme.head_bits == 16 else scheme.head_bits
    if stage.first:
        total += table + architecture.extra_parameters * bits / 8 / tp + architecture.vision_parameters * bits / 8 / tp
    if stage.last and not (stage.first and architecture.tied_embeddings):
        total += table * head_bits / bits
    products = "mla_absorbed_products" in known and known["mla_absorbed_products"].value > 0
    each = scheme.attention_bits if products and scheme.scheme == "fp8" else bits
    absorbed = sum(
        _absorbed(layer.attention, architecture.hidden_size if products else 0) * each / 8 / tp
        for layer in stage.layers
        if layer.attention.kind == "mla" and layer.attention.compress_ratio == 1
    )
    rotary = architecture.rope_cache_elements * min(bits, 16) / 8
    return total * weights.scale + absorbed + rotary


def _absorbed(attention: Attention, hidden: int) -> int:
    """Parameters MLA derives at load and keeps beside its own: the up-projections of k and v, or, given the hidden
    size, the products W_Q_UK, W_QR and W_UV_O of them that vLLM 0.7 kept instead."""
    cached = attention.kv_elements_per_token
    if hidden:
        rank = cached - attention.head_dim + attention.v_head_dim  # nope and value dims are equal where this was used
        return attention.heads * (attention.query_width * cached + rank * hidden)
    return attention.heads * attention.v_head_dim * 2 * cached


def _layer(
    layer: Layer,
    weights: Weights,
    bits: float,
    tp: int,
    expert_ranks: int,
    ep: int,
    known: Mapping[str, Known],
    architecture: Architecture,
) -> float:
    parts = layer_bytes(layer, weights.scheme, bits)
    attention = layer.attention
    held = 0.0
    if attention.parameters:
        each = parts.attention / attention.parameters
        kv_share = max(1 / tp, 1 / attention.kv_heads) if attention.kv_heads else 1 / tp
        sliced = attention.parameters - attention.kv_parameters - attention.replicated_parameters
        out = attention.heads * attention.v_head_dim * architecture.hidden_size
        held = each * attention.replicated_parameters + allocated(each * out / tp)
        held += allocated(each * (attention.kv_parameters * kv_share + (sliced - out) / tp))
    experts = 0.0
    forward = layer.feed_forward
    if forward.experts:
        one = parts.experts / forward.experts
        held_experts = -(-forward.experts // ep)
        ways = max(1, expert_ranks // ep)
        experts = (
            held_experts * one / ways * _padding(weights, forward.expert_intermediate_size / ways, known, architecture)
        )
    down = forward.intermediate_size * architecture.hidden_size
    plain = forward.dense_parameters - forward.router_parameters
    share = down / plain if plain > down > 0 else 0.0
    dense = allocated(parts.dense * share / tp) + allocated(parts.dense * (1 - share) / tp)
    return held + dense + parts.router + parts.norms + experts


def allocated(size: float) -> float:
    """Bytes PyTorch's caching allocator counts for a tensor of `size` bytes.

    From 10 MiB on a block is cut from a segment of whole 2 MiB steps, and a rest of 1 MiB or less is not given back:
    Qwen2.5-72B's 231 MiB projections count 232, which over 80 layers is the 0.08 GiB its load exceeds its files.
    """
    if size < 10 * MIB:
        return size
    rest = -size % (2 * MIB)
    return size + rest if rest <= MIB else size


def _padding(weights: Weights, width: float, known: Mapping[str, Known], architecture: Architecture) -> float:
    """How much MXFP4 experts grow when their dimensions are padded for the kernel; 1 for other schemes."""
    if weights.scheme.scheme != "mxfp4":
        return 1.0
    grown = 1.0
    for name, size in (("mxfp4_pad_hidden", architecture.hidden_size), ("mxfp4_pad_intermediate", width)):
        pad = known[name].value if name in known else 1.0
        grown *= -(-size // pad) * pad / size if size else 1.0
    return grown
