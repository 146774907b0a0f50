"""vLLM's own spans (`--otlp-traces-endpoint`): one `llm_request` a request, with queue, prefill and decode times.

https://docs.vllm.ai (examples/online_serving/opentelemetry) and vllm/tracing: latencies in seconds, the old usage
names, the start is the arrival; temperature is left out when it is 0. The best source of per-request errors.
TensorRT-LLM writes the same attributes and the finish reason; engines derived from vLLM also cached tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from pipelines.sources.arrivals import written
from pipelines.sources.columns import MAX_SECONDS, Reading, quantity, text, whole
from pipelines.sources.delivered import deliveries, once
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import ended
from pipelines.sources.spans import Span, sampled, spans

_LATENCY = "gen_ai.latency."


def is_request(span: Span) -> bool:
    """Whether an engine wrote this span about a request."""
    return span.name == "llm_request" or _LATENCY + "e2e" in span.attributes


def _recognises(objects: Sequence[Mapping[str, object]]) -> bool:
    return any(is_request(span) for span in sampled(objects))


def _records(value: Mapping[str, object]) -> Iterator[Mapping[str, object] | str]:
    for span in spans(value):
        if isinstance(span, str):
            yield span
        elif not is_request(span):
            yield span.aside
        else:
            reasons = span.first("gen_ai.response.finish_reasons")
            yield {
                "span": span.identity,
                "start": span.start,
                "prompt_tokens": span.first("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
                "completion_tokens": span.first("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"),
                "time_to_first_token": span.first(_LATENCY + "time_to_first_token"),
                "e2e": span.first(_LATENCY + "e2e"),
                "time_in_queue": span.first(_LATENCY + "time_in_queue"),
                "request_id": span.first("gen_ai.request.id") or span.span_id or None,
                "model": span.first("gen_ai.response.model", "gen_ai.request.model"),
                "max_tokens": span.first("gen_ai.request.max_tokens"),
                "temperature": span.first("gen_ai.request.temperature") or 0,
                "top_p": span.first("gen_ai.request.top_p"),
                "n": span.first("gen_ai.request.n"),
                "cached_tokens": span.first("gen_ai.usage.cached_tokens", "gen_ai.usage.cache_read.input_tokens"),
                "finish_reason": reasons[0] if isinstance(reasons, list) and reasons else reasons,
                "failed": span.failed,
            }


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    osl = whole("osl_tokens", "completion_tokens", least=0)
    most = whole("max_tokens", "max_tokens", least=0, required=False)
    cut = (osl.value >= most.value).fill_null(value=False) | (pl.col("finish_reason") == "length").fill_null(
        value=False
    )
    said = pl.when(pl.col("failed") == "true").then(pl.lit("failed")).otherwise(pl.lit("ok"))
    readings = [
        once("span", "span"),
        *written("start", cells["start"], options),
        whole("isl_tokens", "prompt_tokens"),
        osl,
        quantity("ttft_ms", "time_to_first_token", most=MAX_SECONDS, scale=1_000),
        quantity("e2e_ms", "e2e", most=MAX_SECONDS, scale=1_000),
        quantity("queue_ms", "time_in_queue", most=MAX_SECONDS, scale=1_000),
        text("request_id", "request_id"),
        text("model", "model"),
        text("finish_reason", "finish_reason"),
        whole("cached_tokens", "cached_tokens", least=0, required=False),
        most,
        quantity("temperature", "temperature", most=1_000),
        quantity("top_p", "top_p", most=1),
        whole("samples", "n", least=0, required=False),
        ended(said, osl.value),
        Reading("censored", pl.when(cut).then(pl.lit("output_cap"))),
    ]
    return readings, [
        "start of a span is the arrival (Unix ns, UTC)",
        "latencies in s",
        "temperature left out is 0",
        "lines count spans",
    ]


VLLM_SPANS = Layout(
    "vllm_otlp",
    "vLLM request spans (OTLP)",
    required=("span", "start", "prompt_tokens", "completion_tokens", "time_to_first_token", "e2e", "time_in_queue"),
    optional=(
        "request_id",
        "model",
        "max_tokens",
        "temperature",
        "top_p",
        "n",
        "failed",
        "cached_tokens",
        "finish_reason",
    ),
    readings=_readings,
    containers=("json",),
    records=_records,
    recognises=_recognises,
    numbered=True,
    prepare=deliveries("span"),
)
