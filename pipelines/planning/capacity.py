"""Replays: how much a replica of a candidate serves, how many replicas keep the promise, what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


def _replay(candidate: Candidate, workload: Workload, replicas: int, series_bins: int = 0) -> Replay:
    assert candidate.step is not None
    return replay(
        workload,
        candidate.step,
        candidate.limits,
        replicas=replicas,
        request_seconds=candidate.request_s,
        series_bins=series_bins,
    )


SERIES_BINS = 120
"""Most bins of a replay over time."""
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
    """The chosen candidate over time: the window on the planned fleet again, with one replica down, and with as many
    down as the headroom is for; the whole trace on the whole fleet."""
    candidate = sized.candidate
    factor = demand.demand_factor * spec.headroom.traffic_factor
    window = demand.window_workload.scaled(factor)
    whole = _replay(candidate, demand.workload.scaled(demand.demand_factor), sized.replicas, SERIES_BINS)
    everything = np.ones(len(demand.arrival_s), dtype=np.bool_)
    mean_rps = len(demand.arrival_s) / demand.span_s * demand.demand_factor
    runs = [
        replace(run, replay=_replay(candidate, window, run.replicas, SERIES_BINS))
        if run.scenario == "fleet_planned"
        else run
        for run in sized.runs
    ]
    runs.append(Run("fleet_all_up", sized.replicas, mean_rps, whole, everything, demand.bucket_of()))
    failures = spec.headroom.failure_replicas
    for scenario, down in (("fleet_one_down", 1), *((("fleet_failures_down", failures),) if failures > 1 else ())):
        left = sized.replicas - down
        if left > 0:
            short = _replay(candidate, window, left, SERIES_BINS)
            bucket = demand.bucket_of()[_window_index(demand)]
            runs.append(Run(scenario, left, demand.traced_rps * factor, short, _counted(demand), bucket))
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
