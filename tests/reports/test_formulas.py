"""A live figure's formula and value are one thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.formulas import (
    Live,
    count_of,
    difference,
    in_whole,
    product,
    quotient,
    span,
    stepped,
    total,
    within,
    worst_of,
)

gpus = st.integers(min_value=0, max_value=1_000_000)
usd = st.floats(min_value=0, max_value=1e9)


def cell(at: str, value: float | str) -> Live:
    return Live(f"Sheet!${at[0]}${at[1:]}", value)


@given(gpus, gpus, usd, usd)
def test_a_step_and_its_rest_lead_from_before_to_now(
    now: int, before: int, cost_before: float, cost_now: float
) -> None:
    step = stepped(cell("A1", now), cell("B1", before), cell("C1", cost_before), cell("D1", cost_now))
    start = cost_before if before else 0.0
    rest = difference(cell("D1", cost_now), cell("C1", start), step)
    assert start + step.number + rest.number == pytest.approx(cost_now, rel=1e-6, abs=1e-3 + abs(step.number) * 1e-9)


def test_equal_sums_differ_by_nothing_and_not_by_minus_nothing() -> None:
    left = in_whole(difference(cell("A1", 0.1 + 0.2), cell("A2", 0.3), cell("A3", 0.00001)))
    assert str(left.number) == "0.0"
    assert left.formula == "ROUND(Sheet!$A$1-Sheet!$A$2-Sheet!$A$3,0)"


def test_formulas_say_what_was_computed() -> None:
    a, b = cell("A1", 6.0), cell("A2", 4.0)
    assert product(a, b) == Live("Sheet!$A$1*Sheet!$A$2", 24.0)
    assert total([a, b]) == Live("SUM(Sheet!$A$1:$A$2)", 10.0)
    assert quotient(a, cell("A3", 0.0)).value == 0
    assert span([a, b]) == "Sheet!$A$1:$A$2"


def test_words_follow_the_first_count_above_zero() -> None:
    none, some = cell("A1", 0), cell("A2", 3)
    assert worst_of([(none, "failed"), (some, "warned")], "fine").value == "warned"
    assert worst_of([(none, "failed"), (none, "warned")], "fine").value == "fine"
    assert count_of("x", [cell("A1", "x"), cell("A2", "y")]).value == 1


@pytest.mark.parametrize(("delta", "word"), [(0.0, "ok"), (-0.5, "ok"), (0.51, "differs"), (-0.51, "differs")])
def test_a_difference_is_judged_by_its_size(delta: float, word: str) -> None:
    assert within(cell("A1", delta), cell("A2", 0.5), "ok", "differs").value == word


def test_text_is_not_added_up() -> None:
    with pytest.raises(TypeError, match="is text"):
        total([cell("A1", "six")])
