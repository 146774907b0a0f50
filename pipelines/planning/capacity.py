"""Replays: how much a replica of a candidate serves, how many replicas keep the promise, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estimator.fleet import control_replicas, deployment_replicas, failure_replicas, replicas_for, smallest_fleet
from estimator.goodput import Goodput, ServiceLevel, goodput
from estimator.replay import Replay, Workload, replay
from pipelines.planning.candidates import Candidate
from pipelines.planning.workload import Demand
from pipelines.workspace import METRICS, ServiceSpec

Masks = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Run:
    """One replay of one scenario: what was replayed and which of its requests count."""

    scenario: str
    replicas: int
    arrival_rps: float
    replay: Replay
    counted: Masks
    bucket: np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one risk adds."""

    risk: str
    factor: float | None
    replicas: int
    basis: str
    label: str
    source: str


@dataclass(frozen=True, slots=True)
class Sized:
    """A candidate with its capacity: goodput of a replica, replicas by risk, cost, and the replays behind them."""

    candidate: Candidate
    goodput: Goodput
    runs: tuple[Run, ...] = ()
    allowances: tuple[Allowance, ...] = ()

    @property
    def replicas(self) -> int:
        """Replicas, headroom included."""
        return sum(allowance.replicas for allowance in self.allowances)

    @property
    def gpus(self) -> int:
        """Accelerators, headroom included."""
        return self.replicas * self.candidate.tp

    @property
    def usd_per_hour(self) -> float:
        """Cost of all of them."""
        return self.gpus * float(self.candidate.price["usd_per_gpu_hour"])


def service_level(spec: ServiceSpec) -> ServiceLevel:
    """The workspace's targets, in seconds and shares."""
    limits: dict[str, dict[float, float]] = {}
    for metric in METRICS:
        limits[metric] = {q / 100: ms / 1000 for q, ms in spec.slo.targets(metric).items()}
    return ServiceLevel(
        ttft_s=limits["ttft"], tpot_s=limits["tpot"], e2e_s=limits["e2e"], attainment=spec.slo.attainment
    )


def size(spec: ServiceSpec, demand: Demand, candidate: Candidate) -> Sized:
    """Goodput of one replica, then the smallest fleet that keeps the promise at planned demand, then its headroom."""
    assert candidate.step is not None and candidate.bounds is not None
    slo, window = service_level(spec), demand.window_workload
    reach = goodput(
        window,
        candidate.step,
        candidate.limits,
        slo,
        request_seconds=candidate.request_s,
        guess_rps=candidate.bounds.capacity_rps,
        warmup_s=demand.warm_s,
    )
    if reach.unreachable:
        return Sized(replace(candidate, status="short_of_slo", reason=reach.reason), reach)
    headroom = spec.headroom
    planned = window.scaled(demand.demand_factor * headroom.traffic_factor)
    planned_rps = demand.planned_rps * headroom.traffic_factor
    plain = replicas_for(demand.planned_rps, reach.rate_rps, 1.0)
    start = replicas_for(demand.planned_rps, reach.rate_rps, headroom.traffic_factor)
    found = smallest_fleet(
        planned,
        candidate.step,
        candidate.limits,
        slo,
        start=start,
        request_seconds=candidate.request_s,
        warmup_s=demand.warm_s / (demand.demand_factor * headroom.traffic_factor),
    )
    if found is None:
        reason = "no number of replicas up to four times the estimate keeps the SLO at the planned demand"
        return Sized(replace(candidate, status="short_of_slo", reason=reason), reach)
    fleet, run = found
    if too_brief(run, _counted(demand), fleet):
        # A window that ends before the fleet is loaded would let a smaller one pass.
        fleet = max(fleet, start)
    whole = smallest_whole(demand, candidate, slo, fleet)
    if whole is None:
        reason = "no number of replicas up to four times the estimate keeps the SLO over the whole trace"
        return Sized(replace(candidate, status="short_of_slo", reason=reason), reach)
    if max(fleet, whole) != found[0]:
        fleet = max(fleet, whole)
        run = _replay(candidate, planned, fleet)
    allowances = _allowances(spec, demand, min(plain, fleet), fleet, reach.rate_rps)
    sized = Sized(replace(candidate, reason="keeps the SLO"), reach, (), allowances)
    bucket = demand.bucket_of()[_window_index(demand)]
    runs = (
        Run("goodput_replica", 1, reach.rate_rps, reach.replay, reach.counted, bucket),
        Run("fleet_planned", fleet, planned_rps, run, _counted(demand), bucket),
    )
    return replace(sized, runs=runs)


def _replay(candidate: Candidate, workload: Workload, replicas: int) -> Replay:
    assert candidate.step is not None
    return replay(workload, candidate.step, candidate.limits, replicas=replicas, request_seconds=candidate.request_s)


LEAST_STAYS = 5
LEAST_REQUESTS = 30
"""Below these a fleet has not been loaded before the window ends, and the replay says little about it."""


def stays(run: Replay, counted: Masks) -> float:
    """How often the mean stay of a request fits into the counted stretch."""
    arrivals = run.arrival_s[counted]
    return float(arrivals[-1] - arrivals[0]) / float(np.nanmean(run.e2e_s))


def too_brief(run: Replay, counted: Masks, replicas: int) -> bool:
    """Whether the counted stretch is too short for a fleet of this size to show what it can do."""
    return stays(run, counted) < LEAST_STAYS or int(counted.sum()) < LEAST_REQUESTS * replicas


def smallest_whole(demand: Demand, candidate: Candidate, slo: ServiceLevel, fleet: int) -> int | None:
    """`fleet`, or as many more as the whole trace takes: a burst may lie outside the window."""
    assert candidate.step is not None
    whole = demand.workload.scaled(demand.demand_factor)
    if slo.meets(_replay(candidate, whole, fleet)):
        return fleet
    found = smallest_fleet(
        whole, candidate.step, candidate.limits, slo, start=fleet + 1, request_seconds=candidate.request_s
    )
    return None if found is None else max(fleet, found[0])


def verify(spec: ServiceSpec, demand: Demand, sized: Sized) -> Sized:
    """The chosen candidate, replayed twice more: the whole trace on the whole fleet, and the window with one down."""
    candidate = sized.candidate
    whole = _replay(candidate, demand.workload.scaled(demand.demand_factor), sized.replicas)
    everything = np.ones(len(demand.arrival_s), dtype=np.bool_)
    mean_rps = len(demand.arrival_s) / demand.span_s * demand.demand_factor
    runs = [*sized.runs, Run("fleet_all_up", sized.replicas, mean_rps, whole, everything, demand.bucket_of())]
    if sized.replicas > 1:
        factor = demand.demand_factor * spec.headroom.traffic_factor
        short = _replay(candidate, demand.window_workload.scaled(factor), sized.replicas - 1)
        rate = demand.traced_rps * factor
        bucket = demand.bucket_of()[_window_index(demand)]
        runs.append(Run("fleet_one_down", sized.replicas - 1, rate, short, _counted(demand), bucket))
    return replace(sized, runs=tuple(runs))


def _window_index(demand: Demand) -> Masks:
    return (demand.arrival_s >= demand.window.warm_from_s) & (demand.arrival_s < demand.window.end_s)


def _counted(demand: Demand) -> Masks:
    return demand.counted[_window_index(demand)]


def _allowances(spec: ServiceSpec, demand: Demand, plain: int, fleet: int, rate_rps: float) -> tuple[Allowance, ...]:
    """The fleet split by what each replica is there for. Their replicas sum to the fleet that is bought."""
    headroom = spec.headroom
    failure, failure_basis = failure_replicas(headroom.failure_replicas)
    surge, surge_basis = deployment_replicas(headroom.deployment_surge_replicas)
    control, control_basis = control_replicas(
        fleet,
        demand.planned_rps * headroom.traffic_factor,
        rate_rps,
        growth_per_hour=headroom.growth_per_hour,
        ready_minutes=headroom.ready_minutes,
    )
    given, replayed = "capsheet.yaml", "replay of the trace"
    return (
        Allowance(
            "demand",
            1.0,
            plain,
            f"{demand.planned_rps:.3g} requests/s at goodput of one replica",
            "estimated",
            replayed,
        ),
        Allowance(
            "traffic",
            headroom.traffic_factor,
            fleet - plain,
            f"smallest fleet that keeps the SLO in replay: the busiest stretch at {headroom.traffic_factor:g} x the "
            "demand, and the whole trace",
            "estimated",
            replayed,
        ),
        Allowance("failure", None, failure, failure_basis, "assumed", given),
        Allowance("deployment", None, surge, surge_basis, "assumed", given),
        Allowance(
            "memory",
            None,
            0,
            f"{headroom.memory_gib_per_gpu:g} GiB kept free on every GPU; paid for in KV cache, not in replicas",
            "assumed",
            given,
        ),
        Allowance("control", None, control, control_basis, "estimated", replayed),
    )


def choose(sized: Sequence[Sized]) -> Sized | None:
    """The cheapest that keeps the SLO; of equals the one with fewer GPUs, then by name. None when none does."""
    able = [s for s in sized if s.allowances]
    return min(able, key=lambda s: (round(s.usd_per_hour, 6), s.gpus, s.candidate.candidate_id), default=None)


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
                    for metric in METRICS
                    for q in (50, 90, 95, 99)
                },
                "queue_p99_ms": _percentile_ms(result.queue_s[counted], 99),
                "input_tokens_per_s": float(result.isl_tokens[served].sum()) / seconds,
                "output_tokens_per_s": float(result.osl_tokens[served].sum()) / seconds,
                "running_mean": result.running_mean,
                "waiting_max": float(result.waiting_max),
                "kv_usage_p99": result.kv_usage_p99,
                "preemptions": int(result.preemptions.sum()),
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
                        for q in (50, 99)
                    },
                    "label": "estimated",
                }
            )
    return rows


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
