"""Live figures: a formula and its value made by one expression, so that the cached value cannot drift from it.

Belongs here: the few operations the sheets use. Does not: where a formula stands (`reports.page`) or writing the
values into the file (`reports.cached`). Operands are cells, never constants; inputs live on the Assumptions sheet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Scalar = float | int | str | bool


@dataclass(frozen=True, slots=True)
class Live:
    """A formula without its equals sign, every reference with its sheet, and what it comes to."""

    formula: str
    value: Scalar

    @property
    def number(self) -> float:
        """The value as a number; raises TypeError where it is text."""
        if isinstance(self.value, str):
            raise TypeError(f"{self.formula} is text: {self.value!r}")
        return self.value


def product(*factors: Live) -> Live:
    """a * b * …"""
    return Live("*".join(f.formula for f in factors), math.prod(f.number for f in factors))


def difference(left: Live, *rights: Live) -> Live:
    """left - right - …"""
    return Live("-".join((left.formula, *(r.formula for r in rights))), left.number - sum(r.number for r in rights))


def in_whole(amount: Live) -> Live:
    """The amount rounded to a whole one: what is left of two equal sums after rounding in binary is nothing, not -0."""
    # Adding 0.0 turns a negative zero into zero.
    return Live(f"ROUND({amount.formula},0)", round(amount.number, 0) + 0.0)


def quotient(left: Live, right: Live) -> Live:
    """left / right, and 0 where right is 0."""
    value = left.number / right.number if right.number else 0
    return Live(f"IF({right.formula}=0,0,{left.formula}/{right.formula})", value)


def stepped(now: Live, before: Live, cost_before: Live, cost_now: Live) -> Live:
    """What the change in quantity costs at the former unit cost; all of the cost now where there was no quantity."""
    moved = now.number - before.number
    value = moved * cost_before.number / before.number if before.number else cost_now.number
    change = f"({now.formula}-{before.formula})*{cost_before.formula}/{before.formula}"
    return Live(f"IF({before.formula}=0,{cost_now.formula},{change})", value)


def span(cells: Sequence[Live]) -> str:
    """The range from the first to the last of cells that stand one under (or beside) the other."""
    return f"{cells[0].formula}:{cells[-1].formula.rsplit('!', 1)[-1]}"


def total(cells: Sequence[Live]) -> Live:
    """SUM over cells that stand together."""
    return Live(f"SUM({span(cells)})", math.fsum(c.number for c in cells))


def count_of(word: str, cells: Sequence[Live]) -> Live:
    """How many of the cells say `word`, one of the workbook's own status words."""
    return Live(f'COUNTIF({span(cells)},"{word}")', sum(c.value == word for c in cells))


def within(delta: Live, tolerance: Live, yes: str, no: str) -> Live:
    """`yes` where |delta| is at most the tolerance, else `no`."""
    held = abs(delta.number) <= tolerance.number
    return Live(f'IF(ABS({delta.formula})<={tolerance.formula},"{yes}","{no}")', yes if held else no)


def worst_of(cases: Sequence[tuple[Live, str]], otherwise: str) -> Live:
    """The words of the first case whose count is above 0, else `otherwise`."""
    formula, value = f'"{otherwise}"', otherwise
    for count, words in reversed(cases):
        formula = f'IF({count.formula}>0,"{words}",{formula})'
        value = words if count.number > 0 else value
    return Live(formula, value)
