"""The time of one engine step, as compiled code over a flat parameter array.

Belongs here: what a step's batch costs, term by term, and how measured times take the place of physics where the array
carries them. Does not: where the parameters come from (`physics`), which measurements are carried (`profiles`), which
coefficients hold for an engine (`coefficients`), or how steps follow one another (`estimator.replay`).

Every entry of STEP_FIELDS is an ideal datasheet time multiplied by a coefficient of at least 1, or an overhead, so a
step of physics never uses more than the accelerator's peak FLOPs or bandwidth, and never gets faster when its batch
grows. An array longer than STEP_FIELDS carries a measured profile behind them:

    decode sequences (n), contexts (m), prompts (k): three counts;
    n sequences, m contexts, n x m seconds of a decode step;
    k prompt lengths, k seconds of a step that is one prompt of that length.

A decode step inside the measured box takes the time interpolated between its corners, linear in sequences and in
context as the step itself nearly is. Outside it takes physics, but never less than what was measured of a smaller batch
nor more than what was measured of a larger one: so measured and physical times meet without a step getting faster as it
grows. A prompt's step likewise, over its length. A chunk with context before it, and several prompts in one step, take
physics times measured over physical time of one whole prompt that ends where they end. In a mixed step prompts add to
the decode step what they add to it in physics, times that same ratio; it never takes less than either part alone.
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
"""What `step_terms` splits a step of physics into, in order."""
MEASURED_TERM = "measured beside physics"
"""What a profile adds to physics, or (negative) takes from it."""

_FIELDS = len(STEP_FIELDS)
KNOTS = _FIELDS + 3
"""Where a profile's numbers begin: behind its three counts."""


@njit(cache=True)
def _smooth_max(first: float, second: float) -> float:
    """(a^4 + b^4)^(1/4): weights stream while tensor cores work; a GEMM costs its longer side, rounded at the knee."""
    larger = max(first, second)
    if larger <= 0.0:
        return 0.0
    a = first / larger
    b = second / larger
    return larger * math.sqrt(math.sqrt(a * a * a * a + b * b * b * b))


@njit(cache=True, forceinline=True)  # a call costs a replay a tenth of its time
def _physics(
    p: NDArray[np.float64],
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
    expert_tokens: float,
) -> float:
    """Seconds of a step by its terms; arguments as `step_seconds` takes them, `expert_tokens` always given."""
    seconds: float = p[_STEP] + p[_LAYER] + p[_MOE_LAYER] + p[_COLLECTIVE] + sequences * (p[_SEQUENCE] + p[_STATE])
    seconds += _smooth_max(p[_DENSE_READ], p[_DENSE_FLOPS] * tokens)
    seconds += _smooth_max(p[_HEAD_READ], p[_HEAD_FLOPS] * sequences)
    if p[_EXPERT_READ] > 0.0:
        # Experts touched by n tokens that each pick k of E: E (1 - (1 - k/E)^n).
        touched = 1.0 - p[_EXPERT_UNUSED] ** expert_tokens
        seconds += _smooth_max(p[_EXPERT_READ] * touched, p[_EXPERT_FLOPS] * expert_tokens)
    seconds += p[_COLLECTIVE_BYTES] * tokens
    seconds += p[_KV_FULL] * kv_tokens_full + p[_KV_WINDOW] * kv_tokens_window
    if prefill_tokens > 0.0:
        seconds += p[_ATTENTION_FULL] * attention_pairs
        if p[_ATTENTION_WINDOW] > 0.0:
            seconds += p[_ATTENTION_WINDOW] * min(attention_pairs, prefill_tokens * p[WINDOW_INDEX])
        # A step with prefill is launched kernel by kernel; the host runs beside the device and the longer counts.
        seconds = _smooth_max(seconds, p[_PREFILL_HOST])
    return seconds


@njit(cache=True)
def _last_below(p: NDArray[np.float64], start: int, count: int, value: float) -> int:
    """The knot at or before `value` that has one behind it; 0 where there is only one."""
    low = 0
    high = count - 1
    while high - low > 1:
        middle = (low + high) // 2
        if p[start + middle] <= value:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def _decode(p: NDArray[np.float64], physics_s: float, sequences: float, context: float) -> float:
    """Seconds of a plain decode step, measured where there are measurements."""
    n = int(p[_FIELDS])
    m = int(p[_FIELDS + 1])
    if n == 0:
        return physics_s
    contexts = KNOTS + n
    grid = contexts + m
    s = min(max(sequences, p[KNOTS]), p[contexts - 1])
    c = min(max(context, p[contexts]), p[grid - 1])
    i = _last_below(p, KNOTS, n, s)
    j = _last_below(p, contexts, m, c)
    up = 1 if n > 1 else 0
    on = 1 if m > 1 else 0
    u = (s - p[KNOTS + i]) / (p[KNOTS + i + up] - p[KNOTS + i]) if up else 0.0
    v = (c - p[contexts + j]) / (p[contexts + j + on] - p[contexts + j]) if on else 0.0
    low = grid + i * m + j
    high = grid + (i + up) * m + j
    less_s = (1.0 - v) * p[low] + v * p[low + on]
    more_s = (1.0 - v) * p[high] + v * p[high + on]
    measured_s: float = (1.0 - u) * less_s + u * more_s
    above = sequences > s or context > c
    # A mean context may miss that of a point by rounding.
    below = sequences < s or context < c * (1.0 - 1e-12)
    if above and below:
        return physics_s
    if above:
        return max(physics_s, measured_s)
    if below:
        return min(physics_s, measured_s)
    return measured_s


@njit(cache=True)
def _prefill_factor(p: NDArray[np.float64], attention_pairs: float, prefill_tokens: float) -> float:
    """Measured over physical time of one whole prompt that ends where the step's prompt tokens end."""
    k = int(p[_FIELDS + 2])
    if k == 0:
        return 1.0
    prompts = KNOTS + int(p[_FIELDS]) + int(p[_FIELDS + 1]) + int(p[_FIELDS]) * int(p[_FIELDS + 1])
    # A chunk behind d tokens of its prompt meets chunk x (d + chunk / 2) pairs.
    end = prefill_tokens + max(0.0, attention_pairs / prefill_tokens - prefill_tokens / 2.0)
    physics_s: float = _physics(p, end, 1.0, 0.0, 0.0, end * end / 2.0, end, end)
    first = p[prompts]
    last = p[prompts + k - 1]
    measured_s: float
    if end < first:
        measured_s = min(physics_s, p[prompts + k])
    elif end > last:
        measured_s = max(physics_s, p[prompts + 2 * k - 1])
    else:
        i = _last_below(p, prompts, k, end)
        on = 1 if k > 1 else 0
        u = (end - p[prompts + i]) / (p[prompts + i + on] - p[prompts + i]) if on else 0.0
        measured_s = (1.0 - u) * p[prompts + k + i] + u * p[prompts + k + i + on]
    return measured_s / physics_s


@njit(cache=True)
def _profiled(
    p: NDArray[np.float64],
    physics_s: float,
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
    expert_tokens: float,
) -> float:
    """Seconds of a step that physics gives `physics_s`, with the measurements that `p` carries.

    They were taken with all attention ranks alike. Of experts, either part alone runs no more than the whole step.
    """
    decodes = min(tokens - prefill_tokens, sequences)
    plain_s = 0.0
    decode_s = 0.0
    if decodes > 0.0:
        plain_s = physics_s
        if prefill_tokens > 0.0 or tokens != decodes or expert_tokens > decodes:
            plain_s = _physics(
                p, decodes, decodes, kv_tokens_full, kv_tokens_window, 0.0, 0.0, min(decodes, expert_tokens)
            )
        decode_s = _decode(p, plain_s, decodes, kv_tokens_full / decodes)
    if prefill_tokens <= 0.0:
        # Drafts that are verified beside each token, and experts run for other ranks, add what they add in physics.
        return decode_s + (physics_s - plain_s)
    factor = _prefill_factor(p, attention_pairs, prefill_tokens)
    if decodes <= 0.0:
        return factor * physics_s
    alone_s = factor * _physics(
        p,
        prefill_tokens,
        max(sequences - decodes, 0.0),
        0.0,
        0.0,
        attention_pairs,
        prefill_tokens,
        min(prefill_tokens, expert_tokens),
    )
    return max(decode_s + factor * (physics_s - plain_s), decode_s, alone_s)


@njit(cache=True)
def step_seconds(
    p: NDArray[np.float64],
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
    expert_tokens: float = -1.0,
) -> float:
    """Seconds of one engine step.

    `p` is laid out as STEP_FIELDS, with a measured profile behind them or without. `tokens` counts every token of the
    step, decode and prefill; `sequences` the scheduled sequences (each samples at most one token); `kv_tokens_full`
    sums the context of the decoding sequences, `kv_tokens_window` the same with each context cut at the window;
    `attention_pairs` sums chunk x (context + chunk / 2) over prefill chunks; `prefill_tokens` is 0 in a pure decode
    step. An empty step still costs the fixed overheads.

    Of attention ranks that step together, each attends to its own tokens, while the tokens of all are spread over the
    experts of all: `expert_tokens` is then their mean over the ranks. Negative: `tokens`, as of one rank, or all alike.
    """
    routed = tokens if expert_tokens < 0.0 else expert_tokens
    seconds: float = _physics(
        p, tokens, sequences, kv_tokens_full, kv_tokens_window, attention_pairs, prefill_tokens, routed
    )
    if len(p) > _FIELDS:
        return _profiled(
            p, seconds, tokens, sequences, kv_tokens_full, kv_tokens_window, attention_pairs, prefill_tokens, routed
        )
    return seconds


def step_terms(
    p: NDArray[np.float64],
    tokens: float,
    sequences: float,
    kv_tokens_full: float,
    kv_tokens_window: float,
    attention_pairs: float,
    prefill_tokens: float,
    expert_tokens: float = -1.0,
) -> dict[str, float]:
    """The same step in seconds per term of STEP_TERMS; they sum to `step_seconds`.

    To explain a step, not to replay one. "prefill launch" is what the host adds where it outlasts the device. With a
    profile there is MEASURED_TERM too: how far the measurement is from the sum of the others.
    """

    amounts = (tokens, sequences, kv_tokens_full, kv_tokens_window, attention_pairs, prefill_tokens, expert_tokens)
    batch = tuple(float(amount) for amount in amounts)
    terms: dict[str, float] = {}
    for term, fields in _TERMS.items():
        part = np.zeros(len(STEP_FIELDS))
        for index in (WINDOW_INDEX, *(STEP_FIELDS.index(field) for field in fields)):
            part[index] = p[index]
        terms[term] = float(step_seconds(part, *batch))
    physics_s = float(step_seconds(p[:_FIELDS], *batch))
    terms["prefill launch"] = physics_s - sum(terms.values())
    if len(p) > _FIELDS:
        terms[MEASURED_TERM] = float(step_seconds(p, *batch)) - physics_s
    return terms
