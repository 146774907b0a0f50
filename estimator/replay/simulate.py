"""From a workload, a step model and limits to what every request saw: arrays in, arrays out.

Belongs here: packing arguments for the compiled loop and unpacking its records. Does not: the loop (`kernel`), SLOs
(`estimator.goodput`) or searches over fleets (`estimator.fleet`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from estimator.replay import state
from estimator.replay.kernel import ROUTERS, run_closed, run_open
from estimator.replay.limits import EngineLimits
from estimator.replay.workload import Floats, Ints, Workload
from estimator.step_time import STEP_FIELDS, WINDOW_INDEX, step_seconds

Router = Literal["least_load", "round_robin"]
Mask = NDArray[np.bool_]

_NO_WINDOW = 2**60


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What a replay saw. Arrays hold one value a request, in the workload's order; NaN where there is nothing to say.

    Latencies are the client's: `request_seconds` outside the engine is in TTFT and E2E. TPOT is (last token - first) /
    (tokens - 1), NaN for one token. `queue_s` runs from reaching the engine to the first step that held the request.
    `osl_tokens` is what was generated (cut where `outcome` says so, 0 when rejected).
    The figures below the arrays are of the whole fleet, over the time it was asked to account for.
    """

    arrival_s: Floats
    isl_tokens: Ints
    osl_tokens: Ints
    ttft_s: Floats
    tpot_s: Floats
    e2e_s: Floats
    queue_s: Floats
    itl_max_s: Floats
    """Longest gap between two tokens of the request, preemption included; NaN for one token."""
    replica: Ints
    """-1 when rejected."""
    cached_tokens: Ints
    """Input tokens found in the prefix cache when the request was first admitted."""
    preemptions: Ints
    outcome: NDArray[np.int8]
    """Index into `OUTCOMES`: finished, capped (cut at the longest context or the whole pool), rejected."""
    replicas: int
    running_mean: float
    """Requests running on a replica, averaged over time, idle time included."""
    waiting_max: int
    """Longest queue of any replica."""
    kv_usage_p99: float
    """Share of a replica's KV blocks in use that is exceeded 1 % of the time, to 0.1 %."""
    max_active_tokens: int
    """Most context tokens of the requests running on a replica at once; a shared prefix counts for each of them."""
    busy_share: float
    """Share of the time a replica was in a step."""
    steps: int
    makespan_s: float
    """From second 0 to the end of the last request."""
    waits_share: dict[str, float]
    """Share of the busy time in which requests queued, by the limit that kept them there."""
    gap_counts: Ints
    """Histogram of all gaps between tokens; see `itl_s`."""

    def itl_s(self, quantile: float) -> float:
        """Inter-token latency over every gap of every request; the upper edge of its bin, so at most 0.8 % above."""
        if not 0 <= quantile <= 1:
            raise ValueError(f"quantile {quantile!r}: it must be from 0 to 1")
        total = np.cumsum(self.gap_counts)
        if total[-1] == 0:
            return float("nan")
        at = np.searchsorted(total, max(1, np.ceil(quantile * total[-1])))
        return float(state.gap_bin_upper_s(np.asarray([at]))[0])

    def steady(self, warmup_s: float = 0.0, drain_s: float = 0.0) -> Mask:
        """Which requests count: those from `warmup_s` after the first arrival to `drain_s` before the last.

        Warm-up fills an empty engine; drain is when nobody new arrives and late requests see a falling load. Requests
        count by arrival, whenever they end: leaving out slow ones would flatter.
        """
        first, last = self.arrival_s[0], self.arrival_s[-1]
        counted: Mask = (self.arrival_s >= first + warmup_s) & (self.arrival_s <= last - drain_s)
        return counted


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
) -> Replay:
    """Serve `workload` on `replicas` equal engines behind a router, until the last request has ended.

    `step` is laid out as `estimator.step_time.STEP_FIELDS`. `request_seconds` is spent outside the engine (HTTP,
    tokenising) and added to TTFT and E2E. The least-load router knows the requests outstanding on every engine, as of
    the last multiple of `router_stale_s` plus what it sent since; ties go round. With `clients` > 0 the loop is closed:
    arrival times are ignored, all clients start at second 0 and each sends its next request when its last one ended.
    The fleet's figures count steps that start in [account_from_s, account_to_s). `fast_forward` False takes every step
    singly, for comparison: results are the same.

    Rules: `vllm.v1.core.sched.scheduler` and `vllm.v1.core.kv_cache_manager`. Raises ValueError for arguments that make
    no sense, such as a step of no duration.
    """
    if replicas < 1:
        raise ValueError(f"replicas is {replicas}: it must be at least 1")
    if clients < 0:
        raise ValueError(f"clients is {clients}: it must be 0 (open loop) or more")
    if not request_seconds >= 0 or not router_stale_s >= 0:
        raise ValueError("request_seconds and router_stale_s must not be negative")
    p = _checked_step(step)
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
        caching=limits.prefix_caching,
        window=window,
        fast=fast_forward,
        clients=min(clients, len(workload)),
        from_s=account_from_s,
        to_s=account_to_s,
    )
    fleet = _fleet(requests, ids, rules, replicas, workload.hashes)
    if clients:
        run_closed(fleet, p, ROUTERS[router], request_seconds)
    else:
        run_open(fleet, p, ROUTERS[router], router_stale_s)
    return _result(workload, fleet, request_seconds)


def _checked_step(step: Floats) -> Floats:
    p = np.ascontiguousarray(step, dtype=np.float64)
    if p.shape != (len(STEP_FIELDS),):
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
        totals=state.new_totals(),
        # A run holds at least one block, so there are never more runs than blocks. Untouched rows cost no memory.
        runs=np.zeros((replicas, int(rule["kv_blocks"]) if rule["caching"] else 0), dtype=state.RUN),
        run_of=np.full((replicas, hashes if rule["caching"] else 0), state.NONE, dtype=np.int32),
        ids=ids,
        phases=np.zeros((replicas, int(rule["block_tokens"])), dtype=np.int64),
        prefills=np.zeros((replicas, sequences), dtype=np.int64),
        heaps=np.zeros((replicas, 2, heap), dtype=np.int64),
    )


def _result(workload: Workload, fleet: state.Fleet, request_seconds: float) -> Replay:
    requests, engines, rule, totals = fleet.requests, fleet.engines, fleet.rules[0], fleet.totals[0]
    if (engines["empty"] + engines["idle"] != rule["kv_blocks"]).any() or engines["running"].any():
        raise RuntimeError("the replay lost KV blocks or requests: a defect of estimator.replay, please report it")
    osl = requests["osl"].astype(np.int64)
    several = osl > 1
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
        replica=requests["engine"].astype(np.int64),
        cached_tokens=requests["cached"].astype(np.int64),
        preemptions=requests["preemptions"].astype(np.int64),
        outcome=requests["outcome"].copy(),
        replicas=len(engines),
        running_mean=float(engines["running_s"].sum()) / accounted_s if accounted_s > 0 else 0.0,
        waiting_max=int(engines["waiting_max"].max()),
        kv_usage_p99=float(usage),
        max_active_tokens=int(engines["tokens_max"].max()),
        busy_share=min(1.0, busy_s / accounted_s) if accounted_s > 0 else 0.0,
        steps=int(engines["steps"].sum()),
        makespan_s=makespan_s,
        waits_share={
            name: float(seconds / busy_s) if busy_s > 0 else 0.0
            for name, seconds in zip(state.WAITS[1:], totals["waits_s"][1:], strict=True)
        },
        gap_counts=totals["gaps"].copy(),
    )
