"""Where many independent pieces of work run: here, in processes of this machine, or on a Ray cluster. Same results.

Belongs here: handing out work, its order and its progress. Does not: what the work is.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from pipelines.progress import report
from warehouse.errors import CapsheetError

Executor = Literal["local", "ray"]
Context = TypeVar("Context")
Job = TypeVar("Job")
Result = TypeVar("Result")

STARTING_S = 4.0
"""What a process takes to start beside another one: imports and loading compiled code, 2.6 s of CPU (measured)."""
DIED = "a process that replayed was killed, most likely for want of memory. Free some, or replay fewer at once."

_shared: tuple[str, Any] = ("", None)
"""In a worker process: which work it was last told of, and what all jobs of that have in common."""


def run_all(
    work: Callable[[Context, Job], Result],
    context: Context,
    jobs: Sequence[Job],
    *,
    executor: Executor = "local",
    workers: int | None = None,
    stage: str = "replays",
) -> Generator[Result]:
    """`work(context, job)` for every job: results in the order of the jobs, each as soon as it is its turn.

    `work` must be a function of a module, since other processes import it. Locally the first job always runs here, so
    that whatever it compiles is compiled once; the rest goes to processes, as many as the machine has CPUs, where that
    saves more than starting them costs. `workers` sets their number without asking. On Ray the cluster decides: the
    one at `RAY_ADDRESS`, where this version of capsheet must be installed, or one started on this machine.

    Progress is reported under `stage`. An exception of any job is raised and ends the others. Raises CapsheetError
    when Ray is not installed or not reached.
    """
    if executor == "ray":
        return _on_ray(work, context, jobs, stage)
    if executor != "local":
        raise CapsheetError(f"executor {executor!r}: there are local and ray.")
    return _on_this_machine(work, context, jobs, workers, stage)


def _on_this_machine(
    work: Callable[[Context, Job], Result], context: Context, jobs: Sequence[Job], workers: int | None, stage: str
) -> Generator[Result]:
    total, spent_s = len(jobs), 0.0
    for done, job in enumerate(jobs):
        count = min(workers or os.cpu_count() or 1, total - done)
        # The first job may have compiled what the others use: it says nothing about them.
        saved_s = spent_s / max(1, done - 1) * (total - done) * (1 - 1 / count)
        if done > 0 and count > 1 and (workers or saved_s > STARTING_S):
            yield from _in_processes(work, context, jobs, done, count, stage)
            return
        start_s = time.perf_counter()
        result = work(context, job)
        spent_s += time.perf_counter() - start_s if done else 0.0
        report(stage, done + 1, total)
        yield result


def _in_processes(
    work: Callable[[Context, Job], Result], context: Context, jobs: Sequence[Job], done: int, count: int, stage: str
) -> Generator[Result]:
    """The jobs from number `done` on."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Not forked: threads of the libraries that read tables do not survive that.
    pool = ProcessPoolExecutor(count, get_context("spawn"), initializer=_receive, initargs=(context,))
    try:
        places = {pool.submit(_work, work, jobs[i]): i for i in range(done, len(jobs))}
        results: dict[int, Result] = {}
        turn = done
        for ended, future in enumerate(as_completed(places), start=done + 1):
            results[places[future]] = future.result()
            report(stage, ended, len(jobs))
            while turn in results:
                yield results.pop(turn)
                turn += 1
    except BrokenProcessPool:
        raise CapsheetError(DIED) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _receive(context: Any) -> None:
    global _shared  # noqa: PLW0603 - a worker process is told once what its jobs share
    _shared = ("", context)
    # Ctrl-C reaches every process of a terminal; the one that handed out the work answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(work: Callable[[Any, Job], Result], job: Job) -> Result:
    return work(_shared[1], job)


def _on_ray(
    work: Callable[[Context, Job], Result], context: Context, jobs: Sequence[Job], stage: str
) -> Generator[Result]:
    with cluster() as ray:
        # Pickled here: Ray would hand out arrays that cannot be written, which compiled code takes for another type.
        box = ray.put(pickle.dumps(context))
        remote = ray.remote(_work_on_ray)
        places = {remote.remote(work, box.hex(), [box], job): i for i, job in enumerate(jobs)}
        waiting, results, turn = list(places), dict[int, Result](), 0
        try:
            while waiting:
                ended, waiting = ray.wait(waiting)
                for reference in ended:
                    results[places.pop(reference)] = ray.get(reference)
                report(stage, len(jobs) - len(waiting), len(jobs))
                while turn in results:
                    yield results.pop(turn)
                    turn += 1
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError:
            raise CapsheetError(DIED) from None
        finally:
            for reference in waiting:
                ray.cancel(reference)


@contextmanager
def cluster() -> Iterator[Any]:
    """Ray, joined or started for as long as the block lasts; inside another such block, that one's.

    Raises CapsheetError when it is not installed or not reached.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        # Nothing leaves this machine: no usage statistics, and no address but the loopback's. Read on import.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    try:
        import ray
    except ImportError:
        raise CapsheetError("executor ray: Ray is not installed. pip install 'capsheet[ray]', or use local.") from None
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address:
            _knock(address)
            ray.init(address, **quiet)
        else:
            ray.init("local", include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        where = f"no cluster answers at RAY_ADDRESS={address}" if address else "no cluster could be started here"
        raise CapsheetError(f"executor ray: {where} ({first}). Mend that, or use local.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nobody listens: Ray itself would go on asking for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _work_on_ray(work: Callable[[Any, Job], Result], whose: str, box: list[Any], job: Job) -> Result:
    global _shared  # noqa: PLW0603 - a worker process reads once what its jobs share
    if _shared[0] != whose:
        import ray

        _shared = (whose, pickle.loads(ray.get(box[0])))
    return work(_shared[1], job)
