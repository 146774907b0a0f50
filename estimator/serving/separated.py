"""Prefill and decode in pools of their own, under clients with no think time.

Belongs here: mean TTFT and TPOT of such a benchmark. Does not: replays of separated pools (`estimator.replay`).

Mean field: C clients are either at the prefill pool or decoding. A prefill worker takes as many prompts at once as its
batch allows; a decode worker steps with its share of the decoding requests. Of the k requests of each client the first
meets all the others at the prefill pool (the start-up burst), the later ones a queue in balance with the decode pool.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from estimator.bounds import decode_step_seconds, prefill_seconds
from estimator.serving.case import Layout, ServingCase
from estimator.step_time import one_way_link_bytes_per_s, step_parameters

Floats = NDArray[np.float64]

_ROUNDS = 60


def balance(case: ServingCase, coefficients: Mapping[str, float]) -> tuple[float, float]:
    """Sequences that a rank of the decode pool steps with, and their mean context in tokens."""
    _, _, batch, context = _settled(case, coefficients)
    return batch, context


def separated_seconds(case: ServingCase, coefficients: Mapping[str, float]) -> tuple[float, float]:
    """Mean TTFT (request overhead aside) and mean TPOT in seconds. Raises ValueError for what it does not cover."""
    ttft_s, tpot_s, _, _ = _settled(case, coefficients)
    return ttft_s, tpot_s


def _settled(case: ServingCase, coefficients: Mapping[str, float]) -> tuple[float, float, float, float]:
    prefill, protocol = case.prefill, case.protocol
    if prefill is None or protocol.concurrency is None:
        raise ValueError("separated pools are predicted in a closed loop only")
    mean_ratio = (protocol.shortest_ratio + 1) / 2
    isl, osl = case.isl_tokens * mean_ratio, max(2.0, case.osl_tokens * mean_ratio)
    decode_p = pool_parameters(case, case.layout, coefficients)
    one_s = prefill_seconds(
        pool_parameters(case, prefill, coefficients), isl, max(case.max_num_batched_tokens, round(isl))
    )
    servers = prefill.workers * prefill.dp
    handoff_s = _handoff_s(case, prefill, isl)
    clients = protocol.concurrency
    ranks = case.layout.workers * case.layout.dp
    slots = float(case.layout.workers * case.layout.batch) if case.layout.batch else clients
    context = isl + osl / 2
    prefill_s = one_s
    decoding = min(clients, slots)
    tpot_s = 0.0
    for _ in range(_ROUNDS):
        tpot_s = float(decode_step_seconds(decode_p, max(1.0, decoding / ranks), context))
        stay_s = (osl - 1) * tpot_s
        # Schweitzer's approximation of a closed network: a new prompt finds the queue that one client fewer leaves.
        rate = clients / (prefill_s + handoff_s + stay_s)
        waiting = min(clients, rate * prefill_s) * (clients - 1) / clients
        found_s = one_s * (1 + max(0.0, waiting - (servers - 1)) / servers)
        prefill_s = (prefill_s + found_s) / 2
        decoding = (decoding + min(slots, clients * stay_s / (prefill_s + handoff_s + stay_s))) / 2
    burst_s = one_s * (1 + max(0.0, clients / servers - 1) / 2)
    first = 1 / protocol.prompts_per_client
    ttft_s = first * burst_s + (1 - first) * prefill_s + handoff_s + tpot_s
    return ttft_s, tpot_s, max(1.0, decoding / ranks), context


def pool_parameters(case: ServingCase, layout: Layout, coefficients: Mapping[str, float]) -> Floats:
    """Step parameters of a worker of one pool; of one rank with DP attention."""
    return step_parameters(
        case.architecture,
        case.weights,
        case.accelerator,
        layout.tp,
        coefficients,
        layout.ep,
        case.kv_cache_bytes,
        layout.dp,
    )


def _handoff_s(case: ServingCase, prefill: Layout, isl: float) -> float:
    """The prompt's KV over the links of one attention rank's GPUs."""
    elements = sum(
        layer.attention.kv_elements_per_token / layer.attention.compress_ratio for layer in case.architecture.layers
    )
    return elements * case.kv_cache_bytes * isl / (one_way_link_bytes_per_s(case.accelerator) * prefill.tp)
