"""What each producer says of a request beyond its lengths arrives where it belongs, in each spelling it has had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.sources import SourceError, SourceRead, read_trace
from tests.pipelines.sources.examples import (
    CHAT,
    EXAMPLES,
    GATEWAY,
    LITELLM_HEADER,
    LITELLM_ROW,
    NS,
    SGLANG,
    VLLM,
    WEKA,
    otlp,
    span,
)


def read(folder: Path, text: str, name: str = "t.jsonl", format: str = "auto", **options: object) -> SourceRead:
    (folder / name).write_text(text, encoding="utf-8")
    got = read_trace(folder / name, name, format, options)
    assert got.rows_read == got.frame.height + got.rejected.height
    return got


def row(folder: Path, value: object, format: str = "auto") -> dict[str, Any]:
    """The one request of a JSON line."""
    got = read(folder, value if isinstance(value, str) else json.dumps(value), format=format)
    assert got.frame.height == 1, got.rejected["reason"].to_list()
    return got.frame.row(0, named=True)


def says(found: dict[str, Any], **expected: object) -> None:
    assert {name: found[name] for name in expected} == expected


def test_a_vllm_span_left_at_its_output_limit_is_cut_and_a_failed_one_failed(tmp_path: Path) -> None:
    cut = row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM | {"gen_ai.request.max_tokens": 40})))
    says(cut, censored="output_cap", temperature=0.0, replayable=True)
    says(row(tmp_path, otlp(span("llm_request", NS, 2.5, VLLM, code=2))), outcome="failed", replayable=False)


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


def test_sglangs_log_says_all_it_knows_and_never_the_prompt(tmp_path: Path) -> None:
    got = read(tmp_path, json.dumps(SGLANG))
    says(
        got.frame.row(0, named=True),
        **{"isl_tokens": 300, "cached_tokens": 128, "ttft_ms": 250.0, "e2e_ms": 2_500.0, "queue_ms": 50.0},
        **{"adapter": "tuned", "streaming": True, "structured_output": True, "temperature": 0.5, "max_tokens": 40},
        **{"finish_reason": "length", "censored": "output_cap", "outcome": "ok", "request_id": "r1"},
    )
    broken = read(tmp_path, json.dumps(SGLANG | {"prompt_tokens": "=1+1"}) + "\n" + json.dumps(SGLANG))
    assert broken.rejected.height == 1
    assert "secret" not in str(broken.rejected["raw"].to_list())


def test_sglangs_other_log_has_two_lines_a_request_of_which_the_second_counts(tmp_path: Path) -> None:
    meta = {key: value for key, value in SGLANG.items() if key != "request_parameters"}
    lines = [
        {"timestamp": "x", "event": "request.received", "rid": "r1", "obj": {"text": "secret"}},
        {
            "timestamp": "x",
            "event": "request.finished",
            "rid": "r1",
            "obj": {"stream": False},
            "out": {"meta_info": meta},
        },
    ]
    got = read(tmp_path, "\n".join(map(json.dumps, lines)))
    assert (got.format, got.frame["line"].to_list(), got.broken_rows) == ("sglang", [2], 0)
    assert got.rejected["reason"].to_list() == ["not a request: log event 'request.received'"]


def test_sglangs_rows_without_a_time_stand_at_the_hour_of_the_files_name(tmp_path: Path) -> None:
    untimed = json.dumps({key: value for key, value in SGLANG.items() if not key.endswith("_ts")})
    name = "sglang-request-metrics-20260803_17.log"
    got = read(tmp_path, untimed, name, timezone="Asia/Shanghai")
    assert got.frame["arrival_at"].dt.to_string("%F %T").to_list() == ["2026-08-03 09:00:00"]
    assert "stands at the hour of the file's name (Asia/Shanghai)" in got.detail
    assert read(tmp_path, untimed).rejected["reason"].to_list() == ["no arrival time: request_received_ts is missing"]


@pytest.mark.parametrize(
    ("finish", "outcome"),
    [
        ({"type": "stop", "matched": 2}, "ok"),
        ({"type": "abort", "message": "client left"}, "cancelled"),
        ({"type": "abort", "message": "queue full", "status_code": 503}, "rejected"),
        ({"type": "abort", "message": "bad input", "status_code": 400}, "failed"),
    ],
)
def test_sglangs_finish_reason_says_how_it_ended(tmp_path: Path, finish: object, outcome: str) -> None:
    assert row(tmp_path, SGLANG | {"finish_reason": finish})["outcome"] == outcome


def test_a_spend_logs_failures_hits_and_other_calls_are_told_apart(tmp_path: Path) -> None:
    limited = json.dumps({"status": "failure", "error_information": {"error_code": "429"}}).replace('"', '""')
    rows = [
        LITELLM_ROW + ",",
        LITELLM_ROW.replace(",300,40,", ",0,0,").replace(",success", ",failure") + ",",
        LITELLM_ROW.replace(",300,40,", ",0,0,").replace(",success", ",failure") + f',"{limited}"',
        LITELLM_ROW.replace("acompletion", "aembedding") + ",",
        LITELLM_ROW.replace("09:00:00.750Z", "09:00:03.000Z") + ",",
    ]
    got = read(tmp_path, "\n".join([LITELLM_HEADER + ",metadata", *rows]), "spend.csv")
    assert got.frame.select("line", "outcome", "replayable", "streaming", "ttft_ms").sort("line").rows() == [
        (2, "ok", True, True, 250.0),
        (3, "failed", False, True, 250.0),
        (4, "rejected", False, True, 250.0),
        (6, "ok", True, False, None),
    ]
    assert got.rejected["reason"].to_list() == ["not a request: call_type 'aembedding' generates no tokens"]


def test_a_spend_log_as_an_api_answers_it_is_one_list(tmp_path: Path) -> None:
    names = LITELLM_HEADER.split(",")
    record = dict(zip(names, LITELLM_ROW.split(","), strict=True)) | {
        "prompt_tokens": 300,
        "completion_tokens": 40,
        "cache_hit": False,
        "metadata": {"additional_usage_values": {"cache_read_input_tokens": 64}},
        "messages": {"content": "a secret prompt"},
    }
    got = read(tmp_path, json.dumps([record, record | {"prompt_tokens": -1}], indent=2), "spend.json")
    says(got.frame.row(0, named=True), isl_tokens=300, cached_tokens=64, outcome="ok", tenant="team-a")
    assert got.rejected.height == 1
    assert "secret" not in got.rejected["raw"][0]


GATEWAYS: dict[str, dict[str, object]] = {
    "nginx, written at the end": {
        "time_iso8601": "2026-08-03T17:00:03+08:00",
        "status": "200",
        "request_time": "2.500",
        "uri": "/v1/chat/completions",
        "prompt_tokens": 300,
        "completion_tokens": 40,
    },
    "Unix milliseconds": {
        "ts": 1_785_747_600_500,
        "status_code": 200,
        "latency_ms": 2500,
        "model": "m",
        "input_tokens": 300,
        "output_tokens": 40,
    },
    "a word for a status, units on durations": {
        "timestamp": "2026-08-03T09:00:00.500Z",
        "status": "success",
        "duration": "2.5s",
        "usage": {"input_tokens": 300, "output_tokens": 40},
    },
    "Kong": {
        "started_at": 1_785_747_600_500,
        "response": {"status": 200},
        "latencies": {"request": 2500},
        "model": "m",
        "usage": {"prompt_tokens": 300, "completion_tokens": 40},
    },
}


@pytest.mark.parametrize("kind", GATEWAYS)
def test_gateways_of_many_makes_are_read(tmp_path: Path, kind: str) -> None:
    got = read(tmp_path, json.dumps(GATEWAYS[kind]))
    assert got.format == "gateway"
    says(got.frame.row(0, named=True), isl_tokens=300, osl_tokens=40, e2e_ms=2_500.0, outcome="ok", replayable=True)
    assert got.frame["arrival_at"].dt.to_string("%F %T%.3f").to_list() == ["2026-08-03 09:00:00.500"]


def test_a_gateways_calls_that_generate_nothing_are_set_aside(tmp_path: Path) -> None:
    rows = [GATEWAY, GATEWAY | {"path": "/v1/embeddings"}, GATEWAY | {"path": "/health?full=1"}]
    got = read(tmp_path, "\n".join(map(json.dumps, rows)))
    assert (got.frame.height, got.rejected.height, got.broken_rows) == (1, 2, 0)


def test_aiperfs_delayed_turns_follow_the_turn_before_and_texts_need_a_declared_length(tmp_path: Path) -> None:
    rows = [
        {"session_id": "a", "timestamp": 1_000, "input_length": 300, "output_length": 40},
        {"session_id": "a", "delay": 2_500, "text_input": "x" * 400, "output_length": 40},
        {"session_id": "b", "delay": 10, "input_length": 5},
        {"timestamp": 5_000.5, "payload": {"messages": [{"role": "user", "content": "y" * 80}], "max_tokens": 50}},
        {"timestamp": 1, "input_length": 3, "messages": []},
    ]
    text = "\n".join(map(json.dumps, rows))
    got = read(tmp_path, text)
    assert got.format == "aiperf"
    assert got.frame.select("line", pl.col("arrival_at").dt.epoch("us"), "isl_tokens", "max_tokens").rows() == [
        (1, 1_000_000, 300, None),
        (2, 3_500_000, None, None),
        (4, 5_000_500, None, 50),
    ]
    assert got.rejected.select("line", "reason").rows() == [
        (3, "delay, but no turn of its session stands before it"),
        (5, "2 of input_length, text_input, messages, payload; a row has exactly one"),
    ]
    declared = read(tmp_path, text, characters_per_token=4)
    assert declared.frame["isl_tokens"].to_list() == [300, 100, 20]
    assert "1 token a 4 characters (declared)" in declared.detail


def test_aiperfs_rows_need_neither_times_nor_hashes(tmp_path: Path) -> None:
    assert read(tmp_path, '{"input_length": 10, "hash_ids": [123]}').format == "aiperf"
    assert read(tmp_path, '{"text_input": "Hello", "output_length": 4}').format == "aiperf"
    assert read(tmp_path, '{"timestamp": 0, "input_length": 10, "output_length": 4}').format == "aiperf"


def test_prompts_without_times_get_them_only_at_a_declared_rate(tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"prompt": "x" * 40, "output_tokens": 9}) for _ in range(500))
    bare = read(tmp_path, text)
    assert bare.frame["arrival_at"].n_unique() == 1
    assert not bare.frame["replayable"].any()
    told = read(tmp_path, text, rate_rps=5.0, characters_per_token=4.0, seed=1)
    assert 75 < told.frame["arrival_at"].dt.epoch("s").to_list()[-1] < 130
    assert told.frame["isl_tokens"].unique().to_list() == [10]
    assert told.frame["replayable"].all()
    assert "Poisson at 5 requests/s (declared, seed 1)" in told.detail


def test_unsigned_hashes_keep_telling_prefixes_apart(tmp_path: Path) -> None:
    ids = [2**64 - 1, 2**63]
    rows = [{"timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": ids[:2]} for _ in range(2)]
    first, second = read(tmp_path, "\n".join(map(json.dumps, rows)), format="mooncake").frame["prefix_hashes"].to_list()
    assert first == second
    assert len(set(first)) == 2


def test_wekas_local_hashes_are_shared_within_a_conversation_only(tmp_path: Path) -> None:
    request = json.loads(json.dumps(WEKA))["requests"]
    twice = WEKA | {"requests": request * 2}
    got = read(tmp_path, "\n".join(map(json.dumps, (twice, WEKA | {"id": "other"}))))
    first, second, other = got.frame.sort("line")["prefix_hashes"].to_list()
    assert first == second
    assert not set(first) & set(other)
    shared = read(tmp_path, "\n".join(json.dumps(WEKA | {"id": i, "hash_id_scope": "global"}) for i in "ab"))
    assert shared.frame["prefix_hashes"].to_list() == [[1, 2, 3, 4]] * 2


NESTED = [{"at": "2026-08-03T09:00:00Z", "use": {"in": 300, "out": 40}, "http": 200, "who": "a", "took": 2.5}]
DECLARED = {
    "arrival_at": "at",
    "isl_tokens": "use.in",
    "osl_tokens": "use.out",
    "status_code": "http",
    "tenant": "who",
    "e2e_s": "took",
}


def test_a_mapped_file_is_read_from_json_csv_and_parquet_alike(tmp_path: Path) -> None:
    flat = pl.DataFrame(NESTED).unnest("use")
    flat.write_csv(tmp_path / "t.csv")
    flat.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, NESTED)))
    expected = {"isl_tokens": 300, "osl_tokens": 40, "outcome": "ok", "tenant": "a", "e2e_ms": 2_500.0}
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        columns = DECLARED if name == "t.jsonl" else {key: path.split(".")[-1] for key, path in DECLARED.items()}
        got = read_trace(tmp_path / name, name, "auto", {"columns": columns})
        assert got.format == "mapped"
        says(got.frame.row(0, named=True), **expected)
        assert "isl_tokens from " in got.detail


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "no column is named"),
        ({"isl": "in"}, "columns names 'isl', which is none of"),
        ({"isl_tokens": "gone"}, "has no column 'gone'"),
        ({"isl_tokens": "in.tokens"}, "has no column 'in.tokens'"),
        ({"isl_tokens": "in", "osl_tokens": "in"}, "names 'in' for two things"),
        ({"isl_tokens": "in", "arrival_s": "when"}, "columns does not name osl_tokens"),
        ({"isl_tokens": "in", "osl_tokens": "out"}, "columns does not name arrival_at or arrival_s"),
    ],
)
def test_a_wrong_mapping_is_told_by_name(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, EXAMPLES["mapped"].text, "t.csv", "mapped", columns=columns)


def test_features_and_sampling_of_a_mapped_file_are_kept(tmp_path: Path) -> None:
    flags = ("streaming", "structured_output", "logprobs", "speculative", "multimodal")
    record = {
        "arrival_s": 1,
        "isl_tokens": 300,
        "osl_tokens": 40,
        "temperature": 0.5,
        "deadline_ms": 9_000,
        "adapter": "l",
    }
    found = row(tmp_path, record | dict.fromkeys(flags, True))
    says(found, temperature=0.5, deadline_ms=9_000.0, adapter="l", **dict.fromkeys(flags, True))
    pl.DataFrame([record | dict.fromkeys(flags, True)]).write_parquet(tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet", "t").frame.select(flags).row(0) == (True,) * 5


def test_images_of_a_multimodal_trace_are_counted(tmp_path: Path) -> None:
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15T12:00:00Z,0,7,4\n2024-10-15T12:00:05Z,2,9,1\n"
    got = read(tmp_path, text, "t.csv").frame
    assert got.select("media_items", "multimodal", "isl_tokens").rows() == [(0, False, 7), (2, True, 9)]
