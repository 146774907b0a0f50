"""A request, the KV pool block by block, and the tiers beyond it: what the reference engine schedules over.

Written for reading. Nothing here is shared with the compiled replay.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

from estimator.replay import Tier


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
    priority: int = 0
    adapter: int = -1
    deadline_s: float = math.inf
    outcome: str = "finished"
    loaded: tuple[int, int] = (0, 0)
    ready_s: float = math.inf
    landed: bool = False
    loads: int = 0
    ticket: int = 0
    sends: int = 0
    remote: int = 0
    handed: bool = False
    steady: bool = False
    queued_s: float = math.nan
    engine: int = -1

    @property
    def decoding(self) -> bool:
        """Whether one token is all it has to compute."""
        return self.generated > 0 and self.known - self.computed == 1

    @property
    def one_left(self) -> bool:
        """Whether it decodes: nothing is missing but the token its next one is sampled from."""
        return self.known - self.computed == 1 and (self.generated > 0 or self.handed)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Those whose KV has come go first."""
        return not self.landed, self.priority, self.ticket

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


class Tiers:
    """Hashes held beyond the device, least recently used first: by this engine's host, and remotely."""

    def __init__(self, host: Tier | None, remote: Tier | None, per_hash: int) -> None:
        self.tiers = (host, remote)
        self.room = [tier.blocks // per_hash if tier else 0 for tier in self.tiers]
        self.held: tuple[OrderedDict[int, None], OrderedDict[int, None]] = (OrderedDict(), OrderedDict())
        self.per_hash = per_hash

    def use(self, t: int, key: int) -> None:
        self.held[t].pop(key, None)
        self.held[t][key] = None
        while len(self.held[t]) > self.room[t]:
            self.held[t].popitem(last=False)

    def beyond(self, request: Request, hits: int, most: int) -> tuple[int, list[tuple[int, int]], list[int]]:
        """Blocks found behind the first `hits`, the tier and hash of each, and how many blocks each tier gives."""
        found: list[tuple[int, int]] = []
        blocks = [0, 0]
        at, end = hits, min(most, len(request.keys))
        while at < end and at % self.per_hash == 0:
            key = int(request.keys[at][1])  # type: ignore[call-overload]
            t = 0 if key in self.held[0] else 1
            if key not in self.held[t]:
                break
            got = min(self.per_hash, end - at)
            found.append((t, key))
            blocks[t] += got
            at += got
        return at - hits, found, blocks

    def seconds(self, blocks: list[int]) -> list[float]:
        """By tier, as long as the load takes by itself."""
        return [
            tier.lookup_seconds + n * tier.seconds_per_block if n and tier else 0.0
            for tier, n in zip(self.tiers, blocks, strict=True)
        ]
