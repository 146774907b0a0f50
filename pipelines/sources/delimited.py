"""Delimited text into cells: bound by header, true line numbers, and every row either whole or rejected.

Belongs here: splitting lines. Does not: what a cell means. A row is one line; a quoted cell may hold commas, not line
ends, since a line number would then no longer name a row.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import polars as pl
from polars import selectors

from pipelines.sources.files import Block, Opened, blocks

Broken = list[tuple[int, str, str]]


class Cells(NamedTuple):
    """A block of cells, and its lines that could not be split.

    With `by_text`, the numbers among the cells were read as such and no line was kept: good for rows that all are
    sound. It reads the block anew, with `raw` and every cell as text.
    """

    rows: pl.DataFrame
    broken: Broken
    by_text: Callable[[], Cells] | None = None


def header_of(line: str) -> list[str]:
    """The column names of a header line; empty when it is not one."""
    cells = _quoted_cells(line)
    return [cell.strip() for cell in cells] if cells is not None else []


def cells(
    opened: Opened, bound: Mapping[str, str], numbers: Collection[str] = (), times: Collection[str] = ()
) -> Iterator[Cells]:
    """Blocks of rows: `line`, `raw` and the bound cells as trimmed text; and the lines that could not be split.

    `bound` maps a cell's name to the file's own column. The header is the first line that is not blank. Where a block
    allows it, cells in `numbers` come as numbers, those in `times` untrimmed, and `raw` is left out.
    """
    header = header_of(opened.first_lines[0])
    wanted = {name: header.index(column.strip()) for name, column in bound.items()}
    headed = False
    for block in blocks(opened):
        if not headed:
            headed = bool(block.content.strip())
            block = block.without_header()  # noqa: PLW2901 - blank lines and the header are no rows
        by_text = partial(_by_text, block, len(header), wanted)
        typed = _alike(block, len(header), wanted, numbers, times) if numbers and block.is_simple else None
        yield by_text() if typed is None else Cells(_numbered(block, typed), [], by_text)


def _numbered(block: Block, cells: pl.DataFrame) -> pl.DataFrame:
    lines = pl.int_range(block.first, block.first + cells.height, dtype=pl.Int64, eager=True)
    return cells.insert_column(0, lines.alias("line"))


def _by_text(block: Block, width: int, wanted: Mapping[str, int]) -> Cells:
    alike = _alike(block, width, wanted) if block.is_plain else None
    if alike is not None:
        return Cells(block.rows.hstack(alike), block.broken)
    return _split(block.rows, width, wanted, block.broken)


def _alike(
    block: Block, width: int, wanted: Mapping[str, int], numbers: Collection[str] = (), times: Collection[str] = ()
) -> pl.DataFrame | None:
    """Cells of lines without a quote that all have the header's width, all at once; None where one has not."""
    content = block.content
    if b'"' in content or block.count(b",") != block.ends * (width - 1):
        return None
    schema = {str(at): pl.String() for at in range(width)} | {str(wanted[name]): pl.Float64() for name in numbers}
    try:
        cells = pl.read_csv(content, has_header=False, quote_char=None, schema=schema, empty_string_is_null=False)
    except (pl.exceptions.PolarsError, OSError):  # OSError: bytes that begin as a packed stream does
        return None
    if cells.height != block.ends:
        return None
    chosen = cells.select(pl.col(str(at)).alias(name) for name, at in wanted.items())
    if b" " in content or b"\t" in content:
        chosen = chosen.with_columns((selectors.string() - selectors.by_name(*times)).str.strip_chars())
    return chosen.rechunk()


def _split(rows: pl.DataFrame, width: int, wanted: Mapping[str, int], unread: Broken) -> Cells:
    broken = list(unread)
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
    return Cells(whole, broken)


def _quoted_cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True))
    except (csv.Error, StopIteration):
        return None
