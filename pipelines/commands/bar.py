"""How long work takes, for somebody who waits: one progress bar a stage on the terminal, nothing for machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.progress import listening


@contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[None]:
    """Show what the work inside reports (`pipelines.progress`) on standard error, where that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        stages: dict[str, TaskID] = {}

        def show(stage: str, done: int, total: int) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            bar.update(stages[stage], completed=done, total=total)

        with listening(show):
            yield
