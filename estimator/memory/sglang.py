"""SGLang's own sizing rules: the share of memory it takes by itself, and how it divides its pool.

Belongs here: heuristics of SGLang's server_args and memory pools. Does not: the budget (`account`), figures
(`warehouse/catalog/engines.csv`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from estimator.architecture import Architecture, Layer
from estimator.engines import EngineSettings, Known
from estimator.hardware import Accelerator
from estimator.memory import compressed, kv
from estimator.memory.overheads import value

VIT_L = 24 * 1024**2
"""Layers x width squared of ViT-L, the tower SGLang's vision factor is written for."""


def static_fraction(
    settings: EngineSettings,
    accelerator: Accelerator,
    known: Mapping[str, Known],
    ranks_: int,
    architecture: Architecture | None = None,
) -> float:
    """SGLang's mem_fraction_static where the caller does not set it: its own heuristic by version, memory and vision.

    A vision tower lowers it: by 5 % at ViT-L's size (24 layers x 1024^2), by a further tenth for each ViT-L more, the
    latter between -5 and +20 % (server_args, adjust_mem_fraction_for_vlm).
    """
    if not math.isnan(settings.gpu_memory_utilization):
        return settings.gpu_memory_utilization
    for size in (16, 8, 4, 2, 1):
        name = f"static_fraction_tp{size}"
        if ranks_ >= size and name in known:
            return known[name].value
    graphs = "graph_capture_sequences_tp4" if ranks_ >= 4 else "graph_capture_sequences"
    reserved = (
        value(known, "reserved_mib", 512.0)
        + value(known, "reserved_mib_per_rank") * ranks_
        + value(known, "reserved_mib_per_token") * max(settings.max_num_batched_tokens, 2048)
        + value(known, "reserved_mib_per_graph_sequence") * value(known, graphs)
    )
    reserved = max(reserved, value(known, "reserved_mib_at_least"))
    visible_mib = accelerator.visible_memory_gib * 1024
    share = max(0.01, round((visible_mib - reserved) / visible_mib, 3))
    if architecture is None or not architecture.vision_layers:
        return share
    towers = architecture.vision_layers * architecture.vision_width**2 / VIT_L
    beside = 1 - value(known, "vision_share_per_doubling") * (towers - 1)
    return share * value(known, "vision_share", 1.0) * max(0.8, min(1.05, beside))


def token_pool(
    pool: float,
    layers: Sequence[Layer],
    settings: EngineSettings,
    tp: int,
    layout: kv.Layout,
    known: Mapping[str, Known],
) -> float:
    """Bytes of the pool that hold tokens: less the share of recurrent states, windows at their own ratio, and less the
    states compressed attention keeps by request."""
    if layout.state_bytes_per_sequence and any(group.block_tokens for group in layout.groups):
        pool /= 1 + value(known, "state_pool_ratio", 0.9)
    attentions = [layer.attention for layer in layers if layer.attention.kv_elements_per_token]
    if attentions and attentions[0].compressed_rope_dim:
        return pool - compressed.pooled_state_bytes(attentions, settings, known)
    sliding = [a for a in attentions if a.kind == "sliding"]
    if sliding and len(sliding) < len(attentions):
        ratio = value(known, "window_pool_ratio", 1.0)
        own = sum(kv.token_bytes(a, settings, tp) for a in sliding)
        every = sum(kv.token_bytes(a, settings, tp) for a in attentions)
        pool *= every / (every - own + ratio * own)
    return pool
