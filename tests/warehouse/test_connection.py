"""Opening the warehouse: what each failure says, and what an open connection may not do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from warehouse.connection import Warehouse, transaction
from warehouse.errors import WarehouseLocked, WarehouseMissing, WarehouseOutdated, WarehouseUnreadable

_HOLD = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.readline()"


@contextmanager
def another_process_holding(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    try:
        yield process
    finally:
        process.communicate("\n")


def test_a_reader_of_a_warehouse_that_is_not_there_says_how_to_make_it(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseMissing, match="run `capsheet plan`"), warehouse.reader():
        pass
    assert not warehouse.path.exists()


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_warehouse_open_elsewhere_names_the_process(empty: Warehouse, role: str) -> None:
    with another_process_holding(empty.path) as process:
        with pytest.raises(WarehouseLocked) as caught, getattr(empty, role)():
            pass
        assert caught.value.pid == process.pid
        assert f"process {process.pid}" in str(caught.value)
        assert str(empty.path) in str(caught.value)


def test_an_opener_waits_for_a_short_write_to_end(empty: Warehouse) -> None:
    with another_process_holding(empty.path) as process:
        assert process.stdin is not None
        release = threading.Timer(0.3, lambda: print("", file=process.stdin, flush=True))
        release.start()
        with Warehouse(empty.path, wait_s=30).reader() as con:
            assert con.execute("SELECT count(*) FROM plan").fetchall() == [(0,)]
        release.join()


def test_a_reader_inside_a_writer_of_the_same_process_is_told_so(warehouse: Warehouse) -> None:
    with warehouse.writer(), pytest.raises(WarehouseLocked, match="in this process"), warehouse.reader():
        pass


@pytest.mark.parametrize(
    "content", [b"", b"<html>" * 2000, b"DUCK"], ids=["an empty file", "a web page", "four letters"]
)
@pytest.mark.parametrize("role", ["reader", "writer"])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    warehouse: Warehouse, role: str, content: bytes
) -> None:
    warehouse.path.write_bytes(content)
    with pytest.raises(WarehouseUnreadable) as caught, getattr(warehouse, role)():
        pass
    assert str(warehouse.path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert warehouse.path.read_bytes() == content


@pytest.mark.parametrize("keep", [5000, 13000, 300_000])
def test_a_warehouse_cut_short_is_refused(empty: Warehouse, keep: int) -> None:
    whole = empty.path.read_bytes()
    assert len(whole) > keep
    empty.path.write_bytes(whole[:keep])
    with pytest.raises(WarehouseUnreadable, match="restore it from a backup"), empty.reader():
        pass


def test_somebody_elses_duckdb_file_is_not_written_into(warehouse: Warehouse) -> None:
    with duckdb.connect(warehouse.path) as con:
        con.execute("CREATE TABLE invoices (n INTEGER)")
    for role in (warehouse.reader, warehouse.writer):
        with pytest.raises(WarehouseOutdated, match="not a capsheet warehouse"), role():
            pass


def test_connections_think_in_utc_and_see_nothing_but_the_warehouse(warehouse: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    local = [1, 2, 3]  # a Python variable a replacement scan would find
    for role in (warehouse.writer, warehouse.reader):
        with role() as con:
            assert con.execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
            for text in (f"SELECT * FROM '{tmp_path}/secret.csv'", f"ATTACH '{tmp_path}/other.duckdb'"):
                with pytest.raises(duckdb.Error):
                    con.execute(text)
            with pytest.raises(duckdb.CatalogException):
                con.execute("SELECT * FROM local")
    assert local == [1, 2, 3]


def test_a_reader_cannot_write(empty: Warehouse) -> None:
    with empty.reader() as con, pytest.raises(duckdb.InvalidInputException, match="read-only"):
        con.execute("DELETE FROM plan")


def test_a_transaction_that_raises_leaves_nothing(warehouse: Warehouse) -> None:
    with warehouse.writer() as con:
        with pytest.raises(KeyboardInterrupt), transaction(con):
            con.execute("INSERT INTO rejected_row VALUES ('trace.csv', 2, 'because', NULL)")
            raise KeyboardInterrupt
        assert con.execute("SELECT count(*) FROM rejected_row").fetchall() == [(0,)]
