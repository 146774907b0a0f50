"""What some measured points of a combination say about its other points: a smooth factor on each prediction.

Belongs here: the interpolation of log(measured / predicted) over load, lengths and layout. Does not: coefficients and
their fit, which points are known.

Gaussian-process regression (Rasmussen and Williams, 2006, algorithm 2.1) with a kernel that is the sum of a constant
(one factor for the whole combination) and squared exponentials over the logarithms of load, lengths, GPUs and tokens of
a step, smaller between engine versions and between ways of spreading experts. Far from every known point the factor
returns towards the combination's own; with no known point it is 1. Outliers (a stall, a slow start) weigh less: three
rounds of reweighting by Student's t, 4 degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.serving.case import ServingCase

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Smoothness:
    """Standard deviations of log(measured / predicted), and how far it carries, in e-folds of each quantity.

    `shared` is that of the combination's common factor, `local` of what varies inside it, `noise` of repeats;
    `other` is the correlation left between two engine versions or two ways of spreading experts; `spread` how wide
    intervals are, over what the kernel says, where no known point tells. Estimated: the values with the smallest mean
    error over closed-loop combinations corrected on 30 % of their points, and 80 % of the others inside the interval;
    half or twice any of them moves the median error by about a tenth of itself.
    """

    shared: float = 0.4
    local: float = 0.25
    noise: float = 0.03
    load: float = 2.0
    prompt: float = 1.5
    answer: float = 3.0
    gpus: float = 1.3
    step_tokens: float = 2.0
    other: float = 0.5
    spread: float = 0.8


PRIOR_POINTS = 4
MOST_SURPRISE = 36.0
"""Of one point: six standard deviations, squared. A single stall does not widen every interval without end."""
MOST_KNOWN, BLOCK = 1_000, 1_024
"""Known points that teach, evenly among all of them: more say little new, and their cost grows with the cube. Points
are asked for in blocks, so that memory does not grow with a file."""
P90 = 1.2816
"""Standard deviations from the middle of a normal distribution to its ninetieth percentile."""


@dataclass(frozen=True, slots=True)
class Factor:
    """What to multiply a prediction with, and the P10 and P90 of what that leaves open."""

    value: float = 1.0
    low: float | None = None
    high: float | None = None


def factors(
    known: Sequence[ServingCase], log_ratios: Sequence[float], asked: Sequence[ServingCase], smooth: Smoothness
) -> list[Factor]:
    """The factor on each asked case's prediction, from log(measured / predicted) of known cases; 1 with none known.

    P10 and P90 are those of the posterior, widened or narrowed by how far known points lie from what the others say of
    them (leave-one-out, the book's equation 5.12), `spread` counting as `PRIOR_POINTS` such points.

    Raises ValueError when `known` and `log_ratios` differ in length or a ratio is not finite.
    """
    if len(known) != len(log_ratios) or not all(math.isfinite(ratio) for ratio in log_ratios):
        raise ValueError("known cases need one finite log ratio each")
    if not known or not asked:
        return [Factor()] * len(asked)
    ratios = np.asarray(log_ratios, dtype=np.float64)
    if len(known) > MOST_KNOWN:
        kept = np.linspace(0, len(known) - 1, MOST_KNOWN).astype(int)
        known, ratios = [known[i] for i in kept], ratios[kept]
    among = _kernel(known, known, smooth)
    variances, surprises = np.full(len(known), smooth.noise**2), np.zeros(len(known))
    for _ in range(3):
        inverse = np.linalg.inv(among + np.diag(variances))
        alone = np.maximum(1.0 / np.diag(inverse), smooth.noise**2)
        surprises = (inverse @ ratios / np.diag(inverse)) ** 2 / alone
        variances = smooth.noise**2 * np.maximum(1.0, (4 + surprises) / 5) ** 2
    inverse = np.linalg.inv(among + np.diag(variances))
    scale = (np.minimum(surprises, MOST_SURPRISE).sum() + PRIOR_POINTS * smooth.spread**2) / (len(known) + PRIOR_POINTS)
    found: list[Factor] = []
    for start in range(0, len(asked), BLOCK):
        towards = _kernel(asked[start : start + BLOCK], known, smooth)
        middle = towards @ (inverse @ ratios)
        left_open = smooth.shared**2 + smooth.local**2 - np.einsum("ij,ij->i", towards @ inverse, towards)
        reach = P90 * np.sqrt((np.maximum(left_open, 0.0) + smooth.noise**2) * scale)
        ends = zip(np.exp(middle), np.exp(middle - reach), np.exp(middle + reach), strict=True)
        found += [Factor(float(value), float(low), float(high)) for value, low, high in ends]
    return found


def _kernel(left: Sequence[ServingCase], right: Sequence[ServingCase], smooth: Smoothness) -> Floats:
    a, b = (np.asarray([_place(case, smooth) for case in cases], dtype=np.float64) for cases in (left, right))
    distance = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    numbers: dict[object, int] = {}
    ways = [
        np.asarray([[numbers.setdefault(way, len(numbers)) for way in _ways(case)] for case in cases])
        for cases in (left, right)
    ]
    differs = (ways[0][:, None, :] != ways[1][None, :, :]).sum(axis=2)
    alike = np.power(smooth.other, differs.astype(np.float64)) * np.exp(-0.5 * distance)
    covariance: Floats = smooth.shared**2 + smooth.local**2 * alike
    return covariance


def _place(case: ServingCase, smooth: Smoothness) -> tuple[float, ...]:
    load = case.protocol.concurrency or case.protocol.rate_rps or 1.0
    pools = [case.layout] + ([case.prefill] if case.prefill else [])
    return (
        math.log(load) / smooth.load,
        math.log(case.isl_tokens) / smooth.prompt,
        math.log(case.osl_tokens) / smooth.answer,
        math.log(sum(pool.gpus * pool.workers for pool in pools)) / smooth.gpus,
        math.log(case.max_num_batched_tokens) / smooth.step_tokens,
    )


def _ways(case: ServingCase) -> tuple[str, tuple[bool, bool]]:
    """What has no distance, only same or other: the engine's version, and how attention and experts are spread."""
    return case.engine_version, (case.layout.dp > 1, case.layout.ep > 1)
