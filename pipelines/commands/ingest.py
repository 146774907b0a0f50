"""`capsheet ingest trace`: one source alone, read whole; what was detected in it, and every row accounted for.

Belongs here: the account that is printed. Does not: reading (`pipelines.sources`) or storing (`pipelines.ingest`).
In a workspace the rows go into its warehouse; elsewhere the source is read and nothing is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
import typer

from pipelines.commands import show
from pipelines.commands.bar import progress_bar
from pipelines.ingest import ingest_source
from pipelines.sources.base import REJECTED_SCHEMA, SourceError, expanded
from pipelines.sources.locations import Found, find, is_remote
from pipelines.sources.traces import SETTLED, settle, stream_trace
from pipelines.workspace import FILE_NAME, Place, TraceSpec
from warehouse.connection import Warehouse

SHOWN_REJECTS = 5
_WHOLE, _NUMBER = re.compile(r"-?\d{1,18}"), re.compile(r"-?\d*\.?\d+(?:[eE][-+]?\d+)?")


def trace(
    source: str, *, format: str, options: Sequence[str], columns: Sequence[str], workspace: Path, json: bool
) -> None:
    """Read the trace `source`, store it where `workspace` is one, and print the account.

    Raises:
        SourceError: it cannot be read, or an option is wrong; in a workspace also when too many rows are broken.
    """
    given: dict[str, Any] = {name: _typed(value) for name, value in map(_pair, options)}
    if columns:
        given["columns"] = dict(map(_pair, columns))
    with progress_bar(quiet=json):
        if (workspace / FILE_NAME).exists():
            account = _stored(Place(workspace), source, format, given)
        else:
            account = _looked_at(source, format, given)
    for file in account["files"]:
        file["mean_rps"] = _rate(file)
        for name in ("first_arrival_at", "last_arrival_at"):
            at = file[name]
            file[name] = at.isoformat(timespec="microseconds") + "Z" if at is not None else None
    show.as_json(account) if json else _tell(account)


def _rate(file: Mapping[str, Any]) -> float | None:
    """Requests a second from the first arrival to the last: where a wrong unit shows at once."""
    first, last = file["first_arrival_at"], file["last_arrival_at"]
    span_s = (last - first).total_seconds() if first is not None else 0.0
    return file["rows_kept"] / span_s if span_s > 0 else None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise SourceError(f"{text[:60]!r} is not NAME=VALUE. Write it as one.")
    return name, value


def _typed(value: str) -> str | int | float | bool:
    """An option as YAML would read it: true, a whole number, a number, else text."""
    if value in ("true", "false"):
        return value == "true"
    if _WHOLE.fullmatch(value):
        return int(value)
    return float(value) if _NUMBER.fullmatch(value) else value


def _looked_at(source: str, format: str, given: Mapping[str, object]) -> dict[str, Any]:
    """The account of a source that is read and not kept."""
    return _whole(source, [_look(file, format, given) for file in find(source, Path())], None)


def _look(file: Found, format: str, given: Mapping[str, object]) -> dict[str, Any]:
    """The account of one file; of its rows only the columns that `settle` looks at are held."""
    kept: list[pl.DataFrame] = []
    rejects, rejected = pl.DataFrame(schema=REJECTED_SCHEMA), 0
    with file.local() as path:
        stream = stream_trace(path, file.name, format, given)
        for part in stream.parts():
            kept.append(part.kept.select(SETTLED))
            rejected += part.rejected.height
            rejects = pl.concat([rejects, part.rejected.head(SHOWN_REJECTS)]).head(SHOWN_REJECTS)
    rows, notes = settle(pl.concat(kept), stream.options)
    return {
        "source_file": file.name,
        "state": "read, not stored",
        "format": stream.format,
        "size_bytes": stream.size_bytes,
        "sha256": stream.sha256,
        "rows_read": rows.height + rejected,
        "rows_kept": rows.height,
        "rows_rejected": rejected,
        "replayable": int(rows["replayable"].sum()),
        "first_arrival_at": rows["arrival_at"].min(),
        "last_arrival_at": rows["arrival_at"].max(),
        "isl_tokens": int(rows["isl_tokens"].sum()),
        "osl_tokens": int(rows["osl_tokens"].sum()),
        "outcomes": dict(rows.group_by("outcome").len().sort("outcome").iter_rows()),
        "detected": [*stream.notes, *notes],
        "rejected": rejects.select("line", "reason").to_dicts(),
    }


def _stored(place: Place, source: str, format: str, given: dict[str, Any]) -> dict[str, Any]:
    """The account of a source that goes into the workspace's warehouse; one that it names is read as it says."""
    from pipelines.resources import hold_run, release_run

    specs = {service.trace.source: service.trace for service in place.spec.services}
    name = _as_named(place, source, specs)
    spec = specs.get(name)
    if spec is None or given or format != "auto":
        spread = given.pop("spread", spec.spread if spec else "none")
        spec = TraceSpec.model_validate({"source": name, "format": format, "spread": spread, "options": given})
    warehouse = Warehouse(place.warehouse)
    hold_run(place.lock)
    try:
        share = place.spec.max_rejected_share
        done = ingest_source(warehouse, place.folder, spec, share, sources=specs)
    finally:
        release_run(place.lock)
    query = (resources.files("sql") / "ingest" / "account.sql").read_text(encoding="utf-8")
    files = []
    with warehouse.reader() as con:
        for file in done:
            row = con.execute(query, {"source": file.source_file}).pl().row(0, named=True)
            ended = {end["key"]: end["value"] for end in row.pop("outcomes") or []}
            rejects = con.execute(
                "SELECT line, reason FROM rejected_row WHERE source_file = ? ORDER BY line LIMIT ?",
                [file.source_file, SHOWN_REJECTS],
            ).pl()
            detected = (row.pop("detail") or "").split("; ")
            files.append(
                {"source_file": file.source_file, "state": file.state, **row}
                | {"outcomes": ended, "detected": detected, "rejected": rejects.to_dicts()}
            )
    return _whole(name, files, str(place.warehouse))


def _as_named(place: Place, source: str, known: Mapping[str, object]) -> str:
    """The source as the workspace names it: its own word, else the path from the workspace's folder."""
    if source in known or is_remote(source):
        return source
    path = expanded(source).absolute()
    for name in known:
        if not is_remote(name) and place.path(name).absolute() == path:
            return name
    return str(path.relative_to(place.folder)) if path.is_relative_to(place.folder) else str(path)


def _whole(source: str, files: list[dict[str, Any]], stored_in: str | None) -> dict[str, Any]:
    counted = ("rows_read", "rows_kept", "rows_rejected", "replayable", "isl_tokens", "osl_tokens", "size_bytes")
    return {
        "source": source,
        "stored_in": stored_in,
        **{name: sum(file[name] or 0 for file in files) for name in counted},
        "files": files,
    }


def _tell(account: Mapping[str, Any]) -> None:
    for file in account["files"]:
        rows = [
            ("format", file["format"]),
            ("state", file["state"]),
            ("rows", f"{file['rows_read']:,} in = {file['rows_kept']:,} kept + {file['rows_rejected']:,} rejected"),
            ("replayable", f"{file['replayable']:,}"),
            ("outcomes", ", ".join(f"{count:,} {word}" for word, count in file["outcomes"].items())),
            ("arrivals", f"{file['first_arrival_at']} to {file['last_arrival_at']}"),
            ("mean rate", "" if file["mean_rps"] is None else f"{file['mean_rps']:,.4g} requests a second"),
            ("tokens", f"{file['isl_tokens'] or 0:,} in, {file['osl_tokens'] or 0:,} out"),
            *((("detected" if i == 0 else ""), note) for i, note in enumerate(file["detected"])),
            *((f"rejected, line {reject['line']}", reject["reason"]) for reject in file["rejected"]),
            ("fingerprint", f"sha256 {file['sha256'][:16]}…, {file['size_bytes']:,} bytes"),
        ]
        show.as_table([{"": name, "what was found": value} for name, value in rows], str(file["source_file"]))
    if len(account["files"]) > 1:
        read, kept, rejected = (account[f"rows_{word}"] for word in ("read", "kept", "rejected"))
        show.as_table([{"": "all files", "rows": f"{read:,} in = {kept:,} kept + {rejected:,} rejected"}])
    where = account["stored_in"]
    typer.echo(f"stored in {where}" if where else "not stored: there is no workspace here (--workspace names one)")
