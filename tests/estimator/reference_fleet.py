"""Many reference engines in one order of time: routers, outages, and ranks in lockstep.

Written for reading: every event looks at everything. Nothing here is shared with the compiled loops but the step time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from estimator.replay import Adapters, EngineLimits, Outage, Speculation, Tier, Workload
from tests.estimator.reference_cache import Blocks, Request, Tiers
from tests.estimator.reference_engine import Engine, requests_of


@dataclass
class Step:
    """One step of one engine, for series over time."""

    start_s: float
    end_s: float
    running: int
    waiting: int
    used: int


@dataclass
class Replica:
    """Ranks in lockstep: their engines, when their step in flight ends, and when they may begin one."""

    ranks: list[Engine]
    ends_s: float = math.inf
    begins_s: float = math.inf
    open: bool = True

    def poke(self, now_s: float) -> None:
        if math.isinf(self.ends_s):
            self.begins_s = min(self.begins_s, now_s)

    def end(self) -> list[Request]:
        """The step in flight is over: what ended with it, rank by rank."""
        now_s, self.ends_s = self.ends_s, math.inf
        ended = []
        for engine in self.ranks:
            engine.now = now_s
            engine.end_step()
            ended += engine.done
            engine.done = []
        self.rest(now_s)
        if any(engine.running or engine.waiting for engine in self.ranks):
            self.begins_s = now_s
        return ended

    def begin(self, now_s: float, steps: list[Step]) -> None:
        longest_s = 0.0
        for engine in self.ranks:
            engine.now = now_s
            engine.cancel()
            engine.land()
            engine.put_together()
        mean_tokens = sum(engine.tokens() for engine in self.ranks) / len(self.ranks)
        for engine in self.ranks:
            seconds = engine.seconds(mean_tokens)
            if engine.running:
                longest_s = max(longest_s, seconds)
        self.rest(now_s)
        if longest_s:
            self.ends_s, self.begins_s = now_s + longest_s, math.inf
            for engine in self.ranks:
                used = engine.limits.kv_blocks - engine.pool.free()
                steps.append(Step(now_s, self.ends_s, len(engine.running), len(engine.waiting), used))

    def rest(self, now_s: float) -> None:
        lands_s = min((q.ready_s for engine in self.ranks for q in engine.loading), default=math.inf)
        self.begins_s = max(now_s, lands_s)


@dataclass
class Pool:
    """Replicas behind a router that hears from them every `stale_s`."""

    replicas: list[Replica]
    router: str
    stale_s: float
    turn: int = -1
    tickets: int = 0
    reported_s: float = -math.inf
    seen: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def engines(self) -> list[Engine]:
        return [engine for replica in self.replicas for engine in replica.ranks]

    def replica_of(self, e: int) -> Replica:
        return self.replicas[e // len(self.replicas[0].ranks)]

    def hears(self) -> None:
        self.seen = [len(g.running) + len(g.waiting) + len(g.loading) for g in self.engines]

    def choose(self, request: Request) -> int:
        width = len(self.replicas[0].ranks)
        n = len(self.replicas)
        if width > 1 and self.router != "prefix":
            order = [(self.turn // width + 1 + k) % n for k in range(n)]
            order = [c for c in order if self.replicas[c].open]
            if self.router == "least_load":
                order.sort(key=lambda c: sum(self.seen[c * width : (c + 1) * width]))
            ranks = range(order[0] * width, (order[0] + 1) * width)
            g = self.engines
            return min(ranks, key=lambda e: 4 * (len(g[e].waiting) + len(g[e].loading)) + len(g[e].running))
        order = [(self.turn + 1 + k) % (n * width) for k in range(n * width)]
        order = [e for e in order if self.replica_of(e).open]
        least = min(order, key=lambda e: self.seen[e])
        if self.router == "round_robin":
            return order[0]
        if self.router == "least_load":
            return least
        hits = {e: self.hits(e, request) for e in order}
        # The longest prefix, of those the least loaded, of those the least loaded of all or else the next in turn.
        longest = [e for e in order if hits[e] == max(hits.values())]
        best = min(longest, key=lambda e: (self.seen[e], e != least))
        most, fewest = max(self.seen[e] for e in order), self.seen[least]
        apart = most - fewest > 64 and most > 1.5 * fewest
        long_enough = hits[best] * self.engines[0].size >= 0.3 * request.isl
        return best if long_enough and not apart else least

    def hits(self, e: int, request: Request) -> int:
        found = 0
        while found < len(request.keys) and self.engines[e].pool.is_cached(request.keys[found]):
            found += 1
        return found

    def send(self, request: Request, now_s: float) -> None:
        """To an engine's queue, or turned away there."""
        if self.stale_s == 0:
            self.hears()
        e = self.choose(request)
        self.turn = e
        self.seen[e] += 1
        engine = self.engines[e]
        limits = engine.limits
        waiting = len(engine.waiting) + len(engine.loading)
        there = waiting + len(engine.running)
        if waiting >= (limits.max_waiting or math.inf) or there >= (limits.max_outstanding or math.inf):
            request.outcome = "refused"
            self.seen[e] -= 1
            return
        request.ticket = self.tickets
        self.tickets += 1
        request.engine = e
        request.sends += 1
        engine.queue(request)
        self.replica_of(e).poke(now_s)


class Links(Protocol):
    """What carries KV from one pool to another."""

    def next_s(self) -> float:
        """When something next happens on a link."""

    def happen(self, now_s: float) -> int | None:
        """The transfer that ends now, if that is what happens."""


def run(  # noqa: PLR0912
    pools: Sequence[Pool],
    coming: list[tuple[float, Request]],
    ended: Callable[[Request, float], None],
    *,
    outages: Sequence[Outage] = (),
    resend: bool = True,
    request_s: float = 0.0,
    links: Links | None = None,
    began: Callable[[Replica, float], None] = lambda replica, now_s: None,
    arrived: Callable[[int, float], None] = lambda name, now_s: None,
) -> None:
    """Until nothing happens any more. `ended`, `began` and `arrived` say what an event sets off; `coming` may grow."""
    front = pools[0]
    moments = sorted(outages, key=lambda o: (o.from_s, o.replica))
    gone = sorted(
        ((s, o.replica, what) for o in moments for s, what in ((o.from_s, 0), (o.gone_s, 1), (o.back_s, 2))),
        key=lambda g: g[0],
    )
    gone = [g for g in gone if math.isfinite(g[0])]
    held: list[Request] = []
    now_s = 0.0
    while True:
        if held and any(replica.open for replica in front.replicas):
            request = held.pop(0)
            if request.deadline_s <= now_s:
                request.outcome = "cancelled"
            else:
                front.send(request, now_s)
            continue
        replicas = [(pool, replica) for pool in pools for replica in pool.replicas]
        now_s = min(
            [
                *(g[0] for g in gone[:1]),
                *(at_s + request_s for at_s, _ in coming[:1]),
                links.next_s() if links else math.inf,
                *(replica.ends_s for _, replica in replicas),
                *(replica.begins_s for _, replica in replicas),
            ],
            default=math.inf,
        )
        if math.isinf(now_s):
            break
        for pool in pools:
            report_s = math.floor(now_s / pool.stale_s) * pool.stale_s if pool.stale_s else now_s
            if pool.stale_s and report_s > pool.reported_s:
                pool.reported_s = report_s
                pool.hears()
        ends = [(pool, replica) for pool, replica in replicas if replica.ends_s == now_s]
        begins = [(pool, replica) for pool, replica in replicas if replica.begins_s == now_s]
        if gone and gone[0][0] == now_s:
            _, r, what = gone.pop(0)
            front.replicas[r].open = what == 2
            if what == 1:
                for request in killed(front.replicas[r]):
                    if resend:
                        start_over(request)
                        held.append(request)
                    else:
                        request.outcome = "lost"
        elif coming and coming[0][0] + request_s == now_s:
            at_s, request = coming.pop(0)
            request.arrival_s, request.queued_s = at_s, now_s
            if any(replica.open for replica in front.replicas):
                front.send(request, now_s)
                if request.outcome == "refused":
                    ended(request, now_s)
            else:
                held.append(request)
        elif links and links.next_s() == now_s:
            name = links.happen(now_s)
            if name is not None:
                arrived(name, now_s)
        elif ends:
            for request in ends[0][1].end():
                ended(request, now_s)
        else:
            pool, replica = begins[0]
            replica.begin(now_s, pool.steps)
            began(replica, now_s)
    for request in held:
        request.outcome = "lost"


def killed(replica: Replica) -> list[Request]:
    """All that was there, running first, as it was before; the caches are empty."""
    requests: list[Request] = []
    for engine in replica.ranks:
        requests += [*engine.running, *engine.waiting, *sorted(engine.loading, key=lambda q: q.ready_s)]
        engine.running, engine.waiting, engine.loading, engine.resident = [], [], [], {}
        engine.pool = Blocks(engine.limits.kv_blocks, engine.size, engine.limits.prefix_caching)
        engine.free_s = [0.0, 0.0]
        if engine.tiers:
            engine.tiers.held[0].clear()
    replica.ends_s = replica.begins_s = math.inf
    return requests


def start_over(q: Request) -> None:
    q.blocks, q.computed, q.generated, q.stall_s, q.first_s = [], 0, 0, 0.0, math.nan
    q.landed = q.steady = False


def serve_fleet(
    workload: Workload,
    step: np.ndarray,
    limits: EngineLimits,
    *,
    replicas: int = 1,
    ranks: int = 1,
    router: str = "least_load",
    router_stale_s: float = 0.0,
    request_seconds: float = 0.0,
    clients: int = 0,
    host: Tier | None = None,
    warm_hashes: np.ndarray | None = None,
    speculation: Speculation | None = None,
    adapters: Adapters | None = None,
    outages: Sequence[Outage] = (),
    resend: bool = True,
    async_loads: bool = False,
) -> tuple[list[Request], Pool]:
    """As `replay`, one pool."""
    per_hash = max(1, workload.prefix_block_tokens // limits.block_tokens)
    requests, fit = requests_of(workload, limits)

    def engine() -> Engine:
        tiers = Tiers(host, None, per_hash) if host else None
        made = Engine(step, limits, tiers, speculation, adapters, async_loads)
        warm = [] if warm_hashes is None else [int(h) for h in warm_hashes]
        for h in warm[max(0, len(warm) - limits.kv_blocks // per_hash) :]:
            # The deepest block of a hash goes first.
            for i in reversed(range(per_hash)):
                made.pool.idle["hash", h, i] = None
                made.pool.empty -= 1
        return made

    pool = Pool([Replica([engine() for _ in range(ranks)]) for _ in range(replicas)], router, router_stale_s)
    pool.hears()
    coming, send_next = arrivals(requests, fit, clients)
    delay_s = request_seconds if clients else 0.0
    run([pool], coming, send_next, outages=outages, resend=resend, request_s=delay_s)
    return requests, pool


def arrivals(
    requests: list[Request], fit: list[Request], clients: int
) -> tuple[list[tuple[float, Request]], Callable[[Request, float], None]]:
    """Who comes when, and, in a closed loop, how a client sends its next request that is not rejected."""
    if not clients:
        return [(q.arrival_s, q) for q in fit], lambda q, now_s: None
    coming: list[tuple[float, Request]] = []

    def send(name: int, now_s: float) -> None:
        while name < len(requests) and requests[name] not in fit:
            requests[name].arrival_s = now_s
            name += clients
        if name < len(requests):
            coming.append((now_s, requests[name]))

    for client in range(min(clients, len(requests))):
        send(client, 0.0)
    return coming, lambda q, now_s: send(q.name + min(clients, len(requests)), now_s)
