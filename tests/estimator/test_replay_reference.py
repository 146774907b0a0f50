"""The compiled replay against a second implementation of the same rules: one list, one step, one block at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import EngineLimits, replay
from tests.estimator.reference_engine import serve
from tests.estimator.replay_cases import physical_step, workloads


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
    )
    step = physical_step(window_tokens=window)
    expected = serve(workload, step, limits)
    result = replay(workload, step, limits)
    arrival = np.asarray([q.arrival_s for q in expected])
    np.testing.assert_array_equal(result.queue_s, np.asarray([q.admitted_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.ttft_s, np.asarray([q.first_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.e2e_s, np.asarray([q.end_s for q in expected]) - arrival)
    np.testing.assert_array_equal(result.preemptions, [q.preemptions for q in expected])
    np.testing.assert_array_equal(result.cached_tokens, [q.cached for q in expected])
    several = result.osl_tokens > 1
    stalls = np.asarray([q.stall_s for q in expected])
    np.testing.assert_allclose(result.itl_max_s[several], stalls[several], rtol=1e-9)
    assert result.gap_counts.sum() == sum(q.gaps for q in expected)
    singly = replay(workload, step, limits, fast_forward=False)
    for name in ("ttft_s", "e2e_s", "queue_s", "itl_max_s", "preemptions", "cached_tokens", "gap_counts"):
        np.testing.assert_array_equal(getattr(result, name), getattr(singly, name), err_msg=name)
    for name in ("running_mean", "waiting_max", "kv_usage_p99", "max_active_tokens", "busy_share", "steps"):
        assert getattr(result, name) == getattr(singly, name), name
