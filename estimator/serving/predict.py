"""What a benchmark of one configuration should measure.

Belongs here: mean TTFT, TPOT and E2E of a case from step coefficients. Does not: coefficients and their fit (`fit`),
separated pools (`separated`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from estimator.replay import EngineLimits, Workload, replay
from estimator.serving.case import ServingCase
from estimator.serving.composition import Composition, Load, composition, per_rank
from estimator.serving.separated import pool_parameters, separated_seconds
from estimator.step_time import outside_s

METRICS = ("ttft_mean_ms", "tpot_mean_ms", "e2e_mean_ms", "ttft_p99_ms")
"""What `predict` answers, each None where it has no figure."""
POOL_UNSTATED = ("sglang",)
"""Engines whose launch scripts each set the KV pool's share of memory: measured runs hold up to four times what the
default leaves, so their clients are not made to wait for it."""
JITTER = 0.1
"""Fixed lengths are spread by this share where prompts share steps with decodes: servers do not keep clients in step
(measured: closed loops of vLLM and TensorRT-LLM with fixed lengths do not show the waves that exact lengths give)."""
PADS_RANKS = ("vllm",)
"""Engines whose attention ranks each run as many tokens as the busiest, padding included: vLLM with CUDA graphs
(assumed from `coordinate_batch_across_dp`; measured runs agree)."""
_REPLAYED_REQUESTS = 4_000
"""Of an open loop at most: means and P99 of a steady rate do not move beyond."""
_BLOCK_TOKENS = 16

Floats = NDArray[np.float64]


def parameters(case: ServingCase, coefficients: Mapping[str, float]) -> Floats:
    """Step parameters of the case's engine; of one rank with DP attention."""
    return pool_parameters(case, case.layout, coefficients)


def request_s(case: ServingCase, coefficients: Mapping[str, float]) -> float:
    """Seconds of a request outside the engine: per request, per prompt token, and per client of a closed loop."""
    clients = case.protocol.concurrency or 0.0
    return outside_s(coefficients, case.isl_tokens, 0.0) + clients * coefficients["client_overhead_ms"] * 1e-3


def closed_loop(case: ServingCase) -> Composition:
    """The steps of a closed loop on one engine, of one rank with DP attention."""
    protocol, layout = case.protocol, case.layout
    assert protocol.concurrency is not None
    clients = max(1, round(protocol.concurrency / layout.workers))
    shortest, longest = protocol.shortest_ratio, 1.0
    if shortest == longest and not case.exclusive_prefill:
        shortest, longest = 1 - JITTER, 1 + JITTER
    isl = _range(case.isl_tokens - protocol.shared_prefix_tokens, shortest, longest)
    found = composition(
        Load(
            clients=clients,
            requests=max(clients, round(clients * protocol.prompts_per_client)),
            isl=isl,
            osl=_range(case.osl_tokens, shortest, longest),
            max_num_batched_tokens=case.max_num_batched_tokens * layout.dp,
            max_num_seqs=_seats(case),
            exclusive_prefill=case.exclusive_prefill,
        )
    )
    return per_rank(found, layout.dp, padded=case.engine in PADS_RANKS)


def _seats(case: ServingCase) -> int:
    """Sequences that run at once: no more than the KV cache holds at the mean context of a request. Others wait."""
    layout, protocol = case.layout, case.protocol
    most = layout.batch or case.max_num_seqs * layout.dp
    if case.kv_tokens is None or case.engine in POOL_UNSTATED:
        return most
    context = (case.isl_tokens + case.osl_tokens / 2) * (1 + protocol.shortest_ratio) / 2
    return min(most, max(1, int(case.kv_tokens // context)))


def predict(case: ServingCase, coefficients: Mapping[str, float]) -> dict[str, float | None]:
    """Mean TTFT, TPOT and E2E in milliseconds (and TTFT P99 in an open loop), by metric of METRICS.

    Raises ValueError for a configuration that cannot be predicted, with the reason.
    """
    if case.layout.pp > 1 or (case.prefill and case.prefill.pp > 1):
        raise ValueError("pipeline stages are not predicted: no measured time tells what a stage costs")
    if case.prefill is not None:
        ttft_s, tpot_s = separated_seconds(case, coefficients)
        return _answer(case, ttft_s + request_s(case, coefficients), tpot_s, None)
    p = parameters(case, coefficients)
    if case.protocol.concurrency is None:
        return _open_loop(case, p, request_s(case, coefficients), coefficients["first_token_steps"])
    ttft_s, tpot_s = closed_loop(case).seconds(p)
    ttft_s += request_s(case, coefficients) + (case.admission_wait_steps + coefficients["first_token_steps"]) * tpot_s
    return _answer(case, ttft_s, tpot_s, None)


def _open_loop(case: ServingCase, p: Floats, outside_s: float, trailing: float) -> dict[str, float | None]:
    """A replay of evenly spaced arrivals; a first token trails its step by `trailing` steps.

    Attention ranks step in lockstep, each with its share of the KV pool. Raises ValueError when the queue grows: its
    figures depend on how long.
    """
    protocol, ranks = case.protocol, case.layout.dp
    assert protocol.rate_rps is not None
    n = max(200, min(protocol.requests or _REPLAYED_REQUESTS, _REPLAYED_REQUESTS))
    isl, osl = round(case.isl_tokens), max(1, round(case.osl_tokens))
    shared = int(min(protocol.shared_prefix_tokens, isl - 1)) // _BLOCK_TOKENS
    workload = Workload.of(
        np.arange(n) / protocol.rate_rps,
        np.full(n, isl),
        np.full(n, osl),
        np.arange(n + 1) * shared,
        np.tile(np.arange(shared), n),
        _BLOCK_TOKENS,
    )
    limits = EngineLimits(
        kv_blocks=int(case.kv_tokens or ranks * case.max_num_seqs * (isl + osl)) // (ranks * _BLOCK_TOKENS) + 1,
        max_num_seqs=case.max_num_seqs,
        max_num_batched_tokens=case.max_num_batched_tokens,
        max_model_len=isl + osl + 1,
        prefix_caching=shared > 0,
        exclusive_prefill=case.exclusive_prefill,
    )
    found = replay(workload, p, limits, replicas=case.layout.workers, ranks=ranks, request_seconds=outside_s)
    late = found.ttft_s[n // 2 :].mean()
    if late > 3 * found.ttft_s[: n // 2].mean() and late > 1.0:
        raise ValueError(
            f"{protocol.rate_rps:g} requests a second are more than the configuration serves: its queue grows"
        )
    steady = found.ttft_s[n // 20 :]
    tpot_s = float(np.nanmean(found.tpot_s[n // 20 :])) if osl > 1 else 0.0
    mean_s, p99_s = (float(figure) + trailing * tpot_s for figure in (steady.mean(), np.quantile(steady, 0.99)))
    return _answer(case, mean_s, tpot_s, p99_s * 1e3)


def _answer(case: ServingCase, ttft_s: float, tpot_s: float, ttft_p99_ms: float | None) -> dict[str, float | None]:
    osl = case.osl_tokens * (case.protocol.shortest_ratio + 1) / 2
    e2e_s = ttft_s + max(0.0, osl - 1) * tpot_s
    # An answer of one token has no time between tokens.
    tpot_ms = tpot_s * 1e3 if case.osl_tokens > 1 else None
    return dict(zip(METRICS, (ttft_s * 1e3, tpot_ms, e2e_s * 1e3, ttft_p99_ms), strict=True))


def _range(tokens: float, shortest: float, longest: float) -> tuple[int, int]:
    return max(1, round(tokens * shortest)), max(1, round(tokens * longest))
