"""What a model is made of, layer by layer, as memory and step time need it.

Pure facts of the architecture: no engine, no accelerator, no bytes on a device. `estimator.configs` reads a
config.json into this shape; `estimator.weights`, `estimator.memory` and `estimator.step_time` consume it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

AttentionKind = Literal["full", "sliding", "chunked", "mla", "linear", "none"]
Compute = Literal["fp16", "fp8", "int8", "fp4"]


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention.

    `kv_elements_per_token` counts cached elements of one token over all heads: 2 x kv_heads x head_dim for
    grouped-query attention (the v dimension counted on its own where it differs), kv_lora_rank + rope dims for MLA
    (no factor 2), 0 for linear attention and for a layer that reuses another layer's cache. `state_elements` is the
    fixed state of a sequence (linear, Mamba), `state_fp32_elements` the part of it kept in float32.
    `index_bytes_per_token` is the cache of a sparse-attention indexer, replicated on every rank.
    `compress_ratio` is how many tokens share one cached entry (1: none; CSA and HCA compress).
    `compressed_rope_dim` marks a layer of DeepSeek-V4's compressed attention, its window-only layers included: of an
    entry, the dimensions with rotation, which stay in 16 bits; `compressed_index_dim` is the width of its indexer.
    """

    kind: AttentionKind
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    window_tokens: int | None = None
    kv_elements_per_token: int = 0
    state_elements: int = 0
    parameters: int = 0
    state_fp32_elements: int = 0
    index_bytes_per_token: int = 0
    compress_ratio: int = 1
    compressed_rope_dim: int = 0
    compressed_index_dim: int = 0
    query_width: int = 0
    """Of MLA: what the queries are projected up from, q_lora_rank or the hidden size."""
    output_groups: int = 0
    """Groups an output projection is cut into, which TP has to divide; 0 without."""
    kv_parameters: int = 0
    """Of `parameters`: k and v projections, held by min(TP, kv_heads) ranks and copied beyond."""
    replicated_parameters: int = 0
    """Of `parameters`: projections every rank holds whole (MLA down-projections, indexers)."""


@dataclass(frozen=True, slots=True)
class FeedForward:
    """One layer's feed-forward: `dense_parameters` every token uses (shared experts and router with them), and
    `experts` routed experts of `expert_parameters` each, `experts_per_token` used by a token."""

    dense_parameters: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0
    router_parameters: int = 0
    """Of `dense_parameters`: the router, unquantised and whole on every rank."""
    intermediate_size: int = 0
    """Width of the dense or shared feed-forward."""
    expert_intermediate_size: int = 0
    """Width of one routed expert."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer."""

    attention: Attention
    feed_forward: FeedForward
    norm_parameters: int = 0


@dataclass(frozen=True, slots=True)
class Quantization:
    """How a checkpoint stores its parameters: bits per parameter, scales and zero points included.

    `scheme` is none, fp8, int8, int4, mxfp4, nvfp4 or mixed. The compute fields say what type the checkpoint's GEMMs
    ask for (weight-only schemes multiply in 16 bits); whether an accelerator can is the step time's question.
    """

    scheme: str = "none"
    attention_bits: float = 16.0
    dense_bits: float = 16.0
    expert_bits: float = 16.0
    head_bits: float = 16.0
    dense_compute: Compute = "fp16"
    expert_compute: Compute = "fp16"
    kv_cache_dtype: str | None = None
    """Type the checkpoint asks its KV cache to have, None when it does not say."""
    detail: str = ""
    block_elements: int = 0
    """Elements of a weight that share a scale along the side TP cuts: a rank's slice must be a multiple; 0: any."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A whole model. Counts are parameters, not bytes. `unaccounted` names what the config holds and this does not."""

    model_type: str
    hidden_size: int
    vocab_size: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    max_position_tokens: int
    dtype: str
    """Type of unquantised weights and of an 'auto' KV cache: bfloat16, float16 or float32."""
    quantization: str = "none"
    """Scheme the config declares: none, fp8, int8, int4, mxfp4, nvfp4 or mixed."""
    vision_parameters: int = 0
    draft_parameters: int = 0
    unaccounted: tuple[str, ...] = ()
    model_id: str = ""
    scheme: Quantization = field(default_factory=Quantization)
    multimodal: bool = False
    vision_layers: int = 0
    vision_width: int = 0
    """Layers and width of the vision tower as engines read them: `num_hidden_layers` or 24, `hidden_size` or 1024."""
    rope_cache_elements: int = 0
    """Elements of the rotary table an engine builds when it loads the model (all positions x rotary dims)."""
    extra_parameters: int = 0
    """Parameters outside layers, embeddings and vision: learned positions, per-layer inputs, hyper-connections."""
    active_leaves_out: int = 0
    """Embedding parameters the model's makers leave out of the active count they publish."""
    notes: tuple[str, ...] = ()
    """What the config left out and a class default filled in."""

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding alone."""
        return self.vocab_size * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head, 0 when it is the input embedding."""
        return 0 if self.tied_embeddings else self.embedding_parameters

    @property
    def parameters_total(self) -> int:
        """All parameters of the language model and its vision tower; draft heads apart."""
        body = sum(
            layer.attention.parameters
            + layer.norm_parameters
            + layer.feed_forward.dense_parameters
            + layer.feed_forward.experts * layer.feed_forward.expert_parameters
            for layer in self.layers
        )
        return (
            body
            + self.embedding_parameters
            + self.head_parameters
            + self.hidden_size
            + self.vision_parameters
            + self.extra_parameters
        )

    @property
    def parameters_active(self) -> int:
        """Parameters one text token uses, as its makers count: routed experts at experts_per_token, vision left out,
        and embeddings where they leave them out (`estimator.configs.families.ACTIVE_LEAVES_OUT`)."""
        idle = sum(
            (layer.feed_forward.experts - layer.feed_forward.experts_per_token) * layer.feed_forward.expert_parameters
            for layer in self.layers
        )
        return self.parameters_total - self.vision_parameters - idle - self.active_leaves_out

    @property
    def compressed(self) -> bool:
        """Whether it has DeepSeek-V4's compressed attention, whose cache engines lay out by rules of its own."""
        return any(layer.attention.compressed_rope_dim for layer in self.layers)

    @property
    def attention_kind(self) -> str:
        """How it attends, for people: MHA, GQA, MQA, MLA, with sliding, chunked or linear layers named beside."""
        attending = [layer.attention for layer in self.layers if layer.attention.kind not in {"none", "linear"}]
        kinds = {attention.kind for attention in attending}
        if not attending:
            return "linear"
        widest = max(attending, key=lambda attention: attention.kv_heads)
        if "mla" in kinds:
            base = "MLA"
        elif widest.kv_heads == 1:
            base = "MQA"
        else:
            base = "MHA" if widest.kv_heads == widest.heads else "GQA"
        beside: list[str] = [name for name in ("sliding", "chunked") if name in kinds]
        if any(layer.attention.kind == "linear" for layer in self.layers):
            beside.append("linear hybrid")
        return " + ".join([base, *beside])
