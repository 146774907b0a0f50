"""CPU cost of a step and of a replica's bounds. Run: python -m tests.benchmarks.bench_step_time."""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from estimator.bounds import bounds, decode_step_seconds, prefill_seconds
from estimator.step_time import (
    DecodePoint,
    PrefillPoint,
    Profile,
    coefficients_for,
    step_parameters,
    step_seconds,
    with_profile,
)
from estimator.weights import weights
from tests.estimator.step_models import H100, gqa
from tests.estimator.test_bounds import Holds

CATALOG = Path(__file__).resolve().parents[2] / "warehouse" / "catalog" / "coefficients.csv"


@njit
def _many(p: np.ndarray[Any, np.dtype[np.float64]], steps: int) -> float:
    total = 0.0
    for step in range(steps):
        total += step_seconds(p, 64.0 + step % 500, 64.0, 64_000.0 + step, 64_000.0, step % 500 * 250.0, step % 500)
    return total


def _profiled(p: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The same step with as many points as a profiler measures, at the times it has anyway."""
    decode = tuple(
        DecodePoint(2**i, context, decode_step_seconds(p, 2**i, context))
        for i in range(10)
        for context in (128, 512, 1024, 2048, 4096, 8192)
    )
    prompts = tuple(PrefillPoint(2**i, prefill_seconds(p, 2**i, 8192), at_client=False) for i in range(6, 14))
    return with_profile(p, Profile(decode, prompts, "measured", "bench"), max_num_batched_tokens=8192)


def main() -> None:
    """Print nanoseconds a step and milliseconds a call of `bounds`."""
    with CATALOG.open(newline="") as lines:
        coefficients = coefficients_for(list(csv.DictReader(lines)), "vllm", "0.15.1", "H100-SXM", "bf16")
    for name, model in (("dense", gqa()), ("64 experts", gqa(experts=64, experts_per_token=8, intermediate=1408))):
        p = step_parameters(model, weights(model), H100, 1, coefficients)
        _many(p, 1)
        start = time.process_time()
        _many(p, 10_000_000)
        nanoseconds = (time.process_time() - start) * 100
        start = time.process_time()
        for _ in range(20):
            bounds(
                p,
                Holds(500_000),
                isl_tokens=500.0,
                osl_tokens=250.0,
                max_num_seqs=256,
                max_num_batched_tokens=8192,
                ttft_target_s=0.5,
                tpot_target_s=0.05,
            )
        milliseconds = (time.process_time() - start) / 20 * 1e3
        with_points = _profiled(p)
        start = time.process_time()
        _many(with_points, 10_000_000)
        measured = (time.process_time() - start) * 100
        print(
            f"{name:12} {nanoseconds:6.1f} ns a step, {measured:6.1f} with a profile   "
            f"{milliseconds:6.2f} ms a replica's bounds"
        )


if __name__ == "__main__":
    main()
