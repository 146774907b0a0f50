"""The registry as Polars types, and a frame made to fit a table without loss.

Belongs here: which Polars type a column has, and the conversion that refuses rather than rounds. Not here: the rules
on values (`warehouse.contracts`) and writing (`warehouse.write`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from warehouse.errors import WriteRefused
from warehouse.registry import Column, SqlType, Table

_TYPES: Mapping[SqlType, pl.DataType] = {
    "VARCHAR": pl.String(),
    "BIGINT": pl.Int64(),
    "INTEGER": pl.Int32(),
    "DOUBLE": pl.Float64(),
    "BOOLEAN": pl.Boolean(),
    "TIMESTAMP": pl.Datetime("us"),
    "BIGINT[]": pl.List(pl.Int64()),
    "BLOB": pl.Binary(),
}


def polars_type(column: Column) -> pl.DataType:
    """The Polars type a column's values have; timestamps are naive and UTC."""
    return pl.Enum(column.allowed) if column.type == "ENUM" else _TYPES[column.type]


def polars_schema(table: Table) -> dict[str, pl.DataType]:
    """The table's columns in order with their Polars types: a frame of it is `pl.DataFrame(rows, schema=...)`."""
    return {column.name: polars_type(column) for column in table.columns}


def conform(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the table's columns, in its order and types.

    A column that is missing becomes NULL where that is allowed; a frame without rows needs no columns. Raises
    WriteRefused on an unknown column, on a missing one that may not be NULL, and on values the column's type cannot
    hold exactly.
    """
    names = {column.name for column in table.columns}
    unknown = [name for name in frame.columns if name not in names]
    if unknown:
        raise WriteRefused(f"table {table.name} has no column {', '.join(unknown)}; its columns: {', '.join(names)}")
    missing = [column.name for column in table.columns if column.name not in frame.columns and not column.nullable]
    if missing and not frame.is_empty():
        raise WriteRefused(f"table {table.name} needs a value in {', '.join(missing)}; the rows do not carry it")
    return frame.select(_fitted(table, column, frame) for column in table.columns)


def utc_naive(series: pl.Series) -> pl.Series:
    """A zoned time as the naive UTC one the warehouse stores; any other series as it is."""
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone is not None:
        return series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return series


def _fitted(table: Table, column: Column, frame: pl.DataFrame) -> pl.Series:
    wanted = polars_type(column)
    if column.name not in frame.columns:
        return pl.Series(column.name, [None], dtype=wanted).new_from_index(0, frame.height)
    series = utc_naive(frame[column.name])
    if series.dtype == wanted:
        return series
    if not castable(series.dtype, wanted):
        raise WriteRefused(f"{table.name}.{column.name} is {column.type}; the rows hold {series.dtype}")
    try:
        return series.cast(wanted, strict=True)
    except pl.exceptions.PolarsError as error:
        raise WriteRefused(f"{table.name}.{column.name} is {column.type}: {str(error).splitlines()[0]}") from error


def castable(found: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether a cast between the types is exact wherever it succeeds: nothing is rounded, and text is not parsed."""
    if found == pl.Null:
        return True
    if isinstance(wanted, pl.List):
        return isinstance(found, pl.List) and (found.inner == pl.Null or found.inner.is_integer())
    if wanted == pl.String:
        return isinstance(found, pl.Categorical | pl.Enum)
    if isinstance(wanted, pl.Enum):
        return found == pl.String
    if wanted == pl.Float64:
        return found.is_numeric()
    if isinstance(wanted, pl.Datetime):
        return isinstance(found, pl.Datetime | pl.Date)
    return found.is_integer() and wanted.is_integer()
