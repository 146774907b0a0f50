"""Traces made for benchmarks, mapped files: lengths, hashes, sessions and features arrive where they belong."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from pipelines.sources import SourceError, read_trace
from pipelines.sources.base import check_tolerance
from tests.pipelines.sources.examples import EXAMPLES, WEKA
from tests.pipelines.sources.reading import read, row, says


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
    assert "text: unknown until characters_per_token is declared" in got.detail
    declared = read(tmp_path, text, characters_per_token=4, output_tokens=256)
    assert declared.frame["isl_tokens"].to_list() == [300, 100, 20]
    assert declared.frame["osl_tokens"].to_list() == [40, 40, 256]
    assert declared.frame["replayable"].all()
    assert "1 token a 4 characters (declared)" in declared.detail
    assert "not given: 256 tokens (declared)" in declared.detail


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


def test_an_answers_own_length_stands_before_the_declared_one(tmp_path: Path) -> None:
    rows = [{"prompt": "x" * 40, "output_tokens": 9}, {"prompt": "x" * 40}, {"prompt": "x", "output_tokens": 0}]
    text = "\n".join(map(json.dumps, rows))
    assert read(tmp_path, text).frame["osl_tokens"].to_list() == [9, None, 0]
    declared = read(tmp_path, text, characters_per_token=4, output_tokens=256)
    assert declared.frame.select("osl_tokens", "outcome").rows() == [(9, "unknown"), (256, "unknown"), (0, "failed")]


def test_a_source_of_texts_alone_is_refused_with_what_to_declare(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="set characters_per_token and output_tokens"):
        check_tolerance(read(tmp_path, EXAMPLES["vllm_custom"].text))


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
