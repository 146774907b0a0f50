"""Rows that a file holds more than once, told by an identity of their own: counted the first time.

Belongs here: identities within one file. Does not: files that repeat each other (`pipelines.ingest`), or rows that are
merely alike, which may well be two requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import polars as pl

from pipelines.sources.base import NOT_A_REQUEST
from pipelines.sources.columns import Reading, Rule
from pipelines.sources.layout import Prepare, TraceOptions


def deliveries(cell: str) -> Callable[[TraceOptions], Prepare]:
    """Adds `again`: whether a row with this identity stood before it in the file; one without an identity never did.

    Held of each are 64 bits: of ten million, two alike by chance are to be had once in 300,000 files.
    """

    def made(_: TraceOptions) -> Prepare:
        known: set[bytes] = set()

        def prepare(rows: pl.DataFrame) -> pl.DataFrame:
            again = []
            for identity in rows[cell].cast(pl.String):
                mark = hashlib.blake2b(identity.encode(), digest_size=8).digest() if identity else None
                again.append(mark in known)
                if mark:
                    known.add(mark)
            return rows.with_columns(pl.Series("again", again, dtype=pl.Boolean))

        return prepare

    return made


def once(cell: str, what: str) -> Reading:
    """The rule that a row is counted once, however often it was delivered; after `deliveries`. `what` is its name."""
    told = pl.format("{} of its own: {} {} was delivered before", pl.lit(NOT_A_REQUEST), pl.lit(what), pl.col(cell))
    return Reading("_once", pl.lit(None, pl.Boolean), (Rule(~pl.col("again"), told),))
