"""Sheet Prediction vs Observed: how wrong the plan's model has been, bucket by bucket.

Saturated observations are shown and marked, and left out of the accuracy figures, as they are left out of any fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from openpyxl import Workbook

from reports import charts, styles
from reports.frames import PlanFrames, Row, rows_of
from reports.page import Column, Page, Value

METRIC_WORDS = {"ttft_p50": "TTFT P50", "ttft_p99": "TTFT P99", "tpot_mean": "TPOT mean", "e2e_mean": "E2E mean"}
NOT_FITTED = "saturated: not fitted"
_SPAN = 20
"""A chart whose figures span at least this factor has a logarithmic axis: else its small bars vanish."""
_RIGHT_CHART = "G"
"""Column where the right one of two charts begins."""

_ACCURACY = (
    Column("Service"), Column("Metric"), Column("Compared"), Column("Rows", styles.COUNT),
    Column("Saturated rows", styles.COUNT), Column("Median |error|", styles.SHARE), Column("Mean error", styles.RATIO),
    Column("Worst error", styles.RATIO),
)  # fmt: skip
_ERRORS = (
    Column("Service"), Column("Metric"), Column("Bucket"), Column("Predicted, ms", styles.MS),
    Column("Observed, ms", styles.MS), Column("Observed − predicted, ms", "+#,##0.0;-#,##0.0;0.0"),
    Column("Predicted / observed − 1", styles.RATIO), Column("Load on capacity", styles.SHARE), Column("Use"),
    Column("Label"), Column("Observation"), Column("Note"),
)  # fmt: skip
_SEEN = (
    Column("Observation"), Column("Arrival"), Column("Configuration"), Column("Asked, requests/s", styles.RATE),
    Column("Sent, requests/s", styles.RATE), Column("Served, requests/s", styles.RATE),
    Column("Input mean, tokens", styles.COUNT), Column("Output mean, tokens", styles.COUNT), Column("Use"),
    Column("Label"), Column("File"), Column("Source"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of one metric over rows that are not saturated: predicted / observed - 1."""

    service: str
    metric: str
    compared: int
    saturated: int
    median_abs_ratio: float | None
    mean_ratio: float | None
    worst_ratio: float | None


def accuracy(frames: PlanFrames) -> list[Accuracy]:
    """Accuracy by service and metric, in the plan's order; rows without an error ratio are not counted."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in _sorted(frames):
        groups.setdefault((row["service"], row["metric"]), []).append(row)
    result = []
    for (service, metric), rows in groups.items():
        ratios = [r["error_ratio"] for r in rows if not r["saturated"] and r["error_ratio"] is not None]
        result.append(
            Accuracy(
                service,
                metric,
                len(ratios),
                sum(bool(r["saturated"]) for r in rows),
                median(map(abs, ratios)) if ratios else None,
                fmean(ratios) if ratios else None,
                max(ratios, key=abs) if ratios else None,
            )
        )
    return result


def _sorted(frames: PlanFrames) -> list[Row]:
    order = list(METRIC_WORDS)
    services = {name: i for i, name in enumerate(frames.services)}
    return sorted(
        rows_of(frames.errors),
        key=lambda r: (services.get(r["service"], len(services)), order.index(r["metric"]), r["saturated"],
                       r["predicted_ms"] or 0.0, r["observation_id"]),
    )  # fmt: skip


def write(workbook: Workbook, frames: PlanFrames, subtitle: str) -> Page:
    """The sheet."""
    page = Page(workbook, "Prediction vs Observed", (24, 14, 36, 12, 12, 13, 13, 12, 20, 11, 32, 60))
    page.head("Prediction vs observed: how wrong the model has been", subtitle)
    errors = _sorted(frames)
    page.section("Accuracy so far", "Error: predicted / observed − 1, over observations that are not saturated.")
    if not errors:
        page.note("No observations yet. Name a benchmark or metrics source under observations in capsheet.yaml,")
        page.note("then run capsheet recalibrate: predicted and observed will stand here side by side.")
    else:
        page.table("t_accuracy", _ACCURACY, [_accuracy_row(a) for a in accuracy(frames)])
        page.gap()
        _errors(page, errors)
    page.gap()
    page.section("What was observed")
    seen = rows_of(frames.observations)
    if seen:
        page.table("t_observations", _SEEN, [_seen_row(row) for row in seen])
    else:
        page.note("No observations were read.")
    return page


def _accuracy_row(a: Accuracy) -> list[Value]:
    said = "no comparable row" if not a.compared else f"{a.compared} of {a.compared + a.saturated} rows"
    return [
        a.service,
        METRIC_WORDS[a.metric],
        said,
        a.compared,
        a.saturated,
        a.median_abs_ratio,
        a.mean_ratio,
        a.worst_ratio,
    ]


def _errors(page: Page, errors: list[Row]) -> None:
    page.section("By bucket")
    top = page.row
    rows: list[list[Value]] = [
        [r["service"], METRIC_WORDS[r["metric"]], r["bucket"], r["predicted_ms"], r["observed_ms"], r["error_ms"],
         r["error_ratio"], r["utilisation"], NOT_FITTED if r["saturated"] else "compared", r["label"],
         r["observation_id"], r["note"]]
        for r in errors
    ]  # fmt: skip
    page.table("t_prediction_error", _ERRORS, rows)
    page.muted_rows(top + 1, page.row - 1, 9, NOT_FITTED, len(_ERRORS))
    page.new_page()
    page.gap()
    drawn = list(_comparable_runs(errors))
    for index, (title, start, end) in enumerate(drawn):
        rows_at = (top + 1 + start, top + end)
        chart = charts.paired(page.sheet, title, (3, 4, 5), top, rows_at, _log_from(errors[start:end]))
        left = index % 2 == 0
        page.chart(chart, 21, 7.5, "A" if left else _RIGHT_CHART, next_beside=left and index + 1 < len(drawn))


def _log_from(errors: list[Row]) -> float | None:
    """The power of ten below the smallest figure (ms) where figures span a factor of twenty or more; else None."""
    figures = [r[name] for r in errors for name in ("predicted_ms", "observed_ms") if r[name] is not None]
    if not figures or min(figures) <= 0 or max(figures) < _SPAN * min(figures):
        return None
    return float(10.0 ** math.floor(math.log10(min(figures))))


def _comparable_runs(errors: list[Row]) -> Iterator[tuple[str, int, int]]:
    """Title, first and last + 1 of each run of at least two unsaturated rows of one service and metric."""
    start = 0
    for (service, metric, saturated), run in groupby(errors, lambda r: (r["service"], r["metric"], r["saturated"])):
        end = start + len(list(run))
        if not saturated and end - start > 1:
            yield f"{service}: {METRIC_WORDS[metric]}, ms (saturated rows left out)", start, end
        start = end


def _seen_row(r: Row) -> list[Value]:
    configuration = (
        f"{r['model_id']} on {r['gpu_id']}, TP{r['tp']}, {r['precision']}, {r['engine']} {r['engine_version']}"
    )
    return [
        r["observation_id"], r["arrival"], configuration, r["requested_rps"], r["achieved_rps"], r["served_rps"],
        r["isl_mean_tokens"], r["osl_mean_tokens"], NOT_FITTED if r["saturated"] else "compared", r["label"],
        r["source_file"], r["source"],
    ]  # fmt: skip
