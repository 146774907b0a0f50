"""What configs of real families come to: parameters, cached elements, layer kinds, schemes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config

MODELS = Path(__file__).resolve().parents[2] / "warehouse" / "catalog" / "models"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def shipped(model_id: str) -> Architecture:
    return parse_config(json.loads((MODELS / f"{model_id.replace('/', '--')}.json").read_text()), model_id)


def kinds(architecture: Architecture) -> Counter[str]:
    return Counter(layer.attention.kind for layer in architecture.layers)


def cached(architecture: Architecture) -> int:
    return sum(layer.attention.kv_elements_per_token for layer in architecture.layers)


@pytest.mark.parametrize(
    ("model_id", "total"),
    [
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-235B-A22B", 235_093_634_560),
        ("microsoft/phi-4", 14_659_502_080),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_788_608),
        ("openai/gpt-oss-120b", 116_829_156_672),
        ("deepseek-ai/DeepSeek-V3", 671_026_419_200),
        ("moonshotai/Kimi-K2-Instruct", 1_026_408_232_448),
    ],
)
def test_total_parameters_are_within_a_hundredth_of_a_percent_of_the_published_count(model_id: str, total: int) -> None:
    assert shipped(model_id).parameters_total == pytest.approx(total, rel=1e-4)


def test_mla_caches_the_latent_and_the_rope_dims_once() -> None:
    model = shipped("deepseek-ai/DeepSeek-V3")
    assert kinds(model) == {"mla": 61}
    assert cached(model) == 61 * (512 + 64)


def test_a_sparse_indexer_adds_its_own_cache_to_mla() -> None:
    model = shipped("deepseek-ai/DeepSeek-V3.2")
    assert {layer.attention.index_bytes_per_token for layer in model.layers} == {132}


def test_an_explicit_head_dim_wins_over_hidden_by_heads() -> None:
    assert cached(parse_config({**LLAMA, "head_dim": 256})) == 32 * 2 * 8 * 256


def test_missing_kv_heads_mean_as_many_as_query_heads() -> None:
    config = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    assert parse_config(config).attention_kind == "MHA"


def test_a_window_that_is_switched_off_is_no_window() -> None:
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert kinds(parse_config(config)) == {"full": 32}


def test_gemma_alternates_windows_by_its_family_pattern() -> None:
    assert kinds(shipped("google/gemma-2-27b-it")) == {"sliding": 23, "full": 23}
    assert kinds(shipped("google/gemma-3-12b-it")) == {"sliding": 40, "full": 8}


def test_gpt_oss_takes_windows_from_its_layer_list() -> None:
    assert kinds(shipped("openai/gpt-oss-20b")) == {"sliding": 12, "full": 12}


def test_llama_4_attends_in_chunks_but_for_every_fourth_layer() -> None:
    assert kinds(shipped("meta-llama/Llama-4-Scout-17B-16E-Instruct")) == {"chunked": 36, "full": 12}


def test_linear_layers_keep_a_state_and_no_cache() -> None:
    model = shipped("Qwen/Qwen3.5-27B")
    assert kinds(model) == {"linear": 48, "full": 16}
    linear = next(layer.attention for layer in model.layers if layer.attention.kind == "linear")
    assert linear.kv_elements_per_token == 0
    assert linear.state_fp32_elements == 48 * 128 * 128
    assert linear.state_elements - linear.state_fp32_elements == (2 * 16 * 128 + 48 * 128) * 3


def test_kimi_linear_mixes_delta_layers_with_mla() -> None:
    assert kinds(shipped("moonshotai/Kimi-Linear-48B-A3B-Instruct")) == {"linear": 20, "mla": 7}


def test_a_nemotron_pattern_names_one_mixer_a_layer() -> None:
    assert kinds(shipped("nvidia/Nemotron-H-56B-Base-8K")) == {"linear": 54, "none": 54, "full": 10}


def test_searched_layers_may_do_nothing_or_differ() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 0.5}},
        {"attention": {"n_heads_in_group": 16}, "ffn": {"no_op": True}},
    ]
    config = {**LLAMA, "model_type": "nemotron-nas", "num_hidden_layers": 3, "num_key_value_heads": None}
    model = parse_config({**config, "block_configs": blocks})
    assert [layer.attention.kv_heads for layer in model.layers] == [8, 0, 2]
    assert [layer.feed_forward.intermediate_size for layer in model.layers] == [5632, 1536, 0]


def test_a_nested_language_model_is_found_wherever_it_stands() -> None:
    plain = parse_config(LLAMA)
    for outer in ({"text_config": LLAMA}, {"llm_config": LLAMA}, {"thinker_config": {"text_config": LLAMA}}):
        assert parse_config({"model_type": "llava", **outer}).layers == plain.layers


def test_class_defaults_fill_what_is_left_out_and_are_noted() -> None:
    model = parse_config(
        {
            "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34},
        }
    )
    assert (model.vocab_size, model.layers[0].attention.kv_heads, model.tied_embeddings) == (262208, 4, True)
    assert any("class default" in note for note in model.notes)


def test_layers_that_share_a_cache_keep_none_of_their_own() -> None:
    model = parse_config({**LLAMA, "num_kv_shared_layers": 8})
    assert [layer.attention.kv_elements_per_token > 0 for layer in model.layers].count(True) == 24


def test_an_unknown_model_type_says_what_it_did_not_account_for() -> None:
    model = parse_config({**LLAMA, "model_type": "marvel", "mamba_d_state": 64})
    assert "marvel" in model.unaccounted[0]
    assert any("mamba_d_state" in item for item in model.unaccounted)


@pytest.mark.parametrize(
    ("block", "scheme", "attention", "dense"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8.002, 8.002),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4", 4.156, 4.156),
        ({"quant_method": "awq", "w_bit": 4}, "int4", 4.156, 4.156),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "int4",
            4.127,
            4.127,
        ),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "mxfp4", 16, 4.25),
        ({"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}, "nvfp4", 4.5, 4.5),
        ({"config_groups": {}, "quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "fp8", 8, 8),
        (
            {
                "quant_method": "compressed-tensors",
                "format": "int-quantized",
                "config_groups": {
                    "group_0": {
                        "targets": ["Linear"],
                        "weights": {"num_bits": 8, "type": "int"},
                        "input_activations": {"num_bits": 8, "type": "int"},
                    }
                },
            },
            "int8",
            8,
            8,
        ),
    ],
)
def test_each_quantisation_scheme_has_its_bits_with_scales(
    block: dict[str, Any], scheme: str, attention: float, dense: float
) -> None:
    found = parse_config({**LLAMA, "quantization_config": block}).scheme
    assert found.scheme == scheme
    assert found.attention_bits == pytest.approx(attention, abs=1e-3)
    assert found.dense_bits == pytest.approx(dense, abs=1e-3)


def test_norms_left_in_16_bits_do_not_leave_attention_in_16_bits() -> None:
    names = [f"model.layers.{i}.post_attention_layernorm" for i in range(32)] + ["lm_head"]
    block = {"quant_method": "fp8", "modules_to_not_convert": names}
    assert parse_config({**LLAMA, "quantization_config": block}).scheme.attention_bits == 8


def test_fp4_experts_under_an_fp8_header_are_seen() -> None:
    config = json.loads((MODELS / "deepseek-ai--DeepSeek-V3.json").read_text())
    assert parse_config({**config, "expert_dtype": "fp4"}).scheme.expert_bits == 4.25


def test_a_modelopt_sidecar_stands_in_for_a_missing_block() -> None:
    model = parse_config(
        {**LLAMA, "hf_quant_config": {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}}
    )
    assert (model.quantization, model.scheme.kv_cache_dtype) == ("nvfp4", "fp8")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": -3}, "num_hidden_layers"),
        ({"num_attention_heads": "many"}, "num_attention_heads"),
        ({"num_key_value_heads": 7}, "num_key_value_heads"),
        ({"vocab_size": 10**15}, "vocab_size"),
        ({"torch_dtype": "int3"}, "torch_dtype"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["quantum_attention"] * 32}, "quantum_attention"),
        ({"quantization_config": {"quant_method": "magic"}}, "magic"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
    ],
)
def test_a_wrong_field_is_refused_by_name_in_one_line(change: dict[str, Any], names: str) -> None:
    with pytest.raises(UnsupportedConfig) as refused:
        parse_config({**LLAMA, **change})
    assert names in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_shipped_model_parses_and_is_wholly_accounted_for() -> None:
    for file in sorted(MODELS.glob("*.json")):
        model = parse_config(json.loads(file.read_text()), file.stem.replace("--", "/"))
        assert model.unaccounted == (), file.name
        assert model.parameters_active <= model.parameters_total


def test_every_given_config_parses_or_is_refused_with_a_reason(shared: Path) -> None:
    refused = {}
    files = [file for file in (shared / "data" / "hf_configs").glob("*.json") if "hf_quant_config" not in file.name]
    for file in files:
        try:
            parse_config(json.loads(file.read_text()), file.stem)
        except UnsupportedConfig as reason:
            refused[file.stem] = str(reason)
    assert len(files) > 90
    assert set(refused) <= {
        "fixture--llama3_70b.llm-cal",  # trimmed: no intermediate_size
        "fixture--mistral_sliding.llm-cal",  # trimmed: no intermediate_size
        "ibm-granite--granite-4.0-h-small.partial",  # which layers are Mamba is not in the file
        "quantization_config_variants",  # not a model
    }
    assert all("\n" not in reason and ": " in reason for reason in refused.values())
