"""Measured step times: exact where they were measured, physics elsewhere, and never faster for more work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from estimator.bounds import decode_step_seconds, prefill_seconds
from estimator.replay import EngineLimits, Workload, replay
from estimator.step_time import (
    MEASURED_TERM,
    STEP_FIELDS,
    DecodePoint,
    PrefillPoint,
    Profile,
    carried,
    is_whole,
    step_parameters,
    step_seconds,
    step_terms,
    with_profile,
)
from estimator.weights import weights
from tests.estimator.reference_engine import serve
from tests.estimator.step_models import H100, IDEAL, gqa

Parameters = np.ndarray[Any, np.dtype[np.float64]]
PHYSICS = step_parameters(gqa(), weights(gqa()), H100, 1, {**IDEAL, "step_overhead_us": 300.0})
_MOE = gqa(experts=64, experts_per_token=4, intermediate=1024)
ROUTED = step_parameters(_MOE, weights(_MOE), H100, 1, {**IDEAL, "step_overhead_us": 300.0}, ep=4, dp=4)
BATCHES, CONTEXTS, PROMPTS = (1, 8, 64, 256), (500, 2000, 8000), (128, 512, 2048, 8192)


def profile(slower: float = 1.3, noise: float = 0.0, physics: Parameters = PHYSICS) -> Profile:
    """Every batch at every context, and prompts; `slower` than physics, by a growing share."""
    decode = tuple(
        DecodePoint(s, c, decode_step_seconds(physics, s, c) * (slower + noise * ((i * 7 + j * 3) % 5 - 2)))
        for i, s in enumerate(BATCHES)
        for j, c in enumerate(CONTEXTS)
    )
    prompts = tuple(PrefillPoint(n, prefill_seconds(physics, n, 8192) * slower, False) for n in PROMPTS)
    return Profile(decode, prompts, "measured", "a bench")


def made(found: Profile, budget: int = 8192, **options: Any) -> Parameters:
    return with_profile(PHYSICS, found, max_num_batched_tokens=budget, **options)


@pytest.mark.parametrize("slower", [0.7, 1.0, 1.3, 2.5])
def test_a_measured_point_comes_back_exactly(slower: float) -> None:
    found = profile(slower)
    p = made(found)
    for point in found.decode:
        assert decode_step_seconds(p, point.sequences, point.context_tokens) == pytest.approx(point.seconds, rel=1e-12)
    for prompt in found.prefill:
        assert prefill_seconds(p, prompt.tokens, 8192) == pytest.approx(prompt.seconds, rel=1e-12)


def test_between_points_time_lies_between_theirs_and_beside_them_it_is_physics() -> None:
    p = made(profile(0.7))
    between = decode_step_seconds(p, 30, 1200)
    assert decode_step_seconds(p, 8, 500) < between < decode_step_seconds(p, 64, 2000)
    assert between == pytest.approx(0.7 * decode_step_seconds(PHYSICS, 30, 1200), rel=0.05)
    # Measured faster than physics: nothing that was measured contradicts it beyond.
    for batch, context in ((300, 1000), (64, 20_000), (1000, 50_000), (300, 100), (0.5, 9000)):
        assert decode_step_seconds(p, batch, context) == decode_step_seconds(PHYSICS, batch, context)
    assert prefill_seconds(p, 20_000, 32_768) == prefill_seconds(PHYSICS, 20_000, 32_768)


def test_physics_beyond_the_points_never_contradicts_their_order() -> None:
    slow = made(profile(1.5))
    largest = decode_step_seconds(slow, 256, 8000)
    assert decode_step_seconds(slow, 257, 8000) == largest
    assert decode_step_seconds(slow, 4000, 8000) == decode_step_seconds(PHYSICS, 4000, 8000) > largest
    fast = made(profile(0.5))
    assert decode_step_seconds(fast, 1, 400) == decode_step_seconds(fast, 1, 500)
    assert prefill_seconds(fast, 120, 8192) == prefill_seconds(fast, 128, 8192)


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0.4, 3.0),
    st.floats(0.0, 0.1),
    st.floats(1, 1000),
    st.floats(1, 30_000),
    st.sampled_from(["batch", "context"]),
    st.floats(1.0, 4.0),
)
@example(2.0, 0.0, 1.0, 500.0, "batch", 2.327398463109272)  # whose mean context is just short of 500
def test_a_decode_step_with_more_to_do_is_never_faster(
    slower: float, noise: float, batch: float, context: float, more: str, by: float
) -> None:
    p = made(profile(slower, noise))
    less = decode_step_seconds(p, batch, context)
    larger = decode_step_seconds(p, *((batch * by, context) if more == "batch" else (batch, context * by)))
    assert larger >= less * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.4, 3.0), st.floats(1, 20_000), st.floats(1.0, 4.0))
def test_a_longer_prompt_alone_is_never_faster(slower: float, tokens: float, by: float) -> None:
    p = made(profile(slower))
    assert prefill_seconds(p, tokens * by, 2**20) >= prefill_seconds(p, tokens, 2**20) * (1 - 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.4, 3.0), st.integers(0, 400), st.integers(1, 12_000), st.integers(1, 8192), st.integers(0, 8192))
def test_a_mixed_step_is_never_faster_than_either_of_its_parts(
    slower: float, decodes: int, context: int, chunk: int, cached: int
) -> None:
    p = made(profile(slower))
    pairs, kv = chunk * (cached + chunk / 2), float(decodes * context)
    mixed = step_seconds(p, float(decodes + chunk), decodes + 1.0, kv, kv, pairs, float(chunk))
    assert mixed >= step_seconds(p, float(decodes), float(decodes), kv, kv, 0.0, 0.0) * (1 - 1e-12) or decodes == 0
    assert mixed >= step_seconds(p, float(chunk), 1.0, 0.0, 0.0, pairs, float(chunk)) * (1 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.4, 3.0), st.integers(1, 400), st.integers(1, 12_000), st.integers(0, 8192), st.floats(1.0, 8.0))
def test_prompts_of_other_ranks_slow_a_measured_step_as_they_do_in_physics(
    slower: float, decodes: int, context: int, chunk: int, others: float
) -> None:
    p = with_profile(ROUTED, profile(slower, physics=ROUTED), max_num_batched_tokens=8192)
    tokens, kv = float(decodes + chunk), float(decodes * context)
    step = (tokens, decodes + float(chunk > 0), kv, kv, chunk * chunk / 2.0, float(chunk))
    alike = step_seconds(p, *step)
    assert step_seconds(p, *step, tokens) == alike
    more, physics = step_seconds(p, *step, tokens * others), step_seconds(ROUTED, *step, tokens * others)
    assert more >= alike * (1 - 1e-12)
    if chunk == 0:
        assert more - alike == pytest.approx(physics - step_seconds(ROUTED, *step), abs=1e-9)
    fewer = step_seconds(p, *step, tokens / others)
    assert 0 < fewer <= alike * (1 + 1e-12)


def test_a_prompt_in_chunks_takes_what_was_measured_of_it() -> None:
    lengths = (512, 2048, 5000, 12_000)
    points = tuple(PrefillPoint(n, prefill_seconds(PHYSICS, n, 2048) * 1.2 + 0.004, False) for n in lengths)
    p = made(Profile((), points, "measured", "chunked"), 2048)
    for point in points:
        assert prefill_seconds(p, point.tokens, 2048) == pytest.approx(point.seconds, rel=1e-9)


def test_a_clients_first_token_is_freed_of_what_lies_outside_the_engine() -> None:
    seen = Profile((), (PrefillPoint(1000, 0.1, True), PrefillPoint(4, 0.02, True)), "measured", "a client")
    p = made(seen, outside_s=lambda tokens, step_s: 0.03 + tokens * 1e-6)
    assert prefill_seconds(p, 1000, 8192) == pytest.approx(0.1 - 0.03 - 1e-3)
    # The second first token takes less than a request does without any step: it says nothing.
    assert carried(p).prompt_tokens == (1000, 1000)  # type: ignore[union-attr]


def test_one_row_of_points_reaches_as_far_as_its_answers_grew() -> None:
    row = tuple(DecodePoint(s, 1088, decode_step_seconds(PHYSICS, s, 1088) * 0.8, 128) for s in (1, 16, 64))
    p = made(Profile(row, (), "measured", "a sweep"))
    held = carried(p)
    assert held is not None and held.context_tokens == (1024, 1152) and held.sequences == (1, 64)
    assert held.decodes(16, 1100) and not held.decodes(16, 1200) and not held.prompts(100)
    assert decode_step_seconds(p, 16, 1024) == pytest.approx(0.8 * decode_step_seconds(PHYSICS, 16, 1024), rel=0.01)
    assert decode_step_seconds(p, 16, 2000) == decode_step_seconds(PHYSICS, 16, 2000)


def test_rows_of_different_reach_leave_physics_where_nothing_was_measured() -> None:
    reach = {500: (1, 16, 128), 4000: (1, 16)}
    points = tuple(DecodePoint(s, c, 0.8 * decode_step_seconds(PHYSICS, s, c)) for c, row in reach.items() for s in row)
    p = made(Profile(points, (), "measured", "a profiler"))
    for point in points:
        assert decode_step_seconds(p, point.sequences, point.context_tokens) == pytest.approx(point.seconds, rel=1e-12)
    assert decode_step_seconds(p, 128, 4000) == decode_step_seconds(PHYSICS, 128, 4000)


def test_repeats_are_averaged_and_noise_is_put_in_order() -> None:
    base = decode_step_seconds(PHYSICS, 1, 500)
    points = [DecodePoint(1, 500, base), DecodePoint(1, 500, 1.02 * base), DecodePoint(4, 500, 0.99 * base)]
    p = made(Profile(tuple(points), (), "measured", "noise"))
    assert decode_step_seconds(p, 1, 500) == pytest.approx(base, rel=1e-12)
    assert decode_step_seconds(p, 4, 500) == pytest.approx(base, rel=1e-12)


def test_one_bad_point_moves_few_others() -> None:
    cold = replace(profile(1.0), decode=(*profile(1.0).decode[1:], DecodePoint(1, 500, 0.4)))
    p, plain = made(cold), made(profile(1.0))
    for batch in (8, 64, 256):
        for context in (500, 2000, 8000):
            measured = decode_step_seconds(plain, batch, context)
            assert decode_step_seconds(p, batch, context) == pytest.approx(measured, rel=0.25)
    first = (PrefillPoint(100, 2.0, False), *profile(1.0).prefill)
    late = made(replace(profile(1.0), prefill=first))
    assert prefill_seconds(late, 8192, 8192) == prefill_seconds(plain, 8192, 8192)


def test_a_grid_that_no_replay_could_carry_is_refused() -> None:
    points = tuple(DecodePoint(1 + i, 100 * 1.06**i, 0.01) for i in range(600))
    with pytest.raises(ValueError, match="600 batches x 600 contexts are too fine a grid"):
        made(Profile(points, (), "measured", "a scatter"))


def test_the_terms_of_a_step_say_what_the_measurement_adds() -> None:
    p = made(profile(1.3))
    terms = step_terms(p, 64.0, 64.0, 64_000.0, 64_000.0, 0.0, 0.0)
    assert sum(terms.values()) == pytest.approx(decode_step_seconds(p, 64, 1000), rel=1e-12)
    assert terms[MEASURED_TERM] == pytest.approx(0.3 * decode_step_seconds(PHYSICS, 64, 1000), rel=0.02)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ((), "holds no point"),
        ((DecodePoint(0, 100, 0.01),), "is no measurement"),
        ((DecodePoint(1, 100, float("nan")),), "is no measurement"),
        ((DecodePoint(1, 100, -0.01),), "is no measurement"),
        ((DecodePoint(1, float("inf"), 0.01),), "is no measurement"),
        ((DecodePoint(1, 100, 8e-6),), "its unit, model or accelerator is another"),
        ((DecodePoint(1, 100, 8.0),), "its unit, model or accelerator is another"),
    ],
)
def test_points_that_cannot_be_are_refused(points: tuple[DecodePoint, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made(Profile(points, (), "measured", "broken"))


def test_an_array_that_does_not_hold_what_its_counts_say_is_not_whole() -> None:
    p = made(profile())
    assert is_whole(PHYSICS) and is_whole(p)
    for broken in (p[:-1], np.append(p, 1.0), p[: len(STEP_FIELDS) + 2], PHYSICS[:-1], p.reshape(1, -1)):
        assert not is_whole(broken)
    p[len(STEP_FIELDS)] = 1e9
    assert not is_whole(p)


LIMITS = EngineLimits(
    kv_blocks=3000, block_tokens=16, max_num_seqs=48, max_num_batched_tokens=2048, max_model_len=16_384
)


@pytest.mark.parametrize("fast", [True, False])
def test_the_fast_engine_and_the_plain_one_agree_with_a_profile(fast: bool) -> None:
    rng = np.random.default_rng(3)
    load = Workload.of(np.cumsum(rng.exponential(0.05, 150)), rng.integers(20, 3000, 150), rng.integers(2, 200, 150))
    p = made(replace(profile(1.4), label="measured"), 2048)
    result = replay(load, p, LIMITS, fast_forward=fast)
    plain = serve(load, p, LIMITS)
    np.testing.assert_array_equal(result.e2e_s, [q.end_s - q.arrival_s for q in plain])
    assert result.e2e_s.mean() > replay(load, PHYSICS, LIMITS).e2e_s.mean()
