"""What `capsheet size` shows a person, in English and in Chinese."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pipelines.commands import size_page
from pipelines.commands.size_phrases import PHRASES
from pipelines.commands.size_sources import MEANINGS, SOURCES
from pipelines.commands.size_texts import NAMES, source, word
from pipelines.planning.rules_of_thumb import RULES
from tests.conftest import ROOT
from tests.pipelines.sizing import sized
from warehouse.catalog import read_catalog


def test_the_page_in_docs_names_keys_that_the_answer_has() -> None:
    told = (ROOT / "docs" / "size.md").read_text(encoding="utf-8").partition("## The JSON answer")[2]
    keys = set(re.findall(r"`([a-z]+_[a-z_]+|[a-z]+)`", told)) - {"max_model_len", "null", "size"}
    said = sized(explain=True)
    assert keys - set(said) - set(said["calculator"]) == set()


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
        {"model": "openai/gpt-oss-20b", "engine": "vllm@0.19.0", "gpu_memory_utilization": 0.95, "max_model_len": 8192},
        {"engine": "tensorrt-llm@1.0", "gpu": "MI300X", "quantization": "nvfp4", "kv_cache_dtype": "fp8"},
        {"kv_cache_dtype": "fp4"},
        {"kv_cache_dtype": "fp8_ds_mla"},
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
    kinds = {re.sub(r"\d[\d,.]*", "0", text): text for text in told}  # of sources that differ in a number, one
    left = [text for text in kinds.values() if ENGLISH.search(source(text, "zh"))]
    assert len(left) <= 0.4 * len(kinds), left
    assert source("vllm-project/vllm#30515", "zh") == "vllm-project/vllm#30515"


def test_no_english_text_is_translated_twice() -> None:
    pairs = (*PHRASES, *SOURCES, *MEANINGS)
    assert len({english for english, _ in pairs}) == len(pairs)
    for english, chinese in pairs:
        assert set(re.findall(r"\{(\w+)\}", chinese)) == set(re.findall(r"\{(\w+)\}", english)), english
