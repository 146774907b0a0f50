"""One engine by the scheduler's rules, written for reading: lists, one step at a time, one KV block at a time.

The compiled replay must give the same times to the last bit. Nothing here is shared with it but the step time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from estimator.replay import Adapters, EngineLimits, Speculation, Tier, Workload
from estimator.step_time import WINDOW_INDEX, step_seconds
from tests.estimator.reference_cache import Blocks, Request, Tiers


class Engine:
    """One engine: who runs, who waits, what it holds, and what time it is."""

    def __init__(
        self,
        step: np.ndarray,
        limits: EngineLimits,
        tiers: Tiers | None,
        speculation: Speculation | None,
        adapters: Adapters | None,
        async_loads: bool = False,
    ) -> None:
        self.async_loads = async_loads
        self.loading: list[Request] = []
        self.posted: list[Request] = []
        self.dropped: list[Request] = []
        self.done: list[Request] = []
        self.hands_over = False
        self.free_s = [0.0, 0.0]
        self.step, self.limits, self.size = step, limits, limits.block_tokens
        self.pool = Blocks(limits.kv_blocks, limits.block_tokens, limits.prefix_caching)
        self.tiers, self.speculation, self.adapters = tiers, speculation, adapters
        self.resident: dict[int, int] = {}
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.scheduled: dict[int, int] = {}
        self.now = 0.0
        self.load_s = 0.0
        self.steps = 0
        self.prompts_alone = False
        self.most_tokens = limits.max_num_batched_tokens

    def budget(self) -> int:
        return self.most_tokens - sum(self.scheduled.values())

    def queue(self, request: Request) -> None:
        self.waiting.append(request)
        self.waiting.sort(key=lambda q: q.rank)

    def wanted(self, q: Request) -> int:
        if self.speculation and q.decoding:
            return min(1 + self.speculation.drafts, q.osl - q.generated)
        return min(q.known - q.computed, self.limits.long_prefill_threshold or q.known)

    def put_together(self) -> None:
        """Fill the next step: who runs before who waits, or, with exclusive prefill, prompts before decodes."""
        if not self.limits.exclusive_prefill:
            if not self.schedule_running() or not self.running:
                self.admit()
            return
        self.scheduled, self.most_tokens = {}, self.limits.max_num_batched_tokens
        self.prompts_alone = not all(q.one_left for q in self.running)
        preempted = self.prompts_alone and self.schedule_running()
        if not preempted or not self.running:
            self.admit()
        self.prompts_alone = not all(q.one_left for q in self.running)
        while not self.prompts_alone:
            self.most_tokens = 1 << 60
            self.schedule_running()
            if self.running or not self.waiting or not self.waiting[0].landed:
                break
            self.most_tokens = self.limits.max_num_batched_tokens
            self.admit()
            self.prompts_alone = not all(q.one_left for q in self.running)

    def schedule_running(self) -> bool:
        """Running requests in order of admission; short of blocks, one makes room. Whether any did."""
        self.scheduled = {}
        preempted = False
        i = 0
        while i < len(self.running) and self.budget() > 0:
            request = self.running[i]
            if self.prompts_alone and request.one_left:
                i += 1
                continue
            n = min(self.wanted(request), self.budget())
            need = math.ceil((request.computed + n) / self.size) - len(request.blocks)
            while need > self.pool.free():
                by_priority = self.limits.priority_scheduling
                victim = max(self.running, key=lambda q: q.rank) if by_priority else self.running[-1]
                i -= self.running.index(victim) < i
                self.running.remove(victim)
                preempted = True
                self.scheduled.pop(victim.name, None)
                self.pool.give_back(victim)
                victim.computed = 0
                victim.steady = False
                victim.preemptions += 1
                self.queue(victim)
                if victim is request:
                    return True
            request.blocks += [self.pool.private() for _ in range(need)]
            self.scheduled[request.name] = n
            i += 1
        return preempted

    def admit(self) -> None:  # noqa: PLR0912
        """The head of the queue while budget, sequences and blocks last; past those whose adapter is in the way."""
        pool, size = self.pool, self.size
        reserve = self.limits.output_reserve
        kept_free = reserve * sum(min(q.osl - q.generated, 4096) for q in self.running)
        answers = 0
        for request in list(self.waiting):
            if self.budget() <= 0 or len(self.running) >= self.limits.max_num_seqs:
                return
            in_use = {q.adapter for q in self.running} - {-1}
            full = self.adapters is not None and len(in_use) >= self.adapters.max_loras
            if full and request.adapter not in in_use | {-1}:
                continue
            answers += min(request.osl - request.generated, 4096)
            if request.landed:
                self.go_on(request, in_use)
                continue
            most = (request.known - 1) // size
            hits = 0
            while pool.caching and hits < most and pool.is_cached(request.key(hits)):
                hits += 1
            idle_hits = sum(request.key(i) in pool.idle for i in range(hits))
            more, blocks = 0, [0, 0]
            found: list[tuple[int, int]] = []
            if pool.caching and self.tiers:
                more, found, blocks = self.tiers.beyond(request, hits, most)
            left = request.known - (hits + more) * size
            n = min(left, self.limits.long_prefill_threshold or left, self.budget())
            if self.limits.exclusive_prefill and left == 1 and (request.generated or request.handed):
                n = 0
            need = math.ceil(request.known / size) - hits + idle_hits
            if need > pool.free():
                return
            if reserve and self.running and (pool.free() - need) * size - answers < kept_free:
                return
            if request.remote:
                more = 0
            self.waiting.remove(request)
            request.blocks = [request.key(i) for i in range(hits)]
            for key in request.blocks:
                pool.use(key)
            pool.forget(request, hits)
            if request.remote:
                self.reserve(request, hits)
                self.loads_wanted(request, max(0, request.remote - request.computed))
                request.remote = 0
                continue
            if more and self.async_loads:
                self.load_aside(request, hits, more, blocks, found)
                continue
            request.blocks += [pool.private() for _ in range(math.ceil(((hits + more) * size + n) / size) - hits)]
            request.computed = (hits + more) * size
            if self.tiers and more:
                self.load_s += sum(self.tiers.seconds(blocks))
                for t, hashed in found:
                    self.tiers.use(t, hashed)
                pool.publish(request)
            if request.sends <= 1 and request.preemptions == 0:
                request.loaded = (blocks[0] * size, blocks[1] * size)
            self.join(request, n, in_use)

    def join(self, request: Request, n: int, in_use: set[int]) -> None:
        if math.isnan(request.admitted_s):
            request.admitted_s = self.now
            request.cached = request.computed
        self.load_adapter(request.adapter, in_use)
        if n:
            self.scheduled[request.name] = n
        self.running.append(request)

    def reserve(self, request: Request, hits: int) -> None:
        request.blocks += [self.pool.private() for _ in range(math.ceil(request.known / self.size) - hits)]
        request.computed = hits * self.size

    def loads_wanted(self, request: Request, tokens: int) -> None:
        """Its KV comes from another engine."""
        request.loads, request.ready_s = tokens, math.inf
        self.loading.append(request)
        self.posted.append(request)

    def load_aside(
        self, request: Request, hits: int, more: int, blocks: list[int], found: list[tuple[int, int]]
    ) -> None:
        """Blocks for all that is known are its own from now on; it waits for its KV, each tier one load at a time."""
        assert self.tiers is not None
        self.reserve(request, hits)
        request.loads = more * self.size
        for t, hashed in found:
            self.tiers.use(t, hashed)
        request.ready_s = 0.0
        for t, seconds in enumerate(self.tiers.seconds(blocks)):
            if blocks[t]:
                self.free_s[t] = max(self.free_s[t], self.now) + seconds
                request.ready_s = max(request.ready_s, self.free_s[t])
        if request.sends <= 1 and request.preemptions == 0:
            request.loaded = (blocks[0] * self.size, blocks[1] * self.size)
        self.loading.append(request)

    def land(self) -> None:
        """Loads that are there by now: the requests go to the front of the queue, and others can hit the blocks."""
        for request in sorted(self.loading, key=lambda q: q.ready_s):
            if request.ready_s <= self.now:
                self.there(request)

    def there(self, request: Request) -> None:
        self.loading.remove(request)
        request.computed += request.loads
        if self.pool.caching:
            self.pool.publish(request)
        request.landed = True
        self.queue(request)

    def go_on(self, request: Request, in_use: set[int]) -> None:
        """A request whose KV has come is admitted; blocks for later chunks than this step's are given back."""
        self.waiting.remove(request)
        request.landed = False
        left = request.known - request.computed
        n = min(left, self.limits.long_prefill_threshold or left, self.budget())
        if self.limits.exclusive_prefill and request.one_left:
            n = 0
        while len(request.blocks) > math.ceil((request.computed + n) / self.size):
            request.blocks.pop()
            self.pool.empty += 1
        self.join(request, n, in_use)

    def load_adapter(self, adapter: int, in_use: set[int]) -> None:
        if self.adapters is None or adapter == -1:
            return
        if adapter not in self.resident:
            self.load_s += self.adapters.load_seconds
            unused = [a for a in sorted(self.resident) if a not in in_use]
            if len(self.resident) >= self.adapters.max_loras and unused:
                del self.resident[min(unused, key=lambda a: self.resident[a])]
        self.resident[adapter] = self.steps

    def cancel(self) -> None:
        """Requests whose clients have given up leave, the earliest first."""
        for q in sorted([*self.running, *self.waiting, *self.loading], key=lambda q: (q.deadline_s, q.name)):
            if q.deadline_s <= self.now:
                next(there for there in (self.running, self.waiting, self.loading) if q in there).remove(q)
                self.pool.give_back(q)
                q.outcome = "cancelled"
                self.dropped.append(q)

    def tokens(self) -> int:
        """Of the step that was put together."""
        return sum(self.scheduled.values())

    def run_step(self, arrivals_until: Callable[[float], None]) -> None:
        """One step in time, those who arrive meanwhile, then its tokens."""
        self.now += self.seconds()
        arrivals_until(self.now)
        self.end_step()

    def batch(self) -> list[tuple[Request, int]]:
        return [(q, self.scheduled[q.name]) for q in self.running if q.name in self.scheduled]

    def seconds(self, expert_tokens: float | None = None) -> float:
        """How long the step that was put together takes; its experts run its own tokens, or the mean of all ranks."""
        window = self.step[WINDOW_INDEX]
        batch = self.batch()
        again = [q for q, n in batch if q.handed and not q.generated and n == 1]
        decodes = [q for q, _ in batch if q.decoding or q in again]
        prompts = [(q, n) for q, n in batch if q not in decodes]
        if self.speculation and decodes:
            self.load_s += self.speculation.draft_seconds
        seconds: float = self.load_s + step_seconds(
            self.step,
            float(self.tokens()),
            float(len(self.scheduled)),
            float(sum(q.computed for q in decodes)),
            float(sum(min(q.computed, window) for q in decodes)),
            float(sum(n * (q.computed + 0.5 * n) for q, n in prompts)),
            float(sum(n for _, n in prompts)),
            float(self.tokens()) if expert_tokens is None else expert_tokens,
        )
        self.load_s = 0.0
        return seconds

    def end_step(self) -> None:
        self.steps += 1
        batch = self.batch()
        # Of decoding requests that end together, the one that came first gives back its blocks first.
        order = sorted(batch, key=lambda b: b[0].name if b[0].decoding and b[0].steady else 1 << 40)
        for q, n in batch if self.speculation else order:
            self.advance(q, n)

    def advance(self, q: Request, n: int) -> None:
        before = q.computed
        new = self.luck(q, n) if self.speculation and q.decoding else 1
        q.computed += new if self.speculation and q.decoding else n
        while len(q.blocks) > math.ceil(q.computed / self.size):
            q.blocks.pop()
            self.pool.empty += 1
        if self.pool.caching:
            self.pool.publish(q)
        if self.tiers:
            whole = self.tiers.per_hash * self.size
            for k in range(before // whole, min(q.computed // whole, len(q.keys) // self.tiers.per_hash)):
                for t in (0, 1):
                    self.tiers.use(t, int(q.keys[k * self.tiers.per_hash][1]))  # type: ignore[call-overload]
        if q.computed >= q.known:
            self.sample(q, new)

    def luck(self, q: Request, n: int) -> int:
        """One token and the drafts accepted; SplitMix64, in Python's own integers."""
        if n == 1:
            return 1
        assert self.speculation is not None
        mask = 2**64 - 1
        z = (self.speculation.seed + (q.name * 1_048_583 + q.generated + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        luck = ((z ^ (z >> 31)) >> 11) * 2.0**-53
        return 1 + int(sum(luck >= chance for chance in np.cumsum(self.speculation.accepted)[: n - 1]))

    def sample(self, q: Request, new: int) -> None:
        if q.generated == 0:
            q.first_s = self.now
        else:
            q.stall_s = max(q.stall_s, self.now - q.last_s)
            q.gaps += new
        q.last_s = self.now
        q.generated += new
        q.steady = not self.prompts_alone
        if q.generated == q.osl:
            q.end_s = self.now
            self.running.remove(q)
            self.done.append(q)
            if not self.hands_over:
                self.pool.give_back(q)


def requests_of(workload: Workload, limits: EngineLimits) -> tuple[list[Request], list[Request]]:
    """All requests, and those the engine does not reject."""
    size = limits.block_tokens
    per_hash = max(1, workload.prefix_block_tokens // size)
    requests: list[Request] = []
    fit: list[Request] = []
    for r in range(len(workload)):
        isl = int(workload.isl_tokens[r])
        hashes = workload.hash_ids[workload.hash_offsets[r] : workload.hash_offsets[r + 1]]
        keys = [("hash", int(h), i) for h in hashes for i in range(per_hash)][: isl // size]
        room = min(limits.max_model_len, limits.kv_blocks * size + 1) - isl
        osl = min(int(workload.osl_tokens[r]), room)
        requests.append(Request(r, float(workload.arrival_s[r]), isl, osl, list(keys) if limits.prefix_caching else []))
        requests[-1].ticket = r
        if workload.priority is not None and limits.priority_scheduling:
            requests[-1].priority = int(workload.priority[r])
        if workload.patience_s is not None:
            requests[-1].deadline_s = float(workload.arrival_s[r] + workload.patience_s[r])
        if workload.adapter is not None:
            requests[-1].adapter = int(workload.adapter[r])
        if isl < limits.max_model_len and math.ceil(isl / size) <= limits.kv_blocks:
            fit.append(requests[-1])
    return requests, fit


def serve(
    workload: Workload,
    step: np.ndarray,
    limits: EngineLimits,
    *,
    host: Tier | None = None,
    remote: Tier | None = None,
    speculation: Speculation | None = None,
    adapters: Adapters | None = None,
    async_loads: bool = False,
) -> list[Request]:
    """Serve an open-loop workload on one engine; rejected requests keep their NaNs."""
    size = limits.block_tokens
    per_hash = max(1, workload.prefix_block_tokens // size)
    requests, fit = requests_of(workload, limits)
    coming = deque(fit)
    engine = Engine(
        step, limits, Tiers(host, remote, per_hash) if host or remote else None, speculation, adapters, async_loads
    )

    def arrivals_until(now_s: float) -> None:
        while coming and coming[0].arrival_s <= now_s:
            request = coming.popleft()
            waiting = len(engine.waiting) + len(engine.loading)
            there = waiting + len(engine.running)
            if waiting >= (limits.max_waiting or math.inf) or there >= (limits.max_outstanding or math.inf):
                request.outcome = "refused"
            else:
                engine.queue(request)

    stuck = False
    while coming or engine.running or engine.waiting or engine.loading:
        if not engine.running and (stuck or not engine.waiting):
            nexts = [q.ready_s for q in engine.loading] + [q.arrival_s for q in list(coming)[:1]]
            engine.now = max(engine.now, min(nexts))
            queued = len(engine.waiting)
            arrivals_until(engine.now)
            if len(engine.waiting) == queued and not any(q.ready_s <= engine.now for q in engine.loading):
                # Who is turned away wakes nobody.
                continue
        engine.cancel()
        engine.land()
        if not engine.running and not engine.waiting:
            continue
        engine.put_together()
        stuck = not engine.running
        if not stuck:
            engine.run_step(arrivals_until)
    return requests
