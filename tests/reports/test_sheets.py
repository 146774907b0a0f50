"""What the sheets say, and that they hold whatever a plan holds: many services, none feasible, nothing observed."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from reports.frames import PlanFrames
from reports.workbook import SHEETS, build_workbook, workbook_name
from tests.reports import reading
from tests.reports import sample_plan as sample
from tests.reports.sample_plan import CREATED_AT, frame, sample_plan


def many_services(count: int) -> PlanFrames:
    """So many services, every third without a feasible configuration."""
    candidates: list[dict[str, Any]] = []
    headroom: list[dict[str, Any]] = []
    for i in range(count):
        name = f"service {i:02d}"
        feasible = i % 3 != 2
        candidates.append(
            sample.candidate(name, "H100-SXM", 2, "bf16", "chosen" if feasible else "short_of_slo", "because it is",
                             replicas=3 if feasible else None, goodput_rps_per_replica=2.0, goodput_rps_per_gpu=1.0)
        )  # fmt: skip
        if feasible:
            headroom += [dict(h, service=name, gpus=h["replicas"] * 2) for h in sample.headroom_rows()[6:]]
    cost = sample.cost_rows(headroom)
    return sample_plan(
        header=frame("plan", [sample.header_row(cost, services=count)]),
        workload=frame("plan_workload", _for_each(candidates, sample.workload_rows()[:9])),
        buckets=frame("workload_bucket", _for_each(candidates, sample.bucket_rows()[:8])),
        windows=frame("workload_window", _for_each(candidates, sample.window_rows()[:288])),
        candidates=frame("plan_candidate", candidates),
        memory=frame("plan_memory", sample.memory_rows(candidates)),
        capacity=frame("plan_capacity", sample.capacity_rows(candidates)),
        bucket_results=frame("plan_bucket", sample.bucket_result_rows(candidates)),
        headroom=frame("plan_headroom", headroom),
        cost=frame("plan_cost", cost),
    )  # fmt: skip


def _for_each(candidates: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(row, service=c["service"]) for c in candidates for row in rows]


def nothing_feasible() -> PlanFrames:
    """A first version in which no service has a configuration, nothing was observed and nothing rejected."""
    unpriced = dict.fromkeys(("replicas", "gpus", "usd_per_hour", "usd_per_million_output_tokens"))
    candidates = [dict(c, status="short_of_slo", **unpriced) for c in sample.candidate_rows()[:1]]
    none = {
        field: frame(table, [])
        for field, table in (
            ("capacity", "plan_capacity"), ("bucket_results", "plan_bucket"), ("headroom", "plan_headroom"),
            ("cost", "plan_cost"), ("errors", "prediction_error"), ("observations", "observation"),
            ("rejected_rows", "rejected_row"), ("numbers", "plan_number"), ("checks", "plan_check"),
            ("memory", "plan_memory"), ("windows", "workload_window"), ("buckets", "workload_bucket"),
            ("workload", "plan_workload"), ("assumptions", "plan_assumption"),
        )
    }  # fmt: skip
    header = sample.header_row([], services=1, services_meeting_slo=0, previous_version=None)
    return sample_plan(
        header=frame("plan", [header]), candidates=frame("plan_candidate", candidates), previous=None,
        rejected_counts=pl.DataFrame(schema={"source_file": pl.String, "reason": pl.String, "rows": pl.Int64}), **none,
    )  # fmt: skip


def test_the_sheets_stand_in_reading_order(sample_bytes: bytes) -> None:
    assert tuple(reading.opened(sample_bytes).sheetnames) == SHEETS


def test_the_summary_tells_each_services_fleet_cost_and_what_binds(sample_bytes: bytes) -> None:
    rows = reading.table_rows(reading.opened(sample_bytes, values=True), "Summary", "t_summary")
    chat = rows[0]
    assert chat["Service"] == "chat"
    assert (
        chat["Decision"] == "meta-llama/Llama-3.1-8B-Instruct on 1 × H100-SXM a replica, TP1, bf16 weights, vllm 0.19.0"
    )
    assert (chat["Replicas"], chat["GPUs"], chat["of them headroom"]) == (7, 7, 3)
    assert chat["USD/h"] == pytest.approx(7 * 2.95)
    assert chat["USD/month"] == pytest.approx(7 * 2.95 * 730)
    assert chat["USD per 1M output tokens"] == pytest.approx(7 * 2.95 / 31.4159265358979)
    assert (chat["SLO"], chat["Attainment"], chat["One replica down"]) == ("meets", 0.9958, 0.9871)
    assert chat["What binds"] == "TPOT (L); least margin: TPOT P99"


def test_the_bridge_leads_from_the_former_cost_to_this_one(sample_bytes: bytes) -> None:
    rows = {
        r["Service"]: r for r in reading.table_rows(reading.opened(sample_bytes, values=True), "Summary", "t_bridge")
    }
    for row in rows.values():
        causes = row["from GPU count"] + row["from price or GPU type"]
        assert row["USD/month before"] + causes == pytest.approx(row["USD/month now"])
    assert rows["chat"]["from GPU count"] == pytest.approx(3.1 * 730)
    assert rows["chat"]["from price or GPU type"] == pytest.approx(7 * (2.95 - 3.1) * 730)
    assert rows["batch"]["What changed"] == "no longer planned"
    assert rows["batch"]["USD/month now"] == 0


def test_a_first_version_says_there_is_nothing_to_compare_with() -> None:
    book = reading.opened(build_workbook(sample_plan(previous=None), CREATED_AT), values=True)
    assert reading.beside(book, "Summary", "Change since the last version") == "first version"


def test_a_plan_without_observations_says_so() -> None:
    plan = sample_plan(errors=frame("prediction_error", []), observations=frame("observation", []))
    book = reading.opened(build_workbook(plan, CREATED_AT), values=True)
    said = [str(row[0].value) for row in book["Prediction vs Observed"].iter_rows()]
    assert any(text.startswith("No observations yet") for text in said)
    assert reading.beside(book, "Summary", "Accuracy so far") == "nothing observed yet"


def test_saturated_observations_are_shown_but_not_counted(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes, values=True)
    errors = reading.table_rows(book, "Prediction vs Observed", "t_prediction_error")
    assert [r["Use"] for r in errors].count("saturated: not fitted") == 2
    assert len(errors) == 10
    accuracy = reading.table_rows(book, "Prediction vs Observed", "t_accuracy")[0]
    assert (accuracy["Rows"], accuracy["Saturated rows"]) == (4, 1)
    ratios = sorted(abs(p / o - 1) for p, o in ((19.2, 21.0), (24.9, 26.2), (36.0, 33.456598), (60.1, 71.9)))
    assert accuracy["Median |error|"] == pytest.approx((ratios[1] + ratios[2]) / 2)


def test_candidates_are_ranked_by_status_then_cost(sample_bytes: bytes) -> None:
    rows = reading.table_rows(reading.opened(sample_bytes, values=True), "Candidates", "t_candidates")
    assert [(r["Rank"], r["Status"]) for r in rows if r["Service"] == "chat"] == [
        (1, "chosen"), (2, "meets the SLO"), (3, "short of the SLO"), (4, "not shortlisted"),
    ]  # fmt: skip


def test_each_candidate_says_what_its_step_times_rest_on(sample_bytes: bytes) -> None:
    rows = reading.table_rows(reading.opened(sample_bytes, values=True), "Candidates", "t_settings")
    chat = [r["Step times rest on"] for r in rows if r["Service"] == "chat"]
    assert chat[0].startswith("measured by steps.csv") and set(chat[1:]) == {"physics x fitted coefficients"}
    assert [r["Step times rest on"] for r in rows if r["Configuration"].startswith("L40S/tp8")] == [None]


def test_a_service_without_a_configuration_is_named_and_left_out_of_the_cost() -> None:
    book = reading.opened(build_workbook(many_services(20), CREATED_AT), values=True)
    rows = reading.table_rows(book, "Summary", "t_summary")
    lost = [r for r in rows if r["SLO"] == "misses"]
    assert len(lost) == 6
    assert all(r["Decision"].startswith("No configuration meets the SLO. Closest: H100-SXM") for r in lost)
    assert all(r["USD/month"] is None for r in lost)
    assert reading.beside(book, "Summary", "Services that meet their SLO") == "14 of 20: cost leaves out 6"


def test_a_plan_with_no_fleet_at_all_is_still_a_workbook() -> None:
    book = reading.opened(build_workbook(nothing_feasible(), CREATED_AT), values=True)
    assert reading.beside(book, "Summary", "Cost, USD a month") == 0
    assert reading.beside(book, "Summary", "Services that meet their SLO") == "0 of 1: cost leaves out 1"


def test_the_memory_account_adds_up_to_the_visible_memory(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes, values=True)
    for column in (2, 3, 4):
        visible = reading.beside(book, "Memory", "visible memory", column)
        assert reading.beside(book, "Memory", "sum, which is the visible memory", column) == pytest.approx(visible)
        spare = reading.beside(book, "Memory", "left on the GPU", column)
        assert spare == pytest.approx(visible * 0.1 - reading.beside(book, "Memory", "cuda graphs", column))


def test_a_warehouse_total_that_differs_turns_the_master_check() -> None:
    plan = sample_plan()
    wrong = plan.header.with_columns(pl.lit(99).cast(pl.Int32).alias("gpus_total"))
    book = reading.opened(build_workbook(sample_plan(header=wrong), CREATED_AT), values=True)
    assert all(str(book[name]["A3"].value).startswith("Figures differ") for name in SHEETS)


def test_checks_that_warn_or_fail_turn_the_master_check() -> None:
    rows = sample.check_rows()
    said = {}
    for word, changed in (
        ("fail", [dict(rows[0], passed=False)]), ("warn", [dict(rows[2])]), ("fine", [dict(rows[0]), dict(rows[3])]),
    ):  # fmt: skip
        content = build_workbook(sample_plan(checks=frame("plan_check", changed)), CREATED_AT)
        said[word] = reading.opened(content, values=True)["Summary"]["A3"].value
    assert said == {
        "fail": "A check failed: see Checks", "warn": "Passed, with warnings: see Checks", "fine": "All checks passed",
    }  # fmt: skip


def test_rejected_rows_are_counted_by_source_and_reason(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes, values=True)
    rows = reading.table_rows(book, "Checks", "t_rejected")
    assert [(r["Reason"], r["Rows"]) for r in rows] == [("osl_tokens is 0", 41), ("arrival_at is not a time", 3)]
    assert reading.table_rows(book, "Checks", "t_rejected_rows")[1]["Line"] == 907


def test_formulas_hold_no_constants_no_volatile_functions_and_no_other_workbook(sample_bytes: bytes) -> None:
    for at, formula in reading.formulas(sample_bytes).items():
        assert not re.search(r"OFFSET|INDIRECT|\[|TODAY|NOW|RAND", formula), at
        bare = re.sub(
            r"'[^']*'!|\"[^\"]*\"|[A-Za-z_][A-Za-z_0-9]*!|\$?[A-Z]{1,3}\$?[0-9]+|[A-Za-z_][A-Za-z_0-9]*", "", formula
        )
        assert set(re.findall(r"[0-9.]+", bare)) <= {"0"}, f"{at}: {formula}"


def test_no_figure_is_shown_with_all_its_digits(sample_bytes: bytes) -> None:
    for sheet in reading.opened(sample_bytes, values=True):
        for row in sheet.iter_rows():
            for cell in row:
                if isinstance(cell.value, float) and not cell.value.is_integer():
                    assert cell.number_format != "General", f"{sheet.title}!{cell.coordinate}"


def test_key_inputs_and_totals_have_names(sample_bytes: bytes) -> None:
    names = set(reading.opened(sample_bytes).defined_names)
    inputs = {"hours_per_month", "usd_per_gpu_hour_H100_SXM", "usd_per_gpu_hour_L40S"}
    assert inputs | {"total_usd_per_month", "total_usd_per_hour", "total_gpus", "master_check"} <= names


@pytest.mark.parametrize("plan", [sample_plan(), many_services(20), nothing_feasible()])
def test_tables_have_unique_one_line_headers_equal_to_their_cells(plan: PlanFrames) -> None:
    book = reading.opened(build_workbook(plan, CREATED_AT))
    names: list[str] = []
    for sheet in book:
        for table in sheet.tables.values():
            names.append(table.displayName)
            headers = [cell.value for cell in sheet[table.ref][0]]
            assert headers == [column.name for column in table.tableColumns]
            assert len({str(h).lower() for h in headers}) == len(headers)
            assert all(isinstance(h, str) and "\n" not in h for h in headers)
            assert table.autoFilter is not None
    assert len(names) == len(set(names))
    assert not set(names) & set(book.defined_names)


def test_every_sheet_shows_the_master_check_frozen_and_prints_one_page_wide(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes)
    for sheet in book:
        assert sheet.freeze_panes == "A4"
        assert str(sheet["A3"].value).startswith("=")
        assert sheet.page_setup.orientation == "landscape"
        assert (sheet.page_setup.fitToWidth, sheet.page_setup.fitToHeight) == (1, 0)
        assert sheet.oddFooter.left is not None  # type: ignore[union-attr]
        assert "plan version 2" in str(sheet.oddFooter.left.text)  # type: ignore[union-attr]


def test_inputs_are_blue_and_links_to_other_sheets_green(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes)
    price = reading.find(book, "Assumptions", "Price of H100-SXM").offset(0, 1)
    assert price.font.color.rgb == "000000FF"
    for (sheet, at), formula in reading.formulas(sample_bytes).items():
        cell = book[sheet][at]
        if isinstance(cell.value, str) and cell.style in ("plan link", "plan formula"):
            assert (cell.style == "plan link") == ("!" in formula), (sheet, at)


def test_published_assumptions_lend_the_live_inputs_their_source_and_stand_once(sample_bytes: bytes) -> None:
    book = reading.opened(sample_bytes, values=True)
    prices = {r["Input"]: r for r in reading.table_rows(book, "Assumptions", "t_prices")}
    assert prices["Price of H200-SXM"]["Source"] == sample.PRICE_SOURCE
    rest = [r["Input"] for r in reading.table_rows(book, "Assumptions", "t_assumptions")]
    assert "hours_per_month" not in rest
    assert "max_rejected_share" in rest


def test_two_billing_months_are_refused() -> None:
    cost = sample_plan().cost.with_columns(pl.Series("hours_per_month", [720.0] + [730.0] * 11))
    with pytest.raises(ValueError, match="720, 730 hours a month"):
        build_workbook(sample_plan(cost=cost), CREATED_AT)


def test_a_frame_that_lacks_a_column_is_named() -> None:
    with pytest.raises(ValueError, match=r"frame cost lacks the column.* gpus"):
        sample_plan(cost=sample_plan().cost.drop("gpus"))


def test_the_name_carries_workspace_version_and_day() -> None:
    assert workbook_name("sample", 12, CREATED_AT) == "capacity_sample_v0012_2026-03-04.xlsx"
    assert workbook_name("../../etc passwd", 1, CREATED_AT) == "capacity_etc_passwd_v0001_2026-03-04.xlsx"
    assert workbook_name("容量", 1, CREATED_AT) == "capacity_workspace_v0001_2026-03-04.xlsx"


def test_a_chart_whose_figures_span_orders_of_magnitude_has_a_logarithmic_axis() -> None:
    rows = sample.error_rows()
    rows[3]["predicted_ms"] = 30_000.0
    book = reading.opened(build_workbook(sample_plan(errors=frame("prediction_error", rows)), CREATED_AT))
    bases = [chart.y_axis.scaling.logBase for chart in book["Prediction vs Observed"]._charts]  # type: ignore[attr-defined]
    assert bases == [10, None]
