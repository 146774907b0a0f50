"""Candidates x rates: what one replica of each configuration gives at each rate, on the same requests.

Belongs here: the grid, its rows, and what a row of rates comes to. Does not: where its replays run
(`pipelines.executor`), which configurations and rates there are (`contenders`). Every process that replays imports
this module, so it takes no more along than a replay needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimator.goodput import TOLERANCE, ServiceLevel, queue_growth, rate_over
from estimator.replay import EngineLimits, Workload, replay
from estimator.replay.workload import Floats
from pipelines.executor import Executor, run_all

QUANTILES = (50, 99)


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """One configuration of a replica; `described` goes into its rows as it is."""

    described: Mapping[str, str | int | float]
    step: Floats
    limits: EngineLimits
    request_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """What all cells share: the requests (rates differ by time-warp alone), the promise, and what comes before
    `warmup_s` of the workload's own time and is not counted."""

    workload: Workload
    contenders: Sequence[Contender]
    slo: ServiceLevel
    warmup_s: float = 0.0


def sweep(
    grid: Grid, rates_rps: Sequence[float], *, executor: Executor = "local", workers: int | None = None
) -> list[dict[str, Any]]:
    """One row a candidate and rate, candidates first: attainment, percentiles, what bound."""
    cells = [(i, rate) for i in range(len(grid.contenders)) for rate in rates_rps]
    return list(run_all(cell, grid, cells, executor=executor, workers=workers, stage="replays"))


def cell(grid: Grid, place: tuple[int, float]) -> dict[str, Any]:
    """One replay of the grid, as a row. `feasible` is what `estimator.goodput` calls so: the promise holds and
    queueing does not grow."""
    one, rate_rps = grid.contenders[place[0]], place[1]
    counted = grid.workload.arrival_s >= grid.workload.arrival_s[0] + grid.warmup_s
    faster = grid.workload.scaled(rate_rps / rate_over(grid.workload, counted))
    result = replay(faster, one.step, one.limits, request_seconds=one.request_s)
    binding, margin = grid.slo.binding(result, counted)
    growth = queue_growth(result, counted)
    limit = max(result.waits_share, key=lambda name: result.waits_share[name])
    served = np.isfinite(result.e2e_s)
    return {
        **one.described,
        "arrival_rps": rate_rps,
        "feasible": grid.slo.meets(result, counted) and growth <= TOLERANCE,
        "attainment": grid.slo.attained(result, counted),
        "binding": binding,
        "margin_ratio": margin,
        "queue_growth_s_per_s": growth,
        **{
            f"{metric}_p{q}_ms": _percentile_ms(getattr(result, f"{metric}_s")[counted], q)
            for metric in ("ttft", "tpot", "e2e")
            for q in QUANTILES
        },
        "served_rps": float(served.sum()) / result.makespan_s if result.makespan_s > 0 else 0.0,
        "busy_share": result.busy_share,
        "kv_usage_p99": result.kv_usage_p99,
        "preemptions": int(result.preemptions.sum()),
        "queue_limit": limit if result.waits_share[limit] > 0 else "none",
        "label": "estimated",
    }


def _percentile_ms(seconds: Floats, q: int) -> float | None:
    finite = seconds[np.isfinite(seconds)]
    return float(np.quantile(finite, q / 100, method="inverted_cdf")) * 1000 if len(finite) else None


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One record a candidate, cheapest a request first: the largest rate that held below the lowest that failed.

    `saturated`: no rate failed, so the limit lies higher. `monotone` False: a rate held above one that failed.
    `binding` is what failed first, or what comes nearest at the highest rate.
    """
    of: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        of.setdefault(str(row["candidate_id"]), []).append(row)
    told = []
    for name, several in of.items():
        by_rate = sorted(several, key=lambda row: float(row["arrival_rps"]))
        failed = next((i for i, row in enumerate(by_rate) if not row["feasible"]), len(by_rate))
        kept_rps = float(by_rate[failed - 1]["arrival_rps"]) if failed else 0.0
        usd = float(by_rate[0]["usd_per_hour"])
        told.append(
            {
                "candidate_id": name,
                "kept_rps": kept_rps,
                "kept_rps_per_gpu": kept_rps / int(by_rate[0]["tp"]),
                "usd_per_million_requests": usd / 3600 / kept_rps * 1e6 if kept_rps else None,
                "binding": by_rate[min(failed, len(by_rate) - 1)]["binding"],
                "saturated": failed == len(by_rate),
                "monotone": not any(row["feasible"] for row in by_rate[failed:]),
            }
        )
    return sorted(told, key=lambda one: (one["usd_per_million_requests"] is None, one["usd_per_million_requests"] or 0))
