"""How checkpoints declare their quantisation, in every spelling seen: bits with scales, and what computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from estimator.configs import UnsupportedConfig, parse_config
from tests.estimator.test_configs import LLAMA

VARIANTS = {
    # spelling: scheme, bits of a linear layer with scales (and zero points)
    "gptq (TheBloke/Llama-2-7B-Chat-GPTQ)": ("int4", 4 + 20 / 128),
    "awq": ("int4", 4 + 20 / 128),
    "awq legacy key": ("int4", 4 + 20 / 128),
    "bitsandbytes nf4": ("int4", 4 + 8 / 64 + 32 / (64 * 256)),
    "fp8 block": ("fp8", 8 + 32 / 128**2),
    "mxfp4": ("mxfp4", 4 + 8 / 32),
    "modelopt without quant_method": ("fp8", 8.0),
}


def test_every_given_variant_is_read(shared: Path) -> None:
    given = json.loads((shared / "data" / "hf_configs" / "quantization_config_variants.json").read_text())
    assert {name for name in given if not name.startswith("_")} == set(VARIANTS)
    for name, (scheme, bits) in VARIANTS.items():
        found = parse_config({**LLAMA, "quantization_config": given[name]}).scheme
        assert found.scheme == scheme, name
        assert found.dense_bits == pytest.approx(bits), name
        assert found.head_bits == 16, name


def test_modules_left_out_stay_in_16_bits(shared: Path) -> None:
    given = json.loads((shared / "data" / "hf_configs" / "quantization_config_variants.json").read_text())
    assert parse_config({**LLAMA, "quantization_config": given["mxfp4"]}).scheme.attention_bits == 16


def test_a_sidecar_beside_a_config_that_is_silent_decides(shared: Path) -> None:
    folder, read = shared / "data" / "hf_configs", 0
    for sidecar in sorted(folder.glob("*.hf_quant_config.json")):
        config = json.loads((folder / sidecar.name.replace(".hf_quant_config", "")).read_text())
        declared = json.loads(sidecar.read_text())
        config.pop("quantization_config", None)
        found = parse_config({**config, "hf_quant_config": declared}, sidecar.stem)
        algo = declared["quantization"]["quant_algo"]
        expected = {"NVFP4": {"nvfp4"}, "FP8": {"fp8"}, "MIXED_PRECISION": {"mixed"}}[algo]
        assert found.quantization in expected, sidecar.name
        if str(declared["quantization"].get("kv_cache_quant_algo")).startswith("FP8"):
            assert found.scheme.kv_cache_dtype == "fp8", sidecar.name
        read += 1
    assert read >= 15


def test_fp4_experts_under_an_fp8_header_are_fp4() -> None:
    config = {
        **LLAMA,
        "model_type": "deepseek_v4",
        "expert_dtype": "fp4",
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 2048,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    found = parse_config(config).scheme
    assert (found.scheme, found.expert_bits) == ("mixed", 4.25)
    assert found.dense_bits == pytest.approx(8, abs=0.01)


def test_a_method_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedConfig, match="ternary"):
        parse_config({**LLAMA, "quantization_config": {"quant_method": "ternary"}})
