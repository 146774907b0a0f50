"""The loop in one order of time: the fast loops over again where those do, ranks in lockstep where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import (
    Adapters,
    EngineLimits,
    Outage,
    Speculation,
    Tier,
    Workload,
    crash,
    replay,
    simulate,
    state,
)
from estimator.replay.links import new_links, new_moves, new_way
from estimator.replay.stepwise import run_stepwise
from tests.estimator.replay_cases import physical_step, returning, roomy, step_of, workloads

STEP_S = 0.01


@contextmanager
def in_one_order_of_time() -> Iterator[None]:
    """Replays go through the stepwise loop though their engines could run ahead of each other."""

    def run(fleet: state.Fleet, p: np.ndarray, gone: Any, router: int, stale_s: float, request_s: float) -> None:
        if fleet.ports is None:
            fleet = simulate.connected(fleet, fleet.hashes.shape[1])
        nobody = simulate.nowhere(fleet)
        run_stepwise(
            fleet, nobody, p, p, gone, new_moves(0), new_links(0), new_way(), (router, router), stale_s, request_s
        )

    none = np.zeros(0, dtype=state.OUTAGE)
    with (
        patch.object(simulate, "run_open", lambda f, p, gone, router, stale_s: run(f, p, gone, router, stale_s, 0.0)),
        patch.object(simulate, "run_closed", lambda f, p, router, request_s: run(f, p, none, router, 0.0, request_s)),
    ):
        yield


PER_REQUEST = (
    "arrival_s",
    "ttft_s",
    "e2e_s",
    "queue_s",
    "itl_max_s",
    "replica",
    "cached_tokens",
    "host_tokens",
    "remote_tokens",
    "preemptions",
    "outcome",
    "sends",
    "osl_tokens",
    "gap_counts",
)
PER_FLEET = ("running_mean", "waiting_max", "kv_usage_p99", "max_active_tokens", "busy_share", "steps", "makespan_s")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_one_rank_a_replica_is_the_fast_loop_to_the_last_bit(data: st.DataObject) -> None:
    workload = data.draw(workloads(4) | returning(4))
    n = len(workload)
    often = st.booleans()
    closed = data.draw(often)
    replicas = data.draw(st.integers(1, 3))
    limits = EngineLimits(
        kv_blocks=data.draw(st.integers(24, 40)),
        block_tokens=4,
        max_num_seqs=data.draw(st.integers(1, 8)),
        max_num_batched_tokens=data.draw(st.sampled_from([12, 32, 100])),
        max_model_len=90,
        prefix_caching=data.draw(often),
        long_prefill_threshold=data.draw(st.sampled_from([0, 0, 9])),
        priority_scheduling=data.draw(often),
        max_waiting=data.draw(st.sampled_from([0, 0, 3])),
    )
    tier = Tier(60, 1e-3, 2e-3)
    # A remote tier is one for all replicas, and the fast loop lets replicas run ahead of each other in it.
    options: dict[str, Any] = {
        "replicas": replicas,
        "router": data.draw(st.sampled_from(["round_robin", "least_load", "prefix"])),
        "host": data.draw(st.sampled_from([None, tier])),
        "remote": data.draw(st.sampled_from([None, tier])) if replicas == 1 else None,
        "speculation": data.draw(st.sampled_from([None, Speculation.per_token(3, 0.6, 1e-3)])),
        "adapters": data.draw(st.sampled_from([None, Adapters(2, 0.01)])),
        "async_loads": data.draw(often),
        "series_bins": data.draw(st.sampled_from([0, 8])),
    }
    asked = workload.asking(adapter=data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)))
    if closed:
        options |= {"clients": data.draw(st.integers(1, 5)), "request_seconds": data.draw(st.sampled_from([0.0, 0.01]))}
        options |= {"host": None, "remote": None}
    else:
        asked = asked.asking(patience_s=data.draw(st.sampled_from([np.inf, 0.3])))
        if data.draw(often):
            away = data.draw(st.sampled_from([crash(0, 0.05, 0.1), Outage(0, 0.02, 0.1), Outage(0, 0.0, 0.03, 0.1)]))
            options |= {"outages": [away], "resend": data.draw(often)}
        else:
            options["router_stale_s"] = (
                0.0 if options["router"] == "prefix" else data.draw(st.sampled_from([0.0, 0.05]))
            )
    fast = replay(asked, physical_step(), limits, **options)
    with in_one_order_of_time():
        stepwise = replay(asked, physical_step(), limits, **options)
    for name in PER_REQUEST:
        np.testing.assert_array_equal(getattr(fast, name), getattr(stepwise, name), err_msg=name)
    for name in PER_FLEET:
        assert getattr(fast, name) == pytest.approx(getattr(stepwise, name), rel=1e-12), name
    if fast.series is not None and stepwise.series is not None:
        np.testing.assert_allclose(fast.series.running, stepwise.series.running, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(fast.series.kv_usage, stepwise.series.kv_usage, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_prompt_on_one_rank_keeps_experts_busy_a_share_of_the_time_of_one_on_every_rank(ranks: int) -> None:
    step = step_of(expert_read_s=1e-12, expert_flops_s_per_token=1e-5)
    one, everywhere = (
        replay(Workload.of(np.zeros(n), np.full(n, 1000), np.full(n, 1)), step, roomy(), ranks=ranks)
        for n in (1, ranks)
    )
    assert sorted(everywhere.rank) == list(range(ranks))
    np.testing.assert_allclose(everywhere.ttft_s, 1000 * 1e-5)
    np.testing.assert_allclose(one.ttft_s, 1000 * 1e-5 / ranks)


def test_dense_layers_wait_for_the_rank_with_the_most_tokens() -> None:
    step = step_of(dense_flops_s_per_token=1e-5)
    for n in (1, 4):
        seen = replay(Workload.of(np.zeros(n), np.full(n, 1000), np.full(n, 1)), step, roomy(), ranks=4)
        np.testing.assert_allclose(seen.ttft_s, 1000 * 1e-5)
