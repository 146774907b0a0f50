"""What a fleet may have beyond equal engines: tiers of cache, drafts, adapters, replicas that come and go.

Belongs here: these options and what makes no sense in them. Does not: what they do to a step (the compiled modules).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from estimator.replay.state import DRAFTS_MAX


@dataclass(frozen=True, slots=True)
class Tier:
    """A prefix cache beyond the device; `blocks` are engine blocks, of each engine's host or of the shared remote."""

    blocks: int
    seconds_per_block: float
    lookup_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a tier that holds less than nothing or gives time back."""
        if self.blocks < 0 or not self.seconds_per_block >= 0 or not self.lookup_seconds >= 0:
            raise ValueError(f"{self}: blocks and seconds must not be negative")

    @classmethod
    def of_bytes(cls, size_bytes: float, block_bytes: float, bytes_per_s: float, lookup_seconds: float = 0.0) -> Tier:
        """A tier of `size_bytes` from which blocks of `block_bytes` come at `bytes_per_s`. Raises ValueError."""
        if not block_bytes > 0 or not bytes_per_s > 0 or not size_bytes >= 0:
            raise ValueError(f"{size_bytes:g} B in blocks of {block_bytes:g} B at {bytes_per_s:g} B/s: not a tier")
        return cls(int(size_bytes // block_bytes), block_bytes / bytes_per_s, lookup_seconds)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafted tokens: `accepted[k]` is the chance that just k of them are, k from 0 to as many as are drafted.

    `draft_seconds` is the drafter's time in a step that decodes. The luck is drawn from `seed`.
    """

    accepted: tuple[float, ...]
    draft_seconds: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for chances that are none."""
        if len(self.accepted) < 2 or min(self.accepted) < 0 or not math.isclose(sum(self.accepted), 1.0, abs_tol=1e-9):
            raise ValueError(f"accepted {self.accepted}: chances of 0, 1, ... accepted tokens that add up to 1")
        if len(self.accepted) > DRAFTS_MAX + 1:
            raise ValueError(f"{self.drafts} drafts: at most {DRAFTS_MAX} are modelled")
        if not self.draft_seconds >= 0 or self.seed < 0:
            raise ValueError("draft_seconds and seed must not be negative")

    @classmethod
    def per_token(cls, drafts: int, acceptance: float, draft_seconds: float = 0.0, seed: int = 0) -> Speculation:
        """`drafts` tokens, each accepted with chance `acceptance` if those before it were (arXiv:2211.17192)."""
        if drafts < 1 or not 0 <= acceptance <= 1:
            raise ValueError(f"{drafts} drafts, acceptance {acceptance!r}: need at least 1, and a chance from 0 to 1")
        chances = [acceptance**k * (1 - acceptance) for k in range(drafts)] + [acceptance**drafts]
        return cls(tuple(chances), draft_seconds, seed)

    @property
    def drafts(self) -> int:
        """Tokens drafted a step."""
        return len(self.accepted) - 1


@dataclass(frozen=True, slots=True)
class Adapters:
    """LoRA: at most `max_loras` different adapters in a batch, and as many loaded; loading one takes `load_seconds`."""

    max_loras: int
    load_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for fewer than one, or a negative time."""
        if self.max_loras < 1 or not self.load_seconds >= 0:
            raise ValueError(f"{self}: at least 1 adapter, and a time that is not negative")


@dataclass(frozen=True, slots=True)
class Outage:
    """Replica `replica` takes no requests from `from_s`, is gone at `gone_s`, and there again, empty, at `back_s`.

    A crash has `from_s` = `gone_s`; what lies between them is time to drain; `back_s` may be infinite. The way back
    takes the ready time (process start, weights, warm-up), which is measured, not assumed.
    """

    replica: int
    from_s: float
    gone_s: float
    back_s: float = math.inf

    def __post_init__(self) -> None:
        """Raise ValueError when these are not in order."""
        if not 0 <= self.from_s <= self.gone_s < self.back_s or math.isinf(self.gone_s):
            raise ValueError(f"{self}: need 0 <= from_s <= gone_s < back_s, and a gone_s that comes")


def crash(replica: int, at_s: float, ready_s: float) -> Outage:
    """A replica fails and restarts at once; it is ready again `ready_s` later."""
    return Outage(replica, at_s, at_s, at_s + ready_s)


def rolling_upgrade(
    replicas: int, start_s: float, drain_s: float, ready_s: float, at_once: int = 1
) -> tuple[Outage, ...]:
    """Replicas restart `at_once` at a time; each group drains, restarts, and is ready before the next one drains."""
    if at_once < 1:
        raise ValueError(f"at_once is {at_once}: it must be at least 1")
    outages = []
    for r in range(replicas):
        from_s = start_s + (r // at_once) * (drain_s + ready_s)
        outages.append(Outage(r, from_s, from_s + drain_s, from_s + drain_s + ready_s))
    return tuple(outages)


def scale_schedule(
    targets: Sequence[tuple[float, int]], ready_s: float, drain_s: float
) -> tuple[int, tuple[Outage, ...]]:
    """From (second, replicas wanted) in order, the first at 0: the most replicas there are, and who is out when.

    A replica that is wanted takes requests `ready_s` later (those wanted at second 0 at once); one that is not wanted
    drains for `drain_s`. Replicas are taken from the lowest number.
    """
    if not targets or targets[0][0] != 0 or any(b[0] <= a[0] for a, b in pairwise(targets)):
        raise ValueError(f"targets {targets}: seconds must rise from 0")
    if min(n for _, n in targets) < 1:
        raise ValueError(f"targets {targets}: at least one replica")
    most = max(n for _, n in targets)
    outages = []
    for r in range(most):
        away: tuple[float, float] | None = (0.0, 0.0) if targets[0][1] <= r else None
        for at_s, wanted in targets[1:]:
            if away is not None and r < wanted:
                back_s = max(at_s, away[1]) + ready_s
                outages.append(
                    Outage(r, away[0], away[1], back_s if back_s > away[1] else math.nextafter(back_s, math.inf))
                )
                away = None
            elif away is None and r >= wanted:
                away = (at_s, at_s + drain_s)
        if away is not None:
            outages.append(Outage(r, *away))
    return most, tuple(outages)


def in_turn(outages: Iterable[Outage], replicas: int) -> list[Outage]:
    """Outages in order of time. Raises ValueError for a replica there is not, and where two of one replica overlap."""
    ordered = sorted(outages, key=lambda o: (o.from_s, o.replica))
    back_s: dict[int, float] = {}
    for o in ordered:
        if not 0 <= o.replica < replicas:
            raise ValueError(f"{o}: there are {replicas} replicas, counted from 0")
        if o.from_s < back_s.get(o.replica, 0.0):
            raise ValueError(f"{o}: replica {o.replica} is out already, until second {back_s[o.replica]:g}")
        back_s[o.replica] = o.back_s
    return ordered
