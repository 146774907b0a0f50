"""What the replays of a candidate say, as rows: capacity, buckets, the fleet over time, headroom and cost.

Belongs here: from `Sized` to the rows of its tables. Does not: the replays (`capacity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimator.replay import Replay
from pipelines.planning.capacity import Sized, service_level
from pipelines.planning.workload import Demand
from pipelines.workspace import METRICS, ServiceSpec

QUANTILES = (50, 90, 95, 99)


def capacity_rows(service: str, spec: ServiceSpec, sized: Sized) -> list[dict[str, Any]]:
    """Rows of `plan_capacity` for one candidate's replays."""
    slo = service_level(spec)
    rows = []
    for run in sized.runs:
        result, counted = run.replay, run.counted
        binding, margin = slo.binding(result, counted)
        seconds = result.makespan_s
        served = np.isfinite(result.e2e_s)
        rows.append(
            {
                "service": service,
                "candidate_id": sized.candidate.candidate_id,
                "scenario": run.scenario,
                "replicas": run.replicas,
                "gpus": run.replicas * sized.candidate.tp,
                "arrival_rps": run.arrival_rps,
                "requests": len(result.e2e_s),
                "requests_counted": int(counted.sum()),
                "rejected_requests": int((~served).sum()),
                "attainment": slo.attained(result, counted),
                "attainment_target": slo.attainment,
                "meets_slo": slo.meets(result, counted),
                "binding": binding,
                "margin_ratio": margin,
                **{
                    f"{metric}_p{q}_ms": _percentile_ms(getattr(result, f"{metric}_s")[counted], q)
                    for metric in (*METRICS, "queue")
                    for q in QUANTILES
                },
                **{f"itl_p{q}_ms": _gap_ms(result, q) for q in QUANTILES},
                "input_tokens_per_s": float(result.isl_tokens[served].sum()) / seconds,
                "output_tokens_per_s": float(result.osl_tokens[served].sum()) / seconds,
                "running_mean": result.running_mean,
                "waiting_max": float(result.waiting_max),
                "kv_usage_p99": result.kv_usage_p99,
                "preemptions": int(result.preemptions.sum()),
                "queue_limit": _most(result.waits_share),
                "prefix_hit_share": float(result.cached_tokens[served].sum())
                / max(1.0, float(result.isl_tokens[served].sum())),
                "busy_share": result.busy_share,
                "label": "estimated",
            }
        )
    return rows


def bucket_rows(
    service: str, spec: ServiceSpec, demand: Demand, sized: Sized, scenarios: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of `plan_bucket` for one candidate's replays of these scenarios."""
    slo = service_level(spec)
    rows = []
    for run in sized.runs:
        if run.scenario not in scenarios:
            continue
        for index, bucket in enumerate(demand.buckets):
            members = run.counted & (run.bucket == index)
            if not members.any():
                continue
            rows.append(
                {
                    "service": service,
                    "candidate_id": sized.candidate.candidate_id,
                    "scenario": run.scenario,
                    "bucket": bucket.name,
                    "requests": int(members.sum()),
                    "attainment": slo.attained(run.replay, members),
                    **{
                        f"{metric}_p{q}_ms": _percentile_ms(getattr(run.replay, f"{metric}_s")[members], q)
                        for metric in METRICS
                        for q in QUANTILES
                    },
                    "label": "estimated",
                }
            )
    return rows


def series_rows(service: str, sized: Sized) -> list[dict[str, Any]]:
    """Rows of `plan_series`: every replay of the candidate that was looked at over time."""
    rows = []
    for run in sized.runs:
        series = run.replay.series
        if series is None:
            continue
        for i, limit in enumerate(series.binding()):
            rows.append(
                {
                    "service": service,
                    "candidate_id": sized.candidate.candidate_id,
                    "scenario": run.scenario,
                    "bin": i,
                    "start_s": float(series.start_s[i]),
                    "bin_s": series.bin_s,
                    "running": float(series.running[i]),
                    "waiting": float(series.waiting[i]),
                    # Sums of many steps: a share may round to a hair above 1.
                    "kv_usage": min(1.0, float(series.kv_usage[i])),
                    "preemptions": int(series.preemptions[i]),
                    "busy_share": min(1.0, float(series.busy_share[i])),
                    "queue_limit": limit,
                    "label": "estimated",
                }
            )
    return rows


def _most(waits_share: Mapping[str, float]) -> str:
    name = max(waits_share, key=lambda limit: waits_share[limit])
    return name if waits_share[name] > 0 else "none"


def _gap_ms(result: Replay, q: int) -> float | None:
    seconds = result.itl_s(q / 100)
    return seconds * 1000 if np.isfinite(seconds) else None


def _percentile_ms(seconds: np.ndarray[Any, np.dtype[np.float64]], q: int) -> float | None:
    """By the rule the promise is judged by (`estimator.goodput`): a latency some request had. None for no value."""
    finite = seconds[np.isfinite(seconds)]
    return float(np.quantile(finite, q / 100, method="inverted_cdf")) * 1000 if len(finite) else None


def candidate_figures(sized: Sized, output_tokens_per_s: float) -> dict[str, Any]:
    """What sizing adds to a candidate's row. `output_tokens_per_s` is the mean demand of the whole trace."""
    reach, candidate = sized.goodput, sized.candidate
    if not sized.allowances:
        return {
            "goodput_rps_per_replica": 0.0,
            "goodput_rps_per_gpu": 0.0,
            "binding": reach.binding or None,
        }
    return {
        "goodput_rps_per_replica": reach.rate_rps,
        "goodput_rps_per_gpu": reach.rate_rps / candidate.tp,
        "binding": reach.binding,
        "replicas": sized.replicas,
        "gpus": sized.gpus,
        "usd_per_hour": sized.usd_per_hour,
        "usd_per_million_output_tokens": sized.usd_per_hour / 3600 / output_tokens_per_s * 1e6,
    }


def headroom_rows(service: str, sized: Sized) -> list[dict[str, Any]]:
    """Rows of `plan_headroom`."""
    return [
        {
            "service": service,
            "position": i,
            "risk": a.risk,
            "factor": a.factor,
            "replicas": a.replicas,
            "gpus": a.replicas * sized.candidate.tp,
            "basis": a.basis,
            "label": a.label,
            "source": a.source,
        }
        for i, a in enumerate(sized.allowances)
    ]


def cost_rows(service: str, sized: Sized, hours_per_month: float) -> list[dict[str, Any]]:
    """Rows of `plan_cost`: one a risk, zero lines kept so that every risk is seen to be priced."""
    price = sized.candidate.price
    usd = float(price["usd_per_gpu_hour"])
    return [
        {
            "service": service,
            "position": i,
            "item": a.risk,
            "gpu_id": sized.candidate.gpu.gpu_id,
            "gpus": a.replicas * sized.candidate.tp,
            "usd_per_gpu_hour": usd,
            "hours_per_month": hours_per_month,
            "usd_per_hour": a.replicas * sized.candidate.tp * usd,
            "usd_per_month": a.replicas * sized.candidate.tp * usd * hours_per_month,
            "label": price["label"],
            "source": price["source"],
        }
        for i, a in enumerate(sized.allowances)
    ]
