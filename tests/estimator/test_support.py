"""What an engine's version takes, as the table's rows say it."""

from __future__ import annotations

import csv
from functools import cache

import pytest

from estimator.engines import UnknownEngine
from estimator.support import Support, supports
from tests.estimator.memory_fixtures import CATALOG, accelerators, model

LLAMA, V4, M3 = "meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V4-Flash", "MiniMaxAI/MiniMax-M3"
W8A8, FP8 = "RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8", "Qwen/Qwen3-30B-A3B-FP8"


@cache
def table() -> tuple[dict[str, str], ...]:
    with (CATALOG / "support.csv").open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def asked(model_id: str, gpu: str, version: str, precision: str = "auto", engine: str = "vllm") -> tuple[Support, ...]:
    return supports(engine, version, accelerators()[gpu], model(model_id), precision, table())


@pytest.mark.parametrize(
    ("model_id", "version", "accepted", "since"),
    [(V4, "0.19.0", False, "0.20.0"), (V4, "0.20.0", True, "0.20.0"), (M3, "0.23.0", False, "0.24.0")],
)
def test_a_model_type_is_taken_from_its_first_version_on(
    model_id: str, version: str, accepted: bool, since: str
) -> None:
    found = asked(model_id, "H200-SXM", version)[0]
    assert (found.accepted, found.since) == (accepted, since)
    assert found.label == "cited" and found.source


@pytest.mark.parametrize(
    ("model_id", "gpu", "precision", "accepted", "weights_only"),
    [
        (LLAMA, "H100-SXM", "auto", True, False),
        (LLAMA, "T4", "auto", False, False),  # no bfloat16 before Ampere
        (FP8, "H100-SXM", "auto", True, False),
        (FP8, "A100-80GB-SXM", "auto", True, True),  # Marlin: memory saved, 16-bit GEMMs
        (FP8, "V100-SXM2-32GB", "auto", False, False),
        (W8A8, "H100-SXM", "auto", True, False),
        (W8A8, "B200-SXM", "auto", False, False),  # INT8 ends at compute capability 10.0
        (LLAMA, "B200-SXM", "nvfp4", True, False),
        (LLAMA, "H100-SXM", "nvfp4", True, True),
    ],
)
def test_weights_are_taken_computed_in_or_refused_by_generation(
    model_id: str, gpu: str, precision: str, accepted: bool, weights_only: bool
) -> None:
    found = asked(model_id, gpu, "0.24.0", precision)[1]
    assert (found.accepted, found.weights_only) == (accepted, weights_only)


def test_what_no_row_speaks_of_is_not_known() -> None:
    found = asked("zai-org/GLM-5", "H200-SXM", "0.24.0")[0]
    assert found.accepted is None
    assert found.label == "assumed"


def test_an_accepting_log_says_nothing_of_versions_before_it() -> None:
    assert asked("google/gemma-2-27b-it", "H100-SXM", "0.19.0")[0].accepted is True
    assert asked("google/gemma-2-27b-it", "H100-SXM", "0.10.0")[0].accepted is None


def test_an_engine_nobody_knows_is_refused() -> None:
    with pytest.raises(UnknownEngine):
        asked(LLAMA, "H100-SXM", "1.0", engine="llama.cpp")


def test_every_row_of_support_has_a_source_and_says_yes_no_or_weights_only() -> None:
    rows = table()
    assert len(rows) > 100
    assert all(row["parameter"].startswith("accepts_") for row in rows)
    assert {float(row["value"]) for row in rows} <= {0, 0.5, 1}
    assert all(row["source"] and row["label"] in {"cited", "measured", "inferred"} for row in rows)
