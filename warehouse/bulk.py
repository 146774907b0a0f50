"""Loading more rows than memory holds: frames streamed into a big table inside the caller's transaction.

Belongs here: how rows reach DuckDB fast and in bounded memory. Not here: which rows (`pipelines.ingest`), replacing
small tables (`warehouse.write`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from tempfile import TemporaryFile
from typing import Any, cast

import duckdb
import polars as pl
import pyarrow as pa

from warehouse.connection import transaction
from warehouse.ddl import identifier, indexed
from warehouse.errors import WriteRefused
from warehouse.frames import conform
from warehouse.registry import Table

MEMORY_LIMIT = "1GiB"
"""What DuckDB may hold of a load before it writes to its file; the frames come on top."""
_ROW_GROUP = 122_880
"""Rows of DuckDB's own unit of storage; batches of it are taken in without being cut."""


@contextmanager
def loading(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """One transaction of streamed inserts, all of it or nothing; rows need not lie in the order they come in."""
    con.execute(f"SET memory_limit = '{MEMORY_LIMIT}'")
    con.execute("SET preserve_insertion_order = false")  # else one thread writes them all
    try:
        with transaction(con):
            yield
    finally:
        con.execute("RESET preserve_insertion_order")
        con.execute("RESET memory_limit")


def remove_rows(con: duckdb.DuckDBPyConnection, table: Table, where: Mapping[str, Any]) -> None:
    """Take out the rows whose columns equal the values."""
    condition = " AND ".join(f"{identifier(table.column(name).name)} IS NOT DISTINCT FROM ?" for name in where)
    con.execute(f"DELETE FROM {identifier(table.name)} WHERE {condition}", list(where.values()))  # noqa: S608


def stream_rows(con: duckdb.DuckDBPyConnection, table: Table, frames: Iterator[pl.DataFrame]) -> None:
    """Append frames to a bulk table (one without an index) in one statement, each asked for when the last is written.

    Raises WriteRefused where a frame does not fit the table or breaks one of its constraints, and whatever `frames`
    raises.
    """
    if indexed(table):
        raise WriteRefused(f"table {table.name} is not loaded in bulk; its rows are replaced")
    schema = conform(table, pl.DataFrame()).to_arrow().schema
    raised: list[BaseException] = []
    context = copy_context()

    def batches() -> Iterator[pa.RecordBatch]:
        # DuckDB asks from threads of its own, and would turn what is raised here into an error of its own kind.
        try:
            while (frame := context.run(next, frames, None)) is not None:
                yield from conform(table, frame).to_arrow().cast(schema).to_batches(max_chunksize=_ROW_GROUP)
        except BaseException as error:
            raised.append(error)
            raise

    con.register("incoming_rows", pa.RecordBatchReader.from_batches(schema, batches()))
    try:
        con.execute(f"INSERT INTO {identifier(table.name)} BY NAME SELECT * FROM incoming_rows")  # noqa: S608
    except duckdb.Error as error:
        if raised:
            raise raised[0] from None
        if isinstance(error, duckdb.ConstraintException):
            raise WriteRefused(f"table {table.name}: {' '.join(str(error).split())}") from error
        raise
    finally:
        con.unregister("incoming_rows")


class Spool:
    """Frames of one schema kept on disk until the table they go to can be written, in the order they were put."""

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="capsheet-")  # noqa: SIM115 - closed on leaving

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, frame: pl.DataFrame) -> None:
        """Keep a frame."""
        if frame.height:
            frame.write_ipc_stream(self._file)

    def frames(self) -> Iterator[pl.DataFrame]:
        """The frames, each read back when it is asked for."""
        end = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < end:
            with pa.ipc.open_stream(self._file) as stream:
                yield cast(pl.DataFrame, pl.from_arrow(stream.read_all()))
