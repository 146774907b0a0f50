"""Parquet into cells: bound by column name, `line` being the row's number in the file, from 1.

Belongs here: opening Parquet. Does not: what a column means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.progress import report
from pipelines.sources.base import SourceError
from pipelines.sources.files import BLOCK_BYTES, Opened

BLOCK_ROWS = 500_000
BLOCK_MEMORY_BYTES = 64 * 2**20
"""What the cells of a block may take in memory, by the file's own account; readings and copies come on top."""
FAILURES: tuple[type[BaseException], ...] = (
    pl.exceptions.PolarsError,
    OSError,
    pa.ArrowException,
    pl.exceptions.PanicException,
)
RAW = pl.struct(pl.exclude("line", "^_.*$")).struct.json_encode()
"""A row as it stood, for rejected ones."""


_READABLE = (pl.String, pl.Datetime, pl.Date, pl.Categorical, pl.Enum, pl.Null)


def refuse_types(
    opened: Opened, types: Mapping[str, pl.DataType], flags: Collection[str], loose: Collection[str]
) -> None:
    """Refuse bound columns whose type no cell can be read from.

    Raises:
        SourceError: a column is nested or true/false. `prefix_hashes` may be a list, `flags` true or false, `loose`
            columns either.
    """
    for name, dtype in types.items():
        if name in loose or (name in flags and dtype == pl.Boolean):
            continue
        is_hashes = name == "prefix_hashes" and isinstance(dtype, pl.List) and dtype.inner.is_numeric()
        if not (is_hashes or dtype.is_numeric() or isinstance(dtype, _READABLE)):
            raise SourceError(f"{opened.name}: column {name} is {dtype}; it takes numbers or text. Write it as one.")


def schema_of(opened: Opened) -> pl.Schema:
    """The file's columns and types.

    Raises:
        SourceError: it is damaged or cut short.
    """
    try:
        return pl.Schema(pl.read_parquet_schema(opened.path))
    except FAILURES as error:
        raise _damaged(opened, error) from None


def note_of(opened: Opened) -> str:
    """What the file says of itself under the key `capsheet.note`; empty when it says nothing."""
    try:
        return pl.read_parquet_metadata(opened.path).get("capsheet.note", "")
    except FAILURES:
        return ""


def cells(opened: Opened, bound: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Every row, in blocks: `line` and the bound columns, typed as the file has them.

    Raises:
        SourceError: it is damaged or cut short.
    """
    first = 1
    try:
        with pq.ParquetFile(opened.path) as file:
            columns = list(bound.values())
            for batch in file.iter_batches(_rows_at_once(file.metadata, columns), columns=columns):
                frame = cast(pl.DataFrame, pl.from_arrow(batch)).rename(
                    {column: name for name, column in bound.items()}
                )
                lines = pl.int_range(first, first + frame.height, dtype=pl.Int64).alias("line")
                yield frame.select(lines, pl.exclude(pl.Struct), pl.col(pl.Struct).struct.json_encode())
                first += frame.height
                if opened.size_bytes > BLOCK_BYTES:
                    report(f"reading {opened.name} (rows)", first - 1, file.metadata.num_rows)
    except FAILURES as error:
        raise _damaged(opened, error) from None


def _rows_at_once(metadata: pq.FileMetaData, columns: Collection[str]) -> int:
    """How many rows make a block: fewer where a row is wide, as one with hundreds of block hashes is.

    A value counts what the file takes for it and eight bytes, since a dictionary may hold what it is written out to.
    """
    named = tuple(f"{column}." for column in columns)
    held = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            if f"{chunk.path_in_schema}.".startswith(named):
                held += int(chunk.total_uncompressed_size + 8 * chunk.num_values)
    return min(BLOCK_ROWS, max(1, BLOCK_MEMORY_BYTES * int(metadata.num_rows) // max(1, held)))


def _damaged(opened: Opened, error: BaseException) -> SourceError:
    first = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
    return SourceError(f"{opened.name} is not a whole Parquet file: {first}. Copy or write it again.")
