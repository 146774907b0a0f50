"""Correcting predictions of a combination on a share of its own points, to be scored on the rest.

Belongs here: which points are used, and what each corrected prediction is. Does not: the interpolation
(`estimator.serving.residuals`), sums of errors (`errors`).

A combination is what a user would measure together: model, GPU, engine, precision, aggregated or separated. Its points
are put in order of version, layout, lengths and load and cut into as many equal stretches as points are to be used; one
point of each stretch is drawn, so that a small share still spans the sweep. The draw depends on the seed and the
combination alone. Every configuration is one point, so no repeat of a used point is ever scored; a combination of a
single point is neither used nor scored.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from estimator.serving.residuals import Factor, Smoothness, factors
from pipelines.planning.serving.predictions import METRICS, Combination, Point

SEED = 0
SMOOTHNESS = {
    "tpot": Smoothness(),
    "ttft": Smoothness(spread=2.0),
    "e2e": Smoothness(),
    "ttft_p99": Smoothness(spread=2.5),
    "throughput": Smoothness(),
}
"""How each metric's errors vary. First tokens wait for what no column records (stalls, polls), so they spread wider."""


QUEUED = 2.0
"""Times the usual measured over predicted TTFT, or part of it, from where on one of the two is taken to queue."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Points the correction was made on, and the others with their corrected predictions."""

    used: tuple[Point, ...]
    scored: tuple[Point, ...]
    uncorrected: tuple[Point, ...]
    """The scored points as they were predicted before."""
    alone: tuple[Point, ...]
    """The only point of its combination each."""


def correct(points: Sequence[Point], share: float, seed: int = SEED) -> Corrected:
    """Each combination corrected on `share` of its points; raises ValueError unless 0 < share < 1."""
    if not 0 < share < 1:
        raise ValueError(f"a share of {share:g}: it is above 0 and below 1")
    groups: dict[Combination, list[Point]] = {}
    for point in points:
        groups.setdefault(point.combination, []).append(point)
    used: list[Point] = []
    scored: list[Point] = []
    before: list[Point] = []
    for combination, members in groups.items():
        if len(members) < 2:
            continue
        known, rest = draw(members, share, f"{seed} {combination}")
        used += known
        before += rest
        scored += _corrected(known, rest)
    alone = tuple(point for members in groups.values() if len(members) < 2 for point in members)
    return Corrected(tuple(used), tuple(scored), tuple(before), alone)


def draw(members: Sequence[Point], share: float, seed: str) -> tuple[list[Point], list[Point]]:
    """The points used, one of each stretch, and the rest; both hold at least one of two or more points."""
    ordered = sorted(members, key=_order)
    stretches = min(len(ordered) - 1, max(1, round(share * len(ordered))))
    # Hash of the words, not Python's own, which changes from run to run.
    drawn = random.Random(int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8]))
    ends = [i * len(ordered) // stretches for i in range(stretches + 1)]
    chosen = {drawn.randrange(first, end) for first, end in pairwise(ends)}
    known = [point for i, point in enumerate(ordered) if i in chosen]
    return known, [point for i, point in enumerate(ordered) if i not in chosen]


def _order(point: Point) -> tuple[object, ...]:
    case = point.case
    load = case.protocol.concurrency or case.protocol.rate_rps or 0.0
    layout = case.layout
    return case.engine_version, layout.tp, layout.dp, layout.ep, case.isl_tokens, case.osl_tokens, load, point.row.line


def _corrected(known: Sequence[Point], rest: Sequence[Point]) -> list[Point]:
    steady = _steady(known)
    by_metric: Mapping[str, list[Factor]] = {metric: _factors(metric, steady, rest) for metric in METRICS}
    return [
        replace(
            point,
            predicted={metric: value.corrected(by_metric[metric][i]) for metric, value in point.predicted.items()},
        )
        for i, point in enumerate(rest)
    ]


def _steady(known: Sequence[Point]) -> list[Point]:
    """Without the open-loop points that wait in a queue which the prediction does not have, or the reverse.

    Near its capacity a server's latency grows without bound, so a small error of step times is a large one of waiting:
    such a point tells nothing of loads below. It is known by its distance from the others' usual TTFT.
    """
    ratios = [_ratio("ttft", point) for point in known]
    usual = median([ratio for ratio in ratios if ratio is not None] or [0.0])
    return [
        point
        for point, ratio in zip(known, ratios, strict=True)
        if point.case.protocol.concurrency is not None or ratio is None or abs(ratio - usual) <= math.log(QUEUED)
    ]


def _ratio(metric: str, point: Point) -> float | None:
    """Logarithm of measured over predicted; None where one is missing, or the prediction has no bound."""
    if metric not in point.measured or metric not in point.predicted:
        return None
    value = point.predicted[metric].value
    return math.log(point.measured[metric] / value) if math.isfinite(value) else None


def _factors(metric: str, known: Sequence[Point], rest: Sequence[Point]) -> list[Factor]:
    taught = [(point.case, ratio) for point in known if (ratio := _ratio(metric, point)) is not None]
    cases, ratios = [case for case, _ in taught], [ratio for _, ratio in taught]
    return factors(cases, ratios, [point.case for point in rest], SMOOTHNESS[metric])
