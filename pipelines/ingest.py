"""Traces into the warehouse: each file of a source streamed into `request` once, however often it is delivered.

Belongs here: which files of a source are new, changed, gone or delivered twice, and the load of one file in one
transaction. Does not: where files lie (`sources.locations`), what a row means (the readers), how DuckDB takes rows
(`warehouse.bulk`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

import duckdb
import polars as pl

from pipelines.delivered import OF_ITS_OWN, refuse_alike, refuse_by_id, statement
from pipelines.progress import report
from pipelines.sources import arrivals
from pipelines.sources.base import NOT_A_REQUEST, REJECTED_SCHEMA, SourceError, refuse_broken
from pipelines.sources.columns import MAX_TOKENS
from pipelines.sources.locations import Found, find
from pipelines.sources.outcome import NEAR, is_cap
from pipelines.sources.traces import TraceStream, stream_trace
from pipelines.workspace import TraceSpec
from warehouse.bulk import Spool, loading, remove_rows, stream_rows
from warehouse.connection import Warehouse
from warehouse.registry import table
from warehouse.requests import Place, make_place, note_span, remove_requests, stream_requests
from warehouse.write import append

REJECTED, SOURCE_FILE = table("rejected_row"), table("source_file")
_KEYED = ("model", "adapter", "tenant", "session_id")
"""Columns that a hive key of the same name fills where the file itself is silent."""
_FIRST = 3
State = Literal["read", "unchanged", "delivered twice"]


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one file of a source."""

    source_file: str
    state: State
    format: str
    rows_kept: int
    rows_rejected: int
    detail: str


def ingest_source(
    warehouse: Warehouse,
    folder: Path,
    spec: TraceSpec,
    max_rejected_share: float,
    *,
    days: Collection[date] | None = None,
    sources: Collection[str] = (),
) -> list[Ingested]:
    """Every file that `spec.source` names, into `request`, `rejected_row` and `source_file`; the caller holds the lock.

    A file whose fingerprint stands is left alone, a changed one takes the place of its rows, one with the bytes of
    another is counted once, and rows of files that are gone go too. With `days`, only the files of those days are
    looked at, and nothing is taken out. `sources` are the workspace's other sources, which may not hold the same file.

    Raises:
        SourceError: a file cannot be read, or too many of its rows are broken; what stood before then still stands.
    """
    found = find(spec.source, folder)
    known = _known(warehouse, spec.source, [file.name for file in found], sources)
    again: set[str] = set()
    if days is None:
        known, again = _without_gone(warehouse, spec.source, known, found)
    else:
        found = [file for file in found if file.day in days]
    run = _Run(warehouse, spec, max_rejected_share, known, again, alone=len(found) == 1)
    waiting, done, twice = deque(found), dict[str, Ingested](), False
    while waiting:
        file = waiting.popleft()
        if len(found) > 1:
            report(f"files of {spec.source}", len(done), len(found))
        taken = run.take(file, {other.name for other in waiting})
        if taken is None:
            waiting.append(file)
            continue
        done[file.name] = taken
        if not waiting and not twice and run.changed:
            # What a replaced file gave before may have been refused in others, also in this pass: it is theirs now.
            twice, run.again = True, _refusing(warehouse, spec.source)
            waiting.extend(file for file in found if file.name in run.again)
    if len(found) > 1:
        report(f"files of {spec.source}", len(found), len(found))
    return [done[file.name] for file in found]


class _Run:
    """One pass over a source's files: `holder` says by fingerprint which file's rows stand for these bytes.

    Files in `again` are read although they stand; `changed` are those that stood otherwise before.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        spec: TraceSpec,
        share: float,
        known: dict[str, dict[str, Any]],
        again: set[str],
        *,
        alone: bool,
    ) -> None:
        self.warehouse, self.spec, self.share, self.known, self.alone = warehouse, spec, share, known, alone
        self.holder = {row["sha256"]: name for name, row in known.items() if row["rows_read"]}
        self.again, self.changed = again, set[str]()
        self._postponed: set[str] = set()

    def take(self, file: Found, waiting: Collection[str]) -> Ingested | None:
        """Read a file, or leave it; None asks for it once more when those that wait were looked at."""
        spec, name = self.spec, file.name
        with file.local() as path:
            stream = stream_trace(path, name, spec.format, {**spec.options, "spread": spec.spread})
            twin = self.holder.get(stream.sha256)
            stood = self.known.get(name)
            stands = stood is not None and (stood["sha256"], stood["code_version"]) == (
                stream.sha256,
                version("capsheet"),
            )
            if stood is not None and stands and twin == name and name not in self.again:
                return _done(stood, "unchanged")
            if twin in waiting:
                # The other may hold other bytes by now; it does where those that wait wait for each other.
                if name not in self._postponed:
                    self._postponed.add(name)
                    return None
                twin = None
            self._postponed.clear()
            if stood is not None and not stands:
                self.changed.add(name)
            self.holder = {sha: held for sha, held in self.holder.items() if held != name}
            with self.warehouse.writer() as con:
                if twin is not None and twin != name:
                    return _done(_count_once(con, file, spec.source, stream, twin), "delivered twice")
                row = _load(con, file, spec, stream, self.share, alone=self.alone)
        self.holder[stream.sha256] = name
        return _done(row, "read")


def _done(row: Mapping[str, Any], state: State) -> Ingested:
    return Ingested(
        row["source_file"], state, row["format"], row["rows_kept"], row["rows_rejected"], row["detail"] or ""
    )


def _known(warehouse: Warehouse, source: str, names: list[str], sources: Collection[str]) -> dict[str, dict[str, Any]]:
    """What the warehouse has of this source, by file.

    Raises:
        SourceError: another source of the workspace holds one of the files.
    """
    if not warehouse.path.exists():
        return {}
    with warehouse.writer() as con:  # not a reader: tables of an older capsheet are brought up to date
        query = "SELECT * FROM source_file WHERE kind = 'trace' AND (named_by = ? OR source_file IN (SELECT unnest(?)))"
        rows = con.execute(query, [source, names]).pl().to_dicts()
    for row in rows:
        if row["named_by"] != source and row["named_by"] in sources:
            raise SourceError(
                f"{row['source_file']} is a file of two sources, {row['named_by']} and {source}: name it in one."
            )
    return {row["source_file"]: row for row in rows if row["named_by"] == source}


def _without_gone(
    warehouse: Warehouse, source: str, known: dict[str, dict[str, Any]], found: list[Found]
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Take out the rows of files that are no longer there; what is known then, and which files to read again.

    A request that a file of these gave first, and that was refused in a later one, must be read there again.
    """
    gone = sorted(set(known) - {file.name for file in found})
    if not gone:
        return known, set()
    with warehouse.writer() as con, loading(con):
        for name in gone:
            _remove(con, name)
    return {name: row for name, row in known.items() if name not in gone}, _refusing(warehouse, source)


def _remove(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Take out all that stands for a file."""
    remove_requests(con, name)
    for target in (REJECTED, SOURCE_FILE):
        remove_rows(con, target, {"source_file": name})


def _refusing(warehouse: Warehouse, source: str) -> set[str]:
    """Files of a source in which requests were refused, since another one gave them."""
    query = (
        "SELECT DISTINCT source_file FROM rejected_row JOIN source_file USING (source_file) "
        "WHERE named_by = ? AND starts_with(reason, ?)"
    )
    with warehouse.reader() as con:
        return {name for (name,) in con.execute(query, [source, OF_ITS_OWN]).fetchall()}


def _count_once(
    con: duckdb.DuckDBPyConnection, file: Found, source: str, stream: TraceStream, twin: str
) -> dict[str, Any]:
    """A file with the bytes of another: known, with no rows of its own."""
    row = _source_row(file, source, stream, _Tally(), 0, [f"same bytes as {twin}: counted there"])
    with loading(con):
        _remove(con, file.name)
        append(con, SOURCE_FILE, pl.DataFrame([row]))
    return row


@dataclass(slots=True)
class _Lengths:
    """The shortest and the longest length of a column, and how many have the longest or are just below it."""

    shortest: int = MAX_TOKENS
    longest: int = 0
    top: Counter[int] = field(default_factory=Counter)

    def take(self, lengths: pl.Series) -> None:
        if not len(lengths):
            return
        self.shortest = min(self.shortest, cast(int, lengths.min()))
        self.longest = max(self.longest, cast(int, lengths.max()))
        high = lengths.filter(lengths >= self.longest * (1 - NEAR)).value_counts()
        self.top.update(dict(high.iter_rows()))
        self.top = Counter({length: n for length, n in self.top.items() if length >= self.longest * (1 - NEAR)})

    @property
    def at_longest(self) -> int:
        """How many have the longest."""
        return self.top[self.longest]

    def cap(self, rows: int) -> int | None:
        """The longest length, where so many share it that it must be a cap."""
        near = self.top.total() - self.at_longest
        many = self.shortest < self.longest and is_cap(rows, self.longest, self.at_longest, near)
        return self.longest if many else None


@dataclass(slots=True)
class _Tally:
    """What is counted while the parts go by."""

    kept: int = 0
    rejected: int = 0
    broken: int = 0
    replayable: int = 0
    unmeasured: int = 0
    first: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECTED_SCHEMA))
    identified: bool = False
    anonymous: bool = False
    order: arrivals.Order = field(default_factory=arrivals.Order)
    outcomes: Counter[str] = field(default_factory=Counter)
    isl: _Lengths = field(default_factory=_Lengths)
    osl: _Lengths = field(default_factory=_Lengths)

    def take(self, kept: pl.DataFrame, rejected: pl.DataFrame) -> None:
        self.kept += kept.height
        self.rejected += rejected.height
        broken = rejected.filter(~pl.col("reason").str.starts_with(NOT_A_REQUEST))
        self.broken += broken.height
        self.first = pl.concat([self.first, broken.head(_FIRST)]).head(_FIRST)
        without_id = kept["request_id"].null_count() if "request_id" in kept.columns else kept.height
        self.identified |= without_id < kept.height
        self.anonymous |= without_id > 0
        self.order.take(kept["arrival_at"])
        self.outcomes.update(dict(kept["outcome"].value_counts().iter_rows()))
        self.unmeasured += int((kept["isl_tokens"].is_null() | kept["osl_tokens"].is_null()).sum())
        served = kept.select("isl_tokens", "osl_tokens").filter(kept["replayable"])
        self.replayable += served.height
        self.isl.take(served["isl_tokens"])
        self.osl.take(served["osl_tokens"])


def _load(
    con: duckdb.DuckDBPyConnection,
    file: Found,
    spec: TraceSpec,
    stream: TraceStream,
    max_rejected_share: float,
    *,
    alone: bool,
) -> dict[str, Any]:
    """One file, streamed, settled and judged in one transaction."""
    tally = _Tally()
    with loading(con):
        _remove(con, file.name)
        place = make_place(con, file.name, {*stream.columns, *(key for key in _KEYED if key in file.keys)})
        with Spool() as rejects:

            def kept() -> Iterator[pl.DataFrame]:
                for part in stream.parts():
                    tally.take(part.kept, part.rejected)
                    rejects.put(part.rejected)
                    yield _with_keys(part.kept, file.keys)

            stream_requests(con, place, kept())
            stream_rows(con, REJECTED, rejects.frames())
        note_span(con, place)
        refused, said = _refuse_delivered(con, place, file.name, spec.source, tally)
        rows_read, usable = tally.kept + tally.rejected, tally.replayable > 0 or not alone
        refuse_broken(file.name, rows_read, tally.broken, usable, tally.first, max_rejected_share)
        tally.kept, tally.rejected = tally.kept - refused, tally.rejected + refused
        notes = [*stream.notes, *_settle(con, place, stream, tally), *said]
        row = _source_row(file, spec.source, stream, tally, rows_read, notes)
        append(con, SOURCE_FILE, pl.DataFrame([row]))
    return row


def _with_keys(kept: pl.DataFrame, keys: Mapping[str, str]) -> pl.DataFrame:
    silent = [
        name for name in _KEYED if name in keys and (name not in kept.columns or kept[name].null_count() == kept.height)
    ]
    return kept.with_columns(pl.lit(keys[name]).alias(name) for name in silent) if silent else kept


def _refuse_delivered(
    con: duckdb.DuckDBPyConnection, place: Place, name: str, source: str, tally: _Tally
) -> tuple[int, list[str]]:
    """Refuse requests that another file of the source gave already; how many, and what to say of it."""
    by_id = refuse_by_id(con, place, name, source) if tally.identified else 0
    alike, notes = refuse_alike(con, place, name, source, tally.kept) if tally.anonymous else (0, [])
    return by_id + alike, [f"{by_id:,} delivered before, by their request_id"] * bool(by_id) + notes


def _settle(con: duckdb.DuckDBPyConnection, place: Place, stream: TraceStream, tally: _Tally) -> list[str]:
    """What only the whole file shows: order, caps, outcomes, and a grid of arrivals, spread if that was asked for."""
    notes = [tally.order.note]
    isl_cap, osl_cap = tally.isl.cap(tally.replayable), tally.osl.cap(tally.replayable)
    if isl_cap or osl_cap:
        values = {"file_number": place.file_number, "isl_cap": isl_cap, "osl_cap": osl_cap}
        con.execute(statement("mark_caps", place), values)
    for word, cap, lengths in (("input", isl_cap, tally.isl), ("output", osl_cap, tally.osl)):
        if cap:
            notes.append(f"{word} capped at {cap:,} tokens ({lengths.at_longest:,} requests)")
    ended = [f"{count:,} {word}" for word, count in sorted(tally.outcomes.items()) if word not in ("ok", "unknown")]
    if tally.unmeasured:
        ended.append(f"{tally.unmeasured:,} without lengths")
    if ended:
        notes.append(f"not all replayable: {', '.join(ended)}")
    spread = _spread(con, place, stream) if tally.order.may_lie_on_a_grid else []
    return notes + (spread or [arrivals.NO_GRID] * (stream.options.spread == "uniform"))


def _spread(con: duckdb.DuckDBPyConnection, place: Place, stream: TraceStream) -> list[str]:
    """The grid that arrivals lie on, if they do, and what was done about it. Takes 16 bytes of memory a row."""
    frame = con.execute(statement("arrivals", place), {"file_number": place.file_number}).pl()
    lattice = arrivals.grid(frame)
    if lattice is None:
        return []
    if stream.options.spread == "uniform":
        moved = arrivals.spread(frame, lattice[1], stream.options.seed)
        con.register("moved_arrivals", moved)
        con.execute(statement("spread", place), {"file_number": place.file_number})
        con.unregister("moved_arrivals")
    return arrivals.grid_notes(frame.height, lattice, stream.options)


def _source_row(
    file: Found, source: str, stream: TraceStream, tally: _Tally, rows_read: int, notes: list[str]
) -> dict[str, Any]:
    return {
        "source_file": file.name,
        "kind": "trace",
        "named_by": source,
        "format": stream.format,
        "sha256": stream.sha256,
        "size_bytes": stream.size_bytes,
        "rows_read": rows_read,
        "rows_kept": tally.kept,
        "rows_rejected": tally.rejected,
        "detail": "; ".join(notes),
        "code_version": version("capsheet"),
        "loaded_at": datetime.now(UTC).replace(tzinfo=None),
    }
