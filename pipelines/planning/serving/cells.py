"""The cells of one row, read as numbers and words or refused by name.

Belongs here: what a cell may hold. Does not: what a column means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.sources.base import shown

LARGEST = 1e9
"""No count, length or rate of a benchmark is larger; a cell above it is a slip."""


class Unreadable(ValueError):  # noqa: N818 - reads as a sentence where it is caught
    """A row that cannot be read as a configuration, with the reason."""


@dataclass(frozen=True, slots=True)
class Cells:
    """One row's cells by column; an absent column is an empty cell."""

    by_name: Mapping[str, str]

    def text(self, name: str) -> str:
        """A cell's words, blanks trimmed and joined."""
        return " ".join(self.by_name.get(name, "").split())

    def required(self, name: str) -> str:
        """A cell that must say something; raises Unreadable naming the column."""
        if not self.text(name):
            raise Unreadable(f"{name} is not stated")
        return self.text(name)

    def number(self, name: str) -> float | None:
        """A number above 0, None for an empty cell; raises Unreadable naming the column."""
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value <= LARGEST:
            raise Unreadable(f"{name} is {shown(text, 40)}, not a number above 0 and up to {LARGEST:,.0f}")
        return value

    def needed(self, name: str) -> float:
        """A number that must be there; raises Unreadable naming the column."""
        value = self.number(name)
        if value is None:
            raise Unreadable(f"{name} is not stated")
        return value

    def count(self, name: str, *, empty: int = 1) -> int:
        """A whole number; an empty cell and 0 (which such files write for `does not apply`) are `empty`."""
        text = self.text(name)
        if not text or text in {"0", "0.0"}:
            return empty
        value = self.number(name)
        if value is None or value != int(value):
            raise Unreadable(f"{name} is {shown(text, 40)}, not a whole number")
        return int(value)


def measured(cells: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, float]:
    """What a row measured, by metric; a cell that is no positive number holds nothing."""
    found = {metric: positive(cells.get(column, "")) for metric, column in columns.items()}
    return {metric: value for metric, value in found.items() if value is not None}


def positive(text: str) -> float | None:
    """A measured number above 0; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
