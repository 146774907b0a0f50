"""llm-cal's twelve published pages against capsheet: where they agree, and which known error makes the rest differ.

Belongs here: the comparison as a table, and assertions on both sides of it. The page's own config, weight bytes and
card figures are taken, so that only the formulas are compared. "Theirs" is what the page's version computes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from estimator import calculator as rules
from estimator.architecture import Architecture
from estimator.configs import parse_config
from estimator.engines import resolve_settings
from estimator.hardware import GB, GIB
from estimator.memory import tensor_parallel_problem
from estimator.memory.kv import token_bytes
from estimator.weights import weights
from pipelines.planning.catalog import shipped

CATALOG = shipped()
WHY = {
    "dense_first": "the 3 dense-first layers counted as experts, MLA's projections at a third; published total: 671 B",
    "rope": "MLA without the 64 rope dimensions: 512 of 576 elements are counted",
    "mla_tp": "MLA's latent divided over the TP ranks; every rank holds it whole",
    "squared": "weights divided by the GPUs, and the result multiplied by them: throughput grows with N squared",
    "moe_total": "a prompt charged with all experts; a token uses the routed few",
    "tp": "offers a TP that the engine refuses: key/value heads and ranks do not divide one another",
    "label": "the label's decimal GB taken for what an engine sees",
    "compressed": "compressed attention caches one vector for key and value, not two; published total: 284 B",
    "fp4": "its config names FP8 alone, and capsheet sizes what a config names; the files hold FP4 experts",
}


@dataclass(frozen=True)
class Line:
    """One compared figure; `why` is empty where they ought to agree."""

    page: str
    figure: str
    theirs: float | str
    ours: float | str
    why: str = ""


@pytest.fixture(scope="module")
def pages(shared: Path) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((shared / "cases" / "llm_cal_pages.json").read_text())["cases"]
    return cases


def architecture_of(page: dict[str, Any]) -> Architecture:
    return parse_config(page["inputs"]["model_config"], page["inputs"]["model"])


def kv_bytes(architecture: Architecture, tp: int) -> float:
    card = CATALOG.accelerator("H100-SXM", "page")
    settings = resolve_settings("vllm", "0.19.0", card, architecture, CATALOG.profile, {"kv_cache_dtype": "bfloat16"})
    return sum(token_bytes(layer.attention, settings, tp) for layer in architecture.layers)


def tier_of(page: dict[str, Any]) -> dict[str, Any]:
    """The tier the page computes its throughput for."""
    found = page["recomputed_pypi_0_2_0"]
    return next(tier for tier in found["fleet"] if tier["tier"] == found["best_tier"])


def compare(page: dict[str, Any]) -> list[Line]:
    inputs, theirs = page["inputs"], page["recomputed_pypi_0_2_0"]
    name = Path(page["page"]).stem
    architecture = architecture_of(page)
    mla = architecture.attention_kind.startswith("MLA")
    experts = architecture.parameters_active < 0.9 * architecture.parameters_total
    card, gpus = inputs["gpu_spec"], tier_of(page)["gpus"]
    lines = [
        Line(name, "parameters", theirs["total_params"], architecture.parameters_total, "dense_first" if mla else "")
    ]
    if architecture.compressed:
        per_token, weight_bytes = theirs["kv_bytes"]["4096"] / 4096, weights(architecture).total_bytes
        return [
            Line(name, "parameters", theirs["total_params"], architecture.parameters_total, "compressed"),
            Line(name, "weight bytes", inputs["weight_bytes"], weight_bytes, "fp4"),
            Line(name, "KV bytes of a token", per_token, kv_bytes(architecture, 1), "compressed"),
        ]
    held = weights(architecture)
    draft = architecture.draft_parameters * held.scheme.expert_bits / 8
    lines.append(Line(name, "weight bytes", inputs["weight_bytes"], held.total_bytes + draft))
    lines.append(
        Line(
            name,
            "KV bytes of a token",
            theirs["kv_bytes"]["4096"] / 4096,
            kv_bytes(architecture, 1),
            "rope" if mla else "",
        )
    )
    # The page's rule: a token's KV over min(TP, KV heads).
    kv_heads = inputs["model_config"]["num_key_value_heads"]
    shared_kv = theirs["kv_bytes"]["4096"] / 4096 / min(gpus, kv_heads)
    refused = tensor_parallel_problem(architecture, gpus) is not None
    why = "mla_tp" if mla else "tp" if refused else ""
    ours = "refused" if refused else kv_bytes(architecture, gpus)
    lines.append(Line(name, f"KV bytes a rank, TP {gpus}", shared_kv, ours, why))
    prefill_ms = 1000 * rules.prefill_seconds(
        architecture.parameters_active, inputs["input_tokens"], card["fp16_tflops"], gpus, inputs["prefill_utilization"]
    )
    lines.append(Line(name, "prefill ms", theirs["prefill_ms"], prefill_ms, "moe_total" if experts else ""))
    decode = rules.decode_tokens_per_s(
        inputs["weight_bytes"] / GB,
        card["memory_bandwidth_gbps"],
        gpus,
        inputs["decode_bw_utilization"],
        inputs["cluster_comm_efficiency"],
    )
    lines.append(Line(name, "cluster tokens/s", theirs["cluster_tok_s"], decode, "squared" if gpus > 1 else ""))
    visible = CATALOG.accelerator(inputs["gpu"].replace("80G", "80GB"), name).visible_memory_gib
    lines.append(Line(name, "usable GiB", tier_of(page)["usable_bytes_per_gpu"] / GIB, visible * 0.9, "label"))
    for tp in theirs["valid_tp"]:
        if tensor_parallel_problem(architecture, tp):
            lines.append(Line(name, f"TP {tp}", "offered", "refused", "tp"))
    return lines


def ratio(line: Line) -> float:
    assert isinstance(line.theirs, int | float) and isinstance(line.ours, int | float)
    return line.theirs / line.ours


def test_the_table_of_pages(pages: list[dict[str, Any]]) -> None:
    lines = [line for page in pages for line in compare(page)]
    for line in lines:
        sides = " ".join(f"{side:>18,.1f}" if not isinstance(side, str) else f"{side:>18}" for side in sides_of(line))
        print(f"{line.page:45} {line.figure:24} {sides}  {WHY[line.why] if line.why else 'agrees'}")
    assert len(pages) == 12
    assert {line.why for line in lines if line.why} <= set(WHY)


def sides_of(line: Line) -> tuple[float | str, float | str]:
    return line.theirs, line.ours


def test_where_llm_cal_is_right_capsheet_agrees_within_one_percent(pages: list[dict[str, Any]]) -> None:
    right = [line for page in pages for line in compare(page) if not line.why]
    assert len(right) >= 30
    for line in right:
        assert ratio(line) == pytest.approx(1, abs=0.01), line


def test_plain_gqa_kv_and_its_sharing_over_ranks_agree_to_the_byte(pages: list[dict[str, Any]]) -> None:
    checked = 0
    for page in pages:
        for line in compare(page):
            if line.figure.startswith("KV bytes") and not line.why:
                assert line.theirs == line.ours, line
                checked += 1
    assert checked >= 14


def test_mla_misses_the_rope_dimensions_and_is_wrongly_divided(pages: list[dict[str, Any]]) -> None:
    lines = {line.figure: line for page in pages if "v3" in page["page"] for line in compare(page)}
    assert ratio(lines["KV bytes of a token"]) == pytest.approx(512 / 576)
    assert lines["KV bytes of a token"].ours == 70_272
    # Every rank holds the latent whole: dividing by 8 understates it ninefold, rope dimensions included.
    assert ratio(lines["KV bytes a rank, TP 8"]) == pytest.approx(512 / 576 / 8)
    assert lines["parameters"].ours == pytest.approx(671e9, rel=0.01)
    assert ratio(lines["parameters"]) > 1.03


def test_cluster_throughput_grows_with_the_square_of_the_gpus(pages: list[dict[str, Any]]) -> None:
    for page in pages:
        for line in compare(page):
            if line.figure == "cluster tokens/s":
                assert ratio(line) == pytest.approx(tier_of(page)["gpus"], rel=1e-6), line


def test_a_moe_prompt_is_charged_with_all_experts(pages: list[dict[str, Any]]) -> None:
    seen = set()
    for page in pages:
        architecture = architecture_of(page)
        for line in compare(page):
            if line.why == "moe_total":
                assert ratio(line) == pytest.approx(
                    page["recomputed_pypi_0_2_0"]["total_params"] / architecture.parameters_active
                )
                seen.add(architecture.model_type)
    assert seen == {"deepseek_v3", "mixtral", "qwen3_moe"}


def test_pages_offer_tensor_parallel_sizes_that_engines_refuse(pages: list[dict[str, Any]]) -> None:
    refused = {
        (page["inputs"]["model"], line.figure)
        for page in pages
        for line in compare(page)
        if line.figure.startswith("TP ")
    }
    assert ("Qwen/Qwen2.5-7B", "TP 7") in refused
    assert {("microsoft/Phi-4", "TP 4"), ("microsoft/Phi-4", "TP 8")} <= refused


def test_a_vector_that_is_key_and_value_at_once_is_charged_twice(pages: list[dict[str, Any]]) -> None:
    lines = [line for page in pages for line in compare(page) if line.why == "compressed"]
    assert {line.page for line in lines} == {"deepseek-ai-deepseek-v4-flash-b200", "deepseek-ai-deepseek-v4-flash-h100"}
    for line in lines:
        if line.figure == "parameters":
            assert line.ours == pytest.approx(284e9, rel=0.01)
            assert ratio(line) > 1.02
        else:
            # 21 layers of 512 / 4 elements, 20 of 512 / 128 and 2 that only keep their window, 16 bits each.
            assert line.ours == 2 * (21 * 512 / 4 + 20 * 512 / 128 + 2 * 512)
            assert ratio(line) > 2
