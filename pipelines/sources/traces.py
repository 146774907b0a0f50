"""Request traces: which layout a file has, and every one of its rows into the `request` table or rejected.

Belongs here: detection and the steps that all layouts share. Does not: any one layout (its own module), or how much
breakage a plan bears (`base.check_tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from pipelines.progress import report
from pipelines.sources import arrivals, delimited, jsonl, parquet
from pipelines.sources.azure import AZURE
from pipelines.sources.base import SourceError, SourceRead, fingerprint, rejected_rows, shown
from pipelines.sources.burstgpt import BURSTGPT
from pipelines.sources.canonical import CANONICAL
from pipelines.sources.columns import separate
from pipelines.sources.files import BLOCK_BYTES, Opened, open_source
from pipelines.sources.layout import Layout, TraceOptions
from pipelines.sources.mooncake import MOONCAKE
from warehouse.frames import conform
from warehouse.registry import table

LAYOUTS = (AZURE, BURSTGPT, MOONCAKE, CANONICAL)

Part = tuple[pl.DataFrame, delimited.Broken]


def read_trace(
    path: Path, source_file: str, format: str = "auto", options: Mapping[str, object] | None = None
) -> SourceRead:
    """A trace as `request` rows, in order of arrival.

    `source_file` is the name that rows and messages carry. `format` is `auto` or a layout's name; detection goes by
    the header (or a JSON line's keys) alone. `options` are those of `TraceOptions`.

    Raises:
        SourceError: the file cannot be read, fits no layout, or an option is wrong. Broken rows do not raise.
    """
    chosen = TraceOptions.read(source_file, options or {})
    named = _named(source_file, format)
    opened = open_source(path, source_file)
    layout, bound, types = _detect(opened, named)
    unheeded = sorted(set(options or {}) - {"spread", "seed", *layout.heeds})
    if unheeded:
        raise SourceError(
            f"{source_file}: option {unheeded[0]} means nothing to this format ({layout.title}). Remove it."
        )
    readings, notes = layout.readings(source_file, types, chosen, opened.first_lines)
    raw = parquet.RAW if opened.kind == "parquet" else None
    kept_parts, rejected_parts, broken, rows_read, seen_mib = [], [], [], 0, 0.0
    for rows, unsplit in _parts(opened, layout, bound):
        kept, rejected = separate(rows, source_file, readings, raw)
        kept_parts.append(kept)
        rejected_parts.append(rejected)
        broken += unsplit
        rows_read += rows.height + len(unsplit)
        if opened.size_bytes > BLOCK_BYTES and "raw" in rows.columns:
            seen_mib += int(rows["raw"].str.len_bytes().sum()) / 2**20
            total_mib = opened.size_bytes // 2**20
            report(f"reading {source_file} (MiB)", min(round(seen_mib), total_mib), total_mib)
    if not rows_read:
        raise SourceError(f"{source_file} has a header and no rows. Name the file that holds the rows.")
    kept = pl.concat(kept_parts)
    rejected = pl.concat([*rejected_parts, rejected_rows(source_file, broken)]).sort("line", maintain_order=True)
    frame, seen = _settle(kept, chosen)
    if "outcome" not in frame.columns:
        frame = frame.with_columns(pl.lit("unknown").alias("outcome"))
    note = parquet.note_of(opened) if opened.kind == "parquet" else ""
    return SourceRead(
        source_file=source_file,
        format=layout.name,
        frame=conform(table("request"), frame.with_columns(pl.lit(source_file).alias("source_file"))),
        rejected=rejected,
        rows_read=rows_read,
        sha256=fingerprint(opened.sha256, layout.name, options or {}),
        size_bytes=opened.size_bytes,
        detail="; ".join(filter(None, (note, layout.title, *notes, *seen))),
    )


def _named(source_file: str, format: str) -> tuple[Layout, ...]:
    if format == "auto":
        return LAYOUTS
    named = tuple(layout for layout in LAYOUTS if layout.name == format)
    if not named:
        names = ", ".join(layout.name for layout in LAYOUTS)
        raise SourceError(f"{source_file}: no trace format is called {shown(format)}. Use auto, {names}.")
    return named


def _detect(opened: Opened, layouts: Sequence[Layout]) -> tuple[Layout, dict[str, str], dict[str, pl.DataType]]:
    """The layout whose columns the file has, which column stands for which of its cells, and the cells' types."""
    is_json = bool(opened.first_lines) and opened.first_lines[0].lstrip().startswith("{")
    if opened.kind == "parquet":
        schema = parquet.schema_of(opened)
        header = list(schema)
    elif is_json:
        header = jsonl.keys_of(opened.first_lines)
    else:
        header = delimited.header_of(opened.first_lines[0])
    for layout in layouts:
        if opened.kind == "text" and is_json != (layout.cell_types is not None):
            continue
        bound = layout.bind(header)
        if bound is None:
            continue
        if opened.kind == "parquet":
            types = {name: schema[column] for name, column in bound.items()}
            parquet.refuse_types(opened, types)
            return layout, bound, types
        return layout, bound, {name: (layout.cell_types or {}).get(name, pl.String()) for name in bound}
    expected = "; ".join(layout.expected for layout in layouts)
    found = shown(", ".join(header) if header else "".join(opened.first_lines[:1]), 160)
    what = "keys on its first lines" if is_json else "columns" if opened.kind == "parquet" else "header on line 1"
    raise SourceError(
        f"{opened.name}: no trace format fits the {what}. Found {found}. Expected, in any order: "
        f"{expected}. {_hint(header)}"
    )


def _hint(header: Sequence[str]) -> str:
    """What to do about a header that fits nothing."""
    if len(header) == 1 and header[0].startswith("["):
        return "Write one JSON object a line, not one array."
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(header) == 1 and separator in header[0]:
            return f"It is separated by {name}: save it with commas."
    names = [column.lower() for column in header]
    twice = sorted({column for column in header if names.count(column.lower()) > 1})
    if twice:
        return f"Column {shown(twice[0], 30)} stands twice: remove one."
    return "Rename the columns, or name the file's format."


def _parts(opened: Opened, layout: Layout, bound: Mapping[str, str]) -> Iterator[Part]:
    if opened.kind == "parquet":
        yield parquet.cells(opened, bound), []
    elif layout.cell_types is not None:
        yield from jsonl.cells(opened, layout.cell_types, bound)
    else:
        yield from delimited.cells(opened, bound)


def _settle(kept: pl.DataFrame, options: TraceOptions) -> tuple[pl.DataFrame, list[str]]:
    """Kept rows in order of arrival, spread if that was asked for, and what there is to say about their times."""
    notes = []
    if arrivals.NAIVE in kept.columns:
        naive = int(kept[arrivals.NAIVE].sum())
        kept = kept.drop(arrivals.NAIVE)
        if not kept.height:
            return kept, []
        if naive:
            which = "times" if naive == kept.height else f"{naive:,} of {kept.height:,} times"
            notes.append(f"{which} without a zone, taken as {options.timezone}")
        else:
            notes.append("times with their zone, turned to UTC")
    frame, order = arrivals.in_order(kept)
    notes.append(order)
    lattice = arrivals.grid(frame)
    if lattice is None:
        return frame, notes
    distinct, step_s = lattice
    notes.append(f"arrivals on a grid: {distinct:,} distinct times for {frame.height:,} rows, step {step_s:g} s")
    if options.spread == "uniform":
        frame = arrivals.spread(frame, step_s, options.seed)
        notes.append(f"each spread uniformly over its step (seed {options.seed})")
    else:
        notes.append("kept as they are (spread: none)")
    return frame, notes
