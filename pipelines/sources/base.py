"""What every reader hands over: kept rows, rejected rows, what was detected, and the file's fingerprint.

Belongs here: `SourceRead`, `SourceError`, the tolerance for broken rows, the fingerprint.
Does not: opening files (`files`), or anything that one format alone knows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from warehouse.errors import CapsheetError
from warehouse.frames import polars_schema
from warehouse.registry import table

RAW_CHARACTERS = 2_000
"""A rejected row is kept up to this length; the registry says the same."""

NOT_A_REQUEST = "not a request"
"""Reasons that begin so are sound rows that are no request of a model: another span, an embedding, a log's heading."""

REJECTED_SCHEMA = pl.Schema(polars_schema(table("rejected_row")))


class SourceError(CapsheetError):
    """A source cannot be read at all. One line: what, which file and line, what to do.

    A name may hold line breaks or turn the direction of writing: what does not print is escaped.
    """

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in message))


@dataclass(frozen=True, slots=True)
class SourceRead:
    """One source, read. Always: `rows_read` = rows kept + rows rejected.

    `frame` has the columns of the source's registry table; `rejected` those of `rejected_row`. `detail` says what was
    detected or declared: unit, time zone, block size, options.
    """

    source_file: str
    format: str
    frame: pl.DataFrame
    rejected: pl.DataFrame
    rows_read: int
    sha256: str
    size_bytes: int
    detail: str

    @property
    def failed_requests(self) -> int:
        """Kept rows that are requests the service failed or turned away."""
        return int(self.frame["outcome"].is_in(["failed", "rejected"]).sum())

    @property
    def broken_rows(self) -> int:
        """Rejected rows that could not be understood."""
        return int((~self.rejected["reason"].str.starts_with(NOT_A_REQUEST)).sum())


def check_tolerance(read: SourceRead, max_rejected_share: float = 0.05) -> None:
    """Refuse a source when too many of its rows are broken, or when none is left.

    Failed requests are well-formed rows and what is no request is not broken: neither counts as broken or as usable.

    Raises:
        SourceError: the broken share is above `max_rejected_share` (0-1), or no row was kept.
    """
    broken = read.rejected.filter(~pl.col("reason").str.starts_with(NOT_A_REQUEST))
    usable = read.frame.height and ("replayable" not in read.frame.columns or read.frame["replayable"].any())
    first = (broken if broken.height else read.rejected).head(3)
    refuse_broken(read.source_file, read.rows_read, broken.height, usable, first, max_rejected_share)


def refuse_broken(
    source_file: str, rows_read: int, broken: int, usable: bool | int, first: pl.DataFrame, max_rejected_share: float
) -> None:
    """Refuse a source of `rows_read` rows of which `broken` are broken, or of which none is `usable`.

    `first` are the first few of its rejected rows, for the message.

    Raises:
        SourceError: the broken share is above `max_rejected_share` (0-1), or no row is usable.
    """
    share = broken / rows_read if rows_read else 0.0
    if share <= max_rejected_share and usable:
        return
    shown = "; ".join(f"line {line}: {reason}" for line, reason in first.select("line", "reason").iter_rows())
    if share > max_rejected_share:
        raise SourceError(
            f"{source_file}: {broken:,} of {rows_read:,} rows ({share:.1%}) are broken and "
            f"{max_rejected_share:.1%} may be. First: {shown}. Mend the file, or raise max_rejected_share."
        )
    if shown:
        why, remedy = f"First: {shown}.", "Name another file."
    else:
        why = "None was served with known lengths."
        remedy = "Where a file has prompts as text, set characters_per_token and output_tokens; else name another file."
    raise SourceError(f"{source_file}: no row of {rows_read:,} can be planned with. {why} {remedy}")


def rejected_rows(source_file: str, rows: list[tuple[int, str, str]]) -> pl.DataFrame:
    """Rejected rows of one source from (line, reason, raw); raw is cut at 2,000 characters."""
    data = [(source_file, line, reason, raw[:RAW_CHARACTERS]) for line, reason, raw in rows]
    return pl.DataFrame(data, schema=REJECTED_SCHEMA, orient="row")


def fingerprint(content_sha256: str, format_name: str, options: Mapping[str, object]) -> str:
    """SHA-256 of a source's bytes together with how they were read: other options, other fingerprint."""
    how = json.dumps({"format": format_name, "options": dict(options)}, sort_keys=True, default=str)
    return hashlib.sha256(f"{content_sha256}\n{how}".encode()).hexdigest()


def expanded(text: str) -> Path:
    """A path with its ~ resolved. Raises SourceError where nobody has that home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SourceError(f"{shown(text)}: there is no such home folder. Write the whole path.") from None


def shown(text: str, limit: int = 60) -> str:
    """Outside text made fit for one line of a message: quoted, control characters escaped, cut."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    return repr(cut)
