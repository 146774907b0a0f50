"""`capsheet size`: one configuration sized anywhere, by anyone, honestly or not at all."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.commands import size_page
from pipelines.commands.size import answer, model_folder, run
from pipelines.commands.size_phrases import PHRASES
from pipelines.commands.size_sources import MEANINGS, SOURCES
from pipelines.commands.size_texts import NAMES, source, word
from pipelines.planning.rules_of_thumb import RULES, read_coefficients
from pipelines.planning.sizing import Ask
from pipelines.sources.models import ModelRead
from pipelines.sources.remembered import remember
from tests.conftest import ROOT
from warehouse.catalog import read_catalog
from warehouse.errors import CapsheetError
from warehouse.registry import LABELS

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
FIGURES = (
    "weights_gib_per_gpu",
    "activation_gib_per_gpu",
    "non_torch_gib_per_gpu",
    "graph_gib_per_gpu",
    "kv_budget_gib_per_gpu",
    "kv_bytes_per_token_per_gpu",
    "kv_budget_tokens",
    "max_concurrency",
    "parameters_total",
    "parameters_active",
)


def sized(model: str = LLAMA, gpu: str = "H100-SXM", explain: bool = False, **options: Any) -> dict[str, Any]:
    ask = Ask(model, gpu, **{"engine": "vllm@0.19.0", "max_model_len": 4096, **options})
    return answer(ask, Path.cwd(), offline=True, explain=explain)


def config_file(folder: Path, **changes: Any) -> Path:
    file = folder / "config.json"
    kept = {name: value for name, value in {**CONFIG, **changes}.items() if value is not ...}
    file.write_text(json.dumps(kept), encoding="utf-8")
    return file


def capsheet(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


def test_every_figure_that_others_rely_on_is_there_with_its_label() -> None:
    said = sized()
    for name in FIGURES:
        assert isinstance(said[name], int | float), name
        assert said["labels"][name] in LABELS
    assert said["feasible"] is True and said["reasons"] == []
    assert set(said["calculator"]) <= set(said["labels"])


def test_a_known_start_up_is_met() -> None:
    """vLLM 0.19.0 on an H100 at 0.95 printed 14.99 GiB of weights and 131,072 B a token for Llama-3.1-8B."""
    said = sized(max_model_len=8192, gpu_memory_utilization=0.95)
    assert said["weights_gib_per_gpu"] == pytest.approx(14.99, rel=0.005)
    assert said["kv_bytes_per_token_per_gpu"] == 131_072
    assert said["max_concurrency"] == pytest.approx(said["kv_budget_tokens"] / 8192)


def test_the_account_adds_up_to_the_visible_memory() -> None:
    said = sized(gpu_memory_utilization=0.9)
    terms = {term["term"]: term["value"] for term in said["terms"]}
    spent = sum(said[f"{name}_gib_per_gpu"] for name in ("weights", "activation", "non_torch", "kv_budget"))
    assert spent == pytest.approx(terms["visible_memory"] * terms["utilization"])


@pytest.mark.parametrize(
    ("gpu", "label"), [("H100", "measured"), ("H200", "inferred"), ("RTX 4090", "cited"), ("MI300X", "estimated")]
)
def test_visible_memory_is_labelled_as_the_catalogue_knows_it(gpu: str, label: str) -> None:
    visible = sized(gpu=gpu)["terms"][0]
    assert (visible["term"], visible["label"]) == ("visible_memory", label)


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


def test_a_tensor_parallel_size_the_engine_refuses_is_one_line_for_people_and_a_reason_for_machines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = sized(tp=3)
    assert said["feasible"] is False and "TP 3 does not divide 32 attention heads" in said["reasons"]
    assert 3 not in said["accepted_tp"]
    options = {"model": LLAMA, "gpu": "H100", "tp": 3}
    with pytest.raises(CapsheetError, match="It accepts 1, 2, 4, 8"):
        run(options, coefficients=[], offline=True, lang="en", explain=False, json=False)
    assert capsys.readouterr().out == ""


def test_a_model_that_is_not_wholly_understood_gets_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config_file(tmp_path, model_type="never_seen_before", moon_cache_layers=7)
    said = sized(str(file))
    assert said["unaccounted"] and said["feasible"] is False
    assert all(said[name] is None for name in FIGURES)
    assert said["launch_command"] == "" and said["calculator"] == {} and said["fleet"] == []
    options = {"model": str(file), "gpu": "H100"}
    with pytest.raises(CapsheetError, match="no figure would be right"):
        run(options, coefficients=[], offline=True, lang="en", explain=False, json=False)
    run(options, coefficients=[], offline=True, lang="en", explain=False, json=True)
    assert json.loads(capsys.readouterr().out)["reasons"]


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"gpu": "Z9000"}, "no accelerator"),
        ({"engine": "llama.cpp"}, "no engine"),
        ({"engine": "vllm@newest"}, "no version"),
        ({"engine": "vllm@"}, "no version"),
        ({"quantization": "fp3"}, "--quantization"),
        ({"kv_cache_dtype": "fp3"}, "--kv-cache-dtype"),
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization"),
        ({"gpu_memory_utilization": math.nan}, "--gpu-memory-utilization"),
        ({"pp": 99}, "99"),
        ({"ep": 2}, "no experts"),
        ({"isl_tokens": 4000, "osl_tokens": 4000}, "beyond --max-model-len"),
        ({"isl_tokens": 4096}, "--isl 4,096 makes a request of at least 4,097"),
        ({"tpot_ms": math.inf}, "--tpot-ms"),
        ({"ttft_ms": math.nan}, "--ttft-ms"),
        ({"dp": 10**9}, "accelerators a replica"),
        ({"tp": 10**400}, "--tp"),
        ({"concurrency": 10**30}, "--concurrency"),
        ({"max_num_seqs": 10**30}, "--max-num-seqs"),
        ({"engine": "vllm0.11"}, "no engine"),
        ({"engine": "vllm@1e9"}, "no version"),
        ({"gpu": "8xH100"}, "--gpu H100-SXM --tp 8"),
        ({"gpu": "H100 x 8"}, "--gpu H100-SXM --tp 8"),
        ({"gpu": "Ascend 910C"}, "without its memory"),
        ({"gpu": "V100"}, "V100-SXM2-32GB"),
        ({"gpu": ""}, "It has A10"),
        ({"model": "~nobody-of-that-name/model"}, "no such home folder"),
        ({"model": " "}, "no model is named"),
        ({"model": "https://example.org/lab/model"}, "neither a path"),
        ({"coefficients": {"dense_read_factor": 0.5}}, "at least 1"),
    ],
)
def test_what_cannot_be_is_one_clear_line(changes: dict[str, Any], hint: str) -> None:
    with pytest.raises(CapsheetError) as failure:
        sized(**changes)
    assert hint in str(failure.value)
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 1200


@pytest.mark.parametrize("spelt", ["vllm@0.11.0", "vllm 0.11.0", "vllm==0.11.0", "vLLM:v0.11.0", "vllm@0.11.0+cu128"])
def test_an_engine_and_its_version_go_by_many_spellings_and_none_loses_the_version(spelt: str) -> None:
    said = sized(engine=spelt)
    assert (said["engine"], said["engine_version"]) == ("vllm", "0.11.0")
    assert not any("newest" in item for item in said["assumed"])


def test_an_instance_type_stands_for_its_accelerator() -> None:
    assert sized(gpu="p5.48xlarge")["gpu"] == "H100-SXM"


@pytest.mark.parametrize("length", [1, 2, 3, 4, 17])
def test_the_shortest_contexts_are_sized_with_what_fits_in_them(length: int) -> None:
    assert sized(max_model_len=length)["calculator"]["k_requests"] > 0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html><body>Log in</body></html>",
        b'{"model_type": "llama", "hidden_size": 10',
        b"[1, 2]",
        b'{"error": "gated"}',
        b'{"model_type": "llama", "hidden_size": NaN, "num_hidden_layers": 2, "num_attention_heads": 2}',
        b"\x00\x01\x02\x03",
        b'{"model_type": "llama", "hidden_size": "wide", "num_hidden_layers": 2, "num_attention_heads": 2}',
        b'{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1e400, "num_attention_heads": 2}',
    ],
)
def test_a_file_that_is_no_config_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(CapsheetError) as failure:
        sized(str(file))
    assert "config.json" in str(failure.value) and "\n" not in str(failure.value)


def test_tensor_parallelism_divides_weights_and_cache_of_a_gqa_model_and_never_below_one_head() -> None:
    one, four, sixteen = (sized(tp=tp) for tp in (1, 4, 16))
    assert four["kv_bytes_per_token_per_gpu"] * 4 == one["kv_bytes_per_token_per_gpu"]
    assert sixteen["kv_bytes_per_token_per_gpu"] * 8 == one["kv_bytes_per_token_per_gpu"]
    assert four["weights_gib_per_gpu"] < one["weights_gib_per_gpu"] / 3.9


def test_defaults_are_the_engines_own_and_say_so() -> None:
    said = sized(engine="vllm", max_model_len=None)
    known = {row["setting"]: row for row in said["settings"]}
    assert known["max_num_seqs"]["value"] == 1024 and known["max_num_seqs"]["label"] == "cited"
    assert said["max_model_len"] == 131_072
    assert any("newest the catalogue has" in item for item in said["assumed"])
    asked = {row["setting"]: row for row in sized(max_num_seqs=64)["settings"]}
    assert asked["max_num_seqs"] | {"source": ""} == {
        "setting": "max_num_seqs", "value": 64, "label": "assumed", "source": ""
    }  # fmt: skip


def test_a_card_without_published_rates_has_an_account_and_no_times() -> None:
    said = sized(gpu="RTX 3090 24GB")
    assert said["weights_gib_per_gpu"] > 14
    assert said["calculator"] == {} and "no time is computed" in said["calculator_missing"]


def test_mixtures_of_experts_give_both_ends_and_prompts_use_active_parameters() -> None:
    calculator = sized("Qwen/Qwen3-30B-A3B", explain=True)["calculator"]
    assert calculator["moe_optimistic_tokens_per_s_per_user"] > 3 * calculator["moe_conservative_tokens_per_s_per_user"]
    said = sized("Qwen/Qwen3-30B-A3B", coefficients={"prefill_utilisation": 0.4}, isl_tokens=2000)
    flops = 2 * said["parameters_active"] * 2000
    assert said["calculator"]["rule_prefill_ms"] == pytest.approx(1000 * flops / (989e12 * 0.4), rel=0.01)


def test_throughput_never_grows_with_the_square_of_the_gpus() -> None:
    for model in (LLAMA, "Qwen/Qwen3-30B-A3B"):
        efficiency = [sized(model, tp=tp, concurrency=32)["calculator"]["parallel_efficiency"] for tp in (1, 2, 4)]
        assert efficiency[0] == pytest.approx(1)
        assert 1.0 >= efficiency[1] >= efficiency[2] > 0


def test_a_steeper_target_allows_a_smaller_batch() -> None:
    limits = [sized(tpot_ms=target)["calculator"]["l_requests"] for target in (10, 30, 100)]
    assert limits == sorted(limits) and limits[0] < limits[2]
    said = sized(tpot_ms=30)["calculator"]
    assert said["l_requests"] <= said["tpot_batch_limit"]
    assert said["concurrency_limit"] <= min(said["k_requests"], said["l_requests"])
    assert said["first_load_test_requests"] == math.floor(0.7 * said["concurrency_limit"])


@pytest.mark.parametrize("asked", [{}, {"model": "Qwen/Qwen3-30B-A3B", "tp": 2}, {"tp": 8, "gpu": "A100"}])
def test_a_step_is_explained_by_terms_that_sum_to_it(asked: dict[str, Any]) -> None:
    said = sized(**asked, concurrency=32, explain=True)
    by_term = said["decode_step_by_term_ms"]
    assert sum(by_term.values()) == pytest.approx(said["calculator"]["decode_step_ms"])
    assert set(by_term) <= set(NAMES) and ("collectives" in by_term) == (said["tp"] > 1)
    prefill = next(step for step in said["derivation"] if step["step"] == "prefill_ms")
    terms = [ms for name, ms in prefill["inputs"].items() if name.endswith("_ms")]
    assert sum(terms) == pytest.approx(said["calculator"]["prefill_ms"])


def test_a_target_that_no_batch_misses_gives_no_number_for_l() -> None:
    known = sized(max_num_batched_tokens=2048, tpot_ms=1e6)["calculator"]
    assert known["l_requests"] is None and known["concurrency_limit"] > 0


def test_replicas_cover_the_concurrency_asked_for() -> None:
    said = sized(concurrency=1000)["calculator"]
    assert said["replicas_for_concurrency"] * said["first_load_test_requests"] >= 1000
    assert (said["replicas_for_concurrency"] - 1) * said["first_load_test_requests"] < 1000


def test_fleet_tiers_hold_what_they_promise_and_grow() -> None:
    fleet = sized("Qwen/Qwen2.5-72B-Instruct", max_model_len=32768)["fleet"]
    assert [row["tier"] for row in fleet] == ["min", "dev", "prod"]
    for row in fleet:
        assert row["tp"] is None or row["max_concurrency"] >= row["requests_needed"]
    sizes = [row["gpus"] for row in fleet if row["gpus"]]
    assert sizes == sorted(sizes) and sizes


def test_memory_left_free_on_purpose_comes_off_the_budget() -> None:
    free = sized(coefficients={"safety_gib": 2.0})
    margins = [next(t["source"] for t in said["terms"] if t["term"] == "safety") for said in (sized(), free)]
    assert margins == ["0 unless asked for", "set by the caller"]
    assert sized()["kv_budget_gib_per_gpu"] - free["kv_budget_gib_per_gpu"] == pytest.approx(2.0)


def test_a_coefficient_set_by_hand_is_used_and_marked() -> None:
    said = sized(coefficients=read_coefficients(["prefill-utilization=0.2", "dense_read_factor=1.5"]))
    rows = {row["name"]: row for row in said["coefficients"]}
    assert rows["prefill_utilisation"]["value"] == 0.2 and rows["prefill_utilisation"]["default"] == 0.4
    assert rows["dense_read_factor"]["source"] == "set by the caller"
    assert set(RULES) <= set(rows)
    assert all(row["source"] and row["label"] in LABELS for row in rows.values())
    assert said["calculator"]["rule_prefill_ms"] == pytest.approx(2 * sized()["calculator"]["rule_prefill_ms"])


@pytest.mark.parametrize("pair", ["nope=1", "safety_factor", "safety_factor=", "safety_factor=nan",
                                  "prefill_utilisation=0", "prefill_utilisation=1.1", "safety_gib=-1"])  # fmt: skip
def test_a_coefficient_that_cannot_be_is_refused(pair: str) -> None:
    with pytest.raises(CapsheetError, match="--coefficient"):
        read_coefficients([pair])


def test_every_step_of_the_derivation_has_formula_value_label_and_source() -> None:
    said = sized(explain=True, concurrency=8)
    steps = {step["step"]: step for step in said["derivation"]}
    assert set(said["calculator"]) | set(FIGURES) <= set(steps)
    for step in steps.values():
        assert step["formula"] and step["source"] and step["label"] in LABELS, step["step"]
    assert "derivation" not in sized()
    rate = steps["decode_tokens_per_s_per_user"]["value"]
    assert rate * 8 == pytest.approx(steps["decode_tokens_per_s_per_replica"]["value"])


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


def test_what_no_source_tells_of_a_model_type_is_said() -> None:
    notes = [note for note in sized("ibm-granite/granite-3.1-2b-instruct")["compatibility"]]
    assert any("model_type granite" in note["note"] for note in notes)
    unknown = sized("ibm-granite/granite-3.1-2b-instruct", engine="sglang@0.5.4")["compatibility"]
    assert {"no source says whether sglang 0.5.4 takes model_type granite"} <= {note["note"] for note in unknown}


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


def test_the_page_in_docs_names_keys_that_the_answer_has() -> None:
    told = (ROOT / "docs" / "size.md").read_text(encoding="utf-8").partition("## The JSON answer")[2]
    keys = set(re.findall(r"`([a-z]+_[a-z_]+|[a-z]+)`", told)) - {"max_model_len", "null", "size"}
    said = sized(explain=True)
    assert keys - set(said) - set(said["calculator"]) == set()


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


def test_a_checkpoint_far_from_its_config_and_a_group_across_nodes_are_warned_of(tmp_path: Path) -> None:
    config_file(tmp_path)
    with (tmp_path / "model.safetensors").open("wb") as weights:
        weights.truncate(900_000_000)
    warned = sized(str(tmp_path))["warnings"]
    assert any("what the config comes to" in warning for warning in warned)
    assert sized()["warnings"] == []
    across = "TP 16 crosses nodes of 8 H100-SXM, and no time here knows the network between them"
    assert across in sized(tp=16)["warnings"]
    assert sized(tp=16, gpu="GB200")["warnings"] == []


def test_what_the_caller_sets_beyond_the_usual_is_warned_of() -> None:
    assert "a share of 0.99 is above 0.95" in sized(gpu_memory_utilization=0.99)["warnings"][0]
    high = sized(coefficients=read_coefficients(["prefill_utilisation=0.9", "safety_factor=0.7"]))["warnings"]
    assert high == ["--coefficient prefill_utilisation: 0.9 is outside its usual range, 0.3 to 0.5"]


def test_each_engine_has_its_own_budget_rule() -> None:
    budgets = {engine: sized(engine=engine)["kv_budget_gib_per_gpu"] for engine in ("vllm@0.19.0", "sglang@0.5.4")}
    assert budgets["vllm@0.19.0"] != budgets["sglang@0.5.4"]
    trt = sized(engine="TensorRT-LLM@1.0", gpu_memory_utilization=0.9)
    free = trt["terms"][0]["value"] - sum(trt[f"{n}_gib_per_gpu"] for n in ("weights", "activation", "non_torch"))
    assert trt["kv_budget_gib_per_gpu"] == pytest.approx(free * 0.9)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("width", "asked"),
    [
        (100, {"concurrency": 4}),
        (80, {"model": "meta-llama/Llama-3.1-70B-Instruct"}),
        (80, {"model": "Qwen/Qwen3-30B-A3B", "engine": "sglang"}),
        (60, {"model": "deepseek-ai/DeepSeek-V3", "tp": 8, "gpu": "MI300X", "max_model_len": None}),
    ],
)
def test_the_page_is_readable_at_the_width_of_the_terminal(
    lang: str, width: int, asked: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_page, "WIDTH", width)
    size_page.tell(sized(**asked, explain=True), lang)
    lines = capsys.readouterr().out.splitlines()
    tables = lines[: next(i for i, line in enumerate(lines) if line.startswith(("Launch command", "启动命令")))]
    assert max(map(columns, tables)) <= width
    assert any("GiB" in line for line in tables)


def columns(line: str) -> int:
    from rich.cells import cell_len

    return cell_len(line)


def test_the_page_says_first_what_fits_how_many_and_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    size_page.tell(sized(isl_tokens=1000, osl_tokens=200), "en")
    told = capsys.readouterr().out.split("Memory of one GPU")[0]
    assert "Fits: the KV cache" in told and "Requests of 1,000 + 200 tokens: at most" in told
    size_page.tell(sized(ttft_ms=0.01), "en")
    assert "not even one meets the targets (bound: TTFT)" in capsys.readouterr().out
    size_page.tell(sized("meta-llama/Llama-3.1-70B-Instruct"), "en")
    told = capsys.readouterr().out
    assert "does not start as it stands" in told and "from the step model" not in told


ENGLISH = re.compile(
    r"(?<![\w/.#-])(the|of|is|are|to|for|not|no|by|from|with|as|it|so|which|that|be|than|its|up|after|an?|each|every)"
    r"(?![\w/.#-])"
)
"""Words that only an English sentence has; names of projects, files and flags have none."""


def test_a_chinese_page_holds_no_english_sentence() -> None:
    asked: list[dict[str, Any]] = [
        {"model": "meta-llama/Llama-3.1-70B-Instruct"},
        {"tp": 3},
        {"gpu": "L4", "max_model_len": 131072},
        {"max_model_len": 999_999, "gpu": "A10G"},
        {"engine": "vllm", "concurrency": 9},
        {"model": "Qwen/Qwen3-30B-A3B", "tp": 16, "engine": "vllm@0.2.0", "gpu": "Ascend-910B3"},
        {"model": "deepseek-ai/DeepSeek-V3", "tp": 8, "dp": 2, "ep": 16, "gpu": "B200", "engine": "vllm@99.9"},
        {"model": "google/gemma-3-27b-it", "engine": "sglang@0.5.4", "kv_cache_dtype": "fp8", "gpu": "A100"},
        {"model": "Qwen/Qwen3.5-27B", "engine": "tensorrt-llm@0.17", "quantization": "int4", "dp": 2},
        {"engine": "tensorrt-llm@1.0", "gpu": "MI300X", "quantization": "nvfp4", "kv_cache_dtype": "fp8"},
        {
            "engine": "vllm@0.8.5",
            "gpu": "T4",
            "tp": 4,
            "coefficients": {"safety_gib": 9.0},
            "gpu_memory_utilization": 0.99,
        },
    ]
    for options in asked:
        said = sized(**options, explain=True)
        names = [*said["calculator"], *(term["term"] for term in said["terms"]), *said["labels"].values()]
        assert set(names) <= set(NAMES)
        texts = [
            *said["reasons"],
            said["least_change"],
            *said["warnings"],
            *said["assumed"],
            said["calculator_missing"],
        ]
        texts += [row["note"] for row in (*said["terms"], *said["compatibility"])]
        texts += [step["formula"] for step in said["derivation"]]
        texts += [row["meaning"] for row in said["coefficients"] if row["name"] in RULES]
        for text in texts:
            assert not ENGLISH.search(word(text, "zh")), word(text, "zh")
            assert word(text, "en") == text


def test_sources_are_read_in_chinese_but_for_a_few_citations() -> None:
    rows = [*read_catalog("engines").to_dicts(), *read_catalog("coefficients").to_dicts()]
    told = {str(row["source"]) for row in rows} | {rule.source for rule in RULES.values()}
    told |= {str(row["meaning"]) for row in read_catalog("coefficients").to_dicts()}
    left = [text for text in told if ENGLISH.search(source(text, "zh"))]
    assert len(left) <= 0.25 * len(told), left
    assert source("vllm-project/vllm#30515", "zh") == "vllm-project/vllm#30515"


def test_no_english_text_is_translated_twice() -> None:
    pairs = (*PHRASES, *SOURCES, *MEANINGS)
    assert len({english for english, _ in pairs}) == len(pairs)
    for english, chinese in pairs:
        assert set(re.findall(r"\{(\w+)\}", chinese)) == set(re.findall(r"\{(\w+)\}", english)), english


def test_a_user_without_a_home_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "expanduser", lambda self: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert model_folder("org/name").name.startswith("capsheet-")


def test_the_command_works_from_any_folder_and_leaves_nothing_there(tmp_path: Path) -> None:
    done = capsheet("size", LLAMA, "--gpu", "H100", "--max-model-len", 4096, "--offline", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["feasible"] is True
    assert list(tmp_path.iterdir()) == []


def test_the_command_fails_with_one_line_and_never_a_traceback(tmp_path: Path) -> None:
    config_file(tmp_path, hidden_size="<script>")
    done = capsheet("size", "config.json", "--gpu", "H100", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1 and "hidden_size" in done.stderr
    assert capsheet("size", LLAMA, "--gpu", "H100", "--tp", 0, cwd=tmp_path).returncode == 2


MUTATIONS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**12), st.floats(allow_nan=True), st.text(max_size=6),
    st.lists(st.integers(0, 3), max_size=3), st.just({}), st.just(...),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    changes=st.dictionaries(st.sampled_from(sorted(CONFIG)), MUTATIONS, max_size=3),
    tp=st.sampled_from([1, 2, 3, 8]),
    engine=st.sampled_from(["vllm@0.6.3", "vllm@0.19.0", "vllm@99.9", "sglang@0.5.4", "tensorrt-llm@1.0"]),
    gpu=st.sampled_from(["H100", "T4", "RTX 3090", "B200", "MI300X"]),
)
def test_any_config_is_sized_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, Any], tp: int, engine: str, gpu: str
) -> None:
    file = config_file(tmp_path_factory.mktemp("fuzz"), **changes)
    try:
        said = sized(str(file), gpu, engine=engine, tp=tp, max_model_len=None)
    except CapsheetError as refusal:
        assert "\n" not in str(refusal)
        return
    assert said["feasible"] in (True, False)
    assert said["feasible"] or said["reasons"]
