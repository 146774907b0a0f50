"""Each public trace format is read right, and every quirk of it is shown, not hidden."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from pipelines.sources import SourceError, SourceRead, check_tolerance, read_trace
from warehouse.frames import polars_schema
from warehouse.registry import table


def at(*parts: int) -> datetime:
    """A moment in UTC, as the warehouse keeps it: without a zone."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


def written(folder: Path, text: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(
    folder: Path, text: str | bytes, name: str = "trace.csv", format: str = "auto", **options: object
) -> SourceRead:
    result = read_trace(written(folder, text, name), name, format, options)
    assert result.rows_read == result.frame.height + result.rejected.height
    assert result.frame.schema == pl.Schema(polars_schema(table("request")))
    return result


def test_the_azure_conversation_trace_is_read_whole(shared: Path) -> None:
    got = read_trace(shared / "data" / "traces" / "azure2023_conv.csv", "conv.csv")
    assert (got.rows_read, got.frame.height, got.rejected.height) == (19_366, 19_366, 0)
    first, last = got.frame.row(0, named=True), got.frame.row(-1, named=True)
    assert (first["line"], first["isl_tokens"], first["osl_tokens"]) == (2, 374, 44)
    assert first["arrival_at"] == at(2023, 11, 16, 18, 15, 46, 680590)
    assert last["line"] == 19_367
    assert got.frame["osl_tokens"].max() == 1_000
    assert "without a zone, taken as UTC" in got.detail


@pytest.mark.parametrize(
    ("name", "format", "kept", "failed"),
    [
        ("azure2024_code_1week.sample.csv", "azure", 11, 0),
        ("azure2024_conv_1week.sample.csv", "azure", 10, 0),
        ("azure2025_lmm_multimodal.sample.csv", "azure", 9, 0),
        ("burstgpt_v1_6col.sample.csv", "burstgpt", 4, 1),
        ("burstgpt_v2.sample.csv", "burstgpt", 7, 1),
    ],
)
def test_published_samples_are_detected_by_their_header(
    shared: Path, name: str, format: str, kept: int, failed: int
) -> None:
    got = read_trace(shared / "data" / "traces" / name, name)
    assert (got.format, got.frame.height, got.failed_requests, got.broken_rows) == (format, kept, failed, 0)


def test_the_mooncake_trace_keeps_its_blocks_and_shows_its_grid(shared: Path) -> None:
    path = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    got = read_trace(path, "mooncake.jsonl")
    assert (got.format, got.frame.height, got.rejected.height) == ("mooncake", 12_031, 0)
    assert got.frame["prefix_block_tokens"].unique().to_list() == [512]
    assert got.frame["prefix_hashes"].list.first().unique().to_list() == [0]
    assert got.frame["arrival_at"].n_unique() == 1_180
    assert "timestamp in ms" in got.detail
    assert "1,180 distinct times for 12,031 rows, step 3 s" in got.detail


def test_spreading_a_grid_is_asked_for_recorded_and_repeatable(shared: Path) -> None:
    path = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    plain = read_trace(path, "m.jsonl")
    spread = read_trace(path, "m.jsonl", options={"spread": "uniform", "seed": 7})
    again = read_trace(path, "m.jsonl", options={"spread": "uniform", "seed": 7})
    assert spread.frame.equals(again.frame)
    assert spread.frame["arrival_at"].n_unique() > 11_000
    assert spread.frame["arrival_at"].is_sorted()
    by_line = plain.frame.select("line", before="arrival_at").join(spread.frame.select("line", "arrival_at"), on="line")
    moved = (by_line["arrival_at"] - by_line["before"]).dt.total_microseconds()
    assert moved.min() >= 0
    assert moved.max() < 3_000_000
    assert "spread uniformly" in spread.detail
    assert spread.sha256 != plain.sha256


AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.mark.parametrize(
    ("stamp", "utc"),
    [
        ("2023-11-16 18:15:46.6805900", at(2023, 11, 16, 18, 15, 46, 680590)),
        ("2024-05-10 00:00:00+00:00", at(2024, 5, 10)),
        ("2024-05-10 00:00:00.009930+00:00", at(2024, 5, 10, 0, 0, 0, 9930)),
        ("2024-10-15T12:00:00.269Z", at(2024, 10, 15, 12, 0, 0, 269000)),
        ("2026-08-03T17:00:05.064+08:00", at(2026, 8, 3, 9, 0, 5, 64000)),
        ("2026-08-03 17:00:05-0330", at(2026, 8, 3, 20, 30, 5)),
        ("2026-08-03 17:00:05 UTC", at(2026, 8, 3, 17, 0, 5)),
        ("2026-08-03 17:00:05.123456789+05", at(2026, 8, 3, 12, 0, 5, 123456)),
    ],
)
def test_times_arrive_in_utc_whatever_they_were_written_in(tmp_path: Path, stamp: str, utc: datetime) -> None:
    assert read(tmp_path, f"{AZURE}\n{stamp},10,5\n").frame["arrival_at"].to_list() == [utc]


def test_a_time_without_a_zone_is_in_the_declared_one(tmp_path: Path) -> None:
    text = f"{AZURE}\n2026-01-05 08:00:00,10,5\n2026-01-05 00:00:01Z,10,5\n"
    got = read(tmp_path, text, timezone="Asia/Shanghai")
    assert got.frame["arrival_at"].to_list() == [at(2026, 1, 5), at(2026, 1, 5, 0, 0, 1)]
    assert "1 of 2 times without a zone, taken as Asia/Shanghai" in got.detail


def test_line_ends_and_a_last_line_without_one_change_nothing(tmp_path: Path) -> None:
    rows = [AZURE, "2026-01-05 08:00:00,10,5", "2026-01-05 08:00:01,11,6"]
    plain = read(tmp_path, "\n".join(rows) + "\n")
    for other in (
        "\r\n".join(rows),
        "\r\n".join(rows) + "\r\n",
        "\ufeff" + "\n".join(rows),
        "\n\n" + "\n\n".join(rows),
    ):
        got = read(tmp_path, other)
        assert got.frame.drop("line").equals(plain.frame.drop("line"))
    assert read(tmp_path, "\n\n" + "\n\n".join(rows)).frame["line"].to_list() == [5, 7]


def test_columns_are_bound_by_name_in_any_order_and_case(tmp_path: Path) -> None:
    text = "generatedtokens,NumImages,timestamp,ContextTokens,note\n5,1,2026-01-05 08:00:00,10,x\n"
    got = read(tmp_path, text)
    assert got.frame.select("isl_tokens", "osl_tokens").row(0) == (10, 5)


def test_rows_out_of_order_are_sorted_and_keep_their_line(tmp_path: Path) -> None:
    got = read(tmp_path, f"{AZURE}\n2026-01-05 08:00:02,1,1\n2026-01-05 08:00:01,2,2\n2026-01-05 08:00:02,1,1\n")
    assert got.frame["line"].to_list() == [3, 2, 4]
    assert got.frame["isl_tokens"].to_list() == [2, 1, 1], "equal rows are two requests, not one"
    assert "sorted: 1 arrivals earlier" in got.detail


def test_burstgpt_seconds_need_not_start_at_zero_and_failures_are_not_breakage(tmp_path: Path) -> None:
    header = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
    rows = ["19440110.5,s1,43,GPT-4,906,446,1352,Conversation log", "19440112.0,,1,ChatGPT,415,0,415,API log"]
    got = read(tmp_path, "\n".join([header, *rows]), start_at="2026-01-01T00:00:00Z")
    kept = got.frame.row(0, named=True)
    assert kept["arrival_at"] == at(2026, 8, 14, 0, 1, 50, 500000)
    assert (kept["session_id"], kept["e2e_ms"], kept["ttft_ms"], kept["outcome"]) == ("s1", 43_000.0, None, "ok")
    assert got.frame.select("line", "outcome", "replayable").rows() == [(2, "ok", True), (3, "failed", False)]
    assert (got.failed_requests, got.broken_rows) == (1, 0)
    check_tolerance(got, 0.0)


def test_a_mooncake_row_whose_hashes_do_not_fit_its_length_is_rejected(tmp_path: Path) -> None:
    rows = [
        '{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}',
        '{"timestamp": 3000, "input_length": 1025, "output_length": 5, "hash_ids": [1, 2]}',
        '{"timestamp": 3000, "input_length": 513, "output_length": 5, "hash_ids": [1, 2]}',
    ]
    got = read(tmp_path, "\n".join(rows), "m.jsonl")
    assert got.frame["line"].to_list() == [1, 3]
    expected = "2 hash_ids, but input_length 1025 makes 3 blocks of 512 tokens"
    assert got.rejected.select("line", "reason").rows() == [(2, expected)]


def test_a_look_alike_of_mooncake_is_refused_until_its_unit_and_block_are_declared(tmp_path: Path) -> None:
    rows = '{"timestamp": 5, "input_length": 33, "output_length": 12, "hash_ids": [1, 2, 3]}\n'
    with pytest.raises(SourceError, match=r"blocks of 16 tokens, not 512.*block_tokens: 16 and time_unit: s or ms"):
        read(tmp_path, rows, "v.jsonl")
    got = read(tmp_path, rows, "v.jsonl", block_tokens=16, time_unit="s")
    assert got.frame.select("prefix_block_tokens", "arrival_at").row(0) == (16, at(1970, 1, 1, 0, 0, 5))
    seconds = read(tmp_path, rows, "v.jsonl", "vllm_timed_trace")
    assert seconds.frame.equals(got.frame)
    assert "timestamp in s (the format's own)" in seconds.detail


def test_a_bad_mooncake_line_spoils_no_other(tmp_path: Path) -> None:
    good = '{"timestamp": %d, "input_length": 700, "output_length": 5, "hash_ids": [0, %d]}'
    lines = [good % (i, i + 1) for i in range(500)]
    bad = {
        7: '{"timestamp": 1, "input_length": 700',
        80: '{"timestamp": 1, "input_length": true, "output_length": 5, "hash_ids": [0, 1]}',
        81: '{"timestamp": 1, "input_length": "700", "output_length": 5, "hash_ids": [0, 1]}',
        200: "[1, 2]",
        201: '{"timestamp": 1, "input_length": 700, "output_length": 5}',
        202: '{"timestamp": 1, "input_length": 700, "output_length": 5, "hash_ids": [0, "x"]}',
        203: '{"timestamp": 1, "input_length": 700, "output_length": -5, "hash_ids": [0, 1]}',
        204: '{"timestamp": NaN, "input_length": 700, "output_length": 5, "hash_ids": [0, 1]}',
        205: '{"timestamp": 1, "input_length": 7},{"timestamp": 1, "input_length": 7}',
    }
    for at, text in bad.items():
        lines[at] = text
    got = read(tmp_path, "\n".join(lines), "m.jsonl")
    assert got.rejected["line"].to_list() == [at + 1 for at in bad]
    kept = got.frame.sort("line")
    assert kept["line"].to_list() == [i + 1 for i in range(500) if i not in bad]
    assert kept["prefix_hashes"].list.last().to_list() == [i + 1 for i in range(500) if i not in bad]


def test_capsheets_own_layout_reads_the_same_from_csv_and_parquet(tmp_path: Path) -> None:
    text = (
        "arrival_s,isl_tokens,osl_tokens,prefix_hashes,prefix_block_tokens,session_id,outcome,ttft_ms,cached_tokens\n"
        "0.25,130,7,1 2,64,a,ok,12.5,64\n1,40,9,,64,,unknown,,\n2,40,0,,64,,failed,,\n"
    )
    from_csv = read(tmp_path, text)
    frame = pl.DataFrame(
        {
            "arrival_s": [0.25, 1.0, 2.0],
            "isl_tokens": [130, 40, 40],
            "osl_tokens": [7, 9, 0],
            "prefix_hashes": [[1, 2], None, None],
            "prefix_block_tokens": [64, 64, 64],
            "session_id": ["a", None, None],
            "outcome": ["ok", "unknown", "failed"],
            "ttft_ms": [12.5, None, None],
            "cached_tokens": [64, None, None],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    from_parquet = read_trace(tmp_path / "t.parquet", "trace.csv")
    assert from_csv.frame.drop("line").equals(from_parquet.frame.drop("line"))
    assert from_csv.frame["line"].to_list() == [2, 3, 4]
    assert from_parquet.frame["line"].to_list() == [1, 2, 3]
    assert from_csv.failed_requests == from_parquet.failed_requests == 1


def test_zoned_parquet_times_are_turned_to_utc(tmp_path: Path) -> None:
    local = pl.Series([at(2026, 1, 5, 8)]).dt.replace_time_zone("Asia/Shanghai")
    pl.DataFrame({"arrival_at": local, "isl_tokens": [1], "osl_tokens": [1]}).write_parquet(tmp_path / "t.parquet")
    got = read_trace(tmp_path / "t.parquet", "t.parquet")
    assert got.frame["arrival_at"].to_list() == [at(2026, 1, 5)]


def test_prefix_hashes_without_a_block_size_are_refused_not_guessed(tmp_path: Path) -> None:
    text = "arrival_s,isl_tokens,osl_tokens,prefix_hashes\n0,130,7,1 2\n"
    with pytest.raises(SourceError, match="block_tokens"):
        read(tmp_path, text)
    assert read(tmp_path, text, block_tokens=64).frame["prefix_block_tokens"].to_list() == [64]


def test_a_gzipped_trace_reads_like_the_plain_one(tmp_path: Path) -> None:
    text = f"{AZURE}\n2026-01-05 08:00:00,10,5\n"
    packed = read(tmp_path, gzip.compress(text.encode()), "t.csv.gz")
    assert packed.frame.drop("source_file").equals(read(tmp_path, text).frame.drop("source_file"))


def test_a_quoted_cell_may_hold_a_comma(tmp_path: Path) -> None:
    text = 'arrival_s,isl_tokens,osl_tokens,tenant\n0,10,5,plain\n1,10,5,"a, b"\n2,10,5,"open\n3,10,5,z\n'
    got = read(tmp_path, text)
    assert got.frame["tenant"].to_list() == ["plain", "a, b", "z"]
    assert got.rejected.select("line", "reason").rows() == [(4, "a quote is not closed")]
    assert "arrivals in order" in got.detail


def test_the_fingerprint_follows_content_and_options_not_the_name(tmp_path: Path) -> None:
    text = f"{AZURE}\n2026-01-05 08:00:00,10,5\n"
    first = read(tmp_path, text)
    assert read(tmp_path, text, "other.csv").sha256 == first.sha256
    assert read(tmp_path, text + "2026-01-05 08:00:01,10,5\n").sha256 != first.sha256
    assert read(tmp_path, text, timezone="Asia/Shanghai").sha256 != first.sha256


def test_a_long_file_is_read_in_blocks_with_true_line_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.sources.files.blocks.__defaults__", (64,))
    lines = [AZURE] + [f"2026-01-05 08:00:{i:02d},{i or 'x'},5" for i in range(60)]
    got = read(tmp_path, "\n".join(lines))
    assert got.frame["line"].to_list() == list(range(3, 62))
    assert got.rejected["line"].to_list() == [2]
