"""`capsheet sql`: read-only questions to the warehouse."""

from __future__ import annotations

from pathlib import Path

from pipelines.commands import show
from pipelines.workspace import Place
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError
from warehouse.query import named_queries, run_named, run_query


def run(query: str, *, list_queries: bool, params: list[str], workspace: Path, json: bool) -> None:
    """Run a named query or a SELECT; with --list (or nothing) list the named ones."""
    if list_queries or not query.strip():
        rows = [
            {"name": q.name, "answers": q.title, "takes": ", ".join(p.name for p in q.parameters)}
            for q in named_queries().values()
        ]
        show.as_json(rows) if json else show.as_table(rows, "named queries: capsheet sql NAME")
        return
    values: dict[str, str] = {}
    for pair in params:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise CapsheetError(f"--param {pair!r} is not NAME=VALUE. Write it like --param version=3.")
        values[name] = value
    warehouse = Warehouse(Place(workspace).warehouse)
    # One word is a name; anything else is SQL. A misspelt name is then answered with the names there are.
    word = query.strip()
    frame = run_named(warehouse, word, values) if word.isidentifier() else run_query(warehouse, query, values)
    rows = frame.to_dicts()
    show.as_json(rows) if json else show.as_table(rows, empty="no rows")
