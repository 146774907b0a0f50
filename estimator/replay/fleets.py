"""From a workload, limits and options to the records the compiled loops run on.

Belongs here: packing arguments. Does not: the layout of the records (`state`), running them or reading them off
(`simulate`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estimator.replay import state
from estimator.replay.limits import EngineLimits
from estimator.replay.options import Adapters, Outage, Speculation, Tier, in_turn
from estimator.replay.workload import Floats, Ints, Workload
from estimator.step_time import WINDOW_INDEX

_NO_WINDOW = 2**60
_NO_LIMIT = 2**60


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
        reserve=limits.output_reserve,
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


def outage_records(outages: Sequence[Outage], replicas: int) -> state.Records:
    """What happens to which replica, in order of time."""
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


def warm(fleet: state.Fleet, warm_hashes: Ints, workload: Workload, limits: EngineLimits) -> None:
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
