"""Logs of servers, gateways and proxies: what each says of a request beyond its lengths, in each maker's spelling."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from pipelines.sources import read_trace
from tests.pipelines.sources.examples import GATEWAY, LITELLM_HEADER, LITELLM_ROW, SGLANG
from tests.pipelines.sources.reading import read, row, says


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
    named = [row.replace("chatcmpl-1,", f"chatcmpl-{i},") for i, row in enumerate(rows)]
    got = read(tmp_path, "\n".join([LITELLM_HEADER + ",metadata", *named]), "spend.csv")
    assert got.frame.select("line", "outcome", "replayable", "streaming", "ttft_ms").sort("line").rows() == [
        (2, "ok", True, True, 250.0),
        (3, "failed", False, True, 250.0),
        (4, "rejected", False, True, 250.0),
        (6, "ok", True, False, None),
    ]
    assert got.rejected["reason"].to_list() == ["not a request: call_type 'aembedding' generates no tokens"]


def test_pages_of_a_spend_log_that_overlap_are_counted_once(tmp_path: Path) -> None:
    """`request_id` is the table's key: the same id is the same row, however it came to stand there twice."""
    rows = [LITELLM_ROW.replace("chatcmpl-1,", f"chatcmpl-{i},") for i in (1, 2, 2, 3, 1)]
    got = read(tmp_path, "\n".join([LITELLM_HEADER, *rows]), "spend.csv")
    assert got.frame["line"].to_list() == [2, 3, 5]
    assert got.rejected.select("line", "reason").rows() == [
        (4, "not a request of its own: request_id chatcmpl-2 was delivered before"),
        (6, "not a request of its own: request_id chatcmpl-1 was delivered before"),
    ]
    assert got.broken_rows == 0
    nameless = [row.replace("chatcmpl-1,", ",", 1) for row in [LITELLM_ROW] * 3]
    assert read(tmp_path, "\n".join([LITELLM_HEADER, *nameless]), "spend.csv").frame.height == 3


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


@pytest.mark.parametrize("key", ["msec", "time_local", "ts", "start_time"])
@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_a_gateways_time_is_read_in_any_unit_also_in_quotes(tmp_path: Path, key: str, unit: int) -> None:
    """nginx quotes every variable; what it writes at the end of a request stands its duration before."""
    end = key in ("msec", "time_local")
    seconds = 1_785_747_603 if end else 1_785_747_600.5
    said = "03/Aug/2026:17:00:03 +0800" if key == "time_local" else f"{seconds * unit:.3f}" if unit == 1 else None
    value = {key: said or f"{seconds * unit:.0f}", "status": "200", "request_time": "2.500", "model": "m"}
    lengths = {"prompt_tokens": "300", "completion_tokens": "40"}
    got = read(tmp_path, json.dumps(value | lengths))
    says(got.frame.row(0, named=True), isl_tokens=300, osl_tokens=40, e2e_ms=2_500.0, outcome="ok", replayable=True)
    assert got.frame["arrival_at"].dt.to_string("%F %T%.3f").to_list() == ["2026-08-03 09:00:00.500"]


def test_what_a_gateway_says_of_sampling_features_and_queueing_is_kept(tmp_path: Path) -> None:
    told = {
        "request": {"max_tokens": 512, "temperature": 0.2, "top_p": 0.9, "n": 2, "logprobs": 5},
        "response_format": {"type": "json_schema"},
        "queue_ms": 30,
        "num_images": 2,
        "tenant": "a",
        "lora_adapter": "tuned",
        "session_id": "s",
        "timeout_ms": 60_000,
    }
    says(
        row(tmp_path, GATEWAY | told),
        **{"max_tokens": 512, "temperature": 0.2, "top_p": 0.9, "samples": 2, "logprobs": True, "queue_ms": 30.0},
        **{"structured_output": True, "multimodal": True, "media_items": 2, "tenant": "a", "adapter": "tuned"},
        **{"session_id": "s", "deadline_ms": 60_000.0, "streaming": True, "ttft_ms": 250.0, "cached_tokens": 128},
    )
    plain = row(tmp_path, GATEWAY | {"response_format": {"type": "text"}, "logprobs": False, "num_images": 0})
    says(plain, structured_output=False, logprobs=False, multimodal=False)
    says(row(tmp_path, GATEWAY), structured_output=None, logprobs=None, multimodal=None, temperature=None)


def test_a_spend_log_in_parquet_may_hold_flags_and_nested_metadata(tmp_path: Path) -> None:
    record = dict(zip(LITELLM_HEADER.split(","), LITELLM_ROW.split(","), strict=True))
    typed = record | {"prompt_tokens": 300, "completion_tokens": 40}
    usage = {"additional_usage_values": {"cache_read_input_tokens": 64}, "status": "success"}
    rows = [typed | {"request_id": str(hit), "cache_hit": hit, "metadata": usage} for hit in (False, True)]
    pl.DataFrame(rows).write_parquet(tmp_path / "spend.parquet")
    got = read_trace(tmp_path / "spend.parquet", "spend.parquet")
    assert (got.format, got.rejected.height) == ("litellm", 0)
    assert got.frame.select("outcome", "cached_tokens").rows() == [("ok", 64), ("cache_hit", 64)]
