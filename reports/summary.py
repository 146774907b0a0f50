"""Sheet Summary: the decision, its cost, its margin, what binds, and what changed since the last version.

Finance reads this one without scrolling. Money and GPUs are links to the cost block on Capacity; words carry none.
"""

from __future__ import annotations

from openpyxl import Workbook

from reports import styles
from reports.cost import CostBlock
from reports.decisions import Decision
from reports.formulas import Live, difference, in_whole, stepped, total
from reports.frames import PlanFrames, PreviousPlan, Row, rows_of
from reports.page import Column, FromRow, Input, Page, Value
from reports.prediction import METRIC_WORDS, accuracy

_MEETING = "Services that meet their SLO"
_DECISION = (
    Column("Service"), Column("Decision"), Column("Replicas", styles.COUNT), Column("GPUs", styles.COUNT),
    Column("of them headroom", styles.COUNT), Column("USD/h", styles.MONEY), Column("USD/month", styles.MONEY_WHOLE),
    Column("USD per 1M output tokens", styles.MONEY_FINE), Column("SLO"), Column("Attainment", styles.SHARE_FINE),
    Column("Target", styles.SHARE_FINE), Column("One replica down", styles.SHARE_FINE),
    Column("Least margin", styles.RATIO), Column("What binds"),
)  # fmt: skip
_BRIDGE = (
    Column("Service"), Column("What changed"), Column("GPUs before", styles.COUNT), Column("GPUs now", styles.COUNT),
    Column("GPUs, change", styles.CHANGE), Column("USD/month before", styles.MONEY_WHOLE),
    Column("USD/month now", styles.MONEY_WHOLE), Column("from GPU count", styles.CHANGE),
    Column("from price or GPU type", styles.CHANGE),
)  # fmt: skip


def write(workbook: Workbook, frames: PlanFrames, decisions: list[Decision], cost: CostBlock, subtitle: str) -> Page:
    """The sheet."""
    page = Page(workbook, "Summary", (30, 46, 10, 9, 11, 12, 13, 13, 13, 12, 10, 12, 12, 28), "1F3A5F")
    page.head(f"GPU capacity plan: {frames.plan['workspace']}", subtitle)
    key_rows = page.row
    page.gap(6)
    _decisions(page, decisions, cost)
    page.gap()
    before = _bridge(page, frames, decisions, cost)
    _keys(page, key_rows, frames, decisions, cost, before)
    return page


def _keys(
    page: Page, row: int, frames: PlanFrames, decisions: list[Decision], cost: CostBlock, before: Live | None
) -> None:  # fmt: skip
    """The five figures a reader comes for."""
    meeting = sum(d.chosen is not None for d in decisions)
    left_out = len(decisions) - meeting
    lines: list[tuple[str, Value, str]] = [
        ("Cost, USD a month", cost.usd_per_month if cost.usd_per_month is not None else 0, "#,##0"),
        ("GPUs, headroom included", cost.gpus if cost.gpus is not None else 0, "#,##0"),
    ]
    if before is not None and cost.usd_per_month is not None:
        lines.append(
            (
                f"Change since version {frames.plan['previous_version']}",
                in_whole(difference(cost.usd_per_month, before)),
                '+#,##0" USD a month";-#,##0" USD a month";"none"',
            )
        )
    else:
        lines.append(("Change since the last version", "first version", ""))
    said = f"{meeting} of {len(decisions)}"
    lines.append((_MEETING, f"{said}: cost leaves out {left_out}" if left_out else said, ""))
    lines.append(("Accuracy so far", _accuracy_words(frames), ""))
    for offset, (words, value, fmt) in enumerate(lines):
        page.put(row + offset, 1, words, "plan key label")
        alarming = left_out and words == _MEETING
        page.put(row + offset, 2, value, "plan key alarm" if alarming else "plan key figure", fmt)
        page.sheet.row_dimensions[row + offset].height = 20


def _accuracy_words(frames: PlanFrames) -> str:
    """Median errors of the metrics that have any, over all services' comparable rows."""
    parts = [
        f"{METRIC_WORDS[a.metric]} within {a.median_abs_ratio:.0%} ({a.service}, median of {a.compared})"
        for a in accuracy(frames)
        if a.median_abs_ratio is not None and a.metric in ("ttft_p50", "ttft_p99", "tpot_mean")
    ]
    return "; ".join(parts[:3]) if parts else "nothing observed yet"


def _decisions(page: Page, decisions: list[Decision], cost: CostBlock) -> None:
    page.section(
        "Decision",
        "Attainment: share of requests inside every target at the planned rate. Headroom by risk: sheet Capacity.",
    )
    if not decisions:
        page.note("The plan holds no service.")
        return
    rows: list[list[Value | FromRow]] = [_decision_row(d, cost) for d in decisions]
    first = page.row + 1
    page.table("t_summary", _DECISION, rows)
    page.status_column(9, first, page.row - 1)
    for column in range(1, len(_DECISION) + 1):
        page.put(page.row, column, None, "plan total text")
    page.put(page.row, 1, "Total", "plan total text")
    grand = {"GPUs": cost.gpus, "USD/h": cost.usd_per_hour, "USD/month": cost.usd_per_month}
    for index, shown in enumerate(_DECISION, start=1):
        live = grand.get(shown.header)
        if live is not None:
            page.put(page.row, index, live, "plan total", shown.format)
    page.row += 1


def _decision_row(decision: Decision, cost: CostBlock) -> list[Value | FromRow]:
    fleet, planned, down = cost.services.get(decision.service), decision.planned, decision.one_down
    if decision.chosen is None:
        return [decision.service, decision.words, *[None] * 6, "misses", *[None] * 5]
    slo = ("meets" if planned["meets_slo"] else "misses") if planned is not None else "not replayed"
    return [
        decision.service, decision.words,
        fleet.replicas if fleet else decision.chosen["replicas"], fleet.gpus if fleet else decision.chosen["gpus"],
        fleet.headroom_gpus if fleet else None, fleet.usd_per_hour if fleet else None,
        fleet.usd_per_month if fleet else None, fleet.usd_per_million_output_tokens if fleet else None, slo,
        planned["attainment"] if planned else None, planned["attainment_target"] if planned else None,
        down["attainment"] if down else None, planned["margin_ratio"] if planned else None, decision.binding,
    ]  # fmt: skip


def _bridge(page: Page, frames: PlanFrames, decisions: list[Decision], cost: CostBlock) -> Live | None:
    """The bridge from the previous version's cost to this one's; returns the former total, None for a first version."""
    previous = frames.previous
    page.section("Change since the last version")
    if previous is None:
        page.note("This is the first version: there is nothing to compare with.")
        return None
    was = previous.header.row(0, named=True)
    page.note(
        f"From version {was['plan_version']} of {was['created_at']:%Y-%m-%d %H:%M} UTC. Before + the two causes = now."
    )
    now = {d.service: d for d in decisions}
    names = list(dict.fromkeys([*now, *previous.cost["service"], *previous.candidates["service"]]))
    rows: list[list[Value | FromRow]] = []
    for name in names:
        lines = rows_of(previous.cost, service=name)
        fleet = cost.services.get(name)
        rows.append(
            [
                name,
                _what_changed(now.get(name), previous, name),
                Input(sum(line["gpus"] for line in lines)),
                fleet.gpus if fleet else 0,
                lambda c: difference(c["GPUs now"], c["GPUs before"]),
                Input(sum(line["usd_per_month"] for line in lines)),
                fleet.usd_per_month if fleet else 0,
                lambda c: stepped(c["GPUs now"], c["GPUs before"], c["USD/month before"], c["USD/month now"]),
                lambda c: difference(c["USD/month now"], c["USD/month before"], c["from GPU count"]),
            ]
        )
    return _bridge_table(page, rows)


def _bridge_table(page: Page, rows: list[list[Value | FromRow]]) -> Live | None:
    cells = page.table("t_bridge", _BRIDGE, rows)
    page.put(page.row, 1, "Total", "plan total text")
    page.put(page.row, 2, None, "plan total text")
    former: Live | None = None
    for index, column in enumerate(_BRIDGE[2:], start=3):
        ref = page.put(page.row, index, total([c[column.header] for c in cells]), "plan total", column.format)
        former = ref if column.header == "USD/month before" else former
    page.row += 1
    return former


def _what_changed(decision: Decision | None, previous: PreviousPlan, service: str) -> str:
    old = next((r for r in rows_of(previous.candidates, service=service) if r["status"] == "chosen"), None)
    new = decision.chosen if decision is not None else None
    if decision is None:
        return "no longer planned"
    if not rows_of(previous.candidates, service=service):
        return "new service"
    if old is None or new is None:
        return "still without a configuration" if new is None and old is None else _gained_or_lost(new)
    if old["candidate_id"] != new["candidate_id"]:
        return f"{old['candidate_id']} → {new['candidate_id']}"
    return _same_configuration(old, new)


def _gained_or_lost(new: Row | None) -> str:
    return "a configuration meets the SLO now" if new is not None else "no configuration meets the SLO any more"


def _same_configuration(old: Row, new: Row) -> str:
    parts = []
    if old["replicas"] != new["replicas"]:
        parts.append(f"replicas {old['replicas']} → {new['replicas']}")
    if old["usd_per_gpu_hour"] != new["usd_per_gpu_hour"]:
        parts.append(f"price {old['usd_per_gpu_hour']:g} → {new['usd_per_gpu_hour']:g} USD per GPU-hour")
    return "same configuration; " + "; ".join(parts) if parts else "nothing"
