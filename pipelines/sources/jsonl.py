"""JSON into cells: one object a line, or one document; typed as the layout asks, every record either read or rejected.

Belongs here: decoding. Does not: what a key means. Flat objects of numbers are decoded by Polars a block at a time; a
block that it refuses is halved until the offending lines are found, and those are read one by one, as nested objects
are from the start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.base import SourceError
from pipelines.sources.delimited import Broken
from pipelines.sources.files import LINE_BYTES, Opened, blocks, read_all
from pipelines.sources.layout import Layout, Records

DOCUMENT_BYTES = 512 * 2**20
"""A document is held whole; a larger one is refused."""

BATCH_BYTES = 64 * 2**20
"""The longest line that holds many records, as a collector writes its batches of spans."""

_ONE_BY_ONE = 64
_SLICE = 50_000
# One pair of braces, at the ends, and neither true nor false (Polars reads those as 1 and 0).
_PLAIN = r"^\s*\{[^{}]*\}\s*$"


def first_objects(lines: Sequence[str]) -> list[Mapping[str, object]]:
    """Those of the first lines that are JSON objects."""
    return [parsed for parsed in map(_object, lines) if isinstance(parsed, dict)]


def is_document(lines: Sequence[str]) -> bool:
    """Whether the first lines begin one JSON value over many lines, or one too long for its head to hold."""
    first = lines[0].strip() if lines else ""
    if first.startswith("["):
        return not first[1:].lstrip().startswith(("[", "<"))
    if not first.startswith("{") or isinstance(_object(first), dict):
        return False
    return len(lines) == 1 or not any(
        line.lstrip().startswith("{") and isinstance(_object(line), dict) for line in lines
    )


def document(opened: Opened) -> list[object]:
    """The values of a file that is one JSON value: the items of a list, or the one object.

    Raises:
        SourceError: it is cut short, not JSON, or larger than 512 MiB.
    """
    most = f"{DOCUMENT_BYTES // 2**20} MiB"
    if opened.size_bytes > DOCUMENT_BYTES:
        size = f"{opened.size_bytes / 2**20:,.0f} MiB"
        raise SourceError(f"{opened.name} is one JSON value of {size}, above {most}. Write one JSON object a line.")
    try:
        value = json.loads(read_all(opened).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise SourceError(f"{opened.name} is not UTF-8 (byte {error.start + 1}). Save it as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{opened.name}, line {error.lineno} is not JSON: {error.msg} (column {error.colno}). The file is cut "
            "short or damaged, or it is not one JSON object a line; copy it again."
        ) from None
    except (ValueError, RecursionError):
        what = "is JSON that cannot be held: a number too long, or nested too deep"
        raise SourceError(f"{opened.name} {what}. Mend it.") from None
    return value if isinstance(value, list) else [value]


def of_document(
    values: Sequence[object], layout: Layout, bound: Mapping[str, str]
) -> Iterator[tuple[pl.DataFrame, Broken]]:
    """Blocks of cells of a document's records, numbered from 1."""
    schema, number = _schema(layout, bound), 0
    rows: list[tuple[object, ...]] = []
    broken: Broken = []
    for value in values:
        for record in _records(value, layout):
            number += 1
            _take(number, record, _told(record, value), schema, bound, rows, broken)
            if number % _SLICE == 0:
                yield pl.DataFrame(rows, schema=schema, orient="row"), broken
                rows, broken = [], []
    yield pl.DataFrame(rows, schema=schema, orient="row"), broken


def cells(opened: Opened, layout: Layout, bound: Mapping[str, str]) -> Iterator[tuple[pl.DataFrame, Broken]]:
    """Blocks of rows: `line`, `raw` and the bound cells; and the lines that are not such objects.

    Cells are text unless the layout types them; a key that is absent or null is NULL.
    """
    schema = _schema(layout, bound)
    quick = layout.records is None and set(bound) <= set(layout.cell_types)
    number = 0
    for block in blocks(opened, line_bytes=BATCH_BYTES if layout.numbered else LINE_BYTES):
        if quick:
            plain = pl.col("raw").str.contains(_PLAIN) & ~pl.col("raw").str.contains(r"\b(?:true|false)\b")
            marked = block.rows.with_columns(plain.alias("_plain"))
            frames = list(_decode(marked.filter("_plain").drop("_plain"), schema, layout, bound, block.broken))
            frames.append(_slowly(marked.filter(~pl.col("_plain")).drop("_plain"), schema, layout, bound, block.broken))
            yield pl.concat(frames), block.broken
        elif not layout.numbered:
            yield _slowly(block.rows, schema, layout, bound, block.broken), block.broken
        else:
            rows: list[tuple[object, ...]] = []
            broken: Broken = []
            unread = [(line, reason, raw) for line, reason, raw in block.broken]
            for line, raw in block.rows.select("line", "raw").iter_rows():
                parsed = _object(raw)
                if isinstance(parsed, str):
                    unread.append((line, parsed, raw))
                    continue
                for record in _records(parsed, layout):
                    number += 1
                    _take(number, record, _told(record, parsed), schema, bound, rows, broken)
            for line, reason, raw in unread:
                number += 1
                broken.append((number, f"line {line} of the file: {reason}", raw))
            yield pl.DataFrame(rows, schema=schema, orient="row"), broken


def _schema(layout: Layout, bound: Mapping[str, str]) -> pl.Schema:
    return pl.Schema(
        {"line": pl.Int64(), "raw": pl.String()} | {name: layout.cell_types.get(name, pl.String()) for name in bound}
    )


def _records(value: object, layout: Layout) -> Records:
    if not isinstance(value, dict):
        return ["JSON, but not an object"]
    return [value] if layout.records is None else layout.records(value)


def _told(record: Mapping[str, object] | str, value: object) -> str:
    """A record as `raw` shows it: what was taken of it, or all of what was refused."""
    return json.dumps(value if isinstance(record, str) else record, default=str)


def _take(
    number: int,
    record: Mapping[str, object] | str,
    raw: str,
    schema: pl.Schema,
    bound: Mapping[str, str],
    rows: list[tuple[object, ...]],
    broken: Broken,
) -> None:
    """Put a record among the rows, or among the broken ones with the reason."""
    if isinstance(record, str):
        broken.append((number, record, _clean(raw)))
        return
    values = {name: _at(record, key) for name, key in bound.items()}
    wrong = next((bound[name] for name, value in values.items() if not _fits(value, schema[name])), None)
    if wrong is not None:
        broken.append((number, f"{wrong} has the wrong type", _clean(raw)))
        return
    rows.append((number, _clean(raw), *(_typed(value, schema[name]) for name, value in values.items())))


def _at(record: Mapping[str, object], key: str) -> object:
    """The value under a key, or under a path of keys with dots between where there is no such key."""
    if key in record or "." not in key:
        return record.get(key)
    value: object = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _decode(
    rows: pl.DataFrame, schema: pl.Schema, layout: Layout, bound: Mapping[str, str], broken: Broken
) -> Iterator[pl.DataFrame]:
    if rows.height <= _ONE_BY_ONE:
        yield _slowly(rows, schema, layout, bound, broken)
        return
    shape = pl.Struct({key: schema[name] for name, key in bound.items()})
    try:
        decoded = rows["raw"].str.json_decode(shape)
    except pl.exceptions.PolarsError:
        decoded = None
    if decoded is not None and len(decoded) == rows.height:
        unnested = decoded.struct.unnest()
        yield rows.select("line", "raw").with_columns(unnested[key].alias(name) for name, key in bound.items())
        return
    half = rows.height // 2
    yield from _decode(rows.head(half), schema, layout, bound, broken)
    yield from _decode(rows.slice(half), schema, layout, bound, broken)


def _slowly(
    rows: pl.DataFrame, schema: pl.Schema, layout: Layout, bound: Mapping[str, str], broken: Broken
) -> pl.DataFrame:
    read: list[tuple[object, ...]] = []
    for line, raw in rows.select("line", "raw").iter_rows():
        parsed = _object(raw)
        if isinstance(parsed, str):
            broken.append((line, parsed, raw))
            continue
        for record in _records(parsed, layout):
            shown = raw if layout.records is None else _told(record, parsed)
            _take(line, record, shown, schema, bound, read, broken)
    return pl.DataFrame(read, schema=schema, orient="row")


def _object(line: str) -> dict[str, object] | str:
    """The object on a line, or what is wrong with it."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return "not a JSON object on one line"
    return parsed if isinstance(parsed, dict) else "JSON, but not an object"


def _fits(value: object, dtype: pl.DataType) -> bool:
    if value is None or dtype == pl.String:
        return True
    if dtype == pl.Float64:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    return isinstance(value, list) and all(_is_id(item) for item in value)


def _is_id(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and -(2**63) <= item < 2**63


def _typed(value: object, dtype: pl.DataType) -> object:
    if dtype == pl.Float64:
        return float(value) if isinstance(value, int | float) else None
    if dtype != pl.String or value is None:
        return value
    return _clean(value if isinstance(value, str) else json.dumps(value))


def _clean(text: str) -> str:
    """Text without NUL and lone surrogates, which neither Polars nor DuckDB holds."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "␀")
