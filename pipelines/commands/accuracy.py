"""`capsheet accuracy`: how far predictions are from somebody's measurements."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.commands import show
from pipelines.planning import accuracy
from pipelines.planning.catalog import shipped
from pipelines.planning.log_cells import problem
from pipelines.sources.base import SourceError, shown
from pipelines.sources.files import open_source, read_all
from pipelines.sources.model_names import ModelFolders
from warehouse.errors import CapsheetError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def run(file: Path, *, models: Path | None, out: Path | None, json: bool) -> None:
    """Predict every row, print the errors, and write one record a row where asked."""
    rows = read_rows(file)
    if out is not None and out.exists() and out.samefile(file):
        raise CapsheetError(f"--out {out} is the file of measurements itself. Name another file.")
    predicted = predict(rows, models)
    answer = accuracy.report(predicted)
    if out is not None:
        _write(out, accuracy.per_row(predicted))
    show.as_json(answer) if json else _tell(answer)


def predict(rows: Sequence[Mapping[str, str]], models: Path | None) -> list[accuracy.Row]:
    """Every row predicted; one whose configuration cannot be read is skipped, not taken for an engine's defaults.

    A model nobody has a config of (no `attention`) stays skipped for that.
    """
    found = accuracy.predict_rows(rows, ModelFolders(models), shipped(memory_only=True))
    unread = {row.line: problem(row.cells) for row in found}
    return [
        replace(row, prediction=None, skipped=unread[row.line]) if unread[row.line] and row.attention else row
        for row in found
    ]


def read_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file of measurements, cells as text.

    Raises SourceError when it cannot be read, or holds no kind of measurement that is predicted.
    """
    opened = open_source(file, str(file))
    try:
        reader = csv.DictReader(io.StringIO(read_all(opened).decode("utf-8-sig"), newline=""), strict=True)
        header = [name or "" for name in reader.fieldnames or []]
        rows = [
            {k: (v or "").strip() for k, v in row.items() if isinstance(k, str) and not isinstance(v, list)}
            for row in reader
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{file} is not CSV in UTF-8 ({error}). Save it as such.") from None
    if any(name.startswith(("ttft", "tpot", "itl_")) for name in header):
        raise SourceError(
            f"{file} holds serving measurements (TTFT, TPOT): this kind is not predicted yet, only start-up logs are."
        )
    if not accuracy.is_start_up_log(header):
        raise SourceError(
            f"{file}: its columns ({shown(', '.join(header), 120)}) are not those of start-up logs "
            f"({', '.join(accuracy.LOG_COLUMNS)} and a measured one of {', '.join(accuracy.METRICS)}); other kinds of "
            "measurement are not predicted yet. Rename the columns."
        )
    if not rows:
        raise SourceError(f"{file} has a header and no rows. Name the file that holds the rows.")
    return [{**dict.fromkeys(accuracy.LOG_COLUMNS, ""), **row} for row in rows]


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
        for name, metrics in groups.items()
        for metric, said in metrics.items()
        if only is None or metric in only
    ]
