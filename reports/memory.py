"""Sheet Memory: where each GPU's memory goes, term by term, so that one sees it add up.

The account holds for every engine's budget rule: visible memory = what is used + the KV cache + what is left. The terms
are `estimator.memory`'s; the ones that take memory are `USES`, the others are told beside the account.
"""

from __future__ import annotations

from openpyxl import Workbook

from reports import charts, styles
from reports.decisions import Decision
from reports.formulas import Live, difference, total
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Page

CARD = "visible_memory"
USES = ("weights", "activation", "non_torch", "cuda_graphs", "safety", "kv_budget")
"""Terms of `plan_memory` that take memory of a GPU."""
LEFT = "left on the GPU"
SHORTLISTED = ("chosen", "feasible", "short_of_slo")
_ACROSS = 5
"""Most configurations side by side in one block."""
_FIRST = 3
"""Column of the first configuration."""


def write(workbook: Workbook, frames: PlanFrames, decisions: list[Decision], subtitle: str) -> Page:
    """The sheet."""
    shortlist = [_shortlist(frames, decision) for decision in decisions]
    across = min(_ACROSS, max((len(listed) for listed in shortlist), default=0)) or 1
    page = Page(workbook, "Memory", (28, 14, *[17] * across, 12, 34, 50))
    page.head("Memory: where each GPU's memory goes", subtitle)
    for index, (decision, listed) in enumerate(zip(decisions, shortlist, strict=True)):
        if index:
            page.new_page()
        page.section(decision.service, "Configurations that were replayed, best first; the rest: table plan_memory.")
        if not listed:
            page.note("No configuration was shortlisted.")
        for start in range(0, len(listed), across):
            _block(page, decision.service, dict(list(listed.items())[start : start + across]), across)
        page.gap()
    return page


def _shortlist(frames: PlanFrames, decision: Decision) -> dict[str, dict[str, Row]]:
    """The terms of each replayed configuration, by candidate, then term, best candidate first."""
    of_service: dict[str, dict[str, Row]] = {}
    for row in rows_of(frames.memory, service=decision.service):
        of_service.setdefault(row["candidate_id"], {})[row["term"]] = row
    replayed = [c["candidate_id"] for c in decision.ranked if c["status"] in SHORTLISTED]
    return {name: of_service[name] for name in replayed if name in of_service}


def _block(page: Page, service: str, listed: dict[str, dict[str, Row]], across: int) -> None:
    by_term = list(listed.values())
    told: dict[str, Row] = {}
    for terms in by_term:
        for term, row in terms.items():
            told.setdefault(term, row)
    order = sorted(told.values(), key=lambda r: r["position"])
    uses = [r for r in order if r["term"] in USES]

    label_row = page.row
    padding = [""] * (across - len(listed))
    configurations = [Column(name, styles.GIB) for name in (*listed, *padding)]
    page.header((Column("Term"), Column("Unit"), *configurations, Column("Label"), Column("Source"), Column("How")))
    _terms(page, [r for r in order if r["term"] == CARD], by_term, across)
    first_use = page.row
    _terms(page, uses, by_term, across)
    if uses and CARD in told:
        _sums(page, listed, uses, told[CARD]["unit"], first_use)
    _terms(page, [r for r in order if r["term"] != CARD and r["term"] not in USES], by_term, across)
    page.gap()
    if uses:
        bands = range(first_use, first_use + len(uses))
        columns = (_FIRST, _FIRST + len(listed) - 1)
        chart = charts.stack(page.sheet, f"{service}: GiB per GPU", "GiB per GPU", label_row, columns, bands)
        page.chart(chart, 26, 3.5 + 1.0 * len(listed))


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


def _sums(page: Page, listed: dict[str, dict[str, Row]], uses: list[Row], unit: str, first_use: int) -> None:
    """What no term takes, red where the terms take more than there is, and the sum of it all, as formulas."""
    page.put(page.row, 1, LEFT)
    page.put(page.row, 2, unit)
    page.put(page.row + 1, 1, "sum, which is the visible memory", "plan total text")
    page.put(page.row + 1, 2, unit, "plan total text")
    for column, terms in enumerate(listed.values(), start=_FIRST):
        if CARD not in terms:
            continue
        values = [terms[use["term"]]["value"] if use["term"] in terms else 0 for use in uses]
        cells = [page.ref(first_use + i, column, value) for i, value in enumerate(values)]
        card = page.ref(first_use - 1, column, terms[CARD]["value"])
        left = page.put(page.row, column, difference(card, total(cells)), fmt="#,##0.00;[Red]-#,##0.00;0.00")
        page.put(page.row + 1, column, total([*cells, left or Live("0", 0)]), "plan total", styles.GIB)
    page.row += 2
