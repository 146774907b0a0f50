"""Rows that obey the registry, for any table, and a warehouse with two published plan versions made of them.

Belongs here: made-up rows for tests of the warehouse and of SQL. Nothing in them stands for a real plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from warehouse.connection import Warehouse
from warehouse.frames import polars_schema
from warehouse.publish import Published, header_columns, publish
from warehouse.registry import Column, Table, table, tables
from warehouse.write import replace_rows

_START = datetime(2026, 1, 5, 9)  # noqa: DTZ001 (the warehouse keeps naive UTC)


def valid_value(column: Column, row: int) -> Any:
    """A value the column allows; values of different rows differ where the column leaves room."""
    low = column.minimum if column.minimum is not None else 0
    simple: dict[str, Callable[[], Any]] = {
        "VARCHAR": lambda: column.allowed[row % len(column.allowed)] if column.allowed else f"{column.name} {row}",
        "ENUM": lambda: column.allowed[row % len(column.allowed)],
        "BIGINT": lambda: int(low) + row + 1,
        "INTEGER": lambda: int(low) + row + 1,
        "DOUBLE": lambda: low + (row + 1) / 64 if column.maximum is not None else low + row + 0.5,
        "BOOLEAN": lambda: row % 2 == 0,
        "TIMESTAMP": lambda: _START + timedelta(hours=row),
        "BIGINT[]": lambda: [row, row + 1],
        "BLOB": lambda: bytes([row % 256]),
    }
    return simple[column.type]()


def valid_rows(of: Table, count: int = 3, **columns: Sequence[Any] | Any) -> pl.DataFrame:
    """`count` rows of the table; a keyword sets a column: a list row by row, anything else in every row."""
    data = {
        column.name: [valid_value(column, row) for row in range(count)]
        for column in of.columns
        if column.name not in columns
    }
    for name, given in columns.items():
        data[name] = list(given) if isinstance(given, list) else [given] * count
    schema = polars_schema(of)
    return pl.DataFrame({name: data[name] for name in schema}, schema=schema)


def header(**columns: Any) -> dict[str, Any]:
    """A valid plan header, as `publish` takes it."""
    return {name: valid_value(table("plan").column(name), 0) for name in header_columns()} | columns


def fill_drafts(warehouse: Warehouse, count: int = 3, **frames: pl.DataFrame) -> None:
    """Valid rows in every draft; a keyword gives a table's own frame."""
    with warehouse.writer() as con:
        for target in tables():
            if target.versioned:
                replace_rows(con, target.draft, frames.get(target.name, valid_rows(target.draft, count)), "all")


def workbook(con: duckdb.DuckDBPyConnection, version: int, created_at: datetime) -> tuple[str, bytes]:
    """A stand-in workbook whose bytes depend on the version's rows."""
    rows = con.execute("SELECT * FROM plan_candidate WHERE plan_version = ? ORDER BY ALL", [version]).fetchall()
    return (
        f"capacity_test_v{version:04d}.xlsx",
        f"{created_at:%Y} {hashlib.sha256(repr(rows).encode()).hexdigest()}".encode(),
    )


def publish_one(warehouse: Warehouse, out_dir: Path, **columns: Any) -> Published:
    """The drafts as they stand, published with a valid header."""
    return publish(warehouse, header(**columns), workbook, out_dir)
