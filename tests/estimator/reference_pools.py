"""Two pools of reference engines, one for prompts and one for decoding, and the links the KV goes over.

Nothing here is shared with the compiled loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.replay import Handoff, Workload
from estimator.replay import Pool as AskedPool
from tests.estimator.reference_cache import Request
from tests.estimator.reference_engine import Engine, requests_of
from tests.estimator.reference_fleet import Pool, Replica, arrivals, run


class SharedLinks:
    """Transfers: posted, waiting for a place, sharing a link."""

    def __init__(self, handoff: Handoff) -> None:
        self.handoff = handoff
        self.posting: list[tuple[float, int, int, float]] = []
        self.queues: dict[int, list[tuple[int, float]]] = {}
        self.active: dict[int, list[tuple[float, int]]] = {}
        self.moment_s: dict[int, float] = {}
        self.served: dict[int, float] = {}
        self.started_s: dict[int, float] = {}
        self.reserved_s: dict[int, float] = {}

    def post(self, name: int, link: int, tokens: int, now_s: float) -> None:
        self.reserved_s[name] = now_s
        self.posting.append((now_s + self.handoff.post_seconds, name, link, tokens * self.handoff.bytes_per_token))

    def ends_s(self, link: int) -> float:
        if not self.active[link]:
            return math.inf
        left = min(self.active[link], key=lambda t: t[0])[0] - self.served[link]
        return self.moment_s[link] + left * len(self.active[link]) / self.handoff.bytes_per_s

    def next_s(self) -> float:
        ends = [self.ends_s(link) for link in self.active]
        return min([*ends, *(p[0] for p in self.posting[:1])], default=math.inf)

    def happen(self, now_s: float) -> int | None:
        """The transfer that ends now, if that is what happens."""
        for link in sorted(self.active):
            if self.ends_s(link) == now_s:
                tag, name = min(self.active[link], key=lambda t: t[0])
                self.active[link].remove((tag, name))
                self.served[link], self.moment_s[link] = tag, now_s
                if self.queues[link]:
                    self.start(link, *self.queues[link].pop(0), now_s)
                return name
        _, name, link, size = self.posting.pop(0)
        self.active.setdefault(link, [])
        self.queues.setdefault(link, [])
        if len(self.active[link]) < (self.handoff.at_once or math.inf):
            self.start(link, name, size, now_s)
        else:
            self.queues[link].append((name, size))
        return None

    def start(self, link: int, name: int, size: float, now_s: float) -> None:
        active = self.active[link]
        if active:
            self.served[link] += (now_s - self.moment_s[link]) * self.handoff.bytes_per_s / len(active)
        else:
            self.served[link] = 0.0
        self.moment_s[link] = now_s
        active.append((self.served[link] + size, name))
        self.started_s[name] = now_s


@dataclass
class Handed:
    """What `serve_separated` saw of a request: its two halves and when its KV was where."""

    front: Request
    back: Request
    handed_s: float = math.nan
    reserved_s: float = math.nan
    started_s: float = math.nan
    arrived_s: float = math.nan


def serve_separated(
    workload: Workload,
    prefill: AskedPool,
    decode: AskedPool,
    handoff: Handoff,
    *,
    router_stale_s: float = 0.0,
    request_seconds: float = 0.0,
    clients: int = 0,
) -> list[Handed]:
    """As `replay_separated`."""
    made = []
    for asked in (prefill, decode):
        replicas = [
            Replica([Engine(asked.step, asked.limits, None, asked.speculation, None) for _ in range(asked.ranks)])
            for _ in range(asked.replicas)
        ]
        made.append(Pool(replicas, asked.router, router_stale_s))
        made[-1].hears()
    first, second = made
    fronts, fit_first = requests_of(workload, prefill.limits)
    backs, fit_second = requests_of(workload, decode.limits)
    for q in fronts:
        q.osl = 1
    for engine in first.engines:
        engine.hands_over = True
    second_names = {q.name for q in fit_second}
    coming, send_next = arrivals(fronts, [q for q in fit_first if q.name in second_names], clients)
    links = SharedLinks(handoff)
    seen = [Handed(front, back) for front, back in zip(fronts, backs, strict=True)]

    def let_go(name: int, now_s: float) -> None:
        e = fronts[name].engine
        first.engines[e].pool.give_back(fronts[name])
        if first.engines[e].waiting:
            first.replica_of(e).poke(now_s)

    def ended(q: Request, now_s: float) -> None:
        if q is fronts[q.name] and q.outcome != "refused":
            hand_over(q.name, now_s)
        else:
            send_next(q, now_s)

    def hand_over(name: int, now_s: float) -> None:
        q = backs[name]
        seen[name].handed_s = now_s
        if handoff.first_token == "prefill" and q.osl == 1:
            q.first_s = q.end_s = now_s
            q.generated = 1
            let_go(name, now_s)
            send_next(q, now_s)
            return
        if q.deadline_s <= now_s:
            q.outcome = "cancelled"
            let_go(name, now_s)
            return
        q.remote = q.isl - 1 if handoff.first_token == "decode" else q.isl
        q.handed = q.remote > 0
        q.generated = 1 if handoff.first_token != "decode" and q.osl > 1 else 0
        if handoff.first_token == "prefill":
            q.first_s = q.last_s = now_s
        asks = q.remote > 0
        second.send(q, now_s)
        if q.outcome == "refused" or not asks:
            let_go(name, now_s)
        if q.outcome == "refused":
            send_next(q, now_s)

    def began(replica: Replica, now_s: float) -> None:
        for engine in replica.ranks:
            if engine in second.engines:
                for q in engine.dropped:
                    if q.remote:
                        let_go(q.name, now_s)
                for q in engine.posted:
                    seen[q.name].reserved_s = now_s
                    of_prefill = fronts[q.name].engine // prefill.ranks
                    link = {"prefill": of_prefill, "decode": q.engine // decode.ranks, "fleet": 0}[handoff.link]
                    links.post(q.name, link, q.loads, now_s)
            engine.dropped, engine.posted = [], []

    def arrived(name: int, now_s: float) -> None:
        q = backs[name]
        seen[name].arrived_s = now_s
        let_go(name, now_s)
        engine = second.engines[q.engine]
        if q not in engine.loading:
            return
        if handoff.first_token == "with_kv":
            q.first_s = q.last_s = now_s
        if handoff.first_token == "with_kv" and q.osl == 1:
            engine.loading.remove(q)
            engine.pool.give_back(q)
            q.generated, q.end_s = 1, now_s
            if engine.waiting:
                second.replica_of(q.engine).poke(now_s)
            send_next(q, now_s)
            return
        engine.there(q)
        second.replica_of(q.engine).poke(now_s)

    delay_s = request_seconds if clients else 0.0
    run(made, coming, ended, request_s=delay_s, links=links, began=began, arrived=arrived)
    for name, at_s in links.started_s.items():
        seen[name].started_s = at_s
    return seen
