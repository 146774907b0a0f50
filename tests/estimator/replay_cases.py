"""Step models, limits and random workloads that the replay's tests share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from estimator.replay import EngineLimits, Workload
from estimator.step_time import STEP_FIELDS


def step_of(**fields: float) -> np.ndarray:
    """A parameter array with these fields and zeros; no window."""
    p = np.zeros(len(STEP_FIELDS))
    for name, value in {"window_tokens": np.inf, **fields}.items():
        p[STEP_FIELDS.index(name)] = value
    return p


def constant_step(seconds: float) -> np.ndarray:
    """Every step takes the same time, whatever it holds."""
    return step_of(step_overhead_s=seconds)


def physical_step(**fields: float) -> np.ndarray:
    """A step in which every sum the replay keeps has its price, so that a wrong sum shows in the times."""
    terms = {
        "step_overhead_s": 1e-3,
        "sequence_overhead_s_per_sequence": 1e-5,
        "dense_read_s": 5e-3,
        "dense_flops_s_per_token": 3e-5,
        "kv_full_s_per_token": 1e-6,
        "kv_window_s_per_token": 3e-6,
        "attention_full_s_per_pair": 1e-7,
    }
    return step_of(**{**terms, **fields})


def roomy(**limits: int) -> EngineLimits:
    """Limits that bind nowhere, but for those given."""
    free = {"kv_blocks": 1_000_000, "max_num_seqs": 1000, "max_num_batched_tokens": 100_000, "max_model_len": 1_000_000}
    return EngineLimits(**{**free, "prefix_caching": False, **limits})


@st.composite
def workloads(draw: st.DrawFn, block_tokens: int, hash_blocks: tuple[int, ...] = (1, 2, 4)) -> Workload:
    """A few dozen requests that meet each other: bursts, ties, prompts that share prefixes of whole trace blocks."""
    n = draw(st.integers(1, 40))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0]), min_size=n, max_size=n))
    isl = np.asarray(draw(st.lists(st.integers(1, 60), min_size=n, max_size=n)))
    osl = np.asarray(draw(st.lists(st.integers(1, 40), min_size=n, max_size=n)))
    per_hash = block_tokens * draw(st.sampled_from(hash_blocks))
    families = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    depths = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    offsets, ids = [0], []
    for r in range(n):
        # The first `depth` blocks are the family's, the rest its own: chained, so once apart, apart.
        blocks = isl[r] // per_hash
        ids += [100 * families[r] + k if k < depths[r] else 1000 * (r + 1) + k for k in range(blocks)]
        offsets.append(len(ids))
    return Workload.of(np.cumsum(gaps), isl, osl, offsets, ids, per_hash)


@st.composite
def returning(draw: st.DrawFn, block_tokens: int) -> Workload:
    """Requests that ask one of a few prompts again, close together: their KV is wanted long after it was evicted."""
    n = draw(st.integers(2, 30))
    prompts = draw(st.lists(st.integers(4, 14), min_size=2, max_size=5))
    asked = draw(st.lists(st.integers(0, len(prompts) - 1), min_size=n, max_size=n))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.2]), min_size=n, max_size=n))
    more = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    osl = draw(st.lists(st.integers(1, 12), min_size=n, max_size=n))
    offsets, ids, isl = [0], [], []
    for r in range(n):
        ids += [100 * asked[r] + k for k in range(prompts[asked[r]])]
        offsets.append(len(ids))
        isl.append(prompts[asked[r]] * block_tokens + more[r])
    return Workload.of(np.cumsum(gaps), isl, osl, offsets, ids, block_tokens)
