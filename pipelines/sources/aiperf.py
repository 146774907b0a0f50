"""AIPerf's extension of Mooncake's rows: sessions, delays, literal texts and payloads beside lengths and hashes.

https://github.com/ai-dynamo/aiperf (`mooncake_trace`, Apache-2.0): milliseconds, blocks of 512 tokens, exactly one of
input_length, text_input, messages and payload a row. A `delay` counts from the end of the turn before, which no trace
knows: such a turn stands that long after the turn before was sent, which is the earliest it can have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.columns import Reading, Rule, text, whole
from pipelines.sources.layout import Cells, Layout, Prepare, TraceOptions
from pipelines.sources.mooncake import fits
from pipelines.sources.prompts import answer, characters, estimated, lengths_note

BLOCK_TOKENS = 512
_MODES = ("input_length", "text_input", "messages", "payload")
_OWN = ("session_id", "delay", "text_input", "messages", "payload", "tools")


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    """Mooncake's rows with at least one key that only AIPerf has, or without the hashes that Mooncake always has."""
    keys = {key for value in objects for key in value}
    timed = "timestamp" in keys or "delay" in keys
    told = keys & {*_MODES} and (timed or keys & {"session_id", "output_length", "text_input", "hash_ids"})
    foreign = keys & {"chat_id", "request_id", "prompt_tokens", "block_size", "usage", "duration", "latency_ms"}
    foreign |= keys & {"status", "status_code", "response_code"}
    lacks = sum("hash_ids" not in value for value in objects) * 2 > len(objects)
    return bool(told) and not foreign and (bool(keys & {*_OWN}) or not timed or ("output_length" in keys and lacks))


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    modes = [mode for mode in _MODES if value.get(mode) is not None]
    if len(modes) != 1:
        yield f"{len(modes)} of {', '.join(_MODES)}; a row has exactly one"
        return
    payload = value.get("payload") if isinstance(value.get("payload"), dict) else {}
    held = payload if modes[0] == "payload" else value
    limit = held.get("max_completion_tokens", held.get("max_tokens")) if isinstance(held, dict) else None
    yield {
        "timestamp": value.get("timestamp"),
        "delay": value.get("delay"),
        "session_id": value.get("session_id"),
        "input_length": value.get("input_length"),
        "output_length": value.get("output_length"),
        "hash_ids": value.get("hash_ids"),
        "characters": None if modes[0] == "input_length" else float(characters(held)),
        "max_tokens": limit,
    }


def _turns(options: TraceOptions) -> Prepare:
    """Adds `at`: the timestamp, or the turn before of the session plus the delay, or 0 where a row has neither."""
    last: dict[str, float] = {}

    def prepare(rows: pl.DataFrame) -> pl.DataFrame:
        found: list[float | None] = []
        for session, timestamp, delay in rows.select("session_id", "timestamp", "delay").iter_rows():
            at = timestamp
            if at is None and delay is not None:
                at = last[session] + delay if session in last else None
            elif at is None:
                at = last.get(session, 0.0) if session is not None else 0.0
            if session is not None and at is not None:
                last[session] = at
            found.append(at)
        return rows.with_columns(pl.Series("at", found, dtype=pl.Float64))

    return prepare


def _readings(_: str, __: Cells, options: TraceOptions, ___: Sequence[str]) -> tuple[list[Reading], list[str]]:
    block, unit = options.block_tokens or BLOCK_TOKENS, options.time_unit or "ms"
    hashes, fit = pl.col("hash_ids"), fits(block)
    placed = Rule(pl.col("at").is_not_null(), pl.lit("delay, but no turn of its session stands before it"))
    arrival = relative("at", unit, options)[0]
    isl = whole("isl_tokens", "input_length", required=False)
    readings = [
        Reading(arrival.column, arrival.value, (placed, *arrival.rules)),
        Reading("isl_tokens", pl.coalesce(isl.value, estimated("characters", options)), isl.rules),
        answer("output_length", options),
        Reading("prefix_hashes", hashes, (Rule(hashes.is_null() | fit.holds, fit.reason),)),
        Reading("prefix_block_tokens", pl.when(hashes.is_not_null()).then(pl.lit(block, pl.Int32))),
        text("session_id", "session_id"),
        whole("max_tokens", "max_tokens", least=0, required=False),
    ]
    said = "declared" if options.time_unit else "the format's own"
    return readings, [
        f"timestamp and delay in {unit} ({said}) from {options.start_at}",
        "a delayed turn stands its delay after the turn before was sent",
        f"prefix blocks of {block} tokens, the last one partial",
        lengths_note(options),
    ]


AIPERF = Layout(
    "aiperf",
    "AIPerf trace (Mooncake, extended)",
    required=("timestamp", "input_length", "output_length", "hash_ids"),
    optional=("delay", "session_id", "characters", "max_tokens"),
    readings=_readings,
    heeds=("start_at", "time_unit", "block_tokens", "characters_per_token", "output_tokens"),
    containers=("json",),
    cell_types={
        **{name: pl.Float64() for name in ("timestamp", "delay", "input_length", "output_length", "characters")},
        "hash_ids": pl.List(pl.Int64()),
    },
    records=_records,
    recognises=_recognises,
    private=True,
    prepare=_turns,
)
