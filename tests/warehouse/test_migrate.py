"""Migrations: they end where the registry stands, run once, and never half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.warehouse.rows import valid_rows
from warehouse import migrate as module
from warehouse.connection import Warehouse, scratch
from warehouse.ddl import create_statements, ddl, described, sql_type, stored_tables
from warehouse.errors import WarehouseOutdated
from warehouse.migrate import Migration, check_version, migrate, migrations, pending, schema
from warehouse.registry import Column, Table, table

HERE = Path("warehouse.duckdb")
REQUEST = table("request")
TINY = Table("tiny", "a tiny row", (Column("name", "VARCHAR", "its name"),), key=("name",))
GROWN = replace(TINY, columns=(*TINY.columns, Column("size_mm", "DOUBLE", "its size", "mm", True, positive=True)))


def test_the_migrations_end_at_the_registry() -> None:
    assert pending() == "", "the registry has changed: see the docstring of warehouse.migrate for the next migration"


def test_every_column_of_the_registry_stands_in_the_warehouse_with_its_meaning(warehouse: Warehouse) -> None:
    found = "SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns() WHERE table_name = ?"
    with warehouse.writer() as con:
        for table in stored_tables():
            rows = con.execute(found, [table.name]).fetchall()
            assert rows == [
                (c.name, sql_type(c), bool(table.parts) or (c.nullable and c.name not in table.key), described(c))
                for c in table.columns
            ]


def test_a_warehouse_is_brought_up_to_date_once(warehouse: Warehouse) -> None:
    with warehouse.writer() as con:
        recorded = con.execute("SELECT number, name, sha256 FROM schema_migration ORDER BY number").fetchall()
        assert recorded == [(m.number, m.name, m.sha256) for m in migrations()]
        assert migrate(con, warehouse.path) == []


def test_an_older_warehouse_keeps_its_rows_through_a_changed_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "stored_tables", lambda: iter([TINY]))
    monkeypatch.setattr(module, "ddl", lambda: _script(TINY))
    first = Migration(1, "first", pending(known=()))
    with scratch() as con:
        migrate(con, HERE, [first])
        con.execute("INSERT INTO tiny VALUES ('a')")
        monkeypatch.setattr(module, "stored_tables", lambda: iter([GROWN]))
        monkeypatch.setattr(module, "ddl", lambda: _script(GROWN))
        second = Migration(2, "second", pending(known=[first]))
        assert migrate(con, HERE, [first, second]) == [2]
        assert con.execute("SELECT * FROM tiny").fetchall() == [("a", None)]
        with pytest.raises(duckdb.ConstraintException):
            con.execute("INSERT INTO tiny VALUES ('b', -1)")
        assert pending(known=[first, second]) == ""


def test_requests_of_a_warehouse_with_one_table_of_them_come_along() -> None:
    rows = pl.concat([valid_rows(REQUEST, 5, source_file=name) for name in ("a.csv", "it's.csv")])
    with scratch() as con:
        migrate(con, HERE, migrations()[:1])
        con.register("older", rows)
        con.execute("INSERT INTO request BY NAME SELECT * FROM older")
        migrate(con, HERE)
        found = con.execute("SELECT * FROM request ORDER BY source_file, line").pl()
        assert found.equals(rows.sort("source_file", "line"))
        assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'old_request'").fetchall() == [(0,)]


def test_a_view_is_made_anew_where_its_columns_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    number = Column("number", "INTEGER", "its number")
    names = Table("tiny_name", "a name", (number, Column("name", "VARCHAR", "it")), key=("number",))
    part = Table("tiny_part", "a size", (number, Column("size_mm", "DOUBLE", "its size", "mm")), key=("number",))
    view = replace(GROWN, parts=(names, part))
    monkeypatch.setattr(module, "stored_tables", lambda: iter([names, part, view]))
    monkeypatch.setattr(module, "ddl", lambda: _script(names) + _script(part) + _script(view))
    first = Migration(1, "first", pending(known=()))
    view = replace(
        view, row="a row that is told otherwise", columns=(*GROWN.columns, Column("colour", "VARCHAR", "it"))
    )
    second = Migration(2, "second", pending(known=[first]))
    assert "DROP VIEW" in second.sql
    with scratch() as con:
        migrate(con, HERE, [first])
        con.execute("INSERT INTO tiny_name VALUES (7, 'a'); INSERT INTO tiny_part VALUES (7, 1.5)")
        migrate(con, HERE, [first, second])
        assert con.execute("SELECT * FROM tiny").fetchall() == [("a", 1.5, None)]
    assert pending(known=[first, second]) == ""


def test_a_table_that_becomes_a_view_keeps_its_rows_for_the_author(monkeypatch: pytest.MonkeyPatch) -> None:
    number = Column("number", "INTEGER", "its number")
    names = replace(TINY, name="tiny_name", columns=(number, *TINY.columns), key=("number",))
    parts = (names, Table("tiny_part", "nothing more", (number,), key=("number",)))
    view = replace(TINY, parts=parts)
    monkeypatch.setattr(module, "stored_tables", lambda: iter([*parts, view]))
    monkeypatch.setattr(module, "ddl", lambda: "".join(map(_script, (*parts, view))))
    first = Migration(1, "first", _script(TINY))
    second = Migration(2, "second", pending(known=[first]))
    assert "-- say which parts of tiny take the rows of old_tiny" in second.sql
    with scratch() as con:
        migrate(con, HERE, [first])
        con.execute("INSERT INTO tiny VALUES ('a')")
        migrate(con, HERE, [first, second])
        assert con.execute("SELECT * FROM old_tiny").fetchall() == [("a",)]
        assert con.execute("SELECT * FROM tiny").fetchall() == []


def test_a_new_column_that_may_not_be_null_is_marked_for_the_author(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "stored_tables", lambda: iter([TINY]))
    monkeypatch.setattr(module, "ddl", lambda: _script(TINY))
    first = Migration(1, "first", pending(known=()))
    strict = replace(TINY, columns=(*TINY.columns, Column("size_mm", "DOUBLE", "its size", "mm")))
    monkeypatch.setattr(module, "stored_tables", lambda: iter([strict]))
    monkeypatch.setattr(module, "ddl", lambda: _script(strict))
    assert "-- say what older rows hold in size_mm" in pending(known=[first])


def test_a_table_that_left_the_registry_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Migration(1, "first", _script(TINY))
    monkeypatch.setattr(module, "stored_tables", lambda: iter([]))
    monkeypatch.setattr(module, "ddl", lambda: "")
    assert pending(known=[gone]) == 'DROP TABLE "tiny";\n'


def test_a_migration_that_fails_leaves_the_warehouse_as_it_was() -> None:
    good, bad = Migration(1, "good", _script(TINY)), Migration(2, "bad", "CREATE TABLE half (n INTEGER); SELECT 1/'x'")
    with scratch() as con:
        migrate(con, HERE, [good])
        before = schema(con)
        with pytest.raises(duckdb.Error):
            migrate(con, HERE, [good, bad])
        assert schema(con) == before
        assert con.execute("SELECT max(number) FROM schema_migration").fetchall() == [(1,)]


def test_a_warehouse_of_a_newer_capsheet_is_left_alone(warehouse: Warehouse) -> None:
    with warehouse.writer() as con:
        con.execute("INSERT INTO schema_migration VALUES (9001, 'from_the_future', 'x', now()::TIMESTAMP)")
    for role in (warehouse.reader, warehouse.writer):
        with pytest.raises(WarehouseOutdated, match=r"newer capsheet.*from_the_future"), role():
            pass


def test_a_warehouse_of_an_older_capsheet_is_read_only_after_a_writer_has_been(warehouse: Warehouse) -> None:
    with warehouse.writer() as con:
        con.execute("DELETE FROM schema_migration WHERE number = (SELECT max(number) FROM schema_migration)")
        with pytest.raises(WarehouseOutdated, match="run `capsheet plan` to bring it up to date"):
            check_version(con, warehouse.path)


def test_a_migration_edited_after_it_ran_is_noticed(warehouse: Warehouse) -> None:
    with warehouse.writer() as con:
        con.execute("UPDATE schema_migration SET sha256 = 'other' WHERE number = 1")
    with pytest.raises(WarehouseOutdated, match="another build"), warehouse.reader():
        pass


def test_the_registry_makes_one_script_for_every_table_and_draft() -> None:
    with scratch() as con:
        con.execute(ddl())
        assert set(schema(con)) == {table.name for table in stored_tables()}


def _script(table: Table) -> str:
    return "".join(f"{statement};\n" for statement in create_statements(table))
