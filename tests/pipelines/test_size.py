"""`capsheet size`: the account, the limits and the times of one configuration."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipelines.commands.size_texts import NAMES
from pipelines.planning.rules_of_thumb import RULES, read_coefficients
from tests.pipelines.sizing import FIGURES, LLAMA, sized
from warehouse.registry import LABELS


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


def test_a_tpot_comes_with_how_far_measurements_lie_from_it() -> None:
    known = sized(concurrency=16)["calculator"]
    assert known["tpot_p10_ms"] < known["tpot_ms"] < known["tpot_p90_ms"]
    unseen = sized(concurrency=16, gpu="Gaudi3")["calculator"]
    assert unseen["tpot_p90_ms"] / unseen["tpot_ms"] > known["tpot_p90_ms"] / known["tpot_ms"]


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
        assert row["tp"] is None or row["nodes_a_group"] == math.ceil(row["tp"] / 8)
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


def test_every_step_of_the_derivation_has_formula_value_label_and_source() -> None:
    said = sized(explain=True, concurrency=8)
    steps = {step["step"]: step for step in said["derivation"]}
    assert set(said["calculator"]) | set(FIGURES) <= set(steps)
    for step in steps.values():
        assert step["formula"] and step["source"] and step["label"] in LABELS, step["step"]
    assert "derivation" not in sized()
    rate = steps["decode_tokens_per_s_per_user"]["value"]
    assert rate * 8 == pytest.approx(steps["decode_tokens_per_s_per_replica"]["value"])


def test_each_engine_has_its_own_budget_rule() -> None:
    budgets = {engine: sized(engine=engine)["kv_budget_gib_per_gpu"] for engine in ("vllm@0.19.0", "sglang@0.5.4")}
    assert budgets["vllm@0.19.0"] != budgets["sglang@0.5.4"]
    trt = sized(engine="TensorRT-LLM@1.0", gpu_memory_utilization=0.9)
    free = trt["terms"][0]["value"] - sum(trt[f"{n}_gib_per_gpu"] for n in ("weights", "activation", "non_torch"))
    assert trt["kv_budget_gib_per_gpu"] == pytest.approx(free * 0.9)


"""Words that only an English sentence has; names of projects, files and flags have none."""
