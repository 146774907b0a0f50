"""Work handed out: in the order it was given, the same wherever it runs, told as it goes, and failing out loud."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pipelines.executor import cluster, run_all
from pipelines.progress import listening
from warehouse.errors import CapsheetError

if TYPE_CHECKING:
    # Every process that works imports this module: what one test needs is not taken along.
    from tests.pipelines.conftest import Small

FACTOR = 10


def work(context: int, job: int) -> tuple[int, int]:
    """The answer, and the process that gave it."""
    if job < 0:
        raise CapsheetError(f"job {job} cannot be done")
    return context * job, os.getpid()


def die(context: int, job: int) -> int:
    if job == context:
        os._exit(9)
    return job


def slow(context: float, job: int) -> int:
    time.sleep(context)
    return os.getpid()


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs_and_each_is_reported(workers: int) -> None:
    told: list[tuple[str, int, int]] = []
    with listening(lambda *where: told.append(where)):
        answers = list(run_all(work, FACTOR, range(7), workers=workers, stage="jobs"))
    assert [answer for answer, _ in answers] == [0, 10, 20, 30, 40, 50, 60]
    assert told == [("jobs", done, 7) for done in range(1, 8)]
    here = [process == os.getpid() for _, process in answers]
    assert here == ([True] * 7 if workers == 1 else [True] + [False] * 6)


def test_work_shorter_than_a_process_takes_to_start_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert {process for _, process in run_all(work, FACTOR, range(500))} == {os.getpid()}
    # Told how long its jobs take after the second, which the first does not say: it may have had to compile.
    monkeypatch.setattr("pipelines.executor.STARTING_S", 0.1)
    here = [process == os.getpid() for process in run_all(slow, 0.1, range(6))]
    assert here == [True, True, False, False, False, False]


def test_a_job_that_fails_fails_the_run_with_its_own_message() -> None:
    with pytest.raises(CapsheetError, match=r"^job -1 cannot be done$"):
        list(run_all(work, FACTOR, [4, 9, -1, 16], workers=2))


def test_a_process_that_is_killed_is_said_to_be() -> None:
    with pytest.raises(CapsheetError, match="for want of memory"):
        list(run_all(die, 3, range(6), workers=2))


def test_ray_answers_as_this_machine_does(published: Small) -> None:
    from pipelines.commands.plan import run as plan
    from pipelines.planning.sweep import sweep
    from tests.pipelines.test_sweep import grid

    told: list[tuple[str, int, int]] = []
    with cluster() as ray:
        nodes = ray.nodes()
        assert [node["NodeManagerAddress"] for node in nodes] == ["127.0.0.1"]
        with listening(lambda *where: told.append(where)):
            answers = list(run_all(work, FACTOR, range(7), executor="ray", stage="jobs"))
        assert [answer for answer, _ in answers] == [0, 10, 20, 30, 40, 50, 60]
        assert os.getpid() not in {process for _, process in answers}
        assert told[-1] == ("jobs", 7, 7)
        with pytest.raises(CapsheetError, match=r"^job -1 cannot be done$"):
            list(run_all(work, FACTOR, [4, 9, -1, 16], executor="ray"))
        rates = [2.0, 10.0, 40.0]
        assert sweep(grid(), rates, executor="ray") == sweep(grid(), rates)
        plan(published.folder, json=True, executor="ray")
    for table in ("plan_candidate", "plan_capacity", "plan_headroom", "plan_cost"):
        first, second = (
            published.rows(f"SELECT * EXCLUDE (plan_version) FROM {table} WHERE plan_version = {v} ORDER BY ALL")
            for v in (1, 2)
        )
        assert first and first == second
    assert not ray.is_initialized()


def test_nothing_to_do_is_done_at_once() -> None:
    assert list(run_all(work, FACTOR, [])) == []


def test_an_executor_nobody_knows_and_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CapsheetError, match="local and ray"):
        run_all(work, FACTOR, [1, 2], executor="slurm")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CapsheetError, match=r"capsheet\[ray\]"):
        list(run_all(work, FACTOR, [1, 2], executor="ray"))


def test_a_cluster_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(CapsheetError, match=r"RAY_ADDRESS=127\.0\.0\.1:1 .* use local"):
        list(run_all(work, FACTOR, [1, 2], executor="ray"))
