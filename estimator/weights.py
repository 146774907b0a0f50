"""Bytes of a model's weights: from the checkpoint's files where they are known, else from the config and its scheme.

Belongs here: bytes of the whole model by part, and the precision its GEMMs run in. Does not: what one rank holds
(`estimator.memory.ranks`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.architecture import Architecture, Layer, Quantization
from estimator.hardware import GIB

DTYPE_BITS = {"bfloat16": 16.0, "float16": 16.0, "float32": 32.0}
NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
SCHEMES = {
    "bf16": Quantization(),
    "fp16": Quantization(),
    "fp32": Quantization(attention_bits=32, dense_bits=32, expert_bits=32, head_bits=32),
    "fp8": Quantization("fp8", 8, 8, 8, 16, "fp8", "fp8"),
    "int8": Quantization("int8", 8, 8, 8, 16, "int8", "int8"),
    "int4": Quantization("int4", 4.125, 4.125, 4.125, 16, "fp16", "fp16", block_elements=128),
    "mxfp4": Quantization("mxfp4", 16, 4.25, 4.25, 16, "fp4", "fp4"),
    "nvfp4": Quantization("nvfp4", 4.5, 4.5, 4.5, 16, "fp4", "fp4"),
}
"""Precisions a deployment can ask for: bits per parameter with scales (INT4 in groups of 128)."""
KEPT_FROM_4_BITS = "4-bit checkpoints of such models keep attention in 16 bits"
SAME = {
    "16bit": "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp4": "nvfp4",
    "w4a16": "int4",
    "awq": "int4",
    "gptq": "int4",
    "w8a8": "int8",
    "fp8_dynamic": "fp8",
}
TIE_TOLERANCE = 0.01
"""A checkpoint this near the computed size agrees with it."""


class UnsupportedPrecision(ValueError):  # noqa: N818 - reads as a sentence where it is caught
    """A precision capsheet cannot size, or that the checkpoint cannot be loaded in."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of a whole model, before any division over ranks; draft heads left out.

    `dense_bytes` is everything but the routed experts, input embedding and head included; `expert_bytes` the routed
    experts; `embedding_bytes` the input embedding (part of `dense_bytes`). `scheme` is how each part is stored and
    `scale` the factor from the computed bytes to the checkpoint's. `label` is verified for a checkpoint's own file
    sizes, estimated otherwise.
    """

    dense_bytes: float
    expert_bytes: float
    embedding_bytes: float
    precision: str
    label: str
    source: str
    dense_compute: str
    expert_compute: str
    scheme: Quantization
    scale: float = 1.0
    note: str = ""

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return self.dense_bytes + self.expert_bytes

    @property
    def streamed_bytes(self) -> float:
        """Dense bytes a decode step reads: without the input embedding, which is looked up."""
        return self.dense_bytes - self.embedding_bytes


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """Bytes of one layer by part."""

    attention: float
    dense: float
    router: float
    experts: float
    norms: float

    @property
    def total(self) -> float:
        """All of the layer."""
        return self.attention + self.dense + self.router + self.experts + self.norms


def layer_bytes(layer: Layer, scheme: Quantization, plain_bits: float) -> LayerBytes:
    """Bytes of a layer's parts under a scheme; router and norms keep the plain type."""
    forward = layer.feed_forward
    return LayerBytes(
        attention=layer.attention.parameters * scheme.attention_bits / 8,
        dense=(forward.dense_parameters - forward.router_parameters) * scheme.dense_bits / 8,
        router=forward.router_parameters * plain_bits / 8,
        experts=forward.experts * forward.expert_parameters * scheme.expert_bits / 8,
        norms=layer.norm_parameters * plain_bits / 8,
    )


def plain_bits(architecture: Architecture, precision: str = "auto") -> float:
    """Bits of an unquantised parameter."""
    name = SAME.get(precision, precision)
    return 32.0 if name == "fp32" else DTYPE_BITS[architecture.dtype] if name == "auto" else 16.0


def weights(architecture: Architecture, precision: str = "auto", checkpoint_bytes: int | None = None) -> Weights:
    """The model's weights in a precision: `auto` is the checkpoint's own.

    `checkpoint_bytes` is the sum of its safetensors files; it holds for `auto` and for the precision the checkpoint is
    in. Another precision (an engine quantising a 16-bit checkpoint at load, or a sibling checkpoint) is computed.

    Raises UnsupportedPrecision for a name capsheet does not know, or a checkpoint size that is not positive.
    """
    name = SAME.get(precision.lower(), precision.lower())
    own = architecture.scheme
    own_name = own.scheme if own.scheme != "none" else NAMES[architecture.dtype]
    if checkpoint_bytes is not None and checkpoint_bytes <= 0:
        raise UnsupportedPrecision(f"{architecture.model_id or 'the model'}: a checkpoint of {checkpoint_bytes} bytes")
    is_own = name in {"auto", own_name} or (own.scheme == "none" and DTYPE_BITS[architecture.dtype] == _bits(name))
    if not is_own and name not in SCHEMES:
        raise UnsupportedPrecision(f"precision {precision!r} is not known; one of auto, {', '.join(sorted(SCHEMES))}")
    scheme = own if is_own else sibling(architecture, name)
    bits = DTYPE_BITS[architecture.dtype] if is_own else plain_bits(architecture, name)
    if is_own and own.scheme == "none" and bits == 32:
        scheme = SCHEMES["fp32"]
    computed = _computed(architecture, scheme, bits, own_name if is_own else name)
    if checkpoint_bytes is None:
        return computed
    if not is_own:
        note = f"the {own_name} checkpoint's {checkpoint_bytes / GIB:.2f} GiB say nothing about {name}"
        return replace(computed, note=note)
    return _scaled(architecture, computed, checkpoint_bytes, bits)


def sibling(architecture: Architecture, name: str) -> Quantization:
    """How a checkpoint of this model in a precision of `SCHEMES` is usually stored.

    In 4 bits, models whose layers hold a recurrent mixer beside routed experts keep attention (in NVFP4 shared experts
    too) in 16 bits, and models with MLA keep attention in NVFP4. Read off nvidia's published exclusion lists:
    DeepSeek-V3.1 and V3.2, GLM-5, Kimi-K2.6 and Qwen3.5-122B keep it, Qwen3-235B, Nemotron-3 and Llama do not. A
    Qwen3.6-35B-A3B so sized comes to 22.3 GiB where a start-up loaded 21.86.
    """
    scheme = SCHEMES[name]
    layers = architecture.layers
    recurrent = any(layer.attention.kind == "linear" and layer.feed_forward.experts for layer in layers)
    if name == "nvfp4" and recurrent:
        return replace(scheme, attention_bits=16, dense_bits=16, dense_compute="fp16", detail=KEPT_FROM_4_BITS)
    if (name == "int4" and recurrent) or (name == "nvfp4" and any(layer.attention.kind == "mla" for layer in layers)):
        return replace(scheme, attention_bits=16, detail=KEPT_FROM_4_BITS)
    return scheme


def _bits(name: str) -> float:
    return {"bf16": 16.0, "fp16": 16.0, "fp32": 32.0}.get(name, 0.0)


def _computed(architecture: Architecture, scheme: Quantization, bits: float, name: str) -> Weights:
    parts = [layer_bytes(layer, scheme, bits) for layer in architecture.layers]
    embedding = architecture.embedding_parameters * bits / 8
    head_bits = bits if scheme.head_bits == 16 else scheme.head_bits
    dense = (
        sum(part.total - part.experts for part in parts)
        + embedding
        + architecture.head_parameters * head_bits / 8
        + (architecture.hidden_size + architecture.vision_parameters + architecture.extra_parameters) * bits / 8
    )
    detail = f" ({scheme.detail})" if scheme.detail else ""
    return Weights(
        dense_bytes=dense,
        expert_bytes=sum(part.experts for part in parts),
        embedding_bytes=embedding,
        precision=name,
        label="estimated",
        source=f"parameters of the config x bits of {name}{detail}",
        dense_compute=scheme.dense_compute,
        expert_compute=scheme.expert_compute,
        scheme=scheme,
    )


def _scaled(architecture: Architecture, computed: Weights, checkpoint_bytes: int, bits: float) -> Weights:
    """The computed parts brought to the checkpoint's size, with the tie or the mismatch said."""
    body = float(checkpoint_bytes)
    note = ""
    expected = computed.total_bytes
    draft = architecture.draft_parameters * computed.scheme.expert_bits / 8
    if draft and abs(checkpoint_bytes - expected - draft) < abs(checkpoint_bytes - expected):
        body = checkpoint_bytes - draft
        note = f"{draft / GIB:.2f} GiB of draft heads in the files are not loaded"
    doubled = architecture.embedding_parameters * bits / 8
    off = body / expected - 1
    if abs(off) > TIE_TOLERANCE:
        if architecture.tied_embeddings and abs(body - doubled - expected) <= TIE_TOLERANCE * expected:
            body -= doubled
            note = "the files hold the tied head a second time; it is loaded once"
        else:
            note = "; ".join(
                part
                for part in (note, f"the files are {off:+.1%} from what the config comes to ({expected / GIB:.2f} GiB)")
                if part
            )
    scale = body / expected
    return replace(
        computed,
        dense_bytes=computed.dense_bytes * scale,
        expert_bytes=computed.expert_bytes * scale,
        embedding_bytes=computed.embedding_bytes * scale,
        label="verified",
        source="sum of the checkpoint's safetensors files",
        scale=scale,
        note=note or "agrees with the config",
    )
