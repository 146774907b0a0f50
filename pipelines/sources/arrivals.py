"""When requests arrived: written times and relative ones into UTC microseconds, and arrivals that lie on a grid.

Belongs here: time stamps of traces. Does not: what is done with the arrivals (`estimator.workload`).
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

import numpy as np
import polars as pl

from pipelines.sources.columns import EARLIEST, LATEST, MAX_SECONDS, Reading, Rule, missing, told
from pipelines.sources.layout import TraceOptions

_TAIL = r"^(?:[.,]([0-9]{1,9}))?\s*(Z|z|UTC|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)?$"
NAIVE = "_naive"
"""Marks a kept row whose time had no zone of its own."""


def written(cell: str, dtype: pl.DataType, options: TraceOptions) -> list[Reading]:
    """Times as written: `YYYY-mm-dd HH:MM:SS`, a T or a space between, 0-9 decimals, a zone or none.

    Decimals beyond microseconds are cut. A time without a zone is in the declared one. Between 1990 and 2100 only.
    """
    if isinstance(dtype, pl.Datetime):
        moment = pl.col(cell).cast(pl.Datetime("us", dtype.time_zone))
        if dtype.time_zone is None:
            value, naive = _to_utc(moment, options.timezone), pl.lit(value=True)
        else:
            value, naive = moment.dt.convert_time_zone("UTC").dt.replace_time_zone(None), pl.lit(value=False)
    else:
        stamp = pl.col(cell).cast(pl.String)
        local = stamp.str.head(19).str.replace("T", " ", literal=True)
        base = local.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
        tail = stamp.str.slice(19)
        decimals = tail.str.extract(_TAIL, 1).fill_null("").str.pad_end(6, "0").str.head(6).cast(pl.Int64)
        zone = tail.str.extract(_TAIL, 2)
        hours = zone.str.slice(1, 2).cast(pl.Int64, strict=False)
        minutes = zone.str.replace(":", "", literal=True).str.slice(3, 2).cast(pl.Int64, strict=False).fill_null(0)
        sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
        offset_us = (sign * (hours * 60 + minutes) * 60_000_000).fill_null(0)
        naive = zone.is_null()
        utc = base - pl.duration(microseconds=offset_us)
        if options.timezone != "UTC":
            utc = pl.when(naive).then(_to_utc(base, options.timezone)).otherwise(utc)
        value = pl.when(tail.str.contains(_TAIL)).then(utc + pl.duration(microseconds=decimals))
    rules = (
        missing(cell),
        Rule(value.is_not_null(), told(cell, "is not a time (YYYY-mm-dd HH:MM:SS, decimals and zone optional)")),
        Rule(
            value.is_between(datetime.fromisoformat(EARLIEST), datetime.fromisoformat(LATEST)),
            told(cell, f"is outside {EARLIEST} to {LATEST}"),
        ),
    )
    return [Reading("arrival_at", value, rules), Reading(NAIVE, naive)]


def _to_utc(local: pl.Expr, zone: str) -> pl.Expr:
    placed = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return placed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def relative(cell: str, unit: str, options: TraceOptions) -> list[Reading]:
    """Times counted from `start_at`, in seconds ("s") or milliseconds ("ms"), up to the year 2100 in Unix time."""
    per_s = {"s": 1, "ms": 1_000}[unit]
    number = pl.col(cell).cast(pl.Float64, strict=False)
    usable = pl.when(number.is_between(0, MAX_SECONDS * per_s)).then(number)
    since_us = (usable * (1_000_000 // per_s)).round(0).cast(pl.Int64)
    rules = (
        missing(cell),
        Rule(number.is_finite(), told(cell, "is not a number")),
        Rule(number >= 0, told(cell, "is negative")),
        Rule(number <= MAX_SECONDS * per_s, told(cell, f"is above {MAX_SECONDS:,} s")),
    )
    return [Reading("arrival_at", (since_us + options.start_us).cast(pl.Datetime("us")), rules)]


def in_order(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The frame by arrival, then by line, and a note on how many rows were out of order."""
    frame = frame if frame["line"].is_sorted() else frame.sort("line")
    back = int((frame["arrival_at"].cast(pl.Int64).diff() < 0).sum())
    if not back:
        return frame, "arrivals in order"
    return frame.sort("arrival_at", "line"), f"sorted: {back:,} arrivals earlier than the row before"


def grid(frame: pl.DataFrame) -> tuple[int, float] | None:
    """Distinct arrival times and their usual step in seconds, where arrivals lie on a grid; None where they do not.

    A grid is when the rows share fewer than half as many distinct times, as Mooncake's conversation trace does.
    """
    times = frame["arrival_at"].cast(pl.Int64).unique().sort()
    if frame.height < 20 or len(times) < 2 or len(times) * 2 >= frame.height:
        return None
    return len(times), cast(float, times.diff().drop_nulls().median()) / 1e6


def spread(frame: pl.DataFrame, step_s: float, seed: int) -> pl.DataFrame:
    """Each arrival moved by a uniform draw inside its grid step, never past the next grid time; repeatable by seed.

    Rows are in order of arrival before and after; counts within a step are kept exactly.
    """
    times = frame["arrival_at"].cast(pl.Int64).to_numpy()
    distinct = np.unique(times)
    room = np.full(len(distinct), round(step_s * 1e6), dtype=np.int64)
    room[:-1] = np.minimum(room[:-1], np.diff(distinct))
    moved = times + (np.random.default_rng(seed).random(len(times)) * room[np.searchsorted(distinct, times)]).astype(
        np.int64
    )
    return frame.with_columns(pl.Series("arrival_at", moved).cast(pl.Datetime("us"))).sort("arrival_at", "line")
