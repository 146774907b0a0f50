"""Gateways' access logs as JSON: Envoy, nginx, Kong, Higress and their like, one object a request, ordered by end.

The keys are those that such logs use by default or in their own LLM plugins. A time with an offset is taken by it.
Usage is missing where a stream did not ask for it (`stream_options.include_usage`): it is kept without lengths.
429 and 503 were turned away, 499 is a client that left: none of them is a service time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl

from pipelines.sources.arrivals import written
from pipelines.sources.base import NOT_A_REQUEST, shown
from pipelines.sources.columns import MAX_SECONDS, Reading, above_zero, quantity, text, truth, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import ended, of_status

_START = ("start_time", "startTime", "started_at", "request_start_time", "timestamp", "@timestamp", "time", "ts")
_AT_END = ("time_iso8601", "time_local", "msec", "end_time", "endTime")
"""Times that a log writes when the request is over: its duration is taken off."""
_STATUS = ("response_code", "status_code", "http_status", "statusCode", "response.status", "status")
_MS = (
    "duration_ms",
    "latency_ms",
    "request_duration_ms",
    "response_time_ms",
    "duration",
    "latencies.request",
    "llm_service_duration",
)
_S = ("request_time", "duration_s", "latency_s", "duration_seconds")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": (
        *("usage.prompt_tokens", "usage.input_tokens", "prompt_tokens", "input_tokens", "input_token"),
        *("genai_input_tokens", "gen_ai.usage.input_tokens"),
    ),
    "completion_tokens": (
        *("usage.completion_tokens", "usage.output_tokens", "completion_tokens", "output_tokens", "output_token"),
        *("genai_output_tokens", "gen_ai.usage.output_tokens"),
    ),
    "cached_tokens": (
        *("usage.prompt_tokens_details.cached_tokens", "usage.input_tokens_details.cached_tokens"),
        *("usage.cache_read_input_tokens", "cached_tokens"),
    ),
    "ttft_ms": ("ttft_ms", "time_to_first_token_ms", "first_token_ms", "llm_first_token_duration"),
    "request_id": ("x_request_id", "request_id", "req_id", "id"),
    "model": ("request_model", "model", "response_model", "request.model"),
    "tenant": ("tenant", "team", "consumer", "consumer.username", "user", "user_id", "api_key_alias"),
    "session_id": ("session_id", "conversation_id", "x_session_id", "chat_id"),
    "adapter": ("adapter", "lora", "lora_adapter"),
    "stream": ("stream", "streaming", "is_stream"),
    "finish_reason": ("finish_reason",),
    "max_tokens": ("max_tokens", "max_completion_tokens", "request.max_tokens"),
    "temperature": ("temperature", "request.temperature"),
    "top_p": ("top_p", "request.top_p"),
    "samples": ("n", "request.n"),
    "queue_ms": ("queue_ms", "queue_time_ms", "queue_duration_ms", "queue_latency_ms"),
    "structured": ("response_format.type", "request.response_format.type", "structured_output"),
    "logprobs": ("logprobs", "request.logprobs"),
    "multimodal": ("multimodal", "has_images"),
    "media_items": ("num_images", "image_count"),
    "deadline_ms": ("deadline_ms", "timeout_ms", "request_timeout_ms", "x_envoy_expected_rq_timeout_ms"),
}
_WORDS = {
    **dict.fromkeys(("ok", "success", "succeeded", "completed"), 200),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "client_closed"), 499),
    **dict.fromkeys(("error", "failure", "failed", "timeout"), 500),
    **dict.fromkeys(("rejected", "rate_limited", "throttled"), 429),
}
_OTHER_PATHS = (
    "/embeddings",
    "/rerank",
    "/models",
    "/health",
    "/metrics",
    "/tokenize",
    "/moderations",
    "/ping",
    "/ready",
)


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    """A time, a status and a duration, usage or model: what every such log has, whatever else."""
    told = (*_MS, *_S, *_FIELDS["prompt_tokens"], *_FIELDS["model"])
    return any(
        _first(value, *_START, *_AT_END) is not None and _code(value) is not None and _first(value, *told) is not None
        for value in objects
    )


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    path = _first(value, "path", "uri", "request_path", "request_uri", "url", "request.uri")
    if isinstance(path, str) and any(other in path.split("?")[0] for other in _OTHER_PATHS):
        yield f"{NOT_A_REQUEST}: path {shown(path, 40)}"
        return
    lasts_ms, seconds = _first(value, *_MS), _first(value, *_S)
    lasts_ms = _in_ms(lasts_ms, 1) if lasts_ms is not None else _in_ms(seconds, 1_000)
    at = _first(value, *_START)
    start = _written(at) if at is not None else _before(_written(_first(value, *_AT_END)), lasts_ms)
    record = {name: _first(value, *keys) for name, keys in _FIELDS.items()}
    yield record | {"start": start, "status": _code(value), "duration_ms": lasts_ms}


def _first(value: Mapping[str, object], *names: str) -> object:
    """The first of the keys, or paths of keys, that holds something."""
    for name in names:
        held = value.get(name)
        if held is None:
            head, dot, rest = name.partition(".")
            inner = value.get(head) if dot else None
            if not isinstance(inner, dict):
                continue
            held = _first(inner, rest)
        if held not in (None, "", "-"):
            return held
    return None


def _code(value: Mapping[str, object]) -> object:
    """The HTTP status, or the one that a word stands for."""
    for name in _STATUS:
        held = _first(value, name)
        word = str(held).strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        if word.isascii() and word.isdigit() and len(word) <= 3:
            return int(word)
    return None


def _in_ms(lasts: object, per_unit: float) -> object:
    """A duration in ms; one that names its unit (1.5s, 1554ms) is taken by that; what is no number stays as it is."""
    text = str(lasts).strip().lower()
    for suffix, named in (("ms", 1.0), ("s", 1_000.0)):
        if text.endswith(suffix):
            text, per_unit = text.removesuffix(suffix), named
            break
    try:
        return float(text) * per_unit
    except ValueError:
        return lasts


def _written(at: object) -> object:
    """A time as text; a number, also in quotes, is Unix time in s, ms, us or ns, which its size tells apart.

    nginx writes `$msec` as "1785747600.123" and `$time_local` as "03/Aug/2026:17:00:00 +0800".
    """
    if isinstance(at, str):
        if re.fullmatch(r"[0-9]{9,19}(\.[0-9]{1,9})?", at):
            at = float(at)
        elif "/" in at:
            try:
                return datetime.strptime(at, "%d/%b/%Y:%H:%M:%S %z").isoformat()
            except ValueError:
                return at
    if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < 1e20:
        return at
    seconds = float(at)
    while seconds > 1e10:
        seconds /= 1_000
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def _before(end: object, lasts_ms: object) -> object:
    try:
        return (datetime.fromisoformat(str(end)) - timedelta(milliseconds=float(str(lasts_ms)))).isoformat()
    except (ValueError, OverflowError):
        return end


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    osl = whole("osl_tokens", "completion_tokens", least=0, required=False)
    end = ended(of_status(pl.col("status")), osl.value)
    readings = [
        *written("start", cells["start"], options),
        above_zero(whole("isl_tokens", "prompt_tokens", least=0, required=False), unless=~end.value.is_in(["ok"])),
        osl,
        whole("cached_tokens", "cached_tokens", least=0, required=False),
        quantity("e2e_ms", "duration_ms", most=MAX_SECONDS * 1_000),
        quantity("ttft_ms", "ttft_ms", most=MAX_SECONDS * 1_000),
        *(text(name, name) for name in ("request_id", "model", "tenant", "session_id", "adapter", "finish_reason")),
        *(whole(name, name, least=0, required=False) for name in ("max_tokens", "samples", "media_items")),
        *(quantity(name, name, most=MAX_SECONDS * 1_000) for name in ("deadline_ms", "queue_ms")),
        *(quantity(name, name, most=1_000) for name in ("temperature", "top_p")),
        Reading("streaming", truth("stream")),
        Reading("structured_output", pl.coalesce(truth("structured"), pl.col("structured").str.contains("json"))),
        Reading("logprobs", pl.coalesce(truth("logprobs"), pl.col("logprobs").cast(pl.Float64, strict=False) > 0)),
        Reading(
            "multimodal", pl.coalesce(truth("multimodal"), pl.col("media_items").cast(pl.Float64, strict=False) > 0)
        ),
        end,
    ]
    return readings, ["durations in ms", "requests without usage are kept without lengths"]


GATEWAY = Layout(
    "gateway",
    "gateway access log",
    required=("start", "status", "duration_ms", *_FIELDS),
    readings=_readings,
    heeds=("timezone",),
    containers=("json",),
    records=_records,
    recognises=_recognises,
    private=True,
)
