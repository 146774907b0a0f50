"""`capsheet explain`: where a published figure came from."""

from __future__ import annotations

import difflib
import json as jsonlib
from pathlib import Path

from pipelines.commands import show
from pipelines.workspace import Place
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError


def run(version: int, number: str, workspace: Path, *, json: bool) -> None:
    """Show one figure's derivation, or list the figures of a version."""
    with Warehouse(Place(workspace).warehouse).reader() as con:
        rows = (
            con.execute(
                "SELECT number, value, unit, label, formula, inputs_json, source FROM plan_number "
                "WHERE plan_version = ? ORDER BY number",
                [version],
            )
            .pl()
            .to_dicts()
        )
    if not rows:
        raise CapsheetError(f"there is no plan version {version}. `capsheet history` lists those there are.")
    if not number:
        listed = [{k: row[k] for k in ("number", "value", "unit", "label", "formula")} for row in rows]
        show.as_json(listed) if json else show.as_table(listed, f"figures of version {version}")
        return
    found = next((row for row in rows if row["number"] == number), None)
    if found is None:
        near = difflib.get_close_matches(number, [row["number"] for row in rows], n=3, cutoff=0.3)
        raise CapsheetError(f"version {version} has no figure {number!r}. Near it: {', '.join(near) or 'none'}.")
    inputs = jsonlib.loads(found.pop("inputs_json"))
    if json:
        show.as_json({**found, "plan_version": version, "inputs": inputs})
        return
    show.as_table([{"figure": key, "": str(show.cell(value))} for key, value in found.items()])
    show.as_table([{"input": key, "value": show.cell(value)} for key, value in inputs.items()], "from")
