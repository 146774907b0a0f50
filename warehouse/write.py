"""Writing a frame into a table: what was there for the same source is replaced, so a repeated run leaves no duplicate.

Belongs here: delete-and-insert by name in one transaction. Not here: publishing (`warehouse.publish`), which is the
only writer of plan versions, and the rules a row must meet (`warehouse.contracts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import polars as pl

from warehouse.connection import transaction
from warehouse.ddl import identifier, indexed
from warehouse.errors import WriteRefused
from warehouse.frames import conform
from warehouse.registry import Table

Scope = Mapping[str, Any] | Literal["all"]
"""Which rows a frame takes the place of: those whose columns equal these values, or all of the table."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A frame and the rows of a table it takes the place of."""

    table: Table
    frame: pl.DataFrame
    where: Scope


def replace_rows(con: duckdb.DuckDBPyConnection, table: Table, frame: pl.DataFrame, where: Scope) -> int:
    """Put `frame` in the place of the rows `where` selects, in one transaction; returns the rows now there for it.

    Columns go by name; one the frame lacks becomes NULL where allowed. Every row of the frame must itself lie inside
    `where`, or a second run would leave it twice, and no two may share the table's key. Raises WriteRefused, with
    nothing changed, otherwise, or when a constraint of the table fails, or when the table holds published versions.
    """
    return replace_together(con, Replacement(table, frame, where))


def replace_together(con: duckdb.DuckDBPyConnection, *replacements: Replacement) -> int:
    """Several `replace_rows` in one transaction: all of them or none; returns the rows written."""
    fitted = [(item, _checked(item)) for item in replacements]
    with transaction(con):
        for item, frame in fitted:
            _delete(con, item)
            append(con, item.table, frame)
    return sum(frame.height for _, frame in fitted)


def append(con: duckdb.DuckDBPyConnection, table: Table, frame: pl.DataFrame) -> None:
    """Insert a conforming frame by name, through Arrow; the caller owns the transaction.

    Raises WriteRefused when a constraint of the table fails.
    """
    if frame.is_empty():
        return
    con.register("incoming_rows", frame)
    try:
        con.execute(f"INSERT INTO {identifier(table.name)} BY NAME SELECT * FROM incoming_rows")  # noqa: S608
    except duckdb.ConstraintException as error:
        raise WriteRefused(f"table {table.name}: {' '.join(str(error).split())}") from error
    finally:
        con.unregister("incoming_rows")


def _checked(item: Replacement) -> pl.DataFrame:
    table = item.table
    if table.versioned or table.name in ("plan", "plan_workbook"):
        raise WriteRefused(
            f"table {table.name} holds published versions, which never change; only a draft is rewritten"
        )
    frame = conform(table, item.frame)
    repeated = frame.filter(frame.select(table.key).is_duplicated()) if not frame.is_empty() else frame
    if repeated.height:
        key = ", ".join(f"{name} {repeated[name][0]!r}" for name in table.key)
        raise WriteRefused(f"table {table.name}: more than one row has {key}")
    if item.where != "all":
        if not indexed(table) and not set(item.where) <= set(table.key):
            # Rows that stay could then share a key with rows that come, and no index would notice.
            raise WriteRefused(f"table {table.name} is replaced whole or by a part of its key: {', '.join(table.key)}")
        for name, value in item.where.items():
            column = table.column(name)
            outside = frame.filter(pl.col(column.name).ne_missing(pl.lit(value)))
            if outside.height:
                raise WriteRefused(
                    f"table {table.name}: {outside.height} rows are not of {name} = {value!r}, "
                    f"the first has {outside[name][0]!r}"
                )
    return frame


def _delete(con: duckdb.DuckDBPyConnection, item: Replacement) -> None:
    target = identifier(item.table.name)
    if item.where == "all":
        con.execute(f"DELETE FROM {target}")  # noqa: S608
        return
    condition = " AND ".join(f"{identifier(name)} IS NOT DISTINCT FROM ?" for name in item.where)
    con.execute(f"DELETE FROM {target} WHERE {condition}", list(item.where.values()))  # noqa: S608
