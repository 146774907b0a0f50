"""Candidates x rates: the same grid wherever it runs, and rows that a reader can trust."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.goodput import ServiceLevel, goodput
from estimator.replay import EngineLimits, Workload, arrivals
from pipelines.planning.sweep import Contender, Grid, summary, sweep
from tests.estimator.replay_cases import physical_step

RATES = [2.0, 10.0, 40.0]
SEQUENCES = (2, 8, 32)


def grid(warmup_s: float = 0.0) -> Grid:
    rng = np.random.default_rng(1)
    n = 300
    workload = Workload.of(arrivals.poisson(n, 5.0, 1), rng.integers(10, 200, n), rng.integers(1, 60, n))
    contenders = [
        Contender(
            {"candidate_id": f"{most} at once", "tp": 2, "usd_per_hour": 7.2},
            physical_step(),
            EngineLimits(500, most, 2048, 4096),
            0.01,
        )
        for most in SEQUENCES
    ]
    return Grid(workload, contenders, ServiceLevel(ttft_s={0.99: 0.5}, tpot_s={0.99: 0.05}), warmup_s)


def test_a_sweep_is_the_same_here_and_in_processes() -> None:
    here = sweep(grid(), RATES, workers=1)
    assert sweep(grid(), RATES, workers=2) == here
    assert [(row["candidate_id"], row["arrival_rps"]) for row in here] == [
        (f"{most} at once", rate) for most in SEQUENCES for rate in RATES
    ]


def test_more_places_serve_no_worse_and_no_rate_is_served_better_than_a_lower_one() -> None:
    attained = np.asarray([row["attainment"] for row in sweep(grid(), RATES, workers=1)]).reshape(3, 3)
    assert (np.diff(attained, axis=0) >= 0).all() and (np.diff(attained, axis=1) <= 0).all()
    assert attained[2, 0] == 1.0 and attained[0, 2] < 0.5


def test_a_cell_is_feasible_below_the_goodput_and_not_above_it() -> None:
    one = grid(warmup_s=10.0)
    few = one.contenders[0]
    reach = goodput(one.workload, few.step, few.limits, one.slo, request_seconds=few.request_s, warmup_s=10.0)
    rows = sweep(Grid(one.workload, [few], one.slo, 10.0), [reach.rate_rps, 1.1 * reach.rate_rps], workers=1)
    assert [row["feasible"] for row in rows] == [True, False]
    assert rows[0]["attainment"] == reach.attainment and rows[0]["binding"] == reach.binding


def test_a_summary_names_the_largest_rate_kept_what_ended_it_and_its_cost() -> None:
    def row(name: str, rate: float, feasible: bool, binding: str) -> dict[str, object]:
        return {
            "candidate_id": name,
            "tp": 2,
            "usd_per_hour": 7.2,
            "arrival_rps": rate,
            "feasible": feasible,
            "binding": binding,
        }

    rows = [row("none", 1.0, False, "tpot_p99"), row("none", 2.0, False, "ttft_p99")]
    rows += [row("odd", 2.0, False, "ttft_p50"), row("odd", 1.0, True, "tpot_p99"), row("odd", 4.0, True, "tpot_p99")]
    rows += [row("all", 1.0, True, "ttft_p99"), row("all", 2.0, True, "tpot_p99")]
    found = summary(rows)
    assert [one["candidate_id"] for one in found] == ["all", "odd", "none"]
    best, odd, none = found
    assert best["kept_rps"] == 2.0 and best["saturated"] and best["kept_rps_per_gpu"] == 1.0
    assert best["usd_per_million_requests"] == pytest.approx(1000.0)
    assert (odd["kept_rps"], odd["binding"], odd["monotone"], odd["saturated"]) == (1.0, "ttft_p50", False, False)
    assert (none["kept_rps"], none["binding"], none["usd_per_million_requests"]) == (0.0, "tpot_p99", None)
