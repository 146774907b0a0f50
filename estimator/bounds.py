"""What a replica can do at most, without a replay: zero-load latency, K, L, the TTFT bound and the binding one.

Belongs here: closed forms and small searches over `step_seconds` for a mean request. Does not: queues and tails, which
only a replay has (`estimator.replay`), and step physics (`estimator.step_time`). A bound shortlists; a replay decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estimator.step_time import WINDOW_INDEX, step_seconds, step_terms

Parameters = NDArray[np.float64]

LARGEST_BATCH = 16_384
"""Where the search for L stops; no engine is configured to run more sequences at once."""


@dataclass(frozen=True, slots=True)
class MeanLoad:
    """A mean request and the engine's limits. Lengths in tokens; `isl_tokens` counts what is prefilled.

    `request_s` is spent outside the engine's steps: the coefficient `request_seconds`. `exclusive_prefill`: prompts
    have steps of their own and decodes wait (SGLang's default), so the token budget is the prompts' alone.
    """

    isl_tokens: float
    osl_tokens: float
    max_num_batched_tokens: int
    max_num_seqs: int
    request_s: float = 0.0
    exclusive_prefill: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for lengths or limits no engine can run."""
        if self.isl_tokens < 1 or self.osl_tokens < 1:
            raise ValueError(
                f"mean lengths {self.isl_tokens:g} in, {self.osl_tokens:g} out: both must be at least 1 token"
            )
        if self.max_num_batched_tokens < 1 or self.max_num_seqs < 1:
            raise ValueError("max_num_batched_tokens and max_num_seqs must both be at least 1")

    @property
    def mean_context_tokens(self) -> float:
        """Context of a decoding request half way through its answer."""
        return self.isl_tokens + self.osl_tokens / 2


class HoldsRequests(Protocol):
    """What K needs of a memory account (`estimator.memory.MemoryAccount`)."""

    def max_concurrency(self, length_tokens: float) -> float:
        """Requests of a length that fit at once."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one replica for a mean request and its targets."""

    k_requests: float
    """K: requests of mean length that memory holds."""
    l_requests: int | None
    """L: requests at once whose TPOT stays within its target; 0 when one is too slow, None without a target."""
    concurrency_limit: int
    """Requests at once that every bound allows."""
    zero_load_ttft_s: float
    zero_load_tpot_s: float
    capacity_rps: float
    """Requests a second at which the limit is reached: where a search for goodput starts, not goodput itself."""
    binding: str
    """What stops it: KV memory (K), TPOT (L), TTFT, E2E, max_num_seqs or token budget (utilisation 1)."""


Batch = tuple[float, float, float, float, float, float]


def _batch(p: Parameters, decodes: float, context: float, prefill: float, pairs: float, prompts: float) -> Batch:
    """A step of `decodes` sequences at `context` tokens and `prefill` tokens of `prompts` prompts, as its amounts."""
    windowed = min(context, p[WINDOW_INDEX])
    amounts = (decodes + prefill, decodes + prompts, decodes * context, decodes * windowed, pairs, prefill)
    # All floats: every other mixture of types would be compiled on its own.
    tokens, sequences, full, window, pair, prompt = map(float, amounts)
    return tokens, sequences, full, window, pair, prompt


def _step(p: Parameters, decodes: float, context: float, prefill: float, pairs: float, prompts: float) -> float:
    seconds: float = step_seconds(p, *_batch(p, decodes, context, prefill, pairs, prompts))
    return seconds


def decode_step_seconds(p: Parameters, batch: float, context_tokens: float) -> float:
    """Seconds of a pure decode step of `batch` sequences at `context_tokens` each."""
    return _step(p, batch, context_tokens, 0.0, 0.0, 0.0)


def decode_step_terms(p: Parameters, batch: float, context_tokens: float) -> dict[str, float]:
    """The same decode step in seconds by term (`estimator.step_time.STEP_TERMS`): where its time goes."""
    return step_terms(p, *_batch(p, batch, context_tokens, 0.0, 0.0, 0.0))


def decode_tokens_per_s_per_user(p: Parameters, batch: float, context_tokens: float) -> float:
    """Tokens a second that one user sees at a batch, prompts aside."""
    return 1 / decode_step_seconds(p, batch, context_tokens)


def decode_tokens_per_s_per_replica(p: Parameters, batch: float, context_tokens: float) -> float:
    """Tokens a second of the whole replica at a batch, prompts aside."""
    return batch / decode_step_seconds(p, batch, context_tokens)


def prefill_seconds(p: Parameters, isl_tokens: float, max_num_batched_tokens: int) -> float:
    """Seconds to prefill one prompt alone, in chunks of at most `max_num_batched_tokens`; the last yields a token."""
    return sum(_step(p, *chunk) for chunk in _chunks(isl_tokens, float(max_num_batched_tokens)))


def prefill_terms(p: Parameters, isl_tokens: float, max_num_batched_tokens: int) -> dict[str, float]:
    """The same prefill in seconds by term (`estimator.step_time.STEP_TERMS`), summed over its chunks."""
    found: dict[str, float] = {}
    for chunk in _chunks(isl_tokens, float(max_num_batched_tokens)):
        for term, seconds in step_terms(p, *_batch(p, *chunk)).items():
            found[term] = found.get(term, 0.0) + seconds
    return found


def _chunks(isl_tokens: float, budget: float) -> Iterator[tuple[float, float, float, float, float]]:
    """The steps of one prompt alone: (decodes, context, prefill, pairs, prompts) of each."""
    done = 0.0
    while done < isl_tokens:
        chunk = min(isl_tokens - done, budget)
        yield 0.0, 0.0, chunk, chunk * (done + chunk / 2), 1.0
        done += chunk


def zero_load_ttft_seconds(p: Parameters, load: MeanLoad) -> float:
    """Arrival to first token on an idle replica. Nothing the replica does under load is faster: the TTFT bound."""
    return load.request_s + prefill_seconds(p, load.isl_tokens, load.max_num_batched_tokens)


def zero_load_tpot_seconds(p: Parameters, load: MeanLoad) -> float:
    """Seconds between tokens of a request that is alone."""
    return decode_step_seconds(p, 1.0, load.mean_context_tokens)


def _decoding(load: MeanLoad, concurrency: float) -> float:
    """Requests that decode: past the point where prompts and decodes fill the token budget, more only queue."""
    if load.exclusive_prefill:
        return concurrency
    full = load.max_num_batched_tokens * load.osl_tokens / (load.isl_tokens + load.osl_tokens)
    return min(concurrency, 1.0 + full)


def tpot_seconds(p: Parameters, load: MeanLoad, concurrency: float) -> float:
    """Mean-field TPOT at `concurrency` requests in the engine, the others' prefills included.

    While one request decodes OSL tokens each of the C - 1 others prefills once, so (C-1)/OSL prompts fall on a step:
    TPOT = t(C) + (C-1)/OSL [t(C-1 decodes + a prompt) - t(C)]. Where more than one prompt falls on a step they share
    it, and a prompt longer than the token budget takes several steps. Against closed-loop measurements of three engines
    this is as accurate as simulating every step (median error of TPOT 11.0 against 10.8 %).
    With exclusive prefill decodes wait for the prompts' steps: TPOT = t(C) + (C-1)/OSL t(prompt).
    """
    context = load.mean_context_tokens
    decoding = _decoding(load, concurrency)
    plain = decode_step_seconds(p, decoding, context)
    others = max(decoding - 1.0, 0.0)
    prompts_per_step = others / load.osl_tokens
    if prompts_per_step <= 0.0:
        return plain
    room = _room(load, others)
    chunk = min(load.isl_tokens * max(1.0, prompts_per_step), room)
    if load.exclusive_prefill:
        alone = _step(p, 0.0, context, chunk, chunk * load.isl_tokens / 2, max(1.0, chunk / load.isl_tokens))
        return plain + prompts_per_step * load.isl_tokens / chunk * alone
    share_of_steps = min(prompts_per_step * load.isl_tokens / chunk, 1.0)
    mixed = _step(p, others, context, chunk, chunk * load.isl_tokens / 2, max(1.0, prompts_per_step))
    return plain + share_of_steps * max(mixed - plain, 0.0)


def ttft_seconds(p: Parameters, load: MeanLoad, concurrency: float) -> float:
    """Mean TTFT beside `concurrency` requests when none waits for a place: request overhead, half the running step, own
    prefill in steps shared with the decodes, or in steps of its own. Queues are the replay's to find."""
    decoding = _decoding(load, concurrency)
    context = load.mean_context_tokens
    others = max(decoding - 1.0, 0.0)
    seconds = load.request_s + min(others, 1.0) * decode_step_seconds(p, decoding, context) / 2
    room = _room(load, others)
    beside = 0.0 if load.exclusive_prefill else others
    done = 0.0
    while done < load.isl_tokens:
        chunk = min(load.isl_tokens - done, room)
        seconds += _step(p, beside, context, chunk, chunk * (done + chunk / 2), 1.0)
        done += chunk
    return seconds


def e2e_seconds(p: Parameters, load: MeanLoad, concurrency: float) -> float:
    """Mean arrival-to-last-token time beside `concurrency` requests when none waits for a place."""
    return ttft_seconds(p, load, concurrency) + (load.osl_tokens - 1) * tpot_seconds(p, load, concurrency)


def _room(load: MeanLoad, others: float) -> float:
    """Prompt tokens of a step beside `others` decodes."""
    beside = 0.0 if load.exclusive_prefill else others
    return max(load.max_num_batched_tokens - beside, 1.0)


def saturated_rps(p: Parameters, load: MeanLoad) -> float:
    """Requests a second when every step fills its token budget: utilisation 1, past which any queue grows.

    With exclusive prefill the rate at which prompts alone fill all steps; the decodes' share is in the TPOT.
    """
    budget = float(load.max_num_batched_tokens)
    if load.exclusive_prefill:
        prompts = budget / load.isl_tokens
        return prompts / _step(p, 0.0, load.mean_context_tokens, budget, budget * load.isl_tokens / 2, prompts)
    requests = budget / (load.isl_tokens + load.osl_tokens - 1)
    prefill = requests * load.isl_tokens
    return requests / _step(
        p, budget - prefill, load.mean_context_tokens, prefill, prefill * load.isl_tokens / 2, requests
    )


def rate_at(p: Parameters, load: MeanLoad, concurrency: float) -> float:
    """Requests a second that keep `concurrency` requests in the engine (Little's law), below saturation."""
    in_engine_s = e2e_seconds(p, load, concurrency) - load.request_s
    return min(concurrency / in_engine_s, saturated_rps(p, load))


def concurrency_at(p: Parameters, load: MeanLoad, rate_rps: float, at_most: float) -> float:
    """Mean requests in the engine at an open-loop rate; infinite when the rate takes more than `at_most`."""
    if rate_at(p, load, at_most) < rate_rps:
        return math.inf
    low, high = 0.0, float(at_most)
    for _ in range(50):
        middle = (low + high) / 2
        if rate_at(p, load, middle) < rate_rps:
            low = middle
        else:
            high = middle
    return high


def _largest(holds: Callable[[int], bool], at_most: int) -> int:
    """The largest count from 0 to `at_most` for which `holds` is true; it must not become true again once false."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def largest_batch(p: Parameters, load: MeanLoad, tpot_target_s: float, at_most: int = LARGEST_BATCH) -> int:
    """L: the most requests at once, up to `at_most`, whose mean-field TPOT meets its target; 0 if one is too slow."""
    return _largest(lambda requests: tpot_seconds(p, load, requests) <= tpot_target_s, at_most)


def bounds(
    p: Parameters,
    account: HoldsRequests,
    *,
    isl_tokens: float,
    osl_tokens: float,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    request_s: float = 0.0,
    ttft_target_s: float | None = None,
    tpot_target_s: float | None = None,
    e2e_target_s: float | None = None,
    exclusive_prefill: bool = False,
) -> Bounds:
    """K, L, the TTFT bound, the one that binds, and the rate at which it does, for a mean request.

    The capacity is the largest rate whose mean-field TTFT, TPOT and E2E meet their targets (None: no target) with at
    most min(K, max_num_seqs) requests in the engine and utilisation below 1. Means, and no queue: a start for the
    search for goodput. 0 when even an idle replica misses a target. Raises ValueError for lengths or limits below 1.
    """
    load = MeanLoad(isl_tokens, osl_tokens, max_num_batched_tokens, max_num_seqs, request_s, exclusive_prefill)
    k_requests = account.max_concurrency(isl_tokens + osl_tokens)
    limits = {"KV memory (K)": math.floor(min(k_requests, LARGEST_BATCH)), "max_num_seqs": max_num_seqs}
    at_most = min(limits.values())
    l_requests = None if tpot_target_s is None else largest_batch(p, load, tpot_target_s)
    if l_requests is not None:
        limits["TPOT (L)"] = l_requests
    if ttft_target_s is not None:
        limits["TTFT"] = _largest(lambda n: ttft_seconds(p, load, n) <= ttft_target_s, at_most)
    if e2e_target_s is not None:
        limits["E2E"] = _largest(lambda n: e2e_seconds(p, load, n) <= e2e_target_s, at_most)
    binding = min(limits, key=lambda name: limits[name])
    limit = limits[binding]
    if limits[binding] == at_most:
        # A target that is met at the cap does not bind; the cap does.
        binding = min(("KV memory (K)", "max_num_seqs"), key=lambda name: limits[name])
    capacity = rate_at(p, load, limit) if limit > 0 else 0.0
    if capacity >= saturated_rps(p, load):
        binding = "token budget"
    return Bounds(
        k_requests=k_requests,
        l_requests=l_requests,
        concurrency_limit=limit,
        zero_load_ttft_s=zero_load_ttft_seconds(p, load),
        zero_load_tpot_s=zero_load_tpot_seconds(p, load),
        capacity_rps=capacity,
        binding=binding,
    )
