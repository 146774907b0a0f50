"""Request traces: which layout a file has, and every one of its rows into the `request` table or rejected.

Belongs here: detection and the steps that all layouts share. Does not: any one layout (its own module), or how much
breakage a plan bears (`base.check_tolerance`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from pipelines.progress import report
from pipelines.sources import arrivals, delimited, jsonl, outcome, parquet, servegen
from pipelines.sources.base import REJECTED_SCHEMA, SourceError, SourceRead, fingerprint, rejected_rows, shown
from pipelines.sources.canonical import FLAGS
from pipelines.sources.columns import Reading, all_sound, number_cells, separate, time_cells
from pipelines.sources.delimited import Cells
from pipelines.sources.files import Opened, open_source
from pipelines.sources.formats import LAYOUTS
from pipelines.sources.layout import Layout, Prepare, TraceOptions
from warehouse.frames import conform
from warehouse.registry import Table, table

SERVEGEN = "servegen"
"""The one format that is no layout: a folder that requests are drawn from."""
SETTLED = ("line", "arrival_at", "isl_tokens", "osl_tokens", "outcome", "replayable", "censored")
"""Columns of `request` that are looked at over a whole file."""
_PRIVATE_CHARACTERS = 60
"""Of a line that may hold a prompt and cannot be split, this much is kept: its id, mostly."""
_SAMPLED = 200
"""Objects of a JSON document that detection looks at."""


class Part(NamedTuple):
    """A stretch of a source: `kept` in those columns of `request` it has, `rejected` in those of `rejected_row`."""

    kept: pl.DataFrame
    rejected: pl.DataFrame

    @property
    def rows_read(self) -> int:
        """Rows in = rows kept + rows rejected."""
        return self.kept.height + self.rejected.height


@dataclass(slots=True)
class TraceStream:
    """A trace whose format is known, to be read part by part, once, in the file's order.

    Nothing is sorted, spread or judged over the whole file: `kept` is as the source has it. `notes` say what was
    detected or declared, completely so when the last part was taken. `columns` are those of `request` that the source,
    or what is done with all of it, has a value for.
    """

    source_file: str
    format: str
    sha256: str
    size_bytes: int
    options: TraceOptions
    columns: frozenset[str]
    _cut: Callable[[list[str]], Iterator[Part]]
    notes: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[Part]:
        """The parts; raises SourceError where a file turns out to be cut short or damaged."""
        return self._cut(self.notes)


def stream_trace(
    path: Path, source_file: str, format: str = "auto", options: Mapping[str, object] | None = None
) -> TraceStream:
    """A trace's format, found or named, and its rows as a stream: one block of the file in memory at a time.

    `source_file` is the name that rows and messages carry. `format` is `auto` or a layout's name; detection goes by
    the header (or a JSON object's keys) alone. `options` are those of `TraceOptions`.

    Raises:
        SourceError: the file cannot be read, fits no layout, or an option is wrong. Broken rows do not raise.
    """
    given = options or {}
    chosen = TraceOptions.read(source_file, given)
    chunks = servegen.chunk_traces(path)
    if format == SERVEGEN or (chunks and format == "auto"):
        return _generated(chunks, source_file, given, chosen)
    named = _named(source_file, "mapped" if chosen.columns and format == "auto" else format)
    opened = open_source(path, source_file)
    values = jsonl.document(opened) if opened.kind == "text" and jsonl.is_document(opened.first_lines) else None
    layout, bound, types = _detect(opened, named, chosen, values)
    _refuse_unheeded(source_file, given, layout.heeds, layout.title)
    readings, said = layout.readings(source_file, types, chosen, opened.first_lines)
    note = parquet.note_of(opened) if opened.kind == "parquet" else ""

    columns = _columns(chosen, (reading.column for reading in readings))
    held = _holding(columns)

    def cut(notes: list[str]) -> Iterator[Part]:
        naive = kept_rows = rows_read = 0
        zoned = any(reading.column == arrivals.NAIVE for reading in readings)
        raw = parquet.RAW if opened.kind == "parquet" else None
        if layout.private or layout.records:
            raw = pl.struct(*bound).struct.json_encode()
        prepare = layout.prepare(chosen) if layout.prepare else None
        # What is prepared must not be so twice, as a block that is read by text after all would be.
        numbers = set[str]() if prepare else number_cells(readings) & set(bound)
        times = time_cells(readings) & set(bound)
        for cells in _cells(opened, layout, bound, values, numbers, times):
            kept, rejected, unsplit = _read(cells, source_file, readings, raw, prepare)
            if zoned:
                naive += int(kept[arrivals.NAIVE].sum())
            kept = kept.drop(name for name in kept.columns if name.startswith("_"))
            if unsplit:
                most = _PRIVATE_CHARACTERS if layout.private else None
                unread = [(line, reason, text[:most]) for line, reason, text in unsplit]
                rejected = pl.concat([rejected, rejected_rows(source_file, unread)]).sort("line", maintain_order=True)
            part = Part(conform(held, outcome.classified(kept)), rejected)
            kept_rows += kept.height
            rows_read += part.rows_read
            yield part
        if not rows_read:
            raise SourceError(f"{source_file} has a header and no rows. Name the file that holds the rows.")
        if zoned and kept_rows:
            notes.append(_zone_note(naive, kept_rows, chosen.timezone))

    return TraceStream(
        source_file,
        layout.name,
        fingerprint(opened.sha256, layout.name, given),
        opened.size_bytes,
        chosen,
        columns,
        cut,
        [*filter(None, (note, layout.title, *said))],
    )


def read_trace(
    path: Path, source_file: str, format: str = "auto", options: Mapping[str, object] | None = None
) -> SourceRead:
    """A whole trace as `request` rows, in order of arrival: `stream_trace`, then order, grid, spread and caps.

    Raises:
        SourceError: as `stream_trace`.
    """
    stream = stream_trace(path, source_file, format, options)
    parts = list(stream.parts())
    kept = pl.concat([part.kept for part in parts]).with_columns(pl.lit(source_file).alias("source_file"))
    kept = conform(table("request"), kept)
    rejected = pl.concat([part.rejected for part in parts]).sort("line", maintain_order=True)
    frame, seen = settle(kept, stream.options)
    return SourceRead(
        source_file=source_file,
        format=stream.format,
        frame=frame,
        rejected=rejected,
        rows_read=kept.height + rejected.height,
        sha256=stream.sha256,
        size_bytes=stream.size_bytes,
        detail="; ".join((*stream.notes, *seen)),
    )


def _generated(
    chunks: Sequence[Path], source_file: str, given: Mapping[str, object], options: TraceOptions
) -> TraceStream:
    """ServeGen's chunks as a stream, one client a part."""
    _refuse_unheeded(source_file, given, ("start_at", "duration_s", "rate_factor"), "ServeGen chunks")
    if not chunks:
        raise SourceError(f"{source_file} holds no chunk-N-trace.csv. Name the folder that holds ServeGen's chunks.")
    sha256, size_bytes = servegen.fingerprint_of(chunks, source_file)
    columns = _columns(options, ("multimodal", "tenant"))
    held = _holding(columns)

    def cut(_: list[str]) -> Iterator[Part]:
        line = 1
        for done, client in enumerate(servegen.clients(chunks, source_file), 1):
            rows, broken = servegen.requests(client, options, line)
            line += rows.height
            yield Part(conform(held, outcome.classified(rows)), rejected_rows(source_file, broken))
            report(f"drawing {source_file} (clients)", done, len(chunks))
        if line == 1:
            raise SourceError(f"{source_file}: its clients send no request in that time. Set a longer duration_s.")

    told = [
        f"ServeGen: synthetic, drawn from {len(chunks):,} clients (seed {options.seed})",
        f"windows of {servegen.WINDOW_S:g} s from {options.start_at}",
        f"{options.duration_s:g} s of it" if options.duration_s else "all of it",
        *([f"rates x {options.rate_factor:g} (declared)"] if options.rate_factor != 1 else []),
        "lines count requests, by client",
    ]
    fingerprinted = fingerprint(sha256, SERVEGEN, given)
    return TraceStream(source_file, SERVEGEN, fingerprinted, size_bytes, options, columns, cut, told)


def _columns(options: TraceOptions, read: Iterable[str]) -> frozenset[str]:
    spread = ["written_at"] if options.spread == "uniform" else []
    return frozenset(name for name in (*SETTLED, *spread, *read) if not name.startswith("_"))


def _holding(columns: Collection[str]) -> Table:
    """Some columns of `request` as they are stored, words as an enumeration."""
    request = table("request")
    held = (column for column in request.columns if column.name in columns)
    stored = (replace(column, type="ENUM") if column.allowed else column for column in held)
    return replace(request, columns=tuple(stored))


def _refuse_unheeded(source_file: str, given: Mapping[str, object], heeds: Sequence[str], title: str) -> None:
    unheeded = sorted(set(given) - {"spread", "seed", *heeds})
    if unheeded:
        raise SourceError(f"{source_file}: option {unheeded[0]} means nothing to this format ({title}). Remove it.")


def _named(source_file: str, format: str) -> tuple[Layout, ...]:
    if format == "auto":
        return LAYOUTS
    named = tuple(layout for layout in LAYOUTS if layout.name == format)
    if not named:
        names = ", ".join((*(layout.name for layout in LAYOUTS), SERVEGEN))
        raise SourceError(f"{source_file}: no trace format is called {shown(format)}. Use auto, {names}.")
    return named


def _detect(
    opened: Opened, layouts: Sequence[Layout], options: TraceOptions, values: Sequence[object] | None
) -> tuple[Layout, dict[str, str], dict[str, pl.DataType]]:
    """The layout whose columns the file has, which column stands for which of its cells, and the cells' types."""
    container, header, objects = _shape(opened, values)
    for layout in layouts:
        if container not in layout.containers or (layout.by_name and len(layouts) > 1):
            continue
        bound = _bind(layout, opened.name, header, objects, options, named=len(layouts) == 1)
        if bound is None:
            continue
        if container == "parquet":
            types = {name: parquet.schema_of(opened)[column] for name, column in bound.items()}
            parquet.refuse_types(opened, types, FLAGS, layout.loose)
            return layout, bound, types
        given = layout.cell_types if container == "json" else {}
        return layout, bound, {name: given.get(name, pl.String()) for name in bound}
    fitting = [layout for layout in layouts if container in layout.containers and not layout.by_name] or layouts
    expected = "; ".join(layout.expected for layout in fitting)
    found = shown(", ".join(header) if header else "".join(opened.first_lines[:1]), 160)
    what = {"json": "keys of its first object", "parquet": "columns", "csv": "header on line 1"}[container]
    raise SourceError(
        f"{opened.name}: no trace format fits the {what}. Found {found}. Expected, in any order: "
        f"{expected}. {_hint(header, opened.first_lines)}"
    )


def _shape(
    opened: Opened, values: Sequence[object] | None
) -> tuple[Literal["csv", "json", "parquet"], list[str], list[Mapping[str, object]]]:
    """What the rows are written in, the columns (or keys of the first object), and the first objects of JSON."""
    if opened.kind == "parquet":
        return "parquet", list(parquet.schema_of(opened)), []
    if values is not None or opened.first_lines[0].lstrip().startswith("{"):
        objects = jsonl.first_objects(opened.first_lines)
        if values is not None:
            objects = [value for value in values[:_SAMPLED] if isinstance(value, dict)]
        return "json", list(objects[0]) if objects else [], objects
    return "csv", delimited.header_of(opened.first_lines[0]), []


def _bind(
    layout: Layout,
    source_file: str,
    header: Sequence[str],
    objects: Sequence[Mapping[str, object]],
    options: TraceOptions,
    *,
    named: bool,
) -> dict[str, str] | None:
    """The layout's binding to the file; a format that was named need not be recognised as well."""
    if layout.by_name:
        keys = {*header, *(key for value in objects for key in value)}
        return layout.mapped(source_file, keys, options.columns, nested=bool(objects))
    if layout.recognises is not None:
        there = bool(objects) and (layout.records is not None or layout.bind(header) is not None)
        return {name: name for name in layout.columns} if there and (named or layout.recognises(objects)) else None
    return layout.bind(header)


def _hint(header: Sequence[str], lines: Sequence[str]) -> str:
    """What to do about a header that fits nothing."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(header) == 1 and separator in header[0]:
            return f"It is separated by {name}: save it with commas."
    if lines and "\r" in lines[0]:
        return "Its lines end in carriage returns alone: save it with line feeds."
    names = [column.lower() for column in header]
    twice = sorted({column for column in header if names.count(column.lower()) > 1})
    if twice:
        return f"Column {shown(twice[0], 30)} stands twice: remove one."
    return "Name its columns (format mapped), or rename them."


def _cells(
    opened: Opened,
    layout: Layout,
    bound: Mapping[str, str],
    values: Sequence[object] | None,
    numbers: Collection[str],
    times: Collection[str],
) -> Iterator[Cells]:
    if opened.kind == "parquet":
        yield from (Cells(rows, []) for rows in parquet.cells(opened, bound))
    elif values is not None:
        yield from (Cells(*read) for read in jsonl.of_document(values, layout, bound))
    elif opened.first_lines[0].lstrip().startswith("{"):
        yield from (Cells(*read) for read in jsonl.cells(opened, layout, bound))
    else:
        yield from delimited.cells(opened, bound, numbers, times)


def _read(
    cells: Cells, source_file: str, readings: list[Reading], raw: pl.Expr | None, prepare: Prepare | None
) -> tuple[pl.DataFrame, pl.DataFrame, delimited.Broken]:
    """Rows kept, rows rejected, lines that could not be split: of a block's numbers if all are sound, else its text."""
    if cells.by_text is not None:
        sound = all_sound(cells.rows, readings)
        if sound is not None:
            return sound, pl.DataFrame(schema=REJECTED_SCHEMA), []
        cells = cells.by_text()
    rows = prepare(cells.rows) if prepare else cells.rows
    return *separate(rows, source_file, readings, raw), cells.broken


def _zone_note(naive: int, kept: int, zone: str) -> str:
    if not naive:
        return "times with their zone, turned to UTC"
    which = "times" if naive == kept else f"{naive:,} of {kept:,} times"
    return f"{which} without a zone, taken as {zone}"


def settle(kept: pl.DataFrame, options: TraceOptions) -> tuple[pl.DataFrame, list[str]]:
    """Kept rows in order of arrival, spread if that was asked for, caps marked; and what there is to say of them.

    `kept` has at least the columns `SETTLED`; the steps are of the whole file.
    """
    if not kept.height:
        return kept, []
    frame, order = arrivals.in_order(kept)
    frame, caps = outcome.capped(frame)
    notes = [order, *caps, *outcome.told(frame)]
    lattice = arrivals.grid(frame)
    if lattice is None:
        return frame, [*notes, *([arrivals.NO_GRID] if options.spread == "uniform" else [])]
    notes += arrivals.grid_notes(frame.height, lattice, options)
    if options.spread == "uniform":
        frame = arrivals.spread(frame.with_columns(written_at=pl.col("arrival_at")), lattice[1], options.seed)
    return frame, notes
