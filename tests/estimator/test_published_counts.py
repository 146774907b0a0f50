"""Parameters, total and active, against the counts the models' makers publish."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config

MODELS = Path(__file__).resolve().parents[2] / "warehouse" / "catalog" / "models"

# Model, total and active billions as published, and where: model cards and reports, as the makers round them.
# A count printed with two digits says no more than half of its last digit.
PUBLISHED = [
    ("openai--gpt-oss-120b", "116.8", "5.13", "gpt-oss model card, arXiv 2508.10925, table 1"),
    ("openai--gpt-oss-20b", "20.9", "3.61", "gpt-oss model card, arXiv 2508.10925, table 1"),
    ("Qwen--Qwen3-235B-A22B", "235", "22", "model card"),
    ("Qwen--Qwen3-30B-A3B", "30.5", "3.3", "model card"),
    ("Qwen--Qwen3-Coder-480B-A35B-Instruct", "480", "35", "model card"),
    ("Qwen--Qwen1.5-MoE-A2.7B", "14.3", "2.7", "model card"),
    ("Qwen--Qwen3.5-122B-A10B", "122", "10", "model name"),
    ("deepseek-ai--DeepSeek-V3", "671", "36.7", "DeepSeek-V3 README_WEIGHTS"),
    ("deepseek-ai--DeepSeek-V2.5", "236", "21", "arXiv 2405.04434"),
    ("deepseek-ai--DeepSeek-V2-Lite-Chat", "15.7", "2.4", "arXiv 2405.04434"),
    ("deepseek-ai--DeepSeek-V4-Flash", "284", "13", "model card"),
    ("moonshotai--Kimi-K2-Instruct", "1000", "32", "model card"),
    ("mistralai--Mixtral-8x7B-v0.1", "46.7", "12.9", "arXiv 2401.04088"),
    ("mistralai--Mixtral-8x22B-Instruct-v0.1", "141", "39", "release note"),
    ("meta-llama--Llama-4-Maverick-17B-128E-Instruct", "400", "17", "model card"),
    ("zai-org--GLM-5", "744", "40", "model card"),
    ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "31.6", "3.2", "Nemotron-3 Nano report"),
    ("nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", "550", "55", "model name"),
    ("MiniMaxAI--MiniMax-M2.5", "229", "10", "model card"),
    ("MiniMaxAI--MiniMax-M3", "428", "23", "model card"),
    ("Qwen--Qwen3.5-397B-A17B", "397", "17", "model name"),
    ("XiaomiMiMo--MiMo-V2-Flash", "309", "15", "lm-sys.org on the model, 2025-12-15"),
    ("google--gemma-4-26B-A4B", "26", "3.8", "model card"),
    ("ibm-granite--granite-4.0-h-small", "32", "9", "model card"),
    ("xai-org--grok-2", "270", "115", "model card"),
    ("stepfun-ai--Step-3.7-Flash", "196", "11", "model card"),
    ("ai21labs--AI21-Jamba-1.5-Mini", "52", "12", "model card"),
    ("meta-llama--Llama-3.1-8B", "8.03", "8.03", "model card"),
    ("meta-llama--Llama-3.1-70B", "70.6", "70.6", "model card"),
    ("meta-llama--Meta-Llama-3.1-405B", "406", "406", "safetensors total"),
    ("Qwen--Qwen2.5-72B-Instruct", "72.7", "72.7", "model card"),
    ("Qwen--Qwen3-32B", "32.8", "32.8", "model card"),
    ("google--gemma-2-27b-it", "27.2", "27.2", "safetensors total"),
    ("google--gemma-3-27b-it", "27.4", "27.0", "safetensors total; vision tower apart"),
    ("microsoft--phi-4", "14.7", "14.7", "model card"),
    ("nvidia--Nemotron-H-56B-Base-8K", "56", "56", "model name"),
]
TRUNCATED = {"Qwen--Qwen3-30B-A3B", "deepseek-ai--DeepSeek-V2-Lite-Chat"}
"""Counts cut off, not rounded: 3.35 is printed as 3.3 and 2.45 as 2.4."""
LOOSE = {"deepseek-ai--DeepSeek-V4-Flash", "MiniMaxAI--MiniMax-M3"}
"""13.3 where 13 is printed: which of the compressors' and hyper-connections' parameters count is not stated; 23.5 where
the card says about 23."""


def model(name: str, shared: Path) -> Architecture:
    file = MODELS / f"{name}.json"
    if not file.is_file():
        file = shared / "data" / "hf_configs" / f"{name}.json"
    return parse_config(json.loads(file.read_text(encoding="utf-8")), name)


def within(count: float, printed: str, *, truncated: bool = False) -> bool:
    digits = len(printed.split(".")[1]) if "." in printed else 0
    published, unit = float(printed), 10.0**-digits
    return abs(count - published) <= max(0.01 * published, unit if truncated else unit / 2)


@pytest.mark.parametrize(("name", "total", "active", "source"), PUBLISHED)
def test_counts_are_within_a_hundredth_or_half_the_last_printed_digit(
    name: str, total: str, active: str, source: str, shared: Path
) -> None:
    found = model(name, shared)
    if float(total) != 1000:  # "1 trillion" is no count
        assert within(found.parameters_total / 1e9, total), (found.parameters_total, source)
    assert within(found.parameters_active / 1e9, active, truncated=name in TRUNCATED | LOOSE), (
        found.parameters_active,
        source,
    )


FROM_SHAPES: list[tuple[dict[str, Any], str, str, str]] = [
    # A model the catalogue does not ship, by its published shape: totals and actives as its makers give them.
    (
        {
            "model_type": "glm4_moe", "hidden_size": 5120, "num_hidden_layers": 92, "num_attention_heads": 96,
            "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "n_routed_experts": 160,
            "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
            "first_k_dense_replace": 3, "vocab_size": 151552, "tie_word_embeddings": False,
        },
        "355", "32", "GLM-4.5, GLM-4.6, GLM-4.7 model cards",
    ),
    (
        {
            "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "num_experts": 512,
            "num_experts_per_tok": 10, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
            "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
            "vocab_size": 151936, "tie_word_embeddings": False,
        },
        "80", "3.9", "Qwen3-Next-80B-A3B; its name rounds the active count",
    ),
    (
        {
            "model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "intermediate_size": 18944, "num_experts": 64, "num_experts_per_tok": 8,
            "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "vocab_size": 151936,
            "tie_word_embeddings": False,
        },
        "57.4", "14", "Qwen2-57B-A14B",
    ),
    (
        {
            "model_type": "phimoe", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 6400, "num_local_experts": 16, "num_experts_per_tok": 2,
            "vocab_size": 32064, "tie_word_embeddings": False,
        },
        "41.9", "6.6", "Phi-3.5-MoE",
    ),
    (
        {
            "model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "num_attention_heads": 32,
            "ffn_hidden_size": 13696, "multi_query_group_num": 2, "multi_query_attention": True, "kv_channels": 128,
            "padded_vocab_size": 151552, "add_qkv_bias": True, "tie_word_embeddings": False,
        },
        "9.4", "9.4", "glm-4-9b",
    ),
    (
        {
            "model_type": "internlm2", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 92544, "tie_word_embeddings": False,
        },
        "7.74", "7.74", "internlm2-7b",
    ),
    (
        {
            "model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
            "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": True, "bias": False,
        },
        "41.3", "41.3", "falcon-40b, its tied head counted once",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "total", "active", "source"), FROM_SHAPES, ids=lambda value: str(value)[:24])
def test_shapes_of_models_not_shipped_come_to_their_published_counts(
    config: dict[str, Any], total: str, active: str, source: str
) -> None:
    found = parse_config(config)
    assert found.unaccounted == ()
    assert within(found.parameters_total / 1e9, total), (found.parameters_total, source)
    assert within(found.parameters_active / 1e9, active), (found.parameters_active, source)


def test_a_vision_towers_width_is_its_own_not_the_language_models() -> None:
    tower = {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "spatial_merge_size": 2}
    config = {
        "model_type": "qwen2_vl", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False,
        "vision_config": {**tower, "patch_size": 14, "temporal_patch_size": 2},
    }  # fmt: skip
    assert parse_config(config).parameters_total == pytest.approx(8.29e9, rel=1e-3)


def test_a_dense_model_uses_all_its_text_parameters(shared: Path) -> None:
    for file in sorted(MODELS.glob("*.json")):
        found = model(file.stem, shared)
        if not any(layer.feed_forward.experts for layer in found.layers):
            assert found.parameters_active == found.parameters_total - found.vision_parameters, file.stem


def test_totals_equal_the_hubs_own_tally_where_every_parameter_is_stored_whole(shared: Path) -> None:
    # 16-bit checkpoints: the hub's count by dtype is the number of parameters.
    for name, total in (
        ("Qwen--Qwen3-8B", 8_190_735_360),
        ("Qwen--Qwen3-235B-A22B", 235_093_634_560),
        ("meta-llama--Llama-3.1-8B", 8_030_261_248),
        ("microsoft--phi-4", 14_659_502_080),
        ("mistralai--Mixtral-8x7B-v0.1", 46_702_788_608),
        ("meta-llama--Llama-3.1-8B-Instruct", 8_030_261_248),
    ):
        assert model(name, shared).parameters_total == pytest.approx(total, rel=1e-5), name


def test_the_table_of_all_given_configs(shared: Path) -> None:
    parsed, refused = 0, []
    for file in sorted((shared / "data" / "hf_configs").glob("*.json")):
        if "hf_quant_config" in file.name:
            continue
        try:
            found = parse_config(json.loads(file.read_text(encoding="utf-8")), file.stem)
        except UnsupportedConfig as reason:
            refused.append(file.stem)
            print(f"{file.stem:58} refused: {reason}")
            continue
        parsed += 1
        print(
            f"{file.stem:58} {found.parameters_total / 1e9:9.2f} B {found.parameters_active / 1e9:8.2f} B active "
            f"{found.attention_kind:28} {found.quantization:7} {'; '.join(found.unaccounted)}"
        )
    assert parsed >= 110
    assert len(refused) <= 4
