"""What stands around the layers: rotary tables, draft heads, learned positions, and what nobody accounted for.

Belongs here: model-wide extras and the list of unaccounted things. Does not: layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from estimator.architecture import Layer
from estimator.configs.attention import COMPRESS_RATIOS
from estimator.configs.fields import Fields

DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers")

STRUCTURAL = re.compile(
    r"mamba|ssm|linear_attn|linear_attention|lightning|expert|moe|sparse|latent|compress|lora_rank|block_config|"
    r"kv_shared|hybrid|hyper|altup|laurel|per_layer|recurrent|memory_|conv_|num_loops|n_loop|mixture|retention",
)
"""Words in a field's name that mean structure; an unknown model with such a field is not a plain decoder."""


def draft_parameters(text: Fields, hidden: int, layers: Sequence[Layer]) -> int:
    """Parameters of multi-token-prediction heads: each one decoder layer like the last, and a 2h -> h projection."""
    heads = text.integer(*DRAFTS, default=0, minimum=0, maximum=64)
    if not heads or not layers:
        return 0
    attending = next(
        (layer.attention for layer in reversed(layers) if layer.attention.kind not in {"none", "linear"}), None
    )
    last = layers[-1].feed_forward
    attention = attending.parameters if attending is not None else 0
    forward = last.dense_parameters + last.experts * last.expert_parameters
    return heads * (attention + forward + 2 * hidden * hidden + 4 * hidden)


def extra_parameters(text: Fields, family: str, hidden: int, layers: int) -> int:
    """Learned position embeddings (OPT, GPT-2), per-layer inputs (Gemma-3n/4), hyper-connections (DeepSeek-V4)."""
    total = 0
    if family in {"opt", "gpt2", "gpt_bigcode"}:
        positions = text.integer("max_position_embeddings", "n_positions", default=2048)
        total += (positions + 2) * hidden
    per_layer = text.integer("hidden_size_per_layer_input", default=0, minimum=0)
    if per_layer:
        vocabulary = text.integer("vocab_size_per_layer_input", default=0, minimum=0)
        total += vocabulary * per_layer * layers + 3 * layers * hidden * per_layer
    streams = text.integer("hc_mult", default=0, minimum=0, maximum=64)
    if streams:
        total += 2 * layers * streams * hidden * (streams * 2 + streams * streams)
    return total


def rope_cache_elements(text: Fields, family: str, layers: Sequence[Layer], positions: int) -> int:
    """Elements of the rotary tables an engine keeps beside the weights: positions x rotary dims, one a distinct kind.

    Llama-3.1-8B: 131,072 x 128 in bf16 are the 0.031 GiB by which its load exceeds its files. YaRN tables reach
    original length x factor, linearly scaled ones positions x factor.
    """
    if text.has("qk_rope_head_dim"):
        rotary = text.integer("qk_rope_head_dim", minimum=0)
    else:
        attending = next((layer.attention for layer in layers if layer.attention.head_dim), None)
        share = text.number("partial_rotary_factor", "rotary_pct", default=1.0, maximum=1.0)
        nested = text.mapping("rope_parameters")
        if nested is not None and "full_attention" not in nested.values:
            share = nested.number("partial_rotary_factor", default=share, maximum=1.0)
        rotary = int((attending.head_dim if attending else 0) * share)
    if family in {"opt", "gpt2", "bloom", "mamba", "mamba2", "jamba", "nemotron_h"}:
        return 0
    length = positions
    scaling = text.mapping("rope_scaling", "rope_parameters")
    if scaling is not None and scaling.values.get("type", scaling.values.get("rope_type")) == "yarn":
        original = scaling.integer("original_max_position_embeddings", default=positions)
        length = max(int(original * scaling.number("factor", default=1.0, minimum=0.0, maximum=1e5)), 1)
    elif scaling is not None and scaling.values.get("type", scaling.values.get("rope_type")) == "linear":
        length = int(positions * scaling.number("factor", default=1.0, minimum=0.0, maximum=1e5))
    if family in {"gemma3_text", "gemma4_text"}:
        return (length + positions) * rotary  # one table for full layers, one, unscaled, for the windowed
    tables = 1
    if scaling is not None and scaling.has("mrope_section"):
        tables = 4
    return tables * length * rotary


def unaccounted(text: Fields, family: str, outer_type: str, *, known: bool, layers: Sequence[Layer]) -> tuple[str, ...]:
    """What the config holds and the account does not: an unknown family, its structural fields, odd mixtures."""
    out: list[str] = []
    if not known:
        name = outer_type or family
        out.append(
            f"model_type {name[:60]!r} is not known: read as a plain decoder"
            if name
            else "model_type is missing: read as a plain decoder"
        )
        read = {
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "num_experts_per_tok",
            "moe_intermediate_size",
            "kv_lora_rank",
            "q_lora_rank",
            "n_shared_experts",
            "residual_moe",
        }
        out += [
            f"{name[:60]} (structural field of an unknown model)"
            for name in text.values
            if isinstance(name, str) and STRUCTURAL.search(name) and name not in read and text.values[name]
        ][:12]
    unknown = sorted(
        {a.compress_ratio for layer in layers if (a := layer.attention).compressed_rope_dim} - {1, *COMPRESS_RATIOS}
    )
    if unknown:
        out.append(f"compress_ratios {unknown}: how engines page such a cache is not known")
    if family == "deepseek_v4" and not text.has("compress_ratios"):
        out.append("compress_ratios is missing: which layers compress is not known")
    if text.has("sparse_attention_config") and not any(layer.attention.index_bytes_per_token for layer in layers):
        out.append("sparse_attention_config: the index beside the cache is not sized")
    if not any(layer.attention.parameters for layer in layers):
        out.append("no attention layer found")
    return tuple(out)
