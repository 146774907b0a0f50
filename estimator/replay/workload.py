"""What a replay is asked to serve: arrivals, lengths and, where the trace has them, shared prefixes.

Belongs here: the `Workload` and what can be done to one. Does not: made-up arrivals (`arrivals`), buckets and windows
(`estimator.workload`), or reading traces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LONGEST_TOKENS = 2**30


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Requests in order of arrival. Build one with `Workload.of`, which checks and sorts out its arrays.

    `hash_ids[hash_offsets[r] : hash_offsets[r + 1]]` are the ids of request r's input blocks of `prefix_block_tokens`
    tokens. Ids run from 0 to `hashes` - 1 and are chained: equal ids, equal input from the start to the block's end.
    Without prefixes `hash_ids` is empty and `prefix_block_tokens` is 0.
    """

    arrival_s: Floats
    isl_tokens: Ints
    osl_tokens: Ints
    hash_offsets: Ints
    hash_ids: Ints
    prefix_block_tokens: int
    hashes: int
    priority: Ints | None = None
    """Lower is served first, where the engine schedules by priority; all 0 when not given."""
    patience_s: Floats | None = None
    """After this long, counted from its arrival, its client gives up; never when not given or infinite."""
    adapter: Ints | None = None
    """Number of its LoRA adapter, from 0; -1 for the base model. All base when not given."""

    @classmethod
    def of(
        cls,
        arrival_s: ArrayLike,
        isl_tokens: ArrayLike,
        osl_tokens: ArrayLike,
        hash_offsets: ArrayLike | None = None,
        hash_ids: ArrayLike | None = None,
        prefix_block_tokens: int = 0,
    ) -> Workload:
        """A workload from raw arrays: seconds from any origin kept as they are, whole tokens, hash ids of any value.

        Raises ValueError, naming the first request at fault, when arrivals are not finite, negative or not sorted, when
        a length is below 1 token or above 2**30, or when the prefix arrays do not fit together.
        """
        arrival = np.ascontiguousarray(arrival_s, dtype=np.float64)
        isl = _lengths("isl_tokens", isl_tokens)
        osl = _lengths("osl_tokens", osl_tokens)
        n = len(arrival)
        if arrival.ndim != 1 or isl.shape != (n,) or osl.shape != (n,):
            raise ValueError(f"arrival_s, isl_tokens and osl_tokens must have one length: {n}, {len(isl)}, {len(osl)}")
        if n == 0:
            raise ValueError("a workload needs at least one request")
        _refuse(~np.isfinite(arrival) | (arrival < 0), "arrival_s", arrival, "a finite number of seconds from 0 on")
        _refuse(np.diff(arrival, prepend=arrival[0]) < 0, "arrival_s", arrival, "not before the arrival above it")
        if hash_offsets is None or hash_ids is None:
            return cls(arrival, isl, osl, np.zeros(n + 1, dtype=np.int64), np.zeros(0, dtype=np.int64), 0, 0)
        offsets = np.ascontiguousarray(hash_offsets, dtype=np.int64)
        raw = np.asarray(hash_ids)
        if offsets.shape != (n + 1,) or offsets[0] != 0 or offsets[-1] != len(raw) or (np.diff(offsets) < 0).any():
            raise ValueError(f"hash_offsets must rise from 0 to {len(raw)} hash ids in {n + 1} entries")
        if prefix_block_tokens < 1:
            raise ValueError(f"prefix_block_tokens is {prefix_block_tokens}: it must be at least 1")
        # A trace may list a partial last block or none for it; more than one block past the prompt is another trace's.
        blocks = -(-isl // prefix_block_tokens)
        _refuse(np.diff(offsets) > blocks, "hash_ids", np.diff(offsets), "at most one id a started block of its input")
        values, dense = np.unique(raw, return_inverse=True)
        return cls(arrival, isl, osl, offsets, dense.astype(np.int64), int(prefix_block_tokens), len(values))

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """From the first to the last arrival."""
        return float(self.arrival_s[-1] - self.arrival_s[0])

    @property
    def rate_rps(self) -> float:
        """Mean rate: gaps over span; infinite when all arrive at once."""
        return (len(self) - 1) / self.span_s if self.span_s > 0 else float("inf")

    def asking(
        self,
        *,
        priority: ArrayLike | None = None,
        patience_s: ArrayLike | None = None,
        adapter: ArrayLike | None = None,
    ) -> Workload:
        """The same requests with priorities, patience and adapters, each one value for all or one a request.

        Raises ValueError for a patience that is not positive and for numbers out of range.
        """
        asked = self
        if priority is not None:
            values = np.broadcast_to(np.asarray(priority, dtype=np.int64), len(self)).copy()
            _refuse(np.abs(values) > 2**20, "priority", values, "from -2**20 to 2**20")
            asked = replace(asked, priority=values)
        if patience_s is not None:
            seconds = np.broadcast_to(np.asarray(patience_s, dtype=np.float64), len(self)).copy()
            _refuse(~(seconds > 0), "patience_s", seconds, "above 0 seconds")
            asked = replace(asked, patience_s=seconds)
        if adapter is not None:
            numbers = np.broadcast_to(np.asarray(adapter, dtype=np.int64), len(self)).copy()
            _refuse((numbers < -1) | (numbers > 10_000), "adapter", numbers, "from -1 (the base model) to 10,000")
            asked = replace(asked, adapter=numbers)
        return asked

    def scaled(self, factor: float) -> Workload:
        """The same requests at `factor` times the rate: time runs faster, everything else stays."""
        if not factor > 0 or not np.isfinite(factor):
            raise ValueError(f"rate factor {factor!r}: it must be positive and finite")
        return replace(self, arrival_s=self.arrival_s / factor)

    def superposed(self, factor: float, seed: int, *, shared_prefixes: bool = False) -> Workload:
        """The same traffic `factor` times over: copies laid over each other, each shifted in time, round its end.

        Where `scaled` makes bursts shorter and closer, this makes them flatter, as more independent users do. The
        first copy keeps its times, each other is shifted by a random part of the span; a part of a copy is a random
        sample. Copies ask for prefixes of their own unless `shared_prefixes`. Raises ValueError for a factor of no
        traffic, and where all arrive at once and a shift means nothing.
        """
        if not factor > 0 or not np.isfinite(factor):
            raise ValueError(f"rate factor {factor!r}: it must be positive and finite")
        if not self.span_s > 0:
            raise ValueError("requests that all arrive at once cannot be shifted against each other")
        rng = np.random.default_rng(seed)
        # A round is as long as the span and one mean gap, so that its last and first request do not fall together.
        first_s, round_s = self.arrival_s[0], self.span_s * (1 + 1 / max(1, len(self) - 1))
        whole = int(factor)
        kept = [np.arange(len(self))] * whole
        if factor > whole:
            kept.append(np.flatnonzero(rng.random(len(self)) < factor - whole))
        shifts = [0.0, *rng.uniform(0.0, round_s, len(kept))][: len(kept)]
        if not sum(len(part) for part in kept):
            raise ValueError(f"no request is left of {len(self)} at a factor of {factor:g}")
        index = np.concatenate(kept)
        copy = np.repeat(np.arange(len(kept)), [len(part) for part in kept])
        moved = self.arrival_s[index] - first_s + np.asarray(shifts)[copy]
        # Only what passes the end goes round: a remainder would move the last arrival of the first copy.
        times = first_s + np.where(moved >= round_s, moved - round_s, moved)
        order = np.argsort(times, kind="stable")
        laid = self._part(index[order], 0.0)
        ids, hashes = laid.hash_ids, laid.hashes
        if not shared_prefixes and len(ids):
            own = np.repeat(copy[order], np.diff(laid.hash_offsets)) * hashes + ids
            values, dense = np.unique(own, return_inverse=True)
            ids, hashes = dense.astype(np.int64), len(values)
        return replace(laid, arrival_s=times[order], hash_ids=ids, hashes=hashes)

    def window(self, start_s: float, end_s: float) -> Workload:
        """Requests that arrive in [start_s, end_s), counted from second `start_s` on. Prefix relations are kept."""
        low, high = np.searchsorted(self.arrival_s, [start_s, end_s], side="left")
        if low == high:
            raise ValueError(f"no request arrives from second {start_s:g} to {end_s:g}")
        return self._part(np.arange(low, high), start_s)

    def sample(self, share: float, seed: int) -> Workload:
        """A random share of the requests at their own times: a thinner stream of the same shape."""
        if not 0 < share <= 1:
            raise ValueError(f"share {share!r}: it must be above 0 and at most 1")
        kept = np.flatnonzero(np.random.default_rng(seed).random(len(self)) < share)
        if len(kept) == 0:
            raise ValueError(f"no request is left of {len(self)} at a share of {share:g}")
        return self._part(kept, 0.0)

    def with_arrivals(self, arrival_s: ArrayLike) -> Workload:
        """The same requests, in the same order, at other times; `estimator.replay.arrivals` makes some."""
        other = Workload.of(
            arrival_s,
            self.isl_tokens,
            self.osl_tokens,
            self.hash_offsets if self.prefix_block_tokens else None,
            self.hash_ids if self.prefix_block_tokens else None,
            self.prefix_block_tokens,
        )
        return replace(other, priority=self.priority, patience_s=self.patience_s, adapter=self.adapter)

    def _part(self, index: Ints, origin_s: float) -> Workload:
        counts = np.diff(self.hash_offsets)[index]
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        # Position of each kept id: where its request starts, plus its place in the request.
        at = np.repeat(self.hash_offsets[index] - offsets[:-1], counts) + np.arange(offsets[-1])
        values, dense = np.unique(self.hash_ids[at], return_inverse=True)
        return Workload(
            self.arrival_s[index] - origin_s,
            self.isl_tokens[index],
            self.osl_tokens[index],
            offsets,
            dense.astype(np.int64),
            self.prefix_block_tokens,
            len(values),
            None if self.priority is None else self.priority[index],
            None if self.patience_s is None else self.patience_s[index],
            None if self.adapter is None else self.adapter[index],
        )


def _lengths(name: str, values: ArrayLike) -> Ints:
    raw = np.asarray(values)
    if raw.dtype.kind == "f":
        _refuse(~np.isfinite(raw) | (raw != np.floor(raw)), name, raw, "a whole number of tokens")
    elif raw.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {raw.dtype}")
    _refuse((raw < 1) | (raw > LONGEST_TOKENS), name, raw, f"from 1 to {LONGEST_TOKENS} tokens")
    return np.ascontiguousarray(raw, dtype=np.int64)


def _refuse(wrong: NDArray[np.bool_], name: str, values: NDArray[np.generic], wanted: str) -> None:
    if wrong.any():
        r = int(np.argmax(wrong))
        raise ValueError(f"{name}[{r}] is {values[r]}: it must be {wanted}")
