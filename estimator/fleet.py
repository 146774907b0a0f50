"""How many replicas: from demand and goodput, from a replay of the whole fleet, and what each risk adds.

Belongs here: replica counts and why. Does not: the goodput of one replica (`estimator.goodput`), replays
(`estimator.replay`), prices. Each risk is held against on its own, never as one vague percentage: traffic, failure,
deployment and control add replicas; memory headroom is taken off the KV cache in `estimator.memory` and adds none.

Each `*_replicas` function returns the replicas it adds and a sentence saying what they are based on.
"""

from __future__ import annotations

import math

import numpy as np

from estimator.goodput import ServiceLevel, queue_growth
from estimator.replay import EngineLimits, Replay, Router, Workload, replay
from estimator.replay.workload import Floats


def replicas_for(demand_rps: float, goodput_rps: float, factor: float = 1.0) -> int:
    """ceil(demand x factor / goodput), at least 1: the starting point of a fleet, to be replayed before it is believed.

    Source: N = ceil(lambda H / G) of the trace-to-GPU method. Raises ValueError for rates or factors not above 0.
    """
    for name, value in (("demand_rps", demand_rps), ("goodput_rps", goodput_rps), ("factor", factor)):
        if not value > 0 or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}: it must be positive and finite")
    # A demand that is a whole number of replicas must not cost one more for a rounding error in the division.
    return max(1, math.ceil(demand_rps * factor / goodput_rps * (1 - 1e-12)))


def smallest_fleet(
    workload: Workload,
    step: Floats,
    limits: EngineLimits,
    slo: ServiceLevel,
    start: int,
    *,
    request_seconds: float = 0.0,
    warmup_s: float = 0.0,
    drain_s: float = 0.0,
    router: Router = "least_load",
    router_stale_s: float = 0.0,
    tolerance: float = 0.02,
    most: int | None = None,
) -> tuple[int, Replay] | None:
    """The smallest number of replicas behind a router that keeps `slo` at this workload's own rate, with its replay.

    Replayed, not divided: a fleet shares bursts that one replica meets alone, and no router balances perfectly. From
    `start` (`replicas_for`) it walks down while the promise holds, or up until it does, with growing strides and
    bisection between the last that failed and the first that held. A fleet whose queues grow by more than `tolerance`
    seconds a second does not hold. None when `most` replicas do not hold either (four times `start` and at least
    `start` + 8, if not given).
    """
    if start < 1:
        raise ValueError(f"start is {start}: it must be at least 1 replica")
    most = max(4 * start, start + 8) if most is None else most
    counted = (workload.arrival_s >= workload.arrival_s[0] + warmup_s) & (
        workload.arrival_s <= workload.arrival_s[-1] - drain_s
    )
    found: tuple[int, Replay] | None = None

    def holds(n: int) -> bool:
        nonlocal found
        result = replay(
            workload,
            step,
            limits,
            replicas=n,
            router=router,
            router_stale_s=router_stale_s,
            request_seconds=request_seconds,
        )
        held = slo.meets(result, counted) and queue_growth(result, counted) <= tolerance
        if held and (found is None or n < found[0]):
            found = (n, result)
        return held

    failed = 0
    n, stride = min(start, most), 1
    if holds(n):
        # Down: what holds is `found`, what fails ends the walk.
        while found is not None and found[0] - 1 > failed:
            n = max(failed + 1, found[0] - stride)
            if holds(n):
                stride *= 2
            else:
                failed = n
                stride = max(1, (found[0] - failed) // 2)
        return found
    failed = n
    while found is None and failed < most:
        n = min(most, failed + stride)
        if not holds(n):
            failed = n
            stride *= 2
    while found is not None and found[0] - failed > 1:
        n = (found[0] + failed) // 2
        if not holds(n):
            failed = n
    return found


def traffic_factor(peak_over_forecast: Floats, quantile: float = 0.95) -> float:
    """What demand is multiplied by so that this share of past peaks would have fitted: never below 1.

    `peak_over_forecast` holds one ratio a period: the peak that came over the peak that was forecast for it.
    """
    ratios = np.asarray(peak_over_forecast, dtype=np.float64)
    if len(ratios) == 0 or not np.isfinite(ratios).all() or (ratios <= 0).any():
        raise ValueError("peak_over_forecast needs at least one positive, finite ratio")
    if not 0 < quantile <= 1:
        raise ValueError(f"quantile {quantile!r}: it must be above 0 and at most 1")
    return max(1.0, float(np.quantile(ratios, quantile, method="inverted_cdf")))


def traffic_replicas(demand_rps: float, goodput_rps: float, factor: float) -> tuple[int, str]:
    """Traffic: bursts and forecast error, as a factor on demand of at least 1."""
    if not factor >= 1:
        raise ValueError(f"traffic factor {factor!r}: it must be at least 1")
    added = replicas_for(demand_rps, goodput_rps, factor) - replicas_for(demand_rps, goodput_rps)
    return added, f"{factor:g} x {demand_rps:.3g} requests/s at {goodput_rps:.3g} requests/s a replica"


def failure_replicas(failures: int, gpus_per_replica: int = 1, gpus_per_node: int | None = None) -> tuple[int, str]:
    """Failure: what `failures` lost nodes (or lone replicas, without `gpus_per_node`) take with them.

    A node takes every replica with a GPU on it: N+1 is not one GPU more but whole replicas, rebuilt elsewhere. A
    replica larger than a node is lost with one of its nodes.
    """
    if failures < 0 or gpus_per_replica < 1 or (gpus_per_node is not None and gpus_per_node < 1):
        raise ValueError("failures must not be negative, GPUs per replica and per node at least 1")
    if gpus_per_node is None:
        return failures, f"N+{failures}: {failures} replica(s) may be lost" if failures else "no failure is covered"
    per_node = max(1, gpus_per_node // gpus_per_replica)
    added = failures * per_node
    if not failures:
        return 0, "no failure is covered"
    return added, f"{failures} node(s) of {gpus_per_node} GPUs may be lost, {per_node} replica(s) on each"


def deployment_replicas(surge_replicas: int) -> tuple[int, str]:
    """Deployment: new replicas that stand beside the old ones during a rolling upgrade, before those drain."""
    if surge_replicas < 0:
        raise ValueError(f"surge_replicas is {surge_replicas}: it must not be negative")
    if surge_replicas == 0:
        return 0, "replicas are replaced in place: capacity dips during an upgrade"
    return surge_replicas, f"a rolling upgrade starts {surge_replicas} new replica(s) before it drains old ones"


def control_replicas(
    replicas: int, demand_rps: float, goodput_rps: float, *, growth_per_hour: float, ready_minutes: float
) -> tuple[int, str]:
    """Control: what demand grows by while a new replica is on its way, from request to admitted traffic.

    `growth_per_hour` is the share of demand added in an hour (0.5: half as much again); `ready_minutes` the time from
    asking for a replica until the router sends it traffic (scheduling, image, weights, initialisation, compilation and
    graphs, health), measured. `replicas` already serve `demand_rps`; only what they cannot carry is added.
    """
    if growth_per_hour < 0 or ready_minutes < 0 or replicas < 1:
        raise ValueError("growth_per_hour and ready_minutes must not be negative, replicas at least 1")
    grown_rps = demand_rps * (1 + growth_per_hour * ready_minutes / 60)
    # Replicas per unit of demand as the replayed fleet has them, where it needs more than goodput alone says.
    needed = max(replicas_for(grown_rps, goodput_rps), math.ceil(replicas * grown_rps / demand_rps * (1 - 1e-12)))
    basis = f"demand grows {growth_per_hour:.0%} an hour, a replica is ready after {ready_minutes:g} min"
    # Without growth nothing has to be bridged, whatever the fleet's ratio to goodput.
    return (max(0, needed - replicas) if grown_rps > demand_rps else 0), basis
