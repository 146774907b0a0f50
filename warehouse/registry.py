"""What a column and a table are: the one registry behind DDL, contracts, comments and the data dictionary.

Belongs here: the `Column` and `Table` types and the look-up over all tables. The tables themselves are
declared in `warehouse.tables`, one module a layer; nothing else in capsheet declares a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

SqlType = Literal["VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "TIMESTAMP", "BIGINT[]", "BLOB", "ENUM"]
"""Types of columns; ENUM is of the words a column allows, and only for tables that hold parts of a public one."""

LABELS = ("verified", "measured", "cited", "inferred", "estimated", "assumed")
"""How sure a number is: read from a file or API; measured; cited; deduced; computed by a model; assumed."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its SQL type, unit (empty when it has none), meaning and the values it may take.

    `minimum` and `maximum` are inclusive unless `positive` is set, which asks for values above zero.
    """

    name: str
    type: SqlType
    meaning: str
    unit: str = ""
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    positive: bool = False
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, its columns in order, and its key.

    `versioned` tables carry `plan_version` first and are written once, when a plan is published; before that the
    same rows, without the version, stand in `draft_<name>`. `public` tables are what users query.

    A table with `parts` is a view of them: the rows of all but the first, in which a column that a part lacks is NULL.
    The first part gives the name behind the number that the others carry.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    versioned: bool = False
    public: bool = True
    parts: tuple[Table, ...] = ()

    def column(self, name: str) -> Column:
        """The column called `name`; raises KeyError when the table has none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name}")

    @property
    def draft(self) -> Table:
        """The unversioned working copy of a versioned table."""
        if not self.versioned:
            raise ValueError(f"table {self.name} is not versioned, so it has no draft")
        return Table(
            name=f"draft_{self.name}",
            row=self.row,
            columns=tuple(c for c in self.columns if c.name != "plan_version"),
            key=tuple(k for k in self.key if k != "plan_version"),
            public=False,
        )


def tables() -> Iterator[Table]:
    """Every table in reading order: sources, workload, estimates, plan, feedback. Drafts are not among them."""
    from warehouse.tables import ALL

    yield from ALL


def table(name: str) -> Table:
    """The table (or draft) called `name`; raises KeyError when there is none."""
    for candidate in tables():
        if candidate.name == name:
            return candidate
        if candidate.versioned and f"draft_{candidate.name}" == name:
            return candidate.draft
    raise KeyError(f"no table {name} in the registry")
