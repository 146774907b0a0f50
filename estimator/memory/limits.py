"""Which parallel sizes an engine accepts for a model.

Belongs here: divisibility rules. Does not: whether the model then fits (`account`).
"""

from __future__ import annotations

from estimator.architecture import Architecture


def tensor_parallel_problem(architecture: Architecture, tp: int) -> str | None:
    """Why the engines refuse this TP size, or None.

    Query heads must divide evenly; KV heads must divide into the ranks or the ranks into them (then they are copied);
    feed-forward and expert widths must divide. The vocabulary is padded by the engines and never stands in the way
    (vLLM and SGLang parallel layers).
    """
    if tp < 1:
        return f"tensor parallel {tp} is not a size"
    if tp == 1:
        return None
    for layer in architecture.layers:
        attention, forward = layer.attention, layer.feed_forward
        if attention.heads > 1 and attention.heads % tp:
            return f"TP {tp} does not divide {attention.heads} attention heads"
        if attention.kind not in {"mla", "linear", "none"} and attention.kv_heads:
            kv = attention.kv_heads
            if kv % tp and tp % kv:
                return f"TP {tp} and {kv} key/value heads do not divide one another"
        if forward.intermediate_size % tp:
            return f"TP {tp} does not divide the feed-forward width {forward.intermediate_size}"
        if forward.expert_intermediate_size % tp:
            return f"TP {tp} does not divide the expert width {forward.expert_intermediate_size}"
    return None


def stage_layers(layers: int, pp: int) -> list[int]:
    """Layers of each pipeline stage as vLLM cuts them: even, the remainder to the stages before the last.

    Raises ValueError when there are more stages than layers.
    """
    if not 1 <= pp <= layers:
        raise ValueError(f"pipeline parallel {pp} for {layers} layers: from 1 to {layers} stages")
    sizes = [layers // pp] * pp
    for back in range(2, layers % pp + 2):
        sizes[-back] += 1
    return sizes
