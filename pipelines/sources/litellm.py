"""LiteLLM's spend logs: the table LiteLLM_SpendLogs as CSV, JSON or Parquet, times in UTC.

https://github.com/BerriAI/litellm (schema.prisma). One row an attempt: retries and fallbacks are rows of their own.
`completionStartTime` is the end where nothing was streamed; an answer from LiteLLM's cache takes about 0 ms; failures
may have 0 tokens. Keys, prompts and answers are not read. `request_id` is the table's key: pages that were fetched
twice are counted once.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipelines.sources.arrivals import moment, ms_between, written
from pipelines.sources.base import NOT_A_REQUEST
from pipelines.sources.columns import MAX_SECONDS, Reading, Rule, above_zero, quantity, told, whole
from pipelines.sources.delivered import deliveries, once
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import ended, of_status

_GENERATES = (
    r"^(?:|_?a?(?:text_)?completion|a?responses|a?generate_content(?:_stream)?|(?:anthropic|a?claude)_messages)$"
)
_USAGE = "$.additional_usage_values"


def _metadata(path: str) -> pl.Expr:
    return pl.col("metadata").cast(pl.String).str.json_path_match(path)


def _filled(*cells: str) -> pl.Expr:
    """The first of text cells that is neither empty nor None."""
    words = (pl.col(cell).cast(pl.String) for cell in cells)
    return pl.coalesce(pl.when(~word.is_in(["", "None", "null"])).then(word) for word in words)


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    start = moment("startTime", cells["startTime"], options)[0]
    osl = whole("osl_tokens", "completion_tokens", least=0)
    said = pl.lit("ok")
    if "metadata" in cells:
        code = pl.coalesce(_metadata("$.error_information.error_code"), _metadata("$.error_information.status_code"))
    else:
        code = pl.lit(None, pl.String)
    told_status = [pl.col("status").cast(pl.String)] if "status" in cells else []
    told_status += [_metadata("$.status")] if "metadata" in cells else []
    if told_status:  # before the column there was, it stood in the metadata
        badly = of_status(code).replace({"ok": "failed", "unknown": "failed"})
        failed = pl.coalesce(pl.when(word != "").then(word) for word in told_status).str.to_lowercase()
        said = pl.when(failed.is_in(["failure", "error"])).then(badly).otherwise(said)
    if "cache_hit" in cells:
        hit = pl.col("cache_hit").cast(pl.String).str.to_lowercase() == "true"
        said = pl.when(hit.fill_null(value=False)).then(pl.lit("cache_hit")).otherwise(said)
    end = ended(said, osl.value)
    # Before the lengths, so that an embedding is told as what it is and not as a broken row.
    readings = [once("request_id", "request_id"), *written("startTime", cells["startTime"], options)]
    if "call_type" in cells:
        generates = pl.col("call_type").cast(pl.String).fill_null("").str.contains(_GENERATES)
        reason = pl.format("{}: {}", pl.lit(NOT_A_REQUEST), told("call_type", "generates no tokens"))
        readings.insert(0, Reading("_call", pl.lit(None, pl.Boolean), (Rule(generates, reason),)))
    isl = above_zero(whole("isl_tokens", "prompt_tokens", least=0), unless=~end.value.is_in(["ok"]))
    readings += [isl, osl, end, Reading("request_id", _filled("request_id"))]
    readings += _latencies(cells, options, start)
    if "metadata" in cells:
        cached = pl.coalesce(
            _metadata(f"{_USAGE}.prompt_tokens_details.cached_tokens"),
            _metadata(f"{_USAGE}.cache_read_input_tokens"),
            _metadata("$.usage_object.prompt_tokens_details.cached_tokens"),
        )
        readings.append(Reading("cached_tokens", cached.cast(pl.Int64, strict=False).clip(0)))
    for column, names in (
        ("model", ("model", "model_group")),
        ("tenant", ("team_id", "organization_id", "user", "end_user")),
        ("session_id", ("session_id",)),
    ):
        there = [name for name in names if name in cells]
        if there:
            readings.append(Reading(column, _filled(*there)))
    return readings, ["times in UTC", "rows are attempts: retries and fallbacks count"]


def _latencies(cells: Cells, options: TraceOptions, start: pl.Expr) -> list[Reading]:
    found = []
    end = moment("endTime", cells["endTime"], options)[0] if "endTime" in cells else None
    if "request_duration_ms" in cells:
        lasts = quantity("e2e_ms", "request_duration_ms", most=MAX_SECONDS * 1_000)
        value = lasts.value if end is None else pl.coalesce(lasts.value, ms_between(start, end))
        found.append(Reading("e2e_ms", value, lasts.rules))
    elif end is not None:
        found.append(Reading("e2e_ms", ms_between(start, end)))
    if "completionStartTime" in cells and end is not None:
        first = moment("completionStartTime", cells["completionStartTime"], options)[0]
        streamed = first < end
        found += [
            Reading("ttft_ms", pl.when(streamed).then(ms_between(start, first))),
            Reading("streaming", streamed),
        ]
    return found


LITELLM = Layout(
    "litellm",
    "LiteLLM spend log",
    required=("request_id", "startTime", "prompt_tokens", "completion_tokens"),
    optional=(
        *("endTime", "completionStartTime", "request_duration_ms", "call_type", "status", "cache_hit", "metadata"),
        *("model", "model_group", "team_id", "organization_id", "user", "end_user", "session_id"),
    ),
    readings=_readings,
    heeds=("timezone",),
    containers=("csv", "json", "parquet"),
    loose=("cache_hit", "metadata"),
    prepare=deliveries("request_id"),
    private=True,
)
