"""Processes killed at any instant leave whole versions and whole tables, finish what was begun, and litter nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from tests.conftest import ROOT
from tests.warehouse.rows import publish_one, valid_rows
from warehouse.connection import Warehouse
from warehouse.migrate import migrate, migrations
from warehouse.publish import settle_workbooks
from warehouse.registry import table, tables

_PUBLISHER = """
import sys
from pathlib import Path
sys.modules["pandas"] = None  # DuckDB would import it on the first bound value: a second for nothing, a kill apart
from tests.warehouse.rows import publish_one
from warehouse.connection import Warehouse
while True:
    print("next", flush=True)
    publish_one(Warehouse(Path(sys.argv[1])), Path(sys.argv[2]))
"""
_MIGRATOR = """
import os, signal, sys
from pathlib import Path
from warehouse.connection import Warehouse
with Warehouse(Path(sys.argv[1])).writer():
    os.kill(os.getpid(), signal.SIGKILL)
"""
KILLS = 15


def test_a_publisher_killed_at_any_instant_leaves_only_whole_versions(drafted: Warehouse, tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    delays = random.Random(20260105)
    patient = Warehouse(drafted.path, wait_s=30)
    seen = 0
    for _ in range(KILLS):
        _publish_and_kill(drafted.path, plans, delays.uniform(0, 0.25))
        settled = settle_workbooks(patient, plans)
        assert settled.edited == ()
        published = _assert_all_whole(patient, plans)
        assert published >= seen
        seen = published
    assert publish_one(patient, plans).version == seen + 1
    assert _assert_all_whole(patient, plans) == seen + 1
    assert {file.name for file in drafted.path.parent.iterdir()} <= {"plans", "capsheet.duckdb", "capsheet.duckdb.wal"}


@pytest.mark.parametrize("migrated", [0, 1])
def test_a_migration_killed_before_its_file_is_closed_leaves_one_that_opens(tmp_path: Path, migrated: int) -> None:
    database = tmp_path / "capsheet.duckdb"
    if migrated:
        with duckdb.connect(database) as con:
            migrate(con, database, migrations()[:migrated])
            con.register("older", valid_rows(table("request"), 3))
            con.execute("INSERT INTO request BY NAME SELECT * FROM older")
    killed = subprocess.run([sys.executable, "-c", _MIGRATOR, str(database)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    with Warehouse(database).reader() as con:
        assert con.execute("SELECT count(*) FROM request").fetchall() == [(3 * migrated,)]


def _publish_and_kill(database: Path, plans: Path, delay_s: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _PUBLISHER, str(database), str(plans)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "next\n"
    time.sleep(delay_s)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def _assert_all_whole(warehouse: Warehouse, plans: Path) -> int:
    """Every version has its rows in every table, its header and its file; returns how many there are."""
    with warehouse.reader() as con:
        books = con.execute("SELECT plan_version, name, content FROM plan_workbook ORDER BY 1").fetchall()
        versions = [version for version, _, _ in books]
        assert versions == list(range(1, len(books) + 1))
        assert con.execute("SELECT plan_version FROM plan ORDER BY 1").fetchall() == [(v,) for v in versions]
        for table in tables():
            if table.versioned:
                counts = f"SELECT plan_version, count(*) FROM {table.name} GROUP BY 1 ORDER BY 1"
                assert con.execute(counts).fetchall() == [(v, 3) for v in versions]
    found = {file.name: file.read_bytes() for file in plans.iterdir()} if plans.exists() else {}
    assert found == {name: content for _, name, content in books}
    return len(books)
