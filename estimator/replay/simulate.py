"""From a workload, a step model and limits to what every request saw: arrays in, arrays out.

Belongs here: packing arguments for the compiled loop and unpacking its records. Does not: the loop (`kernel`), SLOs
(`estimator.goodput`) or searches over fleets (`estimator.fleet`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from estimator.replay import state
from estimator.replay.compiled import uncollected
from estimator.replay.kernel import run_closed, run_open
from estimator.replay.limits import EngineLimits
from estimator.replay.links import new_links, new_moves, new_way
from estimator.replay.options import Adapters, Outage, Speculation, Tier, in_turn
from estimator.replay.result import Replay, Series
from estimator.replay.routing import ROUTERS
from estimator.replay.stepwise import run_stepwise
from estimator.replay.workload import Floats, Ints, Workload
from estimator.step_time import STEP_FIELDS, WINDOW_INDEX, is_whole, step_seconds

Router = Literal["least_load", "round_robin", "prefix"]

_NO_WINDOW = 2**60
_NO_LIMIT = 2**60


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
        _warm(fleet, warm_hashes, workload, limits)
    gone = _outages(outages, replicas)
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


def new_fleet(
    workload: Workload,
    p: Floats,
    limits: EngineLimits,
    *,
    replicas: int,
    ranks: int = 1,
    clients: int = 0,
    account: tuple[float, float] = (0.0, np.inf),
    fast_forward: bool = True,
    speculation: Speculation | None = None,
    adapters: Adapters | None = None,
    resend: bool = True,
    series_bins: int = 0,
    loads_async: bool = False,
    hands_over: bool = False,
) -> state.Fleet:
    """Records of idle engines that obey `limits`, and of the requests they are to serve."""
    if series_bins != 0 and not 2 <= series_bins <= state.SERIES_BINS:
        raise ValueError(f"series_bins is {series_bins}: it must be 0 (none) or from 2 to {state.SERIES_BINS}")
    window = int(p[WINDOW_INDEX]) if np.isfinite(p[WINDOW_INDEX]) and p[WINDOW_INDEX] > 0 else _NO_WINDOW
    requests, ids, hash_blocks = _requests(workload, limits)
    rules = state.new_rules(
        kv_blocks=limits.kv_blocks,
        block_tokens=limits.block_tokens,
        hash_blocks=hash_blocks,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        long_prefill_threshold=limits.long_prefill_threshold or limits.max_num_batched_tokens
        if limits.chunked_prefill
        else limits.max_model_len,
        chunked=limits.chunked_prefill,
        exclusive=limits.exclusive_prefill,
        caching=limits.prefix_caching,
        window=window,
        fast=fast_forward,
        priority=limits.priority_scheduling,
        max_waiting=limits.max_waiting or _NO_LIMIT,
        max_outstanding=limits.max_outstanding or _NO_LIMIT,
        drafts=speculation.drafts if speculation else 0,
        draft_s=speculation.draft_seconds if speculation else 0.0,
        seed=speculation.seed if speculation else 0,
        max_loras=adapters.max_loras if adapters else 0,
        adapter_s=adapters.load_seconds if adapters else 0.0,
        accepted=np.cumsum(speculation.accepted if speculation else (1.0,)),
        deadlines=np.isfinite(requests["deadline_s"]).sum(),
        series_bins=series_bins,
        series_s=max(workload.arrival_s[-1], 1e-3) / (series_bins - series_bins // 4) if series_bins else np.inf,
        resend=resend,
        ranks=ranks,
        loads_async=loads_async,
        hands_over=hands_over,
        clients=clients,
        from_s=account[0],
        to_s=account[1],
    )
    return _fleet(requests, ids, rules, replicas * ranks, workload.hashes)


def nowhere(fleet: state.Fleet) -> state.Fleet:
    """A fleet of the same kind without engines."""
    none = _fleet(fleet.requests[:1].copy(), fleet.ids[:0].copy(), fleet.rules.copy(), 0, 0)
    return none._replace(tiers=fleet.tiers, ports=fleet.ports)


def checked_step(step: Floats) -> Floats:
    """The parameters of a step as compiled code takes them. Raises ValueError for those of no step."""
    p = np.ascontiguousarray(step, dtype=np.float64)
    if not is_whole(p):
        raise ValueError(f"step holds {p.size} parameters: estimator.step_time.STEP_FIELDS names {len(STEP_FIELDS)}")
    least = float(step_seconds(p, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0))
    if not np.isfinite(least) or least <= 0:
        raise ValueError(f"a step of one token takes {least} s with these parameters: it must be positive and finite")
    return p


def _requests(workload: Workload, limits: EngineLimits) -> tuple[state.Records, NDArray[np.int32], int]:
    """Request records, and hash ids regrouped so that one id stands for a whole number of engine blocks."""
    requests = state.new_requests(len(workload))
    isl, osl = workload.isl_tokens, workload.osl_tokens
    # The last token is sampled but never computed, so an engine full to the last slot still yields one more.
    room = np.minimum(limits.max_model_len, limits.kv_tokens + 1) - isl
    rejected = (isl >= limits.max_model_len) | (isl > limits.kv_tokens)
    requests["sent_s"] = workload.arrival_s
    requests["isl"] = isl
    requests["osl"] = np.where(rejected, 0, np.minimum(osl, room))
    requests["outcome"] = np.where(rejected, state.REJECTED, np.where(osl > room, state.CAPPED, state.FINISHED))
    if limits.priority_scheduling and workload.priority is not None:
        requests["priority"] = workload.priority
    if workload.patience_s is not None:
        requests["deadline_s"] = workload.arrival_s + workload.patience_s
        requests["by_deadline"] = np.argsort(requests["deadline_s"], kind="stable")
    if workload.adapter is not None:
        requests["adapter"] = workload.adapter
    offsets, ids, hash_blocks = workload.hash_offsets, workload.hash_ids, 1
    if limits.prefix_caching and workload.prefix_block_tokens:
        per_hash, per_block = workload.prefix_block_tokens, limits.block_tokens
        counts = np.diff(offsets)
        if per_hash % per_block == 0:
            hash_blocks = per_hash // per_block
        elif per_block % per_hash == 0:
            # Chained ids: the last hash in an engine block tells the whole block.
            step = per_block // per_hash
            counts = counts // step
            new = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
            at = np.repeat(offsets[:-1] - new[:-1] * step, counts) + np.arange(1, new[-1] + 1) * step - 1
            offsets, ids = new, ids[at]
        else:
            raise ValueError(
                f"prefix blocks of {per_hash} tokens, engine blocks of {per_block}: one must be a multiple of the other"
            )
        requests["first_hash"] = offsets[:-1]
        requests["hashed"] = np.minimum(counts * hash_blocks, isl // per_block)
    return requests, ids.astype(np.int32), hash_blocks


def _fleet(
    requests: state.Records, ids: NDArray[np.int32], rules: state.Records, replicas: int, hashes: int
) -> state.Fleet:
    rule = rules[0]
    sequences = min(int(rule["max_num_seqs"]), len(requests))
    # A heap holds every decoding request once, and entries of preempted ones until their step is reached or it is full.
    heap = 2 * sequences + 2
    return state.Fleet(
        requests=requests,
        engines=state.new_engines(replicas, int(rule["kv_blocks"])),
        rules=rules,
        totals=state.new_totals(replicas),
        # A run holds at least one block, so there are never more runs than blocks. Untouched rows cost no memory.
        runs=np.zeros((replicas, int(rule["kv_blocks"]) if rule["caching"] else 0), dtype=state.RUN),
        hashes=_hashes(replicas, hashes if rule["caching"] else 0),
        ids=ids,
        phases=np.zeros((replicas, int(rule["block_tokens"])), dtype=np.int64),
        prefills=np.zeros((replicas, sequences), dtype=np.int64),
        heaps=np.zeros((replicas, 2, heap), dtype=np.int64),
        adapters=_adapters(requests, replicas),
        tiers=None,
        ports=None,
    )


def _hashes(rows: int, hashes: int) -> state.Records:
    known = np.zeros((rows, hashes), dtype=state.HASH)
    known["run"] = state.NONE
    known["older"] = state.ABSENT_HASH
    return known


def _adapters(requests: state.Records, replicas: int) -> state.Records:
    known = np.zeros((replicas, int(requests["adapter"].max()) + 1), dtype=state.ADAPTER)
    known["step"] = state.NONE
    return known


def _outages(outages: Sequence[Outage], replicas: int) -> state.Records:
    entries = [
        (at_s, o.replica, kind)
        for o in in_turn(outages, replicas)
        for at_s, kind in ((o.from_s, state.CLOSE), (o.gone_s, state.KILL), (o.back_s, state.OPEN))
        if np.isfinite(at_s)
    ]
    # Stable: a crash closes before it kills, and of two replicas at one moment the lower number comes first.
    return np.asarray(sorted(entries, key=lambda entry: entry[0]), dtype=state.OUTAGE)


def connected(fleet: state.Fleet, hashes: int, host: Tier | None = None, remote: Tier | None = None) -> state.Fleet:
    """The same fleet with tiers and ports: with both or with neither, so that there are two kinds to compile for."""
    replicas = len(fleet.engines)
    tiers = np.zeros(replicas + 1, dtype=state.TIER)
    tiers["oldest"] = tiers["newest"] = state.NONE
    per_hash = int(fleet.rules[0]["hash_blocks"])
    for tier, at in ((host, slice(0, replicas)), (remote, slice(replicas, replicas + 1))):
        if tier is not None:
            tiers["hashes_max"][at] = tier.blocks // per_hash
            tiers["block_s"][at] = tier.seconds_per_block
            tiers["lookup_s"][at] = tier.lookup_seconds
    known = _hashes(replicas + 1, hashes if fleet.rules[0]["caching"] else 0)
    return fleet._replace(tiers=tiers, hashes=known, ports=state.new_ports(replicas))


def _warm(fleet: state.Fleet, warm_hashes: Ints, workload: Workload, limits: EngineLimits) -> None:
    """Put idle runs of these hashes into every engine's cache."""
    per_hash = int(fleet.rules[0]["hash_blocks"])
    if not limits.prefix_caching or workload.prefix_block_tokens < limits.block_tokens:
        raise ValueError("a warm start needs prefix caching, and trace blocks no smaller than the engine's")
    ids = np.asarray(warm_hashes, dtype=np.int64)
    if len(np.unique(ids)) != len(ids) or ((ids < 0) | (ids >= workload.hashes)).any():
        raise ValueError(f"warm_hashes must be different hash ids from 0 to {workload.hashes - 1}")
    ids = ids[max(0, len(ids) - limits.kv_blocks // per_hash) :]
    n = len(ids)
    if n == 0:
        return
    runs, engines, replicas = fleet.runs, fleet.engines, len(fleet.engines)
    runs["key"][:, :n] = ids
    runs["blocks"][:, :n] = per_hash
    runs["older"][:, :n] = np.arange(-1, n - 1)
    runs["newer"][:, :n] = np.append(np.arange(1, n), state.NONE)
    fleet.hashes["run"][:replicas, ids] = np.arange(n)
    engines["oldest"], engines["newest"], engines["fresh"] = 0, n - 1, n
    engines["idle"] = n * per_hash
    engines["empty"] -= n * per_hash


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
