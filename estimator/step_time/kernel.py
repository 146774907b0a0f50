"""The time of one engine step, as compiled code over a flat parameter array.

Belongs here: what a step's batch costs, term by term. Does not: where the parameters come from (`physics`), which
coefficients hold for an engine (`coefficients`), or how steps follow one another (`estimator.replay`).

Every entry of the array is an ideal datasheet time multiplied by a coefficient of at least 1, or an overhead, so a step
never uses more than the accelerator's peak FLOPs or bandwidth, and never gets faster when its batch grows.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

STEP_FIELDS: tuple[str, ...] = (
    "step_overhead_s",
    "layer_overhead_s",
    "moe_layer_overhead_s",
    "collective_latency_s",
    "prefill_host_s",
    "sequence_overhead_s_per_sequence",
    "dense_read_s",
    "dense_flops_s_per_token",
    "head_read_s",
    "head_flops_s_per_sequence",
    "expert_read_s",
    "expert_unused_share",
    "expert_flops_s_per_token",
    "collective_bytes_s_per_token",
    "kv_full_s_per_token",
    "kv_window_s_per_token",
    "state_s_per_sequence",
    "attention_full_s_per_pair",
    "attention_window_s_per_pair",
    "window_tokens",
)
"""Entries of the parameter array, in order. `expert_unused_share` is 1 - k/E, the chance that a token leaves an expert
alone; `window_tokens` is infinite without windowed layers. Zeros but for `step_overhead_s` are a constant step."""

(
    _STEP,
    _LAYER,
    _MOE_LAYER,
    _COLLECTIVE,
    _PREFILL_HOST,
    _SEQUENCE,
    _DENSE_READ,
    _DENSE_FLOPS,
    _HEAD_READ,
    _HEAD_FLOPS,
    _EXPERT_READ,
    _EXPERT_UNUSED,
    _EXPERT_FLOPS,
    _COLLECTIVE_BYTES,
    _KV_FULL,
    _KV_WINDOW,
    _STATE,
    _ATTENTION_FULL,
    _ATTENTION_WINDOW,
    WINDOW_INDEX,
) = range(len(STEP_FIELDS))

_TERMS: dict[str, tuple[str, ...]] = {
    "layers and step": ("step_overhead_s", "layer_overhead_s", "moe_layer_overhead_s"),
    "collectives": ("collective_latency_s", "collective_bytes_s_per_token"),
    "sequences": ("sequence_overhead_s_per_sequence",),
    "dense weights and FLOPs": ("dense_read_s", "dense_flops_s_per_token"),
    "output head": ("head_read_s", "head_flops_s_per_sequence"),
    "expert weights and FLOPs": ("expert_read_s", "expert_unused_share", "expert_flops_s_per_token"),
    "KV read": ("kv_full_s_per_token", "kv_window_s_per_token", "state_s_per_sequence"),
    "prefill attention": ("attention_full_s_per_pair", "attention_window_s_per_pair"),
}
STEP_TERMS: tuple[str, ...] = (*_TERMS, "prefill launch")
"""What `step_terms` splits a step into, in order."""


@njit(cache=True)
def _smooth_max(first: float, second: float) -> float:
    """(a^4 + b^4)^(1/4): weights stream while tensor cores work; a GEMM costs its longer side, rounded at the knee."""
    larger = max(first, second)
    if larger <= 0.0:
        return 0.0
    a = first / larger
    b = second / larger
    return larger * math.sqrt(math.sqrt(a * a * a * a + b * b * b * b))


@njit(cache=True)
def step_seconds(
    p: NDArray[np.float64],
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
) -> float:
    """Seconds of one engine step.

    `p` is laid out as STEP_FIELDS. `tokens` counts every token of the step, decode and prefill; `sequences` the
    scheduled sequences (each samples at most one token); `kv_tokens_full` sums the context of the decoding sequences,
    `kv_tokens_window` the same with each context cut at the window; `attention_pairs` sums
    chunk x (context + chunk / 2) over prefill chunks; `prefill_tokens` is 0 in a pure decode step. An empty step still
    costs the fixed overheads.
    """
    seconds: float = p[_STEP] + p[_LAYER] + p[_MOE_LAYER] + p[_COLLECTIVE] + sequences * (p[_SEQUENCE] + p[_STATE])
    seconds += _smooth_max(p[_DENSE_READ], p[_DENSE_FLOPS] * tokens)
    seconds += _smooth_max(p[_HEAD_READ], p[_HEAD_FLOPS] * sequences)
    if p[_EXPERT_READ] > 0.0:
        # Experts touched by n tokens that each pick k of E: E (1 - (1 - k/E)^n).
        touched = 1.0 - p[_EXPERT_UNUSED] ** tokens
        seconds += _smooth_max(p[_EXPERT_READ] * touched, p[_EXPERT_FLOPS] * tokens)
    seconds += p[_COLLECTIVE_BYTES] * tokens
    seconds += p[_KV_FULL] * kv_tokens_full + p[_KV_WINDOW] * kv_tokens_window
    if prefill_tokens > 0.0:
        seconds += p[_ATTENTION_FULL] * attention_pairs
        if p[_ATTENTION_WINDOW] > 0.0:
            seconds += p[_ATTENTION_WINDOW] * min(attention_pairs, prefill_tokens * p[WINDOW_INDEX])
        # A step with prefill is launched kernel by kernel; the host runs beside the device and the longer counts.
        seconds = _smooth_max(seconds, p[_PREFILL_HOST])
    return seconds


def step_terms(
    p: NDArray[np.float64],
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
) -> dict[str, float]:
    """The same step in seconds per term of STEP_TERMS; they sum to `step_seconds`.

    To explain a step, not to replay one. "prefill launch" is what the host adds where it outlasts the device.
    """

    amounts = (tokens, sequences, kv_tokens_full, kv_tokens_window, attention_pairs, prefill_tokens)
    batch = tuple(float(amount) for amount in amounts)
    terms: dict[str, float] = {}
    for term, fields in _TERMS.items():
        part = np.zeros(len(STEP_FIELDS))
        for index in (WINDOW_INDEX, *(STEP_FIELDS.index(field) for field in fields)):
            part[index] = p[index]
        terms[term] = float(step_seconds(part, *batch))
    terms["prefill launch"] = float(step_seconds(p, *batch)) - sum(terms.values())
    return terms
