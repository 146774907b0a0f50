"""Predicting every row of a file of measurements from its configuration, and summing up the errors.

Belongs here: start-up logs (`engine_memory_logs` columns), which rows count, and the tables of errors. Does not: the
prediction of a row (`estimator.memory.logs`), finding configs (`pipelines.sources.model_names`), printing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config
from estimator.memory.logs import MEASURED, LogPrediction, predict_log, summary
from pipelines.planning.catalog import Catalog
from pipelines.sources.base import SourceError
from pipelines.sources.model_names import ModelFolders

LOG_COLUMNS = ("model_id", "gpu", "engine")
"""What a file must have to be one of start-up logs; any other configuration column may be absent or empty."""
METRICS = {
    "weights_gib_per_gpu": "weights",
    "activation_peak_gib": "activation",
    "non_torch_gib": "non_torch",
    "graph_gib_actual": "graph",
    "kv_gib_per_gpu": "kv_gib",
    "kv_tokens": "kv_tokens",
    "num_blocks": "kv_blocks",
    "kv_bytes_per_token_gpu_implied": "kv_bytes_per_token",
    "max_concurrency": "max_concurrency",
}
"""Measured column of a log to the metric it is summed up under."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its configuration, and either a prediction or the reason why there is none."""

    line: int
    cells: Mapping[str, str]
    prediction: LogPrediction | None = None
    attention: str = ""
    note: str = ""
    skipped: str = ""


@dataclass(slots=True)
class _Models:
    folders: ModelFolders
    seen: dict[str, tuple[Architecture | None, str]] = field(default_factory=dict)

    def architecture(self, model_id: str) -> tuple[Architecture | None, str]:
        """The architecture and what to note of it, or None and the reason."""
        if model_id not in self.seen:
            self.seen[model_id] = self._look_up(model_id)
        return self.seen[model_id]

    def _look_up(self, model_id: str) -> tuple[Architecture | None, str]:
        if not model_id.strip():
            return None, "no model_id"
        try:
            found = self.folders.find(model_id)
            if found is None:
                return None, "no config of the model in --models, the catalogue or the hub cache"
            return parse_config(found.config, model_id), f"config of {found.instead}" if found.instead else ""
        except (UnsupportedConfig, SourceError) as error:
            return None, f"config: {error}"


def is_start_up_log(columns: Iterable[str]) -> bool:
    """Whether a header is that of start-up logs."""
    present = set(columns)
    return set(LOG_COLUMNS) <= present and bool(present & set(METRICS))


def predict_rows(rows: Sequence[Mapping[str, str]], folders: ModelFolders, catalog: Catalog) -> list[Row]:
    """Every row predicted from its configuration columns alone, or with the reason why not; the header is line 1."""
    models = _Models(folders)
    return [_predict(line, cells, models, catalog) for line, cells in enumerate(rows, start=2)]


def _predict(line: int, cells: Mapping[str, str], models: _Models, catalog: Catalog) -> Row:
    architecture, note = models.architecture(cells["model_id"])
    if architecture is None:
        return Row(line, cells, skipped=note)
    try:
        prediction = predict_log(_measured(cells), architecture, catalog.accelerators, catalog.profile)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return Row(line, cells, attention=architecture.attention_kind, skipped=" ".join(str(error).split())[:300])
    return Row(line, cells, prediction, architecture.attention_kind, note)


def _measured(cells: Mapping[str, str]) -> dict[str, str]:
    """The row without measured cells that are no positive number: nothing can be held against them."""
    return {k: v for k, v in cells.items() if k not in (*MEASURED, "max_concurrency") or _positive(v)}


def _positive(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value > 0


def counts(row: Row) -> bool:
    """Whether a row's errors are summed up: it was predicted from its own model's config, and its start-up neither
    failed nor is in doubt."""
    return row.prediction is not None and not row.note and _succeeded(row)


def _succeeded(row: Row) -> bool:
    return row.cells.get("outcome", "ok").strip().lower() in ("", "ok")


def errors(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    """Median and 90th percentile of the absolute relative error, and the signed median, by metric."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.prediction is not None:
            for column, error in row.prediction.errors.items():
                found.setdefault(METRICS[column], []).append(error)
    result = {}
    for metric in METRICS.values():
        if metric in found:
            said = summary(found[metric])
            result[metric] = {
                "median_ape": said["median"],
                "p90_ape": said["p90"],
                "bias": said["bias"],
                "n": len(found[metric]),
            }
    return result


def group(row: Row, name: str) -> str:
    """The group of a row: its attention kind, or the first word of its engine, or its GPU as written."""
    if name == "attention":
        return row.attention
    words = row.cells[name].split()
    return (words[0] if name == "engine" else " ".join(words)) if words else "not stated"


def report(rows: Sequence[Row]) -> dict[str, Any]:
    """The whole answer: rows, predicted, skipped by reason, errors over all and by engine, GPU and attention kind."""
    failed = [
        row
        for row in rows
        if row.prediction and row.prediction.sized and row.cells.get("outcome", "").strip().lower() == "fail"
    ]
    return {
        "kind": "start-up logs",
        "rows": len(rows),
        "predicted": sum(row.prediction is not None for row in rows),
        "skipped": dict(Counter(row.skipped for row in rows if row.skipped).most_common()),
        "left_out_of_errors": sum(row.prediction is not None and not counts(row) for row in rows),
        "failed_start_ups": {
            "rows": len(failed),
            "predicted_infeasible": sum(not row.prediction.account.feasible for row in failed if row.prediction),
        },
        "metrics": errors(row for row in rows if counts(row)),
        "metrics_by_another_config": errors(row for row in rows if row.note and _succeeded(row)),
        "by": {
            name: {
                key: errors(row for row in rows if counts(row) and group(row, name) == key)
                for key in sorted({group(row, name) for row in rows if counts(row)})
            }
            for name in ("engine", "gpu", "attention")
        },
    }


def per_row(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One record a row of the file: configuration, prediction, error, and why not."""
    records = []
    for row in rows:
        record: dict[str, Any] = {"line": row.line}
        record |= {
            k: row.cells.get(k, "") for k in ("case_id", "model_id", "gpu", "engine", "engine_version", "tp", "outcome")
        }
        account = row.prediction.account if row.prediction else None
        open_ = row.prediction.left_open if row.prediction else frozenset()
        for column, figure in MEASURED.items():
            known = account is not None and column not in open_
            record[f"predicted_{METRICS[column]}"] = getattr(account, figure) if known else None
            record[f"error_{METRICS[column]}"] = row.prediction.errors.get(column) if row.prediction else None
        sized = row.prediction is not None and row.prediction.sized
        record["predicted_max_concurrency"] = row.prediction.max_concurrency if row.prediction and sized else None
        record["error_max_concurrency"] = row.prediction.errors.get("max_concurrency") if row.prediction else None
        record["feasible"] = account.feasible if account and sized else None
        record["assumed"] = "; ".join((*row.prediction.assumed, row.note)).strip("; ") if row.prediction else ""
        record["skipped"] = row.skipped
        records.append(record)
    return records
