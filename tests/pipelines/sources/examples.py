"""A small sound file of every trace format, in its producer's own spelling, for tests that hold for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A file of a format: its rows one a line, the header (if any) apart, and options it needs to be read."""

    name: str
    rows: tuple[str, ...]
    header: str = ""
    options: dict[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The whole file."""
        return "\n".join(line for line in (self.header, *self.rows) if line) + "\n"


_IDS = count(1)


def span(
    name: str, start_ns: int, seconds: float, attributes: Mapping[str, object], code: int = 0
) -> dict[str, object]:
    """A span as OTLP's JSON has it, with an id of its own."""
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}
    told = [
        {"key": key, "value": {kinds[type(value)]: str(value) if isinstance(value, int) else value}}
        for key, value in attributes.items()
    ]
    return {
        "traceId": "a" * 32,
        "spanId": f"{next(_IDS):016x}",
        "name": name,
        "kind": 2,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + round(seconds * 1e9)),
        "attributes": told,
        "status": {"code": code} if code else {},
    }


def otlp(*spans: dict[str, object]) -> str:
    """An export request that holds spans, on one line."""
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]})


NS = 1_785_747_600_000_000_000
"""2026-08-03 09:00:00 UTC."""
VLLM = {
    "gen_ai.latency.time_to_first_token": 0.25,
    "gen_ai.latency.e2e": 2.5,
    "gen_ai.latency.time_in_queue": 0.05,
    "gen_ai.usage.prompt_tokens": 300,
    "gen_ai.usage.completion_tokens": 40,
    "gen_ai.request.id": "cmpl-1",
    "gen_ai.request.max_tokens": 1024,
    "gen_ai.request.n": 1,
}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 300,
    "gen_ai.usage.output_tokens": 40,
}
SGLANG = {
    "request_parameters": json.dumps(
        {
            "rid": "r1",
            "text": "a secret prompt",
            "stream": True,
            "lora_path": "tuned",
            "sampling_params": {"max_new_tokens": 40, "temperature": 0.5, "json_schema": "{}"},
        }
    ),
    "id": "r1",
    "finish_reason": {"type": "length", "length": 40},
    "prompt_tokens": 300,
    "completion_tokens": 40,
    "cached_tokens": 128,
    "e2e_latency": 2.5,
    "queue_time": 0.05,
    "request_received_ts": 1_785_747_600.5,
    "prefill_finished_ts": 1_785_747_600.75,
}
LITELLM_HEADER = (
    "request_id,call_type,api_key,spend,total_tokens,prompt_tokens,completion_tokens,startTime,endTime,"
    "completionStartTime,model,team_id,cache_hit,session_id,status"
)
LITELLM_ROW = (
    "chatcmpl-1,acompletion,hash,0.1,340,300,40,2026-08-03T09:00:00.500Z,2026-08-03T09:00:03.000Z,"
    "2026-08-03T09:00:00.750Z,hosted_vllm/m,team-a,None,s1,success"
)
GATEWAY = {
    "start_time": "2026-08-03T17:00:00.500+08:00",
    "path": "/v1/chat/completions",
    "response_code": 200,
    "duration": 2500,
    "x_request_id": "g1",
    "request_model": "m",
    "stream": True,
    "ttft_ms": 250,
    "usage": {"prompt_tokens": 300, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 128}},
}
WEKA = {
    "id": "conversation-1",
    "block_size": 64,
    "hash_id_scope": "local",
    "requests": [{"t": 1.5, "type": "n", "model": "m", "in": 300, "out": 40, "hash_ids": [1, 2, 3, 4], "ttft": 0.25}],
}

EXAMPLES: dict[str, Example] = {
    "azure": Example(
        "t.csv",
        ("2026-08-03 09:00:00.1234567,300,40", "2026-08-03 09:00:01.1234567,301,41"),
        "TIMESTAMP,ContextTokens,GeneratedTokens",
    ),
    "burstgpt": Example(
        "t.csv",
        ("5,ChatGPT,300,40,340,API log", "6,GPT-4,301,41,342,API log"),
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    ),
    "mooncake": Example(
        "t.jsonl",
        tuple(f'{{"timestamp": {at}, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}}' for at in (0, 9)),
    ),
    "aiperf": Example(
        "t.jsonl",
        (
            '{"session_id": "a", "timestamp": 0, "input_length": 600, "output_length": 40, "hash_ids": [0, 1]}',
            '{"session_id": "a", "delay": 9, "input_length": 30, "output_length": 40}',
        ),
    ),
    "bailian": Example(
        "t.jsonl",
        (
            '{"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 33, "output_length": 40, '
            '"type": "text", "turn": 1, "hash_ids": [1, 2, 3]}',
            '{"chat_id": 2, "parent_chat_id": 1, "timestamp": 1.5, "input_length": 33, "output_length": 40, '
            '"type": "image", "turn": 2, "hash_ids": [1, 2, 4]}',
        ),
    ),
    "vllm_timed_trace": Example(
        "t.jsonl",
        tuple(
            f'{{"timestamp": {at}, "input_length": 33, "output_length": 4, "hash_ids": [1, 2, 3]}}' for at in (0.5, 1.5)
        ),
    ),
    "vllm_custom": Example("t.jsonl", ('{"prompt": "a secret prompt", "output_tokens": 40}', '{"prompt": "another"}')),
    "litellm": Example("t.csv", (LITELLM_ROW, LITELLM_ROW.replace("chatcmpl-1", "chatcmpl-2")), LITELLM_HEADER),
    "vllm_otlp": Example(
        "t.jsonl", (otlp(span("llm_request", NS, 2.5, VLLM)), otlp(span("llm_request", NS, 2.5, VLLM)))
    ),
    "otel_genai": Example("t.jsonl", (otlp(span("chat m", NS, 2.5, CHAT)), otlp(span("chat m", NS, 2.5, CHAT)))),
    "sglang": Example("t.log", (json.dumps(SGLANG), json.dumps(SGLANG))),
    "gateway": Example("t.jsonl", (json.dumps(GATEWAY), json.dumps(GATEWAY))),
    "weka": Example("t.jsonl", (json.dumps(WEKA), json.dumps(WEKA | {"id": "conversation-2"}))),
    "capsheet": Example("t.csv", ("0.5,300,40", "1.5,301,41"), "arrival_s,isl_tokens,osl_tokens"),
    "mapped": Example(
        "t.csv",
        ("500,300,40", "1500,301,41"),
        "when,in,out",
        {"columns": {"arrival_s": "when", "isl_tokens": "in", "osl_tokens": "out"}, "time_unit": "ms"},
    ),
}


def write(folder: Path, example: Example, content: bytes | None = None) -> Path:
    """The example as a file, or other content under its name."""
    path = folder / example.name
    path.write_bytes(example.text.encode() if content is None else content)
    return path
