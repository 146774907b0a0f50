"""The compiled loops against many reference engines in one order of time: routers, outages, ranks, pools and links."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import (
    OUTCOMES,
    Adapters,
    EngineLimits,
    Handoff,
    Outage,
    Pool,
    Speculation,
    Tier,
    Workload,
    crash,
    replay,
    replay_separated,
)
from tests.estimator.reference_fleet import serve_fleet
from tests.estimator.reference_pools import serve_separated
from tests.estimator.replay_cases import physical_step, returning, workloads

EXPERTS = {"expert_read_s": 4e-3, "expert_unused_share": 0.9, "expert_flops_s_per_token": 2e-4}
"""Ranks in lockstep share them: a wrong mean of their tokens shows in the times."""

# A run of several blocks under one hash is held whole, by the reference block by block: usage tells them apart.
ONE_BLOCK_A_HASH = workloads(4, hash_blocks=(1,)) | returning(4)


def limits_of(data: st.DataObject, **given_limits: Any) -> EngineLimits:
    """Limits that bind."""
    drawn = {
        "kv_blocks": data.draw(st.integers(24, 44)),
        "block_tokens": 4,
        "max_num_seqs": data.draw(st.integers(1, 8)),
        "max_num_batched_tokens": data.draw(st.sampled_from([12, 32, 100])),
        "max_model_len": 90,
        "prefix_caching": data.draw(st.booleans()),
        "exclusive_prefill": data.draw(st.booleans()),
        "output_reserve": data.draw(st.sampled_from([0.0, 0.0, 0.098])),
        "long_prefill_threshold": data.draw(st.sampled_from([0, 0, 9])),
        "priority_scheduling": data.draw(st.booleans()),
        "max_waiting": data.draw(st.sampled_from([0, 0, 3])),
    }
    return EngineLimits(**{**drawn, **given_limits})


def same(result: np.ndarray, expected: Any, name: str) -> None:
    np.testing.assert_array_equal(result, np.asarray(expected), err_msg=name)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_fleet_sees_the_times_the_rules_give_it(data: st.DataObject) -> None:
    workload: Workload = data.draw(ONE_BLOCK_A_HASH)
    n = len(workload)
    limits = limits_of(data)
    warm = limits.prefix_caching and workload.prefix_block_tokens >= 4 and data.draw(st.booleans())
    options: dict[str, Any] = {
        "replicas": data.draw(st.integers(1, 3)),
        "ranks": data.draw(st.sampled_from([1, 1, 2, 3])),
        "router": data.draw(st.sampled_from(["round_robin", "least_load", "prefix"])),
        "speculation": data.draw(st.sampled_from([None, None, Speculation.per_token(3, 0.6, 1e-3)])),
        "adapters": data.draw(st.sampled_from([None, Adapters(2, 0.01)])),
        "warm_hashes": np.asarray(data.draw(st.permutations(range(workload.hashes)))) if warm else None,
    }
    asked = workload.asking(
        adapter=data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)),
        priority=data.draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n)),
    )
    if options["warm_hashes"] is None and data.draw(st.booleans()):
        options |= {"host": Tier(60, 1e-3, 2e-3), "async_loads": data.draw(st.booleans())}
    if options["ranks"] > 1 and data.draw(st.booleans()):
        options |= {"clients": data.draw(st.integers(1, 5)), "request_seconds": data.draw(st.sampled_from([0.0, 0.01]))}
    else:
        asked = asked.asking(patience_s=data.draw(st.sampled_from([np.inf, 0.3])))
        if data.draw(st.booleans()):
            away = data.draw(st.sampled_from([crash(0, 0.05, 0.1), Outage(0, 0.02, 0.1), Outage(0, 0.0, 0.03, 0.1)]))
            options |= {"outages": [away], "resend": data.draw(st.booleans())}
        elif options["router"] != "prefix":
            options["router_stale_s"] = data.draw(st.sampled_from([0.0, 0.05]))
    step = physical_step(**EXPERTS)
    expected, pool = serve_fleet(asked, step, limits, **options)
    result = replay(asked, step, limits, series_bins=8, **options)
    extra_s = options.get("request_seconds", 0.0)
    start = np.asarray([q.queued_s for q in expected])
    same(result.queue_s, np.asarray([q.admitted_s for q in expected]) - start, "queue")
    same(result.ttft_s, np.asarray([q.first_s for q in expected]) - start + extra_s, "ttft")
    same(result.e2e_s, np.asarray([q.end_s for q in expected]) - start + extra_s, "e2e")
    same(result.preemptions, [q.preemptions for q in expected], "preemptions")
    same(result.cached_tokens, [q.cached for q in expected], "cached")
    same(
        result.replica * options["ranks"] + result.rank,
        [q.engine if q.sends else -options["ranks"] - 1 for q in expected],
        "rank",
    )
    same(result.sends, [q.sends for q in expected], "sends")
    for outcome in ("refused", "cancelled", "lost"):
        same(result.outcome == OUTCOMES.index(outcome), [q.outcome == outcome for q in expected], outcome)
    assert result.gap_counts.sum() == sum(q.gaps for q in expected)
    series = result.series
    assert series is not None
    for name, values in (("running", series.running), ("waiting", series.waiting), ("used", series.kv_usage)):
        for i in range(len(series.start_s)):
            low, high = i * series.bin_s, (i + 1) * series.bin_s
            held = sum(getattr(s, name) * max(0.0, min(high, s.end_s) - max(low, s.start_s)) for s in pool.steps)
            per = series.bin_s * (limits.kv_blocks * len(pool.engines) if name == "used" else 1)
            np.testing.assert_allclose(values[i], held / per, rtol=1e-7, atol=1e-9, err_msg=f"{name} in bin {i}")


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_two_pools_and_their_links_see_the_times_the_rules_give_them(data: st.DataObject) -> None:
    workload: Workload = data.draw(ONE_BLOCK_A_HASH)
    drafts = data.draw(st.sampled_from([None, None, Speculation.per_token(3, 0.6, 1e-3)]))
    routers: st.SearchStrategy[Any] = st.sampled_from(["round_robin", "least_load", "prefix"])
    prefill, decode = (
        Pool(step, limits_of(data), data.draw(st.integers(1, 2)), data.draw(routers), data.draw(ranks), speculation)
        for step, ranks, speculation in (
            (physical_step(**EXPERTS), st.sampled_from([1, 1, 2]), None),
            (physical_step(step_overhead_s=2e-3, **EXPERTS), st.sampled_from([1, 1, 2]), drafts),
        )
    )
    handoff = Handoff(
        bytes_per_token=1.0,
        bytes_per_s=data.draw(st.sampled_from([200.0, 3e3, 1e6])),
        post_seconds=data.draw(st.sampled_from([0.0, 3e-3])),
        at_once=data.draw(st.sampled_from([0, 1, 2])),
        link=data.draw(st.sampled_from(["prefill", "decode", "fleet"])),
        first_token=data.draw(st.sampled_from(["prefill", "with_kv", "decode"])),
    )
    options: dict[str, Any] = {}
    if data.draw(st.booleans()):
        options = {"clients": data.draw(st.integers(1, 5)), "request_seconds": data.draw(st.sampled_from([0.0, 0.01]))}
    else:
        workload = workload.asking(patience_s=data.draw(st.sampled_from([np.inf, np.inf, 0.3])))
    expected = serve_separated(workload, prefill, decode, handoff, **options)
    result = replay_separated(workload, prefill, decode, handoff, **options)
    client = result.client
    extra_s = options.get("request_seconds", 0.0)
    start = np.asarray([h.front.queued_s for h in expected])
    same(client.queue_s, np.asarray([h.front.admitted_s for h in expected]) - start, "queue")
    same(client.ttft_s, np.asarray([h.back.first_s for h in expected]) - start + extra_s, "ttft")
    same(client.e2e_s, np.asarray([h.back.end_s for h in expected]) - start + extra_s, "e2e")
    handed = np.asarray([h.handed_s for h in expected])
    same(result.blocks_wait_s, np.asarray([h.reserved_s for h in expected]) - handed, "blocks")
    same(result.visible_wait_s, np.asarray([h.back.admitted_s for h in expected]) - handed, "visible")
    same(result.transfer_s, np.asarray([h.arrived_s - h.started_s for h in expected]), "transfer")
    same(client.preemptions, [h.front.preemptions + h.back.preemptions for h in expected], "preemptions")
    same(result.prefill.cached_tokens, [h.front.cached for h in expected], "cached")
    for outcome in ("refused", "cancelled"):
        ended_so = [outcome in (h.front.outcome, h.back.outcome) for h in expected]
        same(client.outcome == OUTCOMES.index(outcome), ended_so, outcome)
