"""Measured step times as tools write them: what they say, what they leave out, and what is no profile at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.sources.base import SourceError, SourceRead
from pipelines.sources.profiles import read_profile

OF = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu_id": "H100-SXM",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "tp": 1,
    "dp": 1,
    "ep": 1,
    "precision": "bf16",
}
CACHE_TOKENS = 400_000
RUN = {
    "backend": "vllm",
    "completed": 640,
    "failed": 0,
    "total_input_tokens": 640 * 1024,
    "total_output_tokens": 640 * 256,
    "request_rate": "inf",
    "max_concurrency": 16,
    "median_itl_ms": 8.5,
    "mean_itl_ms": 8.9,
    "mean_tpot_ms": 9.0,
    "median_ttft_ms": 40.0,
}
LENGTHS = ("input_len", "output_len", "batch_size")
LONE = {**RUN, "max_concurrency": 1, "median_itl_ms": 6.9, "mean_itl_ms": 6.9, "mean_tpot_ms": 6.9}


def dynamo(folder: Path, **instead: Any) -> None:
    """A profiler's results folder: 2 contexts x 3 batches, and 4 prompts."""
    batches, contexts = np.array([1, 8, 64] * 2), np.repeat([350.0, 4250.0], 3)
    decode = {
        "x_kv_usage": batches * contexts / CACHE_TOKENS,
        "y_context_length": contexts,
        "z_itl": 6.5 + 0.02 * batches + 5e-6 * batches * contexts,
        "z_thpt_per_gpu": batches * 100.0,
        "max_kv_tokens": np.array([CACHE_TOKENS]),
    }
    isl = np.array([100, 1000, 4000, 8000])
    prefill = {"prefill_isl": isl, "prefill_ttft": 20 + isl * 0.022, "prefill_thpt_per_gpu": isl / 0.1}
    for name, held in (("decode", decode), ("prefill", prefill)):
        (folder / f"selected_{name}_interpolation").mkdir(parents=True, exist_ok=True)
        kept = {key: instead.get(key, value) for key, value in held.items() if instead.get(key, value) is not None}
        np.savez(folder / f"selected_{name}_interpolation" / "raw_data.npz", **kept)


def points(reads: list[SourceRead], phase: str) -> list[tuple[float, float, float]]:
    """(sequences, context, ms) or (prompt tokens, 0, ms)."""
    frame = pl.concat([read.frame for read in reads]).filter(pl.col("phase") == phase)
    sizes = ("sequences", "context_tokens") if phase == "decode" else ("prompt_tokens", "prompt_tokens")
    return [(row[sizes[0]], row[sizes[1]] if phase == "decode" else 0.0, row["time_ms"]) for row in frame.to_dicts()]


def reasons(reads: list[SourceRead]) -> list[str]:
    return [reason for read in reads for reason in read.rejected["reason"].to_list()]


def saved(folder: Path, name: str, content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_a_dynamo_profilers_folder_gives_batches_and_prompts(tmp_path: Path) -> None:
    dynamo(tmp_path / "H100_TP1")
    reads = read_profile(tmp_path, "H100_TP1", OF)
    assert points(reads, "decode")[:3] == [(1, 350, 6.5 + 0.02 + 5e-6 * 350), *points(reads, "decode")[1:3]]
    assert [batch for batch, _, _ in points(reads, "decode")] == [1, 8, 64, 1, 8, 64]
    assert points(reads, "prefill")[1] == (1000, 0, 42.0)
    frame = pl.concat([read.frame for read in reads])
    assert frame["span_tokens"].drop_nulls().unique().to_list() == [500.0]
    assert frame["label"].unique().to_list() == ["measured"] and frame["profile"].unique().to_list() == ["H100_TP1"]
    assert all(read.rows_read == read.frame.height + read.rejected.height for read in reads)


def test_a_dynamo_profile_reads_the_same_as_json_and_by_rank(tmp_path: Path) -> None:
    dynamo(tmp_path / "npz")
    (tmp_path / "json").mkdir()
    for name in ("prefill", "decode"):
        with np.load(tmp_path / "npz" / f"selected_{name}_interpolation" / "raw_data.npz") as held:
            data = {key: held[key].tolist() for key in held.files}
        if name == "decode":
            data["max_kv_tokens"] = data["max_kv_tokens"][0]
        saved(tmp_path / "json", f"{name}_raw_data.json", data)
    same = read_profile(tmp_path, "json", OF)
    assert points(same, "decode") == points(read_profile(tmp_path, "npz", OF), "decode")
    halves = read_profile(tmp_path, "json/decode_raw_data.json", {**OF, "dp": 2}, max_rejected_share=0.5)
    assert [batch for batch, _, _ in points(halves, "decode")] == [4, 32, 4, 32]


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ({"z_itl": np.array([0.0065] * 6)}, "0.0065 ms is too short for a decode step: is it in seconds"),
        ({"z_itl": np.array([np.nan] * 6)}, "nan ms is no time"),
        ({"z_itl": np.array([-7.0] * 6)}, "-7 ms is no time"),
        ({"z_itl": np.array([7.0] * 5)}, "must be lists of one length"),
        ({"x_kv_usage": np.array([10.0, 20, 30, 40, 50, 60])}, "a share of the cache, from 0 to 1"),
        ({"x_kv_usage": np.zeros(6)}, "is not a number from 1 on"),
        ({"y_context_length": np.zeros(6)}, "is not a number from 1 on"),
        ({"max_kv_tokens": np.array([0])}, "max_kv_tokens is one number above 0"),
        ({"max_kv_tokens": np.array([1, 2])}, "max_kv_tokens is one number above 0"),
        ({"z_itl": np.array(["fast"] * 6)}, "'z_itl' holds no numbers"),
        ({"z_itl": None}, "a profiler's file holds"),
        ({"prefill_ttft": np.zeros(4)}, "0 ms is no time of a prompt"),
    ],
)
def test_a_broken_dynamo_profile_is_one_clear_line(tmp_path: Path, instead: dict[str, Any], said: str) -> None:
    dynamo(tmp_path / "broken", **instead)
    with pytest.raises(SourceError, match=said) as caught:
        read_profile(tmp_path, "broken", OF)
    assert "\n" not in str(caught.value) and "raw_data.npz" in str(caught.value)


def test_a_pickle_in_a_profile_is_never_opened(tmp_path: Path) -> None:
    dynamo(tmp_path / "hostile", z_itl=np.array([print] * 6, dtype=object))
    with pytest.raises(SourceError, match="is no whole npz file"):
        read_profile(tmp_path, "hostile", OF)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 5000), flipped=st.integers(0, 5000), byte=st.integers(0, 255))
def test_a_damaged_npz_is_refused_or_read_whole(tmp_path: Path, cut: int, flipped: int, byte: int) -> None:
    dynamo(tmp_path)
    file = tmp_path / "selected_decode_interpolation" / "raw_data.npz"
    content = bytearray(file.read_bytes())
    content[flipped % len(content)] = byte
    file.write_bytes(bytes(content[: len(content) - cut % len(content)]))
    try:
        reads = read_profile(tmp_path, "selected_decode_interpolation/raw_data.npz", OF)
    except SourceError as error:
        assert "\n" not in str(error)
    else:
        assert reads[0].frame.height + reads[0].rejected.height == 6


def test_a_mockers_table_is_no_measurement(tmp_path: Path) -> None:
    np.savez(tmp_path / "perf_data.npz", decode_active_kv_tokens=[1.0], prefill_isl=[1.0], prefill_ttft_ms=[1.0])
    with pytest.raises(SourceError, match="a fit of a profile"):
        read_profile(tmp_path, "perf_data.npz", OF)


def test_a_closed_loop_gives_its_plain_step_and_a_lone_client_its_prompt(tmp_path: Path) -> None:
    saved(tmp_path, "lone.json", LONE)
    saved(tmp_path, "many.json", RUN)
    reads = read_profile(tmp_path, "*.json", OF)
    assert points(reads, "decode") == [(1, 1024 + 128, 6.9), (16, 1024 + 128, 8.5)]
    assert points(reads, "prefill") == [(1024, 0, 40.0)]
    assert all(read.format == "vllm-bench" for read in reads)


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        ({"request_rate": 4.0}, "not a step: an open loop"),
        ({"max_concurrency": None}, "not a step: an open loop"),
        ({"max_concurrency": 512}, "not a step: a prompt in 200% of its steps"),
        ({"total_input_tokens": 640 * 16_384}, "not a step: a prompt in 47% of its steps"),
        ({"mean_itl_ms": 17.0}, "not a step: its ITL is 1.9 x its TPOT: the client saw bundles"),
        ({"failed": 100}, "not a step: 100 of its requests failed"),
        ({"completed": 8}, "not a step: fewer requests"),
        ({"tensor_parallel_size": 4}, "not a step: it ran on TP 4"),
        ({"server_info": {"tp_size": 8}}, "not a step: it ran on TP 8"),
        ({"run_number": -1}, "not a step: a run that failed, or a warm-up"),
    ],
)
def test_a_run_that_says_nothing_of_a_step_is_kept_with_its_reason(
    tmp_path: Path, instead: dict[str, Any], said: str
) -> None:
    saved(tmp_path, "runs.json", [RUN, {**RUN, **instead}])
    reads = read_profile(tmp_path, "runs.json", OF)
    assert len(points(reads, "decode")) == 1
    assert [reason.startswith(said) for reason in reasons(reads)] == [True]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from([*RUN, *LENGTHS, "latencies", "avg_latency", "tp"]), ANY_JSON, max_size=6))
def test_whatever_a_result_holds_is_read_or_refused_in_one_line(tmp_path: Path, instead: dict[str, Any]) -> None:
    for whole in (RUN, {"avg_latency": 1.0, "latencies": [1.0], "input_len": 8, "output_len": 1, "batch_size": 1}):
        saved(tmp_path, "run.json", whole | instead)
        try:
            reads = read_profile(tmp_path, "run.json", OF)
        except SourceError as error:
            assert "\n" not in str(error)
        else:
            assert points(reads, "decode") or points(reads, "prefill")


def test_a_sweeps_summary_is_read_once_and_its_columns_may_be_empty(tmp_path: Path) -> None:
    folder = tmp_path / "20260801_120000"
    (folder / "BENCH--max_concurrency=1").mkdir(parents=True)
    saved(folder / "BENCH--max_concurrency=1", "summary.json", [LONE])
    names = [*RUN, "run_number", "tensor_parallel_size"]
    lines = [",".join(["", *names])]
    for i, run in enumerate(({**LONE, "run_number": 0}, {**RUN, "run_number": 0, "tensor_parallel_size": 1.0})):
        lines.append(",".join([str(i), *(str(run.get(name, "")) for name in names)]))
    saved(folder, "summary.csv", "\n".join(lines) + "\n")
    reads = read_profile(tmp_path, folder.name, OF)
    assert [read.source_file for read in reads] == [f"{folder.name}/summary.csv"]
    assert len(points(reads, "decode")) == 2 and len(points(reads, "prefill")) == 1
    (folder / "summary.csv").unlink()
    assert points(read_profile(tmp_path, folder.name, OF), "prefill") == [(1024, 0, 40.0)]


def test_two_latency_runs_that_differ_in_output_alone_tell_decode_from_prefill(tmp_path: Path) -> None:
    shape = {"input_len": 512, "batch_size": 8}
    for osl, seconds in ((1, 0.15), (128, 0.15 + 127 * 0.0075)):
        run = {"avg_latency": seconds, "latencies": [seconds * f for f in (3.0, 1.0, 1.0)], "percentiles": {"50": 1}}
        saved(tmp_path, f"b8_o{osl}.json", run | shape | {"output_len": osl})
    alone = {"benchmark": {"extra_info": {"args": {"input_len": 512, "output_len": 1, "batch_size": 1}}}}
    saved(tmp_path, "b1.pytorch.json", [alone | {"metric": {"name": "latency", "benchmark_values": [0.04]}}])
    reads = read_profile(tmp_path, "*.json", OF)
    [(batch, context, ms)] = points(reads, "decode")
    assert (batch, context) == (8, 512 + 64.5) and ms == pytest.approx(7.5)
    assert points(reads, "prefill") == [(512, 0, 40.0)]
    assert pl.concat([read.frame for read in reads]).filter(phase="prefill")["seen_from"].to_list() == ["engine"]


def test_a_latency_run_needs_its_sizes_and_a_twin(tmp_path: Path) -> None:
    saved(tmp_path, "run.json", {"avg_latency": 1.0, "latencies": [1.0], "percentiles": {}})
    with pytest.raises(SourceError, match="does not say input_len, output_len, batch_size"):
        read_profile(tmp_path, "run.json", OF)
    sizes = {"input_len": 512, "output_len": 128, "batch_size": 8}
    with pytest.raises(SourceError, match="another output_len, tells decode from prefill"):
        read_profile(tmp_path, "run.json", OF, options=sizes)


def test_a_table_of_our_own_columns_is_read(tmp_path: Path) -> None:
    table = "phase,sequences,context_tokens,prompt_tokens,time_ms,seen_from\n"
    table += "decode,1,1000,,7.1,\ndecode,32,1000,,9.5,engine\nprefill,,,2000,55,engine\n"
    reads = read_profile(tmp_path, saved(tmp_path, "steps.csv", table), OF)
    assert points(reads, "decode") == [(1, 1000, 7.1), (32, 1000, 9.5)] and points(reads, "prefill") == [(2000, 0, 55)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("steps.csv", "phase,time_ms,sequences,context_tokens\ndecode,nan,1,100\n", "time_ms a number"),
        ("steps.csv", "phase,time_ms,sequences,context_tokens\nidle,5,1,100\n", "phase is decode or prefill"),
        ("steps.csv", "phase,time_ms,sequences,context_tokens\ndecode,5,0,100\n", "sequences 0 is not a number"),
        ("steps.csv", "phase,time_ms\ndecode,5\n", "sequences nan is not a number"),
        ("steps.csv", "a,b\n1,2\n", "a table of step times has phase and time_ms"),
        ("steps.csv", "", "is empty"),
        ("run.json", '{"total_input_tokens": 1, "mean_ttft_ms": ', "is not whole JSON"),
        ("run.json", {"total_input_tokens": 0, "total_output_tokens": 1, "median_ttft_ms": 1}, "must be above 0"),
        ("run.json", {**RUN, "median_itl_ms": 0.0085}, "is it in seconds"),
        ("run.json", {**RUN, "median_itl_ms": float("nan")}, "it has no median of ITL"),
        ("run.json", [RUN, 7], "holds int where a run's object is expected"),
        ("run.json", {"hello": 1}, "is JSON of no known profile"),
        ("decode_raw_data.json", {"z_itl": ["quick"]}, "z_itl holds something that is no number"),
        ("decode_raw_data.json", [1], "is no JSON object"),
        (
            "lat.json",
            {"avg_latency": -1, "latencies": [-1], "input_len": 1, "output_len": 1, "batch_size": 1},
            "no time",
        ),
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(tmp_path: Path, name: str, content: object, said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        read_profile(tmp_path, saved(tmp_path, name, content), OF)
    assert "\n" not in str(caught.value)


def test_a_source_that_is_not_there_or_of_two_kinds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not there"):
        read_profile(tmp_path, "nowhere.json", OF)
    with pytest.raises(SourceError, match="matches no file"):
        read_profile(tmp_path, "*.npz", OF)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no profile"):
        read_profile(tmp_path, "empty", OF)
    with pytest.raises(SourceError, match="no profile format is called 'guess'"):
        read_profile(tmp_path, "empty", OF, format="guess")
    saved(tmp_path, "a.json", RUN)
    saved(tmp_path, "b.json", {"avg_latency": 1.0, "latencies": [1.0]})
    with pytest.raises(SourceError, match="holds vllm-bench and vllm-latency files"):
        read_profile(tmp_path, "*.json", OF)


def test_published_results_of_vllm_bench_are_open_loops_and_say_so(shared: Path) -> None:
    with pytest.raises(SourceError, match="an open loop"):
        read_profile(shared / "data" / "bench", "vllm_bench_serve_0.33_save_result.synth.json", {**OF, "tp": 2})
