"""One config.json into one architecture: find the language model, its layers, and what is left over.

Belongs here: the order of reading and the choice of layers. Does not: a layer's arithmetic (sibling modules).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from estimator.architecture import Architecture, Attention, FeedForward, Layer
from estimator.configs import attention as attend
from estimator.configs import feedforward, recurrent
from estimator.configs.families import (
    ACTIVE_LEAVES_OUT,
    ARCHITECTURES,
    CLASS_DEFAULTS,
    KNOWN,
    NESTED,
    TIED,
    base_type,
)
from estimator.configs.fields import MAX_LAYERS, Fields, UnsupportedConfig
from estimator.configs.leftovers import draft_parameters, extra_parameters, rope_cache_elements, unaccounted
from estimator.configs.quantization import quantization
from estimator.configs.vision import vision_parameters, vision_shape

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
POSITIONS = (
    "max_position_embeddings",
    "model_max_length",
    "n_positions",
    "max_sequence_length",
    "seq_length",
    "n_ctx",
    "max_seq_len",
)
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32", "half": "float16", "float": "float32"}


def parse_config(config: Mapping[str, object], model_id: str = "") -> Architecture:
    """The architecture a config.json describes. `hf_quant_config` may hold ModelOpt's sidecar.

    Raises UnsupportedConfig, one line, when a needed field is missing or wrong, or the kind of model is not one that
    generates tokens with a KV cache or a recurrent state. An unknown `model_type` is read as a plain decoder and
    named in `unaccounted`.
    """
    where = model_id or "config.json"
    if not isinstance(config, Mapping):
        raise UnsupportedConfig(f"{where}: is not a JSON object; pass the model's config.json")
    try:
        return _parse(Fields(config, where), where)
    except RecursionError:
        raise UnsupportedConfig(f"{where}: is nested too deeply; pass the model's config.json") from None


def _parse(config: Fields, where: str) -> Architecture:
    text, outer_type = _language_part(config, where)
    declared_type = text.text("model_type", default=outer_type)
    family = base_type(declared_type)
    text, notes = _with_defaults(text, family)
    if config.values.get("is_encoder_decoder") is True:
        raise config.fail("is_encoder_decoder", "is true", "capsheet sizes decoder-only models")
    hidden = text.integer("hidden_size", "n_embd", "d_model", "dim", maximum=1_000_000)
    layers = _layers(text, family, hidden)
    vision, vision_problem = vision_parameters(config, hidden)
    vision_layers, vision_width = vision_shape(config)
    scheme = quantization(config, text, len(layers))
    if any(layer.attention.compressed_rope_dim for layer in layers) and scheme.kv_cache_dtype is None:
        scheme = replace(scheme, kv_cache_dtype="fp8")
        notes.append("engines keep the cache of compressed attention in FP8, its rotated dimensions in 16 bits")
    tied = text.boolean("tie_word_embeddings", default=config.boolean("tie_word_embeddings", default=family in TIED))
    positions = text.integer(*POSITIONS, default=config.integer(*POSITIONS, default=2048))
    multimodal = any(config.has(name) for name in ("vision_config", "visual", "audio_config", "vision_tower_config"))
    leftovers = unaccounted(text, family, outer_type, known=family in KNOWN, layers=layers)
    if vision_problem:
        leftovers = (*leftovers, vision_problem)
    vocabulary = text.integer(
        "vocab_size", "padded_vocab_size", default=config.integer("vocab_size", default=None) or _missing_vocab(text)
    )
    parts = ACTIVE_LEAVES_OUT.get(family, ()) if any(layer.feed_forward.experts for layer in layers) else ()
    return Architecture(
        model_type=outer_type or declared_type or "unknown",
        hidden_size=hidden,
        vocab_size=vocabulary,
        layers=tuple(layers),
        tied_embeddings=tied,
        max_position_tokens=positions,
        dtype=_dtype(text, config),
        quantization=scheme.scheme,
        vision_parameters=vision,
        draft_parameters=draft_parameters(text, hidden, layers),
        unaccounted=leftovers,
        model_id="" if where == "config.json" else where,
        scheme=scheme,
        multimodal=multimodal,
        vision_layers=vision_layers,
        vision_width=vision_width,
        rope_cache_elements=rope_cache_elements(text, family, layers, positions),
        extra_parameters=extra_parameters(text, family, hidden, len(layers)),
        active_leaves_out=vocabulary * hidden * (len(parts) - (tied and "head" in parts)),
        notes=tuple(notes),
    )


def _missing_vocab(text: Fields) -> int:
    return text.integer("vocab_size", "padded_vocab_size")


def _language_part(config: Fields, where: str) -> tuple[Fields, str]:
    """The mapping that describes the language model, and the outermost model_type."""
    text = config
    for _ in range(4):
        nested = next((name for name in NESTED if isinstance(text.values.get(name), Mapping)), None)
        if nested is None or text.has(*LAYERS, "layers_block_type"):
            break
        inner = text.mapping(nested)
        assert inner is not None
        text = Fields(inner.values, where)
    named = config.values.get("architectures")
    by_class = (
        next((ARCHITECTURES[n] for n in named if isinstance(n, str) and n in ARCHITECTURES), "")
        if isinstance(named, list)
        else ""
    )
    return text, config.text("model_type", default=by_class)


def _with_defaults(text: Fields, family: str) -> tuple[Fields, list[str]]:
    """The mapping with its class defaults filled in, and a note for each that was."""
    names = {"num_attention_heads": attend.HEADS, "num_key_value_heads": attend.KV_HEADS}
    missing = {
        name: value
        for name, value in CLASS_DEFAULTS.get(family, {}).items()
        if name not in text.values and not text.has(*names.get(name, (name,)))
    }
    if "max_position_embeddings" in missing and text.has(*POSITIONS):
        del missing["max_position_embeddings"]
    notes = [f"{name} {value} is the {family} class default" for name, value in missing.items()]
    return Fields({**text.values, **missing}, text.where), notes


def _dtype(text: Fields, config: Fields) -> str:
    for part in (text, config):
        value = part.text("torch_dtype", "dtype")
        if value:
            name = value.removeprefix("torch.")
            if name not in DTYPES:
                raise part.fail("torch_dtype", f"is {name[:40]!r}", f"one of {', '.join(DTYPES)} is read")
            return DTYPES[name]
    return "bfloat16"


def _layer_count(text: Fields) -> int:
    listed = text.texts("layers_block_type")
    pattern = text.text("hybrid_override_pattern")
    default = len(listed) if listed else len(pattern) if pattern else None
    count = text.integer(*LAYERS, default=default, maximum=MAX_LAYERS)
    return count if count is not None else text.integer(*LAYERS, maximum=MAX_LAYERS)


def _layers(text: Fields, family: str, hidden: int) -> list[Layer]:
    """Every decoder layer, by the way its family lists them."""
    count = _layer_count(text)
    norm = 2 * hidden * (2 if family in {"gemma2", "gemma3_text", "gemma4_text"} else 1)
    blocks = text.sequence("block_configs")
    if blocks is not None:
        return _searched(text, family, hidden, count, blocks)
    if family == "nemotron_h":
        return _patterned(text, family, hidden, count)
    if family in {"mamba", "mamba2", "falcon_mamba"}:
        mixer = recurrent.mamba2(text, hidden) if family == "mamba2" else recurrent.mamba1(text, hidden)
        return [Layer(mixer, FeedForward(), hidden)] * count
    attentions = _attentions(text, family, hidden, count)
    forwards = feedforward.stack(text, family, hidden, count)
    return [Layer(a, f, norm) for a, f in zip(attentions, forwards, strict=True)]


def _attentions(text: Fields, family: str, hidden: int, count: int) -> list[Attention]:
    ratios = text.integers("compress_ratios")
    if ratios is not None:
        if len(ratios) < count:
            raise text.fail("compress_ratios", f"has {len(ratios)} entries for {count} layers", "take the whole file")
        kinds = {ratio: attend.compressed(text, hidden, ratio) for ratio in set(ratios[:count])}
        return [kinds[ratio] for ratio in ratios[:count]]
    linear = text.mapping("linear_attn_config")
    if linear is not None and text.has("kv_lora_rank"):
        delta = set(linear.integers("kda_layers") or [])
        full, mixer = attend.latent(text, hidden), recurrent.kimi_delta(text, hidden)
        if not delta:
            raise linear.fail("kda_layers", "is missing", "take the whole config.json of the model")
        return [mixer if index + 1 in delta else full for index in range(count)]
    if text.has("kv_lora_rank"):
        return _latents(text, hidden, count)
    if text.has("attn_layer_period"):
        period, offset = text.integer("attn_layer_period"), text.integer("attn_layer_offset", default=0, minimum=0)
        full = attend.grouped(text, family, hidden, attend.heads_of(text, family, hidden))
        mixer = recurrent.mamba1(text, hidden)
        return [full if index % period == offset else mixer for index in range(count)]
    heads = attend.heads_of(text, family, hidden)
    kinds_by_layer = _kinds(text, family, count)
    made = {kind: _attention(text, family, hidden, kind, heads) for kind in set(kinds_by_layer)}
    layers = [made[kind] for kind in kinds_by_layer]
    return attend.block_sparse(text, hidden, _shared_caches(text, layers))


def _kinds(text: Fields, family: str, count: int) -> list[str]:
    if text.has("full_attention_interval") and not text.has("layer_types"):
        every = text.integer("full_attention_interval")
        return ["full" if (index + 1) % every == 0 else "linear_attention" for index in range(count)]
    if family == "granitemoehybrid" and not text.has("layer_types"):
        raise text.fail("layer_types", "is missing: which layers are Mamba is not known", "take the whole config.json")
    return attend.layer_kinds(text, family, count)


def _attention(text: Fields, family: str, hidden: int, kind: str, heads: attend.Heads) -> Attention:
    if kind in {"full", "sliding", "chunked"}:
        return attend.by_type(text, family, hidden, kind, heads)
    if kind in {"mamba", "mamba2"}:
        return recurrent.mamba2(text, hidden)
    if kind == "linear_attention":
        return recurrent.gated_delta(text, hidden)
    raise text.fail("layer_types", f"names {kind}, whose state capsheet does not know", "size it by hand")


def _latents(text: Fields, hidden: int, count: int) -> list[Attention]:
    """MLA layers; where the indexer is shared between layers (GLM-5.2) only the full ones carry it."""
    own = attend.latent(text, hidden)
    kinds = text.texts("indexer_types")
    if kinds is None or len(kinds) < count or not own.index_bytes_per_token:
        return [own] * count
    index, _ = attend.indexer(text, hidden, text.integer("q_lora_rank", default=0, minimum=0) or hidden)
    fields = {name: getattr(own, name) for name in own.__dataclass_fields__}
    bare = Attention(
        **{
            **fields,
            "parameters": own.parameters - index,
            "replicated_parameters": own.replicated_parameters - index,
            "index_bytes_per_token": 0,
        }
    )
    return [own if kind == "full" else bare for kind in kinds[:count]]


def _shared_caches(text: Fields, layers: list[Attention]) -> list[Attention]:
    """The last `num_kv_shared_layers` layers read an earlier layer's cache and keep none (Gemma-3n, Gemma-4 small)."""
    shared = text.integer("num_kv_shared_layers", default=0, minimum=0)
    if not shared:
        return layers
    if shared >= len(layers):
        raise text.fail("num_kv_shared_layers", f"is {shared} of {len(layers)} layers", "correct it in config.json")
    out = list(layers)
    for index in range(len(layers) - shared, len(layers)):
        fields = {name: getattr(out[index], name) for name in out[index].__dataclass_fields__}
        out[index] = Attention(**{**fields, "kv_elements_per_token": 0})
    return out


def _patterned(text: Fields, family: str, hidden: int, count: int) -> list[Layer]:
    """Nemotron-H: one mixer a layer, named by a letter (M, *, -, E) or a word."""
    letters = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
    listed = text.texts("layers_block_type")
    pattern = (
        "".join(letters.get(name, "?") for name in listed) if listed else text.text("hybrid_override_pattern")
    ).replace("|", "")
    if len(pattern) < count or set(pattern) - set("M*-E"):
        raise text.fail(
            "hybrid_override_pattern", f"does not name {count} layers by M, *, - or E", "take the whole file"
        )
    idle = Attention(kind="none")
    makers = {
        "M": lambda: Layer(recurrent.mamba2(text, hidden), FeedForward(), hidden),
        "*": lambda: Layer(
            attend.grouped(text, family, hidden, attend.heads_of(text, family, hidden)), FeedForward(), hidden
        ),
        "-": lambda: Layer(
            idle, feedforward.dense(text, family, hidden, feedforward.dense_width(text, hidden)), hidden
        ),
        "E": lambda: Layer(idle, feedforward.routed(text, family, hidden), hidden),
    }
    made = {letter: makers[letter]() for letter in set(pattern[:count])}
    return [made[letter] for letter in pattern[:count]]


def _searched(text: Fields, family: str, hidden: int, count: int, blocks: list[object]) -> list[Layer]:
    """Nemotron-NAS: every layer states its own head group and width, or that it does nothing."""
    if len(blocks) < count:
        raise text.fail("block_configs", f"has {len(blocks)} entries for {count} layers", "take the whole file")
    heads = text.integer(*attend.HEADS, maximum=100_000)
    dim = text.integer(*attend.HEAD_DIM, default=max(1, hidden // heads))
    out: list[Layer] = []
    for block in blocks[:count]:
        if not isinstance(block, Mapping):
            raise text.fail("block_configs", "holds something other than an object", "take the whole file")
        attention, forward = Fields(block, text.where).mapping("attention"), Fields(block, text.where).mapping("ffn")
        layer_attention, layer_forward = Attention(kind="none"), FeedForward()
        if attention is not None and not attention.boolean("no_op", default=False):
            if attention.boolean("replace_with_linear", default=False):
                layer_attention = Attention(kind="none", parameters=hidden * hidden)
            else:
                group = attention.integer("n_heads_in_group", default=1, maximum=heads)
                kv = max(1, heads // group)
                layer_attention = attend.grouped(text, family, hidden, attend.Heads(heads, kv, dim, dim))
        if forward is not None and not forward.boolean("no_op", default=False):
            if forward.boolean("replace_with_linear", default=False):
                layer_forward = FeedForward(dense_parameters=hidden * hidden, intermediate_size=hidden)
            else:
                layer_forward = feedforward.dense(text, family, hidden, _searched_width(forward, hidden))
        out.append(Layer(layer_attention, layer_forward, 2 * hidden))
    return out


def _searched_width(forward: Fields, hidden: int) -> int:
    """Width from `intermediate_size`, or `ffn_mult` rounded up to 256 as the model class does."""
    if forward.has("intermediate_size"):
        return forward.integer("intermediate_size")
    width = int(2 * forward.number("ffn_mult", default=1.0, minimum=0.001, maximum=1000) * hidden / 3)
    return -(-width // 256) * 256
