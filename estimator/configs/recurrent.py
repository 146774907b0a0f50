"""Layers that keep a fixed state per sequence instead of a cache per token: Mamba, Mamba-2, gated delta net, KDA.

Belongs here: their parameters and the elements of their state. Does not: layers with a KV cache (`attention`).
State shapes follow the layers' vLLM implementations: a convolution tail of (kernel - 1) columns and a recurrent matrix.
"""

from __future__ import annotations

from estimator.architecture import Attention
from estimator.configs.fields import Fields

KERNEL = ("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "short_conv_kernel_size", "d_conv")


def _layer(heads: int, head_dim: int, parameters: int, conv: int, recurrent: int, fp32: bool) -> Attention:
    return Attention(
        kind="linear",
        heads=heads,
        head_dim=head_dim,
        parameters=parameters,
        state_elements=conv + recurrent,
        state_fp32_elements=recurrent if fp32 else 0,
    )


def gated_delta(text: Fields, hidden: int) -> Attention:
    """Gated delta net (Qwen3-Next, Qwen3.5): state of value_heads x key_dim x value_dim, float32 where it says so."""
    key_heads, key_dim = text.integer("linear_num_key_heads"), text.integer("linear_key_head_dim")
    value_heads, value_dim = text.integer("linear_num_value_heads"), text.integer("linear_value_head_dim")
    kernel = text.integer(*KERNEL, default=4)
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    parameters = hidden * (channels + values + 2 * value_heads) + channels * kernel + 2 * value_heads + value_dim
    parameters += values * hidden
    fp32 = text.text("mamba_ssm_dtype", default="bfloat16") == "float32"
    return _layer(value_heads, value_dim, parameters, channels * (kernel - 1), value_heads * key_dim * value_dim, fp32)


def kimi_delta(text: Fields, hidden: int) -> Attention:
    """Kimi delta attention (Kimi-Linear): three short convolutions and a float32 state of heads x dim x dim."""
    linear = text.mapping("linear_attn_config") or text
    heads, dim = linear.integer("num_heads"), linear.integer("head_dim")
    kernel = linear.integer(*KERNEL, default=4)
    width = heads * dim
    gates = 2 * (hidden * dim + dim * width) + hidden * heads
    parameters = 4 * hidden * width + 3 * width * kernel + gates + 2 * width + dim
    return _layer(heads, dim, parameters, 3 * width * (kernel - 1), heads * dim * dim, fp32=True)


def mamba2(text: Fields, hidden: int) -> Attention:
    """Mamba-2 (Nemotron-H, Granite-4): state of heads x head_dim x state_size."""
    expand = text.integer("expand", "mamba_expand", default=2)
    head_dim = text.integer("mamba_head_dim", "mamba_d_head", default=64)
    heads = text.integer("mamba_num_heads", "mamba_n_heads", default=max(1, expand * hidden // head_dim))
    groups = text.integer("n_groups", "mamba_n_groups", default=1)
    state = text.integer("ssm_state_size", "mamba_d_state", "state_size", default=128)
    kernel = text.integer(*KERNEL, default=4)
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    parameters = hidden * (inner + channels + heads) + channels * (kernel + 1) + 3 * heads + inner + inner * hidden
    fp32 = text.text("mamba_ssm_cache_dtype", default="auto") == "float32"
    return _layer(heads, head_dim, parameters, channels * (kernel - 1), heads * head_dim * state, fp32)


def mamba1(text: Fields, hidden: int) -> Attention:
    """Mamba (Jamba, the original): state of inner width x state size."""
    nested = text.mapping("ssm_cfg")
    inner = text.integer("mamba_expand", "expand", default=2) * hidden
    state = text.integer("mamba_d_state", "state_size", "d_state", default=0, minimum=0) or (
        nested.integer("d_state", default=16) if nested else 16
    )
    kernel = text.integer(*KERNEL, default=0, minimum=0) or (nested.integer("d_conv", default=4) if nested else 4)
    rank = text.integer("mamba_dt_rank", "time_step_rank", default=-(-hidden // 16))
    parameters = hidden * 2 * inner + inner * (kernel + 1) + inner * (rank + 2 * state) + rank * inner + inner
    parameters += inner * state + inner + inner * hidden + rank + 2 * state
    return _layer(1, inner, parameters, inner * (kernel - 1), inner * state, fp32=False)
