"""Service levels, and the largest rate at which one replica still keeps one.

Belongs here: what a promise is, whether a replay keeps it, which target binds, and the search for the largest rate.
Does not: the replay itself (`estimator.replay`) or the number of replicas (`estimator.fleet`).

Percentiles follow one rule throughout: the smallest observed value that at least the stated share of the counted
requests does not exceed (`numpy.quantile(..., method="inverted_cdf")`), so a percentile is a latency some request had,
and "p99 within the limit" means that at least 99 % were within it. A rejected request counts as infinitely slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from estimator.replay import EngineLimits, Replay, Workload, replay
from estimator.replay.workload import Floats
from estimator.step_time import step_seconds

Metric = Literal["ttft", "tpot", "e2e"]
Mask = NDArray[np.bool_]
Serve = Callable[[Workload], Replay]
"""Replays a workload on whatever is asked about."""
METRICS: tuple[Metric, ...] = ("ttft", "tpot", "e2e")
TOLERANCE = 0.02
"""How near the largest rate is found, and how fast queueing may grow, in seconds a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """One figure of a service level: what it is called, what it is and what it may be, in seconds or as a share."""

    name: str
    figure: float
    limit: float

    @property
    def margin_ratio(self) -> float:
        """limit / figure - 1: 0.25 is a quarter to spare, negative is missed, -1 is missed without bound."""
        return math.inf if self.figure <= 0 else self.limit / self.figure - 1


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A promise: limits in seconds by quantile (0.99: 2.0) for TTFT, TPOT and E2E, and the share of requests it is for.

    A request attains when its TTFT, TPOT and E2E are each within the limit of the largest quantile given for them; a
    one-token answer has no TPOT to miss; a rejected request misses. The promise holds when every percentile is within
    its limit and the share of requests that attain is at least `attainment`.
    """

    ttft_s: Mapping[float, float] = field(default_factory=dict)
    tpot_s: Mapping[float, float] = field(default_factory=dict)
    e2e_s: Mapping[float, float] = field(default_factory=dict)
    attainment: float = 0.99

    def __post_init__(self) -> None:
        """Raise ValueError for a promise nobody can break or keep."""
        if not any(self._limits(metric) for metric in METRICS):
            raise ValueError("a service level needs a limit for TTFT, TPOT or E2E")
        for metric in METRICS:
            for quantile, limit in self._limits(metric).items():
                if not 0 < quantile <= 1:
                    raise ValueError(f"{metric} quantile {quantile!r}: it must be above 0 and at most 1 (p99 is 0.99)")
                if not limit > 0 or not math.isfinite(limit):
                    raise ValueError(f"{metric} limit {limit!r} s: it must be positive and finite")
        if not 0 < self.attainment <= 1:
            raise ValueError(f"attainment {self.attainment!r}: it must be above 0 and at most 1")

    def _limits(self, metric: Metric) -> Mapping[float, float]:
        limits: Mapping[float, float] = getattr(self, f"{metric}_s")
        return limits

    def attaining(self, result: Replay, counted: Mask | None = None) -> Mask:
        """Which of the counted requests attain."""
        chosen = _counted(result, counted)
        held = np.isfinite(result.e2e_s[chosen])
        for metric in METRICS:
            limits = self._limits(metric)
            if limits:
                values = getattr(result, f"{metric}_s")[chosen]
                held &= ~(values > limits[max(limits)])
        return held

    def attained(self, result: Replay, counted: Mask | None = None) -> float:
        """Share of the counted requests that attain."""
        return float(self.attaining(result, counted).mean())

    def targets(self, result: Replay, counted: Mask | None = None) -> tuple[Target, ...]:
        """Every figure beside its limit; attainment last, as the share that misses beside the share that may.

        Where no request may miss, one that does leaves a margin of -1.
        """
        chosen = _counted(result, counted)
        rejected = ~np.isfinite(result.e2e_s[chosen])
        found = []
        for metric in METRICS:
            values = np.where(rejected, np.inf, getattr(result, f"{metric}_s")[chosen])
            values = values[~np.isnan(values)]
            for quantile, limit in sorted(self._limits(metric).items()):
                figure = _quantile(values, quantile)
                found.append(Target(f"{metric}_p{_percent(quantile)}", figure, limit))
        found.append(Target("attainment", 1 - self.attained(result, counted), 1 - self.attainment))
        return tuple(found)

    def meets(self, result: Replay, counted: Mask | None = None) -> bool:
        """Whether the promise holds."""
        return all(t.figure <= t.limit * (1 + 1e-12) + 1e-12 for t in self.targets(result, counted))

    def binding(self, result: Replay, counted: Mask | None = None) -> tuple[str, float]:
        """The percentile target with the least margin, and that margin: limit / figure - 1.

        Attainment is named only when it is what fails: a share of misses has no margin that compares with a latency's.
        """
        *latencies, share = self.targets(result, counted)
        tightest = min(latencies, key=lambda t: t.margin_ratio)
        if tightest.margin_ratio >= 0 and share.figure > share.limit + 1e-12:
            tightest = share
        return tightest.name, tightest.margin_ratio


def _percent(quantile: float) -> str:
    return f"{quantile * 100:.6g}"


def _quantile(values: Floats, quantile: float) -> float:
    return float(np.quantile(values, quantile, method="inverted_cdf")) if len(values) else 0.0


def _counted(result: Replay, counted: Mask | None) -> Mask:
    mask = np.ones(len(result.e2e_s), dtype=np.bool_) if counted is None else counted
    if mask.shape != result.e2e_s.shape:
        raise ValueError(f"the mask is for {len(mask)} requests, the replay has {len(result.e2e_s)}")
    if not mask.any():
        raise ValueError("no request counts: warm-up and drain leave nothing of the workload")
    return mask


def queue_growth(result: Replay, counted: Mask | None = None) -> float:
    """Seconds by which queueing grows in a second, from the first third of the counted requests to the last.

    A replica asked for a share x more than it can serve falls behind by x seconds a second, so this is the overload
    that a window too short to break a latency target would hide. Not positive in a stable replay, but for chance.
    """
    chosen = np.flatnonzero(_counted(result, counted) & np.isfinite(result.queue_s))
    third = len(chosen) // 3
    if third == 0:
        return 0.0
    early, late = chosen[:third], chosen[-third:]
    apart_s = float(result.arrival_s[late].mean() - result.arrival_s[early].mean())
    grown_s = float(result.queue_s[late].mean() - result.queue_s[early].mean())
    if apart_s <= 0:
        return math.inf if grown_s > 0 else 0.0
    return grown_s / apart_s


def rate_over(workload: Workload, counted: Mask) -> float:
    """A workload's rate over the requests that count: what a promise is judged on is what is stated."""
    arrivals = workload.arrival_s[counted]
    if counted.all() or len(arrivals) < 2 or arrivals[-1] <= arrivals[0]:
        return workload.rate_rps
    return float((len(arrivals) - 1) / (arrivals[-1] - arrivals[0]))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One replay of the search. `growth` is seconds of queueing gained per second."""

    rate_rps: float
    feasible: bool
    attainment: float
    growth: float


@dataclass(frozen=True, slots=True, eq=False)
class Goodput:
    """The largest rate at which one replica keeps the promise, and how the search went.

    `binding` is the target with the least margin there; when `unreachable` (even near idle the promise is broken, so
    `rate_rps` is 0) it is the one that is broken, and `reason` says by how much. `saturated`: the workload is too short
    to find the limit, since no rate broke the promise or at this one it arrives within the time two answers take; the
    true limit is not known. `monotone` False: a rate failed below one that held; `rate_rps` is then the largest that
    held below the lowest that failed, `failed_rps` (infinite when none did).
    """

    rate_rps: float
    attainment: float
    binding: str
    margin_ratio: float
    replay: Replay
    counted: Mask
    evaluations: tuple[Evaluation, ...]
    tolerance: float
    failed_rps: float
    saturated: bool = False
    monotone: bool = True
    unreachable: bool = False
    reason: str = ""

    @property
    def found(self) -> bool:
        """Whether the limit is known to within the tolerance: bracketed that closely, by a search nothing fooled."""
        near = self.failed_rps <= self.rate_rps * (1 + self.tolerance)
        return near and self.monotone and not self.saturated


def goodput(
    workload: Workload,
    step: Floats,
    limits: EngineLimits,
    slo: ServiceLevel,
    *,
    request_seconds: float = 0.0,
    guess_rps: float | None = None,
    warmup_s: float = 0.0,
    drain_s: float = 0.0,
    tolerance: float = TOLERANCE,
    max_evaluations: int = 24,
) -> Goodput:
    """The largest rate, to within `tolerance`, at which one replica keeps `slo` on this workload (`goodput_of`)."""
    return goodput_of(
        lambda played: replay(played, step, limits, request_seconds=request_seconds),
        workload,
        slo,
        alone_s=alone_seconds(workload, step),
        guess_rps=guess_rps,
        warmup_s=warmup_s,
        drain_s=drain_s,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )


def goodput_of(
    serve: Serve,
    workload: Workload,
    slo: ServiceLevel,
    *,
    alone_s: float,
    guess_rps: float | None = None,
    warmup_s: float = 0.0,
    drain_s: float = 0.0,
    tolerance: float = TOLERANCE,
    max_evaluations: int = 24,
) -> Goodput:
    """The largest rate, to within `tolerance`, at which what `serve` replays keeps `slo`, played fast or slow.

    That may be a replica, its ranks in lockstep, or two pools and their links; the rate is that of all of it.
    Every evaluation replays the same requests in the same order with time stretched (common random numbers), so two
    rates differ by rate alone. A rate is feasible when the promise holds and queueing does not grow by more than
    `tolerance` seconds a second. Warm-up and drain are given in the workload's own time and take out the same requests
    at every rate. `guess_rps` is where to look first (the K and L bounds give one); the workload's own rate otherwise.
    `alone_s` is about how long the mean request takes alone: a request in a hundred times that is next to idle.
    When the guess fails, a rate next to idle decides whether the promise can be kept at all; then bisection. The last
    evaluations look 10 % below the answer and 10 % above the failure next to it, for a search that was fooled.
    `Goodput.found` says whether all of that came to an answer.

    Raises ValueError for a tolerance or a number of evaluations that cannot work, and for a workload of fewer than 2
    requests or without duration.
    """
    if not 0 < tolerance < 1 or max_evaluations < 6:
        raise ValueError(f"tolerance {tolerance!r}, {max_evaluations} evaluations: need 0 < tolerance < 1, at least 6")
    if len(workload) < 2 or workload.span_s <= 0:
        raise ValueError("a rate needs at least 2 requests that do not all arrive at once")
    first, last = workload.arrival_s[0] + warmup_s, workload.arrival_s[-1] - drain_s
    counted = (workload.arrival_s >= first) & (workload.arrival_s <= last)
    search = _Search(workload, serve, slo, counted, tolerance)
    idle_rps = 0.01 / alone_s
    # Everything within a millisecond is at once for an engine that steps in several.
    top_rps = len(workload) / 1e-3
    rate = guess_rps if guess_rps is not None and math.isfinite(guess_rps) and guess_rps > 0 else workload.rate_rps
    rate = min(max(rate, idle_rps), top_rps)
    while len(search.done) < max_evaluations:
        search.evaluate(rate)
        low, high = search.bracket()
        if low == 0.0:
            if high <= idle_rps:
                break
            # A guess is more often a little too high than hopeless.
            rate = max(idle_rps, 0.8 * high) if len(search.done) == 1 else idle_rps
        elif math.isinf(high):
            if low >= top_rps:
                break
            rate = min(top_rps, low * (1.25 if len(search.done) == 1 else 2.0 if len(search.done) < 6 else 8.0))
        elif high > low * (1 + tolerance):
            # Far apart, the answer is nearer the rate that failed than one next to idle.
            rate = max(math.sqrt(low * high), high / 2)
        elif not search.seen(0.9 * low):
            rate = 0.9 * low
        elif not search.seen(1.1 * high):
            rate = 1.1 * high
        else:
            break
    return search.result(idle_rps)


def alone_seconds(workload: Workload, step: Floats) -> float:
    """About how long the mean request takes alone: its prompt in one step, then a step a token."""
    isl, osl = float(workload.isl_tokens.mean()), float(workload.osl_tokens.mean())
    prompt_s = float(step_seconds(step, isl, 1.0, 0.0, 0.0, isl * isl / 2, isl))
    token_s = float(step_seconds(step, 1.0, 1.0, isl + osl / 2, isl + osl / 2, 0.0, 0.0))
    return prompt_s + osl * token_s


@dataclass(slots=True)
class _Search:
    workload: Workload
    serve: Serve
    slo: ServiceLevel
    counted: Mask
    tolerance: float
    done: list[Evaluation] = field(default_factory=list)
    kept: tuple[float, Replay] | None = None
    """The replay at the largest rate that has held, since most often that is the answer."""

    def run(self, rate_rps: float) -> Replay:
        return self.serve(self.workload.scaled(rate_rps / rate_over(self.workload, self.counted)))

    def evaluate(self, rate_rps: float) -> None:
        result = self.run(rate_rps)
        growth = queue_growth(result, self.counted)
        held = self.slo.meets(result, self.counted) and growth <= self.tolerance
        self.done.append(Evaluation(rate_rps, held, self.slo.attained(result, self.counted), growth))
        if held and (self.kept is None or rate_rps > self.kept[0]):
            self.kept = (rate_rps, result)

    def seen(self, rate_rps: float) -> bool:
        """Whether a rate within a tenth of the tolerance has been looked at."""
        return any(abs(e.rate_rps / rate_rps - 1) < self.tolerance / 10 for e in self.done)

    def bracket(self) -> tuple[float, float]:
        """The largest rate that held below the lowest that failed (0 for none), and the latter (infinite for none)."""
        high = min((e.rate_rps for e in self.done if not e.feasible), default=math.inf)
        return max((e.rate_rps for e in self.done if e.feasible and e.rate_rps < high), default=0.0), high

    def result(self, idle_rps: float) -> Goodput:
        low, high = self.bracket()
        shown_rps = low or min(high, max(idle_rps, min(e.rate_rps for e in self.done)))
        shown = self.kept[1] if self.kept is not None and self.kept[0] == shown_rps else self.run(shown_rps)
        binding, margin = self.slo.binding(shown, self.counted)
        served_s = shown.e2e_s[np.isfinite(shown.e2e_s)]
        in_flight_at_once = len(served_s) > 0 and shown.arrival_s[-1] - shown.arrival_s[0] < 2 * served_s.mean()
        return Goodput(
            rate_rps=low,
            attainment=self.slo.attained(shown, self.counted),
            binding=binding,
            margin_ratio=margin,
            replay=shown,
            counted=self.counted,
            evaluations=tuple(self.done),
            tolerance=self.tolerance,
            failed_rps=high,
            saturated=low > 0 and (math.isinf(high) or bool(in_flight_at_once)),
            monotone=not any(e.feasible and e.rate_rps > high for e in self.done),
            unreachable=low == 0,
            reason="" if low > 0 else _why_unreachable(self.slo, shown, self.counted),
        )


def _why_unreachable(slo: ServiceLevel, result: Replay, counted: Mask) -> str:
    rejected = int((~np.isfinite(result.e2e_s[counted])).sum())
    if rejected > (1 - slo.attainment) * int(counted.sum()):
        return f"{rejected} of {int(counted.sum())} requests are longer than the engine takes"
    name, margin = slo.binding(result, counted)
    target = next(t for t in slo.targets(result, counted) if t.name == name)
    if name == "attainment":
        return f"next to idle {target.figure:.2%} of the requests miss a target; {target.limit:.2%} may"
    if margin >= 0:
        return "no rate looked at kept the promise without a growing queue"
    return (
        f"{name} is {target.figure * 1000:,.0f} ms next to idle, its limit {target.limit * 1000:,.0f} ms: "
        f"{target.figure / target.limit - 1:.0%} over"
    )
