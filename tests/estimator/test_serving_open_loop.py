"""Benchmarks at a rate: attention ranks step together, and prompts share steps with decodes or have their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.serving import Layout, Protocol, ServingCase, predict
from estimator.serving.fit import PRIORS
from estimator.serving.predict import parameters
from estimator.step_time import step_seconds
from estimator.weights import weights
from tests.estimator.step_models import H100, gqa

TYPICAL = {name: prior.typical for name, prior in PRIORS.items()} | {
    "expert_imbalance_factor": 1.2,
    "collective_pcie_us": 35.0,
    "collective_network_us": 30.0,
}

ONE_RANK = Layout(1)


def _case(rate_rps: float, layout: Layout = ONE_RANK) -> ServingCase:
    moe = gqa(experts=8, experts_per_token=2, intermediate=3584)
    load = Protocol(rate_rps=rate_rps, requests=400)
    return ServingCase(moe, weights(moe), H100, "vllm", "0.15.1", "bf16", layout, load, 1000, 200, 8192, 256)


def _seen(case: ServingCase) -> dict[str, float]:
    return {name: value for name, value in predict(case, TYPICAL).items() if value is not None}


@pytest.mark.parametrize("layout", [Layout(1), Layout(1, dp=4, ep=4)])
def test_next_to_idle_a_token_takes_a_step_of_one_request(layout: Layout) -> None:
    case = _case(0.05, layout)
    # Its token is spread over the experts of all ranks.
    step_s = step_seconds(parameters(case, TYPICAL), 1.0, 1.0, 1100.0, 1100.0, 0.0, 0.0, 1.0 / layout.dp)
    assert _seen(case)["tpot_mean_ms"] == pytest.approx(step_s * 1e3, rel=0.01)


def test_ranks_wait_for_the_one_that_computes_a_prompt() -> None:
    quiet, busy = (_seen(_case(rate, Layout(1, dp=4, ep=4))) for rate in (0.05, 20.0))
    assert busy["tpot_mean_ms"] > 1.1 * quiet["tpot_mean_ms"]
    assert busy["ttft_mean_ms"] > quiet["ttft_mean_ms"]
    assert busy["ttft_p99_ms"] >= busy["ttft_mean_ms"]


def test_ranks_share_the_pool_of_their_worker() -> None:
    layout = Layout(1, dp=4, ep=4)
    short = replace(_case(20.0, layout), kv_tokens=4 * 2_400.0)
    with pytest.raises(ValueError, match="its queue grows"):
        predict(short, TYPICAL)
    assert _seen(replace(short, kv_tokens=4 * 240_000.0)) == _seen(_case(20.0, layout))


def test_prompts_in_steps_of_their_own_hold_up_decodes() -> None:
    beside, alone = (_seen(replace(_case(10.0), exclusive_prefill=own)) for own in (False, True))
    assert alone["tpot_mean_ms"] > beside["tpot_mean_ms"]
