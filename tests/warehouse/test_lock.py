"""One writing run a workspace: the second is told of the first, and a dead one holds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.conftest import ROOT
from warehouse.errors import RunInProgress
from warehouse.lock import single_run

_HOLD = """
import os, sys, time
from pathlib import Path
from warehouse.lock import single_run
with single_run(Path(sys.argv[1])):
    if sys.argv[2] == "with a worker" and os.fork() == 0:
        time.sleep(600)
    print("held", flush=True)
    time.sleep(600)
"""


def _holder(lock_file: Path, how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(lock_file), how],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("how", ["alone", "with a worker"])
def test_a_second_run_names_the_first_and_may_start_once_it_is_killed(tmp_path: Path, how: str) -> None:
    lock_file = tmp_path / "run.lock"
    process = _holder(lock_file, how)
    try:
        with pytest.raises(RunInProgress) as caught, single_run(lock_file):
            pass
        assert caught.value.pid == process.pid
        assert caught.value.since is not None
        assert datetime.fromisoformat(caught.value.since).utcoffset() is not None
        assert str(process.pid) in str(caught.value)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with single_run(lock_file):
            assert str(os.getpid()) in lock_file.read_text()
    finally:
        os.killpg(process.pid, signal.SIGKILL) if how == "with a worker" else process.kill()
        process.communicate()


def test_the_lock_is_let_go_when_a_run_ends_well_or_badly(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), single_run(tmp_path / "run.lock"):
        raise ValueError("bad")
    for _ in range(2):
        with single_run(tmp_path / "run.lock"):
            pass
    assert (tmp_path / "run.lock").read_text() == ""


def test_a_run_within_a_run_is_refused_too(tmp_path: Path) -> None:
    with single_run(tmp_path / "run.lock"), pytest.raises(RunInProgress), single_run(tmp_path / "run.lock"):
        pass


def test_a_lock_file_with_strange_content_still_locks(tmp_path: Path) -> None:
    lock_file = tmp_path / "run.lock"
    lock_file.write_text("<html>")
    with single_run(lock_file):
        lock_file.write_text("[]")
        with pytest.raises(RunInProgress, match="another run") as caught, single_run(lock_file):
            pass
    assert caught.value.pid is None
