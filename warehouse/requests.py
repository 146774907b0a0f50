"""The requests of a trace file: which part of the view `request` its rows stand in, and how they come and go.

Belongs here: numbering files, writing and removing their rows. Not here: which rows (`pipelines.ingest`), the view
itself (`warehouse.ddl`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import duckdb
import polars as pl

from warehouse.bulk import remove_rows, stream_rows
from warehouse.frames import polars_schema
from warehouse.registry import Table, table
from warehouse.write import append

REQUEST = table("request")
_NUMBERS, *_PARTS = REQUEST.parts


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows of a file stand: a part of `request`, and the file's number there."""

    part: Table
    file_number: int

    def fitted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of `request` as the part holds them, without the columns in which none has a value."""
        own = {column.name for column in self.part.columns}
        silent = [name for name in rows.columns if name not in own and rows[name].null_count() == rows.height]
        number = pl.lit(self.file_number, pl.Int32).alias("file_number")
        return rows.drop("source_file", *silent, strict=False).with_columns(number)


def make_place(con: duckdb.DuckDBPyConnection, source_file: str, columns: Collection[str]) -> Place:
    """A place for a file whose rows have values in no other `columns`; rows that stood for it are removed.

    The caller owns the transaction.
    """
    remove_requests(con, source_file)
    wanted = set(columns) - {"source_file"}
    part = next(part for part in _PARTS if wanted <= {column.name for column in part.columns})
    [(number,)] = con.execute("SELECT coalesce(max(file_number), 0) + 1 FROM request_file").fetchall()
    row = {"file_number": [number], "source_file": [source_file], "first_at": [None], "last_at": [None]}
    append(con, _NUMBERS, pl.DataFrame(row, schema=polars_schema(_NUMBERS)))
    return Place(part, number)


def stream_requests(con: duckdb.DuckDBPyConnection, place: Place, frames: Iterator[pl.DataFrame]) -> None:
    """Rows of one file, in columns of `request`, each frame asked for when the last is written.

    Raises WriteRefused where a frame does not fit, and whatever `frames` raises.
    """
    stream_rows(con, place.part, map(place.fitted, frames))


def note_span(con: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Note when the first and the last request of a file arrived, before any of its arrivals is moved."""
    span = (
        f"SELECT min(arrival_at) AS first_at, max(arrival_at) AS last_at FROM {place.part.name} WHERE file_number = $1"  # noqa: S608
    )
    noted = f"SET first_at = span.first_at, last_at = span.last_at FROM ({span}) AS span"
    con.execute(f"UPDATE request_file {noted} WHERE file_number = $1", [place.file_number])


def remove_requests(con: duckdb.DuckDBPyConnection, source_file: str) -> None:
    """Take out the rows of a file; its number is free again."""
    numbers = con.execute("SELECT file_number FROM request_file WHERE source_file = ?", [source_file]).fetchall()
    for (number,) in numbers:
        for part in REQUEST.parts:
            remove_rows(con, part, {"file_number": number})
