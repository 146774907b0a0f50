"""How commands print: tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import typer


def as_json(value: object) -> None:
    """Print `value` as JSON: times as ISO 8601 UTC, NaN and infinity as null, bytes as their length."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds") + ("" if value.tzinfo else "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


LEAST_COLUMN = 9
"""Characters a column needs to be read."""


def as_table(rows: Sequence[Mapping[str, Any]], title: str = "", *, empty: str = "no rows") -> None:
    """Print rows as a table that fits the terminal; text is shown as it is, never as markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not rows:
        console.print(Text(empty))
        return
    if console.is_terminal and len(rows[0]) * LEAST_COLUMN > console.width:
        # Columns of a few characters are no table: one record a block instead.
        if title:
            console.print(Text(title, style="bold"))
        for row in rows:
            console.print(Text("\n".join(f"{name}: {cell(value)}" for name, value in row.items()) + "\n"))
        return
    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", header_style="bold")
    for name in rows[0]:
        numeric = all(isinstance(row[name], int | float | type(None)) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row.values()))
    if not console.is_terminal:
        # Piped output keeps whole values: a file or a grep has no width.
        console = Console(width=max(200, 40 * len(rows[0])))
    console.print(table)


def cell(value: Any) -> str:
    """One value for people: 4 significant digits, thousands apart, UTC times to the second."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        if value == 0 or 1e-3 <= abs(value) < 1e15:
            return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
        return f"{value:.3e}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return str(value)
