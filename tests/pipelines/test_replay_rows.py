"""A replay in detail: every request has its row, every bucket its percentiles, and they agree with the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from estimator.goodput import ServiceLevel
from estimator.replay import EngineLimits, Replay, Workload, arrivals, replay
from pipelines.planning.replay_rows import bucket_figures, request_frame, write_requests
from tests.estimator.replay_cases import physical_step
from warehouse.errors import CapsheetError


@pytest.fixture(scope="module")
def load() -> Workload:
    rng = np.random.default_rng(3)
    n = 400
    return Workload.of(arrivals.poisson(n, 20.0, 1), rng.integers(10, 6000, n), rng.integers(1, 80, n))


@pytest.fixture(scope="module")
def result(load: Workload) -> Replay:
    return replay(load, physical_step(), EngineLimits(3000, 32, 2048, 5000))


def test_every_request_has_a_row_that_says_what_became_of_it(tmp_path: Path, load: Workload, result: Replay) -> None:
    counted = result.steady(warmup_s=2.0)
    write_requests(tmp_path / "requests.csv", result, counted)
    rows = pl.read_csv(tmp_path / "requests.csv")
    assert rows.equals(request_frame(result, counted).cast(dict(zip(rows.columns, rows.dtypes, strict=True))))
    assert rows["isl_tokens"].to_list() == load.isl_tokens.tolist()
    assert rows["counted"].sum() == int(counted.sum()) < len(load)
    rejected = rows.filter(pl.col("outcome") == "rejected")
    assert rejected.height == int((load.isl_tokens >= 5000).sum()) > 0
    assert rejected["ttft_ms"].null_count() == rejected["replica"].null_count() == rejected.height
    served = rows.filter(pl.col("outcome") == "finished", pl.col("osl_tokens") > 1)
    # The longest gap is no shorter than the mean of all of them, and no longer than all of them together.
    assert (served["itl_max_ms"] >= served["tpot_ms"] * (1 - 1e-9)).all()
    assert (served["itl_max_ms"] <= (served["e2e_ms"] - served["ttft_ms"]) * (1 + 1e-9)).all()
    assert rows["preemptions"].sum() == int(result.preemptions.sum())


def test_buckets_share_out_what_counts_and_attain_as_the_whole_does(load: Workload, result: Replay) -> None:
    slo = ServiceLevel({0.99: 2.0}, {0.99: 0.2})
    counted = result.steady(warmup_s=2.0)
    buckets = bucket_figures(result, counted, load, slo)
    assert len(buckets) > 1
    assert sum(row["requests"] for row in buckets) == int(counted.sum())
    attained = sum(row["requests"] * row["attainment"] for row in buckets) / int(counted.sum())
    assert attained == pytest.approx(slo.attained(result, counted))
    for row in buckets:
        for metric in ("ttft", "tpot", "e2e", "queue"):
            values = [row[f"{metric}_p{q}_ms"] for q in (50, 90, 95, 99)]
            assert None in values or values == sorted(values)
    assert "attainment" not in bucket_figures(result, counted, load)[0]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, result: Replay) -> None:
    with pytest.raises(CapsheetError, match="nowhere"):
        write_requests(tmp_path / "nowhere" / "rows.csv", result, result.steady())
