"""Sheet Workload: what arrives, how long it is, and when.

Shows figures, the joint ISL x OSL table (never two marginals), and arrivals over time; computes none of them.
"""

from __future__ import annotations

from itertools import islice

from openpyxl import Workbook
from openpyxl.utils import get_column_letter

from reports import charts, styles
from reports.decisions import Decision
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Page, Value

_WIDTHS = (18, 34, 21, 13, 13, 13, 13, 13, 13, 13, 13, 13)
_DATA_AT = len(_WIDTHS) + 2
"""First column of the charts' data, outside the printed area."""
_POINTS = 300
"""Most points a chart shows; more windows than this are averaged in groups."""

_FIGURES = (
    Column("Service"), Column("Figure"), Column("Value", styles.PLAIN), Column("Unit"), Column("Label"),
    Column("Source", runs_on=True),
)  # fmt: skip
_BUCKETS = (
    Column("Service"), Column("Bucket, tokens"), Column("Requests", styles.COUNT), Column("Share", styles.SHARE),
    Column("Input mean, tokens", styles.COUNT), Column("Output mean, tokens", styles.COUNT),
    Column("Share of input", styles.SHARE), Column("Share of output", styles.SHARE),
    Column("Share of cost", styles.SHARE), Column("Cost, P90 / P10", styles.RATE),
    Column("Peak requests/s", styles.RATE),
)  # fmt: skip
_SEASONS = (
    Column("Service"), Column("When, UTC"), Column("Times the mean rate", styles.RATE),
    Column("Requests/s", styles.RATE), Column("Requests", styles.COUNT), Column("Hours seen", styles.RATE),
)  # fmt: skip
_MIX = (
    Column("Service"), Column("Told apart by"), Column("Value"), Column("Requests", styles.COUNT),
    Column("Share", styles.SHARE), Column("Input mean, tokens", styles.COUNT),
    Column("Output mean, tokens", styles.COUNT),
)  # fmt: skip
_PREFIXES = (
    Column("Service"), Column("Cache of the fleet"), Column("Input tokens found", styles.COUNT),
    Column("Share of input", styles.SHARE), Column("Added by this size", styles.SHARE),
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def write(workbook: Workbook, frames: PlanFrames, decisions: list[Decision], subtitle: str) -> Page:
    """The sheet."""
    page = Page(workbook, "Workload", _WIDTHS)
    page.head("Workload: what arrives", subtitle)
    _figures(page, frames, decisions)
    for index, decision in enumerate(decisions):
        page.new_page()
        _service(page, frames, decision.service, _DATA_AT + 4 * index)
    rows: list[list[Value]] = [
        [r["service"], r["bucket"], r["requests"], r["share"], r["isl_mean_tokens"], r["osl_mean_tokens"],
         r["input_share"], r["output_share"], r["cost_share"], r["cost_spread"], r["peak_rps"]]
        for r in frames.buckets.sort("service", "isl_from_tokens", "osl_from_tokens").iter_rows(named=True)
    ]  # fmt: skip
    page.new_page()
    note = "Bounds follow the data, so that cost is alike inside a bucket. Peak: its rate in the planning window."
    page.section("Buckets", note)
    if rows:
        page.table("t_buckets", _BUCKETS, rows)
    else:
        page.note("The trace holds no request.")
    _prefixes(page, frames)
    _mix(page, frames)
    _seasons(page, frames)
    return page


def _prefixes(page: Page, frames: PlanFrames) -> None:
    page.new_page()
    page.section("Prefix hits by size of cache", "One pool for the whole fleet, the least recently used let go first.")
    rows: list[list[Value]] = [
        [r["service"], r["tier"], r["hit_tokens"], r["hit_share"], r["added_share"]] for r in rows_of(frames.prefixes)
    ]
    if rows:
        page.table("t_prefixes", _PREFIXES, rows)
    else:
        page.note("No trace carries block hashes: what a cache would find is not known.")


def _mix(page: Page, frames: PlanFrames) -> None:
    page.gap()
    page.section("Mix", "Every request of the trace, also those that no engine worked on; the most frequent values.")
    rows: list[list[Value]] = [
        [r["service"], r["dimension"].replace("_", " "), r["value"], r["requests"], r["share"], r["isl_mean_tokens"],
         r["osl_mean_tokens"]]
        for r in frames.mix.sort("service", "dimension", "position").iter_rows(named=True)
    ]  # fmt: skip
    if rows:
        page.table("t_mix", _MIX, rows)
    else:
        page.note("The trace tells its requests apart by nothing.")


def _seasons(page: Page, frames: PlanFrames) -> None:
    rows: list[list[Value]] = [
        [r["service"], f"{r['slot']:02d}:00" if r["period"] == "hour" else _WEEKDAYS[r["slot"]], r["factor"],
         r["arrival_rps"], r["requests"], r["covered_h"]]
        for r in frames.seasons.sort("service", "period", "slot").iter_rows(named=True)
    ]  # fmt: skip
    page.new_page() if rows else page.gap()
    note = "Rate over the time the trace spends in each. Hours want a day of trace, weekdays a week."
    page.section("Hours and weekdays", note)
    if rows:
        page.table("t_seasons", _SEASONS, rows)
    else:
        page.note("The trace is shorter than a day: it says nothing of hours.")


def _figures(page: Page, frames: PlanFrames, decisions: list[Decision]) -> None:
    page.section("Figures")
    rows: list[list[Value]] = []
    formats: list[str] = []
    for decision in decisions:
        for r in rows_of(frames.workload, service=decision.service):
            number = r["value"] is not None
            formats.append(styles.number_format(r["unit"], r["value"]) if number else styles.TEXT)
            rows.append(
                [r["service"], r["name"], r["value"] if number else r["text"], r["unit"], r["label"], r["source"]]
            )
    if not rows:
        page.note("No workload figures are recorded.")
    else:
        top = page.row + 1
        page.table("t_workload", _FIGURES, rows)
        for offset, fmt in enumerate(formats):
            page.sheet.cell(top + offset, 3).number_format = fmt
    page.gap()


def _service(page: Page, frames: PlanFrames, service: str, data_column: int) -> None:
    buckets = rows_of(frames.buckets, service=service)
    if buckets:
        page.section(f"{service}: requests by input and output length", "Share of requests; lengths in tokens.")
        _matrix(page, buckets)
        page.gap()
    windows = rows_of(frames.windows, service=service)
    if windows:
        _arrivals(page, service, windows, data_column)


def _matrix(page: Page, buckets: list[Row]) -> None:
    inputs = sorted({(b["isl_from_tokens"], b["isl_to_tokens"]) for b in buckets})
    outputs = sorted({(b["osl_from_tokens"], b["osl_to_tokens"]) for b in buckets})
    share = {
        ((b["isl_from_tokens"], b["isl_to_tokens"]), (b["osl_from_tokens"], b["osl_to_tokens"])): b["share"]
        for b in buckets
    }
    page.put(page.row, 2, "Input ↓   Output →", "plan header")
    for offset, (low, high) in enumerate(outputs):
        page.put(page.row, 3 + offset, f"{low:,}–{high:,}", "plan header number")
    page.put(page.row, 3 + len(outputs), "All", "plan header number")
    page.sheet.row_dimensions[page.row].height = 30
    page.row += 1
    top = page.row
    for isl in inputs:
        page.put(page.row, 2, f"{isl[0]:,}–{isl[1]:,}", "plan text")
        for offset, osl in enumerate(outputs):
            page.put(page.row, 3 + offset, share.get((isl, osl)), "plan figure", styles.SHARE)
        page.put(
            page.row, 3 + len(outputs), sum(share.get((isl, o), 0.0) for o in outputs), "plan figure", styles.SHARE
        )
        page.row += 1
    page.put(page.row, 2, "All", "plan total text")
    for offset, osl in enumerate(outputs):
        page.put(page.row, 3 + offset, sum(share.get((i, osl), 0.0) for i in inputs), "plan total", styles.SHARE)
    page.put(page.row, 3 + len(outputs), sum(share.values()), "plan total", styles.SHARE)
    area = f"C{top}:{get_column_letter(2 + len(outputs))}{page.row - 1}"
    page.sheet.conditional_formatting.add(area, styles.heat_rule())
    page.row += 1


def _arrivals(page: Page, service: str, windows: list[Row], column: int) -> None:
    lengths = sorted({w["window_s"] for w in windows})
    by_length = {
        s: sorted((w for w in windows if w["window_s"] == s), key=lambda w: w["window_start_at"]) for s in lengths
    }
    chosen_s = next((s for s in lengths if len(by_length[s]) <= _POINTS), lengths[-1])
    series = by_length[chosen_s]
    group = -(-len(series) // _POINTS)
    page.section(f"{service}: arrivals")
    top = 5
    sheet = page.sheet
    averaged = f", mean of {group} at a time" if group > 1 else ""
    begins = f", from {series[0]['window_start_at']:%Y-%m-%d %H:%M} UTC"
    page.put(top - 1, column, f"Chart data: {service}", "plan note")
    page.put(top, column, "Window start, UTC", "plan header")
    page.put(top, column + 1, "Axis", "plan header")
    page.put(top, column + 2, "Requests/s", "plan header number")
    sheet.column_dimensions[get_column_letter(column)].width = 17
    sheet.column_dimensions[get_column_letter(column + 2)].width = 11
    rows = iter(series)
    last = top
    days = (series[-1]["window_start_at"] - series[0]["window_start_at"]).days
    moment = "%H:%M" if days < 1 else "%m-%d %H:%M" if chosen_s < 86_400 else "%Y-%m-%d"
    every = charts.label_step(-(-len(series) // group))
    while chunk := list(islice(rows, group)):
        last += 1
        rate = sum(w["arrival_rps"] for w in chunk) / len(chunk)
        begun = chunk[0]["window_start_at"]
        page.put(last, column, begun)
        labelled = (last - top - 1) % every == 0
        page.put(last, column + 1, f"{begun:{moment}}" if labelled else "", "plan line")
        page.put(last, column + 2, rate, "plan figure", styles.RATE)
    title = f"Requests a second, windows of {_duration(chosen_s)}{averaged}{begins}"
    page.chart(charts.line(sheet, title, "requests/s", (column + 1, column + 2), (top, last)), 26, 7)


def _duration(seconds: int) -> str:
    for size, name in ((3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {name}"
    return f"{seconds} s"
