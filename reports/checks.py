"""Sheet Checks: does the workbook agree with the warehouse, what was checked and rejected, where numbers came from.

The one master check of the workbook stands here; every other sheet shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from openpyxl import Workbook

from reports import styles
from reports.cost import CostBlock
from reports.decisions import Decision
from reports.formulas import Live, count_of, difference, within, worst_of
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, FromRow, Input, Page, Value

ALL_PASSED = "All checks passed"
_DIFFERS = "Figures differ from the published plan: an input was edited here, or see Checks"
_FAILED = "A check failed: see Checks"
WARNED = "Passed, with warnings: see Checks"

MONEY_TOLERANCE_USD = 0.005
COUNT_TOLERANCE = 0.5

LEGEND = (
    ("verified", "read from a file or an API"),
    ("measured", "measured on hardware"),
    ("cited", "stated by a named source"),
    ("inferred", "deduced from verified, measured or cited figures"),
    ("estimated", "computed by a model of the system"),
    ("assumed", "set by hand; nobody has checked it"),
)
_RECONCILIATION = (
    Column("Figure"), Column("Workbook", "#,##0.00"), Column("Published", "#,##0.00"), Column("Difference", "#,##0.00"),
    Column("Tolerance", "0.000"), Column("Status"), Column("What it says"),
)  # fmt: skip
_CHECKS = (
    Column("Check"), Column("Scope"), Column("Found"), Column("Asked"), Column("On failure"), Column("Status"),
    Column("What to do"),
)  # fmt: skip
_NUMBERS = (
    Column("Figure"), Column("Value", styles.PLAIN), Column("Formula"), Column("Source"), Column("Label"),
    Column("Unit"), Column("Inputs"),
)  # fmt: skip


def write(
    workbook: Workbook,
    frames: PlanFrames,
    decisions: list[Decision],
    cost: CostBlock,
    subtitle: str,
) -> tuple[Page, Live]:
    """The sheet, and the cell of the master check."""
    page = Page(workbook, "Checks", (38, 24, 30, 30, 13, 13, 60))
    page.head("Checks: can this be trusted", subtitle)
    summary_row = page.row
    page.gap(5)
    statuses: list[list[Live]] = []
    statuses.append(_reconcile(page, frames, decisions, cost))
    statuses.append(_checks(page, frames))
    _rejected(page, frames)
    _legend(page)
    _fingerprints(page, frames)
    _numbers(page, frames)
    return page, _master(page, summary_row, statuses)


def _reconcile(page: Page, frames: PlanFrames, decisions: list[Decision], cost: CostBlock) -> list[Live]:
    page.section(
        "Workbook against warehouse",
        "Formulas here against the figures the plan published. They differ once an input is edited.",
    )
    plan = frames.plan
    rows: list[list[Value | FromRow]] = []

    def add(name: str, here: Live | None, published: float | None, tolerance: float, says: str) -> None:
        if here is not None and published is not None:
            rows.append([name, here, published, _delta, Input(tolerance), _verdict, says])

    if cost.gpus is None:
        zero = [("GPUs, total", plan["gpus_total"]), ("USD/h, total", plan["usd_per_hour"])]
        rows += [[name, 0, value, _delta, Input(MONEY_TOLERANCE_USD), _verdict, "no fleet"] for name, value in zero]
    add("GPUs, total", cost.gpus, plan["gpus_total"], COUNT_TOLERANCE, "sum of the cost lines against plan.gpus_total")
    add("USD/h, total", cost.usd_per_hour, plan["usd_per_hour"], MONEY_TOLERANCE_USD, "against plan.usd_per_hour")
    add(
        "USD/month, total", cost.usd_per_month, plan["usd_per_month"], MONEY_TOLERANCE_USD, "against plan.usd_per_month"
    )
    for decision in decisions:
        fleet, chosen = cost.services.get(decision.service), decision.chosen
        if fleet is None or chosen is None:
            continue
        name = decision.service
        add(f"{name}: GPUs", fleet.gpus, chosen["gpus"], COUNT_TOLERANCE, "headroom lines against the chosen candidate")
        add(f"{name}: USD/h", fleet.usd_per_hour, chosen["usd_per_hour"], MONEY_TOLERANCE_USD, "the same")
        add(f"{name}: USD per 1M output tokens", fleet.usd_per_million_output_tokens,
            chosen["usd_per_million_output_tokens"], MONEY_TOLERANCE_USD, "the same")  # fmt: skip
    first = page.row + 1
    cells = page.table("t_reconciliation", _RECONCILIATION, rows)
    page.status_column(6, first, page.row - 1)
    page.gap()
    return [row["Status"] for row in cells]


def _delta(cells: Mapping[str, Live]) -> Live:
    return difference(cells["Workbook"], cells["Published"])


def _verdict(cells: Mapping[str, Live]) -> Live:
    return within(cells["Difference"], cells["Tolerance"], "ok", "differs")


def status_word(check: Row) -> str:
    """A check's outcome in the workbook's own words; what only informs never fails."""
    if check["passed"]:
        return "passed"
    return {"stops": "FAILED", "warns": "warning", "informs": "noted"}[check["severity"]]


def _checks(page: Page, frames: PlanFrames) -> list[Live]:
    page.section("Checks on inputs and figures")
    rows: list[list[Value]] = [
        [c["check_name"], c["scope"], c["observed"], c["expected"], c["severity"], status_word(c), c["remedy"]]
        for c in rows_of(frames.checks)
    ]
    if not rows:
        page.note("No checks are recorded for this version.")
        page.gap()
        return []
    first = page.row + 1
    cells = page.table("t_checks", _CHECKS, rows)
    page.status_column(6, first, page.row - 1)
    page.gap()
    return [row["Status"] for row in cells]


def _rejected(page: Page, frames: PlanFrames) -> None:
    counts = rows_of(frames.rejected_counts)
    page.section(
        "Rejected rows", "Rows of the inputs that failed their contract: kept in table rejected_row, not in the plan."
    )
    if not counts:
        page.note("None: every row of every input was accepted.")
        page.gap()
        return
    columns = (Column("Source file"), Column("Rows", styles.COUNT), Column("Reason", runs_on=True))
    cells = page.table("t_rejected", columns, [[c["source_file"], c["rows"], c["reason"]] for c in counts])
    page.put(page.row, 1, "All", "plan total text")
    page.put(page.row, 2, sum(int(c["Rows"].number) for c in cells), "plan total", styles.COUNT)
    page.gap(2)
    first_rows = rows_of(frames.rejected_rows)
    if first_rows:
        page.note("The first of them, as they stood:")
        as_read = (Column("Source file"), Column("Line", styles.COUNT), Column("Reason"), Column("Row", runs_on=True))
        shown: list[list[Value]] = [[r["source_file"], r["line"], r["reason"], _one_line(r["raw"])] for r in first_rows]
        page.table("t_rejected_rows", as_read, shown)
        page.gap()


def _one_line(raw: str | None) -> str:
    """A raw row short enough to read; the whole of it is in table rejected_row."""
    line = " ".join((raw or "").split())
    return line if len(line) <= 120 else line[:119] + "…"


def _legend(page: Page) -> None:
    page.section("Labels", "How sure a number is, surest first.")
    page.table("t_labels", (Column("Label"), Column("Meaning", runs_on=True)), [list(row) for row in LEGEND])
    page.gap()


def _fingerprints(page: Page, frames: PlanFrames) -> None:
    page.section("Fingerprints", "Same fingerprint of all inputs, same numbers.")
    plan = frames.plan
    rows: list[list[Value]] = [
        ["All inputs", "sha256", plan["inputs_sha256"]],
        ["Code", "version", plan["code_version"]],
        [
            "Calibration",
            "version",
            str(plan["calibration_version"]) if plan["calibration_version"] else "none in force",
        ],
    ]
    rows += [[name, "input", value] for name, value in _inputs(plan["inputs_json"])]
    page.table("t_fingerprints", (Column("What"), Column("Kind"), Column("Fingerprint", runs_on=True)), rows)
    page.gap()


def _inputs(text: str) -> Iterable[tuple[str, str]]:
    """Source and fingerprint of `plan.inputs_json`, nested names joined; text that is not JSON is shown whole."""
    try:
        parsed = json.loads(text)
    except ValueError:
        return [("inputs", text)]
    return list(_flat("", parsed))


def _flat(prefix: str, value: object) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix} / {key}" if prefix else str(key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value, start=1):
            yield from _flat(f"{prefix} {index}".strip(), inner)
    else:
        yield prefix or "inputs", str(value)


def _numbers(page: Page, frames: PlanFrames) -> None:
    page.section(
        "Where the figures come from",
        "Each published figure, the function of the estimator that made it, and its inputs.",
    )
    numbers = rows_of(frames.numbers)
    if not numbers:
        page.note("No figures are recorded for this version.")
        return
    top = page.row + 1
    rows: list[list[Value]] = [
        [n["number"], n["value"], n["formula"], n["source"], n["label"], n["unit"], _said(n["inputs_json"])]
        for n in numbers
    ]
    page.table("t_numbers", _NUMBERS, rows)
    for offset, n in enumerate(numbers):
        page.sheet.cell(top + offset, 2).number_format = styles.number_format(n["unit"], n["value"])


def _said(text: str) -> str:
    return "; ".join(f"{name} = {_short(value)}" for name, value in _inputs(text))


def _short(value: str) -> str:
    """A number without its seventeenth digit; other text as it is."""
    try:
        return f"{float(value):.6g}" if "." in value or "e" in value.lower() else value
    except ValueError:
        return value


def _master(page: Page, row: int, statuses: list[list[Live]]) -> Live:
    """Counts by outcome at the top of the sheet, and the one line every sheet shows."""
    reconciled, checked = statuses
    none = Live("0", 0)
    lines = (
        ("Figures that differ from the warehouse", count_of("differs", reconciled)),
        ("Checks that failed", count_of("FAILED", checked) if checked else none),
        ("Checks that warn", count_of("warning", checked) if checked else none),
    )
    counts = []
    for offset, (words, live) in enumerate(lines):
        page.put(row + offset, 1, words, "plan text")
        cell = page.put(row + offset, 2, live if checked or offset == 0 else 0, fmt=styles.COUNT)
        if cell is not None:
            counts.append(cell)
    page.put(row + 3, 1, "The workbook as a whole", "plan total text")
    differing, failed, warned = counts
    verdict = worst_of(((failed, _FAILED), (differing, _DIFFERS), (warned, WARNED)), ALL_PASSED)
    master = page.put(row + 3, 2, verdict, "plan status")
    if master is None:
        raise AssertionError("a formula cell always has a reference")
    page.name_cell("master_check", master)
    return master
