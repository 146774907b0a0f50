"""What a workbook is made of: the rows of one plan version, as frames.

Belongs here: the bundle of frames, and the check that they hold the registry's columns. Does not: reading them
(`warehouse`) or arranging them (the sheets).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from warehouse import registry

Row = dict[str, Any]

TABLES = {
    "header": "plan",
    "assumptions": "plan_assumption",
    "workload": "plan_workload",
    "buckets": "workload_bucket",
    "windows": "workload_window",
    "seasons": "workload_season",
    "mix": "workload_mix",
    "prefixes": "workload_prefix",
    "candidates": "plan_candidate",
    "memory": "plan_memory",
    "capacity": "plan_capacity",
    "bucket_results": "plan_bucket",
    "headroom": "plan_headroom",
    "cost": "plan_cost",
    "numbers": "plan_number",
    "checks": "plan_check",
    "errors": "prediction_error",
    "observations": "observation",
    "rejected_rows": "rejected_row",
}
"""The table behind each frame."""
_OPTIONAL = {"workbook", "workbook_sha256"}
"""Columns of `plan` that only exist once the workbook does."""
_REJECTED_COUNTS = ("source_file", "reason", "rows")


def _require(frame: pl.DataFrame, field: str, columns: tuple[str, ...]) -> None:
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise ValueError(f"frame {field} lacks the column(s) {', '.join(missing)}")


def _columns(field: str) -> tuple[str, ...]:
    table = registry.table(TABLES[field])
    skipped = _OPTIONAL if field == "header" else {"plan_version"}
    return tuple(c.name for c in table.columns if c.name not in skipped)


@dataclass(frozen=True, slots=True)
class PreviousPlan:
    """The version before, for 'change since the last version': its rows of plan, plan_candidate, _headroom, _cost."""

    header: pl.DataFrame
    candidates: pl.DataFrame
    headroom: pl.DataFrame
    cost: pl.DataFrame

    def __post_init__(self) -> None:
        for field in ("header", "candidates", "headroom", "cost"):
            _require(getattr(self, field), f"previous.{field}", _columns(field))


@dataclass(frozen=True, slots=True)
class PlanFrames:
    """One plan version. Each frame holds the columns of its registry table (`plan_version` may be left out).

    `header` is one row of `plan`, its workbook columns may be absent. `rejected_counts` has source_file, reason,
    rows; `rejected_rows` the first rows of `rejected_row`. Raises ValueError naming frame and column where one lacks.
    """

    header: pl.DataFrame
    assumptions: pl.DataFrame
    workload: pl.DataFrame
    buckets: pl.DataFrame
    windows: pl.DataFrame
    seasons: pl.DataFrame
    mix: pl.DataFrame
    prefixes: pl.DataFrame
    candidates: pl.DataFrame
    memory: pl.DataFrame
    capacity: pl.DataFrame
    bucket_results: pl.DataFrame
    headroom: pl.DataFrame
    cost: pl.DataFrame
    numbers: pl.DataFrame
    checks: pl.DataFrame
    errors: pl.DataFrame
    observations: pl.DataFrame
    rejected_counts: pl.DataFrame
    rejected_rows: pl.DataFrame
    previous: PreviousPlan | None = None

    def __post_init__(self) -> None:
        for field in (f.name for f in fields(self)):
            if field in TABLES:
                _require(getattr(self, field), field, _columns(field))
        _require(self.rejected_counts, "rejected_counts", _REJECTED_COUNTS)
        if self.header.height != 1:
            raise ValueError(f"frame header holds {self.header.height} rows; a plan version is one")

    @property
    def plan(self) -> Row:
        """The header row."""
        return self.header.row(0, named=True)

    @property
    def services(self) -> list[str]:
        """Every service of the plan, in the order the workload, then the candidates, name them."""
        names = [*self.workload["service"], *self.candidates["service"], *self.cost["service"]]
        return list(dict.fromkeys(names))


def rows_of(frame: pl.DataFrame, **equal: str) -> list[Row]:
    """The rows whose columns equal the given texts, in the frame's order, by `position` where it has one."""
    rows = [row for row in frame.iter_rows(named=True) if all(row[k] == v for k, v in equal.items())]
    return sorted(rows, key=lambda row: row["position"]) if "position" in frame.columns else rows
