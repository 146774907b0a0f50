"""What real traces do to a reader, one test a quirk: units, headers, grids, times, failures, caps, wrong downloads."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from pipelines.sources import SourceError, SourceRead, read_trace
from tests.pipelines.sources.examples import EXAMPLES, GATEWAY, LITELLM_HEADER, LITELLM_ROW, write


def read(folder: Path, text: str, name: str = "t.csv", format: str = "auto", **options: object) -> SourceRead:
    (folder / name).write_bytes(text.encode())
    got = read_trace(folder / name, name, format, options)
    assert got.rows_read == got.frame.height + got.rejected.height
    return got


def seconds(got: SourceRead) -> list[float]:
    return [us / 1e6 for us in got.frame["arrival_at"].dt.epoch("us").to_list()]


HASHED = '{"timestamp": %s, "input_length": %d, "output_length": 5, "hash_ids": %s}'


def test_the_same_keys_in_milliseconds_and_in_seconds_are_told_apart_by_their_blocks(tmp_path: Path) -> None:
    mooncake = "\n".join(HASHED % (3000 * i, 1024, [0, i]) for i in range(3))
    timed = "\n".join(HASHED % (0.25 + i, 33, [0, 1, i]) for i in range(3))
    as_mooncake, as_timed = read(tmp_path, mooncake, "m.jsonl"), read(tmp_path, timed, "v.jsonl")
    assert (as_mooncake.format, seconds(as_mooncake)) == ("mooncake", [0, 3, 6])
    assert (as_timed.format, seconds(as_timed)) == ("vllm_timed_trace", [0.25, 1.25, 2.25])
    assert "timestamp in ms" in as_mooncake.detail
    assert "blocks of 512 tokens" in as_mooncake.detail
    assert "timestamp in s" in as_timed.detail
    assert "blocks of 16 tokens" in as_timed.detail


def test_a_unit_that_neither_file_nor_workspace_tells_is_asked_for(tmp_path: Path) -> None:
    rows = "\n".join(HASHED % (i, 100, [0, 1]) for i in range(3))
    with pytest.raises(SourceError, match=r"block_tokens: 64 and time_unit: s or ms"):
        read(tmp_path, rows, "w.jsonl")
    assert seconds(read(tmp_path, rows, "w.jsonl", block_tokens=64, time_unit="s")) == [0, 1, 2]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_declared_unit_is_the_one_that_counts(tmp_path: Path, unit: str) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    example = EXAMPLES["mapped"]
    text = f"when,in,out\n{2 * scale},300,40\n{5 * scale},301,41\n"
    got = read(tmp_path, text, columns=example.options["columns"], time_unit=unit)
    assert seconds(got) == [2, 5]
    assert f"arrival_s in {unit}" in got.detail


@pytest.mark.parametrize("name", ["azure", "burstgpt", "litellm", "capsheet"])
def test_columns_are_bound_by_header_wherever_they_stand(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    straight = read_trace(write(tmp_path, example), "t.csv").frame
    turned = "\n".join(
        ",".join(["extra" if i == 0 else "7", *reversed(line.split(","))])
        for i, line in enumerate((example.header, *example.rows))
    )
    assert read(tmp_path, turned).frame.equals(straight)


def test_arrivals_on_a_grid_are_spread_only_when_asked_and_what_was_written_is_kept(tmp_path: Path) -> None:
    rows = "\n".join(HASHED % (3000 * (i // 10), 1024, [0, i]) for i in range(200))
    kept, spread = read(tmp_path, rows, "m.jsonl"), read(tmp_path, rows, "m.jsonl", spread="uniform", seed=3)
    assert "20 distinct times for 200 rows, step 3 s" in kept.detail
    assert "spread: none" in kept.detail
    assert kept.frame["written_at"].null_count() == 200
    assert "spread uniformly over its step (seed 3)" in spread.detail
    written = spread.frame["written_at"].dt.epoch("ms")
    moved = spread.frame["arrival_at"].dt.epoch("ms") - written
    assert written.sort().to_list() == [3000 * (i // 10) for i in range(200)]
    assert 0 <= int(str(moved.min())) <= int(str(moved.max())) < 3000
    assert kept.sha256 != spread.sha256
    assert spread.frame.equals(read(tmp_path, rows, "m.jsonl", spread="uniform", seed=3).frame)


def test_spreading_asked_for_in_vain_is_said(tmp_path: Path) -> None:
    assert (
        "nothing to spread: arrivals lie on no grid" in read(tmp_path, EXAMPLES["azure"].text, spread="uniform").detail
    )


TIMES = {
    "seven decimals": ("2023-11-16 18:15:46.6805905", "2023-11-16 18:15:46.680590"),
    "no fraction": ("2024-05-12 00:00:00+00:00", "2024-05-12 00:00:00"),
    "a fraction and a zone": ("2024-05-12 00:00:00.041683+00:00", "2024-05-12 00:00:00.041683"),
    "Z": ("2024-10-15T12:00:00.269Z", "2024-10-15 12:00:00.269"),
    "an offset": ("2026-08-03T17:00:05.064+08:00", "2026-08-03 09:00:05.064"),
    "an offset without a colon": ("2026-08-03 04:30:00-0430", "2026-08-03 09:00:00"),
    "an offset of hours": ("2026-08-03 09:00:00.097+00", "2026-08-03 09:00:00.097"),
    "a comma for decimals": ("2026-08-03 09:00:00,5", "2026-08-03 09:00:00.5"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_written_time_is_read_to_the_microsecond_in_utc(tmp_path: Path, kind: str) -> None:
    text, moment = TIMES[kind]
    cell = f'"{text}"' if "," in text else text
    got = read(tmp_path, f"TIMESTAMP,ContextTokens,GeneratedTokens\n{cell},1,1\n")
    assert got.frame["arrival_at"].to_list() == [datetime.fromisoformat(moment)]


def test_naive_and_zoned_times_in_one_file_are_counted_apart(tmp_path: Path) -> None:
    rows = "2026-08-03 17:00:00,1,1\n2026-08-03 09:00:01+00:00,1,1\n"
    got = read(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows, timezone="Asia/Shanghai")
    first = datetime.fromisoformat("2026-08-03 09:00:00").timestamp()
    assert [at.timestamp() - first for at in got.frame["arrival_at"].to_list()] == [0, 1]
    assert "1 of 2 times without a zone, taken as Asia/Shanghai" in got.detail


@pytest.mark.parametrize("name", EXAMPLES)
def test_line_ends_of_windows_and_a_missing_last_one_change_nothing(tmp_path: Path, name: str) -> None:
    example = EXAMPLES[name]
    straight = read_trace(write(tmp_path, example), example.name, name, example.options)
    windows = example.text.replace("\n", "\r\n").removesuffix("\r\n").encode()
    got = read_trace(write(tmp_path, example, windows), example.name, name, example.options)
    assert got.frame.equals(straight.frame)
    packed = gzip.compress(example.text.encode())
    assert read_trace(write(tmp_path, example, packed), example.name, name, example.options).frame.equals(
        straight.frame
    )


def test_a_start_that_is_not_zero_stays_where_it_is(tmp_path: Path) -> None:
    header = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
    got = read(tmp_path, f"{header}\n19440110.0,s,43,GPT-4,906,446,1352,Conversation log\n")
    assert seconds(got) == [19_440_110]


def test_rows_out_of_order_and_clocks_that_go_back_are_sorted_and_said(tmp_path: Path) -> None:
    got = read(tmp_path, "arrival_s,isl_tokens,osl_tokens\n5,1,1\n9,2,1\n3,3,1\n3,4,1\n")
    assert got.frame["isl_tokens"].to_list() == [3, 4, 1, 2]
    assert "sorted: 1 arrivals earlier than the row before" in got.detail


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("azure", "2026-08-03 09:00:02,300,0"),
        ("burstgpt", "7,ChatGPT,300,0,300,API log"),
        ("mooncake", HASHED.replace("5", "0") % (0, 600, [0, 1])),
        ("litellm", LITELLM_ROW.replace(",300,40,", ",300,0,").replace("chatcmpl-1,", "chatcmpl-3,")),
    ],
)
def test_an_answer_of_no_tokens_is_a_failure_that_is_kept_and_not_replayed(tmp_path: Path, name: str, row: str) -> None:
    example = EXAMPLES[name]
    got = read(tmp_path, example.text + row, example.name)
    failed = got.frame.filter(pl.col("osl_tokens") == 0)
    assert failed.select("outcome", "replayable").rows() == [("failed", False)]
    assert int(got.frame["replayable"].sum()) == 2
    assert got.rejected.is_empty()
    assert "1 failed" in got.detail


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (200, "ok"),
        (429, "rejected"),
        (503, "rejected"),
        (499, "cancelled"),
        (0, "cancelled"),
        (500, "failed"),
        (400, "failed"),
    ],
)
def test_a_status_says_how_a_request_ended_and_only_served_ones_are_service_times(
    tmp_path: Path, code: int, outcome: str
) -> None:
    lost = {} if code == 200 else {"usage": None}
    rows = json.dumps(GATEWAY | {"response_code": code} | lost)
    got = read(tmp_path, rows, "g.jsonl").frame
    assert got.select("outcome", "replayable").row(0) == (outcome, code == 200)


def test_answers_from_a_cache_are_no_service_times(tmp_path: Path) -> None:
    hit = LITELLM_ROW.replace(",None,", ",True,").replace("chatcmpl-1,", "chatcmpl-1_cache_hit,")
    got = read(tmp_path, f"{LITELLM_HEADER}\n{LITELLM_ROW}\n{hit}\n").frame
    assert got.select("outcome", "replayable").rows() == [("ok", True), ("cache_hit", False)]


def test_gateway_rows_without_usage_are_kept_as_load_of_unknown_length(tmp_path: Path) -> None:
    got = read(tmp_path, json.dumps(GATEWAY | {"usage": None}), "g.jsonl")
    assert got.frame.select("isl_tokens", "osl_tokens", "outcome", "replayable").row(0) == (None, None, "ok", False)
    assert "1 without lengths" in got.detail


def test_a_gateway_log_ordered_by_end_is_put_in_order_of_arrival(tmp_path: Path) -> None:
    late = GATEWAY | {"start_time": "2026-08-03T17:00:00.100+08:00", "duration": 9000}
    got = read(tmp_path, f"{json.dumps(GATEWAY)}\n{json.dumps(late)}\n", "g.jsonl")
    assert got.frame["line"].to_list() == [2, 1]
    assert got.frame["e2e_ms"].to_list() == [9_000, 2_500]


def test_lengths_cut_at_a_cap_are_marked_and_said(tmp_path: Path) -> None:
    rows = "".join(f"2026-08-03 09:00:{i % 60:02},{min(100 + i, 250)},{min(1 + i, 180)}\n" for i in range(200))
    got = read(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    assert "input capped at 250 tokens (50 requests)" in got.detail
    assert "output capped at 180 tokens (21 requests)" in got.detail
    assert got.frame.filter(pl.col("censored") == "input_cap").height == 50


def test_a_mooncake_row_whose_hashes_do_not_fit_is_quarantined_with_what_was_expected(tmp_path: Path) -> None:
    rows = [HASHED % (0, 1024, [0, 1]), HASHED % (1, 6758, [0, 1, 2]), HASHED % (2, 1024, [0, 2])]
    got = read(tmp_path, "\n".join(rows), "m.jsonl")
    assert got.rejected.select("line", "reason").rows() == [
        (2, "3 hash_ids, but input_length 6758 makes 14 blocks of 512 tokens")
    ]


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.csv", "trace.json", "chunk.csv"])
def test_a_web_page_saved_as_a_trace_is_shown_by_its_first_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"line 1 is a web page, not data: '<!DOCTYPE html>.*download"):
        read(tmp_path, "<!DOCTYPE html>\n<html><body>Sign in</body></html>", name)


def chunk(folder: Path, windows: str, dataset: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "chunk-3-trace.csv").write_text(windows)
    (folder / "chunk-3-dataset.json").write_text(json.dumps(dataset))
    return folder


PMF = {"0": {"input_tokens": "{300: 0.75, 400: 0.25}", "output_tokens": "{40: 1.0}"}, "21600": {"input_tokens": "{}"}}


def test_servegens_idle_windows_hold_nothing_and_its_python_literals_are_read(tmp_path: Path) -> None:
    windows = "0,0,0,,0,0\n600,0.5,1.2,Gamma,0.7,2.9\n1200,0,0,,0,0\n1800,0.25,0.9,Weibull,1.1,4.2\n"
    got = read_trace(chunk(tmp_path / "s", windows, PMF), "s")
    assert (got.format, got.frame.height, got.rejected.height) == ("servegen", 450, 0)
    during = got.frame["arrival_at"].dt.epoch("s")
    assert during.is_between(600, 1200).sum() == 300
    assert during.is_between(1800, 2400).sum() == 150
    assert set(got.frame["isl_tokens"]) == {300, 400}
    assert set(got.frame["osl_tokens"]) == {40}


def test_a_broken_window_of_servegen_is_kept_with_its_line(tmp_path: Path) -> None:
    windows = "0,0.5,1,Gamma,1,2\n600,fast,1,Gamma,1,2\n1200,0.5,1,Zipf,1,2\n1800,0.5\n"
    got = read_trace(chunk(tmp_path / "s", windows, PMF), "s")
    assert got.frame.height == 300
    assert got.rejected["line"].to_list() == [2, 3, 4]
    assert "chunk-3-trace.csv: pattern 'Zipf' is none of" in got.rejected["reason"][1]


@pytest.mark.parametrize("text", ["__import__('os').system('x')", "{300: 1.0", "[1]", "{'a': 'b'}", "{300: -1}"])
def test_a_pmf_that_is_no_pmf_runs_nothing_and_is_said(tmp_path: Path, text: str) -> None:
    dataset = {"0": {"input_tokens": text, "output_tokens": "{40: 1.0}"}}
    with pytest.raises(SourceError, match="send no request"):
        read_trace(chunk(tmp_path / "s", "0,0.5,1,Gamma,1,2\n", dataset), "s")
