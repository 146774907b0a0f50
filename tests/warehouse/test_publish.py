"""Publishing keeps its invariants: a version is whole (P1), never changes (P2), and its file is its bytes (P3, P4)."""

from __future__ import annotations

import hashlib
import resource
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.warehouse.rows import fill_drafts, header, publish_one, valid_rows, workbook
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError, PublishRefused, WarehouseUnreadable
from warehouse.publish import MANDATORY, Settled, publish, settle_workbooks
from warehouse.registry import table, tables
from warehouse.write import replace_rows

VERSIONED = [t for t in tables() if t.versioned]


def _everything(warehouse: Warehouse, version: int) -> dict[str, list[tuple[object, ...]]]:
    names = [*(t.name for t in VERSIONED), "plan", "plan_workbook"]
    with warehouse.reader() as con:
        return {
            name: con.execute(f"SELECT * FROM {name} WHERE plan_version = ? ORDER BY ALL", [version]).fetchall()
            for name in names
        }


def _versions(warehouse: Warehouse) -> list[int]:
    with warehouse.reader() as con:
        return [version for (version,) in con.execute("SELECT plan_version FROM plan ORDER BY 1").fetchall()]


def test_a_published_version_holds_every_draft_row_and_its_workbook(drafted: Warehouse, tmp_path: Path) -> None:
    out = publish_one(drafted, tmp_path / "plans")
    rows = _everything(drafted, 1)
    with drafted.reader() as con:
        for versioned in VERSIONED:
            draft = con.execute(f"SELECT * FROM {versioned.draft.name} ORDER BY ALL").fetchall()
            assert rows[versioned.name] == [(1, *row) for row in draft]
        plan = con.execute("SELECT * FROM plan").pl().to_dicts()[0]
    assert out.version == 1
    assert out.path.read_bytes() == rows["plan_workbook"][0][3]
    assert hashlib.sha256(out.path.read_bytes()).hexdigest() == out.sha256 == plan["workbook_sha256"]
    assert plan["workbook"] == out.path.name
    assert plan["previous_version"] is None
    assert {name: plan[name] for name in header()} == header()


def test_publishing_again_adds_a_version_and_leaves_the_former_untouched(drafted: Warehouse, tmp_path: Path) -> None:
    publish_one(drafted, tmp_path)
    before = _everything(drafted, 1)
    fill_drafts(drafted, count=5)
    assert publish_one(drafted, tmp_path).version == 2
    assert _everything(drafted, 1) == before
    assert len(_everything(drafted, 2)["plan_candidate"]) == 5
    with drafted.reader() as con:
        assert con.execute("SELECT previous_version FROM plan WHERE plan_version = 2").fetchall() == [(1,)]


def test_the_same_drafts_give_the_same_numbers_under_a_new_version(drafted: Warehouse, tmp_path: Path) -> None:
    publish_one(drafted, tmp_path)
    publish_one(drafted, tmp_path)
    first, second = _everything(drafted, 1), _everything(drafted, 2)
    for versioned in VERSIONED:
        assert [row[1:] for row in first[versioned.name]] == [row[1:] for row in second[versioned.name]]


def test_the_workbook_is_built_from_the_version_it_belongs_to(drafted: Warehouse, tmp_path: Path) -> None:
    seen: list[tuple[int, int, datetime]] = []

    def build(con: duckdb.DuckDBPyConnection, version: int, created_at: datetime) -> tuple[str, bytes]:
        count = con.execute("SELECT count(*) FROM plan_cost WHERE plan_version = ?", [version]).fetchall()[0][0]
        seen.append((version, count, created_at))
        return "book.xlsx", b"bytes"

    publish(drafted, header(), build, tmp_path)
    [(version, count, created_at)] = seen
    assert (version, count) == (1, 3)
    assert created_at.tzinfo is UTC
    with drafted.reader() as con:
        assert con.execute("SELECT created_at FROM plan").fetchall() == [(created_at.replace(tzinfo=None),)]


def test_a_workbook_that_cannot_be_built_publishes_nothing(drafted: Warehouse, tmp_path: Path) -> None:
    def build(con: duckdb.DuckDBPyConnection, version: int, created_at: datetime) -> tuple[str, bytes]:
        raise ValueError("no sheet")

    with pytest.raises(ValueError, match="no sheet"):
        publish(drafted, header(), build, tmp_path / "plans")
    assert _versions(drafted) == []
    assert all(rows == [] for rows in _everything(drafted, 1).values())
    assert list((tmp_path / "plans").iterdir()) == []


@pytest.mark.parametrize("name", MANDATORY)
def test_a_step_that_left_no_rows_stops_the_publication(drafted: Warehouse, tmp_path: Path, name: str) -> None:
    with drafted.writer() as con:
        replace_rows(con, table(f"draft_{name}"), pl.DataFrame(), "all")
    with pytest.raises(PublishRefused, match=f"draft_{name} has no rows"):
        publish_one(drafted, tmp_path)
    assert _versions(drafted) == []


def test_a_plan_in_which_nothing_fits_can_be_published(drafted: Warehouse, tmp_path: Path) -> None:
    with drafted.writer() as con:
        for name in ("plan_capacity", "plan_bucket", "plan_headroom", "plan_cost", "plan_number"):
            replace_rows(con, table(f"draft_{name}"), pl.DataFrame(), "all")
    assert publish_one(drafted, tmp_path, services_meeting_slo=0, gpus_total=0).version == 1


def test_a_header_with_a_column_too_few_or_too_many_is_refused(drafted: Warehouse, tmp_path: Path) -> None:
    few = {name: value for name, value in header().items() if name != "gpus_total"}
    with pytest.raises(PublishRefused, match="gpus_total"):
        publish(drafted, few, workbook, tmp_path)
    with pytest.raises(PublishRefused, match="plan_version"):
        publish(drafted, header(plan_version=7), workbook, tmp_path)


def test_a_header_that_breaks_the_registry_is_refused(drafted: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(PublishRefused, match="usd_per_hour"):
        publish_one(drafted, tmp_path, usd_per_hour=float("nan"))
    assert _versions(drafted) == []


@pytest.mark.parametrize("name", ["../out.xlsx", "/tmp/out.xlsx", "", "..", ".hidden", "a\\b.xlsx", "a\0b"])
def test_a_workbooks_name_cannot_lead_out_of_its_folder(drafted: Warehouse, tmp_path: Path, name: str) -> None:
    with pytest.raises(PublishRefused, match="not the name of a workbook"):
        publish(drafted, header(), lambda con, version, created_at: (name, b""), tmp_path / "plans")
    assert _versions(drafted) == []


def test_a_strangers_file_of_the_same_name_is_not_overwritten(drafted: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "capacity_test_v0001.xlsx").write_text("mine")
    with pytest.raises(PublishRefused, match="exists already"):
        publish_one(drafted, tmp_path)
    assert (tmp_path / "capacity_test_v0001.xlsx").read_text() == "mine"
    assert _versions(drafted) == []


def test_a_missing_workbook_is_written_again_byte_for_byte(drafted: Warehouse, tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    out = publish_one(drafted, plans)
    content = out.path.read_bytes()
    out.path.unlink()
    (plans / f"{out.path.name}.part").write_bytes(b"half of")
    assert settle_workbooks(drafted, plans) == Settled(written=(out.path,), edited=())
    assert [(file.name, file.read_bytes()) for file in plans.iterdir()] == [(out.path.name, content)]
    assert settle_workbooks(drafted, plans) == Settled((), ())


def test_an_edited_workbook_is_reported_and_left_alone(drafted: Warehouse, tmp_path: Path) -> None:
    out = publish_one(drafted, tmp_path / "plans")
    out.path.write_bytes(b"finance was here")
    assert settle_workbooks(drafted, tmp_path / "plans") == Settled(written=(), edited=(out.path,))
    assert out.path.read_bytes() == b"finance was here"


def test_a_workbook_whose_folder_fails_is_published_and_says_so(drafted: Warehouse, tmp_path: Path) -> None:
    plans = tmp_path / "plans"

    def build(con: duckdb.DuckDBPyConnection, version: int, created_at: datetime) -> tuple[str, bytes]:
        plans.rmdir()  # the folder goes away between the check and the writing
        return "book.xlsx", b"bytes"

    with pytest.raises(CapsheetError, match=r"plan version 1 is published, but .* could not be written"):
        publish(drafted, header(), build, plans)
    assert settle_workbooks(drafted, plans).written == (plans / "book.xlsx",)
    assert (plans / "book.xlsx").read_bytes() == b"bytes"


def test_a_full_disk_leaves_the_former_version_whole(drafted: Warehouse, tmp_path: Path) -> None:
    publish_one(drafted, tmp_path)
    before = _everything(drafted, 1)
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (drafted.path.stat().st_size, most))  # no file may grow beyond this
    try:
        with pytest.raises(WarehouseUnreadable, match="free space"):
            publish(drafted, header(), lambda con, version, created_at: ("big.xlsx", bytes(40_000_000)), tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert _versions(drafted) == [1]
    assert _everything(drafted, 1) == before
    assert publish_one(drafted, tmp_path).version == 2


def test_there_is_nothing_to_settle_without_a_warehouse(warehouse: Warehouse, tmp_path: Path) -> None:
    assert settle_workbooks(warehouse, tmp_path / "plans") == Settled((), ())
    assert not warehouse.path.exists()


def test_a_drafts_row_count_is_the_versions_row_count_at_any_size(drafted: Warehouse, tmp_path: Path) -> None:
    many = valid_rows(table("draft_plan_number"), 10_000)
    fill_drafts(drafted, plan_number=many)
    publish_one(drafted, tmp_path)
    assert len(_everything(drafted, 1)["plan_number"]) == 10_000
