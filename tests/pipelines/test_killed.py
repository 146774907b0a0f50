"""A run killed at any point leaves the former version whole, and the next run completes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.pipelines.conftest import Capsheet, Small

KILLS = 6


def start(small: Small) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pipelines", "plan", "--workspace", str(small.folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


@pytest.fixture
def timed(small: Small, capsheet: Capsheet) -> tuple[Small, float]:
    """A workspace with version 1, and how long a run of it takes here."""
    began = time.monotonic()
    done = capsheet("plan", "--workspace", small.folder)
    assert done.returncode == 0, done.stderr
    return small, time.monotonic() - began


def test_killing_a_run_at_any_point_loses_nothing(timed: tuple[Small, float], capsheet: Capsheet) -> None:
    small, usual_s = timed
    first = small.rows("SELECT * FROM plan WHERE plan_version = 1")
    for i in range(KILLS):
        run = start(small)
        try:
            # Later kills fall closer together: writing and publishing happen at the end.
            run.wait(timeout=usual_s * (1 - (1 - (i + 1) / KILLS) ** 2) * 0.98)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        assert small.rows("SELECT * FROM plan WHERE plan_version = 1") == first
        counts = small.rows(
            "SELECT (SELECT count(*) FROM plan) AS plans, (SELECT count(*) FROM plan_workbook) AS books, "
            "(SELECT count(DISTINCT plan_version) FROM plan_candidate) AS candidates, "
            "(SELECT count(DISTINCT plan_version) FROM plan_number) AS numbers"
        )[0]
        assert len(set(counts.values())) == 1, counts
    before = small.rows("SELECT max(plan_version) AS v FROM plan")[0]["v"]
    done = capsheet("plan", "--workspace", small.folder)
    assert done.returncode == 0, done.stderr
    assert small.rows("SELECT max(plan_version) AS v FROM plan")[0]["v"] == before + 1
    assert len(small.workbooks()) == before + 1
    assert small.rows("SELECT count(*) AS n FROM request")[0]["n"] == 1500
