"""One writing run a workspace: a lock file that the operating system lets go of when its holder dies.

Belongs here: `single_run`. Not here: DuckDB's own lock on the warehouse, which lasts for one connection only
(`warehouse.connection`); a run holds this one from its first step to its last.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from warehouse.errors import RunInProgress

_held: set[int] = set()


@contextmanager
def single_run(lock_file: Path) -> Iterator[None]:
    """Hold the workspace's run lock for the block. Raises RunInProgress, naming the holder, when another run has it.

    The file stays behind, empty; what counts is the lock on it, which ends with the process, killed or not.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_progress(lock_file, os.pread(handle, 4096, 0)) from None
        holder = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        _held.add(handle)
        try:
            yield
        finally:
            _held.discard(handle)
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _in_progress(lock_file: Path, content: bytes) -> RunInProgress:
    try:
        holder = json.loads(content)
        pid, since = int(holder["pid"]), str(holder["since"])
    except (ValueError, KeyError, TypeError):
        return RunInProgress(f"{lock_file}: another run holds this workspace; wait for it to end", None, None)
    return RunInProgress(
        f"{lock_file}: process {pid} has been running in this workspace since {since}; wait for it to end, or stop it",
        pid,
        since,
    )


def _let_go_in_child() -> None:
    # A forked worker would keep the lock alive after its parent is killed.
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
