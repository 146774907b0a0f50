"""Made-up arrivals for measured lengths: Poisson, bursts, a metronome, and jitter for times that lie on a grid.

Belongs here: arrival times, in seconds from 0, for a count, a rate and a seed. Does not: lengths or prefixes.
Same seed, same times, on every machine (NumPy's PCG64).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def evenly_spaced(n: int, rate_rps: float) -> Floats:
    """A metronome: what "constant rate" benchmarks send."""
    _check(n, rate_rps)
    return np.arange(n) / rate_rps


def poisson(n: int, rate_rps: float, seed: int) -> Floats:
    """Independent arrivals: exponential gaps. The first arrives after a gap, not at 0."""
    _check(n, rate_rps)
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_rps, n))


def gamma(n: int, rate_rps: float, gap_variation: float, seed: int) -> Floats:
    """Gamma-distributed gaps, standard deviation `gap_variation` times their mean: 1 is Poisson, more is bursts."""
    _check(n, rate_rps)
    if not gap_variation > 0 or not np.isfinite(gap_variation):
        raise ValueError(f"gap_variation {gap_variation!r}: it must be positive and finite")
    shape = gap_variation**-2
    return np.cumsum(np.random.default_rng(seed).gamma(shape, 1 / (rate_rps * shape), n))


def spread_over_grid(arrival_s: Floats, grid_s: float, seed: int) -> Floats:
    """Times recorded on a grid, each moved uniformly into the grid step it stands for, [t, t + grid_s), and sorted.

    The count in every grid step is kept, and so is the order of the requests they are given to.
    """
    if not grid_s > 0 or not np.isfinite(grid_s):
        raise ValueError(f"grid_s {grid_s!r}: it must be positive and finite")
    return np.sort(arrival_s + np.random.default_rng(seed).uniform(0, grid_s, len(arrival_s)))


def _check(n: int, rate_rps: float) -> None:
    if n < 1:
        raise ValueError(f"{n} arrivals: at least 1 is needed")
    if not rate_rps > 0 or not np.isfinite(rate_rps):
        raise ValueError(f"rate {rate_rps!r} requests/s: it must be positive and finite")
