"""Coefficients come back from benchmarks that were made with them, and never beat the datasheet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.hardware import Accelerator
from estimator.serving import Layout, Protocol, ServingCase, predict
from estimator.serving.fit import NAMES, PRIORS, Design, Measured, Problem, Scope, leave_out, release
from estimator.serving.intervals import SPREAD, UNSEEN_WIDENING, Spreads, interval
from estimator.step_time import ADJUSTMENT, CLOSED, COEFFICIENT_UNITS, OPEN, adjusted, coefficients_for, measured_on
from estimator.weights import weights
from tests.estimator.step_models import H100, gqa

OTHERS = {"expert_imbalance_factor": 1.2, "collective_pcie_us": 35.0, "collective_network_us": 30.0}
B200 = Accelerator("B200-SXM", 178.0, 8000, 2250, 4500, None, 9000, 1800, 5)


def _case(gpu: Accelerator, clients: int, isl: int, tp: int, *, experts: bool = False) -> ServingCase:
    architecture = gqa(experts=8, experts_per_token=2, intermediate=3584) if experts else gqa()
    return ServingCase(
        architecture,
        weights(architecture),
        gpu,
        "vllm",
        "0.15.1",
        "bf16",
        Layout(tp),
        Protocol(concurrency=clients, shortest_ratio=0.8, prompts_per_client=5),
        isl,
        200,
        8192,
        1024,
    )


def _true(gpu: Accelerator) -> dict[str, float]:
    values = {name: prior.typical for name, prior in PRIORS.items()}
    values["layer_overhead_us"] *= 1.6
    values["dense_flops_factor"] = 1.8 if gpu is B200 else 1.3
    return {**OTHERS, **values}


def _measured(*, experts: bool = False) -> list[Measured]:
    found = []
    for gpu in (H100, B200):
        for clients in (1, 8, 64):
            for isl in (200, 2000):
                for tp in (1, 4):
                    case = _case(gpu, clients, isl, tp, experts=experts)
                    seen = predict(case, _true(gpu))
                    found.append(Measured(case, seen["ttft_mean_ms"], seen["tpot_mean_ms"]))
    return found


@pytest.fixture(scope="module")
def solved() -> tuple[Problem, np.ndarray, list[Measured]]:
    measured = _measured()
    problem = Problem(Design(measured, OTHERS), [one.case.accelerator.gpu_id for one in measured])
    return problem, problem.solve(np.ones(len(measured), dtype=np.bool_)), measured


def test_what_benchmarks_were_made_with_is_predicted_again(
    solved: tuple[Problem, np.ndarray, list[Measured]],
) -> None:
    problem, effects, measured = solved
    logs, _ = problem.coefficients(effects)
    seen = np.exp(problem.design.predict(logs))
    wanted = np.array([[one.ttft_ms, one.tpot_ms] for one in measured])
    # A tight prior on dense FLOPs costs a little here, where accelerators were made to differ in them.
    assert np.abs(seen / wanted - 1).max() < 0.08
    assert np.median(np.abs(seen / wanted - 1)) < 0.01


def test_what_differs_between_accelerators_becomes_an_effect_of_theirs(
    solved: tuple[Problem, np.ndarray, list[Measured]],
) -> None:
    problem, effects, _ = solved
    fit = problem.result(effects)
    hopper, blackwell = (
        fit.effects[Scope("vllm", gpu_scope=g)]["dense_flops_factor"] for g in ("H100-SXM", "B200-SXM")
    )
    assert hopper < 1 < blackwell
    assert fit.engines["vllm"]["layer_overhead_us"] > PRIORS["layer_overhead_us"].typical
    assert fit.points[Scope("vllm")] == 24


def test_an_outlier_does_not_move_the_rest(solved: tuple[Problem, np.ndarray, list[Measured]]) -> None:
    problem, effects, measured = solved
    spoilt = [Measured(measured[0].case, 50.0 * (measured[0].ttft_ms or 0), measured[0].tpot_ms), *measured[1:]]
    other = Problem(Design(spoilt, OTHERS), [one.case.accelerator.gpu_id for one in spoilt])
    moved = other.solve(np.ones(len(spoilt), dtype=np.bool_))
    before, after = (p.design.predict(p.coefficients(e)[0])[1:] for p, e in ((problem, effects), (other, moved)))
    assert np.median(np.abs(after - before)) < 0.02


def test_the_same_points_give_the_same_bits() -> None:
    measured = _measured()[:6]
    one, two = (
        Problem(Design(measured, OTHERS), [0] * 6).solve(np.ones(6, dtype=np.bool_), rounds=4) for _ in range(2)
    )
    assert (one == two).all()


def test_a_combination_left_out_is_predicted_from_the_others(
    solved: tuple[Problem, np.ndarray, list[Measured]],
) -> None:
    problem, effects, measured = solved
    gpus = [one.case.accelerator.gpu_id for one in measured]
    told: list[tuple[int, int]] = []
    logs, used = leave_out(problem, gpus, effects, lambda i, n: told.append((i, n)))
    assert told == [(1, 2), (2, 2)]
    assert problem.design.predict(used) == pytest.approx(logs)
    wanted = np.log(np.array([[one.ttft_ms, one.tpot_ms] for one in measured]))
    inside, _ = problem.coefficients(effects)
    assert np.abs(logs - wanted).mean() > np.abs(problem.design.predict(inside) - wanted).mean()
    assert np.median(np.abs(logs - wanted)) < 0.4


def test_what_prompts_cost_is_told_apart_by_the_kind_of_load_where_an_engine_has_both() -> None:
    closed = _measured()[:6]
    case = replace(closed[0].case, protocol=Protocol(rate_rps=1.0))
    opened = [Measured(case, 12.0, closed[0].tpot_ms)] * 2
    scopes = [Scope("vllm", load=load) for load in (OPEN, CLOSED)]
    assert not set(scopes) & set(Problem(Design(closed, OTHERS), [0] * 6).scopes)
    problem = Problem(Design([*closed, *opened], OTHERS), [0] * 8)
    assert set(scopes) <= set(problem.scopes)
    effects = problem.result(problem.solve(np.ones(8, dtype=np.bool_))).effects
    for name in NAMES:
        same = effects[scopes[0]][name] == effects[scopes[1]][name] == 1.0
        assert same or ("read" not in name and "collective" not in name), name
    assert effects[scopes[1]]["dense_flops_factor"] != 1.0


def test_the_fit_prices_a_closed_loop_as_predict_does() -> None:
    measured = _measured(experts=True)[:4]
    design = Design(measured, OTHERS)
    logs = np.tile(np.log([_true(H100)[name] for name in NAMES]), (4, 1))
    design.settle(logs)
    assert np.exp(design.predict(logs)) == pytest.approx(
        np.array([[one.ttft_ms, one.tpot_ms] for one in measured]), rel=1e-6
    )


@given(st.floats(1.0, 20.0), st.floats(1e-3, 1e3))
@settings(deadline=None)
def test_no_adjustment_beats_the_datasheet(value: float, by: float) -> None:
    assert adjusted(value, by, "x") >= 1.0
    assert adjusted(value, 1.0, "x") == pytest.approx(value)
    assert adjusted(value, by, "us") == value * by


def _rows() -> list[dict[str, object]]:
    base = {"engine": "vllm", "version_from": "0.0", "version_before": "", "gpu_scope": "*", "label": "estimated"}
    made = [
        {**base, "parameter": name, "value": 2.0, "unit": unit, "source": "s", "meaning": "m"}
        for name, unit in COEFFICIENT_UNITS.items()
    ]
    scoped = [
        ("*", "", "layer_overhead_us@fp8", 3.0),
        ("Hopper", "", "layer_overhead_us", 5.0),
        ("H100-SXM", "", "layer_overhead_us@fp8+moe", 7.0),
        ("*", "0.12", "layer_overhead_us", 11.0),
    ]
    for scope, before, name, value in scoped:
        made.append(
            {**made[0], "gpu_scope": scope, "version_before": before, "parameter": ADJUSTMENT + name, "value": value}
        )
    return made


@pytest.mark.parametrize(
    ("gpu", "version", "precision", "kind", "times"),
    [
        ("A100-80GB-SXM", "0.15", "bf16", "dense", 1),
        ("A100-80GB-SXM", "0.15", "fp8", "dense", 3),
        ("H200-SXM", "0.15", "fp8", "moe", 15),
        ("H100-SXM", "0.15", "fp8", "moe", 105),
        ("H100-SXM", "0.15", "fp8", "", 15),
        ("H100-SXM", "0.15", "bf16", "moe", 5),
        ("H100-SXM", "0.11.2", "bf16", "moe", 55),
        ("H100-SXM", "", "bf16", "moe", 5),
    ],
)
def test_every_adjustment_that_holds_multiplies(
    gpu: str, version: str, precision: str, kind: str, times: float
) -> None:
    chosen = coefficients_for(_rows(), "vllm", version, gpu, precision, kind)
    assert chosen["layer_overhead_us"] == pytest.approx(2.0 * times)
    assert chosen["step_overhead_us"] == 2.0
    assert ("same fit" in chosen.chosen["layer_overhead_us"].source) == (times > 1)


def test_an_adjustment_may_hold_for_one_kind_of_load() -> None:
    rows = [*_rows(), {**_rows()[-1], "version_before": "", "parameter": f"{ADJUSTMENT}layer_overhead_us@closed"}]
    chosen = {load: coefficients_for(rows, "vllm", "1", "A10G", "bf16", "dense", load) for load in (OPEN, CLOSED)}
    assert chosen[OPEN]["layer_overhead_us"] == 2.0
    assert chosen[CLOSED]["layer_overhead_us"] == 22.0
    assert coefficients_for(rows, "vllm", "1", "A10G", "bf16", "dense") == chosen[OPEN]


def test_an_accelerator_is_measured_where_it_has_adjustments_of_its_own() -> None:
    assert measured_on(_rows(), "vllm", "H100-SXM")
    assert not measured_on(_rows(), "vllm", "H200-SXM")
    assert not measured_on(_rows(), "sglang", "H100-SXM")


@pytest.mark.parametrize(
    ("engine", "version", "expected"),
    [
        ("vllm", "0.15.1", ("0.15", "0.16")),
        ("sglang", "0.5.8.post1", ("0.5.8", "0.5.9")),
        ("tensorrt-llm", "1.2.0rc6.post2", ("1.2.0", "1.2.1")),
        ("vllm", "1", ("1", "2")),
    ],
)
def test_a_release_is_a_range_of_versions(engine: str, version: str, expected: tuple[str, str]) -> None:
    assert release(engine, version) == expected


def test_an_interval_is_the_spread_around_the_value_and_wider_on_unseen_accelerators() -> None:
    rows = [
        {"engine": "vllm", "parameter": f"{SPREAD}_p10:tpot@closed", "value": 0.8, "gpu_scope": "*"},
        {"engine": "vllm", "parameter": f"{SPREAD}_p90:tpot@closed", "value": 1.25, "gpu_scope": "*"},
        {"engine": "vllm", "parameter": f"{ADJUSTMENT}kv_read_factor", "value": 1.1, "gpu_scope": "H100-SXM"},
    ]
    spreads = Spreads.of(rows)
    assert interval(_case(H100, 4, 100, 1), "tpot", 10.0, spreads) == pytest.approx((8.0, 12.5))
    assert interval(_case(B200, 4, 100, 1), "tpot", 10.0, spreads) == pytest.approx(
        (10 * 0.8**UNSEEN_WIDENING, 10 * 1.25**UNSEEN_WIDENING)
    )
    assert interval(_case(H100, 4, 100, 1), "ttft", 10.0, spreads) is None
