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
_ACROSS = 5
"""Most configurations side by side in one block."""
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
    shortlist = [_shortlist(frames, decision) for decision in decisions]
    across = min(_ACROSS, max((len(accounts) for accounts in shortlist), default=0)) or 1
    page = Page(workbook, "Memory", (28, 14, *[17] * across, 12, 34, 50))
    page.head("Memory: where each GPU's memory goes", subtitle)
    accounts: list[Account] = []
    for index, (decision, listed) in enumerate(zip(decisions, shortlist, strict=True)):
        if index:
            page.new_page()
        page.section(decision.service, "Configurations that were replayed, best first; the rest: table plan_memory.")
        if not listed:
            page.note("No configuration was shortlisted.")
        for start in range(0, len(listed), across):
            accounts += _block(page, decision.service, dict(list(listed.items())[start : start + across]), across)
        page.gap()
    return page, accounts


def _shortlist(frames: PlanFrames, decision: Decision) -> dict[str, dict[str, Row]]:
    """The terms of each replayed configuration, by candidate, then term, best candidate first."""
    of_service: dict[str, dict[str, Row]] = {}
    for row in rows_of(frames.memory, service=decision.service):
        of_service.setdefault(row["candidate_id"], {})[row["term"]] = row
    replayed = [c["candidate_id"] for c in decision.ranked if c["status"] in SHORTLISTED]
    return {name: of_service[name] for name in replayed if name in of_service}


def _block(page: Page, service: str, listed: dict[str, dict[str, Row]], across: int) -> list[Account]:
    names, by_term = list(listed), list(listed.values())
    told: dict[str, Row] = {}
    for terms in by_term:
        for term, row in terms.items():
            told.setdefault(term, row)
    order = sorted(told.values(), key=lambda r: r["position"])
    uses = [r for r in order if r["unit"] == GIB_PER_GPU and r["term"] not in ROLES]
    above = [r for r in order if r["term"] in ROLES]
    rest = [r for r in order if r not in uses and r not in above]

    label_row = page.row
    padding = [""] * (across - len(names))
    configurations = [Column(name, styles.GIB) for name in (*names, *padding)]
    page.header((Column("Term"), Column("Unit"), *configurations, Column("Label"), Column("Source"), Column("How")))
    _terms(page, above, by_term, across)
    first_use = page.row
    _terms(page, uses, by_term, across)
    accounts = _sums(page, service, listed, uses, first_use, above) if uses else []
    _terms(page, rest, by_term, across)
    page.gap()
    if uses:
        bands = range(first_use, first_use + len(uses))
        columns = (_FIRST, _FIRST + len(names) - 1)
        chart = charts.stack(page.sheet, f"{service}: GiB per GPU", "GiB per GPU", label_row, columns, bands)
        page.chart(chart, 26, 3.5 + 1.0 * len(names))
    return accounts


def _terms(page: Page, terms: list[Row], by_term: list[dict[str, Row]], across: int) -> None:
    for term in terms:
        found = [rows.get(term["term"]) for rows in by_term]
        page.put(page.row, 1, _words(term["term"]))
        page.put(page.row, 2, term["unit"])
        for offset, row in enumerate((*found, *[None] * (across - len(found)))):
            fmt = styles.number_format(term["unit"], row["value"]) if row is not None else ""
            page.put(page.row, _FIRST + offset, None if row is None else row["value"], "plan figure", fmt)
        lines = 1
        for column, key in enumerate(("label", "source", "note"), start=_FIRST + across):
            words = " / ".join(dict.fromkeys(str(r[key]) for r in found if r is not None and r[key]))
            page.put(page.row, column, words)
            lines = max(lines, page.lines(words, column))
        page.sheet.row_dimensions[page.row].height = 13.5 * lines + 3
        page.row += 1


def _words(term: str) -> str:
    return term.replace("_", " ") if term.isidentifier() else term


def _sums(
    page: Page, service: str, listed: dict[str, dict[str, Row]], uses: list[Row], first_use: int, above: list[Row]
) -> list[Account]:
    """The sum of uses beside the limit, and what is left unexplained, as formulas."""
    limits = [i for i, row in enumerate(above) if ROLES[row["term"]] == "limit"]
    page.put(page.row, 1, "Sum of terms", "plan total text")
    page.put(page.row, 2, GIB_PER_GPU, "plan total text")
    if limits:
        page.put(page.row + 1, 1, "Limit less the sum")
        page.put(page.row + 1, 2, GIB_PER_GPU)
    accounts = []
    for column, (name, terms) in enumerate(listed.items(), start=_FIRST):
        values = [terms[use["term"]]["value"] if use["term"] in terms else 0 for use in uses]
        cells = [page.ref(first_use + i, column, value) for i, value in enumerate(values)]
        summed = page.put(page.row, column, total(cells), "plan total", styles.GIB)
        for index in limits:
            limit_row = terms.get(above[index]["term"])
            if limit_row is not None and summed is not None:
                limit = page.ref(first_use - len(above) + index, column, limit_row["value"])
                page.put(page.row + 1, column, difference(limit, summed), fmt="+0.00;-0.00;0.00")
                accounts.append(Account(service, name, summed, limit))
    page.row += 2 if limits else 1
    return accounts
