"""The only place that opens DuckDB.

Belongs here: opening and closing, the settings every connection carries, transactions, and what each failure to open
means to the user. Not here: tables (`warehouse.migrate`), writing (`warehouse.write`), users' SQL (`warehouse.query`).

DuckDB lets one process write at a time and keeps readers of other processes out meanwhile, so connections are short:
open one, do one thing, close it. An opener that meets the lock waits `wait_s` before it gives up.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from warehouse.errors import WarehouseLocked, WarehouseMissing, WarehouseUnreadable

# No file, no network, no extension fetched, no Python variable taken for a table: SQL sees the warehouse alone.
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
}
_RETRY_S = 0.05


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A workspace's DuckDB file. `wait_s`: how long to wait, in seconds, for another process to let go of it."""

    path: Path
    wait_s: float = 5.0

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection, closed on leaving.

        Raises WarehouseMissing, WarehouseLocked, WarehouseUnreadable, or WarehouseOutdated when the file's tables are
        those of another version of capsheet.
        """
        from warehouse.migrate import check_version

        if not self.path.exists():
            raise WarehouseMissing(f"{self.path}: there is no warehouse yet; run `capsheet plan` to make it")
        with self._session(read_only=True) as con:
            check_version(con, self.path)
            yield con

    @contextmanager
    def writer(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The one writing connection, closed on leaving; makes the file and brings its tables up to date first.

        Raises WarehouseLocked, WarehouseUnreadable, or WarehouseOutdated when a newer capsheet wrote the file.
        """
        from warehouse.migrate import migrate

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._session(read_only=False) as con:
            migrate(con, self.path)
            yield con

    @contextmanager
    def _session(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        con = self._open(read_only)
        try:
            yield con
        except (duckdb.IOException, duckdb.FatalException, duckdb.TransactionException) as error:
            text = " ".join(str(error).split())
            raise WarehouseUnreadable(
                f"{self.path}: the disk or the file failed ({text}); free space or restore the file, then run again; "
                "what was published before is untouched"
            ) from error
        finally:
            con.close()

    def _open(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        give_up = time.monotonic() + self.wait_s
        while True:
            try:
                return _configured(duckdb.connect(self.path, read_only=read_only, config=_SETTINGS))
            except duckdb.Error as error:
                failure = self._explained(error)
                if not isinstance(failure, WarehouseLocked) or time.monotonic() >= give_up:
                    raise failure from error
            time.sleep(_RETRY_S)

    def _explained(self, error: duckdb.Error) -> WarehouseLocked | WarehouseUnreadable:
        """DuckDB's failure to open, as what the user can do about it."""
        text = " ".join(str(error).split())
        if "Could not set lock" in text:
            found = re.search(r"held in (.+?) \(PID (\d+)\)", text)
            holder = f"process {found[2]} ({found[1]})" if found else "another process"
            pid = int(found[2]) if found else None
            return WarehouseLocked(f"{self.path} is open in {holder}; wait for it to end, or stop it, and retry", pid)
        if "different configuration" in text:
            return WarehouseLocked(f"{self.path} is open elsewhere in this process; retry when that is done")
        return WarehouseUnreadable(
            f"{self.path} cannot be opened as a DuckDB database ({text}); "
            "restore it from a backup, or move it away and run `capsheet plan` to make a new one"
        )


def _configured(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    # The time zone cannot be given on connecting, and may no longer be set where a sibling connection locked settings.
    if con.execute("SELECT current_setting('TimeZone')").fetchall() != [("UTC",)]:
        con.execute("SET GLOBAL TimeZone = 'UTC'")
    return con


@contextmanager
def scratch() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database in memory with the same settings, gone on leaving."""
    con = _configured(duckdb.connect(":memory:", config=_SETTINGS))
    try:
        yield con
    finally:
        con.close()


@contextmanager
def transaction(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """All of the block or nothing of it: commits on leaving, rolls back when anything is raised."""
    con.begin()
    try:
        yield
        con.commit()
    except BaseException:
        # A failed commit has rolled back already; a second rollback must not hide the error that matters.
        with suppress(duckdb.Error):
            con.rollback()
        raise
