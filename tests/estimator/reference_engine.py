"""One engine by the scheduler's rules, written for reading: lists, one step at a time, one KV block at a time.

The compiled replay must give the same times to the last bit. Nothing here is shared with it but the step time.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np

from estimator.replay import EngineLimits, Workload
from estimator.step_time import WINDOW_INDEX, step_seconds


@dataclass
class Request:
    name: int
    arrival_s: float
    isl: int
    osl: int
    keys: list[tuple[object, ...]]
    computed: int = 0
    generated: int = 0
    blocks: list[tuple[object, ...]] = field(default_factory=list)
    admitted_s: float = math.nan
    first_s: float = math.nan
    end_s: float = math.nan
    last_s: float = math.nan
    stall_s: float = 0.0
    cached: int = 0
    preemptions: int = 0
    gaps: int = 0
    decoding: bool = False

    @property
    def known(self) -> int:
        return self.isl + self.generated

    def key(self, block: int) -> tuple[object, ...]:
        """What a full block holds: the trace's hash where there is one, else this request's own tokens."""
        return self.keys[block] if block < len(self.keys) else ("own", self.name, block)


class Blocks:
    """The KV pool: blocks in use by key with a count of users, idle ones in order of last use, and empty ones."""

    def __init__(self, total: int, block_tokens: int, caching: bool) -> None:
        self.empty, self.block_tokens, self.caching = total, block_tokens, caching
        self.users: dict[tuple[object, ...], int] = {}
        self.idle: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self.serial = 0

    def free(self) -> int:
        return self.empty + len(self.idle)

    def private(self) -> tuple[object, ...]:
        """A block nobody else knows yet."""
        if self.empty:
            self.empty -= 1
        else:
            self.idle.popitem(last=False)
        self.serial += 1
        return ("private", self.serial)

    def is_cached(self, key: tuple[object, ...]) -> bool:
        return key in self.users or key in self.idle

    def use(self, key: tuple[object, ...]) -> None:
        self.idle.pop(key, None)
        self.users[key] = self.users.get(key, 0) + 1

    def publish(self, request: Request) -> None:
        """Its full blocks can be hit from now on; where another has the same block, its own copy is given back."""
        for i in range(request.computed // self.block_tokens):
            key = request.key(i)
            if request.blocks[i] == key:
                continue
            if key[0] == "own" or not self.is_cached(key):
                self.users[key] = 1
            else:
                self.empty += 1
                self.use(key)
            request.blocks[i] = key

    def forget(self, request: Request, hits: int) -> None:
        """After a hit: idle blocks under the last hash it hit are dropped; own blocks not hit now never will be."""
        last = request.key(hits - 1)[:2] if hits else None
        renamed: OrderedDict[tuple[object, ...], None] = OrderedDict()
        for key in self.idle:
            if key[0] == "hash" and key[:2] == last:
                self.empty += 1
            elif key[0] == "own" and key[1] == request.name:
                self.serial += 1
                renamed["private", self.serial] = None
            else:
                renamed[key] = None
        self.idle = renamed

    def give_back(self, request: Request) -> None:
        for key in reversed(request.blocks):
            if not self.caching:
                self.empty += 1
            elif key in self.users:
                self.users[key] -= 1
                if self.users[key] == 0:
                    del self.users[key]
                    self.idle[key] = None
            else:
                self.idle[key] = None  # private: in the queue like any other, hit by nobody
        request.blocks = []


class Engine:
    """One engine: who runs, who waits, what it holds, and what time it is."""

    def __init__(self, step: np.ndarray, limits: EngineLimits) -> None:
        self.step, self.limits, self.size = step, limits, limits.block_tokens
        self.pool = Blocks(limits.kv_blocks, limits.block_tokens, limits.prefix_caching)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.scheduled: dict[int, int] = {}
        self.now = 0.0

    def budget(self) -> int:
        return self.limits.max_num_batched_tokens - sum(self.scheduled.values())

    def schedule_running(self) -> bool:
        """Running requests in order of admission; short of blocks, the last admitted makes room. Whether any did."""
        self.scheduled = {}
        preempted = False
        i = 0
        while i < len(self.running):
            request = self.running[i]
            n = min(request.known - request.computed, self.budget())
            need = math.ceil((request.computed + n) / self.size) - len(request.blocks)
            while need > self.pool.free():
                victim = self.running.pop()
                preempted = True
                self.pool.give_back(victim)
                victim.computed = 0
                victim.decoding = False
                victim.preemptions += 1
                self.waiting.appendleft(victim)
                if victim is request:
                    return True
            request.blocks += [self.pool.private() for _ in range(need)]
            if n:
                self.scheduled[request.name] = n
            i += 1
        return preempted

    def admit(self) -> None:
        """The head of the queue while budget, sequences and blocks last."""
        pool, size = self.pool, self.size
        while self.waiting and self.budget() > 0 and len(self.running) < self.limits.max_num_seqs:
            request = self.waiting[0]
            hits = 0
            while pool.caching and hits < (request.known - 1) // size and pool.is_cached(request.key(hits)):
                hits += 1
            n = min(request.known - hits * size, self.budget())
            idle_hits = sum(request.key(i) in pool.idle for i in range(hits))
            if math.ceil(request.known / size) - hits + idle_hits > pool.free():
                return
            self.waiting.popleft()
            request.blocks = [request.key(i) for i in range(hits)]
            for key in request.blocks:
                pool.use(key)
            pool.forget(request, hits)
            request.blocks += [pool.private() for _ in range(math.ceil((hits * size + n) / size) - hits)]
            request.computed = hits * size
            if math.isnan(request.admitted_s):
                request.admitted_s = self.now
                request.cached = request.computed
            self.scheduled[request.name] = n
            self.running.append(request)

    def run_step(self) -> None:
        """One step in time, then its tokens."""
        window = self.step[WINDOW_INDEX]
        decodes = [q for q in self.running if q.decoding]
        prompts = [(q, self.scheduled.get(q.name, 0)) for q in self.running if not q.decoding]
        self.now += step_seconds(
            self.step,
            float(sum(self.scheduled.values())),
            float(len(self.scheduled)),
            float(sum(q.computed for q in decodes)),
            float(sum(min(q.computed, window) for q in decodes)),
            float(sum(n * (q.computed + 0.5 * n) for q, n in prompts)),
            float(sum(n for _, n in prompts)),
        )
        # Of decoding requests that end together, the one that came first gives back its blocks first.
        for q in sorted(decodes, key=lambda q: q.name) + [q for q, _ in prompts]:
            q.computed += self.scheduled.get(q.name, 0)
            if self.pool.caching:
                self.pool.publish(q)
            if q.computed == q.known:
                self.sample(q)

    def sample(self, q: Request) -> None:
        if q.generated == 0:
            q.first_s = self.now
        else:
            q.stall_s = max(q.stall_s, self.now - q.last_s)
            q.gaps += 1
        q.last_s = self.now
        q.generated += 1
        q.decoding = True
        if q.generated == q.osl:
            q.end_s = self.now
            self.running.remove(q)
            self.pool.give_back(q)


def serve(workload: Workload, step: np.ndarray, limits: EngineLimits) -> list[Request]:
    """Serve an open-loop workload on one engine; rejected requests keep their NaNs."""
    size = limits.block_tokens
    per_hash = max(1, workload.prefix_block_tokens // size)
    requests: list[Request] = []
    coming: deque[Request] = deque()
    for r in range(len(workload)):
        isl = int(workload.isl_tokens[r])
        hashes = workload.hash_ids[workload.hash_offsets[r] : workload.hash_offsets[r + 1]]
        keys = [("hash", int(h), i) for h in hashes for i in range(per_hash)][: isl // size]
        room = min(limits.max_model_len, limits.kv_blocks * size + 1) - isl
        osl = min(int(workload.osl_tokens[r]), room)
        requests.append(Request(r, float(workload.arrival_s[r]), isl, osl, list(keys) if limits.prefix_caching else []))
        if isl < limits.max_model_len and math.ceil(isl / size) <= limits.kv_blocks:
            coming.append(requests[-1])
    engine = Engine(step, limits)
    while coming or engine.running or engine.waiting:
        if not engine.running and not engine.waiting:
            engine.now = max(engine.now, coming[0].arrival_s)
        while coming and coming[0].arrival_s <= engine.now:
            engine.waiting.append(coming.popleft())
        if not engine.schedule_running() or not engine.running:
            engine.admit()
        engine.run_step()
    return requests
