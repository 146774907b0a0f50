"""Delimited text into cells: bound by header, true line numbers, and every row either whole or rejected.

Belongs here: splitting lines. Does not: what a cell means. A row is one line; a quoted cell may hold commas, not line
ends, since a line number would then no longer name a row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping

import polars as pl

from pipelines.sources.files import Opened, blocks

Broken = list[tuple[int, str, str]]


def header_of(line: str) -> list[str]:
    """The column names of a header line; empty when it is not one."""
    cells = _quoted_cells(line)
    return [cell.strip() for cell in cells] if cells is not None else []


def cells(opened: Opened, bound: Mapping[str, str]) -> Iterator[tuple[pl.DataFrame, Broken]]:
    """Blocks of rows: `line`, `raw` and the bound cells as trimmed text; and the lines that could not be split.

    `bound` maps a cell's name to the file's own column. The header is the first line that is not blank.
    """
    header = header_of(opened.first_lines[0])
    wanted = {name: header.index(column.strip()) for name, column in bound.items()}
    first = True
    for block in blocks(opened):
        rows, plain = block.rows, block.plain
        if first and rows.height:
            rows, plain, first = rows.slice(1), plain.partition(b"\n")[2], False
        alike = _split_alike(rows, plain, len(header), wanted) if plain else None
        yield (alike, block.broken) if alike is not None else _split(rows, len(header), wanted, block.broken)


def _split_alike(rows: pl.DataFrame, plain: bytes, width: int, wanted: Mapping[str, int]) -> pl.DataFrame | None:
    """Rows without a quote that all have the header's width, all at once; None where one has not."""
    if b'"' in plain or plain.count(b",") != rows.height * (width - 1):
        return None
    schema = {str(at): pl.String for at in range(width)}
    try:
        cells = pl.read_csv(plain, has_header=False, quote_char=None, schema=schema, empty_string_is_null=False)
    except (pl.exceptions.PolarsError, OSError):  # OSError: bytes that begin as a packed stream does
        return None
    if cells.height != rows.height:
        return None
    chosen = cells.select(pl.col(str(at)).alias(name) for name, at in wanted.items())
    if b" " in plain or b"\t" in plain:
        chosen = chosen.select(pl.all().str.strip_chars())
    return rows.hstack(chosen)


def _split(rows: pl.DataFrame, width: int, wanted: Mapping[str, int], broken: Broken) -> tuple[pl.DataFrame, Broken]:
    quoted = pl.col("raw").str.contains('"', literal=True)
    found = pl.col("raw").str.count_matches(",", literal=True) + 1
    marked = rows.with_columns(quoted.alias("_quoted"), found.alias("_found"))
    even = marked.filter(~pl.col("_quoted") & (pl.col("_found") == width))
    parts = even.select(
        "line",
        "raw",
        pl.col("raw").str.split_exact(",", width - 1).struct.rename_fields(list(map(str, range(width)))).alias("_"),
    ).unnest("_")
    whole = parts.select("line", "raw", *(pl.col(str(at)).str.strip_chars().alias(name) for name, at in wanted.items()))
    for line, raw, found_here in (
        marked.filter(~pl.col("_quoted") & (pl.col("_found") != width)).select("line", "raw", "_found").iter_rows()
    ):
        broken.append((line, f"{found_here} fields, the header has {width}", raw))
    rescued: list[tuple[int, str, *tuple[str, ...]]] = []
    for line, raw in marked.filter("_quoted").select("line", "raw").iter_rows():
        parsed = _quoted_cells(raw)
        if parsed is None:
            broken.append((line, "a quote is not closed", raw))
        elif len(parsed) != width:
            broken.append((line, f"{len(parsed)} fields, the header has {width}", raw))
        else:
            rescued.append((line, raw, *(parsed[at].strip() for at in wanted.values())))
    if rescued:
        whole = pl.concat([whole, pl.DataFrame(rescued, schema=whole.schema, orient="row")])
    return whole, broken


def _quoted_cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration):
        return None
