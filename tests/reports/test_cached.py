"""The file itself: values beside formulas, and bytes that depend on nothing but the inputs."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime, timedelta, timezone

import pandas as pd
import pytest
from openpyxl import Workbook

from reports.cached import finish
from reports.workbook import build_workbook
from tests.reports import reading
from tests.reports.sample_plan import CREATED_AT, sample_plan


def test_every_formula_carries_a_value(sample_bytes: bytes) -> None:
    values = reading.cached(sample_bytes)
    assert len(values) > 100
    assert [at for at, value in values.items() if value is None] == []


def test_pandas_reads_the_cost_without_computing_it(sample_bytes: bytes) -> None:
    summary = pd.read_excel(io.BytesIO(sample_bytes), sheet_name="Summary", header=None)
    said = summary.loc[summary[0] == "Cost, USD a month", 1].iloc[0]
    assert said == pytest.approx(sample_plan().plan["usd_per_month"])


def test_the_same_plan_gives_the_same_bytes(sample_bytes: bytes) -> None:
    assert build_workbook(sample_plan(), CREATED_AT) == sample_bytes


def test_a_zoned_moment_is_told_in_utc(sample_bytes: bytes) -> None:
    abroad = CREATED_AT.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=9)))
    assert build_workbook(sample_plan(), abroad) == sample_bytes


def test_the_properties_name_the_plan_and_its_moment(sample_bytes: bytes) -> None:
    properties = reading.opened(sample_bytes).properties
    assert (properties.created, properties.modified) == (CREATED_AT, CREATED_AT)
    assert properties.title == "GPU capacity plan: sample, version 2"
    with zipfile.ZipFile(io.BytesIO(sample_bytes)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {CREATED_AT.timetuple()[:6]}


def _one_formula() -> Workbook:
    workbook = Workbook()
    workbook.worksheets[0].title = "S"
    workbook["S"]["B2"] = "=1=1"
    return workbook


@pytest.mark.parametrize("value", [True, False, 'a <b> & "c"', 3, 0.1, -1e-7])
def test_a_value_of_any_kind_reads_back(value: bool | str | float) -> None:
    content = finish(_one_formula(), {"S": {"B2": value}}, datetime(2026, 1, 1))  # noqa: DTZ001
    shown = reading.opened(content, values=True)["S"]["B2"].value
    assert shown == value
    assert isinstance(shown, type(value))


@pytest.mark.parametrize("values", [{}, {"B2": 1, "C3": 1}])
def test_formulas_and_values_that_do_not_match_are_refused(values: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="S"):
        finish(_one_formula(), {"S": values}, CREATED_AT)
