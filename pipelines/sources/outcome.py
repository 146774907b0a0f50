"""How a request ended: one set of words for every source, what counts as work, and what its lengths hide.

Belongs here: outcomes from HTTP codes and token counts, `replayable`, caps. Does not: which column says it (a format's
own module). Nothing is dropped here: a failure stays a row of `request`, classified.
"""

from __future__ import annotations

from typing import cast

import polars as pl

from pipelines.sources.columns import Reading
from warehouse.registry import table

OUTCOME, CENSORED = (pl.Enum(table("request").column(name).allowed) for name in ("outcome", "censored"))
SERVED = ("ok", "unknown", "cancelled")
"""Outcomes that took an engine's time, where both lengths are known."""
CAPPED_SHARE, CAPPED_ROWS = 0.01, 100
"""From this share of at least so many requests on, a longest length that many share is a cap, not chance."""
_HEAP, _HEAPED = 5, 10.0
"""So many requests at the longest length, and so many times what lengths just below it have, are a cap too."""
NEAR = 0.1
"""How far below the longest length is just below: this share of it."""


def of_status(code: pl.Expr) -> pl.Expr:
    """The outcome of an HTTP status: 2xx ok, 429/503/529 rejected, 499 and 0 (the client left) cancelled, else failed.

    499 is nginx's, 0 is Envoy's response code for a stream that the client reset; 529 is an overloaded provider's.
    """
    code = code.cast(pl.Float64, strict=False)
    return (
        pl.when(code.is_null())
        .then(pl.lit("unknown"))
        .when(code.is_between(200, 299))
        .then(pl.lit("ok"))
        .when(code.is_in([429.0, 503.0, 529.0]))
        .then(pl.lit("rejected"))
        .when(code.is_in([499.0, 0.0]))
        .then(pl.lit("cancelled"))
        .otherwise(pl.lit("failed"))
    )


def ended(said: pl.Expr, osl_tokens: pl.Expr, words: pl.DataType = pl.String()) -> Reading:  # noqa: B008 - a type
    """`outcome`: what the source says, except that an answer of 0 tokens is no success."""
    empty = (osl_tokens == 0) & said.is_in(["ok", "unknown"])
    return Reading("outcome", pl.when(empty.fill_null(value=False)).then(pl.lit("failed", words)).otherwise(said))


def censored(finish_reason: pl.Expr, outcome: pl.Expr) -> Reading:
    """`censored` as one row shows it: cancelled, or cut at its output limit (finish reason length or max_tokens)."""
    cut = finish_reason.str.to_lowercase().is_in(["length", "max_tokens", "max_output_tokens"])
    return Reading(
        "censored",
        pl.when(outcome == "cancelled")
        .then(pl.lit("cancelled"))
        .when(cut.fill_null(value=False))
        .then(pl.lit("output_cap")),
    )


def classified(rows: pl.DataFrame) -> pl.DataFrame:
    """Canonical rows with `outcome` (unknown where the source has none), `censored` and `replayable`."""
    if "outcome" not in rows.columns:
        said = ended(pl.lit("unknown", OUTCOME), pl.col("osl_tokens"), OUTCOME)
        rows = rows.with_columns(said.value.alias("outcome"))
    if "censored" not in rows.columns:
        cancelled = pl.when(pl.col("outcome") == "cancelled").then(pl.lit("cancelled", CENSORED))
        rows = rows.with_columns(cancelled.alias("censored"))
    works = (pl.col("isl_tokens") > 0) & (pl.col("osl_tokens") > 0) & pl.col("outcome").is_in(SERVED)
    return rows.with_columns(works.fill_null(value=False).alias("replayable"))


def is_cap(rows: int, longest: int, at_longest: int, near: int) -> bool:
    """Whether a longest length is where longer ones were cut, of `rows` requests that do not all have one length.

    `at_longest` have it and `near` are within `NEAR` below it. Of Azure's 19,366 conversations 11 end at 1,000 tokens,
    with one request at every third length before: too few for a share, too many for chance.
    """
    if rows < CAPPED_ROWS:
        return False
    each = near / max(1.0, longest * NEAR)
    return at_longest >= CAPPED_SHARE * rows or (at_longest >= _HEAP and at_longest >= _HEAPED * each)


def capped(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Requests at a length so many share that it must be a cap, marked `censored`; and a note on each such cap."""
    notes = []
    served = rows.filter("replayable")
    for column, word in (("isl_tokens", "input"), ("osl_tokens", "output")):
        if served.height < CAPPED_ROWS or served[column].n_unique() == 1:
            continue
        longest = cast(int, served[column].max())
        at_longest = int((served[column] == longest).sum())
        near = int(((served[column] >= longest * (1 - NEAR)) & (served[column] < longest)).sum())
        if not is_cap(served.height, longest, at_longest, near):
            continue
        hit = pl.col("replayable") & pl.col("censored").is_null() & (pl.col(column) == longest)
        rows = rows.with_columns(
            pl.when(hit).then(pl.lit(f"{word}_cap")).otherwise(pl.col("censored")).alias("censored")
        )
        notes.append(f"{word} capped at {longest:,} tokens ({at_longest:,} requests)")
    return rows, notes


def told(rows: pl.DataFrame) -> list[str]:
    """How requests ended, where not all simply ended well: `outcomes: 3 failed, 2 cache_hit`, lengths unknown."""
    counts = rows.group_by("outcome").len().filter(~pl.col("outcome").is_in(["ok", "unknown"])).sort("outcome")
    notes = [f"{count:,} {outcome}" for outcome, count in counts.iter_rows()]
    lacking = int((rows["isl_tokens"].is_null() | rows["osl_tokens"].is_null()).sum())
    if lacking:
        notes.append(f"{lacking:,} without lengths")
    return [f"not all replayable: {', '.join(notes)}"] if notes else []
