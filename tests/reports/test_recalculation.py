"""LibreOffice computes every formula anew and finds what the workbook said."""

from __future__ import annotations

import math
from typing import Any

import pytest

from reports.frames import PlanFrames
from reports.workbook import build_workbook
from tests.reports import reading
from tests.reports.conftest import Recalculate
from tests.reports.sample_plan import CREATED_AT, HOURS, PRICES, sample_plan
from tests.reports.test_sheets import many_services, nothing_feasible


def _agree(said: Any, computed: Any) -> bool:
    if isinstance(said, str) or isinstance(computed, str) or said is None:
        return bool(said == computed)
    return math.isclose(float(said), float(computed), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("plan", [sample_plan(), sample_plan(previous=None), many_services(20), nothing_feasible()])
def test_every_formula_comes_to_its_cached_value(plan: PlanFrames, recalculate: Recalculate) -> None:
    content = build_workbook(plan, CREATED_AT)
    said = reading.cached(content)
    shown = reading.opened(recalculate(reading.without_cached_values(content)), values=True)
    wrong = {
        at: (value, shown[at[0]][at[1]].value)
        for at, value in said.items()
        if not _agree(value, shown[at[0]][at[1]].value)
    }
    assert said
    assert wrong == {}


def test_recalculated_totals_are_the_warehouse_rows(sample_bytes: bytes, recalculate: Recalculate) -> None:
    plan = sample_plan()
    shown = reading.opened(recalculate(reading.without_cached_values(sample_bytes)), values=True)
    lines = {(r["Service"], r["GPU"], i): r for i, r in enumerate(reading.table_rows(shown, "Capacity", "t_cost"))}
    assert [row["USD/month"] for row in lines.values()] == pytest.approx(plan.cost["usd_per_month"].to_list())
    assert [row["GPUs"] for row in lines.values()] == plan.cost["gpus"].to_list()
    assert reading.beside(shown, "Summary", "Cost, USD a month") == pytest.approx(plan.plan["usd_per_month"])
    assert reading.beside(shown, "Summary", "GPUs, headroom included") == plan.plan["gpus_total"]


def test_a_price_typed_on_assumptions_reaches_summary_and_the_master_check(
    sample_bytes: bytes, recalculate: Recalculate
) -> None:
    cell = reading.find(reading.opened(sample_bytes), "Assumptions", "Price of H100-SXM").offset(0, 1)
    dearer = reading.opened(
        recalculate(reading.with_input(sample_bytes, "Assumptions", cell.coordinate, 4.0)), values=True
    )
    plan = sample_plan().plan
    expected = plan["usd_per_month"] * 4.0 / PRICES["H100-SXM"]
    assert reading.beside(dearer, "Summary", "Cost, USD a month") == pytest.approx(expected)
    assert str(dearer["Summary"]["A3"].value).startswith("Figures differ from the published plan")
    assert dearer["Candidates"]["A3"].value == dearer["Summary"]["A3"].value


def test_hours_and_replicas_typed_on_assumptions_reach_summary(sample_bytes: bytes, recalculate: Recalculate) -> None:
    book = reading.opened(sample_bytes)
    hours = reading.find(book, "Assumptions", "Hours billed a month").offset(0, 1).coordinate
    replicas = reading.find(book, "Assumptions", "Replicas for demand itself").offset(0, 1).coordinate
    edited = reading.with_input(sample_bytes, "Assumptions", hours, 100.0)
    edited = reading.with_input(edited, "Assumptions", replicas, 10)
    shown = reading.opened(recalculate(edited), values=True)
    plan = sample_plan().plan
    more = 10 - 4
    assert reading.beside(shown, "Summary", "GPUs, headroom included") == plan["gpus_total"] + more
    expected = (plan["usd_per_month"] / HOURS + more * PRICES["H100-SXM"]) * 100.0
    assert reading.beside(shown, "Summary", "Cost, USD a month") == pytest.approx(expected)
    ranked = reading.table_rows(shown, "Candidates", "t_candidates")
    assert ranked[0]["GPUs"] == 7 + more
