"""Sheet Memory: where each GPU's memory goes, term by term, so that one sees it add up.

The account is `limit = uses + KV cache`, in GiB per GPU: `ROLES` says which terms are the card and the limit and which
are only told; every other term in GiB per GPU is a use, so that a term added later is counted, never dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

from openpyxl import Workbook

from reports import charts, styles
from reports.decisions import Decision
from reports.formulas import Live, difference, total
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Page

GIB_PER_GPU = "GiB per GPU"
ROLES = {"visible_memory": "card", "engine_limit": "limit"}
"""Terms of `plan_memory` that are not drawn from the limit: what the engine sees, and what it may use of it."""
SHORTLISTED = ("chosen", "feasible", "short_of_slo")
_ACROSS = 6
"""Configurations side by side in one block."""
_FIRST = 3
"""Column of the first configuration."""


@dataclass(frozen=True, slots=True)
class Account:
    """A configuration's account on the sheet: what its terms miss the limit by."""

    service: str
    candidate_id: str
    terms: Live
    limit: Live


def write(
    workbook: Workbook, frames: PlanFrames, decisions: list[Decision], subtitle: str
) -> tuple[Page, list[Account]]:
    """The sheet, and the sums to reconcile."""
    page = Page(workbook, "Memory", (30, 13, *[16] * _ACROSS, 11, 34, 52))
    page.head("Memory: where each GPU's memory goes", subtitle)
    accounts: list[Account] = []
    for decision in decisions:
        of_service: dict[str, list[Row]] = {}
        for row in rows_of(frames.memory, service=decision.service):
            of_service.setdefault(row["candidate_id"], []).append(row)
        shown = [c for c in decision.ranked if c["status"] in SHORTLISTED and c["candidate_id"] in of_service]
        page.section(
            decision.service, "Configurations that were replayed, best first; the rest are in table plan_memory."
        )
        if not shown:
            page.note("No configuration was shortlisted.")
        for start in range(0, len(shown), _ACROSS):
            names = [c["candidate_id"] for c in shown[start : start + _ACROSS]]
            accounts += _block(page, decision.service, names, [of_service[name] for name in names])
        page.gap()
    return page, accounts


def _block(page: Page, service: str, names: list[str], columns: list[list[Row]]) -> list[Account]:
    told: dict[str, Row] = {}
    for rows in columns:
        for row in rows:
            told.setdefault(row["term"], row)
    order = sorted(told.values(), key=lambda r: r["position"])
    by_term = [{row["term"]: row for row in rows} for rows in columns]
    uses = [r for r in order if r["unit"] == GIB_PER_GPU and r["term"] not in ROLES]
    above = [r for r in order if r["term"] in ROLES]
    rest = [r for r in order if r not in uses and r not in above]

    label_row = page.row
    heads = (Column("Term"), Column("Unit"), *(Column(n, styles.GIB) for n in names))
    tail = (Column("Label"), Column("Source"), Column("How"))
    page.header(heads)
    at_tail = _FIRST + _ACROSS
    page.row -= 1
    for offset in range(len(names), _ACROSS):
        page.put(page.row, _FIRST + offset, None, "plan header")
    for offset, column in enumerate(tail):
        page.put(page.row, at_tail + offset, column.header, "plan header")
    page.row += 1

    _terms(page, above, by_term)
    first_use = page.row
    grid = _terms(page, uses, by_term)
    accounts = _sums(page, service, names, grid, by_term, first_use, above) if uses else []
    _terms(page, rest, by_term)
    page.gap()
    if uses:
        last = _FIRST + len(names) - 1
        rows = list(range(first_use, first_use + len(uses)))
        title = f"{service}: GiB per GPU"
        page.chart(
            charts.stack(page.sheet, title, "GiB per GPU", label_row, (_FIRST, last), rows), 26, 3.5 + 1.0 * len(names)
        )
    return accounts


def _terms(page: Page, terms: list[Row], by_term: list[dict[str, Row]]) -> list[list[Live | None]]:
    grid = []
    for term in terms:
        found = [rows.get(term["term"]) for rows in by_term]
        page.put(page.row, 1, _words(term["term"]))
        page.put(page.row, 2, term["unit"])
        cells = []
        for offset, row in enumerate(found):
            fmt = styles.number_format(term["unit"], row["value"]) if row is not None else ""
            cells.append(page.put(page.row, _FIRST + offset, None if row is None else row["value"], "plan figure", fmt))
        for offset in range(len(found), _ACROSS):
            page.put(page.row, _FIRST + offset, None)
        tail = _FIRST + _ACROSS
        lines = 1
        for offset, key in enumerate(("label", "source", "note")):
            words = " / ".join(dict.fromkeys(str(r[key]) for r in found if r is not None and r[key]))
            page.put(page.row, tail + offset, words)
            lines = max(lines, page.lines(words, tail + offset))
        page.sheet.row_dimensions[page.row].height = 14.0 * lines + 3
        page.row += 1
        grid.append(cells)
    return grid


def _words(term: str) -> str:
    return term.replace("_", " ") if term.isidentifier() else term


def _sums(
    page: Page, service: str, names: list[str], grid: list[list[Live | None]], by_term: list[dict[str, Row]],
    first_use: int, above: list[Row],
) -> list[Account]:  # fmt: skip
    """The sum of uses beside the limit, and what is left unexplained, as formulas."""
    limit_term = next((r["term"] for r in above if ROLES[r["term"]] == "limit"), None)
    limit_row = first_use - len(above) + [r["term"] for r in above].index(limit_term) if limit_term else None
    page.put(page.row, 1, "Sum of terms", "plan total text")
    page.put(page.row, 2, GIB_PER_GPU, "plan total text")
    accounts = []
    for offset, name in enumerate(names):
        column = _FIRST + offset
        cells = [
            page.ref(first_use + i, column, cell.value if cell is not None else 0)
            for i, cell in enumerate(r[offset] for r in grid)
        ]
        summed = page.put(page.row, column, total(cells), "plan total", styles.GIB)
        row = by_term[offset].get(limit_term) if limit_term else None
        if summed is not None and row is not None and limit_row is not None:
            limit = page.ref(limit_row, column, row["value"])
            page.put(page.row + 1, column, difference(limit, summed), fmt="+0.00;-0.00;0.00")
            accounts.append(Account(service, name, summed, limit))
    for offset in range(len(names), _ACROSS):
        page.put(page.row, _FIRST + offset, None, "plan total text")
    page.row += 1
    if limit_term:
        page.put(page.row, 1, "Limit less the sum")
        page.put(page.row, 2, GIB_PER_GPU)
        page.row += 1
    return accounts
