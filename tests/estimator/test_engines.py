"""Which engines give prompts steps of their own, by version and setting, and how that is known."""

from __future__ import annotations

import pytest

from estimator.engines import EngineSettings, UnknownEngine, resolve_settings
from estimator.replay import EngineLimits
from tests.estimator.memory_fixtures import accelerators, model, profile

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def settings_of(engine: str, version: str, **overrides: object) -> EngineSettings:
    return resolve_settings(engine, version, accelerators()["H100-SXM"], model(LLAMA), profile(), overrides)


@pytest.mark.parametrize(
    ("engine", "version", "overrides", "alone"),
    [
        ("sglang", "0.5.9", {}, True),
        ("sglang", "0.5.9", {"exclusive_prefill": False}, False),
        ("vllm", "0.19.0", {}, False),
        ("vllm", "0.7.3", {"max_model_len": 16_384}, True),
        ("vllm", "0.7.3", {"max_model_len": 16_384, "chunked_prefill": True}, False),
        ("tensorrt-llm", "1.2.0", {}, False),
    ],
)
def test_prompts_have_steps_of_their_own_where_the_engine_says_so(
    engine: str, version: str, overrides: dict[str, object], alone: bool
) -> None:
    settings = settings_of(engine, version, **overrides)
    assert settings.exclusive_prefill is alone
    assert EngineLimits.of(settings, 1000).exclusive_prefill is alone


def test_how_that_is_known_is_said() -> None:
    label, source = settings_of("sglang", "0.5.9").provenance["exclusive_prefill"]
    assert label == "cited"
    assert "--enable-mixed-chunk" in source
    assert settings_of("sglang", "0.5.9", exclusive_prefill=False).provenance["exclusive_prefill"][0] == "assumed"
    with pytest.raises(UnknownEngine, match="exclusive_prefill is 'no'"):
        settings_of("sglang", "0.5.9", exclusive_prefill="no")


def test_sglang_keeps_room_for_answers_when_it_admits_a_request() -> None:
    assert settings_of("vllm", "0.19.0").output_reserve == 0.0
    sglang = settings_of("sglang", "0.5.9")
    assert sglang.output_reserve == EngineLimits.of(sglang, 1000).output_reserve == pytest.approx(0.7 * 0.14)
    assert "new_token_ratio" in sglang.provenance["output_reserve"][1]
    with pytest.raises(ValueError, match="must be a share"):
        EngineLimits(10, 1, 1, 1, output_reserve=1.5)
