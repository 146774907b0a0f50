"""A closed loop's steps, found once, are those of the replay, and price as the replay does."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.replay import EngineLimits, Workload, replay
from estimator.serving.composition import Composition, Load, composition, per_rank
from estimator.step_time import STEP_FIELDS


def _step(**given: float) -> np.ndarray:
    values = {
        "step_overhead_s": 2e-3,
        "dense_read_s": 6e-3,
        "dense_flops_s_per_token": 2e-5,
        "kv_full_s_per_token": 3e-8,
        "attention_full_s_per_pair": 1e-9,
        "window_tokens": np.inf,
        "sequence_overhead_s_per_sequence": 1e-5,
    }
    return np.array([{**values, **given}.get(field, 0.0) for field in STEP_FIELDS])


def _replayed(load: Load, isl: np.ndarray, osl: np.ndarray, step: np.ndarray) -> tuple[float, float]:
    limits = EngineLimits(
        kv_blocks=100_000,
        max_num_seqs=load.max_num_seqs,
        max_num_batched_tokens=load.max_num_batched_tokens,
        max_model_len=100_000,
        prefix_caching=False,
        exclusive_prefill=load.exclusive_prefill,
    )
    seen = replay(Workload.of(np.zeros(len(isl)), isl, osl), step, limits, clients=load.clients)
    return float(seen.ttft_s.mean()), float(seen.tpot_s.mean())


@pytest.mark.parametrize("clients", [1, 3, 16])
@pytest.mark.parametrize("isl", [40, 700, 3000])
@pytest.mark.parametrize("seats", [2, 64])
@pytest.mark.parametrize("exclusive", [False, True])
def test_equal_requests_wait_and_step_just_as_in_the_replay(
    clients: int, isl: int, seats: int, exclusive: bool
) -> None:
    load = Load(clients, 5 * clients, (isl, isl), (30, 30), 1024, seats, exclusive)
    n = load.requests
    expected = _replayed(load, np.full(n, isl), np.full(n, 30), _step())
    assert composition(load, 10_000).seconds(_step()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("exclusive", [False, True])
def test_drawn_lengths_give_the_means_of_the_replay(exclusive: bool) -> None:
    load = Load(24, 480, (400, 500), (80, 100), 2048, 64, exclusive)
    rng = np.random.default_rng(7)
    isl, osl = rng.integers(400, 501, 480), rng.integers(80, 101, 480)
    expected = _replayed(load, isl, osl, _step())
    assert composition(load, 10_000).seconds(_step()) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("exclusive", [False, True])
def test_summing_steps_that_are_alike_moves_a_mean_by_less_than_one_percent(exclusive: bool) -> None:
    load = Load(64, 640, (800, 1000), (200, 250), 8192, 512, exclusive)
    whole, summed = (composition(load, kinds).seconds(_step()) for kinds in (10_000, 24))
    assert summed == pytest.approx(whole, rel=0.01)


def test_prompts_in_steps_of_their_own_make_decodes_wait() -> None:
    beside, alone = (
        composition(Load(8, 80, (800, 1000), (50, 64), 8192, 64, exclusive)).seconds(_step())
        for exclusive in (False, True)
    )
    assert alone[1] > beside[1]


@pytest.mark.parametrize("exclusive", [False, True])
def test_the_first_burst_makes_mean_ttft_grow_with_clients_of_few_prompts(exclusive: bool) -> None:
    few, many = (
        composition(Load(32, 32 * k, (900, 1000), (200, 250), 8192, 64, exclusive)).seconds(_step())[0] for k in (2, 40)
    )
    assert few > 1.5 * many


def test_a_constant_step_is_the_time_per_token() -> None:
    step = np.zeros(len(STEP_FIELDS))
    step[STEP_FIELDS.index("step_overhead_s")] = 0.01
    _, tpot_s = composition(Load(5, 50, (10, 10), (20, 30), 4096, 64)).seconds(step)
    assert tpot_s == pytest.approx(0.01, rel=1e-9)


def test_ranks_share_decodes_and_keep_the_time_each_step_counts_for() -> None:
    whole = composition(Load(64, 640, (400, 500), (200, 250), 8192, 512))
    shared = per_rank(whole, 8)
    assert shared.steps[:, 6:] == pytest.approx(whole.steps[:, 6:])
    assert (shared.steps[:, 0] <= whole.steps[:, 0] + 1e-9).all()
    assert shared.seconds(_step())[1] < whole.seconds(_step())[1]
    assert per_rank(whole, 1) is whole


@pytest.mark.parametrize("ranks", [2, 8])
def test_ranks_share_the_work_of_experts_whichever_of_them_has_the_prompt(ranks: int) -> None:
    whole = composition(Load(64, 640, (400, 500), (200, 250), 8192, 512))
    experts = np.zeros(len(STEP_FIELDS))
    experts[[STEP_FIELDS.index("expert_read_s"), STEP_FIELDS.index("expert_flops_s_per_token")]] = 1e-12, 1e-5
    expected = np.array(whole.seconds(experts)) / ranks
    assert per_rank(whole, ranks).seconds(experts) == pytest.approx(expected, rel=1e-9)
    padded = per_rank(whole, ranks, padded=True)
    assert (padded.steps[:, 5] == padded.steps[:, 0]).all()
    assert padded.seconds(experts)[1] > expected[1]


@pytest.mark.parametrize(
    "load",
    [
        Load(0, 1, (1, 1), (1, 1), 1, 1),
        Load(2, 1, (1, 1), (1, 1), 1, 1),
        Load(1, 1, (0, 1), (1, 1), 1, 1),
        Load(1, 1, (3, 2), (1, 1), 1, 1),
        Load(1, 1, (1, 1), (1, 1), 0, 1),
    ],
)
def test_a_load_that_cannot_be_is_refused(load: Load) -> None:
    with pytest.raises(ValueError, match="at least"):
        composition(load)


def test_answers_of_one_token_end_with_their_prompt() -> None:
    found = composition(Load(2, 8, (10, 10), (1, 1), 100, 4))
    assert isinstance(found, Composition)
    assert found.steps[:, 7].sum() == 0.0
