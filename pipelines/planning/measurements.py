"""Files of measurements: what kind a file is, by its columns, and its rows.

Belongs here: reading the CSV and naming its kind. Does not: what a kind's columns mean (`accuracy`, `serving`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.planning import accuracy
from pipelines.planning.serving import KINDS, Kind, kind_of
from pipelines.sources.base import SourceError, shown
from pipelines.sources.files import open_source, read_all

START_UPS: Literal["start-up logs"] = "start-up logs"


@dataclass(frozen=True, slots=True)
class Measurements:
    """The rows of one file, cells as text, blanks trimmed."""

    kind: Kind | Literal["start-up logs"]
    rows: list[dict[str, str]]


def read_measurements(file: Path) -> Measurements:
    """The rows of a CSV file of measurements and their kind; semicolons or tabs may stand for its commas.

    Raises SourceError when it cannot be read, or holds no kind of measurement that is predicted.
    """
    opened = open_source(file, str(file))
    try:
        text = read_all(opened).decode("utf-8-sig")
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        header = [(name or "").strip() for name in reader.fieldnames or []]
        reader.fieldnames = header
        rows = [
            {k: (v or "").strip() for k, v in row.items() if isinstance(k, str) and not isinstance(v, list)}
            for row in reader
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{file} is not CSV in UTF-8 ({error}). Save it as such.") from None
    kind: Kind | Literal["start-up logs"] | None = START_UPS if accuracy.is_start_up_log(header) else kind_of(header)
    if kind is None:
        raise SourceError(
            f"{file}: its columns ({shown(', '.join(header), 120)}) are those of no measurements that are predicted: "
            f"{_known()}. Rename the columns."
        )
    if not rows:
        raise SourceError(f"{file} has a header and no rows. Name the file that holds the rows.")
    return Measurements(
        kind, [{**dict.fromkeys(accuracy.LOG_COLUMNS, ""), **row} for row in rows] if kind == START_UPS else rows
    )


def _known() -> str:
    """The kinds of files with the columns that tell them, in one line."""
    kinds: list[tuple[str, Sequence[str], Sequence[str]]] = [(START_UPS, accuracy.LOG_COLUMNS, list(accuracy.METRICS))]
    kinds += [(name, known.columns, list(known.measured.values())) for name, known in KINDS.items()]
    return "; ".join(f"{name} ({', '.join(needed)} and one of {', '.join(any_of)})" for name, needed, any_of in kinds)
