"""Whether what was sized starts: what the engine and the card take, the least change, the launch command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from pipelines.commands.size import answer
from pipelines.planning.rules_of_thumb import read_coefficients
from pipelines.planning.sizing import Ask
from pipelines.sources.models import ModelRead
from pipelines.sources.remembered import remember
from tests.pipelines.sizing import CONFIG, config_file, sized
from warehouse.errors import CapsheetError


def test_what_does_not_fit_is_an_answer_with_the_least_change() -> None:
    said = sized("meta-llama/Llama-3.1-70B-Instruct")
    assert said["feasible"] is False
    assert "no memory is left" in said["reasons"][0]
    assert said["least_change"] == "It fits with tensor parallel 2."
    assert sized("meta-llama/Llama-3.1-70B-Instruct", tp=2)["feasible"]
    assert said["calculator"]["k_requests"] == 0
    assert said["calculator"]["concurrency_limit"] == 0


@pytest.mark.parametrize(
    ("asked", "change", "then"),
    [
        (
            {"max_num_batched_tokens": 10**8},
            "It fits without --max-num-batched-tokens.",
            {"max_num_batched_tokens": None},
        ),
        (
            {"model": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "L4", "max_model_len": 131072},
            "It fits with tensor parallel 8 in fp8.",
            {"tp": 8, "quantization": "fp8"},
        ),
        (
            {"model": "deepseek-ai/DeepSeek-V3", "gpu": "A100", "engine": "vllm@0.19.0"},
            "It fits with tensor parallel 4 on GB200.",
            {"tp": 4, "gpu": "GB200"},
        ),
    ],
)
def test_the_least_change_named_does_make_it_start(asked: dict[str, Any], change: str, then: dict[str, Any]) -> None:
    said = sized(**asked)
    assert said["feasible"] is False
    assert said["least_change"] == change
    assert sized(**{**asked, **then})["feasible"] is True


def test_a_size_that_the_engine_refuses_is_answered_with_the_nearest_it_takes() -> None:
    assert sized("Qwen/Qwen2.5-7B-Instruct", tp=8)["least_change"] == "It fits with tensor parallel 4."
    assert "cuts the expert width 768 into 96" in sized("Qwen/Qwen3-30B-A3B-FP8", tp=8)["reasons"][0]
    assert sized("Qwen/Qwen3-30B-A3B-FP8", tp=8)["accepted_tp"] == [1, 2]
    assert 8 in sized("Qwen/Qwen3-30B-A3B-FP8", tp=8, ep=8)["accepted_tp"]


def test_launch_commands_carry_what_was_sized_and_quote_what_came_from_outside(tmp_path: Path) -> None:
    folder = tmp_path / "my model; rm -rf $HOME"
    folder.mkdir()
    config_file(folder)
    for engine, flag in (
        ("vllm@0.19.0", "--tensor-parallel-size"),
        ("sglang@0.5.4", "--tp-size"),
        ("tensorrt-llm@1.0.0", "--tp_size"),
    ):
        command = sized(str(folder), engine=engine, tp=2)["launch_command"]
        words = shlex.split(command.replace("\\\n", " "))
        assert str(folder) in words
        assert words[words.index(flag) + 1] == "2"
    vllm = sized(kv_cache_dtype="fp8", quantization="fp8", gpu_memory_utilization=0.85)["launch_command"]
    for part in ("--kv-cache-dtype fp8", "--quantization fp8", "--gpu-memory-utilization 0.85"):
        assert part in vllm


def test_a_checkpoint_with_code_of_its_own_is_pointed_out(tmp_path: Path) -> None:
    said = sized(str(config_file(tmp_path, auto_map={"AutoModelForCausalLM": "modeling.Own"})))
    assert "--trust-remote-code" in said["launch_command"]
    assert any("auto_map" in note["note"] for note in said["compatibility"])


def test_cards_that_lack_a_type_are_pointed_out() -> None:
    notes = " ".join(note["note"] for note in sized(gpu="T4", tp=4, max_model_len=1024)["compatibility"])
    assert "no bfloat16" in notes
    notes = " ".join(note["note"] for note in sized(gpu="A100", quantization="fp8")["compatibility"])
    assert "widened to 16 bits in the kernel" in notes
    notes = " ".join(note["note"] for note in sized(gpu="MI300X", quantization="nvfp4")["compatibility"])
    assert "MI300X has no FP4 rate" in notes and "AMD's own build" in notes


@pytest.mark.parametrize(
    ("asked", "reason", "change"),
    [
        ({"model": "Qwen/Qwen3-8B", "engine": "vllm@0.8.0"}, "model_type qwen3; it does from 0.8.4", "vllm 0.8.4"),
        ({"gpu": "MI300X", "engine": "tensorrt-llm@1.0"}, "NVIDIA cards only", "Choose an engine"),
        ({"gpu": "V100-32GB", "quantization": "fp8"}, "fp8 weights on V100-SXM2-32GB", "Choose an engine"),
    ],
)
def test_what_the_engine_or_the_card_does_not_take_does_not_start(
    asked: dict[str, Any], reason: str, change: str
) -> None:
    said = sized(**asked)
    assert said["feasible"] is False
    assert reason in said["reasons"][0]
    assert change in said["least_change"]
    assert said["weights_gib_per_gpu"] > 0, "the account is given all the same"


def test_a_cache_nobody_can_lay_out_gets_no_figure_and_the_version_that_can_is_named() -> None:
    asked: dict[str, Any] = {"model": "deepseek-ai/DeepSeek-V4-Flash", "gpu": "H200", "tp": 8}
    said = sized(**asked, engine="vllm@0.11.0")
    assert said["feasible"] is False and said["kv_budget_tokens"] is None and said["max_concurrency"] is None
    assert "does not take model_type deepseek_v4" in said["reasons"][0]
    assert said["least_change"] == "Use vllm 0.20.0 or later."
    assert sized(**asked, engine="vllm@0.20.0")["kv_budget_tokens"] > 0


def test_what_no_source_tells_of_a_model_type_is_said() -> None:
    notes = [note for note in sized("ibm-granite/granite-3.1-2b-instruct")["compatibility"]]
    assert any("model_type granite" in note["note"] for note in notes)
    unknown = sized("ibm-granite/granite-3.1-2b-instruct", engine="sglang@0.5.4")["compatibility"]
    assert {"no source says whether sglang 0.5.4 takes model_type granite"} <= {note["note"] for note in unknown}


def test_a_kv_cache_in_a_type_the_engine_does_not_name_is_pointed_out() -> None:
    def notes(**asked: Any) -> str:
        return " ".join(note["note"] for note in sized(**asked)["compatibility"])

    assert "vllm names no KV cache in int8" in notes(kv_cache_dtype="int8")
    assert "names no KV cache" not in notes(kv_cache_dtype="int8", engine="tensorrt-llm@1.0") + notes()
    assert "an eighth more" in notes(kv_cache_dtype="fp4", engine="sglang@0.5.4")
    assert "latent attention" in notes(kv_cache_dtype="fp8_ds_mla")


def test_versions_outside_what_the_catalogue_tells_apart_are_said() -> None:
    notes = " ".join(note["note"] for note in sized(engine="vllm@0.2.0")["compatibility"])
    assert "takes the oldest figures" in notes
    notes = " ".join(note["note"] for note in sized(engine="vllm@99.0")["compatibility"])
    assert "are taken for 99.0" in notes


def test_a_revision_follows_the_id_and_goes_into_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "a" * 40
    kept = ModelRead("org/name", commit, CONFIG, None, "estimated", "hub")
    remember(tmp_path / ".capsheet" / "models", kept)
    said = answer(Ask(f"org/name@{commit}", "H100", max_model_len=1024), tmp_path, offline=True)
    assert said["revision"] == commit
    assert f"--revision {commit}" in said["launch_command"]
    with pytest.raises(CapsheetError, match="no commit, branch or tag"):
        answer(Ask("org/name@", "H100"), tmp_path, offline=True)
    at = tmp_path / "my@models"
    at.mkdir()
    config_file(at)
    monkeypatch.chdir(tmp_path)
    assert answer(Ask("my@models", "H100"), tmp_path, offline=True)["revision"] == "local"


def test_the_launch_command_is_the_versions_own(tmp_path: Path) -> None:
    assert sized(engine="vllm@0.4.2")["launch_command"].startswith("python -m vllm.entrypoints.openai.api_server --mo")
    assert sized(engine="vllm@0.6.3")["launch_command"].startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct ")
    assert "--backend pytorch" in sized(engine="tensorrt-llm@0.20")["launch_command"]
    assert "--backend" not in sized(engine="tensorrt-llm@1.0")["launch_command"]
    assert "--dtype half" in sized(gpu="T4", tp=4)["launch_command"]
    assert "--kv-cache-dtype" not in sized(kv_cache_dtype="bf16")["launch_command"], "vLLM before 0.9 knows no bf16"
    named = config_file(tmp_path).rename(tmp_path / "org--name.json")
    assert sized(str(named))["launch_command"].startswith("vllm serve org/name ")
    nameless = named.rename(tmp_path / "mine.json")
    said = sized(str(nameless))
    assert said["launch_command"].startswith("vllm serve MODEL ")
    assert any("tells no model" in note["note"] for note in said["compatibility"])


def test_prompts_that_share_steps_with_decodes_take_a_flag_of_sglang() -> None:
    mixed = sized(engine="sglang@0.5.9", exclusive_prefill=False)["launch_command"]
    assert "--enable-mixed-chunk" in mixed
    assert "--enable-mixed-chunk" not in sized(engine="sglang@0.5.9")["launch_command"]


def test_a_checkpoint_far_from_its_config_and_a_group_across_nodes_are_warned_of(tmp_path: Path) -> None:
    config_file(tmp_path)
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(900_000_000)
    warned = sized(str(tmp_path))["warnings"]
    assert any("what the config comes to" in warning for warning in warned)
    assert sized()["warnings"] == []
    across = "TP 16 crosses nodes of 8 H100-SXM, and times assume the usual network between them"
    assert across in sized(tp=16)["warnings"]
    assert sized(tp=16, gpu="GB200")["warnings"] == []


def test_what_the_caller_sets_beyond_the_usual_is_warned_of() -> None:
    assert "a share of 0.99 is above 0.95" in sized(gpu_memory_utilization=0.99)["warnings"][0]
    high = sized(coefficients=read_coefficients(["prefill_utilisation=0.9", "safety_factor=0.7"]))["warnings"]
    assert high == ["--coefficient prefill_utilisation: 0.9 is outside its usual range, 0.3 to 0.5"]
