"""Sheet Assumptions: every input with unit, label, source and comment; the ones that drive cost are live.

A `plan_assumption` row called `hours_per_month` or `usd_per_gpu_hour <gpu_id>` (service 'all') is taken as that live
input and lends it label, source and comment; every other row is the register of what the replay was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from openpyxl import Workbook

from reports import styles
from reports.decisions import RISK_WORDS, Decision
from reports.formulas import Live
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Input, Page, Value
from reports.text import slug

HOURS = "hours_per_month"
PRICE = "usd_per_gpu_hour"

_COLUMNS = (
    Column("Service"),
    Column("Input"),
    Column("Value", styles.PLAIN),
    Column("Unit"),
    Column("Label"),
    Column("Source"),
    Column("Comment"),
)


@dataclass(slots=True)
class Drivers:
    """The live input cells: what cost formulas on the other sheets refer to."""

    hours_per_month: Live
    prices: dict[tuple[str, float], Live] = field(default_factory=dict)
    """By accelerator and published price."""
    replicas: dict[tuple[str, str], Live] = field(default_factory=dict)
    """By service and risk."""
    gpus_per_replica: dict[str, Live] = field(default_factory=dict)
    output_mtokens_per_hour: dict[str, Live] = field(default_factory=dict)


def hours_billed(frames: PlanFrames) -> float:
    """Hours billed a month; raises ValueError where cost rows disagree, since the sheet has one input for it."""
    values = sorted(set(frames.cost["hours_per_month"].to_list()))
    if len(values) > 1:
        raise ValueError(f"plan_cost bills {', '.join(f'{v:g}' for v in values)} hours a month; a plan has one figure")
    if values:
        return float(values[0])
    named = rows_of(frames.assumptions, name=HOURS)
    return float(named[0]["value"]) if named and named[0]["value"] is not None else 0.0


def prices_of(frames: PlanFrames) -> list[tuple[str, float, str, str]]:
    """Accelerator, price, label and source of every price in use, cost rows first."""
    found: dict[tuple[str, float], tuple[str, str]] = {}
    for row in frames.cost.iter_rows(named=True):
        found.setdefault((row["gpu_id"], row[PRICE]), (row["label"], row["source"]))
    for row in frames.candidates.iter_rows(named=True):
        if row[PRICE] is not None:
            found.setdefault((row["gpu_id"], row[PRICE]), ("assumed", "price of the candidate; see table price"))
    return [(gpu, price, *found[gpu, price]) for gpu, price in found]


def output_mtokens_per_hour(decision: Decision) -> float | None:
    """Millions of output tokens an hour at the mean demand, as the published cost per token implies it."""
    for row in decision.ranked:
        if row["usd_per_hour"] and row["usd_per_million_output_tokens"]:
            return float(row["usd_per_hour"] / row["usd_per_million_output_tokens"])
    return None


def write(workbook: Workbook, frames: PlanFrames, decisions: list[Decision], subtitle: str) -> tuple[Page, Drivers]:
    """The sheet, and the cells that drive cost."""
    page = Page(workbook, "Assumptions", (18, 34, 16, 16, 11, 46, 54), "0000FF")
    page.head("Assumptions: what the plan was given", subtitle)
    used: set[tuple[str, str]] = set()
    drivers = _prices(page, frames, used)
    _fleets(page, frames, decisions, drivers)
    _register(page, frames, used)
    return page, drivers


def _prices(page: Page, frames: PlanFrames, used: set[tuple[str, str]]) -> Drivers:
    page.section("Prices", "Change a shaded blue cell: cost follows on Candidates, Capacity and Summary, here and now.")
    rows: list[list[Value]] = []
    told = {row["name"]: row for row in rows_of(frames.assumptions, service="all")}

    def add(name: str, key: str, value: float, unit: str, label: str, source: str, comment: str) -> None:
        row = told.get(key)
        if row is not None and row["value"] == value:
            used.add(("all", key))
            label, source, comment = row["label"], row["source"], row["comment"] or comment
        rows.append(["all", name, Input(value, live=True), unit, label, source, comment])

    add(
        "Hours billed a month",
        HOURS,
        hours_billed(frames),
        "h",
        "assumed",
        "capsheet.yaml",
        "cost a month = cost an hour × this",
    )
    prices = prices_of(frames)
    for gpu, price, label, source in prices:
        add(f"Price of {gpu}", f"{PRICE} {gpu}", price, "USD/h", label, source, "one accelerator, one hour")
    cells = page.table("t_prices", _COLUMNS, rows)
    drivers = Drivers(cells[0]["Value"])
    page.name_cell(HOURS, drivers.hours_per_month)
    names: set[str] = set()
    for (gpu, price, _, _), row in zip(prices, cells[1:], strict=True):
        drivers.prices[gpu, price] = row["Value"]
        page.name_cell(_fresh(f"{PRICE}_{slug(gpu, 'gpu').replace('-', '_')}", names), row["Value"])
    for row in cells[1:]:
        page.sheet[row["Value"].formula.rsplit("!", 1)[-1].replace("$", "")].number_format = styles.PRICE
    page.gap()
    return drivers


def _fresh(name: str, taken: set[str]) -> str:
    """The name, numbered where it is taken: defined names ignore case."""
    candidate, number = name, 2
    while candidate.lower() in taken:
        candidate, number = f"{name}_{number}", number + 1
    taken.add(candidate.lower())
    return candidate


def _fleets(page: Page, frames: PlanFrames, decisions: list[Decision], drivers: Drivers) -> None:
    page.section(
        "Fleet",
        "Replica counts come from the replay. A change here is priced; whether the SLO still holds, a new plan says.",
    )
    rows: list[list[Value]] = []
    keys: list[tuple[str, str]] = []
    for decision in decisions:
        for kind, row in _fleet_rows(frames, decision):
            keys.append((decision.service, kind))
            rows.append(row)
    if not rows:
        page.note("No service has a configuration that meets its SLO, so there is no fleet to price.")
    else:
        for (service, kind), cells in zip(keys, page.table("t_fleet", _COLUMNS, rows), strict=True):
            if kind == "gpus_per_replica":
                drivers.gpus_per_replica[service] = cells["Value"]
            elif kind == "output":
                drivers.output_mtokens_per_hour[service] = cells["Value"]
            else:
                drivers.replicas[service, kind] = cells["Value"]
    page.gap()


def _fleet_rows(frames: PlanFrames, decision: Decision) -> Iterable[tuple[str, list[Value]]]:
    service, chosen = decision.service, decision.chosen
    if chosen is not None:
        yield (
            "gpus_per_replica",
            [service, "GPUs a replica takes", Input(chosen["gpus_per_replica"], live=True), "GPUs", chosen["label"],
             f"configuration {chosen['candidate_id']}", "GPUs = replicas × this"],
        )  # fmt: skip
        for row in margin_rows(frames, service):
            yield (
                row["risk"],
                [service, f"Replicas for {RISK_WORDS[row['risk']]}", Input(row["replicas"], live=True), "replicas",
                 row["label"], row["source"], row["basis"]],
            )  # fmt: skip
    mtokens = output_mtokens_per_hour(decision)
    if mtokens is not None:
        yield (
            "output",
            [service, "Output tokens an hour, mean demand", Input(mtokens, live=True), "million tokens/h", "inferred",
             "plan_candidate: usd_per_hour / usd_per_million_output_tokens",
             "cost per million output tokens = cost an hour / this"],
        )  # fmt: skip


def margin_rows(frames: PlanFrames, service: str) -> list[Row]:
    """The service's headroom rows, one a risk, with any cost line that has no headroom row beside it."""
    rows = rows_of(frames.headroom, service=service)
    known = {row["risk"] for row in rows}
    chosen = [r for r in rows_of(frames.candidates, service=service) if r["status"] == "chosen"]
    size = chosen[0]["gpus_per_replica"] if chosen else 1
    for cost in rows_of(frames.cost, service=service):
        if cost["item"] not in known:
            rows.append(
                {"service": service, "position": cost["position"], "risk": cost["item"], "factor": None,
                 "replicas": cost["gpus"] / size, "gpus": cost["gpus"], "basis": "cost line without a headroom row",
                 "label": cost["label"], "source": cost["source"]}
            )  # fmt: skip
    return rows


def _register(page: Page, frames: PlanFrames, used: set[tuple[str, str]]) -> None:
    page.section(
        "Everything else the plan was given",
        "These went into the replay: change them in capsheet.yaml (or the source named) and run capsheet plan.",
    )
    rows: list[list[Value]] = []
    formats: list[str] = []
    for row in rows_of(frames.assumptions):
        if (row["service"], row["name"]) in used:
            continue
        value = row["value"] if row["value"] is not None else row["text"]
        formats.append(styles.number_format(row["unit"], row["value"]) if row["value"] is not None else styles.TEXT)
        rows.append(
            [row["service"], row["name"], Input(value), row["unit"], row["label"], row["source"], row["comment"]]
        )
    if not rows:
        page.note("No further inputs are recorded.")
        return
    top = page.row + 1
    page.table("t_assumptions", _COLUMNS, rows)
    for offset, fmt in enumerate(formats):
        page.sheet.cell(top + offset, 3).number_format = fmt
