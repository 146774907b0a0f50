"""How many replicas, and what each risk adds to them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.fleet import (
    control_replicas,
    deployment_replicas,
    failure_replicas,
    replicas_for,
    smallest_fleet,
    traffic_factor,
    traffic_replicas,
)
from estimator.goodput import ServiceLevel, goodput
from estimator.replay import Workload, replay
from estimator.replay.arrivals import poisson
from tests.estimator.replay_cases import constant_step, roomy

STEP_S = 0.01
LIMITS = roomy(max_num_seqs=1)
SLO = ServiceLevel({0.99: 0.06})
RNG = np.random.default_rng(1)
FLEET_LOAD = Workload.of(poisson(8000, 400.0, 1), np.full(8000, 5), np.full(8000, 1))


def test_the_method_s_own_example() -> None:
    # 12 requests/s; prefill 4 a second a replica and factor 1.25, decode 7 and 1.2: four and three replicas.
    assert replicas_for(12, 4, 1.25) == 4
    assert replicas_for(12, 7, 1.2) == 3


@given(st.floats(0.01, 1e4), st.floats(0.01, 1e3), st.floats(1, 3))
def test_replicas_carry_the_demand_and_one_fewer_would_not(demand: float, rate: float, factor: float) -> None:
    n = replicas_for(demand, rate, factor)
    assert n * rate >= demand * factor * (1 - 1e-9)
    assert n == 1 or (n - 1) * rate < demand * factor


def test_a_whole_number_of_replicas_stays_one() -> None:
    assert replicas_for(0.3, 0.1) == 3
    with pytest.raises(ValueError, match="goodput_rps"):
        replicas_for(1.0, 0.0)


@pytest.mark.parametrize("start", [1, 3, 6, 20])
def test_the_smallest_fleet_holds_and_one_replica_fewer_does_not(start: int) -> None:
    found = smallest_fleet(FLEET_LOAD, constant_step(STEP_S), LIMITS, SLO, start, most=30)
    assert found is not None
    n, result = found
    assert SLO.meets(result) and result.replicas == n
    fewer = replay(FLEET_LOAD, constant_step(STEP_S), LIMITS, replicas=n - 1)
    assert not SLO.meets(fewer)
    assert n >= 400 * STEP_S


def test_a_fleet_pools_bursts_that_one_replica_meets_alone() -> None:
    single = Workload.of(poisson(8000, 50.0, 1), np.full(8000, 5), np.full(8000, 1))
    alone = goodput(single, constant_step(STEP_S), LIMITS, SLO)
    start = replicas_for(400.0, alone.rate_rps)
    found = smallest_fleet(FLEET_LOAD, constant_step(STEP_S), LIMITS, SLO, start)
    assert found is not None and found[0] <= start


def test_where_no_fleet_keeps_the_promise_none_is_named() -> None:
    assert smallest_fleet(FLEET_LOAD, constant_step(STEP_S), LIMITS, ServiceLevel({0.99: 0.005}), 1, most=4) is None
    with pytest.raises(ValueError, match="start is 0"):
        smallest_fleet(FLEET_LOAD, constant_step(STEP_S), LIMITS, SLO, 0)


def test_traffic_headroom_comes_from_how_far_peaks_were_above_forecasts() -> None:
    ratios = np.concatenate((np.full(95, 1.1), np.full(5, 2.0)))
    assert traffic_factor(ratios, 0.95) == 1.1
    assert traffic_factor(ratios, 0.99) == 2.0
    assert traffic_factor(np.asarray([0.5])) == 1.0
    assert traffic_replicas(100, 30, 1.25)[0] == 1
    with pytest.raises(ValueError, match="at least 1"):
        traffic_replicas(100, 30, 0.9)
    with pytest.raises(ValueError, match="at least one positive"):
        traffic_factor(np.zeros(0))


def test_a_lost_node_takes_every_replica_on_it() -> None:
    assert failure_replicas(1)[0] == 1
    assert failure_replicas(1, gpus_per_replica=2, gpus_per_node=8)[0] == 4
    assert failure_replicas(2, gpus_per_replica=8, gpus_per_node=8)[0] == 2
    assert failure_replicas(1, gpus_per_replica=16, gpus_per_node=8)[0] == 1
    assert failure_replicas(0, 1, 8) == (0, "no failure is covered")
    with pytest.raises(ValueError, match="negative"):
        failure_replicas(-1)


def test_an_upgrade_adds_the_replicas_that_overlap() -> None:
    assert deployment_replicas(2)[0] == 2
    assert deployment_replicas(0)[0] == 0
    with pytest.raises(ValueError, match="negative"):
        deployment_replicas(-1)


@given(st.integers(1, 200), st.floats(0, 3), st.floats(0, 60))
def test_control_headroom_covers_what_demand_grows_by_until_a_replica_is_ready(
    replicas: int, growth: float, ready_minutes: float
) -> None:
    demand = replicas * 10.0
    added, basis = control_replicas(replicas, demand, 10.0, growth_per_hour=growth, ready_minutes=ready_minutes)
    grown = 1 + growth * ready_minutes / 60
    assert added == math.ceil(replicas * grown * (1 - 1e-12)) - replicas
    assert "ready after" in basis


def test_control_headroom_keeps_the_fleet_s_own_ratio_to_demand() -> None:
    # Twelve replicas where goodput alone says ten: growth by a half asks for eighteen, not fifteen.
    assert control_replicas(12, 100.0, 10.0, growth_per_hour=1.0, ready_minutes=30)[0] == 6
    with pytest.raises(ValueError, match="negative"):
        control_replicas(12, 100.0, 10.0, growth_per_hour=-1.0, ready_minutes=30)
