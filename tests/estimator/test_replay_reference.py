"""The compiled replay against a second implementation of the same rules: one list, one step, one block at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import OUTCOMES, Adapters, EngineLimits, Speculation, Tier, Workload, replay
from tests.estimator.reference_engine import serve
from tests.estimator.replay_cases import physical_step, returning, workloads


@settings(max_examples=150, deadline=None)
@given(
    st.data(),
    st.sampled_from([1, 4, 16]),
    st.integers(6, 40),
    st.integers(1, 12),
    st.sampled_from([16, 32, 100]),
    st.sampled_from([np.inf, 20.0]),
    st.booleans(),
)
def test_every_request_sees_the_times_the_rules_give_it(
    data: st.DataObject,
    block_tokens: int,
    pool_blocks: int,
    max_num_seqs: int,
    budget: int,
    window: float,
    caching: bool,
) -> None:
    workload = data.draw(workloads(block_tokens))
    limits = EngineLimits(
        kv_blocks=pool_blocks * max(1, 8 // block_tokens),
        block_tokens=block_tokens,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        max_model_len=90,
        prefix_caching=caching,
        exclusive_prefill=data.draw(st.booleans()),
        output_reserve=data.draw(st.sampled_from([0.0, 0.0, 0.098, 0.7])),
    )
    step = physical_step(window_tokens=window)
    agree(workload, step, limits)


def agree(workload: Workload, step: np.ndarray, limits: EngineLimits, **options: Any) -> None:
    """Both see the same, to the last bit; and so it is when every step is taken singly."""
    expected = serve(workload, step, limits, **options)
    result = replay(workload, step, limits, **options)
    arrival = np.asarray([q.arrival_s for q in expected])
    np.testing.assert_array_equal(result.queue_s, np.asarray([q.admitted_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.ttft_s, np.asarray([q.first_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.e2e_s, np.asarray([q.end_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.preemptions, [q.preemptions for q in expected])
    np.testing.assert_array_equal(result.cached_tokens, [q.cached for q in expected])
    for outcome in ("refused", "cancelled"):
        ended_so = [q.outcome == outcome for q in expected]
        np.testing.assert_array_equal(result.outcome == OUTCOMES.index(outcome), ended_so, err_msg=outcome)
    np.testing.assert_array_equal(result.host_tokens, [q.loaded[0] for q in expected])
    np.testing.assert_array_equal(result.remote_tokens, [q.loaded[1] for q in expected])
    several = (result.osl_tokens > 1) & np.isfinite(result.e2e_s)
    stalls = np.asarray([q.stall_s for q in expected])
    np.testing.assert_allclose(result.itl_max_s[several], stalls[several], rtol=1e-9)
    assert result.gap_counts.sum() == sum(q.gaps for q in expected)
    singly = replay(workload, step, limits, fast_forward=False, **options)
    for name in ("ttft_s", "e2e_s", "queue_s", "itl_max_s", "preemptions", "cached_tokens", "gap_counts"):
        np.testing.assert_array_equal(getattr(result, name), getattr(singly, name), err_msg=name)
    for name in ("running_mean", "waiting_max", "kv_usage_p99", "max_active_tokens", "busy_share", "steps"):
        assert getattr(result, name) == getattr(singly, name), name


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_every_option_and_all_of_them_together_give_the_times_the_rules_give(data: st.DataObject) -> None:
    block_tokens = data.draw(st.sampled_from([1, 4, 16]))
    workload = data.draw(workloads(block_tokens))
    n = len(workload)

    def often(strategy: st.SearchStrategy[Any], otherwise: Any) -> Any:
        return data.draw(strategy) if data.draw(st.booleans()) else otherwise

    each = {
        "priority": often(st.lists(st.integers(-1, 1), min_size=n, max_size=n), None),
        "patience_s": often(st.lists(st.sampled_from([0.01, 0.1, 1.0, np.inf]), min_size=n, max_size=n), None),
        "adapter": often(st.lists(st.integers(-1, 3), min_size=n, max_size=n), None),
    }
    limits = EngineLimits(
        kv_blocks=data.draw(st.integers(6, 40)) * max(1, 8 // block_tokens),
        block_tokens=block_tokens,
        max_num_seqs=data.draw(st.integers(1, 12)),
        max_num_batched_tokens=data.draw(st.sampled_from([12, 16, 32, 100])),
        max_model_len=90,
        prefix_caching=data.draw(st.booleans()),
        exclusive_prefill=data.draw(st.booleans()),
        output_reserve=data.draw(st.sampled_from([0.0, 0.0, 0.098, 0.7])),
        long_prefill_threshold=often(st.integers(1, 20), 0),
        priority_scheduling=data.draw(st.booleans()),
        max_waiting=often(st.integers(1, 6), 0),
        max_outstanding=often(st.integers(1, 12), 0),
    )
    tier = st.builds(Tier, st.integers(0, 60), st.sampled_from([0.0, 1e-3]), st.sampled_from([0.0, 2e-3]))
    options = {
        "host": often(tier, None),
        "remote": often(tier, None),
        "async_loads": data.draw(st.booleans()),
        "speculation": often(
            st.builds(Speculation.per_token, st.integers(1, 4), st.floats(0, 1), st.just(1e-3), st.integers(0, 9)), None
        ),
        "adapters": often(st.builds(Adapters, st.integers(1, 3), st.just(0.01)), None),
    }
    step = physical_step(window_tokens=data.draw(st.sampled_from([np.inf, 20.0])))
    agree(workload.asking(**each), step, limits, **options)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_loads_beside_the_steps_give_the_times_the_rules_give(data: st.DataObject) -> None:
    block_tokens = data.draw(st.sampled_from([1, 4]))
    workload = data.draw(returning(block_tokens))
    limits = EngineLimits(
        kv_blocks=data.draw(st.integers(26, 50)) if block_tokens == 4 else data.draw(st.integers(40, 80)),
        block_tokens=block_tokens,
        max_num_seqs=data.draw(st.integers(1, 6)),
        max_num_batched_tokens=data.draw(st.sampled_from([12, 100])),
        max_model_len=90,
        exclusive_prefill=data.draw(st.booleans()),
        output_reserve=data.draw(st.sampled_from([0.0, 0.0, 0.098, 0.7])),
        priority_scheduling=data.draw(st.booleans()),
        max_waiting=data.draw(st.sampled_from([0, 0, 5])),
    )
    tier = st.builds(Tier, st.sampled_from([10, 60]), st.sampled_from([1e-4, 3e-3, 5e-2]), st.sampled_from([0.0, 2e-3]))
    asked = workload.asking(
        priority=data.draw(st.lists(st.integers(-1, 1), min_size=len(workload), max_size=len(workload))),
        patience_s=data.draw(st.sampled_from([np.inf, np.inf, 0.3])),
    )
    options = {"host": data.draw(tier), "remote": data.draw(st.none() | tier), "async_loads": True}
    agree(asked, physical_step(), limits, **options)


def test_a_preempted_prompt_that_comes_back_to_the_same_end_is_counted_once() -> None:
    """With prompts in steps of their own a request computes its prompt again without its end moving."""
    workload = Workload.of(np.zeros(7), np.ones(7), [1, 1, 10, 10, 10, 10, 22])
    limits = EngineLimits(6, 5, 16, 90, block_tokens=1, prefix_caching=False, exclusive_prefill=True)
    agree(workload, physical_step(window_tokens=20.0), limits)
