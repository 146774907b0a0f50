"""`capsheet history`: the versions published so far."""

from __future__ import annotations

from pathlib import Path

from pipelines.commands import show
from pipelines.workspace import Place
from warehouse.connection import Warehouse
from warehouse.query import run_named


def run(workspace: Path, *, json: bool) -> None:
    """List plan versions, the newest first."""
    rows = run_named(Warehouse(Place(workspace).warehouse), "plan_history").to_dicts()
    show.as_json(rows) if json else show.as_table(rows, empty="no plan yet: run `capsheet plan`")
