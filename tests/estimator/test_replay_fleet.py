"""Many engines: routers, closed loops, and prefixes found where they were left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from estimator.replay import Workload, replay
from estimator.replay.arrivals import poisson
from tests.estimator.replay_cases import constant_step, physical_step, roomy, workloads


@settings(max_examples=40, deadline=None)
@given(workloads(4))
def test_round_robin_is_as_many_engines_that_know_nothing_of_each_other(workload: Workload) -> None:
    limits = roomy(kv_blocks=30, block_tokens=4, max_model_len=100, max_num_seqs=6, prefix_caching=True)
    both = replay(workload, physical_step(), limits, replicas=2, router="round_robin")
    for engine in range(2):
        mine = np.arange(len(workload)) % 2 == engine
        if not mine.any():
            continue
        np.testing.assert_array_equal(both.replica[mine], engine)
        part = Workload.of(
            workload.arrival_s[mine], workload.isl_tokens[mine], workload.osl_tokens[mine], *hashes(workload, mine)
        )
        alone = replay(part, physical_step(), limits)
        np.testing.assert_array_equal(both.ttft_s[mine], alone.ttft_s)
        np.testing.assert_array_equal(both.e2e_s[mine], alone.e2e_s)
        np.testing.assert_array_equal(both.cached_tokens[mine], alone.cached_tokens)


def hashes(workload: Workload, mine: np.ndarray) -> tuple[list[int], list[int], int]:
    offsets, ids = [0], []
    for r in np.flatnonzero(mine):
        ids += workload.hash_ids[workload.hash_offsets[r] : workload.hash_offsets[r + 1]].tolist()
        offsets.append(len(ids))
    return offsets, ids, workload.prefix_block_tokens


def test_the_least_loaded_engine_takes_the_next_request() -> None:
    # Engine 0 is busy for a second with the first; engine 1 ends each of the short ones before the next comes.
    w = Workload.of([0.0, 0.1, 0.2, 0.3, 2.0], [5] * 5, [100, 1, 1, 1, 1])
    result = replay(w, constant_step(0.01), roomy(), replicas=2)
    np.testing.assert_array_equal(result.replica[:4], [0, 1, 1, 1])


def test_a_router_that_never_hears_from_its_engines_deals_requests_out_in_turn() -> None:
    n = 500
    w = Workload.of(poisson(n, 50.0, seed=1), np.full(n, 20), np.random.default_rng(1).integers(1, 100, n))
    deaf = replay(w, constant_step(0.01), roomy(max_num_seqs=4), replicas=4, router_stale_s=1e6)
    dealt = replay(w, constant_step(0.01), roomy(max_num_seqs=4), replicas=4, router="round_robin")
    np.testing.assert_array_equal(deaf.replica, dealt.replica)
    np.testing.assert_array_equal(deaf.ttft_s, dealt.ttft_s)


def test_knowing_the_load_shortens_queues_and_fresh_knowledge_more() -> None:
    n = 20_000
    w = Workload.of(poisson(n, 30.0, seed=1), np.full(n, 20), np.random.default_rng(1).geometric(0.02, n))
    limits = roomy(max_num_seqs=5)
    waits = [
        replay(w, constant_step(0.01), limits, replicas=4, **how).queue_s.mean()
        for how in ({"router_stale_s": 0.0}, {"router_stale_s": 1.0}, {"router": "round_robin"})
    ]
    assert waits[0] < waits[1] < waits[2]


@settings(max_examples=40, deadline=None)
@given(workloads(4))
def test_a_closed_loop_client_sends_when_its_last_request_ended(workload: Workload) -> None:
    clients = 3
    limits = roomy(kv_blocks=40, block_tokens=4, max_model_len=100)
    result = replay(workload, physical_step(), limits, replicas=2, clients=clients, request_seconds=0.02)
    done_s = result.arrival_s + result.e2e_s
    np.testing.assert_allclose(result.arrival_s[clients:], done_s[:-clients] if len(workload) > clients else [])
    assert (result.arrival_s[:clients] == 0).all()
    assert result.running_mean * result.replicas <= clients + 1e-9


def test_all_clients_starting_at_once_queue_up_behind_each_other() -> None:
    # One prompt a step: the c-th client's first token takes c steps. It makes most of a short sweep's mean TTFT.
    w = Workload.of(np.zeros(40), np.full(40, 100), np.full(40, 50))
    result = replay(w, constant_step(0.01), roomy(max_num_batched_tokens=100, max_num_seqs=8), clients=4)
    np.testing.assert_allclose(result.ttft_s[:4], [0.01, 0.03, 0.05, 0.07], atol=0.021)
    assert result.ttft_s[:4].mean() > result.ttft_s[4:].mean()


def prompts(*blocks: tuple[int, ...], isl: int | None = None) -> Workload:
    """One request a minute with these hash blocks of 16 tokens and nothing else."""
    n = len(blocks)
    return Workload.of(
        np.arange(n) * 60.0,
        [isl or 16 * len(b) + 5 for b in blocks],
        np.ones(n, dtype=int),
        np.concatenate(([0], np.cumsum([len(b) for b in blocks]))),
        [i for b in blocks for i in b],
        16,
    )


def cached(workload: Workload, kv_blocks: int = 1000) -> list[int]:
    limits = roomy(kv_blocks=kv_blocks, prefix_caching=True)
    return replay(workload, constant_step(0.01), limits).cached_tokens.tolist()


def test_a_prefix_is_found_as_far_as_it_is_the_same() -> None:
    assert cached(prompts((1, 2, 3), (1, 2, 9), (1, 2, 3, 4), (8, 2, 3))) == [0, 32, 48, 0]


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    assert cached(prompts((1, 2, 3), (1, 2, 3), isl=48)) == [0, 32]


def test_the_least_recently_used_prefix_is_forgotten_first_and_from_its_end() -> None:
    # Three prompts of 4 blocks (3 hashed, 1 partly filled) in a pool of 10: the third takes the blocks of the first.
    a, b, c = (1, 2, 3), (11, 12, 13), (21, 22, 23)
    assert cached(prompts(a, b, a, c, a, b), kv_blocks=10) == [0, 0, 48, 0, 48, 16]
    assert cached(prompts(a, b, c, b), kv_blocks=100) == [0, 0, 0, 48]


def test_nothing_is_found_without_a_cache() -> None:
    w = prompts((1, 2, 3), (1, 2, 3))
    assert replay(w, constant_step(0.01), roomy(prefix_caching=False)).cached_tokens.tolist() == [0, 0]


@pytest.mark.parametrize(("block_tokens", "found"), [(8, 40), (16, 32), (32, 32), (48, 0)])
def test_trace_blocks_and_engine_blocks_may_differ(block_tokens: int, found: int) -> None:
    # 2.5 blocks of 16 in common; whole engine blocks count, and only those whose hashes tell them apart.
    ids = [0, 1, 2, 3, 0, 1, 9, 8] if block_tokens != 8 else [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 9, 10, 11]
    per_hash = 16 if block_tokens != 8 else 8
    w = Workload.of([0.0, 60.0], [66, 66], [1, 1], [0, len(ids) // 2, len(ids)], ids, per_hash)
    limits = roomy(block_tokens=block_tokens, prefix_caching=True)
    assert replay(w, constant_step(0.01), limits).cached_tokens[1] == found


def test_blocks_that_do_not_divide_each_other_are_refused() -> None:
    w = Workload.of([0.0], [66], [1], [0, 2], [0, 1], 24)
    with pytest.raises(ValueError, match="multiple"):
        replay(w, constant_step(0.01), roomy(block_tokens=16, prefix_caching=True))


def test_mooncake_prefixes_are_all_found_by_a_cache_without_end(shared: Path) -> None:
    with (shared / "data/traces/mooncake_conversation.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    isl = np.asarray([row["input_length"] for row in rows])
    offsets = np.concatenate(([0], np.cumsum([len(row["hash_ids"]) for row in rows])))
    ids = np.concatenate([row["hash_ids"] for row in rows])
    seen: set[int] = set()
    expected, blocks = [], 0
    for row in rows:
        hits = 0
        while hits < len(row["hash_ids"]) and row["hash_ids"][hits] in seen:
            hits += 1
        blocks += hits
        seen.update(row["hash_ids"])
        # Whole blocks of 16 only, and never the last token.
        expected.append(min(512 * hits, (row["input_length"] - 1) // 16 * 16))
    assert blocks / len(ids) == pytest.approx(0.366, abs=0.001)
    # One after the other, so that none is computed twice at the same time.
    w = Workload.of(np.arange(len(rows)) * 10.0, isl, np.ones(len(rows), dtype=int), offsets, ids, 512)
    result = replay(w, constant_step(0.01), roomy(kv_blocks=20_000_000, prefix_caching=True))
    np.testing.assert_array_equal(result.cached_tokens, expected)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0.0, 1.0], [5], [5, 5]), "must have one length"),
        (([], [], []), "at least one request"),
        (([1.0, 0.5], [5, 5], [5, 5]), r"arrival_s\[1\] is 0.5"),
        (([0.0, np.nan], [5, 5], [5, 5]), r"arrival_s\[1\] is nan"),
        (([-1.0], [5], [5]), r"arrival_s\[0\] is -1"),
        (([0.0], [0], [5]), r"isl_tokens\[0\] is 0"),
        (([0.0], [5], [2.5]), r"osl_tokens\[0\] is 2.5"),
        (([0.0], [5], ["x"]), "osl_tokens must be whole numbers"),
        (([0.0], [5], [5], [0, 2], [1], 16), "hash_offsets must rise"),
        (([0.0], [5], [5], [0, 1], [1], 0), "prefix_block_tokens is 0"),
        (([0.0], [5], [5], [0, 2], [1, 2], 16), r"hash_ids\[0\] is 2"),
    ],
)
def test_a_workload_that_is_none_is_refused_with_the_request_at_fault(arrays: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Workload.of(*arrays)


def test_a_window_of_a_workload_keeps_its_requests_and_their_prefixes() -> None:
    w = prompts((1, 2), (3,), (1, 2, 4), (3, 5))
    part = w.window(60.0, 180.0)
    np.testing.assert_array_equal(part.arrival_s, [0.0, 60.0])
    np.testing.assert_array_equal(part.isl_tokens, w.isl_tokens[1:3])
    np.testing.assert_array_equal(np.diff(part.hash_offsets), [1, 3])
    assert part.hashes == 4
    assert cached(w.window(0.0, 180.0)) == [0, 0, 32]
    with pytest.raises(ValueError, match="no request arrives"):
        w.window(1000.0, 2000.0)


def test_a_workload_played_faster_keeps_its_requests() -> None:
    w = prompts((1, 2), (3,), (1, 2, 4))
    assert w.scaled(3.0).rate_rps == pytest.approx(3 * w.rate_rps)
    np.testing.assert_array_equal(w.scaled(3.0).hash_ids, w.hash_ids)
    with pytest.raises(ValueError, match="positive and finite"):
        w.scaled(0.0)
    assert len(w.sample(1.0, seed=1)) == 3
