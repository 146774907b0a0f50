"""Rows of a start-up log as people write them: predicted as meant, or skipped with the column that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.commands.accuracy import predict, read_rows, run
from pipelines.planning import accuracy
from pipelines.planning.log_cells import problem
from pipelines.planning.measurements import read_measurements
from tests.pipelines.test_accuracy import ROW, file_of
from warehouse.errors import CapsheetError

WHOLE = {**ROW, "n_gpus": "1", "dp": "1", "ep": "", "block_size": "16"}


def one(**changes: str) -> accuracy.Row:
    return predict([{**WHOLE, **changes}], None)[0]


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"tp": "two"}, "tp"),
        ({"tp": "2.5"}, "tp"),
        ({"tp": "0"}, "tp"),
        ({"tp": "-4"}, "tp"),
        ({"pp": "auto"}, "pp"),
        ({"dp": "on"}, "dp"),
        ({"ep": "maybe"}, "ep"),
        ({"max_model_len": "8k"}, "max_model_len"),
        ({"max_model_len": "8,192"}, "max_model_len"),
        ({"max_num_seqs": "1e3"}, "max_num_seqs"),
        ({"mem_util": "90%"}, "mem_util"),
        ({"mem_util": "90"}, "mem_util"),
        ({"mem_util": "nan"}, "mem_util"),
        ({"gpu_mem_gib_seen": "0"}, "gpu_mem_gib_seen"),
        ({"gpu_mem_gib_seen": "-3"}, "gpu_mem_gib_seen"),
        ({"gpu_mem_gib_seen": "inf"}, "gpu_mem_gib_seen"),
        ({"engine": ""}, "engine"),
        ({"engine": "TGI"}, "engine"),
    ],
)
def test_a_cell_that_cannot_be_read_skips_its_row_and_is_never_taken_for_a_default(
    changes: dict[str, str], column: str
) -> None:
    row = one(**changes)
    assert row.prediction is None
    assert row.skipped.startswith(column)


@pytest.mark.parametrize(
    "changes",
    [
        {"tp": "2.0"},
        {"tp": "", "n_gpus": "2"},
        {"dp": "off"},
        {"ep": "off"},
        {"max_num_seqs": "", "max_num_batched_tokens": "", "block_size": ""},
        {"engine_version": "0.9.x V1"},
        {"engine_version": "(<=0.16, not stated)"},
        {"engine_version": ">=0.21"},
        {"engine_version": "2026-08"},
        {"engine_version": ""},
        {"gpu": "NVIDIA A100-SXM4-80GB", "gpu_mem_gib_seen": ""},
        {"gpu": "80GB-class (79.14GiB)", "gpu_mem_gib_seen": ""},
        {"gpu": "GeForce RTX 4090 24GB", "gpu_mem_gib_seen": ""},
        {"gpu": "h200", "gpu_mem_gib_seen": ""},
        {"kv_dtype": "fp8_e4m3"},
        {"engine": "vLLM (LMI container)"},
    ],
)
def test_the_spellings_of_real_logs_are_predicted(changes: dict[str, str]) -> None:
    row = one(**changes)
    assert row.prediction is not None, row.skipped
    assert row.prediction.account.weights_gib_per_gpu > 0


def test_ranks_are_used_as_stated() -> None:
    plain, sliced = one().prediction, one(tp="2", n_gpus="2").prediction
    assert plain is not None and sliced is not None
    assert sliced.account.kv_bytes_per_token_per_gpu * 2 == plain.account.kv_bytes_per_token_per_gpu


def test_the_kind_of_each_given_file_is_told_from_its_columns(shared: Path) -> None:
    kinds = {file.stem: read_measurements(file).kind for file in (shared / "cases").glob("*.csv")}
    assert kinds == {
        "engine_memory_logs": "start-up logs",
        "serving_measured_closed_loop": "closed loop",
        "serving_measured_open_loop": "open loop",
        "serving_measured_other": "mixed",
    }


def test_a_correction_is_not_for_start_ups(tmp_path: Path) -> None:
    with pytest.raises(CapsheetError, match="--correct is for serving"):
        run(file_of(tmp_path, ROW), models=None, out=None, json=True, correct=0.3)


def test_the_measurements_are_never_overwritten_by_their_own_predictions(tmp_path: Path) -> None:
    file = file_of(tmp_path, ROW)
    before = file.read_bytes()
    with pytest.raises(CapsheetError, match="itself"):
        run(file, models=None, out=tmp_path / "." / file.name, json=True)
    assert file.read_bytes() == before


def test_what_was_left_open_is_said() -> None:
    row = one(engine_version="", mem_util="").prediction
    assert row is not None
    assert "vLLM version (newest)" in row.assumed and "gpu_memory_utilization" in row.assumed


def test_no_row_of_the_given_logs_loses_its_prediction_to_this_check(shared: Path) -> None:
    rows = read_rows(shared / "cases" / "engine_memory_logs.csv")
    refused = [(row["case_id"], problem(row)) for row in rows if problem(row)]
    assert refused == [("M181", "dp is 'on', not a whole number from 1")]


CELLS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["on", "off", "1", "2", "4.0", "0.9", "1e9", "nan", "-inf", "²", "1_0", "٣", "0x10"]),
)


@settings(max_examples=40, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(sorted(WHOLE)), CELLS, max_size=5))
def test_any_row_is_predicted_or_skipped_with_its_reason(changes: dict[str, str]) -> None:
    row = one(**changes)
    assert (row.prediction is None) == bool(row.skipped)
    assert "\n" not in row.skipped
    accuracy.report([row])
    accuracy.per_row([row])
