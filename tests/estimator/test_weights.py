"""Bytes of a whole model: by scheme, and by the checkpoint's own files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.weights import SCHEMES, UnsupportedPrecision, weights
from tests.estimator.memory_fixtures import model

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def test_sixteen_bit_weights_are_two_bytes_a_parameter() -> None:
    assert weights(model(LLAMA)).total_bytes == 2 * 8_030_261_248


def test_fp8_leaves_embedding_and_head_in_16_bits() -> None:
    embedding = 128_256 * 4096
    linear = 8_030_261_248 - 2 * embedding
    assert weights(model(LLAMA), "fp8").total_bytes == pytest.approx(linear + 4 * embedding, rel=1e-4)


@pytest.mark.parametrize(
    ("model_id", "published_bytes"),
    [
        ("openai/gpt-oss-120b", 65_248_815_744),
        ("mistralai/Mixtral-8x7B-v0.1", 93_405_713_500),
        ("microsoft/phi-4", 29_319_042_842),
        ("Qwen/Qwen2.5-72B-Instruct", 135.43 * 2**30),
        ("Qwen/Qwen3-30B-A3B", 56.87 * 2**30),
    ],
)
def test_computed_bytes_are_within_a_tenth_of_a_percent_of_published_files(
    model_id: str, published_bytes: float
) -> None:
    assert weights(model(model_id)).total_bytes == pytest.approx(published_bytes, rel=1e-3)


def test_routed_experts_stand_apart_from_what_every_token_reads() -> None:
    found = weights(model("mistralai/Mixtral-8x7B-v0.1"))
    assert found.expert_bytes == 32 * 8 * 3 * 4096 * 14336 * 2
    assert found.streamed_bytes == found.dense_bytes - found.embedding_bytes


def test_a_checkpoint_that_agrees_is_verified() -> None:
    found = weights(model(LLAMA), "auto", 16_060_522_496 + 40_000)
    assert (found.label, found.note) == ("verified", "agrees with the config")
    assert found.total_bytes == 16_060_562_496


def test_draft_heads_in_the_files_are_not_loaded() -> None:
    found = weights(model("deepseek-ai/DeepSeek-V3"), "auto", 688_574_839_360)
    assert found.total_bytes == pytest.approx(688_574_839_360 - 11.6e9, rel=1e-3)
    assert "draft heads" in found.note


def test_a_tied_head_stored_twice_is_loaded_once() -> None:
    tied = model("Qwen/Qwen3-4B")
    own = weights(tied).total_bytes
    found = weights(tied, "auto", int(own + 2 * tied.embedding_parameters))
    assert found.total_bytes == pytest.approx(own)
    assert "tied head" in found.note


def test_a_checkpoint_that_disagrees_says_by_how_much() -> None:
    found = weights(model(LLAMA), "auto", 20_000_000_000)
    assert found.total_bytes == 20_000_000_000
    assert "+24.5%" in found.note


def test_another_precision_than_the_checkpoints_is_computed_and_says_so() -> None:
    found = weights(model(LLAMA), "fp8", 16_060_522_496)
    assert found.label == "estimated"
    assert "say nothing about fp8" in found.note


def test_weight_only_schemes_compute_in_16_bits() -> None:
    assert weights(model(LLAMA), "int4").dense_compute == "fp16"
    assert weights(model(LLAMA), "fp8").dense_compute == "fp8"
    assert weights(model("openai/gpt-oss-20b")).expert_compute == "fp4"


def test_an_unknown_precision_or_an_empty_checkpoint_is_refused() -> None:
    with pytest.raises(UnsupportedPrecision, match="int3"):
        weights(model(LLAMA), "int3")
    with pytest.raises(UnsupportedPrecision, match="0 bytes"):
        weights(model(LLAMA), "auto", 0)


@given(st.sampled_from(sorted(SCHEMES)), st.integers(1, 64))
def test_bytes_grow_with_layers_in_every_precision(precision: str, layers: int) -> None:
    whole = model(LLAMA)
    fewer = replace(whole, layers=whole.layers[:1] * layers)
    more = replace(whole, layers=whole.layers[:1] * (layers + 1))
    assert weights(more, precision).total_bytes > weights(fewer, precision).total_bytes > 0


@pytest.mark.parametrize(
    ("model_id", "precision", "attention_bits"),
    [
        ("Qwen/Qwen3.6-35B-A3B", "nvfp4", 16),  # as nvidia/Qwen3.5-122B-A10B-NVFP4
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "int4", 16),
        ("deepseek-ai/DeepSeek-V3", "nvfp4", 16),  # as nvidia/DeepSeek-V3.1-NVFP4
        ("deepseek-ai/DeepSeek-V3", "int4", 4.125),
        ("Qwen/Qwen3-235B-A22B", "nvfp4", 4.5),  # as nvidia/Qwen3-235B-A22B-NVFP4
        ("meta-llama/Llama-3.1-8B-Instruct", "nvfp4", 4.5),
    ],
)
def test_a_4_bit_sibling_keeps_attention_where_published_ones_do(
    model_id: str, precision: str, attention_bits: float
) -> None:
    found = weights(model(model_id), precision)
    assert found.scheme.attention_bits == attention_bits
    assert ("keep attention" in found.source) == (attention_bits == 16)


def test_an_nvfp4_sibling_comes_near_the_21_86_gib_a_start_up_loaded() -> None:
    assert weights(model("Qwen/Qwen3.6-35B-A3B"), "nvfp4").total_bytes / 2**30 == pytest.approx(21.86, rel=0.03)
