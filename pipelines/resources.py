"""What assets share: the workspace they plan and its warehouse. One run writes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import dagster as dg
import duckdb
import polars as pl

from pipelines.executor import Executor
from pipelines.sources import SourceRead
from pipelines.workspace import Place
from warehouse.connection import Warehouse
from warehouse.lock import single_run
from warehouse.registry import table
from warehouse.write import Replacement, Scope, replace_together

_runs: dict[Path, ExitStack] = {}


def hold_run(lock_file: Path) -> None:
    """Take the workspace's run lock for this process, once; it ends with the process or with `release_run`."""
    if lock_file not in _runs:
        stack = ExitStack()
        stack.enter_context(single_run(lock_file))
        _runs[lock_file] = stack


def release_run(lock_file: Path) -> None:
    """Let go of the run lock, if this process has it."""
    stack = _runs.pop(lock_file, None)
    if stack is not None:
        stack.close()


class PlanningResource(dg.ConfigurableResource[None]):
    """The workspace in `folder` and its warehouse, opened for one short write or read at a time."""

    folder: str
    executor: str = ""
    """Where replays run, when not as the workspace says."""

    @cached_property
    def place(self) -> Place:
        """The workspace, read once a run."""
        return Place(Path(self.folder))

    @property
    def replays_on(self) -> Executor:
        """Where replays run."""
        return cast(Executor, self.executor) if self.executor else self.place.spec.executor

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse's file."""
        return Warehouse(self.place.warehouse)

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A short read-only connection."""
        with self.warehouse.reader() as con:
            yield con

    def frame(self, query: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        """The rows of a query of ours; outside values go in `values` only."""
        with self.reader() as con:
            return con.execute(query, list(values)).pl()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a small table."""
        return self.frame(f"SELECT * FROM {table(name).name} ORDER BY ALL").to_dicts()  # noqa: S608

    def write(self, *replacements: tuple[str, pl.DataFrame, Scope]) -> int:
        """Replace rows of tables, all in one transaction; a second run of capsheet on this workspace is refused."""
        hold_run(self.place.lock)
        with self.warehouse.writer() as con:
            return replace_together(
                con, *(Replacement(table(name), frame, scope) for name, frame, scope in replacements)
            )

    def store(self, kind: str, target: str, read: SourceRead, scope: Scope) -> dg.MaterializeResult[None]:
        """Put what a reader read into its table, its fingerprint into source_file, its rejects into rejected_row."""
        source = {"source_file": read.source_file}
        self.write(
            (target, read.frame, scope),
            ("rejected_row", read.rejected, source),
            ("source_file", self.source_row(kind, read), source),
        )
        return result(read.frame, rejected=read.rejected.height, detail=read.detail)

    def source_row(self, kind: str, read: SourceRead) -> pl.DataFrame:
        """The row of `source_file` for a read."""
        return pl.DataFrame(
            {
                "source_file": [read.source_file],
                "kind": [kind],
                "format": [read.format],
                "sha256": [read.sha256],
                "size_bytes": [read.size_bytes],
                "rows_read": [read.rows_read],
                "rows_kept": [read.frame.height],
                "rows_rejected": [read.rejected.height],
                "detail": [read.detail],
                "loaded_at": [datetime.now(UTC).replace(tzinfo=None)],
            }
        )


def result(frame: pl.DataFrame, **facts: str | int | float | None) -> dg.MaterializeResult[None]:
    """What an asset tells Dagster: its row count, a preview, and further facts."""
    shown = frame.head(8).select([c for c in frame.columns if frame.schema[c] not in (pl.Binary, pl.List)][:8])
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": frame.height,
            "preview": dg.MetadataValue.md(_markdown(shown)),
            **{name: value for name, value in facts.items() if value is not None},
        }
    )


def _markdown(frame: pl.DataFrame) -> str:
    def safe(value: object) -> str:
        return str(value).replace("|", "\\|").replace("\n", " ")[:60]

    lines = ["| " + " | ".join(frame.columns) + " |", "|" + "---|" * len(frame.columns)]
    lines += ["| " + " | ".join(safe(value) for value in row) + " |" for row in frame.iter_rows()]
    return "\n".join(lines)
