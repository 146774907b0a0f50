"""JSON Lines into cells: one object a line, typed as the layout asks, every line either read or rejected.

Belongs here: decoding. Does not: what a key means. Plain lines are decoded by Polars a block at a time; a block that it
refuses is halved until the offending lines are found, and those are read one by one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.delimited import Broken
from pipelines.sources.files import Opened, blocks

_ONE_BY_ONE = 64
# One pair of braces, at the ends, and neither true nor false (Polars reads those as 1 and 0).
_PLAIN = r"^\s*\{[^{}]*\}\s*$"


def keys_of(lines: Sequence[str]) -> list[str]:
    """The keys of the first line that is a JSON object; empty when none is."""
    for line in lines:
        parsed = _object(line)
        if isinstance(parsed, dict):
            return list(parsed)
    return []


def cells(
    opened: Opened, types: Mapping[str, pl.DataType], bound: Mapping[str, str]
) -> Iterator[tuple[pl.DataFrame, Broken]]:
    """Blocks of rows: `line`, `raw` and the bound cells; and the lines that are not such objects.

    `types` gives each cell's type: Float64, String or List(Int64). A key that is absent or null is NULL.
    """
    keys = {name: key for name, key in bound.items() if name in types}
    schema = pl.Schema({"line": pl.Int64(), "raw": pl.String()} | {name: types[name] for name in keys})
    for block in blocks(opened):
        plain = pl.col("raw").str.contains(_PLAIN) & ~pl.col("raw").str.contains(r"\b(?:true|false)\b")
        marked = block.rows.with_columns(plain.alias("_plain"))
        frames = list(_decode(marked.filter("_plain").drop("_plain"), schema, keys, block.broken))
        frames.append(_slowly(marked.filter(~pl.col("_plain")).drop("_plain"), schema, keys, block.broken))
        yield pl.concat(frames), block.broken


def _decode(rows: pl.DataFrame, schema: pl.Schema, keys: Mapping[str, str], broken: Broken) -> Iterator[pl.DataFrame]:
    if rows.height <= _ONE_BY_ONE:
        yield _slowly(rows, schema, keys, broken)
        return
    shape = pl.Struct({key: schema[name] for name, key in keys.items()})
    try:
        decoded = rows["raw"].str.json_decode(shape)
    except pl.exceptions.PolarsError:
        decoded = None
    if decoded is not None and len(decoded) == rows.height:
        unnested = decoded.struct.unnest()
        yield rows.select("line", "raw").with_columns(unnested[key].alias(name) for name, key in keys.items())
        return
    half = rows.height // 2
    yield from _decode(rows.head(half), schema, keys, broken)
    yield from _decode(rows.slice(half), schema, keys, broken)


def _slowly(rows: pl.DataFrame, schema: pl.Schema, keys: Mapping[str, str], broken: Broken) -> pl.DataFrame:
    read: list[tuple[object, ...]] = []
    for line, raw in rows.select("line", "raw").iter_rows():
        parsed = _object(raw)
        if not isinstance(parsed, dict):
            broken.append((line, parsed, raw))
            continue
        values = {name: parsed.get(key) for name, key in keys.items()}
        wrong = next((keys[name] for name, value in values.items() if not _fits(value, schema[name])), None)
        if wrong is None:
            read.append((line, raw, *(_typed(value, schema[name]) for name, value in values.items())))
        else:
            broken.append((line, f"{wrong} has the wrong type", raw))
    return pl.DataFrame(read, schema=schema, orient="row")


def _object(line: str) -> dict[str, object] | str:
    """The object on a line, or what is wrong with it."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return "not a JSON object on one line"
    return parsed if isinstance(parsed, dict) else "JSON, but not an object"


def _fits(value: object, dtype: pl.DataType) -> bool:
    if value is None:
        return True
    if dtype == pl.Float64:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    if dtype == pl.String:
        return isinstance(value, str)
    return isinstance(value, list) and all(_is_id(item) for item in value)


def _is_id(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and -(2**63) <= item < 2**63


def _typed(value: object, dtype: pl.DataType) -> object:
    return float(value) if dtype == pl.Float64 and isinstance(value, int | float) and math.isfinite(value) else value
