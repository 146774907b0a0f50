"""Prefill and decode on different replicas: two pools, the way of the KV between them, and what a client sees.

Belongs here: the pools, the hand-over, and their figures. Does not: the loop (`stepwise`) and the links (`links`).

A prompt is computed by the prefill pool, as a request for one token. Its KV stays there until the decode pool has it:
the decode replica takes blocks for the prompt as it would admit it, in order of arrival; the transfer is posted, waits
for a place on its link, and shares it; then the request stands before all that wait for a place in a step. This is how
vLLM's NIXL connector pulls (`WAITING_FOR_REMOTE_KVS`). Prompts the decode replica has cached are not sent again, and a
request preempted there is computed again there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from estimator.replay import links, state
from estimator.replay.fleets import connected, new_fleet
from estimator.replay.limits import EngineLimits
from estimator.replay.options import Speculation
from estimator.replay.result import Replay
from estimator.replay.routing import ROUTERS
from estimator.replay.simulate import Router, checked_step, figures
from estimator.replay.stepwise import run_stepwise
from estimator.replay.workload import Floats, Workload

FirstToken = Literal["prefill", "with_kv", "decode"]
Link = Literal["prefill", "decode", "fleet"]

_FIRST_TOKENS: dict[FirstToken, int] = {
    "prefill": links.FROM_PREFILL,
    "with_kv": links.WITH_KV,
    "decode": links.FROM_DECODE,
}
_LINKS: dict[Link, int] = {"prefill": links.BY_PREFILL, "decode": links.BY_DECODE, "fleet": links.BY_FLEET}


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Equal replicas with their own step and limits, behind a router; `ranks` as in `replay`."""

    step: Floats
    limits: EngineLimits
    replicas: int = 1
    router: Router = "least_load"
    ranks: int = 1
    speculation: Speculation | None = None


@dataclass(frozen=True, slots=True)
class Handoff:
    """How KV gets from one pool to the other.

    `bytes_per_token` is the KV of a token over all GPUs of a replica, `bytes_per_s` what one link carries; `link` says
    whose that is: each prefill replica's, each decode replica's, or one for the fleet. Up to `at_once` transfers share
    a link equally (0: all of them; 1: one after the other). `post_seconds` pass from blocks being there until a
    transfer is asked for (handshake, descriptors).

    `first_token` is where clients get it: "prefill" streams it as sampled; "with_kv" sends it with the KV and the
    decode replica streams it on arrival (SGLang); "decode" drops it, and the decode replica computes the last token of
    the prompt again and samples it (vLLM's proxy with the NIXL connector).
    """

    bytes_per_token: float
    bytes_per_s: float
    post_seconds: float = 0.0
    at_once: int = 0
    link: Link = "prefill"
    first_token: FirstToken = "decode"

    def __post_init__(self) -> None:
        """Raise ValueError for a way that carries nothing, or takes no name that is known."""
        if not 0 <= self.bytes_per_token < np.inf or not 0 < self.bytes_per_s < np.inf:
            raise ValueError(f"{self}: bytes_per_token must be 0 or more, bytes_per_s above 0, both finite")
        if not 0 <= self.post_seconds < np.inf or self.at_once < 0:
            raise ValueError(f"{self}: post_seconds and at_once must be 0 or more")
        if self.link not in _LINKS or self.first_token not in _FIRST_TOKENS:
            raise ValueError(f"{self}: link is one of {', '.join(_LINKS)}, first_token of {', '.join(_FIRST_TOKENS)}")


@dataclass(frozen=True, slots=True, eq=False)
class Separated:
    """What a replay of two pools saw. Arrays hold one value a request; NaN where it did not come that far.

    `client` is what clients saw: queue time is the prefill pool's, preemptions are both pools', and its figures of the
    fleet are over the replicas of both. `prefill` and `decode` are each pool's own view: there a request arrives when
    its prompt is computed. The wait that clients see between the two is told apart:
    visible = KV blocks + post + link + transfer + place in a step.
    """

    client: Replay
    prefill: Replay
    decode: Replay
    blocks_wait_s: Floats
    """From the end of the prompt until the decode replica had blocks for it."""
    post_s: Floats
    """From then until the transfer was asked for."""
    link_wait_s: Floats
    """From then until its first byte left."""
    transfer_s: Floats
    """From its first byte to its last."""
    place_wait_s: Floats
    """From its last byte until a decode step began that held the request."""
    visible_wait_s: Floats
    """From the end of the prompt until that step began."""
    transfer_bytes: Floats
    """0 for what was not sent."""

    @property
    def waiting(self) -> Replay:
        """What clients saw, with the waits between the pools as queue time too: it grows where either pool, or a link,
        is asked for more than it can do."""
        between_s = np.where(np.isfinite(self.visible_wait_s), self.visible_wait_s, 0.0)
        return replace(self.client, queue_s=self.client.queue_s + between_s)


def replay_separated(
    workload: Workload,
    prefill: Pool,
    decode: Pool,
    handoff: Handoff,
    *,
    router_stale_s: float = 0.0,
    request_seconds: float = 0.0,
    clients: int = 0,
    account_from_s: float = 0.0,
    account_to_s: float = np.inf,
    series_bins: int = 0,
) -> Separated:
    """Serve `workload` on a pool that computes prompts and one that decodes, until the last request has ended.

    The keywords are those of `replay`. A request is rejected when either pool's engines cannot hold it, and capped by
    the decode pool. Raises ValueError for arguments that make no sense.
    """
    if clients < 0 or (clients and workload.patience_s is not None):
        raise ValueError("clients must be 0 (open loop) or more; patience needs an open loop")
    if not request_seconds >= 0 or not router_stale_s >= 0:
        raise ValueError("request_seconds and router_stale_s must not be negative")
    if min(prefill.replicas, prefill.ranks, decode.replicas, decode.ranks) < 1:
        raise ValueError("each pool needs at least 1 replica of at least 1 rank")
    steps = [checked_step(pool.step) for pool in (prefill, decode)]
    made = [
        connected(
            new_fleet(
                workload,
                p,
                pool.limits,
                replicas=pool.replicas,
                ranks=pool.ranks,
                clients=0 if computes else min(clients, len(workload)),
                account=(account_from_s, account_to_s),
                speculation=pool.speculation,
                series_bins=series_bins,
                hands_over=computes,
            ),
            workload.hashes,
        )
        for pool, p, computes in zip((prefill, decode), steps, (True, False), strict=True)
    ]
    first, second = made
    rejected = (first.requests["outcome"] == state.REJECTED) | (second.requests["outcome"] == state.REJECTED)
    for fleet in made:
        fleet.requests["outcome"][rejected] = state.REJECTED
        fleet.requests["osl"][rejected] = 0
    first.requests["outcome"][~rejected] = state.FINISHED
    first.requests["osl"][~rejected] = 1
    moves, way = links.new_moves(len(workload)), links.new_way()
    way["token_bytes"], way["bytes_per_s"] = handoff.bytes_per_token, handoff.bytes_per_s
    way["post_s"], way["at_once"] = handoff.post_seconds, handoff.at_once or len(workload)
    way["by"], way["first_token"] = _LINKS[handoff.link], _FIRST_TOKENS[handoff.first_token]
    count = {"prefill": prefill.replicas, "decode": decode.replicas, "fleet": 1}[handoff.link]
    run_stepwise(
        first,
        second,
        *steps,
        np.zeros(0, dtype=state.OUTAGE),
        moves,
        links.new_links(count),
        way,
        (ROUTERS[prefill.router], ROUTERS[decode.router]),
        router_stale_s,
        request_seconds,
    )
    return _result(workload, first, second, moves, handoff, request_seconds)


def _result(
    workload: Workload,
    first: state.Fleet,
    second: state.Fleet,
    moves: state.Records,
    handoff: Handoff,
    request_seconds: float,
) -> Separated:
    queued_s, here = first.requests["queued_s"], first.requests["outcome"]
    # What became of a request is known where it ended; what it waited for there, where it began.
    ended_first = np.isin(here, (state.REFUSED, state.CANCELLED, state.LOST))
    outcome = np.where(ended_first, here, second.requests["outcome"])
    before, after = figures(workload, first, request_seconds), figures(workload, second, 0.0)
    sent = np.isfinite(moves["arrived_s"])
    posted_s = moves["reserved_s"] + handoff.post_seconds
    decoding_s = second.requests["admitted_s"]
    replicas = before.replicas + after.replicas
    makespan_s = max(before.makespan_s, after.makespan_s)
    client = replace(
        after,
        arrival_s=before.arrival_s,
        ttft_s=second.requests["first_s"] - queued_s + request_seconds,
        e2e_s=second.requests["end_s"] - queued_s + request_seconds,
        queue_s=before.queue_s,
        cached_tokens=before.cached_tokens,
        preemptions=before.preemptions + after.preemptions,
        outcome=outcome.astype(np.int8),
        replicas=replicas,
        running_mean=(before.running_mean * before.replicas + after.running_mean * after.replicas) / replicas,
        waiting_max=max(before.waiting_max, after.waiting_max),
        kv_usage_p99=max(before.kv_usage_p99, after.kv_usage_p99),
        max_active_tokens=max(before.max_active_tokens, after.max_active_tokens),
        busy_share=(before.busy_share * before.replicas + after.busy_share * after.replicas) / replicas,
        steps=before.steps + after.steps,
        makespan_s=makespan_s,
        waits_share={name: max(share, after.waits_share[name]) for name, share in before.waits_share.items()},
        series=None,
    )
    return Separated(
        client=client,
        prefill=before,
        decode=after,
        blocks_wait_s=moves["reserved_s"] - moves["handed_s"],
        post_s=np.where(np.isfinite(moves["started_s"]), handoff.post_seconds, np.nan),
        link_wait_s=moves["started_s"] - posted_s,
        transfer_s=moves["arrived_s"] - moves["started_s"],
        place_wait_s=np.where(sent, decoding_s - moves["arrived_s"], np.nan),
        visible_wait_s=decoding_s - moves["handed_s"],
        transfer_bytes=np.where(np.isfinite(moves["started_s"]), moves["bytes"], 0.0),
    )
