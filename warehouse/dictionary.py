"""The data dictionary: every public table and column of the registry as one Markdown page.

Belongs here: the page's text; `python -m warehouse.dictionary > docs/data-dictionary.md` writes it anew. Not here: the
meanings themselves, which stand in `warehouse.tables`.
"""

from __future__ import annotations

import sys

from warehouse.registry import LABELS, Column, Table, tables

_OPENING = """# Data dictionary

Every table that `capsheet sql` can ask, generated from the registry (`warehouse/tables/`); do not edit it by hand.
Times are UTC. GB is 10⁹ bytes, GiB is 2³⁰. A column may be empty only where the table says so.

"""
_LABELS = f"""`label` says how sure a figure is: {", ".join(f"`{label}`" for label in LABELS)} (read from a file or an
API; measured; cited; deduced; computed by a model; assumed). A *versioned* table carries `plan_version`; its rows are
written once, when the plan is published, and never change. Until then they stand in `draft_` followed by its name.

"""


def data_dictionary() -> str:
    """The page: a list of the tables, then each with its columns."""
    public = [table for table in tables() if table.public]
    contents = "".join(f"- [`{table.name}`](#{table.name}): {_cell(table.row)}\n" for table in public)
    return _OPENING + _LABELS + contents + "".join(_section(table) for table in public)


def _section(table: Table) -> str:
    key = ", ".join(f"`{name}`" for name in table.key)
    kind = " Versioned." if table.versioned else ""
    rows = "".join(_line(column) for column in table.columns)
    head = "| column | type | unit | empty | values | meaning |\n|---|---|---|---|---|---|\n"
    return f"\n## {table.name}\n\nA row is {_cell(table.row)}. Key: {key}.{kind}\n\n{head}{rows}"


def _line(column: Column) -> str:
    empty = "yes" if column.nullable else ""
    cells = (f"`{column.name}`", column.type, column.unit, empty, _values(column), column.meaning)
    return "".join(f"| {_cell(cell)} " for cell in cells) + "|\n"


def _values(column: Column) -> str:
    if column.allowed:
        return ", ".join(f"`{value}`" for value in column.allowed)
    low = "> 0" if column.positive else f"≥ {column.minimum:g}" if column.minimum is not None else ""
    high = f"≤ {column.maximum:,g}" if column.maximum is not None and column.maximum < 1e6 else ""
    if column.maximum is not None and not high:
        high = f"≤ {int(column.maximum):,}"
    return ", ".join(part for part in (low, high) if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(data_dictionary())
