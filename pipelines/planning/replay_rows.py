"""A replay in detail: one row a request, one record a joint length bucket, and how the goodput was found.

Belongs here: these rows, and writing them as CSV. Does not: the replay and its figures as a whole (`replaying`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from estimator.goodput import METRICS, Goodput, ServiceLevel
from estimator.replay import OUTCOMES, Replay, Workload
from estimator.replay.result import Mask
from estimator.workload import joint_buckets
from warehouse.errors import CapsheetError

QUANTILES = (50, 90, 95, 99)


def request_frame(result: Replay, counted: Mask) -> pl.DataFrame:
    """One row a request, in the order of the workload. Times in ms from its own arrival, empty where there is none;
    `itl_max_ms` is its longest gap between two tokens."""
    milliseconds = {
        f"{name}_ms": getattr(result, f"{name}_s") * 1000 for name in ("ttft", "tpot", "e2e", "queue", "itl_max")
    }
    return pl.DataFrame(
        {
            "arrival_s": result.arrival_s,
            "isl_tokens": result.isl_tokens,
            "osl_tokens": result.osl_tokens,
            **{name: pl.Series(values).fill_nan(None) for name, values in milliseconds.items()},
            "cached_tokens": result.cached_tokens,
            "preemptions": result.preemptions,
            "replica": pl.Series(result.replica).replace(-1, None),
            "outcome": [OUTCOMES[kind] for kind in result.outcome.tolist()],
            "counted": counted,
        }
    )


def write_requests(out: Path, result: Replay, counted: Mask) -> None:
    """`request_frame` as CSV. Raises CapsheetError where it cannot be written."""
    try:
        request_frame(result, counted).write_csv(out)
    except OSError as error:
        raise CapsheetError(f"{out} cannot be written: {error.strerror or error}. Name another file.") from None


def bucket_figures(
    result: Replay, counted: Mask, workload: Workload, slo: ServiceLevel | None = None
) -> list[dict[str, Any]]:
    """Percentiles in ms, and attainment where there is a promise, by joint bucket of the lengths asked for."""
    rows: list[dict[str, Any]] = []
    for bucket in joint_buckets(workload.isl_tokens, workload.osl_tokens):
        members = np.zeros(len(workload), dtype=np.bool_)
        members[bucket.members] = True
        members &= counted
        if not members.any():
            continue
        row: dict[str, Any] = {"bucket": bucket.name, "requests": int(members.sum())}
        if slo is not None:
            row["attainment"] = slo.attained(result, members)
        for metric in (*METRICS, "queue"):
            seconds = getattr(result, f"{metric}_s")[members]
            seconds = seconds[np.isfinite(seconds)]
            for q in QUANTILES:
                row[f"{metric}_p{q}_ms"] = (
                    float(np.quantile(seconds, q / 100, method="inverted_cdf")) * 1000 if len(seconds) else None
                )
        rows.append(row)
    return rows


def search_figures(reach: Goodput | None) -> dict[str, Any]:
    """How near the goodput is: the lowest rate that broke the promise, and whether that is within the tolerance."""
    if reach is None:
        return {}
    return {
        "goodput_failed_rps": reach.failed_rps,
        "goodput_tolerance": reach.tolerance,
        "goodput_found": reach.found,
        "goodput_replays": len(reach.evaluations),
    }
