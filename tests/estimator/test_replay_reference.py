"""The compiled replay against a second implementation of the same rules: one list, one step, one block at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.replay import EngineLimits, Workload, replay
from estimator.step_time import STEP_FIELDS
from tests.estimator.reference_engine import serve


def physical_step(**fields: float) -> np.ndarray:
    """A step whose every term counts, so that a wrong sum shows in the times."""
    p = np.zeros(len(STEP_FIELDS))
    given_fields = {
        "step_overhead_s": 1e-3,
        "sequence_overhead_s_per_sequence": 1e-5,
        "dense_read_s": 5e-3,
        "dense_flops_s_per_token": 3e-5,
        "kv_full_s_per_token": 1e-6,
        "kv_window_s_per_token": 3e-6,
        "attention_full_s_per_pair": 1e-7,
        "window_tokens": np.inf,
        **fields,
    }
    for name, value in given_fields.items():
        p[STEP_FIELDS.index(name)] = value
    return p


@st.composite
def workloads(draw: st.DrawFn, block_tokens: int) -> Workload:
    """A few dozen requests that meet each other: bursts, ties, prompts that share prefixes of whole trace blocks."""
    n = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0]), min_size=n, max_size=n))
    isl = np.asarray(draw(st.lists(st.integers(1, 60), min_size=n, max_size=n)))
    osl = np.asarray(draw(st.lists(st.integers(1, 40), min_size=n, max_size=n)))
    per_hash = block_tokens * draw(st.sampled_from([1, 2, 4]))
    families = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    depths = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    offsets, ids = [0], []
    for r in range(n):
        # The first `depth` blocks are the family's, the rest its own: chained, so once apart, apart.
        blocks = isl[r] // per_hash
        ids += [100 * families[r] + k if k < depths[r] else 1000 * (r + 1) + k for k in range(blocks)]
        offsets.append(len(ids))
    return Workload.of(np.cumsum(gaps), isl, osl, offsets, ids, per_hash)


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
