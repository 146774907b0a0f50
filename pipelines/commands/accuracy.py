"""`capsheet accuracy`: how far predictions are from somebody's measurements."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.commands import show
from pipelines.planning import accuracy
from pipelines.planning.catalog import shipped
from pipelines.planning.log_cells import problem
from pipelines.planning.measurements import START_UPS, Measurements, read_measurements
from pipelines.planning.serving import read_cases
from pipelines.planning.serving.correction import correct as corrected_on
from pipelines.planning.serving.errors import per_row, report
from pipelines.planning.serving.predictions import points, predict_rows
from pipelines.sources.model_names import ModelFolders
from warehouse.errors import CapsheetError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def run(file: Path, *, models: Path | None, out: Path | None, json: bool, correct: float | None = None) -> None:
    """Predict every row, print the errors, and write one record a row where asked.

    `correct` is the share of each combination's own points that corrects its other points.
    """
    found = read_measurements(file)
    if out is not None and out.exists() and out.samefile(file):
        raise CapsheetError(f"--out {out} is the file of measurements itself. Name another file.")
    if correct is not None and not 0 < correct < 1:
        raise CapsheetError(f"--correct {correct:g} is no share. Give one above 0 and below 1, such as 0.3.")
    if found.kind == START_UPS:
        if correct is not None:
            raise CapsheetError(f"--correct is for serving measurements, and {file} holds start-up logs. Leave it out.")
        predicted = predict(found.rows, models)
        answer, records = accuracy.report(predicted), accuracy.per_row(predicted)
    else:
        answer, records = _serving(found, models, correct)
    if out is not None:
        _write(out, records)
    if json:
        show.as_json(answer)
    else:
        _tell(answer) if found.kind == START_UPS else _tell_serving(answer)


def read_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a file of measurements, cells as text; raises SourceError when it is none."""
    return read_measurements(file).rows


def predict(rows: Sequence[Mapping[str, str]], models: Path | None) -> list[accuracy.Row]:
    """Every start-up predicted; one whose configuration cannot be read is skipped, not taken for an engine's defaults.

    A model nobody has a config of (no `attention`) stays skipped for that.
    """
    found = accuracy.predict_rows(rows, ModelFolders(models), shipped(memory_only=True))
    unread = {row.line: problem(row.cells) for row in found}
    return [
        replace(row, prediction=None, skipped=unread[row.line]) if unread[row.line] and row.attention else row
        for row in found
    ]


def _serving(
    found: Measurements, models: Path | None, share: float | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The answer and the records of a file of serving measurements."""
    assert found.kind != START_UPS
    catalog = shipped()
    rows = read_cases(found.rows, ModelFolders(models), catalog, found.kind)
    predicted = predict_rows(rows, catalog.profile)
    corrected = corrected_on(points(predicted)[0], share) if share is not None else None
    return report(found.kind, predicted, corrected, share or 0.0), per_row(predicted, corrected)


def _write(out: Path, records: Sequence[Mapping[str, Any]]) -> None:
    try:
        with out.open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: _safe(v) for k, v in record.items()} for record in records)
    except OSError as error:
        raise CapsheetError(f"{out} cannot be written: {error.strerror}. Name another file.") from None


def _safe(value: object) -> object:
    """Text from outside never begins a formula in the spreadsheet that opens this file."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _tell(answer: Mapping[str, Any]) -> None:
    show.as_table(_lines({"all rows": answer["metrics"]}), f"{answer['predicted']} of {answer['rows']} rows predicted")
    if answer["metrics_by_another_config"]:
        other = {"copies": answer["metrics_by_another_config"]}
        show.as_table(_lines(other), "quantised copies, from the config of the model they copy; not summed above")
    for name, groups in answer["by"].items():
        show.as_table(_lines(groups, ("weights", "kv_tokens", "max_concurrency")), f"by {name}")
    failed = answer["failed_start_ups"]
    if failed["rows"]:
        show.as_table([{"failed start-ups": failed["rows"], "predicted not to fit": failed["predicted_infeasible"]}])
    _tell_skipped(answer)


def _tell_serving(answer: Mapping[str, Any]) -> None:
    title = f"{answer['kind']}: {answer['predicted']} of {answer['rows']} rows predicted, {answer['points']} distinct"
    groups = {"all points": answer["metrics"]}
    if said := answer.get("correction"):
        title += (
            f"; corrected on {said['points_used']} points of {said['combinations']} combinations, "
            f"scored on the other {said['points_scored']}"
        )
        groups = {"corrected": answer["metrics"], "before": answer["before_correction"]}
    show.as_table(_lines(groups), title)
    for name, by in answer["by"].items():
        show.as_table(_lines(by), f"by {name.replace('_', ' ')}")
    if answer["left_out_of_errors"]:
        reasons = answer["left_out_of_errors"].items()
        show.as_table([{"rows": n, "predicted and not counted, because": reason} for reason, n in reasons])
    _tell_skipped(answer)


def _tell_skipped(answer: Mapping[str, Any]) -> None:
    if answer["skipped"]:
        show.as_table([{"rows": n, "not predicted, because": reason} for reason, n in answer["skipped"].items()])


def _lines(groups: Mapping[str, Any], only: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [
        {
            "": name,
            "figure": metric,
            "rows": said["n"],
            "median error %": round(said["median_ape"] * 100, 2),
            "P90 error %": round(said["p90_ape"] * 100, 2),
            "bias %": round(said["bias"] * 100, 2),
        }
        | _coverage(said)
        for name, metrics in groups.items()
        for metric, said in metrics.items()
        if said["n"] and (only is None or metric in only)
    ]


def _coverage(said: Mapping[str, Any]) -> dict[str, Any]:
    """The share of points between P10 and P90, where predictions carry an interval."""
    if "coverage_p10_p90" not in said:
        return {}
    share = said["coverage_p10_p90"]
    return {"inside P10-P90 %": None if share is None else round(share * 100, 1)}
