"""The shape of a workload: joint length buckets, arrival windows, burstiness, and the stretch to plan on.

Arrays of one value a request in, small records out. Joint, never marginal: sampling input and output lengths apart
invents requests that nobody sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LENGTH_EDGES_TOKENS = (0, 128, 512, 2_048, 8_192, 32_768, 131_072, 1_048_576)
"""Upper ends of the length classes, inclusive; the trace-to-GPU method profiles at these lengths."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Requests whose input and output lengths fall in one pair of classes. Bounds are inclusive, in tokens."""

    name: str
    isl_from_tokens: int
    isl_to_tokens: int
    osl_from_tokens: int
    osl_to_tokens: int
    members: Ints
    """Indices of its requests."""


def _class_name(low: int, high: int) -> str:
    def short(tokens: int) -> str:
        return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)

    return f"{short(low)}-{short(high)}"


def joint_buckets(isl_tokens: Ints, osl_tokens: Ints, edges: tuple[int, ...] = LENGTH_EDGES_TOKENS) -> list[Bucket]:
    """Joint ISL x OSL buckets that hold at least one request, ordered by input, then output length.

    Every request is in exactly one bucket; lengths past the last edge join a class that ends at the longest seen.
    """
    top = int(max(isl_tokens.max(initial=0), osl_tokens.max(initial=0)))
    bounds = (*edges, top) if top > edges[-1] else edges
    ends = np.asarray(bounds[1:], dtype=np.int64)
    isl_class = np.searchsorted(ends, isl_tokens, side="left")
    osl_class = np.searchsorted(ends, osl_tokens, side="left")
    code = isl_class * len(ends) + osl_class
    order = np.argsort(code, kind="stable").astype(np.int64)
    codes, starts = np.unique(code[order], return_index=True)
    buckets = []
    for present, members in zip(codes, np.split(order, starts[1:]), strict=True):
        i, o = divmod(int(present), len(ends))
        buckets.append(
            Bucket(
                f"in {_class_name(bounds[i] + 1, bounds[i + 1])} / out {_class_name(bounds[o] + 1, bounds[o + 1])}",
                bounds[i] + 1,
                bounds[i + 1],
                bounds[o] + 1,
                bounds[o + 1],
                members,
            )
        )
    return buckets


def window_counts(arrival_s: Floats, window_s: float, weights: Floats | None = None) -> Floats:
    """Arrivals (or their summed weights) in each consecutive window from the first arrival on, empty ones included.

    The last window is kept although it may be cut short, so that the sum over windows is the sum over requests.
    """
    if len(arrival_s) == 0:
        return np.zeros(0)
    index = np.floor((arrival_s - arrival_s[0]) / window_s).astype(np.int64)
    return np.bincount(index, weights=weights).astype(np.float64)


def full_window_rates(arrival_s: Floats, window_s: float) -> Floats:
    """Arrivals a second in each whole window; a trace shorter than one window gives its overall rate."""
    counts = window_counts(arrival_s, window_s)
    if len(counts) > 1:
        return counts[:-1] / window_s
    span = float(arrival_s[-1] - arrival_s[0]) if len(arrival_s) > 1 else 0.0
    return np.asarray([len(arrival_s) / span]) if span > 0 else np.asarray([len(arrival_s) / window_s])


def gap_variation(arrival_s: Floats) -> float | None:
    """Coefficient of variation of the gaps between arrivals: 1 for Poisson, above for bursts, 0 for a metronome.

    None when there are too few arrivals to say.
    """
    gaps = np.diff(arrival_s)
    if len(gaps) < 2 or gaps.mean() <= 0:
        return None
    return float(gaps.std() / gaps.mean())


@dataclass(frozen=True, slots=True)
class PlanningWindow:
    """The busiest stretch: counted from `start_s` to `end_s`, replayed from `warm_from_s` so that it begins warm."""

    warm_from_s: float
    start_s: float
    end_s: float


def busiest_window(arrival_s: Floats, tokens: Ints, window_s: float, warm_s: float = 300.0) -> PlanningWindow:
    """The stretch of `window_s` seconds in which most tokens (input + output) arrive, found to the minute.

    Tokens, not requests, since an hour of long prompts can cost more than an hour of many short ones. Where the trace
    has nothing before the stretch, its first twentieth (at most `warm_s`) is replayed but not counted.
    """
    first, last = float(arrival_s[0]), float(arrival_s[-1])
    if last - first <= window_s:
        start, end = first, float(np.nextafter(last, np.inf))
    else:
        step_s = min(60.0, window_s / 10)
        sums = np.concatenate(([0.0], np.cumsum(window_counts(arrival_s, step_s, tokens.astype(np.float64)))))
        width = max(1, round(window_s / step_s))
        totals = sums[width:] - sums[:-width]
        # Float sums of equal totals differ in the last bits; the earliest of equals is taken on every machine.
        start = first + float(np.flatnonzero(totals >= totals.max() * (1 - 1e-12))[0]) * step_s
        end = start + width * step_s
    lead = min(warm_s, start - first)
    if lead <= 0:
        # Nothing is left uncounted of a trace so sparse that the twentieth holds all of the stretch's arrivals.
        lead = min(warm_s, (end - start) / 20)
        if not ((arrival_s >= start + lead) & (arrival_s < end)).any():
            lead = 0.0
        return PlanningWindow(start, start + lead, end)
    return PlanningWindow(max(first, start - lead), start, end)
