"""SGLang's request logs: `--export-metrics-to-file` (one object a request) and the JSON of `--log-requests`.

sglang/srt/managers/request_metrics_exporter.py and the finished events of request_logger.py: `meta_info` with seconds
and Unix times beside the request's parameters, which may carry the prompt: it is not read. The hour in a file's name is
local and naive: it counts only for rows without a time of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.base import NOT_A_REQUEST, shown
from pipelines.sources.columns import MAX_SECONDS, Reading, Rule, above_zero, quantity, text, truth, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import censored, ended, of_status

_UNIX_S = 946_684_800
"""The year 2000: a smaller stamp is a monotonic clock's, not a time."""
_STRUCTURED = ("json_schema", "regex", "ebnf", "structural_tag")


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    return any("request_parameters" in value or _meta(value) is not value for value in objects) or any(
        {"e2e_latency", "prompt_tokens", "finish_reason"} <= set(value) for value in objects
    )


def _meta(value: Mapping[str, object]) -> Mapping[str, object]:
    """The object that holds `meta_info`'s keys."""
    out = value.get("out")
    meta = out.get("meta_info") if isinstance(out, dict) else value.get("meta_info")
    return meta if isinstance(meta, dict) else value


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    event = value.get("event")
    if isinstance(event, str) and event != "request.finished":
        yield f"{NOT_A_REQUEST}: log event {shown(event, 40)}"
        return
    meta, asked = _meta(value), _asked(value)
    if "completion_tokens" not in meta and "embedding" in str(asked.get("type", meta.get("type", ""))):
        yield f"{NOT_A_REQUEST}: an embedding"
        return
    sampling = asked.get("sampling_params")
    sampling = sampling if isinstance(sampling, dict) else {}
    finish = meta.get("finish_reason")
    finish = finish if isinstance(finish, dict) else {"type": finish}
    session = asked.get("session_params")
    received, first = (
        _number(meta, "request_received_ts"),
        _number(meta, "prefill_finished_ts", "prefill_finished_time"),
    )
    received = received if received is not None else _number(asked, "received_time")
    e2e, done = _number(meta, "e2e_latency"), _number(meta, "response_sent_to_client_ts", "request_finished_ts")
    if received is None and e2e is not None and done is not None:
        received = done - e2e
    yield {
        "received": received,
        "prompt_tokens": meta.get("prompt_tokens"),
        "completion_tokens": meta.get("completion_tokens"),
        "cached_tokens": meta.get("cached_tokens"),
        "ttft": first - received if first is not None and received is not None and first >= received else None,
        "e2e": e2e,
        "queue": _number(meta, "queue_time"),
        "id": meta.get("id") or asked.get("rid"),
        "finish": finish.get("type"),
        "status": finish.get("status_code"),
        "model": meta.get("model") or asked.get("model"),
        "lora": asked.get("lora_path") or asked.get("lora_id"),
        "session": session.get("id") if isinstance(session, dict) else None,
        "max_new_tokens": sampling.get("max_new_tokens"),
        "temperature": sampling.get("temperature"),
        "top_p": sampling.get("top_p"),
        "n": sampling.get("n"),
        "stream": asked.get("stream"),
        "logprob": asked.get("return_logprob"),
        "structured": any(sampling.get(key) for key in _STRUCTURED) if sampling else None,
        "speculative": any(key.startswith("spec_") for key in meta) or None,
        "media": bool(asked.get("modalities")) or None,
    }


def _asked(value: Mapping[str, object]) -> Mapping[str, object]:
    """The request's parameters: JSON in a text, or an object."""
    held = value.get("request_parameters", value.get("obj"))
    if isinstance(held, str):
        try:
            held = json.loads(held)
        except (ValueError, RecursionError):
            return {}
    return held if isinstance(held, dict) else {}


def _number(held: Mapping[str, object], *names: str) -> float | None:
    """The first of the keys that holds a number; 0 and less stand for a moment that never came."""
    for name in names:
        value = held.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e300:
            return float(value)
    return None


def _hour_of(source_file: str, options: TraceOptions) -> datetime | None:
    """The hour that a log's name tells, in UTC; it is written in the server's zone."""
    named = re.search(r"sglang-request-metrics-(\d{8}_\d{2})(?!\d)", source_file)
    try:
        local = datetime.strptime(named[1], "%Y%m%d_%H").replace(tzinfo=ZoneInfo(options.timezone)) if named else None
    except ValueError:
        return None
    return local.astimezone(UTC).replace(tzinfo=None) if local else None


def _readings(source_file: str, _: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    hour = _hour_of(source_file, options)
    arrival = relative("received", "s", options)[0]
    clock = pl.col("received").cast(pl.Float64, strict=False)
    there = Rule(
        clock.is_not_null() | pl.lit(hour is not None), pl.lit("no arrival time: request_received_ts is missing")
    )
    wall = Rule(clock.is_null() | (clock >= _UNIX_S), pl.lit("request_received_ts is of a monotonic clock, not a time"))
    late = Rule(clock.is_null() | arrival.rules[-1].holds, arrival.rules[-1].reason)
    finish = pl.col("finish").str.to_lowercase()
    left = pl.when(pl.col("status").is_null()).then(pl.lit("cancelled")).otherwise(of_status(pl.col("status")))
    said = pl.when(finish == "abort").then(left).when(finish == "error").then(pl.lit("failed")).otherwise(pl.lit("ok"))
    osl = whole("osl_tokens", "completion_tokens", least=0)
    end = ended(said, osl.value)
    # As of a start at 1970, whatever start_at is: these are Unix times.
    unix = (pl.col("received").cast(pl.Float64, strict=False) * 1e6).round(0).cast(pl.Int64, strict=False)
    readings = [
        Reading(
            "arrival_at",
            pl.coalesce(unix.cast(pl.Datetime("us")), pl.lit(hour, pl.Datetime("us"))),
            (there, wall, late),
        ),
        above_zero(whole("isl_tokens", "prompt_tokens", least=0), unless=~end.value.is_in(["ok"])),
        osl,
        whole("cached_tokens", "cached_tokens", least=0, required=False),
        *(
            quantity(column, cell, most=MAX_SECONDS, scale=1_000)
            for column, cell in (("ttft_ms", "ttft"), ("e2e_ms", "e2e"), ("queue_ms", "queue"))
        ),
        *(
            text(column, cell)
            for column, cell in (
                *(("request_id", "id"), ("model", "model"), ("adapter", "lora")),
                *(("session_id", "session"), ("finish_reason", "finish")),
            )
        ),
        whole("max_tokens", "max_new_tokens", least=0, required=False),
        quantity("temperature", "temperature", most=1_000),
        quantity("top_p", "top_p", most=1_000),
        whole("samples", "n", least=0, required=False),
        *(
            Reading(column, truth(cell))
            for column, cell in (
                *(("streaming", "stream"), ("logprobs", "logprob"), ("structured_output", "structured")),
                *(("speculative", "speculative"), ("multimodal", "media")),
            )
        ),
        end,
        censored(finish, end.value),
    ]
    notes = ["times in s, Unix, UTC", "latencies in s", "prompts are not read"]
    if hour is not None:
        notes.append(f"a row without a time stands at the hour of the file's name ({options.timezone})")
    return readings, notes


SGLANG = Layout(
    "sglang",
    "SGLang request log",
    required=("received", "prompt_tokens", "completion_tokens", "cached_tokens", "ttft", "e2e", "queue"),
    optional=(
        *("id", "finish", "status", "model", "lora", "session", "max_new_tokens", "temperature", "top_p", "n"),
        *("stream", "logprob", "structured", "speculative", "media"),
    ),
    readings=_readings,
    heeds=("timezone",),
    containers=("json",),
    records=_records,
    recognises=_recognises,
    private=True,
)
