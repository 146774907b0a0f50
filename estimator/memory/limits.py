"""Which parallel sizes an engine accepts for a model.

Belongs here: divisibility rules. Does not: whether the model then fits (`account`).
"""

from __future__ import annotations

from estimator.architecture import Architecture, Quantization

VOCABULARY_PAD = 64
"""Engines pad the vocabulary to this multiple (vLLM VocabParallelEmbedding)."""


def tensor_parallel_problem(
    architecture: Architecture, tp: int, *, scheme: Quantization | None = None, ep: int = 1, engine: str = "vllm"
) -> str | None:
    """Why an engine refuses this TP size, or None.

    Query heads must divide evenly; KV heads must divide into the ranks or the ranks into them (then they are copied);
    feed-forward and expert widths must divide, and what a rank gets of a quantised weight must be whole blocks
    (`scheme`; the checkpoint's where None): vLLM and SGLang refuse "is not divisible by weight quantization block_n".
    Experts kept whole (`ep` above 1) are cut by tp / ep only. vLLM pads the vocabulary to a multiple of 64, which must
    then divide; the other engines pad it to the ranks too.
    """
    if tp < 1:
        return f"tensor parallel {tp} is not a size"
    if tp == 1:
        return None
    held = scheme or architecture.scheme
    sliced = max(1, tp // ep)
    for layer in dict.fromkeys(architecture.layers):
        attention, forward = layer.attention, layer.feed_forward
        if attention.heads > 1 and attention.heads % tp:
            return f"TP {tp} does not divide {attention.heads} attention heads"
        if attention.output_groups % tp:
            return f"TP {tp} does not divide the {attention.output_groups} groups of the attention's output"
        if attention.kind not in {"mla", "linear", "none"} and attention.kv_heads:
            kv = attention.kv_heads
            if kv % tp and tp % kv:
                return f"TP {tp} and {kv} key/value heads do not divide one another"
        out = attention.heads * attention.v_head_dim if attention.kind != "linear" else 0
        for what, width, ways, bits in (
            ("attention's output", out, tp, held.attention_bits),
            ("feed-forward width", forward.intermediate_size, tp, held.dense_bits),
            ("expert width", forward.expert_intermediate_size, sliced, held.expert_bits),
        ):
            if width % ways:
                return f"TP {tp} does not divide the {what} {width}"
            if ways > 1 and held.block_elements and bits < 16 and width // ways % held.block_elements:
                return (
                    f"TP {tp} cuts the {what} {width} into {width // ways}, which the checkpoint's blocks of "
                    f"{held.block_elements} do not divide"
                )
    if engine == "vllm" and -(-architecture.vocab_size // VOCABULARY_PAD) * VOCABULARY_PAD % tp:
        return f"TP {tp} does not divide the vocabulary of {architecture.vocab_size}, padded to a multiple of 64"
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
