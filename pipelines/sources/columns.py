"""Reading cells into canonical columns: what a cell must be, what it becomes, and what to say when it is not.

Belongs here: tokens, durations, points in time, identifiers, block hashes, as Polars expressions over a frame of text
(or typed) cells. Does not: which source column they come from (the reader of that format).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl
from polars import selectors

from pipelines.sources.base import RAW_CHARACTERS, REJECTED_SCHEMA

MAX_TOKENS = 100_000_000
MAX_SECONDS = 4_102_444_800
"""The year 2100 in Unix seconds: what is above it is not seconds."""
EARLIEST, LATEST = "1990-01-01", "2100-01-01"

_SHOWN = 40
_VALUE = "_read_"
_VALUES = selectors.starts_with(_VALUE)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on a row; a row for which it is false or NULL is rejected for `reason`."""

    holds: pl.Expr
    reason: pl.Expr


@dataclass(frozen=True, slots=True)
class Reading:
    """How a canonical column is had from a row, and the rules the row must keep for it.

    `work` is done once, before values and rules, which refer to it by its own name: an underscore first. `number` names
    the cell that is read as a number, whether it comes as text or as one, `time` the one that is read as a time, with
    blanks around it or without.
    """

    column: str
    value: pl.Expr
    rules: tuple[Rule, ...] = ()
    work: pl.Expr | None = None
    number: str = ""
    time: str = ""


def number_cells(readings: Sequence[Reading]) -> set[str]:
    """Cells that no reading takes for anything but a number, so that they may as well come as one."""
    return _taken_only_as(readings, "number")


def time_cells(readings: Sequence[Reading]) -> set[str]:
    """Cells that no reading takes for anything but a time, so that blanks around them do not matter."""
    return _taken_only_as(readings, "time")


def _taken_only_as(readings: Sequence[Reading], kind: Literal["number", "time"]) -> set[str]:
    these, others = set[str](), set[str]()
    for reading in readings:
        own = getattr(reading, kind)
        these.add(own)
        used = [reading.value, *(rule.holds for rule in reading.rules)]
        used += [] if reading.work is None else [reading.work]
        others.update(name for part in used for name in part.meta.root_names() if name != own)
    return these - others - {""}


def told(cell: str, complaint: str) -> pl.Expr:
    """A reason that quotes the cell, cut and without control characters."""
    text = pl.col(cell).cast(pl.String).fill_null("").str.replace_all(r"[[:cntrl:]]", " ")
    short = pl.when(text.str.len_chars() > _SHOWN).then(text.str.head(_SHOWN) + "…").otherwise(text)
    return pl.format("{} '{}' {}", pl.lit(cell), short, pl.lit(complaint))


def missing(cell: str) -> Rule:
    """The rule that a cell is there and not empty."""
    there = pl.col(cell).map_batches(_there, pl.Boolean, is_elementwise=True)
    return Rule(there, pl.lit(f"{cell} is missing"))


def _there(cells: pl.Series) -> pl.Series:
    return cells.is_not_null() & (cells != "") if cells.dtype == pl.String else cells.is_not_null()


def whole(column: str, cell: str, *, least: int = 1, most: int = MAX_TOKENS, required: bool = True) -> Reading:
    """A whole number within bounds: lengths in tokens, block sizes. '12.0' is 12; '12.5', 'inf', '1_000' are not."""
    number = pl.col(cell).cast(pl.Float64, strict=False)
    is_whole = number.is_finite() & (number == number.floor())
    low = {0: "is negative", 1: "is not above zero"}.get(least, f"is below {least}")
    rules = (
        Rule(is_whole, told(cell, "is not a whole number")),
        Rule(number >= least, told(cell, low)),
        Rule(number <= most, told(cell, f"is above {most:,}")),
    )
    value = pl.when(is_whole & (number.abs() <= 2**53)).then(number).cast(pl.Int64, strict=False)
    return _reading(column, cell, value, rules, required)


def above_zero(reading: Reading, unless: pl.Expr) -> Reading:
    """The reading with the rule that it is above zero, `unless` says that the request was not served."""
    cell = reading.value
    excused = cell.is_null() | (cell > 0) | unless.fill_null(value=False)
    return replace(reading, rules=(*reading.rules, Rule(excused, pl.lit(f"{reading.column} is not above zero"))))


def quantity(column: str, cell: str, *, most: float, required: bool = False, scale: float = 1.0) -> Reading:
    """A number from 0 to `most` in the cell's unit, multiplied by `scale`: durations, latencies."""
    number = pl.col(cell).cast(pl.Float64, strict=False)
    rules = (
        Rule(number.is_finite(), told(cell, "is not a number")),
        Rule(number >= 0, told(cell, "is negative")),
        Rule(number <= most, told(cell, f"is above {most:,.0f}")),
    )
    return _reading(column, cell, number * scale, rules, required)


def text(column: str, cell: str, allowed: tuple[str, ...] = ()) -> Reading:
    """Text, as it stands; empty is NULL. With `allowed`, any other word is rejected."""
    value = pl.col(cell).cast(pl.String)
    value = pl.when(value != "").then(value)
    if not allowed:
        return Reading(column, value)
    rule = Rule(value.is_null() | value.is_in(allowed), told(cell, f"is none of {', '.join(allowed)}"))
    return Reading(column, value, (rule,))


def truth(cell: str) -> pl.Expr:
    """Whether a cell says true (true, 1, yes) or false (false, 0, no); anything else is NULL."""
    word = pl.col(cell).cast(pl.String).str.strip_chars().str.to_lowercase()
    return (
        pl.when(word.is_in(["true", "1", "yes"]))
        .then(pl.lit(value=True))
        .when(word.is_in(["false", "0", "no"]))
        .then(pl.lit(value=False))
    )


def hashes(column: str, cell: str, dtype: pl.DataType) -> Reading:
    """Block hashes: a list of whole numbers, or the same as text with spaces between; empty is NULL."""
    wrong = told(cell, "is not a list of whole numbers")
    if isinstance(dtype, pl.List):
        value = pl.col(cell).cast(pl.List(pl.Int64), strict=False)
        blank = pl.col(cell).is_null()
        wrong = pl.lit(f"{cell} is not a list of whole numbers")
    else:
        words = pl.col(cell).cast(pl.String).str.strip_chars()
        blank = words.is_null() | (words == "")
        value = pl.when(~blank).then(words.str.split(" ").cast(pl.List(pl.Int64), strict=False))
    good = blank | (value.list.len() == value.list.drop_nulls().list.len())
    return Reading(column, value, (Rule(good, wrong),))


def _reading(column: str, cell: str, value: pl.Expr, rules: tuple[Rule, ...], required: bool) -> Reading:
    present = missing(cell)
    if required:
        return Reading(column, value, (present, *rules), number=cell)
    blank = ~present.holds
    return Reading(column, value, tuple(Rule(blank | rule.holds, rule.reason) for rule in rules), number=cell)


def separate(
    rows: pl.DataFrame, source_file: str, readings: list[Reading], raw: pl.Expr | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that keep every rule, read into canonical columns beside `line`; and the others, with the first reason.

    `rows` holds `line`, `raw` (unless the expression for it is given) and the cells. Reasons are worked out for broken
    rows only.
    """
    marked = _marked(rows, readings)
    kept = marked.lazy().select("line", "_good", _VALUES).filter("_good").drop("_good").collect()
    kept = kept.rename(lambda name: name.removeprefix(_VALUE))
    broken = marked.filter(~pl.col("_good")).drop(_VALUES)
    if not broken.height:
        return kept, pl.DataFrame(schema=REJECTED_SCHEMA)
    rules = [rule for reading in readings for rule in reading.rules]
    reason = pl.coalesce(pl.when(~rule.holds.fill_null(value=False)).then(rule.reason) for rule in rules)
    rejected = broken.select(
        pl.lit(source_file).alias("source_file"),
        "line",
        reason.alias("reason"),
        (pl.col("raw") if raw is None else raw).str.head(RAW_CHARACTERS).alias("raw"),
    )
    return kept, rejected.cast(REJECTED_SCHEMA)


def all_sound(rows: pl.DataFrame, readings: list[Reading]) -> pl.DataFrame | None:
    """What `separate` keeps where that is every row; None where one breaks a rule."""
    marked = _marked(rows, readings)
    if not marked["_good"].all():
        return None
    values = [marked[f"{_VALUE}{reading.column}"].alias(reading.column) for reading in readings]
    return pl.DataFrame([marked["line"], *values])


def _marked(rows: pl.DataFrame, readings: list[Reading]) -> pl.DataFrame:
    """The rows with `_good` (every rule is kept) and the values read.

    Lazily in one step, since rules and values share most of their work and Polars then does it once.
    """
    rules = [rule for reading in readings for rule in reading.rules]
    good = pl.all_horizontal(rule.holds for rule in rules).fill_null(value=False) if rules else pl.lit(value=True)
    read = (reading.value.alias(f"{_VALUE}{reading.column}") for reading in readings)
    works = (reading.work for reading in readings if reading.work is not None)
    return rows.lazy().with_columns(*works).with_columns(good.alias("_good"), *read).collect()
