"""What a benchmark of one configuration should measure.

Belongs here: mean TTFT, TPOT and E2E of a case from step coefficients. Does not: coefficients and their fit.
"""

from __future__ import annotations

from collections.abc import Mapping

from estimator.bounds import MeanLoad, concurrency_at, decode_step_seconds, prefill_seconds, tpot_seconds, ttft_seconds
from estimator.serving.case import ServingCase
from estimator.step_time import step_parameters

METRICS = ("ttft_mean_ms", "tpot_mean_ms", "e2e_mean_ms", "ttft_p99_ms")
"""What `predict` answers, each None where it has no figure."""


def predict(case: ServingCase, coefficients: Mapping[str, float]) -> dict[str, float | None]:
    """Mean TTFT, TPOT and E2E in milliseconds (and TTFT P99 in an open loop), by metric of METRICS.

    Raises ValueError for a configuration that cannot be predicted, with the reason.
    """
    layout, protocol = case.layout, case.protocol
    if case.prefill is not None or layout.dp > 1 or layout.pp > 1:
        raise ValueError("separated pools, DP attention and pipeline stages are not predicted yet")
    mean_ratio = (protocol.shortest_ratio + 1) / 2
    isl, osl = max(1.0, mean_ratio * case.isl_tokens - protocol.shared_prefix_tokens), mean_ratio * case.osl_tokens
    p = step_parameters(
        case.architecture, case.weights, case.accelerator, layout.tp, coefficients, layout.ep, case.kv_cache_bytes
    )
    load = MeanLoad(isl, max(1.0, osl), case.max_num_batched_tokens, case.max_num_seqs, coefficients["request_seconds"])
    if protocol.concurrency is not None:
        clients = protocol.concurrency
        tpot_s = tpot_seconds(p, load, clients)
        one_s = prefill_seconds(p, isl, case.max_num_batched_tokens)
        first = 1 / protocol.prompts_per_client
        ttft_s = load.request_s + (1 - first) * (one_s + tpot_s / 2) + first * (clients + 1) / 2 * one_s
        return _answer(ttft_s, tpot_s, osl, None)
    assert protocol.rate_rps is not None
    clients = concurrency_at(p, load, protocol.rate_rps, case.max_num_seqs)
    if clients > case.max_num_seqs:
        raise ValueError(
            f"{protocol.rate_rps:g} requests a second are more than the configuration serves: its queue grows"
        )
    tpot_s = tpot_seconds(p, load, clients)
    ttft_s = ttft_seconds(p, load, clients)
    return _answer(ttft_s, tpot_s, osl, (ttft_s + decode_step_seconds(p, clients, isl)) * 1e3)


def _answer(ttft_s: float, tpot_s: float, osl: float, ttft_p99_ms: float | None) -> dict[str, float | None]:
    e2e_s = ttft_s + (osl - 1) * tpot_s
    values = (ttft_s * 1e3, tpot_s * 1e3, e2e_s * 1e3, ttft_p99_ms)
    return dict(zip(METRICS, values, strict=True))
