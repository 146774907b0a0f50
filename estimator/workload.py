"""The shape of a workload: joint length buckets, arrival windows, burstiness, and the stretch to plan on.

Arrays of one value a request in, small records out. Joint, never marginal: sampling input and output lengths apart
invents requests that nobody sent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.length_classes import joint_ends

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOURS_A_DAY, DAYS_A_WEEK, HOUR_S = 24, 7, 3_600.0


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


def joint_buckets(isl_tokens: Ints, osl_tokens: Ints) -> list[Bucket]:
    """Joint ISL x OSL buckets that hold at least one request, ordered by input, then output length.

    The classes follow the data (`length_classes`); every request is in exactly one bucket.
    """
    if not len(isl_tokens):
        return []
    isl_ends, osl_ends = joint_ends(isl_tokens, osl_tokens)
    isl_bounds, osl_bounds = (0, *isl_ends), (0, *osl_ends)
    isl_class = np.searchsorted(isl_ends, isl_tokens, side="left")
    osl_class = np.searchsorted(osl_ends, osl_tokens, side="left")
    code = isl_class * len(osl_ends) + osl_class
    order = np.argsort(code, kind="stable").astype(np.int64)
    codes, starts = np.unique(code[order], return_index=True)
    buckets = []
    for present, members in zip(codes, np.split(order, starts[1:]), strict=True):
        i, o = divmod(int(present), len(osl_ends))
        isl_name = _class_name(isl_bounds[i] + 1, isl_bounds[i + 1])
        osl_name = _class_name(osl_bounds[o] + 1, osl_bounds[o + 1])
        buckets.append(
            Bucket(
                f"in {isl_name} / out {osl_name}",
                isl_bounds[i] + 1,
                isl_bounds[i + 1],
                osl_bounds[o] + 1,
                osl_bounds[o + 1],
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


def count_dispersion(arrival_s: Floats, window_s: float) -> float | None:
    """Variance over mean of the arrivals in whole windows: 1 for Poisson at any window, above it for bursts that last.

    Gaps alone do not show bursts longer than themselves; counts do. None when there are fewer than ten whole windows.
    """
    counts = window_counts(arrival_s, window_s)[:-1]
    if len(counts) < 10 or counts.mean() <= 0:
        return None
    return float(counts.var() / counts.mean())


@dataclass(frozen=True, slots=True)
class Season:
    """A stretch that comes again: an hour of the day or a day of the week (0 is Monday), UTC.

    `covered_h`: hours of the trace that fall in it. `factor`: its rate over the trace's mean rate.
    """

    period: str
    slot: int
    covered_h: float
    requests: int
    arrival_rps: float
    factor: float


def seasons(first_arrival_s: float, arrival_s: Floats) -> list[Season]:
    """Hours of the day and days of the week that the trace covers, with their rates.

    `first_arrival_s` is the first arrival in seconds since 1970, UTC; `arrival_s` counts from it. Rates are over the
    time that the trace spends in each, so that a trace of nine days does not make two weekdays look busier. A trace
    that does not reach every hour has none to compare, one that does not reach every weekday no weekdays.
    """
    span_s = float(arrival_s[-1]) if len(arrival_s) else 0.0
    mean_rps = len(arrival_s) / span_s if span_s > 0 else 0.0
    found: list[Season] = []
    for period, unit_s, units, offset_s in (
        ("hour", HOUR_S, HOURS_A_DAY, 0.0),
        ("weekday", HOUR_S * HOURS_A_DAY, DAYS_A_WEEK, 3 * HOUR_S * HOURS_A_DAY),  # 1970 began on a Thursday
    ):
        if span_s < unit_s * (units - 1):  # not every one of them was seen
            continue
        start_s = first_arrival_s + offset_s
        requests = np.bincount(((start_s + arrival_s) // unit_s).astype(np.int64) % units, minlength=units)
        edges = np.arange(start_s // unit_s, (start_s + span_s) // unit_s + 1)
        inside = np.minimum((edges + 1) * unit_s, start_s + span_s) - np.maximum(edges * unit_s, start_s)
        covered_s = np.bincount(edges.astype(np.int64) % units, weights=inside, minlength=units)
        for slot in np.flatnonzero(covered_s > 0):
            rate = float(requests[slot] / covered_s[slot])
            hours = float(covered_s[slot]) / HOUR_S
            found.append(Season(period, int(slot), hours, int(requests[slot]), rate, rate / mean_rps))
    return found


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
