"""The given serving measurements through `capsheet accuracy`: which rows are predicted, and how far off they are.

Each test prints its table (`pytest -s`). Limits leave room for an honest refit of the coefficients, not for a broken
term or a row that silently disappears.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipelines.planning.catalog import shipped
from pipelines.planning.measurements import START_UPS, read_measurements
from pipelines.planning.serving import read_cases
from pipelines.planning.serving.correction import correct
from pipelines.planning.serving.errors import errors, report
from pipelines.planning.serving.fitting import errors_table, fit_catalogue
from pipelines.planning.serving.predictions import Point, Predicted, points, predict_rows
from pipelines.sources.model_names import ModelFolders


@cache
def predicted(shared: Path, kind: str) -> list[Predicted]:
    found = read_measurements(shared / "cases" / f"serving_measured_{kind}.csv")
    assert found.kind != START_UPS
    catalog = shipped()
    rows = read_cases(found.rows, ModelFolders(shared / "data" / "hf_configs"), catalog, found.kind)
    return predict_rows(rows, catalog.profile)


def told(title: str, found: Any) -> None:
    print(title, json.dumps(found, indent=1))


def aggregated(shared: Path) -> list[Point]:
    return [point for point in points(predicted(shared, "closed_loop"))[0] if point.row.mode == "aggregated"]


@pytest.mark.parametrize(
    ("kind", "rows", "cases"), [("closed_loop", 3393, 2382), ("open_loop", 133, 81), ("other", 290, 240)]
)
def test_every_row_is_a_case_or_says_why_not(shared: Path, kind: str, rows: int, cases: int) -> None:
    found = predicted(shared, kind)
    assert len(found) == rows
    assert sum(one.row.case is not None for one in found) >= cases
    assert all(bool(one.values) != bool(one.skipped) for one in found)
    told(kind, report("closed loop", found, None, 0)["skipped"])


def test_exports_of_one_measurement_agree_on_its_configuration(shared: Path) -> None:
    """Rows that measured the same to the last digit are one configuration, however their layout is spelt."""
    known = [one.row for one in predicted(shared, "closed_loop") if one.row.case is not None]
    known = [row for row in known if row.mode == "aggregated" and len(row.measured) == 2]
    layouts: dict[tuple[float, ...], set[object]] = {}
    for row in known:
        assert row.case is not None
        layouts.setdefault(tuple(row.measured.values()), set()).add((row.case.layout, row.case.weights.total_bytes))
    assert len(layouts) > 1500
    assert [layout for layout in layouts.values() if len(layout) > 1] == []


def test_closed_loop_predictions_hold(shared: Path) -> None:
    said = errors(aggregated(shared))
    told("closed loop, aggregated", said)
    assert said["tpot"]["n"] > 1500
    # The fit has seen these combinations; docs/accuracy.md says what is left when it has not.
    assert said["tpot"]["median_ape"] <= 0.05 and said["tpot"]["p90_ape"] <= 0.18
    assert said["ttft"]["median_ape"] <= 0.12 and said["ttft"]["p90_ape"] <= 0.50
    assert said["tpot"]["coverage_p10_p90"] >= 0.8 and said["ttft"]["coverage_p10_p90"] >= 0.8


def test_thirty_percent_of_a_combination_correct_the_rest(shared: Path) -> None:
    said = errors(correct(aggregated(shared), 0.3).scored)
    told("closed loop, aggregated, corrected", said)
    assert said["tpot"]["median_ape"] <= 0.04 and said["tpot"]["p90_ape"] <= 0.14
    assert said["ttft"]["median_ape"] <= 0.09 and said["ttft"]["p90_ape"] <= 0.40


def test_separated_pools_are_predicted(shared: Path) -> None:
    found = [point for point in points(predicted(shared, "closed_loop"))[0] if point.row.mode == "separated"]
    said, corrected = errors(found), errors(correct(found, 0.3).scored)
    told("closed loop, separated", {"as predicted": said, "corrected": corrected})
    assert said["tpot"]["n"] > 150
    assert said["tpot"]["median_ape"] <= 0.15 and corrected["tpot"]["median_ape"] <= 0.08


def test_corrected_intervals_hold_about_eighty_percent(shared: Path) -> None:
    said = errors(correct(aggregated(shared), 0.3).scored)
    assert 0.75 <= said["tpot"]["coverage_p10_p90"] <= 0.92
    assert 0.75 <= said["ttft"]["coverage_p10_p90"] <= 0.92


def test_offline_throughput_is_predicted(shared: Path) -> None:
    said = errors(points(predicted(shared, "other"))[0])
    told("mixed", said)
    assert said["throughput"]["n"] > 200 and said["throughput"]["median_ape"] <= 0.30


def test_open_loop_predictions_hold(shared: Path) -> None:
    found = points(predicted(shared, "open_loop"))[0]
    said, corrected = errors(found), errors(correct(found, 0.3).scored)
    told("open loop", {"as predicted": said, "corrected": corrected})
    assert said["e2e"]["median_ape"] <= 0.05 and said["e2e"]["p90_ape"] <= 0.18
    assert said["ttft"]["median_ape"] <= 0.10 and said["ttft"]["p90_ape"] <= 0.30
    assert said["ttft_p99"]["median_ape"] <= 0.22


def test_combinations_left_out_are_predicted_from_the_others(shared: Path) -> None:
    """One engine's points through the fit of `make fit`; docs/accuracy.md has the table of all."""
    old = [{**row, "value": str(row["value"])} for row in shipped().profile]
    mine = fit_catalogue(shared / "cases", shared / "data" / "hf_configs", old, engines={"sglang"})
    table = {(row["load"], row["engine"], row["metric"]): row for row in errors_table(mine)}
    told("left out", [dict(row) for row in table.values()])
    tpot, ttft = (table["closed", "sglang", metric] for metric in ("tpot", "ttft"))
    assert int(str(tpot["n"])) > 250
    assert float(str(tpot["median %"])) <= 12 and float(str(ttft["median %"])) <= 30
    assert float(str(tpot["median % with 30%"])) <= 4.5 and float(str(ttft["median % with 30%"])) <= 12
