"""Prefill and decode apart, ranks in lockstep, loads beside the steps: what they are for, and laws none may break."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import EngineLimits, Handoff, Pool, Separated, Tier, Workload, replay, replay_separated
from estimator.replay.arrivals import poisson
from tests.estimator.replay_cases import constant_step, physical_step, returning, roomy, step_of, workloads

STEP_S = 0.01
TIGHT = EngineLimits(
    kv_blocks=24, block_tokens=4, max_num_seqs=8, max_num_batched_tokens=32, max_model_len=90, prefix_caching=True
)
WAITS = ("blocks_wait_s", "post_s", "link_wait_s", "transfer_s", "place_wait_s")

ways = st.builds(
    Handoff,
    bytes_per_token=st.just(1.0),
    bytes_per_s=st.sampled_from([300.0, 5e3, 1e7]),
    post_seconds=st.sampled_from([0.0, 2**-8]),
    at_once=st.integers(0, 2),
    link=st.sampled_from(["prefill", "decode", "fleet"]),
    first_token=st.sampled_from(["prefill", "with_kv", "decode"]),
)


def served(workload: Workload, way: Handoff, step: np.ndarray | None = None, **options: Any) -> Separated:
    step = physical_step() if step is None else step
    pool = Pool(step, TIGHT, 2)
    return replay_separated(workload, pool, pool, way, **options)


@settings(max_examples=80, deadline=None)
@given(workloads(4), ways, st.sampled_from([0, 0, 3]))
def test_no_request_is_lost_between_the_pools_and_its_waits_add_up(w: Workload, way: Handoff, clients: int) -> None:
    result = served(w, way, clients=clients)
    client = result.client
    too_long = (w.isl_tokens >= TIGHT.max_model_len) | (w.isl_tokens > TIGHT.kv_tokens)
    np.testing.assert_array_equal(np.isfinite(client.e2e_s), ~too_long)
    assert (client.ttft_s[~too_long] <= client.e2e_s[~too_long]).all()
    assert (client.ttft_s[~too_long] > client.queue_s[~too_long]).all()
    for name in WAITS:
        waits = getattr(result, name)
        assert (waits[np.isfinite(waits)] >= -1e-12).all(), name
    total = sum(getattr(result, name) for name in WAITS)
    whole = np.isfinite(result.visible_wait_s) & np.isfinite(total)
    np.testing.assert_allclose(total[whole], result.visible_wait_s[whole], atol=1e-9)
    for pool in (result.prefill, result.decode):
        assert 0 <= pool.kv_usage_p99 <= 1 and 0 <= pool.busy_share <= 1
        assert pool.running_mean <= TIGHT.max_num_seqs
    answered = client.osl_tokens[~too_long].sum()
    assert result.decode.gap_counts.sum() == answered - (~too_long).sum()
    again = served(w, way, clients=clients)
    np.testing.assert_array_equal(client.e2e_s, again.client.e2e_s)


@settings(max_examples=40, deadline=None)
@given(workloads(4), ways)
def test_half_as_fast_under_half_the_rate_is_the_same_machine_link_and_all(w: Workload, way: Handoff) -> None:
    slow_way = replace(way, bytes_per_s=way.bytes_per_s / 2, post_seconds=2 * way.post_seconds)
    fast, slow = served(w, way), served(w.scaled(0.5), slow_way, physical_step() * 2)
    for name in ("ttft_s", "e2e_s", "queue_s"):
        np.testing.assert_array_equal(2 * getattr(fast.client, name), getattr(slow.client, name), err_msg=name)


def alone(first_token: str, **way: Any) -> Separated:
    """Requests of 100 to 119 tokens that meet nobody."""
    w = Workload.of(np.arange(20) * 100.0, 100 + np.arange(20), np.full(20, 10))
    link = Handoff(bytes_per_token=1e5, bytes_per_s=1e9, first_token=first_token, **way)  # type: ignore[arg-type]
    pools = (Pool(constant_step(STEP_S), roomy()), Pool(constant_step(2 * STEP_S), roomy()))
    return replay_separated(w, *pools, link, request_seconds=0.5)


@pytest.mark.parametrize(("first_token", "steps"), [("prefill", 9), ("with_kv", 9), ("decode", 10)])
def test_a_first_token_comes_by_the_protocol_of_the_engine(first_token: str, steps: int) -> None:
    result = alone(first_token, post_seconds=0.003)
    # The decode replica of "decode" computes the last token itself: one byte range less to send.
    sent_s = (99 if first_token == "decode" else 100) * 1e5 / 1e9 + np.arange(20) * 1e-4
    np.testing.assert_allclose(result.transfer_s, sent_s)
    np.testing.assert_allclose(result.visible_wait_s, 0.003 + sent_s)
    ttft_s = 0.5 + STEP_S + {"prefill": 0.0, "with_kv": 1.0, "decode": 1.0}[first_token] * (0.003 + sent_s)
    np.testing.assert_allclose(result.client.ttft_s, ttft_s + (2 * STEP_S if first_token == "decode" else 0.0))
    np.testing.assert_allclose(result.client.e2e_s, 0.5 + STEP_S + 0.003 + sent_s + steps * 2 * STEP_S)
    # Who streams from the prefill replica sees the hand-over as a gap between two tokens.
    gap_s = 2 * STEP_S + (0.003 + sent_s if first_token == "prefill" else 0.0)
    np.testing.assert_allclose(result.client.itl_max_s, gap_s if first_token != "decode" else 2 * STEP_S)


def test_blocks_of_a_prompt_are_held_until_its_kv_has_gone() -> None:
    # A pool of two prompts, a step of 10 ms each, a second to send one: a prompt a second goes, however fast the steps.
    n = 12
    w = Workload.of(np.zeros(n), np.full(n, 64), np.full(n, 2))
    small = roomy(kv_blocks=8, block_tokens=16)
    way = Handoff(bytes_per_token=1.0, bytes_per_s=64.0, at_once=1)
    result = replay_separated(w, Pool(constant_step(STEP_S), small), Pool(constant_step(STEP_S), roomy()), way)
    assert result.client.e2e_s.max() == pytest.approx(n * 63 / 64, rel=0.02)
    assert result.prefill.waits_share["kv_blocks"] > 0.5
    # And it is the decode pool's blocks that hold up a hand-over when there are too few of those.
    scarce = roomy(kv_blocks=4, block_tokens=16, max_model_len=64 + 2)
    fast = replace(way, bytes_per_s=1e9)
    waiting = replay_separated(w, Pool(constant_step(STEP_S), roomy()), Pool(constant_step(STEP_S), scarce), fast)
    assert (np.diff(np.sort(waiting.blocks_wait_s)) > 0).all() and np.isfinite(waiting.client.e2e_s).all()


@pytest.mark.parametrize(("at_once", "mean_s"), [(1, 0.5 + 0.5 * 0.6 / (2 * 0.4)), (0, 0.5 / 0.4)])
def test_a_link_is_a_queue_of_textbooks(at_once: int, mean_s: float) -> None:
    # One at a time, all of one size: M/D/1. Shared by all at once: processor sharing, insensitive to sizes.
    n, mean_tokens = 150_000, 500
    isl = np.full(n, mean_tokens) if at_once else np.random.default_rng(2).geometric(1 / mean_tokens, n)
    w = Workload.of(poisson(n, 0.6 / 0.5, seed=6), isl, np.full(n, 1))
    way = Handoff(1.0, mean_tokens / 0.5, at_once=at_once, link="fleet", first_token="with_kv")
    pool = Pool(constant_step(1e-6), roomy())
    result = replay_separated(w, pool, pool, way)
    assert (result.link_wait_s + result.transfer_s).mean() == pytest.approx(mean_s, rel=0.02)


def test_a_later_preemption_in_the_decode_pool_leaves_the_first_token_where_it_was() -> None:
    pair = Workload.of([0.0, 0.0], [16, 16], [40, 40])
    way = Handoff(1.0, 1e6)
    free, tight = (
        replay_separated(
            pair,
            Pool(constant_step(STEP_S), roomy()),
            Pool(constant_step(STEP_S), roomy(kv_blocks=k, block_tokens=4)),
            way,
        )
        for k in (100, 16)
    )
    assert (free.client.preemptions.sum(), tight.client.preemptions.sum()) == (0, 1)
    np.testing.assert_array_equal(free.client.ttft_s, tight.client.ttft_s)
    assert tight.client.e2e_s.max() > free.client.e2e_s.max()
    # What it lost it computes again where it is: nothing is sent twice.
    np.testing.assert_array_equal(free.transfer_bytes, tight.transfer_bytes)


def test_what_the_decode_replica_has_cached_is_not_sent_again() -> None:
    w = Workload.of([0.0, 10.0], [65, 65], [4, 4], [0, 4, 8], [1, 2, 3, 4] * 2, 16)
    caching = roomy(prefix_caching=True)
    way = Handoff(1.0, 1e6, first_token="with_kv")
    result = replay_separated(w, Pool(constant_step(STEP_S), caching), Pool(constant_step(STEP_S), caching), way)
    np.testing.assert_array_equal(result.transfer_bytes, [65, 1])
    np.testing.assert_array_equal(result.client.cached_tokens, [0, 64])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes_per_s": 0.0}, "bytes_per_s above 0"),
        ({"post_seconds": -1.0}, "0 or more"),
        ({"first_token": "later"}, "first_token of prefill, with_kv, decode"),
    ],
)
def test_a_way_that_carries_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Handoff(**{"bytes_per_token": 1.0, "bytes_per_s": 1.0, **change})


@settings(max_examples=60, deadline=None)
@given(workloads(4), st.integers(2, 4), st.integers(1, 2), st.sampled_from(["round_robin", "least_load", "prefix"]))
def test_ranks_in_lockstep_lose_nothing_and_rest_only_together(
    w: Workload, ranks: int, replicas: int, router: str
) -> None:
    result = replay(w, physical_step(), TIGHT, replicas=replicas, ranks=ranks, router=router)  # type: ignore[arg-type]
    ended = np.isfinite(result.e2e_s)
    np.testing.assert_array_equal(ended, w.isl_tokens < TIGHT.max_model_len)
    assert (result.ttft_s[ended] <= result.e2e_s[ended]).all()
    assert ((result.rank[ended] >= 0) & (result.rank[ended] < ranks) & (result.replica[ended] < replicas)).all()
    assert result.kv_usage_p99 <= 1 and result.running_mean <= TIGHT.max_num_seqs * ranks
    asked_s = 0.0
    for c in range(replicas):
        mine = ended & (result.replica == c)
        ends = np.maximum.accumulate((w.arrival_s + result.e2e_s)[mine])
        if len(ends):
            starts = np.maximum(w.arrival_s[mine], np.concatenate(([0.0], ends[:-1])))
            asked_s += np.maximum(0.0, ends - starts).sum()
    assert result.busy_share * result.makespan_s * replicas == pytest.approx(asked_s, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(returning(4), st.integers(1, 3), st.integers(0, 3))
def test_ranks_and_loads_half_as_fast_under_half_the_rate_are_the_same_machine(
    w: Workload, ranks: int, clients: int
) -> None:
    tier = Tier(60, 2**-9, 2**-8)
    slow_tier = Tier(60, 2**-8, 2**-7)
    how: dict[str, Any] = {"ranks": ranks, "clients": clients if ranks > 1 else 0, "async_loads": True}
    fast = replay(w, physical_step(), TIGHT, host=tier, **how)
    slow = replay(w.scaled(0.5), physical_step() * 2, TIGHT, host=slow_tier, **how)
    for name in ("ttft_s", "e2e_s", "queue_s", "itl_max_s"):
        np.testing.assert_array_equal(2 * getattr(fast, name), getattr(slow, name), err_msg=name)
    assert np.isfinite(fast.e2e_s[w.isl_tokens < TIGHT.max_model_len]).all()
    assert (fast.host_tokens <= fast.cached_tokens).all()
    assert fast.kv_usage_p99 <= 1
    again = replay(w, physical_step(), TIGHT, host=tier, **how)
    np.testing.assert_array_equal(fast.e2e_s, again.e2e_s)


def test_ranks_of_one_sequence_each_are_as_many_servers_of_one_clock() -> None:
    # One-step requests, one at a time on each of c ranks: an M/D/c queue whose servers start together on the clock of
    # the step. With one rank that is M/D/1; with two at the same load each, less waiting than that.
    n, load = 200_000, 0.6
    waits = []
    for ranks in (1, 2):
        w = Workload.of(poisson(n, ranks * load / STEP_S, seed=8), np.full(n, 5), np.full(n, 1))
        with_ranks = replay(w, constant_step(STEP_S), roomy(max_num_seqs=1), ranks=ranks)
        waits.append(with_ranks.queue_s.mean())
        # A rank without a request runs along with the other.
        assert (
            with_ranks.busy_share == pytest.approx(load, rel=0.01) if ranks == 1 else with_ranks.busy_share > load + 0.1
        )
        assert (with_ranks.rank == 0).mean() == pytest.approx(1 / ranks, abs=0.15)
    assert waits[0] == pytest.approx(STEP_S * load / (2 * (1 - load)), rel=0.02)
    assert waits[1] < waits[0] + STEP_S / 2


def test_a_prompt_on_one_rank_holds_up_the_tokens_of_the_others() -> None:
    w = Workload.of([0.0, 0.105], [10, 2000], [40, 1])
    step = step_of(step_overhead_s=STEP_S, dense_flops_s_per_token=1e-4)
    apart = replay(w, step, roomy(), replicas=2)
    together = replay(w, step, roomy(), ranks=2)
    assert apart.itl_max_s[0] == pytest.approx(STEP_S, rel=0.02)
    assert together.itl_max_s[0] == pytest.approx(STEP_S + 2000e-4, rel=0.02)
    np.testing.assert_array_equal(together.rank, [0, 1])
    # Each rank has its own sequences and its own blocks.
    n = 8
    burst = Workload.of(np.zeros(n), np.full(n, 16), np.full(n, 10))
    one, two = (replay(burst, constant_step(STEP_S), roomy(max_num_seqs=4), ranks=r).makespan_s for r in (1, 2))
    assert (one, two) == pytest.approx((20 * STEP_S, 10 * STEP_S))


def test_a_load_beside_the_steps_holds_up_nobody_else_and_waits_for_the_one_before() -> None:
    a, b, c = (1, 2, 3), (11, 12, 13), (21, 22, 23)
    ids = [*a, *b, *c, *a, *b]
    w = Workload.of(
        [0.0, 1.0, 20.0, 20.055, 20.055], [53, 53, 53, 53, 53], [2, 2, 200, 2, 2], np.arange(6) * 3, ids, 16
    )
    small = roomy(prefix_caching=True, kv_blocks=24)
    tier = Tier(blocks=100, seconds_per_block=0.1)
    # Something in between takes every block of the device, so that a and b are in the tier alone.
    filler = Workload.of(
        np.sort(np.append(w.arrival_s, 10.0)),
        np.insert(w.isl_tokens, 2, 380),
        np.insert(w.osl_tokens, 2, 1),
        np.insert(w.hash_offsets, 3, 6),
        ids,
        16,
    )
    beside, inside = (replay(filler, constant_step(STEP_S), small, host=tier, async_loads=how) for how in (True, False))
    assert beside.host_tokens[4:].tolist() == inside.host_tokens[4:].tolist() == [48, 48]
    assert inside.itl_max_s[3] == pytest.approx(0.6 + STEP_S)
    assert beside.itl_max_s[3] == pytest.approx(STEP_S)
    # Loads start with the step after the arrivals, one after the other; the next step then has the request.
    assert beside.ttft_s[4:] == pytest.approx([0.005 + 0.3 + STEP_S, 0.005 + 0.6 + STEP_S], abs=STEP_S + 1e-9)
