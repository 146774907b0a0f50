"""Errors of serving predictions, summed up over points, and one record a row.

Belongs here: medians, ninetieth percentiles and interval coverage over all and by group, and what `--out` holds. Does
not: which points count (`predictions`), corrections (`correction`), printing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from estimator.memory.logs import summary
from estimator.serving import Layout
from pipelines.planning.serving.correction import Corrected
from pipelines.planning.serving.predictions import METRICS, Point, Predicted, Value, points
from pipelines.planning.serving.rows import Kind

GROUPS: Mapping[str, Callable[[Point], str]] = {
    "engine": lambda point: point.case.engine,
    "gpu": lambda point: point.case.accelerator.gpu_id,
    "model_kind": lambda point: point.row.model_kind,
    "mode": lambda point: point.row.mode,
    "combination": lambda point: point.name,
}
"""What errors are summed up by, beside all points."""


def errors(found: Iterable[Point]) -> dict[str, dict[str, Any]]:
    """By metric: median and P90 of the absolute relative error, the signed median, the share between P10 and P90."""
    known = list(found)
    return {metric: _error(metric, known) for metric in METRICS if any(_holds(metric, point) for point in known)}


def _holds(metric: str, point: Point) -> bool:
    return metric in point.measured and metric in point.predicted


def _error(metric: str, known: Sequence[Point]) -> dict[str, Any]:
    pairs = [(point.predicted[metric], point.measured[metric]) for point in known if _holds(metric, point)]
    said = summary([predicted.value / measured - 1 for predicted, measured in pairs])
    inside = [
        predicted.low <= measured <= predicted.high
        for predicted, measured in pairs
        if predicted.low is not None and predicted.high is not None
    ]
    return {
        "median_ape": said["median"],
        "p90_ape": said["p90"],
        "bias": said["bias"],
        "coverage_p10_p90": sum(inside) / len(inside) if inside else None,
        "n": len(pairs),
    }


_LEADING = re.compile(r"^[\d.,]+ ")
"""A reason is counted whatever the number that begins it."""
NOTHING: Mapping[str, Any] = {"median_ape": None, "p90_ape": None, "bias": None, "coverage_p10_p90": None, "n": 0}


def report(kind: Kind, predicted: Sequence[Predicted], corrected: Corrected | None, share: float) -> dict[str, Any]:
    """The whole answer: rows, predicted, skipped by reason, errors over all points and by group.

    With a correction, errors are of the scored points, and `before_correction` holds theirs before it.
    """
    found, left_out = points(predicted)
    counted = found if corrected is None else corrected.scored
    answer: dict[str, Any] = {
        "kind": kind,
        "rows": len(predicted),
        "predicted": sum(not one.skipped for one in predicted),
        "skipped": dict(Counter(_LEADING.sub("", one.skipped) for one in predicted if one.skipped).most_common()),
        "points": len(found),
        "left_out_of_errors": dict(Counter(left_out.values()).most_common()),
        "metrics": {metric: dict(NOTHING) for metric in METRICS} | errors(counted),
        "by": {name: _by(counted, group) for name, group in GROUPS.items()},
    }
    if corrected is not None:
        answer["correction"] = {
            "share": share,
            "combinations": len({point.combination for point in corrected.used}),
            "points_used": len(corrected.used),
            "points_scored": len(corrected.scored),
            "points_alone_in_their_combination": len(corrected.alone),
        }
        answer["before_correction"] = errors(corrected.uncorrected)
    return answer


def _by(found: Sequence[Point], group: Callable[[Point], str]) -> dict[str, Any]:
    keys = sorted({group(point) for point in found})
    return {key: errors(point for point in found if group(point) == key) for key in keys}


def per_row(predicted: Sequence[Predicted], corrected: Corrected | None) -> list[dict[str, Any]]:
    """One record a row of the file: what was read, predicted and measured, the error, and why not."""
    found, left_out = points(predicted)
    use = {point.row.line: "counted" for point in found}
    values = {one.row.line: one.values for one in predicted}
    if corrected is not None:
        use = {point.row.line: "left out: alone in its combination" for point in corrected.alone}
        use |= {point.row.line: "used for the correction" for point in corrected.used}
        use |= {point.row.line: "scored" for point in corrected.scored}
        values |= {point.row.line: point.predicted for point in corrected.scored}
    return [_record(one, values[one.row.line], use, left_out) for one in predicted]


def _record(
    one: Predicted, values: Mapping[str, Value], use: Mapping[int, str], left_out: Mapping[int, str]
) -> dict[str, Any]:
    row = one.row
    record: dict[str, Any] = {"line": row.line}
    record |= {name: row.cells.get(name, "") for name in ("id", "case_id", "experiment", "stage", "model", "gpu")}
    record |= _read(one)
    for metric in METRICS:
        value, measured = values.get(metric), row.measured.get(metric)
        unit = "tok_s" if metric == "throughput" else "ms"
        record |= {
            f"predicted_{metric}_{unit}": value.value if value else None,
            f"low_{metric}_{unit}": value.low if value else None,
            f"high_{metric}_{unit}": value.high if value else None,
            f"measured_{metric}_{unit}": measured,
            f"error_{metric}": value.value / measured - 1 if value and measured else None,
        }
    record["in_errors"] = use.get(row.line) or (f"left out: {left_out[row.line]}" if row.line in left_out else "")
    record["not_counted"] = "; ".join(f"{metric}: {why}" for metric, why in row.uncounted.items())
    record["assumed"] = "; ".join(row.assumed)
    record["skipped"] = one.skipped
    return record


def _read(one: Predicted) -> dict[str, Any]:
    """The configuration as it was read, empty without a case."""
    case = one.row.case
    if case is None:
        return dict.fromkeys(READ)
    protocol = case.protocol
    cells = (
        case.accelerator.gpu_id,
        case.engine,
        case.engine_version,
        case.precision,
        one.row.model_kind,
        one.row.mode,
        _layout(case.layout),
        _layout(case.prefill) if case.prefill else "",
        protocol.concurrency,
        protocol.rate_rps,
        protocol.prompts_per_client if protocol.concurrency else None,
        protocol.shortest_ratio,
        protocol.shared_prefix_tokens,
        case.isl_tokens,
        case.osl_tokens,
        case.max_num_batched_tokens,
        case.max_num_seqs,
        case.kv_cache_bytes,
        case.admission_wait_steps,
    )
    return dict(zip(READ, cells, strict=True))


READ = (
    "gpu_id",
    "engine",
    "engine_version",
    "precision",
    "model_kind",
    "mode",
    "layout",
    "prefill_layout",
    "concurrency",
    "request_rate_rps",
    "prompts_per_client",
    "shortest_length_ratio",
    "shared_prefix_tokens",
    "isl_tokens",
    "osl_tokens",
    "max_num_batched_tokens",
    "max_num_seqs",
    "kv_cache_element_bytes",
    "admission_wait_steps",
)


def _layout(layout: Layout) -> str:
    sizes = f"tp {layout.tp} dp {layout.dp} ep {layout.ep} pp {layout.pp} workers {layout.workers}"
    return sizes + (f" batch {layout.batch}" if layout.batch else "")
