"""Small architectures, accelerators and coefficients that the step-time and bounds tests build on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from estimator.architecture import Architecture, Attention, FeedForward, Layer
from estimator.hardware import Accelerator
from estimator.step_time import COEFFICIENT_UNITS

H100 = Accelerator("H100-SXM", 79.2, 3350, 989, 1979, 1979, None, 900, 5)
L40S = Accelerator("L40S", 44.99, 864, 362, 733, 733, None, 0, 4)
IDEAL = {name: 1.0 if unit == "x" else 0.0 for name, unit in COEFFICIENT_UNITS.items()}
"""The bare datasheet: every factor 1, no overhead."""


def gqa(
    layers: int = 32,
    hidden: int = 4096,
    heads: int = 32,
    kv_heads: int = 8,
    head_dim: int = 128,
    intermediate: int = 14336,
    vocab: int = 128256,
    experts: int = 0,
    experts_per_token: int = 0,
    window_tokens: int | None = None,
    windowed_layers: int = 0,
) -> Architecture:
    """A grouped-query decoder (Llama-3.1-8B by default), its first layers windowed, its FFN dense or routed."""

    def attention(windowed: bool) -> Attention:
        return Attention(
            kind="sliding" if windowed else "full",
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            window_tokens=window_tokens if windowed else None,
            kv_elements_per_token=2 * kv_heads * head_dim,
            parameters=2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim,
        )

    ffn = 3 * hidden * intermediate
    forward = FeedForward(hidden * experts, experts, experts_per_token, ffn) if experts else FeedForward(ffn)
    stack = tuple(Layer(attention(i < windowed_layers), forward, 2 * hidden) for i in range(layers))
    return Architecture("llama", hidden, vocab, stack, False, 131072, "bfloat16")


def mla(
    layers: int = 27, heads: int = 16, rank: int = 512, rope: int = 64, experts: int = 0, experts_per_token: int = 0
) -> Architecture:
    """A latent-attention decoder (DeepSeek-V2-Lite's attention), its FFN dense or routed."""
    attention = Attention(
        kind="mla",
        heads=heads,
        kv_heads=1,
        head_dim=192,
        v_head_dim=128,
        kv_elements_per_token=rank + rope,
        parameters=13_000_000,
        replicated_parameters=2048 * (rank + rope),
    )
    forward = FeedForward(2048 * experts, experts, experts_per_token, 3 * 2048 * 1408) if experts else None
    stack = tuple(Layer(attention, forward or FeedForward(3 * 2048 * 10944), 4096) for _ in range(layers))
    return Architecture("deepseek_v2", 2048, 102400, stack, False, 163840, "bfloat16")


def linear(layers: int = 8, full_layers: int = 2) -> Architecture:
    """A hybrid: layers with a recurrent state of fixed size, the first `full_layers` with a cache that grows."""
    whole = gqa(layers=layers).layers[0]
    state = Attention(
        kind="linear",
        heads=32,
        head_dim=128,
        parameters=whole.attention.parameters,
        state_elements=8192,
        state_fp32_elements=32 * 128 * 128,
    )
    stack = tuple(whole if i < full_layers else replace(whole, attention=state) for i in range(layers))
    return replace(gqa(layers=layers), layers=stack)


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    """Dense, mixture-of-experts, windowed, latent-attention and linear-attention models of modest size."""
    kind = draw(st.sampled_from(["gqa", "gqa", "mla", "linear"]))
    experts = draw(st.sampled_from([0, 8, 64]))
    layers = draw(st.integers(1, 8))
    if kind == "linear":
        return linear(layers, full_layers=draw(st.integers(0, layers)))
    if kind == "mla":
        chosen = draw(st.integers(1, experts)) if experts else 0
        heads = draw(st.sampled_from([8, 16, 128]))
        return mla(layers, heads, experts=experts, experts_per_token=chosen)
    return gqa(
        layers=layers,
        hidden=draw(st.sampled_from([1024, 4096])),
        kv_heads=draw(st.sampled_from([1, 2, 8, 32])),
        experts=experts,
        experts_per_token=draw(st.integers(1, experts)) if experts else 0,
        intermediate=1024 if experts else 8192,
        window_tokens=draw(st.sampled_from([128, 4096])),
        windowed_layers=draw(st.integers(0, layers)),
    )


@st.composite
def coefficient_sets(draw: st.DrawFn) -> dict[str, float]:
    """Any coefficients that physics allows."""
    return {
        name: draw(st.floats(1, 10) if unit == "x" else st.floats(0, 300 if unit == "us" else 0.2))
        for name, unit in COEFFICIENT_UNITS.items()
    }


@st.composite
def accelerators(draw: st.DrawFn) -> Accelerator:
    """Accelerators from a T4 to a B200, with and without NVLink."""
    return Accelerator(
        gpu_id="any",
        visible_memory_gib=80,
        memory_bandwidth_gbs=draw(st.floats(300, 8000)),
        fp16_dense_tflops=draw(st.floats(60, 2500)),
        interconnect_gbs=draw(st.sampled_from([0.0, 600.0, 1800.0])),
    )
