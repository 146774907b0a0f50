"""Inputs of `vllm bench serve`: its `timed_trace` (seconds, hashes of 16-token blocks) and its `custom` prompts.

https://docs.vllm.ai (benchmarks). A timed trace has Mooncake's keys but not its units: read as Mooncake, its blocks are
32 times too long; a Mooncake file read as this replays 1,000 times too slow. `custom` rows have no times at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from pipelines.sources.columns import Reading
from pipelines.sources.layout import Cells, Layout, Prepare, TraceOptions
from pipelines.sources.mooncake import CELL_TYPES, KEYS, fitting, trace_readings
from pipelines.sources.prompts import answer, characters, estimated, lengths_note

BLOCK_TOKENS = 16


def _fractions_and_short_blocks(objects: Sequence[Mapping[str, object]]) -> bool:
    """Mooncake's keys, nine rows in ten fitting 16-token blocks and fewer 512, and times that are no whole numbers."""
    if not objects or not all({*KEYS} <= set(value) for value in objects):
        return False
    times = [value["timestamp"] for value in objects]
    fractions = any(isinstance(time, float) and math.isfinite(time) and time % 1 > 0 for time in times)
    short = fitting(objects, BLOCK_TOKENS)
    return fractions and short * 10 >= len(objects) * 9 and short > fitting(objects, 512)


def _timed(_: str, __: Cells, options: TraceOptions, ___: Sequence[str]) -> tuple[list[Reading], list[str]]:
    readings, notes = trace_readings(options, "s", BLOCK_TOKENS)
    if not (options.time_unit and options.block_tokens):
        notes.append("told from Mooncake's by named format, or by hashes that fit 16 tokens and times with fractions")
    return readings, notes


TIMED_TRACE = Layout(
    "vllm_timed_trace",
    "vLLM timed trace",
    required=KEYS,
    readings=_timed,
    heeds=("start_at", "time_unit", "block_tokens"),
    containers=("json",),
    cell_types=CELL_TYPES,
    recognises=_fractions_and_short_blocks,
)


def _prompts(objects: Sequence[Mapping[str, object]]) -> bool:
    return bool(objects) and all("prompt" in value and "timestamp" not in value for value in objects)


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    if "prompt" not in value:
        yield "prompt is missing"
        return
    yield {"characters": characters(value["prompt"]), "output_tokens": value.get("output_tokens")}


def _arrivals(options: TraceOptions) -> Prepare:
    """Adds `since_us`: Poisson arrivals at the declared rate, by the seed; all at 0 where none is declared."""
    random, clock = np.random.default_rng(options.seed), 0.0

    def prepare(rows: pl.DataFrame) -> pl.DataFrame:
        nonlocal clock
        since = np.zeros(rows.height)
        if options.rate_rps and rows.height:
            since = clock + np.cumsum(random.exponential(1 / options.rate_rps, rows.height))
            clock = float(since[-1])
        return rows.with_columns(pl.Series("since_us", np.round(since * 1e6).astype(np.int64)))

    return prepare


def _custom(_: str, __: Cells, options: TraceOptions, ___: Sequence[str]) -> tuple[list[Reading], list[str]]:
    rate = options.rate_rps
    arrival = (pl.col("since_us") + options.start_us).cast(pl.Datetime("us"))
    readings = [
        Reading("arrival_at", arrival),
        Reading("isl_tokens", estimated("characters", options)),
        answer("output_tokens", options),
    ]
    return readings, [
        f"no arrival times: Poisson at {rate:g} requests/s (declared, seed {options.seed})"
        if rate
        else f"no arrival times: all stand at {options.start_at} until rate_rps is declared",
        lengths_note(options),
    ]


CUSTOM = Layout(
    "vllm_custom",
    "vLLM custom prompts",
    required=("characters", "output_tokens"),
    readings=_custom,
    heeds=("start_at", "rate_rps", "characters_per_token", "output_tokens"),
    containers=("json",),
    records=_records,
    recognises=_prompts,
    private=True,
    prepare=_arrivals,
)
