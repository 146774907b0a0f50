"""How a checkpoint says it is quantised: FP8, INT8, GPTQ, AWQ, bitsandbytes, MXFP4, NVFP4, compressed-tensors.

Belongs here: reading `quantization_config` (and ModelOpt's sidecar under `hf_quant_config`) into bits per parameter,
scales included. Does not: bytes of a model (`estimator.weights`).

Bits of a scheme: its type plus one scale a group (FP8 128 x 128 blocks: 32/16384; INT4 groups of 128: 16/128 and a
4-bit zero point; MXFP4: an 8-bit exponent for 32 elements; NVFP4: an 8-bit scale for 16 elements).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from estimator.architecture import Compute, Quantization
from estimator.configs.fields import Fields

WHOLE_CHANNEL = 4096
"""Stands for the group of a scheme with one scale a channel."""
GROUPS = ("q_group_size", "group_size")
ATTENTION = re.compile(
    r"(self_attn|linear_attn|attention|\.attn)(\*|\..*)?$(?<!norm)(?<!weights_proj)(?<!in_proj_[ab])(?<!conv1d)"
)
"""Names of modules that are attention layers or their projections, and not the norms, indexers or gates beside them."""
DENSE = re.compile(r"shared_expert|mlp\.(gate|up|down|gate_up)_proj|\.mlp$|mlp\*")
EXPERTS = re.compile(r"(?<!shared_)experts(?!.*shared)")


@dataclass(frozen=True, slots=True)
class Scheme:
    """One scheme: name, bits per parameter with scales, type of its GEMMs."""

    name: str
    bits: float
    compute: Compute
    block: int = 0
    """Elements that share a scale along the side TP cuts; 0 where engines cut anywhere or pad."""


NONE = Scheme("none", 16.0, "fp16")
MXFP4 = Scheme("mxfp4", 4 + 8 / 32, "fp4")
NVFP4 = Scheme("nvfp4", 4 + 8 / 16, "fp4", 16)
INT8 = Scheme("int8", 8.0, "int8")
FP8 = Scheme("fp8", 8.0, "fp8")
FP8_BLOCK = Scheme("fp8", 8 + 32 / 128**2, "fp8", 128)


def int4(group: int, zero_point: bool) -> Scheme:
    """Weight-only INT4 with one 16-bit scale (and a zero point) a group; computes in 16 bits."""
    block = group if 1 < group < WHOLE_CHANNEL else 0
    return Scheme("int4", 4 + (16 + (4 if zero_point else 0)) / max(group, 1), "fp16", block)


def quantization(config: Fields, text: Fields, layers: int) -> Quantization:
    """What the checkpoint of a model of so many layers declares. Raises UnsupportedConfig for an unknown method."""
    declared = config.mapping("quantization_config") or text.mapping("quantization_config", "compression_config")
    sidecar = config.mapping("hf_quant_config")
    if sidecar is not None:
        sidecar = sidecar.mapping("quantization") or sidecar
    if declared is None or not (declared.has("quant_method", "quant_algo", "config_groups")):
        declared = sidecar if sidecar is not None else declared
    if declared is None or not declared.values:
        expert = config.text("expert_dtype", default=text.text("expert_dtype"))
        return (
            _whole(NONE)
            if expert not in {"fp4"}
            else replace(_whole(NONE), scheme="mixed", expert_bits=MXFP4.bits, expert_compute="fp4")
        )
    out = _declared(declared, config, text, layers)
    kv = _kv_dtype(declared) or (_kv_dtype(sidecar) if sidecar is not None else None)
    return replace(out, kv_cache_dtype=kv)


def _declared(declared: Fields, config: Fields, text: Fields, layers: int) -> Quantization:
    method = declared.text("quant_method").lower()
    algo = declared.text("quant_algo").upper()
    if algo == "MIXED_PRECISION" and declared.text("moe_quant_algo").upper() == "NVFP4":
        base = _whole(FP8_BLOCK, f"{method} with NVFP4 experts")
        out = replace(base, scheme="mixed", expert_bits=NVFP4.bits, expert_compute="fp4")
        return _left_out(out, declared, layers)
    if method == "compressed-tensors" or (algo in {"", "MIXED_PRECISION"} and declared.has("config_groups")):
        return _left_out(_grouped(declared), declared, layers)
    if algo == "MIXED_PRECISION":
        return _left_out(_by_module(declared), declared, layers)
    scheme = _single(declared, method, algo)
    out = _left_out(_whole(scheme, method or algo.lower()), declared, layers)
    if config.text("expert_dtype", default=text.text("expert_dtype")) == "fp4" and scheme.name == "fp8":
        # DeepSeek-V4 ships FP4 experts under an FP8 header.
        out = replace(out, scheme="mixed", expert_bits=MXFP4.bits, expert_compute="fp4", detail="fp8, fp4 experts")
    return out


def _single(declared: Fields, method: str, algo: str) -> Scheme:
    if method in {"fp8", "fbgemm_fp8"} or algo in {"FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN"}:
        return FP8_BLOCK if declared.has("weight_block_size") else FP8
    if "mxfp4" in method or algo in {"MXFP4", "W4A8_MXFP4_FP8"}:
        return MXFP4
    if algo in {"NVFP4", "W4A16_NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8"} or method in {"nvfp4", "modelopt_fp4"}:
        return NVFP4 if algo != "W4A16_NVFP4" else replace(NVFP4, compute="fp16")
    if method in {
        "gptq",
        "gptq_marlin",
        "awq",
        "awq_marlin",
        "auto-round",
        "auto_round",
        "autoround",
        "hqq",
        "gptqmodel",
    }:
        bits = declared.integer("bits", "w_bit", "num_bits", default=4, minimum=2, maximum=8)
        group = declared.integer(*GROUPS, default=128, minimum=-1)
        if bits == 8:
            return Scheme("int8", 8 + 16 / max(group, 1) if group > 0 else 8.0, "fp16")
        group = group if group > 0 else WHOLE_CHANNEL
        return replace(int4(group, True), bits=bits + 20 / group)
    if algo in {"W4A16", "W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ"}:
        return int4(declared.integer("group_size", default=128), zero_point=False)
    if method == "bitsandbytes":
        if declared.boolean("load_in_8bit", default=False):
            return INT8
        double = declared.boolean("bnb_4bit_use_double_quant", default=False)
        return Scheme("int4", 4 + (8 / 64 + 32 / (64 * 256) if double else 32 / 64), "fp16")
    if method in {"int8", "w8a8_int8", "smoothquant", "experts_int8"} or algo in {"W8A8_SQ_PER_CHANNEL", "INT8"}:
        return INT8
    name = method or algo or "without a quant_method"
    raise declared.fail("quant_method", f"is {name!r}, which capsheet cannot size", "pass the checkpoint's bytes")


def _grouped(declared: Fields) -> Quantization:
    """compressed-tensors and ModelOpt groups: one scheme, or several by target modules."""
    groups = declared.mapping("config_groups")
    found: list[tuple[Scheme, list[str]]] = []
    for name in groups.values if groups is not None else ():
        group = groups.mapping(name) if groups is not None else None
        if group is None:
            continue
        weights = group.mapping("weights")
        acts = group.mapping("input_activations")
        targets = group.texts("targets") or ["Linear"]
        found.append((_numbers(declared, weights, acts), targets))
    if not found:
        algo = declared.text("quant_algo").upper()
        return _whole(_single(declared, "", algo)) if algo else _whole(NONE, "no config_groups")
    if len(found) == 1:
        return _targeted(_whole(found[0][0], declared.text("format")), *found[0])
    out = replace(_whole(NONE), scheme="mixed", detail="several config_groups")
    for scheme, targets in found:
        out = _targeted(out, scheme, targets)
    return out


def _numbers(declared: Fields, weights: Fields | None, acts: Fields | None) -> Scheme:
    if weights is None:
        return NONE
    bits = weights.integer("num_bits", default=8, minimum=1, maximum=16)
    kind = weights.text("type", default="int")
    group = weights.integer("group_size", default=0, minimum=-1)
    form = declared.text("format").lower() + declared.text("quant_algo").lower()
    if bits == 4 and kind == "float":
        scheme = MXFP4 if group == 32 or "mxfp4" in form else NVFP4
        return scheme if acts is not None else replace(scheme, compute="fp16")
    if bits == 4:
        return int4(group if group > 0 else WHOLE_CHANNEL, not weights.boolean("symmetric", default=True))
    if bits == 8 and kind == "float":
        return FP8 if acts is not None else replace(FP8, compute="fp16")
    if bits == 8:
        scheme = Scheme("int8", 8 + 16 / group if group > 0 else 8.0, "int8")
        return scheme if acts is not None else replace(scheme, compute="fp16")
    if bits == 16:
        return NONE
    return Scheme(f"int{bits}", bits + 16 / (group if group > 0 else WHOLE_CHANNEL), "fp16")


def _targeted(out: Quantization, scheme: Scheme, targets: list[str]) -> Quantization:
    joined = " ".join(targets)
    if "Linear" in targets or re.search(r"re:.*Linear", joined):
        return _whole(scheme, out.detail)
    changes: dict[str, object] = {"block_elements": max(out.block_elements, scheme.block)}
    if re.search(r"self_attn|linear_attn|attention|qkv|o_proj|in_proj", joined):
        changes["attention_bits"] = scheme.bits
    if re.search(r"experts", joined):
        changes |= {"expert_bits": scheme.bits, "expert_compute": scheme.compute}
    if re.search(
        r"mlp\.(gate_proj|up_proj|down_proj|gate_up_proj)|shared_expert|feed_forward|mixer\.(up|down)", joined
    ):
        changes |= {"dense_bits": scheme.bits, "dense_compute": scheme.compute}
    if re.search(r"lm_head", joined):
        changes["head_bits"] = scheme.bits
    return replace(out, **changes)  # type: ignore[arg-type]


def _by_module(declared: Fields) -> Quantization:
    """ModelOpt's MIXED_PRECISION sidecar: an algorithm for each module."""
    out = replace(_whole(NONE), scheme="mixed", detail="mixed precision by module")
    modules = declared.mapping("quantized_layers")
    if modules is None:
        raise declared.fail("quantized_layers", "is missing for MIXED_PRECISION", "add the hf_quant_config.json")
    by_algo: dict[str, list[str]] = {}
    for name in modules.values:
        entry = modules.mapping(name)
        if entry is not None:
            by_algo.setdefault(entry.text("quant_algo").upper(), []).append(name)
    for algo, names in by_algo.items():
        out = _targeted(out, _single(declared, "", algo), names)
    return out


def _left_out(out: Quantization, declared: Fields, layers: int) -> Quantization:
    """Bits of each kind of module averaged with the layers the checkpoint keeps in 16 bits."""
    values = declared.first(("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"))[1]
    names = [name for name in values if isinstance(name, str)] if isinstance(values, list | tuple) else []
    names = [name for name in names if not re.search(r"vision|visual|mtp|indexer", name)]
    attention = _kept(names, ATTENTION, layers)
    dense = _kept(names, DENSE, layers) if out.scheme != "mixed" else 0.0
    experts = _kept(names, EXPERTS, layers)
    return replace(
        out,
        attention_bits=out.attention_bits * (1 - attention) + 16 * attention,
        dense_bits=out.dense_bits * (1 - dense) + 16 * dense,
        expert_bits=out.expert_bits * (1 - experts) + 16 * experts,
        expert_compute="fp16" if experts == 1 else out.expert_compute,
    )


def _kept(names: list[str], pattern: re.Pattern[str], layers: int) -> float:
    """Share of the layers whose modules of a kind are left in 16 bits; 1 where a name stands for every layer."""
    found: set[int] = set()
    for name in names:
        number = re.search(r"\.(\d{1,6})(?=\.|\*|$)", name)
        # A layer named whole is a dense first one wherever it was seen: it has no experts.
        whole_layer = pattern is not EXPERTS and re.search(r"layers\.\d+\*?$", name)
        if not whole_layer and not pattern.search(name):
            continue
        if number is None:
            return 1.0
        if int(number.group(1)) < layers:
            found.add(int(number.group(1)))
    return min(1.0, len(found) / layers)


def _kv_dtype(declared: Fields) -> str | None:
    """`fp8` where the checkpoint declares an FP8 cache."""
    for name in ("kv_cache_quant_algo", "kv_cache_scheme"):
        value = declared.values.get(name)
        if isinstance(value, str) and value.upper().startswith("FP8"):
            return "fp8"
        if isinstance(value, dict) and value.get("num_bits") == 8:
            return "fp8"
    return None


def _whole(scheme: Scheme, detail: str = "") -> Quantization:
    """One scheme on every linear layer; embeddings and the head stay in 16 bits."""
    return Quantization(
        scheme=scheme.name,
        attention_bits=scheme.bits,
        dense_bits=scheme.bits,
        expert_bits=scheme.bits,
        dense_compute=scheme.compute,
        expert_compute=scheme.compute,
        detail=detail,
        block_elements=scheme.block,
    )
