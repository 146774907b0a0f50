"""What a model is made of, layer by layer, as memory and step time need it.

Pure facts of the architecture: no engine, no accelerator, no bytes on a device. `estimator.configs` reads a
config.json into this shape; `estimator.memory` and `estimator.step_time` consume it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AttentionKind = Literal["full", "sliding", "chunked", "mla", "linear", "none"]


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention.

    `kv_elements_per_token` counts cached elements of one token over all heads: 2 x kv_heads x head_dim for
    grouped-query attention (the v dimension counted on its own where it differs), kv_lora_rank + rope dims for MLA
    (no factor 2), 0 for linear attention. `state_elements` is the fixed state of a sequence (linear, Mamba).
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


@dataclass(frozen=True, slots=True)
class FeedForward:
    """One layer's feed-forward: `dense_parameters` every token uses (shared experts and router with them), and
    `experts` routed experts of `expert_parameters` each, `experts_per_token` used by a token."""

    dense_parameters: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """A decoder layer."""

    attention: Attention
    feed_forward: FeedForward
    norm_parameters: int = 0


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

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embedding alone."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters_total(self) -> int:
        """All parameters of the language model and its vision tower; draft heads apart."""
        head = 0 if self.tied_embeddings else self.embedding_parameters
        body = sum(
            layer.attention.parameters
            + layer.norm_parameters
            + layer.feed_forward.dense_parameters
            + layer.feed_forward.experts * layer.feed_forward.expert_parameters
            for layer in self.layers
        )
        return body + self.embedding_parameters + head + self.hidden_size + self.vision_parameters

    @property
    def parameters_active(self) -> int:
        """Parameters one text token uses: routed experts at experts_per_token, vision left out."""
        idle = sum(
            (layer.feed_forward.experts - layer.feed_forward.experts_per_token) * layer.feed_forward.expert_parameters
            for layer in self.layers
        )
        return self.parameters_total - self.vision_parameters - idle
