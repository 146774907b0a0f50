"""JSON into cells: one object a line, or one document; typed as the layout asks, every record either read or rejected.

Belongs here: decoding. Does not: what a key means. Flat objects of numbers are decoded by Polars a block at a time; a
block that it refuses is halved until the offending lines are found, and those are read one by one, as nested objects
are from the start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
    table = _Table(layout, bound)
    number = 0
    for value in values:
        for record in table.records(value):
            number += 1
            table.take(number, record, None if layout.records else json.dumps(value, default=str))
            if number % _SLICE == 0:
                yield table.cut()
    yield table.cut()


def cells(opened: Opened, layout: Layout, bound: Mapping[str, str]) -> Iterator[tuple[pl.DataFrame, Broken]]:
    """Blocks of rows: `line`, `raw` and the bound cells; and the lines that are not such objects.

    Cells are text unless the layout types them; a key that is absent or null is NULL. Of several records of one object,
    the first carries the line as `raw`.
    """
    table = _Table(layout, bound)
    quick = layout.records is None and set(bound) <= set(layout.cell_types)
    number = 0
    for block in blocks(opened, line_bytes=BATCH_BYTES if layout.numbered else LINE_BYTES):
        if quick:
            plain = pl.col("raw").str.contains(_PLAIN) & ~pl.col("raw").str.contains(r"\b(?:true|false)\b")
            marked = block.rows.with_columns(plain.alias("_plain"))
            frames = list(_decode(marked.filter("_plain").drop("_plain"), table))
            table.take_lines(marked.filter(~pl.col("_plain")))
            slow, broken = table.cut()
            yield pl.concat([*frames, slow]), block.broken + broken
        elif not layout.numbered:
            table.take_lines(block.rows)
            rows, broken = table.cut()
            yield rows, block.broken + broken
        else:
            unread = list(block.broken)
            for line, raw in block.rows.select("line", "raw").iter_rows():
                parsed = _object(raw)
                if isinstance(parsed, str):
                    unread.append((line, parsed, raw))
                    continue
                for record in table.records(parsed):
                    number += 1
                    table.take(number, record, raw)
                    raw = None  # noqa: PLW2901 - the first record alone carries it
            for line, reason, raw in unread:
                number += 1
                table.broken.append((number, f"line {line} of the file: {reason}", raw))
            yield table.cut()


class _Table:
    """Rows of cells as they are decoded one by one, and the records that could not be."""

    def __init__(self, layout: Layout, bound: Mapping[str, str]) -> None:
        self.layout = layout
        self.bound = bound
        types = {name: layout.cell_types.get(name, pl.String()) for name in bound}
        self.schema = pl.Schema({"line": pl.Int64(), "raw": pl.String()} | types)
        self._readers = [(key, _READERS[type(types[name])]) for name, key in bound.items()]
        self._rows: list[tuple[object, ...]] = []
        self.broken: Broken = []

    def records(self, value: object) -> Records:
        """The records of one JSON value."""
        if not isinstance(value, dict):
            return ["JSON, but not an object"]
        return [value] if self.layout.records is None else self.layout.records(value)

    def take(self, number: int, record: Mapping[str, object] | str, raw: str | None) -> None:
        """Put a record among the rows, or among the broken ones with the reason."""
        if isinstance(record, str):
            self.broken.append((number, record, "" if self.layout.numbered else _clean(raw or "")))
            return
        cells: list[object] = [number, raw]
        for key, read in self._readers:
            value = _at(record, key)
            if value is not None:
                value = read(value)
                if value is None:
                    shown = json.dumps(record, default=str)
                    self.broken.append((number, f"{key} has the wrong type", _clean(shown)))
                    return
            cells.append(value)
        self._rows.append(tuple(cells))

    def take_lines(self, rows: pl.DataFrame) -> None:
        """Read lines one by one."""
        for line, raw in rows.select("line", "raw").iter_rows():
            parsed = _object(raw)
            if isinstance(parsed, str):
                self.broken.append((line, parsed, raw))
                continue
            for record in self.records(parsed):
                self.take(line, record, raw)

    def cut(self) -> tuple[pl.DataFrame, Broken]:
        """What was taken since the last cut."""
        rows, broken = pl.DataFrame(self._rows, schema=self.schema, orient="row"), self.broken
        self._rows, self.broken = [], []
        return rows, broken


def _at(record: Mapping[str, object], key: str) -> object:
    """The value under a key, or under a path of keys with dots between where there is no such key."""
    if key in record or "." not in key:
        return record.get(key)
    value: object = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _decode(rows: pl.DataFrame, table: _Table) -> Iterator[pl.DataFrame]:
    """Rows of plain objects, decoded together where Polars takes them; the others are left to `table`."""
    if rows.height <= _ONE_BY_ONE:
        table.take_lines(rows)
        return
    shape = pl.Struct({key: table.schema[name] for name, key in table.bound.items()})
    try:
        decoded = rows["raw"].str.json_decode(shape)
    except pl.exceptions.PolarsError:
        decoded = None
    if decoded is not None and len(decoded) == rows.height:
        unnested = decoded.struct.unnest()
        yield rows.select("line", "raw").with_columns(unnested[key].alias(name) for name, key in table.bound.items())
        return
    half = rows.height // 2
    yield from _decode(rows.head(half), table)
    yield from _decode(rows.slice(half), table)


def _object(line: str) -> dict[str, object] | str:
    """The object on a line, or what is wrong with it."""
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        return "not a JSON object on one line"
    return parsed if isinstance(parsed, dict) else "JSON, but not an object"


def _number(value: object) -> float | None:
    if type(value) is int or type(value) is float:
        return float(value) if abs(value) < 1e300 or value != value else None  # noqa: PLR0124 - NaN
    return None


def _ids(value: object) -> list[int] | None:
    """Whole numbers of 64 bits; unsigned ones past 2**63 are taken for their signed twins, which are as distinct."""
    if not isinstance(value, list) or not all(type(item) is int and -(2**63) <= item < 2**64 for item in value):
        return None
    return [item - 2**64 if item >= 2**63 else item for item in value]


def _text(value: object) -> str:
    """Text as it stands, numbers and flags in JSON's spelling, the rest as JSON."""
    if type(value) is str:
        return _clean(value)
    if type(value) is int or type(value) is float:
        return repr(value)
    return _clean(json.dumps(value))


_READERS: Mapping[type[pl.DataType], Callable[[Any], object]] = {pl.String: _text, pl.Float64: _number, pl.List: _ids}
"""How a JSON value becomes a cell of a type; None where it cannot."""


def _clean(text: str) -> str:
    """Text without NUL and lone surrogates, which neither Polars nor DuckDB holds."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "␀")
