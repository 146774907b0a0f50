"""OpenTelemetry gen_ai spans: what clients and gateways say of their model calls, in all namings so far.

https://github.com/open-telemetry/semantic-conventions-genai. `usage.prompt_tokens`/`completion_tokens` became
`input_tokens`/`output_tokens`, `system` became `provider.name`; both stand in one file while services upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.arrivals import written
from pipelines.sources.columns import MAX_SECONDS, Reading, above_zero, quantity, text, truth, whole
from pipelines.sources.delivered import deliveries, once
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import censored, ended, of_status
from pipelines.sources.spans import Span, sampled, spans

_GENERATES = ("chat", "text_completion", "completion", "generate_content")
_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
)
_OUTPUT = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
)
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)


def _is_request(span: Span) -> bool:
    operation = span.first("gen_ai.operation.name")
    if operation is not None:
        return operation in _GENERATES
    return span.first(*_INPUT, *_OUTPUT) is not None


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    return any(_is_request(span) for span in sampled(objects))


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    for span in spans(value):
        if isinstance(span, str):
            yield span
        elif not _is_request(span):
            yield span.aside
        else:
            reasons = span.first("gen_ai.response.finish_reasons", "llm.finish_reason")
            yield {
                "span": span.identity,
                "start": span.start,
                "input_tokens": span.first(*_INPUT),
                "output_tokens": span.first(*_OUTPUT),
                "cached_tokens": span.first(*_CACHED),
                "duration_ms": span.duration_ms,
                "ttft_s": span.first("gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token"),
                "model": span.first("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
                "request_id": span.first("gen_ai.response.id", "gen_ai.request.id") or span.span_id or None,
                "session_id": span.first("gen_ai.conversation.id", "session.id"),
                "tenant": span.first("enduser.id", "user.id") or span.service,
                "finish_reason": reasons[0] if isinstance(reasons, list) and reasons else reasons,
                "max_tokens": span.first("gen_ai.request.max_tokens"),
                "temperature": span.first("gen_ai.request.temperature"),
                "top_p": span.first("gen_ai.request.top_p"),
                "n": span.first("gen_ai.request.choice.count"),
                "stream": span.first("gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming"),
                "output_type": span.first("gen_ai.output.type", "gen_ai.openai.request.response_format"),
                "error": span.first("error.type", "http.response.status_code") or ("error" if span.failed else None),
            }


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    error = pl.col("error").cast(pl.String)
    status = error.cast(pl.Float64, strict=False)
    left = error.str.to_lowercase().str.contains(r"cancel|abort|disconnect")
    limited = error.str.to_lowercase().str.contains(r"rate_?limit|overload|too_?many")
    said = (
        pl.when(error.is_null())
        .then(pl.lit("ok"))
        .when(status.is_not_null())
        .then(of_status(error))
        .when(left)
        .then(pl.lit("cancelled"))
        .when(limited)
        .then(pl.lit("rejected"))
        .otherwise(pl.lit("failed"))
    )
    osl = whole("osl_tokens", "output_tokens", least=0, required=False)
    end = ended(said, osl.value)
    failed = ~end.value.is_in(["ok", "unknown"])
    structured = pl.col("output_type").str.contains("json", literal=True)
    readings = [
        once("span", "span"),
        *written("start", cells["start"], options),
        above_zero(whole("isl_tokens", "input_tokens", least=0, required=False), unless=failed),
        osl,
        whole("cached_tokens", "cached_tokens", least=0, required=False),
        quantity("e2e_ms", "duration_ms", most=MAX_SECONDS * 1_000),
        quantity("ttft_ms", "ttft_s", most=MAX_SECONDS, scale=1_000),
        *(text(name, name) for name in ("model", "request_id", "session_id", "tenant", "finish_reason")),
        whole("max_tokens", "max_tokens", least=0, required=False),
        quantity("temperature", "temperature", most=1_000),
        quantity("top_p", "top_p", most=1),
        whole("samples", "n", least=0, required=False),
        Reading("streaming", truth("stream")),
        Reading("structured_output", structured),
        end,
        censored(pl.col("finish_reason"), end.value),
    ]
    return readings, [
        "start of a span is the arrival at the client (Unix ns, UTC)",
        "old and new usage names",
        "tenant: the end user, else the service that asked",
        "lines count spans",
    ]


OTEL_GENAI = Layout(
    "otel_genai",
    "OpenTelemetry gen_ai spans",
    required=("span", "start", "input_tokens", "output_tokens"),
    optional=(
        *("cached_tokens", "duration_ms", "ttft_s", "model", "request_id", "session_id", "tenant", "finish_reason"),
        *("max_tokens", "temperature", "top_p", "n", "stream", "output_type", "error"),
    ),
    readings=_readings,
    containers=("json",),
    records=_records,
    recognises=_recognises,
    numbered=True,
    prepare=deliveries("span"),
)
