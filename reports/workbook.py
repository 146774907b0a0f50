"""The workbook of a plan version: its name and its bytes.

Belongs here: the order of the sheets and what they share. Each sheet is a module of its own. Pure: frames and a
moment in, bytes out; the same inputs give the same bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime

from openpyxl import Workbook

from reports import assumptions, candidates, capacity, checks, memory, prediction, styles, summary, workload
from reports.cached import finish
from reports.decisions import decide
from reports.frames import PlanFrames
from reports.text import cell_text, slug

SHEETS = (
    "Summary", "Assumptions", "Workload", "Candidates", "Capacity", "Memory", "Prediction vs Observed", "Checks",
)  # fmt: skip
"""Titles in reading order."""


def workbook_name(workspace: str, version: int, created_at: datetime) -> str:
    """The file's name, `capacity_<workspace>_v000N_<YYYY-MM-DD>.xlsx`, safe whatever the workspace is called."""
    return f"capacity_{slug(workspace)}_v{version:04d}_{_utc(created_at):%Y-%m-%d}.xlsx"


def build_workbook(plan: PlanFrames, created_at: datetime) -> bytes:
    """The .xlsx of one plan version, formula cells with their values, as bytes.

    `created_at` (UTC; a zoned time is converted) goes into the properties. Raises ValueError where the frames
    contradict themselves in a way no sheet can show (two billing months).
    """
    moment = _utc(created_at)
    header = plan.plan
    workbook = Workbook()
    workbook.remove(workbook.worksheets[0])
    styles.add_styles(workbook)
    _properties(workbook, plan, moment)

    calibration = header["calibration_version"]
    version = f"{header['workspace']} · plan version {header['plan_version']} · {moment:%Y-%m-%d %H:%M} UTC"
    corrected = f"calibration {calibration}" if calibration else "no calibration in force"
    subtitle = f"{version} · capsheet {header['code_version']} · {corrected}"
    decisions = decide(plan)
    assumed, drivers = assumptions.write(workbook, plan, decisions, subtitle)
    work = workload.write(workbook, plan, decisions, subtitle)
    able, cost = capacity.write(workbook, plan, decisions, drivers, subtitle)
    ranked = candidates.write(workbook, decisions, drivers, cost, subtitle)
    held = memory.write(workbook, plan, decisions, subtitle)
    compared = prediction.write(workbook, plan, subtitle)
    checked, master = checks.write(workbook, plan, decisions, cost, subtitle)
    first = summary.write(workbook, plan, decisions, cost, subtitle)

    pages = {page.title: page for page in (first, assumed, work, ranked, able, held, compared, checked)}
    for page in pages.values():
        page.master_check(master, checks.ALL_PASSED, checks.WARNED)
        page.print_setup("capsheet: GPU capacity plan", version)
    workbook._sheets = [pages[title].sheet for title in SHEETS]  # type: ignore[attr-defined]  # openpyxl has no other way
    workbook.active = 0
    return finish(workbook, {page.title: page.cached for page in pages.values()}, moment)


def _properties(workbook: Workbook, plan: PlanFrames, moment: datetime) -> None:
    header = plan.plan
    properties = workbook.properties
    properties.creator = properties.lastModifiedBy = "capsheet"
    properties.title = cell_text(f"GPU capacity plan: {header['workspace']}, version {header['plan_version']}")
    properties.subject = "GPU capacity planning for LLM inference"
    properties.identifier = cell_text(header["inputs_sha256"])
    properties.created = properties.modified = moment
    workbook.calculation.fullCalcOnLoad = True


def _utc(moment: datetime) -> datetime:
    """Naive UTC, to the second: spreadsheets know no zones."""
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.replace(microsecond=0)
