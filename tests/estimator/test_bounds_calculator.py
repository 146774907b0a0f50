"""The published worked examples of capacity calculators, reproduced; and what they say against the step model."""

from __future__ import annotations

import pytest

from estimator import calculator
from estimator.bounds import decode_step_seconds
from estimator.hardware import Accelerator
from estimator.step_time import step_parameters
from estimator.weights import weights
from tests.estimator.step_models import H100, IDEAL, gqa

A100_TFLOPS, A100_GBS = 312.0, 2000.0


def llama_7b(accelerator: Accelerator) -> float:
    """Decode floor in seconds of a 7B multi-head model on the bare datasheet, no context."""
    model = gqa(layers=32, hidden=4096, heads=32, kv_heads=32, intermediate=11008, vocab=32000)
    return decode_step_seconds(step_parameters(model, weights(model), accelerator, 1, IDEAL), 1, 0)


def test_13b_in_fp16_over_eight_gpus_is_3_25_gb_each() -> None:
    assert calculator.weights_gb_per_gpu(13e9, 2, 8) == pytest.approx(3.25)


def test_13b_with_40_heads_caches_0_82_mb_a_token_and_1_7_gb_at_2048() -> None:
    per_token = calculator.kv_bytes_per_token(layers=40, kv_heads=40, head_dim=128)
    assert per_token == 819_200
    assert per_token * 2048 / 1e9 == pytest.approx(1.68, abs=0.01)


def test_13b_on_eight_a100_prefills_77_thousand_tokens_a_second_at_0_8() -> None:
    rate = calculator.prefill_tokens_per_s(13e9, A100_TFLOPS, 8, utilisation=0.8)
    assert rate == pytest.approx(76_800)
    assert calculator.prefill_seconds(13e9, 2048, A100_TFLOPS, 8, utilisation=0.8) == pytest.approx(2048 / 76_800)


def test_13b_on_eight_a100_reads_its_weights_in_1_6_ms() -> None:
    assert calculator.weight_read_seconds(3.25, A100_GBS) == pytest.approx(1.6e-3, abs=0.05e-3)


def test_13b_decode_at_41_at_once_is_half_a_millisecond_of_compute() -> None:
    seconds = calculator.prefill_flops(13e9, 41) / (8 * A100_TFLOPS * 1e12 * 0.8)
    assert seconds == pytest.approx(0.5e-3, abs=0.05e-3)


def test_an_80_gb_card_holds_about_forty_2048_token_requests_of_13b() -> None:
    """The published example charges each GPU with the whole KV cache of a request, undivided over the eight."""
    whole_request_gb = calculator.kv_bytes_per_token(40, 40, 128) * 2048 / 1e9
    assert calculator.memory_concurrency(80, 3.25, whole_request_gb) in range(41, 45)
    assert calculator.memory_concurrency(80, 3.25, whole_request_gb / 8) > 8 * 41
    assert calculator.memory_concurrency(24, 26, whole_request_gb) == 0


def test_the_smallest_of_three_bounds_less_a_margin_is_where_a_load_test_begins() -> None:
    """Memory 41, compute about 60, latency about 80; at 0.7 that is 28."""
    assert int(min(41, 60, 80) * calculator.SAFETY_FACTOR.default) == 28


def test_40_layers_of_width_5120_are_about_13b() -> None:
    """12 x layers x hidden^2 says 12.6 B, within a tenth; counted from the config it is 13.0 B."""
    model = gqa(layers=40, hidden=5120, heads=40, kv_heads=40, intermediate=13824, vocab=32000)
    assert model.parameters_total == pytest.approx(13.0e9, rel=0.01)
    assert 12 * len(model.layers) * model.hidden_size**2 == pytest.approx(model.parameters_total, rel=0.1)
    assert weights(model).total_bytes / 8 / 1e9 == pytest.approx(3.25, rel=0.01)
    assert sum(layer.attention.kv_elements_per_token for layer in model.layers) * 2 == 819_200


def test_7b_in_fp16_takes_14_gb_its_cache_1_gb_at_2048_and_an_h100_a_tenth_of_a_second_at_a_fifth_of_its_peak() -> None:
    assert calculator.weights_gb_per_gpu(7e9, 2, 1) == pytest.approx(14)
    assert calculator.kv_bytes_per_token(32, 32, 128) * 2048 / 1e9 == pytest.approx(1.07, abs=0.01)
    assert calculator.prefill_seconds(7e9, 1024 + 256, 989, 1, utilisation=0.2) == pytest.approx(0.09, abs=0.005)


def test_7b_reads_its_weights_in_7_ms_on_an_a100() -> None:
    assert calculator.weight_read_seconds(14, A100_GBS) == pytest.approx(7e-3)


def test_7b_reads_its_weights_in_4_ms_on_an_h100_and_14_ms_on_a_4090() -> None:
    assert calculator.weight_read_seconds(14, 3350) == pytest.approx(4.2e-3, abs=0.1e-3)
    assert calculator.weight_read_seconds(14, 1008) == pytest.approx(13.9e-3, abs=0.1e-3)


def test_the_step_model_on_the_bare_datasheet_meets_that_floor() -> None:
    rtx_4090 = Accelerator("RTX-4090", 23.5, 1008, 165)
    assert llama_7b(H100) == pytest.approx(4e-3, rel=0.05)
    assert llama_7b(rtx_4090) == pytest.approx(13.5e-3, rel=0.05)


@pytest.mark.parametrize(
    ("gpus", "tokens_per_s", "efficiency"), [(1, 1200, 1), (2, 2280, 0.95), (4, 4200, 0.875), (8, 7200, 0.75)]
)
def test_the_eight_gpu_table(gpus: int, tokens_per_s: float, efficiency: float) -> None:
    assert calculator.parallel_efficiency(tokens_per_s, 1200, gpus) == pytest.approx(efficiency)
    assert calculator.published_parallel_efficiency(gpus, eight=0.75) == pytest.approx(efficiency)
    assert calculator.published_parallel_efficiency(16) is None


def test_the_smaller_of_k_and_l_names_the_bottleneck() -> None:
    assert calculator.bottleneck(41, 80) == "memory capacity"
    assert calculator.bottleneck(80, 41) == "memory bandwidth / compute"
    assert calculator.sla_concurrency(2000, 30) == 66
    assert calculator.sla_concurrency(2000, 30, degradation=1.5) == 44


def test_a_cluster_decodes_linearly_less_its_communication() -> None:
    one = calculator.decode_tokens_per_s(14, 3350)
    assert one == pytest.approx(3350 * 0.5 / 14)
    assert calculator.decode_tokens_per_s(14, 3350, gpus=4) == pytest.approx(4 * 0.9 * one)


def test_every_rule_of_thumb_lies_in_its_usual_range_and_says_where_it_is_from() -> None:
    for rule in calculator.RULES:
        assert rule.usual_low <= rule.default <= rule.usual_high
        assert rule.source
