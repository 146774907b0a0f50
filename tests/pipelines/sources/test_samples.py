"""Every sample is read as its producer wrote it: counts, first and last row, totals, and what was detected."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from pipelines.sources import SourceRead, read_trace
from pipelines.sources.formats import LAYOUTS
from pipelines.sources.traces import SERVEGEN
from tests.conftest import ROOT


def at(text: str) -> datetime:
    """A moment in UTC, as the warehouse keeps it: without a zone."""
    return datetime.fromisoformat(text)


def sample(shared: Path, name: str, **options: object) -> SourceRead:
    got = read_trace(shared / "data" / "traces" / name, name, options=options)
    assert got.rows_read == got.frame.height + got.rejected.height
    return got


COUNTS = [
    # file, format, kept, rejected, replayable, input tokens, output tokens
    ("azure2023_conv.csv", "azure", 19_366, 0, 19_366, 22_361_870, 4_088_665),
    ("azure2024_code_1week.sample.csv", "azure", 11, 0, 11, 25_216, 183),
    ("azure2024_conv_1week.sample.csv", "azure", 10, 0, 10, 12_767, 856),
    ("azure2025_lmm_multimodal.sample.csv", "azure", 9, 0, 9, 12_018, 1_332),
    ("burstgpt_v1_6col.sample.csv", "burstgpt", 4, 0, 3, 3_336, 524),
    ("burstgpt_v2.sample.csv", "burstgpt", 7, 0, 6, 5_888, 1_497),
    ("mooncake_conversation.jsonl", "mooncake", 12_031, 0, 12_031, 144_793_823, 4_122_048),
    ("aiperf_mooncake_ext.synth.jsonl", "aiperf", 4, 1, 2, 340, 84),
    ("qwen_bailian_like.synth.jsonl", "bailian", 120, 0, 120, 191_703, 32_477),
    ("vllm_timed_trace.synth.jsonl", "vllm_timed_trace", 2, 0, 2, 81, 17),
    ("vllm_custom.synth.jsonl", "vllm_custom", 2, 0, 0, 0, 1_530),
    ("litellm_spend_logs.synth.csv", "litellm", 61, 0, 56, 56_055, 10_681),
    ("litellm_spend_logs.synth.jsonl", "litellm", 61, 0, 56, 56_055, 10_681),
    ("vllm_otlp_llm_request.synth.json", "vllm_otlp", 12, 0, 12, 60_054, 3_752),
    ("otel_genai_client_spans.synth.json", "otel_genai", 6, 0, 5, 18_758, 1_194),
    ("gateway_access_log.synth.jsonl", "gateway", 40, 0, 32, 144_730, 12_864),
    ("weka_like.synth.json", "weka", 3, 1, 3, 43_375, 1_150),
]


@pytest.mark.parametrize(("name", "format", "kept", "rejected", "replayable", "isl", "osl"), COUNTS)
def test_a_sample_is_detected_and_counted(
    shared: Path, name: str, format: str, kept: int, rejected: int, replayable: int, isl: int, osl: int
) -> None:
    got = sample(shared, name)
    assert (got.format, got.frame.height, got.rejected.height) == (format, kept, rejected)
    assert int(got.frame["replayable"].sum()) == replayable
    assert (got.frame["isl_tokens"].sum(), got.frame["osl_tokens"].sum()) == (isl, osl)
    named = read_trace(shared / "data" / "traces" / name, name, format)
    assert (named.sha256, named.detail) == (got.sha256, got.detail)
    assert named.frame.equals(got.frame) and named.rejected.equals(got.rejected)


VLLM, CLIENT = "vllm_otlp_llm_request.synth.json", "otel_genai_client_spans.synth.json"
ENDS = [
    ("azure2023_conv.csv", "2023-11-16T18:15:46.680590", 374, 44, "2023-11-16T19:14:08.402527", 197, 183),
    ("azure2024_code_1week.sample.csv", "2024-05-10T00:00:00.009930", 2_162, 5, "2024-05-16T23:59:59.929501", 4_725, 8),
    (
        "azure2024_conv_1week.sample.csv",
        "2024-05-12T00:00:00.001163",
        1_452,
        3,
        "2024-05-18T23:59:59.995460",
        2_688,
        366,
    ),
    ("azure2025_lmm_multimodal.sample.csv", "2024-10-15T12:00:00.269", 770, 491, "2024-10-22T11:59:59.962", 1_172, 76),
    ("burstgpt_v1_6col.sample.csv", "1970-01-01T00:00:05", 472, 18, "1970-01-01T00:03:05", 1_360, 0),
    ("burstgpt_v2.sample.csv", "1970-08-14T00:01:50", 906, 446, "1970-08-14T00:04:35", 1_402, 210),
    ("mooncake_conversation.jsonl", "1970-01-01T00:00:00", 6_758, 500, "1970-01-01T00:58:56.999", 20_774, 508),
    ("qwen_bailian_like.synth.jsonl", "1970-01-01T00:00:00.376", 3_256, 182, "1970-01-01T00:01:16.312", 1_226, 245),
    ("vllm_timed_trace.synth.jsonl", "1970-01-01T00:00:00", 33, 12, "1970-01-01T00:00:00.420", 48, 5),
    ("litellm_spend_logs.synth.csv", "2026-08-03T09:00:03.097", 477, 47, "2026-08-03T09:02:01.532", 2_885, 75),
    (
        "vllm_otlp_llm_request.synth.json",
        "2026-08-03T09:00:00.388940",
        3_025,
        366,
        "2026-08-03T09:00:07.027095",
        8_065,
        114,
    ),
    (
        "otel_genai_client_spans.synth.json",
        "2026-08-03T09:00:08.027095",
        3_451,
        474,
        "2026-08-03T09:00:13.027095",
        2_105,
        129,
    ),
    ("gateway_access_log.synth.jsonl", "2026-08-03T09:00:05.064", None, None, "2026-08-03T09:00:41.277", None, None),
    ("weka_like.synth.json", "1970-01-01T00:00:00", 18_211, 412, "1970-01-01T00:00:44", 20_044, 640),
]


@pytest.mark.parametrize(("name", "first_at", "isl", "osl", "last_at", "last_isl", "last_osl"), ENDS)
def test_the_first_and_the_last_request_of_a_sample_are_as_the_file_has_them(
    shared: Path,
    name: str,
    first_at: str,
    isl: int | None,
    osl: int | None,
    last_at: str,
    last_isl: int | None,
    last_osl: int | None,
) -> None:
    rows = sample(shared, name).frame.select("arrival_at", "isl_tokens", "osl_tokens")
    assert rows.row(0) == (at(first_at), isl, osl)
    assert rows.row(-1) == (at(last_at), last_isl, last_osl)


def test_the_caps_of_published_traces_are_found(shared: Path) -> None:
    for name, cap, requests in (("azure2023_conv.csv", 1_000, 11), ("mooncake_conversation.jsonl", 2_000, 30)):
        got = sample(shared, name)
        assert f"output capped at {cap:,} tokens ({requests} requests)" in got.detail
        cut = got.frame.filter(pl.col("censored") == "output_cap")
        assert cut["osl_tokens"].to_list() == [cap] * requests


def test_the_csv_and_the_json_of_one_spend_log_hold_the_same_requests(shared: Path) -> None:
    csv, json = (sample(shared, f"litellm_spend_logs.synth.{kind}").frame for kind in ("csv", "jsonl"))
    assert csv.drop("source_file", "line").equals(json.drop("source_file", "line"))
    assert csv["outcome"].value_counts(sort=True).rows() == [("ok", 56), ("cache_hit", 3), ("failed", 2)]
    assert csv["cached_tokens"].sum() == 11_280
    first = csv.row(0, named=True)
    assert (first["ttft_ms"], first["e2e_ms"], first["streaming"]) == (413.0, 1_399.0, True)
    assert (first["tenant"], first["session_id"], first["model"]) == ("team-a", "s0", "hosted_vllm/Qwen/Qwen3-32B")


def test_a_vllm_span_tells_queue_first_token_and_end(shared: Path) -> None:
    first = sample(shared, "vllm_otlp_llm_request.synth.json").frame.row(0, named=True)
    assert first["ttft_ms"] == pytest.approx(211.481, abs=1e-3)
    assert first["e2e_ms"] == pytest.approx(6_782.481, abs=1e-3)
    assert first["queue_ms"] == pytest.approx(37.231, abs=1e-3)
    assert (first["max_tokens"], first["temperature"], first["samples"], first["outcome"]) == (1_024, 0.7, 1, "ok")


def test_bailians_sessions_are_chains_and_its_padded_blocks_are_left_out(shared: Path) -> None:
    got = sample(shared, "qwen_bailian_like.synth.jsonl").frame
    assert got["session_id"].n_unique() == 72
    assert got["multimodal"].sum() == 14
    blocks = (got["isl_tokens"] / 16).ceil().cast(int)
    assert (got["prefix_hashes"].list.len() == blocks - 1).all()
    assert got["prefix_block_tokens"].unique().to_list() == [16]


def test_wekas_requests_of_a_subagent_are_requests_of_their_conversation(shared: Path) -> None:
    got = sample(shared, "weka_like.synth.json")
    assert got.frame["arrival_at"].to_list() == [
        at("1970-01-01"),
        at("1970-01-01T00:00:12.5"),
        at("1970-01-01T00:00:44"),
    ]
    assert got.frame["session_id"].n_unique() == 1
    assert got.frame["prefix_hashes"].list.len().to_list() == [284, 80, 313]
    assert got.rejected["reason"].to_list() == ["not a request: a subagent, whose requests follow"]
    assert got.broken_rows == 0


def test_servegens_chunks_are_drawn_with_the_published_counts_and_lengths(shared: Path) -> None:
    folder = "servegen/language/m-large"
    got = sample(shared, folder, duration_s=86_400, seed=7)
    windows = [
        [float(cell or 0) for cell in line.split(",")[:2]]
        for file in sorted((shared / "data" / "traces" / folder).glob("chunk-*-trace.csv"))
        for line in file.read_text().splitlines()
    ]
    published = sum(rate * 600 for start, rate in windows if start < 86_400)
    assert got.format == "servegen"
    assert got.frame.height == round(published)
    assert set(got.frame["tenant"].unique()) <= {"client-106", "client-117"}
    assert "synthetic" in got.detail
    assert got.frame.equals(sample(shared, folder, duration_s=86_400, seed=7).frame)
    assert not got.frame.equals(sample(shared, folder, duration_s=86_400, seed=8).frame)


def test_every_format_is_described_for_readers() -> None:
    page = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    for name in (*(layout.name for layout in LAYOUTS), SERVEGEN):
        assert f"| `{name}` |" in page
