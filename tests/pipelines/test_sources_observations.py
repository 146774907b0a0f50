"""Measured serving is read with the units it was written in, and saturation and bundled chunks are seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.sources import SourceError, SourceRead, read_observations
from warehouse.frames import polars_schema
from warehouse.registry import table

SERVED: dict[str, object] = {
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu_id": "H100-SXM",
    "engine": "vllm",
    "engine_version": "0.11.0",
    "tp": 1,
    "precision": "bf16",
    "arrival": "constant",
}


def stage(**changes: Any) -> dict[str, Any]:
    report: dict[str, Any] = {
        "load_summary": {
            "send_duration": 60.0,
            "requested_rate": 10.0,
            "achieved_rate": 9.9,
            "schedule_delay": {"mean": -0.0001},
        },
        "successes": {
            "count": 594,
            "latency": {
                "request_latency": {"mean": 0.65, "median": 0.6, "p99": 0.9},
                "time_per_output_token": {"mean": 0.005},
                "time_to_first_token": {"mean": 0.05, "median": 0.04, "p90": 0.06, "p99": 0.09},
                "inter_token_latency": {"mean": 0.0055, "median": 0.005},
            },
            "throughput": {"requests_per_sec": 9.8},
            "prompt_len": {"mean": 200.0},
            "output_len": {"mean": 61.0},
        },
        "failures": {"count": 2},
    }
    for path, value in changes.items():
        node = report
        *parents, last = path.split("__")
        for key in parents:
            node = node[key]
        node[last] = value
    return report


def read(folder: Path, report: object, **served: object) -> SourceRead:
    (folder / "stage_0_lifecycle_metrics.json").write_text(json.dumps(report))
    (got,) = read_observations(folder, "stage_0_lifecycle_metrics.json", SERVED | served)
    assert got.rows_read == got.frame.height + got.rejected.height == 1
    assert got.frame.schema == pl.Schema(polars_schema(table("observation")))
    return got


def test_a_stage_report_is_in_seconds_and_becomes_milliseconds(tmp_path: Path) -> None:
    row = read(tmp_path, stage()).frame.row(0, named=True)
    assert row["observation_id"] == "stage_0"
    assert (row["ttft_mean_ms"], row["ttft_p99_ms"], row["e2e_p99_ms"]) == (50.0, 90.0, 900.0)
    assert (row["requests"], row["failures"], row["duration_s"]) == (594, 2, 60.0)
    assert (row["requested_rps"], row["achieved_rps"], row["served_rps"]) == (10.0, 9.9, 9.8)
    assert (row["tpot_mean_ms"], row["tpot_basis"]) == (5.0, "reported")
    assert row["saturated"] is False
    assert row["label"] == "measured"


def test_bundled_chunks_make_the_reported_tpot_useless_and_e2e_gives_it(tmp_path: Path) -> None:
    row = read(tmp_path, stage(successes__latency__inter_token_latency__median=0.00005)).frame.row(0, named=True)
    assert row["tpot_mean_ms"] == pytest.approx((650 - 50) / 60)
    assert row["tpot_basis"] == "from_e2e"


def test_bundled_chunks_without_e2e_give_no_tpot_rather_than_a_wrong_one(tmp_path: Path) -> None:
    report = stage(successes__latency__inter_token_latency__median=0.00005, successes__latency__request_latency=None)
    row = read(tmp_path, report).frame.row(0, named=True)
    assert (row["tpot_mean_ms"], row["tpot_basis"], row["e2e_mean_ms"]) == (None, None, None)


@pytest.mark.parametrize("change", [{"load_summary__achieved_rate": 9.4}, {"load_summary__schedule_delay__mean": 7.2}])
def test_a_client_that_could_not_keep_its_rate_is_saturated(tmp_path: Path, change: dict[str, float]) -> None:
    assert read(tmp_path, stage(**change)).frame["saturated"].item() is True


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"successes__count": 0}, "successes.count is 0"),
        ({"load_summary__achieved_rate": None}, "load_summary.achieved_rate is missing"),
        ({"successes__output_len__mean": "many"}, "successes.output_len.mean is 'many'"),
        ({"successes__latency__time_to_first_token__mean": -1.0}, "is '-1.0', not a usable number"),
        ({"failures__count": float("nan")}, "failures.count is 'nan'"),
        ({"successes": []}, "successes.count is missing"),
    ],
)
def test_a_stage_without_usable_figures_is_rejected_with_its_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    got = read(tmp_path, stage(**change))
    assert got.frame.is_empty()
    assert reason in got.rejected["reason"].item()


def test_what_a_report_cannot_say_must_be_declared(tmp_path: Path) -> None:
    (tmp_path / "stage_0_lifecycle_metrics.json").write_text(json.dumps(stage()))
    with pytest.raises(SourceError, match=r"does not say model_id, gpu_id, engine.*`served`"):
        read_observations(tmp_path, "stage_0_lifecycle_metrics.json")
    with pytest.raises(SourceError, match=r"'gpu', which is no column"):
        read_observations(tmp_path, "stage_0_lifecycle_metrics.json", {"gpu": "H100"})


def test_a_pattern_reads_each_file_under_its_own_name(tmp_path: Path) -> None:
    for run in ("a", "b"):
        (tmp_path / "bench" / run).mkdir(parents=True)
        (tmp_path / "bench" / run / "stage_0_lifecycle_metrics.json").write_text(json.dumps(stage()))
    got = read_observations(tmp_path, "bench/*/stage_*_lifecycle_metrics.json", SERVED)
    assert [read.source_file for read in got] == [f"bench/{run}/stage_0_lifecycle_metrics.json" for run in "ab"]
    assert [read.frame["observation_id"].item() for read in got] == ["bench/a/stage_0", "bench/b/stage_0"]
    with pytest.raises(SourceError, match="matches no file"):
        read_observations(tmp_path, "bench/*/nothing_*.json", SERVED)


def test_the_measured_stages_are_read_as_the_cases_have_them(shared: Path) -> None:
    folder = shared / "data" / "bench" / "inference-perf" / "measured"
    reads = read_observations(folder, "vllm+batch_size__stage_*_lifecycle_metrics.json", SERVED)
    rows = pl.concat(read.frame for read in reads).sort("requested_rps")
    assert rows["requested_rps"].to_list() == [1.0, 37.97, 74.94, 148.89, 222.83]
    assert rows["saturated"].to_list() == [False, False, False, True, True]
    assert rows["tpot_basis"].unique().to_list() == ["from_e2e"]
    assert rows["tpot_mean_ms"].round(2).to_list() == [7.33, 8.62, 11.75, 26.58, 25.82]


def csv_of(folder: Path, text: str, **served: object) -> SourceRead:
    (folder / "o.csv").write_text(text)
    (got,) = read_observations(folder, "o.csv", served)
    assert got.rows_read == got.frame.height + got.rejected.height
    return got


HEADER = "observation_id,achieved_rps,duration_s,requests,failures,isl_mean_tokens,osl_mean_tokens,replicas,saturated"


def test_a_csv_of_observations_takes_from_served_what_it_lacks_and_keeps_the_rest_null(tmp_path: Path) -> None:
    got = csv_of(tmp_path, f"{HEADER},colour\na,1.5,60,90,0,200,60,1,false,red\n", **SERVED)
    row = got.frame.row(0, named=True)
    assert (row["gpu_id"], row["ttft_p99_ms"], row["label"], row["saturated"]) == ("H100-SXM", None, "measured", False)
    assert "columns not read: 'colour'" in got.detail


def test_broken_observations_are_rejected_with_line_and_reason(tmp_path: Path) -> None:
    rows = [
        "a,1.5,60,90,0,200,60,1,false",
        "a,1.5,60,90,0,200,60,1,false",
        "c,-1,60,90,0,200,60,1,false",
        "d,1.5,60,90,0,=1+1,60,1,false",
        "e,1.5,60,90,0,200,60,1",
        "f,1.5,60,90,0,200,60,1,perhaps",
        "g,nan,60,90,0,200,60,1,true",
    ]
    got = csv_of(tmp_path, "\n".join([HEADER, *rows]), **SERVED)
    assert got.frame["observation_id"].to_list() == ["a"]
    assert got.rejected["line"].to_list() == [3, 4, 5, 6, 7, 8]
    assert got.rejected["raw"].to_list() == rows[1:]


def test_a_csv_that_lacks_columns_says_which(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"line 1: an observation needs model_id, gpu_id"):
        csv_of(tmp_path, f"{HEADER}\na,1.5,60,90,0,200,60,1,false\n")
