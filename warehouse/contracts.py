"""The registry as rules on rows: which rows of a frame may enter a table, and why the others may not.

Belongs here: the rules every column declares (null, type, finite, range, allowed values, unique key), for frames of any
size, and the same rules listed for whoever states them in another tool. Not here: checks over a whole source (a share
of bad rows, a format that is not what it says), which are the pipelines'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from warehouse.errors import CapsheetError
from warehouse.frames import castable, polars_type, utc_naive
from warehouse.registry import Column, Table

_KINDS = {
    "BIGINT": "a whole number",
    "INTEGER": "a whole number",
    "DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "TIMESTAMP": "a time",
    "BIGINT[]": "a list of whole numbers",
    "VARCHAR": "text",
    "ENUM": "one of its words",
    "BLOB": "bytes",
}
_SHOWN = 40


class ContractError(CapsheetError):
    """A frame that does not have the columns its table asks for, so no row of it can be judged."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One rule on one column (or on the key, `column` then naming its columns, comma-separated).

    Kinds and their arguments: `not_null`; `of_type` (sql_type); `finite`; `between` (min_value, max_value, strict_min;
    a bound may be None); `in_set` (value_set); `unique` (column_list).
    """

    column: str
    kind: Literal["not_null", "of_type", "finite", "between", "in_set", "unique"]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def expectations(table: Table) -> list[Expectation]:
    """Every rule of the table, column by column, the key last."""
    found: list[Expectation] = []
    for column in table.columns:
        found.append(Expectation(column.name, "of_type", {"sql_type": column.type}))
        if not column.nullable:
            found.append(Expectation(column.name, "not_null"))
        if column.type == "DOUBLE":
            found.append(Expectation(column.name, "finite"))
        if column.positive or column.minimum is not None or column.maximum is not None:
            low = 0 if column.positive and (column.minimum or 0) <= 0 else column.minimum
            strict = column.positive and low == 0
            bounds = {"min_value": low, "max_value": column.maximum, "strict_min": strict}
            found.append(Expectation(column.name, "between", bounds))
        if column.allowed:
            found.append(Expectation(column.name, "in_set", {"value_set": list(column.allowed)}))
    found.append(Expectation(", ".join(table.key), "unique", {"column_list": list(table.key)}))
    return found


def violations(table: Table, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Part a frame into the rows the table takes and those it does not.

    `frame` carries the table's columns, raw or typed (text is read as the column's type where it says exactly that),
    and `line`, the row's line in its source. Returns (kept, rejected): kept has the table's columns and types; rejected
    has `line` and `reason`, one row for each row of the frame that was not kept, several reasons joined by `; `. Of
    rows with one key the first otherwise sound one is kept. kept.height + rejected.height == frame.height, in order.
    Raises ContractError when `line` or a column that may not be null is missing, or a column is unknown.
    """
    _check_columns(table, frame)
    typed = {column.name: _typed(column, frame) for column in table.columns}
    checked = pl.DataFrame(typed)
    reasons = pl.DataFrame([_reasons(column, frame, checked[column.name]) for column in table.columns])
    reason = reasons.select(pl.concat_str(pl.all(), separator="; ", ignore_nulls=True).alias("reason"))["reason"]
    judged = checked.with_columns(
        pl.Series("_line", frame["line"], dtype=pl.Int64), reason.replace({"": None}).alias("_reason")
    )
    judged = _mark_duplicates(table, judged)
    sound = judged["_reason"].is_null()
    rejected = judged.filter(~sound).select(pl.col("_line").alias("line"), pl.col("_reason").alias("reason"))
    return judged.filter(sound).select(column.name for column in table.columns), rejected


def _check_columns(table: Table, frame: pl.DataFrame) -> None:
    names = {column.name for column in table.columns}
    if "line" not in frame.columns:
        raise ContractError(f"rows for table {table.name} do not say which line they came from")
    unknown = [name for name in frame.columns if name not in names and name != "line"]
    missing = [column.name for column in table.columns if not column.nullable and column.name not in frame.columns]
    if unknown or missing:
        parts = [f"missing {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(unknown)
        raise ContractError(f"columns for table {table.name}: {'; '.join(parts)}; it takes {', '.join(sorted(names))}")


def _typed(column: Column, frame: pl.DataFrame) -> pl.Series:
    """The column in its type, null where the value is not one of that type exactly."""
    wanted = polars_type(column)
    if column.name not in frame.columns:
        return pl.Series(column.name, [None] * frame.height, dtype=wanted)
    series = utc_naive(frame[column.name])
    found = series.dtype
    if found == wanted:
        return series
    if found == pl.String:
        return _read(series, wanted)
    if wanted.is_integer() and found.is_float():
        # 512.0 is a whole number, 512.5 is not; beyond 2**53 a float no longer says which whole number it is.
        whole = (series == series.floor()) & (series.abs() <= 2**53)
        return series.set(~whole, None).cast(wanted, strict=False)
    return series.cast(wanted, strict=False) if castable(found, wanted) else _none(series, wanted)


def _read(series: pl.Series, wanted: pl.DataType) -> pl.Series:
    """Text as a value of the type: ISO 8601 for times, UTC where they name no zone."""
    text = series.str.strip_chars()
    if wanted == pl.Boolean:
        return text.str.to_lowercase().replace_strict({"true": True, "false": False}, default=None, return_dtype=wanted)
    if isinstance(wanted, pl.Datetime):
        return _read_time(text)
    if wanted.is_integer():
        return text.str.replace(r"\.0+$", "").cast(wanted, strict=False)
    return text.cast(wanted, strict=False) if wanted.is_float() or wanted == pl.Enum else _none(series, wanted)


def _read_time(text: pl.Series) -> pl.Series:
    parts = text.str.extract_groups(r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:?\d\d)?$").struct
    zone = parts.field("4").fill_null("+0000").replace("Z", "+0000").str.replace(":", "")
    iso = parts.field("1") + " " + parts.field("2") + parts.field("3").fill_null(".0") + zone
    return utc_naive(iso.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%z", time_unit="us", strict=False)).alias(text.name)


def _none(series: pl.Series, wanted: pl.DataType) -> pl.Series:
    return pl.Series(series.name, [None] * len(series), dtype=wanted)


def _reasons(column: Column, frame: pl.DataFrame, typed: pl.Series) -> pl.Series:
    """Why each row's value of the column is not allowed; null where it is."""
    name = column.name
    raw = frame[name] if name in frame.columns else typed
    blank = raw.is_null()
    if raw.dtype == pl.String and column.type != "VARCHAR":
        blank |= raw.str.strip_chars().eq("").fill_null(value=True)
    work = pl.DataFrame({"raw": raw, "typed": typed, "blank": blank})
    lost = pl.col("typed").is_null() & ~pl.col("blank")
    rules = [(lost, _says(name, raw, f"not {_KINDS[column.type]}"))]
    if column.type in ("BIGINT", "INTEGER") and (raw.dtype == pl.String or raw.dtype.is_integer()):
        digits = pl.col("raw").cast(pl.String).str.contains(r"^\s*[+-]?\d+\s*$")
        rules.insert(0, (lost & digits, _says(name, raw, f"too large for {column.type}")))
    if not column.nullable:
        rules.insert(0, (pl.col("blank"), pl.lit(f"{name} is missing")))
    value = pl.col("typed")
    if column.type == "DOUBLE":
        rules.append((~value.is_finite(), _says(name, raw, "not a finite number")))
    if column.positive:
        rules.append((value <= 0, _says(name, raw, "must be above 0")))
    if column.minimum is not None:
        rules.append((value < column.minimum, _says(name, raw, f"must be at least {column.minimum:g}")))
    if column.maximum is not None:
        rules.append((value > column.maximum, _says(name, raw, f"must be at most {int(column.maximum):,}")))
    if column.allowed:
        rules.append((~value.is_in(list(column.allowed)), _says(name, raw, f"not one of {', '.join(column.allowed)}")))
    chosen = pl.coalesce(pl.when(condition).then(reason) for condition, reason in rules)
    return work.select(chosen.alias(name)).to_series()


def _says(name: str, raw: pl.Series, what: str) -> pl.Expr:
    """`osl_tokens is 0, must be above 0`, the value cut short."""
    shown = pl.col("raw")
    if isinstance(raw.dtype, pl.List | pl.Struct | pl.Binary | pl.Object):
        return pl.lit(f"{name} is {what}")
    shown = shown.cast(pl.String).str.slice(0, _SHOWN)
    if raw.dtype == pl.String:
        shown = pl.format("'{}'", shown)
    return pl.format(f"{name} is {{}}, {what}", shown)


def _mark_duplicates(table: Table, judged: pl.DataFrame) -> pl.DataFrame:
    """Give every sound row whose key a sound row above it has a reason that names that row's line."""
    sound = judged.filter(pl.col("_reason").is_null())
    if sound.select(table.key).is_unique().all():
        return judged
    key = list(table.key)
    above = pl.col("_line").filter(pl.col("_reason").is_null()).first().over(key)
    repeated = pl.col("_reason").is_null() & ~pl.int_range(pl.len()).over([*key, "_reason"]).eq(0)
    reason = pl.format(f"same {', '.join(key)} as line {{}}", above)
    return judged.with_columns(pl.when(repeated).then(reason).otherwise(pl.col("_reason")).alias("_reason"))
