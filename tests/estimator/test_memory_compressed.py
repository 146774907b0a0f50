"""DeepSeek-V4's caches and MiniMax-M3's index against what the engines' sources and logs state to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.configs import UnsupportedConfig, parse_config
from estimator.engines import EngineSettings, profile_values, resolve_settings
from estimator.memory import compressed, kv, memory_account
from estimator.weights import weights
from tests.estimator.memory_fixtures import accelerators, account, model, profile

FLASH, PRO, M3 = "deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro", "MiniMaxAI/MiniMax-M3"
H200 = "H200-SXM"


def layout(
    model_id: str, engine: str, version: str, layers: int | None = None, **overrides: object
) -> tuple[kv.Layout, EngineSettings]:
    architecture, card = model(model_id), accelerators()[H200]
    resolved = resolve_settings(engine, version, card, architecture, profile(), overrides)
    known = profile_values(engine, version, card, profile())
    return kv.layout(architecture.layers[:layers], resolved, 1, 2, known), resolved


@pytest.mark.parametrize(
    ("model_id", "version", "block_bytes"),
    [
        (FLASH, "0.22.0", 1_051_776),  # 22 tuples of 37,440 + 8,640 + 1,728
        (FLASH, "0.24.0", 1_039_680),  # 1.16 % less: vllm-project/vllm#44454
        (FLASH, "0.27.0", 1_002_240),  # vllm-project/vllm#52495
        (PRO, "0.24.0", 1_473_408),  # vllm-project/vllm#48993
    ],
)
def test_a_block_of_compressed_caches_is_what_vllm_states_for_its_version(
    model_id: str, version: str, block_bytes: int
) -> None:
    found, resolved = layout(model_id, "vllm", version)
    assert found.block_bytes == block_bytes
    assert resolved.block_tokens == 256
    assert [(group.window_tokens, group.block_tokens) for group in found.groups] == [
        (0, 256),
        (128, 64),
        (128, 64),
        (8, 4),
        (128, 8),
    ]


def test_a_narrower_indexer_shrinks_the_block_to_the_published_stride() -> None:
    """With indexer entries in MXFP4 (68 B) a block of V4-Pro falls to 1,315,008 B (vllm-project/vllm#48993)."""
    pages = {37_440: 30, 1_728: 31, 4_608: 30}
    found = compressed.caches([layer.attention for layer in model(PRO).layers], layout(PRO, "vllm", "0.27.0")[1])
    entries = compressed.Paged("entries", 0, 256, pages)
    assert found[0].pages == {37_440: 30, 1_728: 31, 8_640: 30}
    assert compressed.grouped([entries, *found[1:]], 2)[1] == 1_315_008


def test_a_request_is_refused_where_vllm_refused_it() -> None:
    """0.22 with 16,384 batched tokens: 6.66 GiB for 30,000 tokens, and 13,528 is what 5.44 GiB hold (#44376)."""
    found, _ = layout(FLASH, "vllm", "0.22.0", max_model_len=30_000, max_num_batched_tokens=16_384)
    assert found.blocks_per_request(30_000) * found.block_bytes / 2**30 == pytest.approx(6.66, abs=0.005)
    held = found.blocks(5.44 * 2**30)
    longest = max(tokens for tokens in range(13_000, 14_000) if found.blocks_per_request(tokens) <= held)
    assert longest == pytest.approx(13_528, abs=16)  # 5.44 is rounded


def test_tokens_are_printed_as_a_start_up_with_drafts_printed_them() -> None:
    """12.39 GiB, 33,792 tokens a request, 13,270 blocks: 63,859 tokens, 1.89x (vllm-project/vllm#52495)."""
    found, resolved = layout(
        FLASH, "vllm", "0.27.0", max_model_len=33_792, max_num_batched_tokens=8_448, speculative_tokens=7
    )
    assert found.blocks(12.39 * 2**30) == pytest.approx(13_270, abs=6)
    assert found.printed_tokens(13_270, resolved.max_model_len) == 63_859
    assert round(13_270 / found.blocks_per_request(33_792), 2) == 1.89


@pytest.mark.parametrize(
    ("model_id", "version", "drafts", "token_bytes", "within"),
    [
        (FLASH, "0.5.16", 7, 9_259.90, 1e-6),
        (PRO, "0.5.12", 0, 23_749.84, 0.003),  # that version counted the draft layer's window too
    ],
)
def test_sglangs_pools_spend_on_a_token_what_its_log_states(
    model_id: str, version: str, drafts: int, token_bytes: float, within: float
) -> None:
    found, resolved = layout(model_id, "sglang", version, speculative_tokens=drafts)
    assert found.bytes_per_token == pytest.approx(token_bytes, rel=within)
    assert resolved.max_num_seqs == 256


def test_capacity_does_not_grow_with_tensor_parallel_ranks_and_falls_with_tokens_in_flight() -> None:
    one, four = (account(FLASH, H200, version="0.27.0", tp=tp, gpu_memory_utilization=0.9) for tp in (2, 4))
    assert one.layout.block_bytes == four.layout.block_bytes
    shorter = account(FLASH, H200, version="0.27.0", tp=4, max_num_batched_tokens=2_048, max_model_len=131_072)
    longer = account(FLASH, H200, version="0.27.0", tp=4, max_num_batched_tokens=16_384, max_model_len=131_072)
    assert shorter.max_concurrency(131_072) > 2 * longer.max_concurrency(131_072)


def test_an_engine_whose_layout_nobody_described_gets_no_cache_figure() -> None:
    architecture, card = model(FLASH), accelerators()[H200]
    resolved = resolve_settings("tensorrt-llm", "1.2", card, architecture, profile())
    found = memory_account(architecture, weights(architecture), card, resolved, 8, profile=profile())
    assert not found.feasible
    assert found.kv_budget_tokens == 0
    assert "tensorrt-llm" in found.reasons[0]


def test_a_compression_ratio_nobody_described_is_named() -> None:
    config: dict[str, Any] = {
        **{"model_type": "deepseek_v4", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
        **{"head_dim": 32, "q_lora_rank": 16, "qk_rope_head_dim": 8, "o_groups": 2, "compress_ratios": [0, 2]},
        **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "vocab_size": 256},
        **{"sliding_window": 128, "index_head_dim": 16, "index_n_heads": 2},
    }
    assert "[2]" in parse_config(config, "org/next").unaccounted[0]
    del config["compress_ratios"]
    try:
        missing = parse_config(config, "org/next").unaccounted
    except UnsupportedConfig as refused:
        missing = (str(refused),)
    assert "compress_ratios" in missing[0]


def test_minimax_m3_keeps_an_index_key_in_16_bits_on_every_rank() -> None:
    """57 of 60 layers; two bytes each of 128 dimensions beside keys and values of 4 heads, in any cache type."""
    architecture, card = model(M3), accelerators()[H200]
    for dtype, element in (("bfloat16", 2), ("fp8", 1)):
        resolved = resolve_settings("vllm", "0.24.0", card, architecture, profile(), {"kv_cache_dtype": dtype})
        for tp, heads in ((1, 4), (2, 2), (4, 1), (8, 1)):
            held = sum(kv.token_bytes(layer.attention, resolved, tp) for layer in architecture.layers)
            assert held == 60 * 2 * heads * 128 * element + 57 * 128 * 2
    assert architecture.unaccounted == ()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(1, 43),
    st.integers(1, 1_000_000),
    st.integers(1, 1_000_000),
    st.integers(1, 32_768),
    st.sampled_from(["0.20.0", "0.23.1", "0.26.0", "0.27.0"]),
)
def test_a_longer_request_never_takes_fewer_blocks_and_a_stage_never_a_larger_block(
    layers: int, one: int, other: int, batched: int, version: str
) -> None:
    part, _ = layout(FLASH, "vllm", version, layers, max_num_batched_tokens=batched)
    whole, _ = layout(FLASH, "vllm", version, max_num_batched_tokens=batched)
    short, long = sorted((one, other))
    assert part.blocks_per_request(short) <= part.blocks_per_request(long)
    assert 0 < part.block_bytes <= whole.block_bytes
