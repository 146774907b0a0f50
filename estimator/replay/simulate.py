"""From a workload, a step model and limits to what every request saw: arrays in, arrays out.

Belongs here: running the compiled loops and reading off their records. Does not: packing records (`fleets`), the loops
(`kernel`, `stepwise`), SLOs (`estimator.goodput`) or searches over fleets (`estimator.fleet`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from estimator.replay import state
from estimator.replay.compiled import uncollected
from estimator.replay.fleets import connected, new_fleet, nowhere, outage_records, warm
from estimator.replay.kernel import run_closed, run_open
from estimator.replay.limits import EngineLimits
from estimator.replay.links import new_links, new_moves, new_way
from estimator.replay.options import Adapters, Outage, Speculation, Tier
from estimator.replay.result import Replay, Series
from estimator.replay.routing import ROUTERS
from estimator.replay.stepwise import run_stepwise
from estimator.replay.workload import Floats, Ints, Workload
from estimator.step_time import STEP_FIELDS, is_whole, step_seconds

Router = Literal["least_load", "round_robin", "prefix"]


def replay(
    workload: Workload,
    step: Floats,
    limits: EngineLimits,
    *,
    replicas: int = 1,
    router: Router = "least_load",
    router_stale_s: float = 0.0,
    request_seconds: float = 0.0,
    clients: int = 0,
    account_from_s: float = 0.0,
    account_to_s: float = np.inf,
    fast_forward: bool = True,
    host: Tier | None = None,
    remote: Tier | None = None,
    warm_hashes: Ints | None = None,
    speculation: Speculation | None = None,
    adapters: Adapters | None = None,
    outages: Sequence[Outage] = (),
    resend: bool = True,
    series_bins: int = 0,
    async_loads: bool = False,
    ranks: int = 1,
) -> Replay:
    """Serve `workload` on `replicas` equal engines behind a router, until the last request has ended.

    `step` is laid out as `estimator.step_time.STEP_FIELDS`. `request_seconds` is spent outside the engine (HTTP,
    tokenising) and added to TTFT and E2E. The least-load router knows the requests outstanding on every engine, as of
    the last multiple of `router_stale_s` plus what it sent since; ties go round. With `clients` > 0 the loop is closed:
    arrival times are ignored, all clients start at second 0 and each sends its next request when its last one ended.
    The prefix router sends a request to the replica that has the longest part of its prompt, balance allowing.
    `warm_hashes` are hash ids (of `workload`) every engine starts with, least recently used first; as many of the last
    as fit. When a replica is gone, its requests start over elsewhere, or, without `resend`, are lost; a request that
    finds no replica open waits for one. `series_bins` asks for `Replay.series` in that many bins at most.
    What is found in `host` or `remote` holds up the step that admits the request; with `async_loads` it holds up that
    request alone, behind earlier loads of its engine from that tier.
    With `ranks` > 1 a replica is as many data-parallel ranks, each with these limits and a KV pool of its own, that
    step in lockstep: a step lasts as long as that of its slowest rank, and a rank without requests runs along. That is
    DP attention; ranks of a dense model are replicas. `step` is one rank's.
    Outages and patience need an open loop.
    The fleet's figures count steps that start in [account_from_s, account_to_s). `fast_forward` False takes every step
    singly, for comparison: results are the same.

    Rules: `vllm.v1.core.sched.scheduler` and `vllm.v1.core.kv_cache_manager`. Raises ValueError for arguments that make
    no sense, such as a step of no duration.
    """
    if replicas < 1 or ranks < 1:
        raise ValueError(f"replicas is {replicas}, ranks {ranks}: each must be at least 1")
    if clients < 0:
        raise ValueError(f"clients is {clients}: it must be 0 (open loop) or more")
    if not request_seconds >= 0 or not router_stale_s >= 0:
        raise ValueError("request_seconds and router_stale_s must not be negative")
    if clients and (len(outages) or workload.patience_s is not None):
        raise ValueError("outages and patience need an open loop: clients must be 0")
    p = checked_step(step)
    fleet = new_fleet(
        workload,
        p,
        limits,
        replicas=replicas,
        ranks=ranks,
        clients=min(clients, len(workload)),
        account=(account_from_s, account_to_s),
        fast_forward=fast_forward,
        speculation=speculation,
        adapters=adapters,
        resend=resend,
        series_bins=series_bins,
        loads_async=async_loads,
    )
    if host or remote or ranks > 1:
        fleet = connected(fleet, workload.hashes, host, remote)
    if warm_hashes is not None:
        warm(fleet, warm_hashes, workload, limits)
    gone = outage_records(outages, replicas)
    with uncollected():
        if ranks > 1:
            run_stepwise(
                fleet,
                nowhere(fleet),
                p,
                p,
                gone,
                new_moves(0),
                new_links(0),
                new_way(),
                (ROUTERS[router], ROUTERS[router]),
                router_stale_s,
                request_seconds,
            )
        elif clients:
            run_closed(fleet, p, ROUTERS[router], request_seconds)
        else:
            run_open(fleet, p, gone, ROUTERS[router], router_stale_s)
    return figures(workload, fleet, request_seconds)


def checked_step(step: Floats) -> Floats:
    """The parameters of a step as compiled code takes them. Raises ValueError for those of no step."""
    p = np.ascontiguousarray(step, dtype=np.float64)
    if not is_whole(p):
        raise ValueError(f"step holds {p.size} parameters: estimator.step_time.STEP_FIELDS names {len(STEP_FIELDS)}")
    least = float(step_seconds(p, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0))
    if not np.isfinite(least) or least <= 0:
        raise ValueError(f"a step of one token takes {least} s with these parameters: it must be positive and finite")
    return p


def figures(workload: Workload, fleet: state.Fleet, request_seconds: float) -> Replay:
    """What a fleet's records say once all is done."""
    requests, engines, rule, totals = fleet.requests, fleet.engines, fleet.rules[0], fleet.totals[0]
    ranks = int(rule["ranks"])
    if (engines["empty"] + engines["idle"] != rule["kv_blocks"]).any() or engines["running"].any():
        raise RuntimeError("the replay lost KV blocks or requests: a defect of estimator.replay, please report it")
    # What was generated: all of it, or as far as it came.
    ended = np.isfinite(requests["end_s"])
    osl = np.where(ended, requests["osl"], requests["generated"]).astype(np.int64)
    several = (osl > 1) & ended
    decode_s = requests["end_s"] - requests["first_s"]
    makespan_s = float(np.nanmax(requests["end_s"], initial=0.0, where=np.isfinite(requests["end_s"])))
    accounted_s = len(engines) * max(0.0, min(float(rule["to_s"]), makespan_s) - float(rule["from_s"]))
    busy_s = float(engines["busy_s"].sum())
    usage_s = totals["usage_s"].copy()
    usage_s[0] += max(0.0, accounted_s - busy_s)
    total = usage_s.sum()
    usage = np.searchsorted(np.cumsum(usage_s), 0.99 * total) / state.USAGE_BINS if total > 0 else 0.0
    return Replay(
        arrival_s=requests["sent_s"].copy(),
        isl_tokens=workload.isl_tokens,
        osl_tokens=osl,
        ttft_s=requests["first_s"] - requests["queued_s"] + request_seconds,
        tpot_s=np.where(several, decode_s / np.maximum(osl - 1, 1), np.nan),
        e2e_s=requests["end_s"] - requests["queued_s"] + request_seconds,
        queue_s=requests["admitted_s"] - requests["queued_s"],
        itl_max_s=np.where(several, requests["stall_s"], np.nan),
        replica=requests["engine"].astype(np.int64) // ranks,
        rank=np.where(requests["engine"] < 0, -1, requests["engine"].astype(np.int64) % ranks),
        cached_tokens=requests["cached"].astype(np.int64),
        preemptions=requests["preemptions"].astype(np.int64),
        outcome=requests["outcome"].copy(),
        replicas=len(engines) // ranks,
        running_mean=ranks * float(engines["running_s"].sum()) / accounted_s if accounted_s > 0 else 0.0,
        waiting_max=int(engines["waiting_max"].max()),
        kv_usage_p99=float(usage),
        max_active_tokens=int(engines["tokens_max"].max()),
        busy_share=min(1.0, busy_s / accounted_s) if accounted_s > 0 else 0.0,
        steps=int(engines["steps"].sum() + engines["prompt_steps"].sum()) // ranks,
        makespan_s=makespan_s,
        waits_share={
            name: float(seconds / busy_s) if busy_s > 0 else 0.0
            for name, seconds in zip(state.WAITS[1:], totals["waits_s"][1:], strict=True)
        },
        gap_counts=totals["gaps"].copy(),
        host_tokens=requests["loaded"][:, state.HOST].astype(np.int64),
        remote_tokens=requests["loaded"][:, state.REMOTE].astype(np.int64),
        sends=requests["sends"].astype(np.int64),
        series=_series(fleet, makespan_s) if fleet.rules[0]["series_bins"] else None,
    )


def _series(fleet: state.Fleet, makespan_s: float) -> Series:
    rule, replicas = fleet.rules[0], len(fleet.engines)
    bin_s = float(rule["series_s"])
    bins = min(int(rule["series_bins"]), max(1, int(np.ceil(makespan_s / bin_s))))
    rows = fleet.totals[0]["series"][:bins]
    whole_s = replicas * bin_s
    return Series(
        bin_s=bin_s,
        start_s=np.arange(bins, dtype=np.float64) * bin_s,
        running=rows[:, state.RUNNING] / bin_s,
        waiting=rows[:, state.WAITED] / bin_s,
        kv_usage=rows[:, state.USED] / (whole_s * float(rule["kv_blocks"])),
        preemptions=rows[:, state.PREEMPTED].copy(),
        busy_share=rows[:, state.BUSY] / whole_s,
        waits_share={
            name: rows[:, state.LIMIT_0 + i] / whole_s for i, name in enumerate(state.WAITS) if i != state.UNLIMITED
        },
    )
