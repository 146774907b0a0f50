"""What measured points say about others of their combination: near ones a lot, far ones the common factor."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.architecture import Architecture, Attention, FeedForward, Layer
from estimator.hardware import Accelerator
from estimator.serving import Layout, Protocol, ServingCase
from estimator.serving.residuals import Factor, Smoothness, factors
from estimator.weights import weights

SMOOTH = Smoothness()
_LAYER = Layer(Attention("full", 8, 8, 64, kv_elements_per_token=1024, parameters=1_000_000), FeedForward(2_000_000))
_MODEL = Architecture("llama", 512, 1000, (_LAYER,) * 2, False, 4096, "bfloat16")
_GPU = Accelerator("H100-SXM", 79.2, 3350, 989)


def case(clients: float, version: str = "0.15.1", tp: int = 1) -> ServingCase:
    load = Protocol(concurrency=clients)
    return ServingCase(
        _MODEL, weights(_MODEL), _GPU, "vllm", version, "bf16", Layout(tp=tp), load, 1024, 256, 8192, 1024
    )


def test_nothing_known_changes_nothing() -> None:
    assert factors([], [], [case(4), case(8)], SMOOTH) == [Factor(), Factor()]


def test_a_factor_common_to_all_reaches_every_point() -> None:
    known = [case(c) for c in (4, 8, 16, 32, 64)]
    for factor in factors(known, [math.log(1.3)] * 5, [case(2), case(24), case(500)], SMOOTH):
        assert factor.value == pytest.approx(1.3, rel=0.05)


def test_an_error_that_grows_with_load_is_followed_between_known_points() -> None:
    known = [case(c) for c in (1, 4, 16, 64)]
    truth = [0.1 * math.log(c) for c in (1, 4, 16, 64)]
    between = factors(known, truth, [case(8)], SMOOTH)[0].value
    assert math.log(between) == pytest.approx(0.1 * math.log(8), abs=0.03)


def test_a_known_point_is_met_up_to_its_noise() -> None:
    known = [case(4), case(64)]
    met = [factor.value for factor in factors(known, [0.2, -0.1], known, SMOOTH)]
    assert met == pytest.approx([math.exp(0.2), math.exp(-0.1)], rel=0.03)


def test_another_version_takes_less_from_a_point_than_its_own() -> None:
    known, ratios = [case(c) for c in (4, 16, 64)], [0.5, 0.1, 0.1]
    own, other = factors(known, ratios, [case(4), case(4, "0.12.0")], SMOOTH)
    assert own.value > other.value > 1.0


def test_one_stall_does_not_carry_the_others_away() -> None:
    known = [case(c) for c in (4, 8, 16, 32, 64, 128)]
    calm = factors(known, [0.1] * 6, [case(12)], SMOOTH)[0].value
    stalled = factors(known, [0.1, 0.1, 0.1, 0.1, 0.1, 2.5], [case(12)], SMOOTH)[0].value
    assert stalled == pytest.approx(calm, rel=0.15)


@given(
    ratios=st.lists(st.floats(-2, 2), min_size=1, max_size=8),
    shift=st.floats(0.5, 100),
)
def test_factors_are_positive_finite_and_no_wilder_than_what_was_measured(ratios: list[float], shift: float) -> None:
    known = [case(2.0**i) for i in range(len(ratios))]
    found = factors(known, ratios, [case(shift * 2.0**i) for i in range(4)], SMOOTH)
    worst = max(abs(ratio) for ratio in ratios)
    assert all(math.isfinite(factor.value) and factor.value > 0 for factor in found)
    assert all(abs(math.log(factor.value)) <= 2 * worst + 1e-9 for factor in found)
    assert all(factor.low and factor.high and factor.low < factor.value < factor.high for factor in found)


def test_the_order_of_known_points_does_not_matter() -> None:
    known, ratios = [case(c) for c in (1, 5, 9, 33)], [0.2, -0.1, 0.4, 0.0]
    forward = factors(known, ratios, [case(7)], SMOOTH)
    backward = factors(known[::-1], ratios[::-1], [case(7)], SMOOTH)
    assert backward[0].value == pytest.approx(forward[0].value) and backward[0].low == pytest.approx(forward[0].low)


def test_ratios_that_are_none_are_refused() -> None:
    for ratios in ([], [math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite log ratio"):
            factors([case(4)], ratios, [case(8)], SMOOTH)


def test_repeats_of_one_case_are_no_singular_system() -> None:
    found = factors([case(4)] * 30, [0.1] * 30, [case(4)], replace(SMOOTH, noise=0.01))[0]
    assert found.value == pytest.approx(math.exp(0.1), rel=0.01)


def test_intervals_are_wider_far_from_known_points_and_where_known_points_disagree() -> None:
    known = [case(c) for c in (4, 8, 16)]
    near, far = factors(known, [0.1, 0.12, 0.11], [case(10), case(3000)], SMOOTH)
    assert width(far) > 2 * width(near)
    assert width(factors(known, [0.6, -0.5, 0.4], [case(10)], SMOOTH)[0]) > 2 * width(near)


def width(factor: Factor) -> float:
    assert factor.low is not None and factor.high is not None
    return math.log(factor.high / factor.low)


def test_of_thousands_of_known_points_enough_teach() -> None:
    known = [case(1 + i % 512) for i in range(3_000)]
    found = factors(known, [0.2] * len(known), [case(1 + i % 700) for i in range(2_000)], SMOOTH)
    assert len(found) == 2_000
    assert [factor.value for factor in found] == pytest.approx([math.exp(0.2)] * 2_000, rel=0.02)
