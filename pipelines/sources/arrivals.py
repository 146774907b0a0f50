"""When requests arrived: written times and relative ones into UTC microseconds, and arrivals that lie on a grid.

Belongs here: time stamps of traces. Does not: what is done with the arrivals (`estimator.workload`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import compute

from pipelines.sources.columns import EARLIEST, LATEST, MAX_SECONDS, Reading, Rule, missing, told
from pipelines.sources.layout import TraceOptions

_TAIL = r"^(?:[.,]([0-9]{1,9}))?\s*(Z|z|UTC|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)?$"
PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""How many of a unit make a second."""
NAIVE = "_naive"
"""Marks a kept row whose time had no zone of its own."""
_READ = pl.Struct({"utc": pl.Datetime("us"), "naive": pl.Boolean()})


def written(cell: str, dtype: pl.DataType, options: TraceOptions, column: str = "arrival_at") -> list[Reading]:
    """Times as written: `YYYY-mm-dd HH:MM:SS`, a T or a space between, 0-9 decimals, a zone or none.

    Decimals beyond microseconds are cut. A time without a zone is in the declared one. Between 1990 and 2100 only.
    """
    read = pl.col(f"_{column}")
    value, naive = read.struct.field("utc"), read.struct.field("naive")
    rules = (
        missing(cell),
        Rule(value.is_not_null(), told(cell, "is not a time (YYYY-mm-dd HH:MM:SS, decimals and zone optional)")),
        Rule(
            value.is_between(datetime.fromisoformat(EARLIEST), datetime.fromisoformat(LATEST)),
            told(cell, f"is outside {EARLIEST} to {LATEST}"),
        ),
    )
    work = _parsed(cell, dtype, options).alias(f"_{column}")
    return [Reading(column, value, rules, work, time=cell), Reading(NAIVE, naive)]


def moment(cell: str, dtype: pl.DataType, options: TraceOptions) -> tuple[pl.Expr, pl.Expr]:
    """A written time as naive UTC (NULL where it is none), and whether it had no zone of its own."""
    read = _parsed(cell, dtype, options)
    return read.struct.field("utc"), read.struct.field("naive")


def _parsed(cell: str, dtype: pl.DataType, options: TraceOptions) -> pl.Expr:
    """A written time as `utc` and `naive` together."""
    if not isinstance(dtype, pl.Datetime):
        stamp = pl.col(cell).cast(pl.String)
        return stamp.map_batches(partial(_read, zone=options.timezone), _READ, is_elementwise=True)
    typed = pl.col(cell).cast(pl.Datetime("us", dtype.time_zone))
    if dtype.time_zone is None:
        utc = _to_utc(typed, options.timezone)
    else:
        utc = typed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return pl.struct(utc.alias("utc"), pl.lit(value=dtype.time_zone is None).alias("naive"))


def ms_between(start: pl.Expr, end: pl.Expr) -> pl.Expr:
    """Milliseconds from one moment to another; NULL where either is missing or the second is the earlier."""
    ms = (end - start).dt.total_microseconds() / 1_000
    return pl.when(ms >= 0).then(ms)


def _read(stamps: pl.Series, zone: str) -> pl.Series:
    """Each text as `utc` (null where it is not a time) and whether it was `naive`."""
    return _read_alike(stamps, zone) if _alike(stamps) else _read_any(stamps, zone)


def _alike(stamps: pl.Series) -> bool:
    """All of them reach to the seconds, and end in the zone that the first ends in."""
    if not len(stamps) or stamps[0] is None or (found := re.search(_TAIL, stamps[0][19:])) is None:
        return False
    ending = found[2] or ""
    if stamps.null_count() or cast(int, stamps.str.len_bytes().min()) < 19 + len(ending):
        return False
    return not ending or stamps.str.ends_with(ending).all()


def _read_alike(stamps: pl.Series, zone: str) -> pl.Series:
    """By Arrow's parser, far faster than the general one, which has its turn where Arrow refuses a text."""
    text = stamps.to_arrow()
    for own, unit in (("UTC", "us"), (None, "us"), ("UTC", "ns"), (None, "ns")):
        try:
            moments = compute.cast(text, pa.timestamp(unit, own))
        except pa.ArrowInvalid:
            continue
        utc = cast(pl.Series, pl.from_arrow(moments.cast(pa.timestamp(unit)))).dt.cast_time_unit("us")
        plain = pl.col("utc") if own else _to_utc(pl.col("utc"), zone)
        read = pl.struct(plain.alias("utc"), pl.lit(value=own is None).alias("naive"))
        return pl.DataFrame({"utc": utc}).select(read).to_series()
    return _read_any(stamps, zone)


def _read_any(stamps: pl.Series, zone: str) -> pl.Series:
    stamp = pl.col("stamp")
    local = stamp.str.head(19).str.replace("T", " ", literal=True)
    base = local.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    tail = stamp.str.slice(19)
    decimals = tail.str.extract(_TAIL, 1).fill_null("").str.pad_end(6, "0").str.head(6).cast(pl.Int64)
    own = tail.str.extract(_TAIL, 2)
    hours = own.str.slice(1, 2).cast(pl.Int64, strict=False)
    minutes = own.str.replace(":", "", literal=True).str.slice(3, 2).cast(pl.Int64, strict=False).fill_null(0)
    sign = pl.when(own.str.starts_with("-")).then(-1).otherwise(1)
    offset_us = (sign * (hours * 60 + minutes) * 60_000_000).fill_null(0)
    naive = own.is_null()
    utc = base - pl.duration(microseconds=offset_us)
    if zone != "UTC":
        utc = pl.when(naive).then(_to_utc(base, zone)).otherwise(utc)
    value = pl.when(tail.str.contains(_TAIL)).then(utc + pl.duration(microseconds=decimals))
    return pl.DataFrame({"stamp": stamps}).select(pl.struct(value.alias("utc"), naive.alias("naive"))).to_series()


def _to_utc(local: pl.Expr, zone: str) -> pl.Expr:
    if zone == "UTC":
        return local
    placed = local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return placed.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def relative(cell: str, unit: str, options: TraceOptions) -> list[Reading]:
    """Times counted from `start_at` in a unit of `PER_S`, up to the year 2100 in Unix time."""
    per_s = PER_S[unit]
    number = pl.col(cell).cast(pl.Float64, strict=False)
    usable = pl.when(number.is_between(0, MAX_SECONDS * per_s)).then(number)
    since_us = (usable * (1_000_000 / per_s)).round(0).cast(pl.Int64)
    rules = (
        missing(cell),
        Rule(number.is_finite(), told(cell, "is not a number")),
        Rule(number >= 0, told(cell, "is negative")),
        Rule(number <= MAX_SECONDS * per_s, told(cell, f"is above {MAX_SECONDS:,} s")),
    )
    return [Reading("arrival_at", (since_us + options.start_us).cast(pl.Datetime("us")), rules, number=cell)]


@dataclass(slots=True)
class Order:
    """Whether arrivals come in order, told while they go by in the order of their lines."""

    rows: int = 0
    back: int = 0
    runs: int = 0
    _last: int | None = None

    def take(self, arrival_at: pl.Series) -> None:
        """The next arrivals, in the order of their lines."""
        if not len(arrival_at):
            return
        times = arrival_at.cast(pl.Int64).to_numpy()
        steps = np.diff(times, prepend=times[:1] - 1 if self._last is None else self._last)
        self.rows += len(times)
        self.back += int((steps < 0).sum())
        self.runs += int((steps != 0).sum())
        self._last = int(times[-1])

    @property
    def note(self) -> str:
        """What to say of it."""
        return f"sorted: {self.back:,} arrivals earlier than the row before" if self.back else "arrivals in order"

    @property
    def may_lie_on_a_grid(self) -> bool:
        """Runs of equal times are as many as distinct times where all is in order, and never fewer."""
        return self.back > 0 or self.runs * 2 < self.rows


def in_order(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The frame by arrival, then by line, and a note on how many rows were out of order."""
    frame = frame if frame["line"].is_sorted() else frame.sort("line")
    order = Order()
    order.take(frame["arrival_at"])
    return (frame.sort("arrival_at", "line") if order.back else frame), order.note


def grid(frame: pl.DataFrame) -> tuple[int, float] | None:
    """Distinct arrival times and their usual step in seconds, where arrivals lie on a grid; None where they do not.

    A grid is when the rows share fewer than half as many distinct times, as Mooncake's conversation trace does.
    """
    times = frame["arrival_at"].cast(pl.Int64).unique().sort()
    if frame.height < 20 or len(times) < 2 or len(times) * 2 >= frame.height:
        return None
    return len(times), cast(float, times.diff().drop_nulls().median()) / 1e6


NO_GRID = "nothing to spread: arrivals lie on no grid"
"""What to say where spreading was asked for in vain."""


def grid_notes(rows: int, lattice: tuple[int, float], options: TraceOptions) -> list[str]:
    """What to say of arrivals on a grid, and of what was done about it."""
    distinct, step_s = lattice
    found = f"arrivals on a grid: {distinct:,} distinct times for {rows:,} rows, step {step_s:g} s"
    if options.spread == "uniform":
        return [found, f"each spread uniformly over its step (seed {options.seed})"]
    return [found, "kept as they are (spread: none)"]


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
