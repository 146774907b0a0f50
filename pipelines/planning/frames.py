"""The rows of one plan version as the workbook takes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import duckdb
import polars as pl

from reports.frames import TABLES, PlanFrames, PreviousPlan
from warehouse.registry import table

_SHOWN_REJECTS = 200


def plan_frames(
    con: duckdb.DuckDBPyConnection, version: int, created_at: datetime, header: Mapping[str, object], sources: list[str]
) -> PlanFrames:
    """The frames of `version`, whose rows stand in the connection's transaction while its header does not yet.

    `sources` are the files the plan rests on: only their rejected rows belong to it.
    """
    previous = con.execute("SELECT max(plan_version) FROM plan WHERE plan_version < ?", [version]).fetchall()[0][0]
    own = {"plan_version": version, "created_at": created_at.replace(tzinfo=None), "previous_version": previous}
    return PlanFrames(
        header=pl.DataFrame([{**header, **own}], schema_overrides={"previous_version": pl.Int64}),
        **{field: _rows(con, name, version) for field, name in TABLES.items() if table(name).versioned},
        observations=con.execute("SELECT * FROM observation ORDER BY observation_id").pl(),
        rejected_counts=con.execute(
            "SELECT source_file, reason, count(*) AS rows FROM rejected_row WHERE source_file IN (SELECT unnest($1)) "
            "GROUP BY ALL ORDER BY source_file, rows DESC, reason",
            [sources],
        ).pl(),
        rejected_rows=con.execute(
            "SELECT * FROM rejected_row WHERE source_file IN (SELECT unnest($1)) ORDER BY source_file, line LIMIT $2",
            [sources, _SHOWN_REJECTS],
        ).pl(),
        previous=None if previous is None else _previous(con, int(previous)),
    )


def _previous(con: duckdb.DuckDBPyConnection, version: int) -> PreviousPlan:
    return PreviousPlan(
        header=con.execute("SELECT * FROM plan WHERE plan_version = ?", [version]).pl(),
        candidates=_rows(con, "plan_candidate", version),
        headroom=_rows(con, "plan_headroom", version),
        cost=_rows(con, "plan_cost", version),
    )


def _rows(con: duckdb.DuckDBPyConnection, name: str, version: int) -> pl.DataFrame:
    known = table(name)
    order = "position" if any(c.name == "position" for c in known.columns) else ", ".join(known.key)
    query = f"SELECT * FROM {known.name} WHERE plan_version = ? ORDER BY {order}"  # noqa: S608 - names of the registry
    return con.execute(query, [version]).pl()
