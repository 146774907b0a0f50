"""`capsheet accuracy`: every row of a start-up log predicted, or listed with the reason why not."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.commands.accuracy import read_rows, run
from pipelines.planning import accuracy
from pipelines.planning.catalog import shipped
from pipelines.sources.model_names import ModelFolders
from tests.pipelines.conftest import Capsheet
from warehouse.errors import CapsheetError

ROW = {
    "case_id": "A", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "weights_quant": "bf16", "gpu": "H100 80GB SXM",
    "gpu_mem_gib_seen": "79.19", "engine": "vLLM", "engine_version": "0.19.0", "tp": "1", "pp": "1",
    "max_model_len": "8192", "mem_util": "0.95", "max_num_seqs": "1024", "max_num_batched_tokens": "8192",
    "kv_dtype": "auto(bf16)", "weights_gib_per_gpu": "14.99", "kv_gib_per_gpu": "58.11", "kv_tokens": "476016",
    "max_concurrency": "58.11", "outcome": "ok",
}  # fmt: skip
"""One start-up as vLLM 0.19.0 printed it (llm-d-incubation/llm-d-planner, accuracy logs)."""


def file_of(folder: Path, *rows: dict[str, str]) -> Path:
    file = folder / "logs.csv"
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(ROW))
        writer.writeheader()
        writer.writerows(rows)
    return file


def answer(capsys: pytest.CaptureFixture[str], file: Path, **options: Any) -> dict[str, Any]:
    run(file, models=options.get("models"), out=options.get("out"), json=True)
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_a_stated_start_up_is_predicted_within_a_percent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, file_of(tmp_path, ROW))
    assert (said["rows"], said["predicted"], said["skipped"]) == (1, 1, {})
    for metric in ("weights", "kv_gib", "kv_tokens", "max_concurrency"):
        assert said["metrics"][metric]["n"] == 1
        assert said["metrics"][metric]["median_ape"] < 0.01
    assert set(said["by"]) == {"engine", "gpu", "attention"}


def test_measured_columns_do_not_move_the_prediction(tmp_path: Path) -> None:
    moved = {**ROW, "kv_tokens": "1", "weights_gib_per_gpu": "70", "max_concurrency": "9999", "kv_gib_per_gpu": "nan"}
    rows = accuracy.predict_rows(read_rows(file_of(tmp_path, ROW, moved)), ModelFolders(), shipped())
    accounts = [row.prediction.account for row in rows if row.prediction]
    assert accounts[0] == accounts[1] and len(accounts) == 2


def test_what_cannot_be_predicted_is_listed_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {**ROW, "model_id": "nobody/none"}
    garbage = {**ROW, "mem_util": "lots"}
    said = answer(capsys, file_of(tmp_path, ROW, unknown, garbage))
    assert said["predicted"] == 1
    assert sum(said["skipped"].values()) == 2
    assert said["rows"] == said["predicted"] + sum(said["skipped"].values())


def test_a_row_without_its_gpu_gets_only_what_does_not_depend_on_one() -> None:
    rows = accuracy.predict_rows(
        [{**ROW, "gpu": "", "gpu_mem_gib_seen": "", "outcome": "fail"}], ModelFolders(), shipped()
    )
    record = accuracy.per_row(rows)[0]
    assert record["predicted_weights"] > 0 and not record["skipped"]
    assert record["predicted_kv_tokens"] is record["predicted_max_concurrency"] is record["feasible"] is None
    assert accuracy.report(rows)["failed_start_ups"] == {"rows": 0, "predicted_infeasible": 0}


def test_a_failed_start_up_counts_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    too_big = {**ROW, "model_id": "meta-llama/Llama-3.1-70B-Instruct", "outcome": "fail"}
    said = answer(capsys, file_of(tmp_path, too_big))
    assert said["failed_start_ups"] == {"rows": 1, "predicted_infeasible": 1}
    assert said["metrics"] == {}


def test_a_whole_config_of_the_catalogue_wins_over_a_trimmed_one_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "google--gemma-3-4b-it.partial.json").write_text('{"model_type": "gemma3", "vocab_size": 7}')
    found = ModelFolders(folder).find("google/gemma-3-4b-it")
    assert found is not None and found.instead is None and found.config["text_config"]["vocab_size"] == 262_208
    (folder / "nobody--none.partial.json").write_text('{"model_type": "gemma3", "vocab_size": 7}')
    assert ModelFolders(folder).find("nobody/none") is not None


def test_configs_of_the_folder_win_whatever_the_case(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512}  # fmt: skip
    (folder / "Meta-Llama--LLAMA-3.1-8B-instruct.json").write_text(json.dumps(config))
    found = ModelFolders(folder).find("meta-llama/Llama-3.1-8B-Instruct")
    assert found is not None and found.config["hidden_size"] == 64
    shipped_one = ModelFolders().find("llama-3.1-8b-instruct")
    assert shipped_one is not None and shipped_one.config["hidden_size"] == 4096


def test_a_folder_named_by_a_relative_path_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
              "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512}  # fmt: skip
    (tmp_path / "models" / "a--b.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    found = ModelFolders(Path("models")).find("a/b")
    assert found is not None and found.config["hidden_size"] == 64


def test_a_quantised_copy_without_a_config_is_taken_for_its_model_and_says_so() -> None:
    found = ModelFolders().find("somebody/Llama-3.1-8B-Instruct-AWQ-INT4")
    assert found is not None and found.instead == "meta-llama/Llama-3.1-8B-Instruct"


def test_the_record_of_each_row_holds_no_formula(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    answer(capsys, file_of(tmp_path, ROW, {**ROW, "case_id": "=cmd|x", "model_id": "@SUM(A1)"}), out=out)
    with out.open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert [record["line"] for record in records] == ["2", "3"]
    assert float(records[0]["predicted_kv_tokens"]) > 0
    assert not any(cell.startswith(("=", "@")) for record in records for cell in record.values())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html></html>",
        b"a,b\n1,2\n",
        b"model_id,gpu,engine,kv_tokens\n",
        b"\x00\x01\x02",
        "é,à".encode("utf-16"),
    ],
)
def test_a_file_that_is_no_start_up_log_is_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    with pytest.raises(CapsheetError) as failure:
        run(file, models=None, out=None, json=True)
    assert "\n" not in str(failure.value)


def test_the_command_prints_a_table(tmp_path: Path, capsheet: Capsheet) -> None:
    done = capsheet("accuracy", file_of(tmp_path, ROW))
    assert done.returncode == 0, done.stderr
    assert "kv_tokens" in done.stdout and "1 of 1 rows predicted" in done.stdout


CELLS = st.one_of(
    st.text(max_size=12), st.sampled_from(["-1", "0", "nan", "inf", "1e309", "0.9", "4", "auto", "fp8", "T4", "V0 0.6"])
)


@settings(max_examples=150, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(sorted(ROW)), CELLS, max_size=5))
def test_any_row_is_predicted_or_skipped_with_a_reason(changes: dict[str, str]) -> None:
    row = accuracy.predict_rows([{**ROW, **changes}], FOLDERS, CATALOG)[0]
    assert (row.prediction is None) == bool(row.skipped)
    accuracy.report([row])
    accuracy.per_row([row])


FOLDERS, CATALOG = ModelFolders(), shipped()


def test_the_given_start_up_logs_meet_their_targets(shared: Path) -> None:
    """KV tokens: median within 2 %, nine of ten rows within 8 %; weights: median within 1 %."""
    rows = read_rows(shared / "cases" / "engine_memory_logs.csv")
    said = accuracy.report(accuracy.predict_rows(rows, ModelFolders(shared / "data" / "hf_configs"), CATALOG))
    print(json.dumps(said["metrics"], indent=1), json.dumps(said["skipped"], indent=1))
    assert said["rows"] == 136
    assert said["metrics"]["kv_tokens"]["median_ape"] <= 0.02 and said["metrics"]["kv_tokens"]["p90_ape"] <= 0.08
    assert said["metrics"]["weights"]["median_ape"] <= 0.01
    assert said["metrics"]["max_concurrency"]["p90_ape"] <= 0.08


@pytest.mark.parametrize(
    ("written", "config"),
    [
        ("Llama-3-8B (14.96 GiB)", "meta-llama/Meta-Llama-3-8B"),
        ("Qwen2.5-7B class (14.25 GiB)", "Qwen/Qwen2.5-7B"),
        ("facebook/opt-125m class", "facebook/opt-125m"),
        ("Qwen3.6-27B dual + LMCache", "Qwen/Qwen3.6-27B"),
    ],
)
def test_a_model_described_by_its_name_and_more_is_found_and_said_to_be_of_that_name(written: str, config: str) -> None:
    found = ModelFolders().find(written)
    assert found is not None and found.instead == config
    assert ModelFolders().find("7B class (14.25 GiB)") is None
