"""Numbered migrations: the SQL files that bring a warehouse to the tables of the registry.

Belongs here: reading `sql/migrations/`, running what a warehouse lacks in one transaction, recording it in
`schema_migration`, and the statements a change of the registry asks for. Not here: the DDL's text (`warehouse.ddl`).

A change of the registry needs a new migration. `python -m warehouse.migrate` writes the statements that are missing as
the next `sql/migrations/000N_tables.sql`, to be read and named; it brings every older warehouse along.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import duckdb

from warehouse.connection import scratch, transaction
from warehouse.ddl import create_statements, ddl, identifier, stored_tables
from warehouse.errors import WarehouseOutdated
from warehouse.registry import Table

_RECORD = """
CREATE TABLE IF NOT EXISTS schema_migration (
  number INTEGER PRIMARY KEY, name VARCHAR NOT NULL, sha256 VARCHAR NOT NULL, applied_at TIMESTAMP NOT NULL
)
"""
_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file of `sql/migrations/`."""

    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """Fingerprint of its text, so that an edited migration is noticed."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> tuple[Migration, ...]:
    """Every migration in order; numbers run from 1 without a gap."""
    found = []
    for file in (resources.files("sql") / "migrations").iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"sql/migrations: numbers must run from 0001 without a gap, found {found}")
    return tuple(found)


def migrate(con: duckdb.DuckDBPyConnection, path: Path, known: Sequence[Migration] | None = None) -> list[int]:
    """Run the migrations a warehouse lacks, all in one transaction; returns their numbers, none when up to date.

    `path` names the file in messages; `known` replaces the shipped migrations. Raises WarehouseOutdated when the
    warehouse was written by a newer capsheet or by a build whose migrations were others.
    """
    known = migrations() if known is None else known
    missing = known[_applied(con, path, known) :]
    if not missing:
        return []
    with _checkpointed(con), transaction(con):
        con.execute(_RECORD)
        for migration in missing:
            con.execute(migration.sql)
            con.execute(
                "INSERT INTO schema_migration VALUES (?, ?, ?, now()::TIMESTAMP)",
                [migration.number, migration.name, migration.sha256],
            )
    return [migration.number for migration in missing]


@contextmanager
def _checkpointed(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commits go to the file at once, not by way of its log.

    DuckDB 1.5 cannot replay a log in which a table whose CHECK calls a function is renamed or commented: after a kill
    between the commit and the closing of the file, it would not open again.
    """
    con.execute("SET checkpoint_threshold = '0b'")
    con.execute("SET auto_checkpoint_skip_wal_threshold = 0")
    try:
        yield
    finally:
        con.execute("RESET auto_checkpoint_skip_wal_threshold")
        con.execute("RESET checkpoint_threshold")


def check_version(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise WarehouseOutdated unless every migration this capsheet knows, and no other, has run."""
    known = migrations()
    applied = _applied(con, path, known)
    if applied < len(known):
        raise WarehouseOutdated(
            f"{path} has the tables of an older capsheet (migration {applied} of {len(known)}); "
            "run `capsheet plan` to bring it up to date, nothing in it is lost"
        )


def _applied(con: duckdb.DuckDBPyConnection, path: Path, known: Sequence[Migration]) -> int:
    """How many of the known migrations have run; they must be the first ones, unchanged."""
    exists = con.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'schema_migration'").fetchall()
    if not exists:
        tables = [name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        if tables:
            raise WarehouseOutdated(
                f"{path} is a DuckDB database but not a capsheet warehouse (it holds {tables[0]}); name another file"
            )
        return 0
    rows = con.execute("SELECT number, name, sha256 FROM schema_migration ORDER BY number").fetchall()
    if len(rows) > len(known):
        raise WarehouseOutdated(
            f"{path} was written by a newer capsheet (migration {rows[-1][0]} {rows[-1][1]}, this one knows "
            f"{len(known)}); install that version or a later one"
        )
    for (number, name, sha256), migration in zip(rows, known, strict=False):
        if sha256 != migration.sha256:
            raise WarehouseOutdated(
                f"{path} was made by another build of capsheet (migration {number} {name} was a different text); "
                "use that build, or move the file away and run `capsheet plan` to make a new one"
            )
    return len(rows)


def schema(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[str, ...]]:
    """The tables and views as they stand, by name: their normalised definition and every comment."""
    found: dict[str, tuple[str, ...]] = {}
    tables = """
        SELECT table_name, sql, comment FROM duckdb_tables() WHERE table_name <> 'schema_migration'
        UNION ALL
        SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal
    """
    columns = "SELECT comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
    for name, sql, comment in con.execute(tables).fetchall():
        found[name] = (sql, str(comment), *(str(text) for (text,) in con.execute(columns, [name]).fetchall()))
    return found


def pending(known: Sequence[Migration] | None = None) -> str:
    """The SQL that brings the last migration up to the registry; empty when they agree.

    A changed table is made anew and its rows copied by name, which is the one way that also changes its constraints.
    A new column that may not be NULL is marked: what older rows hold in it is for the author to say.
    """
    with scratch() as before, scratch() as after:
        migrate(before, Path("scratch"), known)
        after.execute(ddl())
        old, new = schema(before), schema(after)
        statements: list[str] = []
        for table in stored_tables():
            if table.name not in old:
                statements += create_statements(table)
            elif old[table.name] != new[table.name] and table.parts:
                statements += [_out_of_the_way(table.name, old[table.name]), *create_statements(table)]
            elif old[table.name] != new[table.name]:
                statements += _rebuild(before, table)
        statements += [f"DROP {_kind(old[name])} {identifier(name)}" for name in old if name not in new]
    return "".join(f"{statement};\n" for statement in statements)


def _kind(definition: Sequence[str]) -> str:
    return "VIEW" if definition[0].startswith("CREATE VIEW") else "TABLE"


def _out_of_the_way(name: str, definition: Sequence[str]) -> str:
    """A view is dropped; a table that becomes one keeps its rows until the author has said where they go."""
    if _kind(definition) == "VIEW":
        return f"DROP VIEW {identifier(name)}"
    note = f"-- say which parts of {name} take the rows of old_{name}, then drop it\n"
    return f"{note}ALTER TABLE {identifier(name)} RENAME TO {identifier(f'old_{name}')}"


def _rebuild(con: duckdb.DuckDBPyConnection, table: Table) -> list[str]:
    rows = con.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [table.name]).fetchall()
    present = {name for (name,) in rows}
    kept = ", ".join(identifier(column.name) for column in table.columns if column.name in present)
    unfilled = [column.name for column in table.columns if column.name not in present and not column.nullable]
    note = f"-- say what older rows hold in {', '.join(unfilled)}, which may not be NULL\n" if unfilled else ""
    old = f"old_{table.name}"
    return [
        f"ALTER TABLE {identifier(table.name)} RENAME TO {identifier(old)}",
        *create_statements(table),
        f"{note}INSERT INTO {identifier(table.name)} BY NAME SELECT {kept} FROM {identifier(old)}",  # noqa: S608 (registry names)
        f"DROP TABLE {identifier(old)}",
    ]


def _write_next() -> None:
    text = pending()
    if text:
        path = Path(__file__).parents[1] / "sql" / "migrations" / f"{len(migrations()) + 1:04d}_tables.sql"
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.name}: read it, name it after what changed, and commit it\n")


if __name__ == "__main__":
    _write_next()
