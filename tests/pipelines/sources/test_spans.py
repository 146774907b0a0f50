"""Spans of engines and clients: in every naming, in whatever holds them, counted once however often delivered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.sources.examples import CHAT, NS, VLLM, otlp, span
from tests.pipelines.sources.reading import read, row, says


def test_a_vllm_span_left_at_its_output_limit_is_cut_and_a_failed_one_failed(tmp_path: Path) -> None:
    cut = row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM | {"gen_ai.request.max_tokens": 40})))
    says(cut, censored="output_cap", temperature=0.0, replayable=True)
    says(row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM, code=2))), outcome="failed", replayable=False)


def test_an_engine_that_says_more_in_its_spans_is_read_whole(tmp_path: Path) -> None:
    more = {"gen_ai.usage.cached_tokens": 128, "gen_ai.response.finish_reasons": "length"}
    found = row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM | more)))
    says(found, cached_tokens=128, finish_reason="length", censored="output_cap", queue_ms=50.0, ttft_ms=250.0)
    says(row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM))), cached_tokens=None, finish_reason=None, censored=None)


def test_beside_an_engines_spans_those_of_its_clients_are_set_aside_not_counted_twice(tmp_path: Path) -> None:
    both = otlp(span("llm_request", NS, 2.5, VLLM), span("chat m", NS, 2.6, CHAT), span("GET /health", NS, 0.1, {}))
    got = read(tmp_path, both)
    assert (got.format, got.frame.height) == ("vllm_otlp", 1)
    assert got.rejected.select("line", "reason").rows() == [
        (2, "not a request: span 'chat m'"),
        (3, "not a request: span 'GET /health'"),
    ]
    assert got.broken_rows == 0


OLD = {"gen_ai.system": "openai", "gen_ai.usage.prompt_tokens": 300, "gen_ai.usage.completion_tokens": 40}
NAMINGS = {
    "now": CHAT,
    "before 2025": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"} | OLD,
    "without an operation": {"gen_ai.request.model": "m"} | OLD,
    "OpenLLMetry": {
        "gen_ai.request.model": "m",
        "llm.usage.prompt_tokens": 300,
        "llm.usage.completion_tokens": 40,
    },
    "OpenInference": {"llm.model_name": "m", "llm.token_count.prompt": 300, "llm.token_count.completion": 40},
}


@pytest.mark.parametrize("naming", NAMINGS)
def test_a_clients_span_is_read_in_every_naming(tmp_path: Path, naming: str) -> None:
    found = row(tmp_path, otlp(span("chat m", NS, 2.5, NAMINGS[naming])), format="otel_genai")
    says(found, isl_tokens=300, osl_tokens=40, model="m", e2e_ms=2_500.0, outcome="ok")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("429", "rejected"),
        ("500", "failed"),
        ("timeout", "failed"),
        ("CancelledError", "cancelled"),
        ("RateLimitError", "rejected"),
    ],
)
def test_a_clients_error_says_how_it_ended(tmp_path: Path, error: str, outcome: str) -> None:
    found = row(tmp_path, otlp(span("chat m", NS, 2.5, CHAT | {"error.type": error}, code=2)))
    assert found["outcome"] == outcome


def test_what_is_no_generation_is_set_aside(tmp_path: Path) -> None:
    tool = span("execute_tool x", NS, 1.0, {"gen_ai.operation.name": "execute_tool"})
    embedding = span("embeddings m", NS, 1.0, CHAT | {"gen_ai.operation.name": "embeddings"})
    got = read(tmp_path, otlp(span("chat m", NS, 2.5, CHAT), tool, embedding))
    assert got.frame["line"].to_list() == [1]
    assert got.rejected["reason"].str.starts_with("not a request").all()


def test_spans_are_found_in_whatever_holds_them(tmp_path: Path) -> None:
    said = span("chat m", NS, 2.5, CHAT)
    jaeger = {
        "data": [
            {
                "traceID": "a",
                "spans": [
                    {
                        "operationName": "chat m",
                        "spanID": "b",
                        "startTime": NS // 1000,
                        "duration": 2_500_000,
                        "tags": [{"key": key, "type": "string", "value": value} for key, value in CHAT.items()],
                    }
                ],
            }
        ]
    }
    console = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-08-03T09:00:00.000000Z",
        "end_time": "2026-08-03T09:00:02.500000Z",
        "status": {"status_code": "UNSET"},
        "attributes": CHAT,
    }
    forms = {
        "one line": otlp(said),
        "a pretty document": json.dumps(json.loads(otlp(said)), indent=1),
        "a list of requests": json.dumps([json.loads(otlp(said))]),
        "Jaeger": json.dumps(jaeger),
        "the console": json.dumps(console),
        "the console, pretty": json.dumps(console, indent=4),
    }
    expected = None
    for form, text in forms.items():
        got = read(tmp_path, text, "spans.json").frame.drop("request_id")
        expected = got if expected is None else expected
        assert got.equals(expected), form
        assert got.height == 1


def test_who_asked_is_the_end_user_or_else_the_service_that_wrote_the_span(tmp_path: Path) -> None:
    said = span("chat m", NS, 2.5, CHAT)
    named = {"attributes": [{"key": "service.name", "value": {"stringValue": "chat-bff"}}]}
    held = {"resourceSpans": [{"resource": named, "scopeSpans": [{"spans": [said]}]}]}
    process = {"p1": {"serviceName": "chat-bff"}}
    tags = [{"key": key, "value": value} for key, value in CHAT.items()]
    jaeger = {"operationName": "chat m", "startTime": NS // 1000, "duration": 5, "processID": "p1", "tags": tags}
    flat = {"name": "chat m", "context": {}, "start_time": "2026-08-03T09:00:00Z", "attributes": CHAT}
    resource = {"attributes": {"service.name": "chat-bff"}}
    for value in (held, {"data": [{"spans": [jaeger], "processes": process}]}, flat | {"resource": resource}):
        says(row(tmp_path, value), tenant="chat-bff")
    says(row(tmp_path, otlp(said)), tenant=None)
    says(row(tmp_path, flat | {"resource": {"attributes": {"service.name": "unknown_service:python"}}}), tenant=None)
    user = span("chat m", NS, 2.5, CHAT | {"enduser.id": "alice"})
    says(row(tmp_path, {"resourceSpans": [{"resource": named, "scopeSpans": [{"spans": [user]}]}]}), tenant="alice")


def test_a_span_delivered_again_is_counted_once_wherever_in_the_file_it_stands(tmp_path: Path) -> None:
    """Exporters send a batch again when no answer came: the very same spans, in a batch of others."""
    for format, name, told in (("vllm_otlp", "llm_request", VLLM), ("otel_genai", "chat m", CHAT)):
        one, two, three = (span(name, NS + at * 10**9, 2.5, told) for at in range(3))
        lines = [otlp(one, two), otlp(two, three), otlp(one)]
        document = json.dumps([json.loads(line) for line in lines])
        for text in ("\n".join(lines), document):
            got = read(tmp_path, text)
            assert (got.format, got.rows_read, got.frame["line"].to_list()) == (format, 5, [1, 2, 4])
            assert got.rejected.select("line", "reason").rows() == [
                (line, f"not a request of its own: span {'a' * 32}/{again['spanId']} was delivered before")
                for line, again in ((3, two), (5, one))
            ]
            assert got.broken_rows == 0


def test_spans_without_ids_are_never_taken_for_one_another(tmp_path: Path) -> None:
    for ids in ({"traceId": "", "spanId": ""}, {"traceId": "0" * 32, "spanId": "0" * 16}):
        got = read(tmp_path, otlp(*(span("chat m", NS, 2.5, CHAT) | ids for _ in range(3))))
        assert got.frame.height == 3


def test_reading_a_file_twice_takes_none_of_its_spans_for_delivered_before(tmp_path: Path) -> None:
    text = otlp(span("chat m", NS, 2.5, CHAT))
    assert read(tmp_path, text).frame.equals(read(tmp_path, text).frame)
