"""Damaged configs: whatever stands in them, an architecture or one clear line comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.configs import UnsupportedConfig, parse_config
from estimator.engines import resolve_settings
from estimator.memory import memory_account
from estimator.weights import weights
from tests.estimator.memory_fixtures import accelerators, profile

MODELS = Path(__file__).resolve().parents[2] / "warehouse" / "catalog" / "models"
SAMPLES: list[dict[str, Any]] = [
    json.loads((MODELS / f"{name}.json").read_text())
    for name in (
        "meta-llama--Llama-3.1-8B-Instruct",
        "deepseek-ai--DeepSeek-V3.2",
        "google--gemma-4-31B-it",
        "Qwen--Qwen3.5-35B-A3B",
        "moonshotai--Kimi-Linear-48B-A3B-Instruct",
        "nvidia--Nemotron-H-56B-Base-8K",
        "openai--gpt-oss-20b",
        "RedHatAI--Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8",
        "ai21labs--AI21-Jamba-1.5-Mini",
        "deepseek-ai--DeepSeek-V4-Flash",
        "MiniMaxAI--MiniMax-M3",
        "ibm-granite--granite-4.0-h-small",
    )
]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=12)
    | st.sampled_from(["fp8", "NVFP4", "full_attention", "Linear", "bfloat16"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


def outcome(config: Any) -> None:
    """Parse; only a one-line UnsupportedConfig may come out instead of a sane architecture."""
    try:
        model = parse_config(config, "org/model")
    except UnsupportedConfig as refused:
        assert str(refused)
        assert "\n" not in str(refused)
        return
    assert model.parameters_total >= model.parameters_active >= 0
    assert model.layers
    assert all(layer.attention.kv_elements_per_token >= 0 for layer in model.layers)
    assert all(
        0 <= layer.attention.replicated_parameters + layer.attention.kv_parameters <= layer.attention.parameters
        for layer in model.layers
    )
    gpu = accelerators()["H100-SXM"]
    for engine, version in (("vllm", "0.24.0"), ("sglang", "0.5.16")):
        settings_ = resolve_settings(engine, version, gpu, model, profile())
        account = memory_account(model, weights(model), gpu, settings_, profile=profile())
        if model.unaccounted:
            assert not account.feasible
            assert account.kv_budget_tokens == 0
        assert account.feasible or account.reasons
        assert account.kv_budget_tokens >= 0


def places(config: dict[str, Any], above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a config, as a path."""
    found: list[tuple[str, ...]] = []
    for key, value in config.items():
        found.append((*above, key))
        if isinstance(value, dict):
            found += places(value, (*above, key))
    return found


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_a_config_with_fields_missing_null_or_of_any_wrong_value_never_crashes(data: st.DataObject) -> None:
    config = json.loads(json.dumps(data.draw(st.sampled_from(SAMPLES))))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(config)))
        part = config
        for key in path[:-1]:
            if not isinstance(part.get(key), dict):
                break
            part = part[key]
        if data.draw(st.booleans()):
            part.pop(path[-1], None)
        else:
            part[path[-1]] = data.draw(JSON)
        if not config:
            break
    outcome(config)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(JSON)
def test_any_json_at_all_is_refused_in_one_line_or_parsed(value: Any) -> None:
    outcome(value)
