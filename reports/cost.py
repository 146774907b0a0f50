"""The cost block: replicas × GPUs a replica × price × hours, as formulas over the Assumptions sheet.

Belongs here: the lines, their totals, and each service's subtotal for Summary. It stands on the Capacity sheet as the
operational margin and what it costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reports import styles
from reports.assumptions import Drivers, margin_rows
from reports.decisions import RISK_WORDS, Decision
from reports.formulas import Live, difference, product, quotient, total
from reports.frames import PlanFrames, rows_of
from reports.page import Column, FromRow, Page, Value

_COLUMNS = (
    Column("Service"),
    Column("Covers"),
    Column("GPU"),
    Column("Demand factor", "0.00"),
    Column("Replicas", styles.COUNT),
    Column("GPUs per replica", styles.COUNT),
    Column("GPUs", styles.COUNT),
    Column("USD per GPU-hour", styles.PRICE),
    Column("USD/h", styles.MONEY),
    Column("USD/month", styles.MONEY_WHOLE),
    Column("Label"),
    Column("Basis", runs_on=True),
)
_GPUS_AT, _HOURLY_AT, _MONTHLY_AT = 7, 9, 10


@dataclass(frozen=True, slots=True)
class ServiceCost:
    """A service's subtotals, as expressions over the cost lines."""

    replicas: Live
    gpus: Live
    demand_gpus: Live | None
    usd_per_hour: Live
    usd_per_month: Live
    usd_per_million_output_tokens: Live | None

    @property
    def headroom_gpus(self) -> Live | None:
        """GPUs above what demand itself takes."""
        return difference(self.gpus, self.demand_gpus) if self.demand_gpus is not None else None


@dataclass(slots=True)
class CostBlock:
    """Subtotals by service, and the cells of the grand totals (None where no service has a fleet)."""

    services: dict[str, ServiceCost] = field(default_factory=dict)
    gpus: Live | None = None
    usd_per_hour: Live | None = None
    usd_per_month: Live | None = None


def write(page: Page, frames: PlanFrames, decisions: list[Decision], drivers: Drivers) -> CostBlock:
    """The block at the page's next free row."""
    block = CostBlock()
    rows: list[list[Value | FromRow]] = []
    owners: list[tuple[str, str]] = []
    for decision in decisions:
        lines = rows_of(frames.cost, service=decision.service)
        if decision.chosen is None or not lines:
            continue
        by_risk = {line["item"]: line for line in lines}
        for margin in margin_rows(frames, decision.service):
            line = by_risk.get(margin["risk"], lines[0])
            owners.append((decision.service, margin["risk"]))
            rows.append(
                [
                    decision.service,
                    RISK_WORDS[margin["risk"]],
                    line["gpu_id"],
                    margin["factor"],
                    drivers.replicas[decision.service, margin["risk"]],
                    drivers.gpus_per_replica[decision.service],
                    lambda c: product(c["Replicas"], c["GPUs per replica"]),
                    drivers.prices[line["gpu_id"], line["usd_per_gpu_hour"]],
                    lambda c: product(c["GPUs"], c["USD per GPU-hour"]),
                    lambda c: product(c["USD/h"], Live("hours_per_month", drivers.hours_per_month.value)),
                    margin["label"],
                    margin["basis"],
                ]
            )
    if not rows:
        page.note("No service has a fleet to price.")
        return block
    cells = page.table("t_cost", _COLUMNS, rows)
    page.put(page.row, 1, "Total", "plan total text")
    for column in range(2, len(_COLUMNS) + 1):
        page.put(page.row, column, None, "plan total text")
    sums = {
        name: page.put(page.row, at, total([c[name] for c in cells]), "plan total", fmt)
        for name, at, fmt in (
            ("GPUs", _GPUS_AT, styles.COUNT),
            ("USD/h", _HOURLY_AT, styles.MONEY),
            ("USD/month", _MONTHLY_AT, styles.MONEY_WHOLE),
        )
    }
    page.row += 1
    block.gpus, block.usd_per_hour, block.usd_per_month = sums["GPUs"], sums["USD/h"], sums["USD/month"]
    for name, cell in (
        ("total_gpus", block.gpus),
        ("total_usd_per_hour", block.usd_per_hour),
        ("total_usd_per_month", block.usd_per_month),
    ):
        if cell is not None:
            page.name_cell(name, cell)
    for service in dict.fromkeys(owner for owner, _ in owners):
        mine = {risk: row for (owner, risk), row in zip(owners, cells, strict=True) if owner == service}
        hourly = total([row["USD/h"] for row in mine.values()])
        output = drivers.output_mtokens_per_hour.get(service)
        block.services[service] = ServiceCost(
            replicas=total([row["Replicas"] for row in mine.values()]),
            gpus=total([row["GPUs"] for row in mine.values()]),
            demand_gpus=mine["demand"]["GPUs"] if "demand" in mine else None,
            usd_per_hour=hourly,
            usd_per_month=total([row["USD/month"] for row in mine.values()]),
            usd_per_million_output_tokens=quotient(hourly, output) if output is not None else None,
        )
    return block
