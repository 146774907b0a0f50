"""What a replay saw: one value a request, figures of the fleet, and the fleet over time.

Belongs here: these arrays and what is read off them. Does not: how they come about (`simulate`), or SLOs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.replay import state
from estimator.replay.workload import Floats, Ints

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The fleet over time, in bins of equal width from second 0: means over the bin, summed over replicas.

    Waiting is counted while a step is in work, so a request that finds an engine idle does not show.
    """

    bin_s: float
    start_s: Floats
    running: Floats
    waiting: Floats
    kv_usage: Floats
    """Share of all KV blocks in use."""
    preemptions: Floats
    """Number in the bin."""
    busy_share: Floats
    """Share of the time a replica was in a step."""
    waits_share: dict[str, Floats]
    """Share of the bin, over all replicas, in which requests queued, by the limit that kept them there."""

    def binding(self) -> list[str]:
        """By bin, the limit under which requests queued longest; "none" where none queued."""
        names = list(self.waits_share)
        shares = np.stack([self.waits_share[name] for name in names])
        best = shares.argmax(axis=0)
        return [names[i] if shares[i, at] > 0 else "none" for at, i in enumerate(best)]


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
    rank: Ints
    """Data-parallel rank in the replica; -1 when rejected."""
    cached_tokens: Ints
    """Input tokens found in the prefix cache when the request was first admitted."""
    preemptions: Ints
    outcome: NDArray[np.int8]
    """Index into `OUTCOMES`: finished, capped (cut at the longest context or the whole pool), rejected (too long for
    the engine), refused (by an admission limit), cancelled (its client gave up), lost (with its replica)."""
    replicas: int
    running_mean: float
    """Requests running on a replica, averaged over time, idle time included."""
    waiting_max: int
    """Longest queue of any replica, or of any of its ranks."""
    kv_usage_p99: float
    """Share of a replica's (a rank's) KV blocks in use that is exceeded 1 % of the time, to 0.1 %."""
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
    host_tokens: Ints
    """Of `cached_tokens`, those loaded from the host's tier."""
    remote_tokens: Ints
    sends: Ints
    """Times it reached an engine: more than 1 when a replica failed under it."""
    series: Series | None
    """What happened when; None unless asked for."""

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

    def phases(self, clients: int) -> dict[str, Mask]:
        """A closed loop's requests by phase: which of them were sent in the start-up burst, in steady state, in drain.

        The burst is each client's first prompt: all of them queue behind each other, and in published sweeps make most
        of mean TTFT. Drain is from when the first client has no prompt left, and fewer ask than the stated number.
        Steady state is what lies between, and may be empty. Raises ValueError for fewer than 1 client.
        """
        if clients < 1:
            raise ValueError(f"{clients} clients: phases are a closed loop's, of 1 or more")
        order = np.arange(len(self.arrival_s))
        burst: Mask = order < clients
        last = order >= len(order) - clients
        ends_s = (self.arrival_s + self.e2e_s)[last & np.isfinite(self.e2e_s)]
        drain: Mask = ~burst & (self.arrival_s >= (ends_s.min() if len(ends_s) else np.inf))
        return {"burst": burst, "steady": ~burst & ~drain, "drain": drain}
