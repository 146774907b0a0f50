"""Attention layers that cache keys and values: full, sliding, chunked, latent (MLA), compressed, per layer type.

Belongs here: what one layer caches for a token and how many parameters it has. Does not: recurrent layers
(`recurrent`), how an engine pages the cache (`estimator.memory.kv`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.architecture import Attention
from estimator.configs.families import PATTERNS, QKV_BIAS
from estimator.configs.fields import Fields, shown

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv", "num_query_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "head_size", "d_kv")
INDEX_SCALE_BYTES = 4
"""A sparse-attention indexer keeps one FP8 key a token and a float32 scale (DeepSeek-V3.2: 128 + 4 bytes)."""

COMPRESS_RATIOS = (4, 128)
"""Compression ratios of DeepSeek-V4 (CSA, HCA) whose caches the engines' sources describe."""
WINDOWED = {"sliding_attention", "local", "local_attention", "swa", "sliding", "sliding_window"}
CHUNKED = {"chunked_attention", "chunked"}
FULL = {"full_attention", "global", "global_attention", "attention", "full", "deepseek_sparse_attention"}


@dataclass(frozen=True, slots=True)
class Heads:
    """Head counts and dimensions of one kind of layer."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


def heads_of(text: Fields, family: str, hidden: int) -> Heads:
    """Heads of the model's ordinary layers; `head_dim` where explicit, else hidden / heads."""
    heads = text.integer(*HEADS, maximum=100_000)
    if family == "falcon" and text.boolean("multi_query", default=True):
        default_kv = (
            text.integer("num_kv_heads", default=8) if text.boolean("new_decoder_architecture", default=False) else 1
        )
    elif family == "gpt_bigcode" and text.boolean("multi_query", default=True):
        default_kv = 1
    else:
        default_kv = heads
    kv_heads = default_kv if family == "falcon" else text.integer(*KV_HEADS, default=default_kv, maximum=100_000)
    if kv_heads > heads or heads % kv_heads:
        raise text.fail(
            text.first(KV_HEADS)[0], f"is {kv_heads}, which does not divide {heads} heads", "correct it in config.json"
        )
    if not text.has(*HEAD_DIM) and hidden % heads:
        raise text.fail("head_dim", f"is missing and {heads} heads do not divide {hidden}", "add head_dim")
    head_dim = text.integer(*HEAD_DIM, default=hidden // heads, maximum=65_536)
    return Heads(heads, kv_heads, head_dim, text.integer("v_head_dim", default=head_dim, maximum=65_536))


def grouped(text: Fields, family: str, hidden: int, heads: Heads) -> Attention:
    """Multi-head, grouped or multi-query attention: caches kv_heads x (head_dim + v_head_dim) elements a token."""
    gated = family.startswith(("qwen3_next", "qwen3_5"))  # the class gates its output whether or not the config says so
    gate = 2 if text.boolean("attn_output_gate", "attention_output_gate", default=gated) else 1
    q = hidden * heads.heads * heads.head_dim * gate
    kv = hidden * heads.kv_heads * (heads.head_dim + heads.v_head_dim)
    out = heads.heads * heads.v_head_dim * hidden
    biased = text.boolean("attention_bias", "qkv_bias", "add_qkv_bias", "use_bias", default=family in QKV_BIAS)
    bias = heads.heads * heads.head_dim + heads.kv_heads * (heads.head_dim + heads.v_head_dim) if biased else 0
    return Attention(
        kind="full",
        heads=heads.heads,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        v_head_dim=heads.v_head_dim,
        kv_elements_per_token=heads.kv_heads * (heads.head_dim + heads.v_head_dim),
        parameters=q + kv + out + bias,
        kv_parameters=kv,
    )


def latent(text: Fields, hidden: int) -> Attention:
    """Multi-head latent attention (DeepSeek-V2): caches kv_lora_rank + qk_rope_head_dim elements, no factor 2.

    The down-projections are whole on every rank; with an indexer (DSA, DeepSeek-V3.2) its cache and weights too.
    """
    heads = text.integer(*HEADS, maximum=100_000)
    rank = text.integer("kv_lora_rank")
    rope = text.integer("qk_rope_head_dim", minimum=0)
    nope = text.integer("qk_nope_head_dim", default=128)
    value = text.integer("v_head_dim", default=nope)
    q_rank = text.integer("q_lora_rank", default=0, minimum=0)
    q_down = hidden * q_rank + q_rank
    q_up = (q_rank or hidden) * heads * (nope + rope)
    kv_down = hidden * (rank + rope) + rank
    kv_up = rank * heads * (nope + value)
    out = heads * value * hidden
    index, index_bytes = indexer(text, hidden, q_rank or hidden)
    down = q_down + kv_down + index
    gate = hidden * heads * value if text.boolean("mla_use_output_gate", default=False) else 0
    return Attention(
        kind="mla",
        heads=heads,
        kv_heads=1,
        head_dim=nope + rope,
        v_head_dim=value,
        kv_elements_per_token=rank + rope,
        query_width=q_rank or hidden,
        parameters=down + q_up + kv_up + out + gate,
        replicated_parameters=down,
        index_bytes_per_token=index_bytes,
    )


def indexer(text: Fields, hidden: int, query_width: int) -> tuple[int, int]:
    """Parameters and cached bytes per token of a sparse-attention indexer; zeros without one."""
    dim = text.integer("index_head_dim", default=0, minimum=0)
    count = text.integer("index_n_heads", default=0, minimum=0)
    if not dim or not count:
        return 0, 0
    return query_width * count * dim + hidden * (dim + count) + 2 * dim, dim + INDEX_SCALE_BYTES


def compressed(text: Fields, hidden: int, ratio: int) -> Attention:
    """DeepSeek-V4's attention: one shared K = V head, a raw window, and beyond it one entry every `ratio` tokens.

    Ratio 4 (CSA) reads its entries through an indexer, ratio 128 (HCA) reads them all, ratio 0 keeps the window only.
    """
    heads = text.integer(*HEADS, maximum=100_000)
    dim = text.integer(*HEAD_DIM)
    q_rank = text.integer("q_lora_rank")
    groups = text.integer("o_groups", default=1)
    o_rank = text.integer("o_lora_rank", default=1024)
    down = hidden * q_rank + q_rank + hidden * dim + dim
    body = q_rank * heads * dim + heads * dim * o_rank + groups * o_rank * hidden
    index = entry_bytes = compressor = 0
    if ratio:
        overlap = 2 if ratio == 4 else 1
        compressor = 2 * hidden * dim * overlap + dim
    if ratio == 4:
        index, entry_bytes = indexer(text, hidden, q_rank)
        compressor += 2 * hidden * text.integer("index_head_dim", default=0, minimum=0) * 2
    return Attention(
        kind="sliding" if ratio == 0 else "mla",
        heads=heads,
        kv_heads=1,
        head_dim=dim,
        v_head_dim=dim,
        window_tokens=text.integer("sliding_window", default=128),
        kv_elements_per_token=dim,
        parameters=down + body + index + compressor,
        replicated_parameters=down + index + compressor,
        index_bytes_per_token=entry_bytes // max(ratio, 1),
        compress_ratio=max(ratio, 1),
        compressed_rope_dim=text.integer("qk_rope_head_dim", default=64, maximum=dim),
        compressed_index_dim=text.integer("index_head_dim", default=0, minimum=0) if entry_bytes else 0,
        output_groups=groups,
    )


def block_sparse(text: Fields, hidden: int, layers: list[Attention]) -> list[Attention]:
    """MiniMax-M3's layers: those that `sparse_attention_freq` flags keep an index key a token beside keys and values.

    The key is one head of `sparse_index_dim` in 16 bits whatever the cache's type, whole on every rank (vLLM
    MiniMaxM3IndexerCache; SGLang allocates it head_num 1 in the model's type). The values of the index are off in every
    published layer (`sparse_disable_index_value`).
    """
    sparse = text.mapping("sparse_attention_config")
    if sparse is None or not sparse.boolean("use_sparse_attention", default=True):
        return layers
    flags = sparse.integers("sparse_attention_freq") or [1] * len(layers)
    if len(flags) < len(layers):
        raise sparse.fail(
            "sparse_attention_freq", f"has {len(flags)} entries for {len(layers)} layers", "take it whole"
        )
    heads, dim = sparse.integer("sparse_num_index_heads"), sparse.integer("sparse_index_dim")
    key = hidden * dim + 2 * dim
    return [
        replace(
            layer,
            parameters=layer.parameters + hidden * heads * dim + key,
            replicated_parameters=layer.replicated_parameters + key,
            index_bytes_per_token=2 * dim,
        )
        if flag
        else layer
        for layer, flag in zip(layers, flags, strict=False)
    ]


def window_of(text: Fields, family: str) -> int | None:
    """The sliding window where the config really uses one: `use_sliding_window: false` switches it off."""
    if text.values.get("use_sliding_window") is False:
        return None
    if family == "mistral" and "sliding_window" not in text.values:
        return 4096  # MistralConfig's default; later models write null
    if family.startswith("qwen") and not text.boolean("use_sliding_window", default=False):
        return None
    names = ("sliding_window", "sliding_window_size", "swa_window_size")
    if text.values.get("sliding_window") == 0:
        return None
    return text.integer(*names, default=None)


def layer_kinds(text: Fields, family: str, layers: int) -> list[str]:
    """`full`, `sliding`, `chunked`, or a recurrent kind's name, for every layer."""
    window = window_of(text, family)
    listed = text.texts("layer_types")
    if listed is not None:
        if len(listed) < layers:
            raise text.fail("layer_types", f"has {len(listed)} entries for {layers} layers", "take the whole file")
        return [_kind(text, name, window) for name in listed[:layers]]
    hybrid = text.integers("hybrid_layer_pattern")
    if hybrid is not None and len(hybrid) >= layers:
        return ["sliding" if flag else "full" for flag in hybrid[:layers]]
    if family == "llama4_text":
        rope = text.integers("no_rope_layers")
        every = text.integer("no_rope_layer_interval", default=4)
        flags = rope if rope and len(rope) >= layers else [int((i + 1) % every != 0) for i in range(layers)]
        return ["chunked" if flag else "full" for flag in flags[:layers]]
    if window is None:
        return ["full"] * layers
    period = text.integer(
        "sliding_window_pattern", "_sliding_window_pattern", default=PATTERNS.get(family, 0), minimum=0
    )
    if period:
        return ["full" if (index + 1) % period == 0 else "sliding" for index in range(layers)]
    if family.startswith("qwen"):
        start = text.integer("max_window_layers", default=layers, minimum=0)
        return ["sliding" if index >= start else "full" for index in range(layers)]
    return ["sliding"] * layers


def _kind(text: Fields, name: str, window: int | None) -> str:
    if name in WINDOWED:
        return "sliding" if window is not None else "full"
    if name in CHUNKED:
        return "chunked"
    if name in FULL:
        return "full"
    if name in {"linear_attention", "mamba", "mamba2", "kda", "conv", "recurrent"}:
        return name
    raise text.fail("layer_types", f"names {shown(name)}, a kind capsheet does not know", "size it by hand")


def windowed(text: Fields, family: str, attention: Attention, kind: str) -> Attention:
    """An ordinary layer as its kind has it: with its window, its chunk, or whole."""
    if kind == "sliding":
        return replace(attention, kind="sliding", window_tokens=window_of(text, family))
    if kind == "chunked":
        return replace(attention, kind="chunked", window_tokens=text.integer("attention_chunk_size", default=8192))
    return attention


def by_type(text: Fields, family: str, hidden: int, kind: str, ordinary: Heads) -> Attention:
    """An ordinary or a special layer where sliding and full layers have head counts of their own (Gemma-4, MiMo-V2)."""
    heads = ordinary
    if kind == "full" and text.has("global_head_dim", "num_global_key_value_heads"):
        dim = text.integer("global_head_dim", default=ordinary.head_dim)
        kv = text.integer("num_global_key_value_heads", default=ordinary.kv_heads)
        heads = Heads(ordinary.heads, kv, dim, dim)
    if kind == "sliding" and text.has("swa_num_key_value_heads", "swa_head_dim", "swa_num_attention_heads"):
        dim = text.integer("swa_head_dim", default=ordinary.head_dim)
        heads = Heads(
            text.integer("swa_num_attention_heads", default=ordinary.heads),
            text.integer("swa_num_key_value_heads", default=ordinary.kv_heads),
            dim,
            text.integer("swa_v_head_dim", default=ordinary.v_head_dim if dim == ordinary.head_dim else dim),
        )
    attention = windowed(text, family, grouped(text, family, hidden, heads), kind)
    if kind == "full" and text.boolean("attention_k_eq_v", default=False):
        # v reuses k's projection: its weights are gone, but its rows differ after norm and rotation and are cached.
        saved = hidden * heads.kv_heads * heads.v_head_dim
        attention = replace(
            attention, parameters=attention.parameters - saved, kv_parameters=attention.kv_parameters - saved
        )
    return attention
