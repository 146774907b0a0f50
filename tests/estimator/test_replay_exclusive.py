"""Prompts in steps of their own: who waits for whom, and the room that is kept for answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.replay import EngineLimits, Replay, Workload, replay
from estimator.replay.arrivals import poisson
from tests.estimator.replay_cases import constant_step, roomy

STEP_S = 0.01
ALONE = replace(roomy(max_num_seqs=50), max_num_batched_tokens=100, exclusive_prefill=True)


def served(limits: EngineLimits, arrival_s: list[float], isl: list[int], osl: list[int]) -> Replay:
    return replay(Workload.of(arrival_s, isl, osl), constant_step(STEP_S), limits)


def test_decodes_wait_while_a_prompt_is_computed_chunk_after_chunk() -> None:
    """400 tokens in chunks of 100 arrive while another answer is on its way: its next token is four steps late."""
    arrival_s, isl, osl = [0.0, 0.025], [10, 400], [20, 5]
    alone = served(ALONE, arrival_s, isl, osl)
    beside = served(replace(ALONE, exclusive_prefill=False), arrival_s, isl, osl)
    assert alone.itl_max_s[0] == pytest.approx(5 * STEP_S)
    assert beside.itl_max_s[0] == pytest.approx(STEP_S)
    assert alone.e2e_s[0] == pytest.approx(24 * STEP_S)
    # A decode takes a token of each mixed step, so that the last of the prompt takes a fifth one.
    assert beside.ttft_s[1] - alone.ttft_s[1] == pytest.approx(STEP_S)
    # Five prompt steps, and as many decode steps as the longer answer has tokens after its first.
    assert alone.steps == 5 + 19


def test_the_prompt_half_way_goes_first_and_the_next_shares_its_last_step() -> None:
    done = served(ALONE, [0.0, 0.0, 0.0], [150, 40, 30], [1, 1, 1])
    assert done.ttft_s == pytest.approx([2 * STEP_S, 2 * STEP_S, 3 * STEP_S])


def test_decodes_are_not_bound_by_the_token_budget() -> None:
    limits = replace(ALONE, max_num_batched_tokens=8)
    done = served(limits, [0.0] * 40, [4] * 40, [50] * 40)
    # Two prompts a step, then all forty decode at once.
    assert done.e2e_s == pytest.approx(np.full(40, (20 + 49) * STEP_S))


def test_room_kept_for_answers_saves_preemptions() -> None:
    rng = np.random.default_rng(3)
    n = 400
    workload = Workload.of(poisson(n, 20.0, 1), rng.integers(20, 60, n), rng.integers(20, 200, n))
    limits = EngineLimits(2000, 256, 512, 300, block_tokens=1, prefix_caching=False, exclusive_prefill=True)
    known, kept, whole = (
        int(replay(workload, constant_step(STEP_S), replace(limits, output_reserve=share)).preemptions.sum())
        for share in (0.0, 0.098, 1.0)
    )
    assert known > kept > whole == 0


def test_a_request_that_fills_the_pool_is_taken_by_an_engine_with_nothing_to_run() -> None:
    limits = EngineLimits(
        100, 4, 64, 101, block_tokens=1, prefix_caching=False, exclusive_prefill=True, output_reserve=1.0
    )
    done = served(limits, [0.0, 0.0], [60, 60], [40, 40])
    assert np.isfinite(done.e2e_s).all()
    assert done.queue_s[1] == pytest.approx(done.e2e_s[0])
