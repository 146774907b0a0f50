"""The workload's rows: traces of one mean that differ in shape come out different, and every request is told of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from estimator.length_classes import split
from pipelines.ingest import ingest_source
from pipelines.planning import checks, workload, workload_shape
from pipelines.planning.loading import MIX_VALUES
from pipelines.planning.workload import Demand
from pipelines.workspace import ServiceSpec
from tests.pipelines.conftest import SERVICE
from warehouse.connection import Warehouse
from warehouse.contracts import violations
from warehouse.registry import table

SPEC = ServiceSpec.model_validate(yaml.safe_load(SERVICE)[0])
DAYS = 8


def requests(isl: list[int], osl: list[int], step_s: float = 2.0, **columns: Any) -> pl.DataFrame:
    """Requests one after the other from a Monday on, without prefixes unless `columns` has them."""
    frame = pl.DataFrame({"isl_tokens": isl, "osl_tokens": osl}).with_columns(
        arrival_at=pl.datetime(2026, 1, 5) + pl.duration(microseconds=pl.int_range(pl.len()) * int(step_s * 1e6)),
        prefix_hashes=pl.lit(None, pl.List(pl.Int64)),
        prefix_block_tokens=pl.lit(None, pl.Int32),
    )
    return frame.with_columns(**columns)


TRACE_A = requests([100, 3_900] * 1_000, [100] * 2_000)
TRACE_B = requests([2_000] * 2_000, [100] * 2_000)
"""The trace-to-GPU method's pair: mean input 2,000 and mean output 100, both."""


def lengths(rows: pl.DataFrame) -> tuple[Any, Any]:
    return rows["isl_tokens"].to_numpy(), rows["osl_tokens"].to_numpy()


NO_MIX = pl.DataFrame(schema={"dimension": pl.String, "value": pl.String, "share": pl.Float64})


def figures(demand: Demand, mix: pl.DataFrame = NO_MIX) -> dict[str, Any]:
    rows = workload.figure_rows(SPEC, demand, lambda trace, label: workload_shape.figures(demand, mix, trace, label))
    assert rows["name"].is_unique().all()
    return {row["name"]: row["text"] if row["value"] is None else row["value"] for row in rows.to_dicts()}


def test_two_traces_of_one_mean_differ_in_buckets_percentiles_cost_and_pools() -> None:
    a, b = workload.demand(SPEC, TRACE_A), workload.demand(SPEC, TRACE_B)
    told_a, told_b = figures(a), figures(b)
    assert told_a["isl_mean_tokens"] == told_b["isl_mean_tokens"] == 2_000
    assert told_a["osl_mean_tokens"] == told_b["osl_mean_tokens"] == 100
    assert told_a["mean_rps"] == told_b["mean_rps"]
    assert told_a["isl_p99_tokens"] == 3_900 and told_b["isl_p99_tokens"] == 2_000
    assert told_a["cost_cv"] > 0.7 and told_b["cost_cv"] == 0
    assert told_a["pool_split"].startswith("two pools, parted at") and "input tokens" in told_a["pool_split"]
    assert told_b["pool_split"] == "one pool: no two kinds of request are far apart"
    buckets_a, buckets_b = workload.bucket_rows(a), workload.bucket_rows(b)
    assert buckets_a["share"].to_list() == [0.5, 0.5] and buckets_b["share"].to_list() == [1.0]
    assert buckets_a["cost_share"].max() > 0.85 and buckets_a["cost_share"].sum() == pytest.approx(1)
    assert (buckets_a["cost_spread"] == 1).all()


def test_two_kinds_far_apart_are_a_suggestion_among_the_checks_and_never_a_failure() -> None:
    (apart,) = checks.workload_checks(SPEC, workload.demand(SPEC, TRACE_A))
    assert (apart["passed"], apart["severity"]) == (False, "informs")
    assert apart["observed"] == workload_shape.split_text(split(*lengths(TRACE_A)))
    assert "services of their own" in apart["remedy"]
    (alike,) = checks.workload_checks(SPEC, workload.demand(SPEC, TRACE_B))
    assert (alike["passed"], alike["remedy"], alike["check_name"]) == (True, None, apart["check_name"])


def test_a_prefix_relation_that_no_trace_tells_is_an_assumption() -> None:
    hashes = pl.Series("prefix_hashes", [[1, 10 + i % 3] for i in range(2_000)])
    traced = TRACE_B.with_columns(hashes, prefix_block_tokens=pl.lit(1_024, pl.Int32))
    for rows, label in ((TRACE_B, "assumed"), (traced, "measured")):
        found = workload.figure_rows(SPEC, workload.demand(SPEC, rows), lambda trace, how: [])
        assert found.filter(pl.col("name") == "prefix_relation")["label"].to_list() == [label]


def keeps_its_contract(name: str, rows: pl.DataFrame) -> bool:
    target = table(f"draft_{name}")
    return violations(target, rows.with_columns(line=pl.int_range(pl.len())))[1].is_empty()


def test_rows_keep_the_contracts_of_their_tables() -> None:
    hashes = pl.Series("prefix_hashes", [[1, 10 + i % 3] for i in range(2_000)])
    traced = TRACE_B.with_columns(hashes, prefix_block_tokens=pl.lit(1_024, pl.Int32))
    for rows in (TRACE_A, traced, requests([5, 9], [1, 2], step_s=400_000.0)):
        demand = workload.demand(SPEC, rows)
        assert keeps_its_contract("workload_bucket", workload.bucket_rows(demand))
        assert keeps_its_contract("workload_season", workload_shape.season_rows(demand))
        assert keeps_its_contract("workload_prefix", workload_shape.prefix_rows(demand))


def test_a_trace_of_a_week_has_hours_and_weekdays_and_one_of_an_hour_neither() -> None:
    week = workload.demand(SPEC, requests([100] * 24 * DAYS, [10] * 24 * DAYS, step_s=3_600.0))
    found = workload_shape.season_rows(week)
    assert found.group_by("period").len().sort("period").rows() == [("hour", 24), ("weekday", 7)]
    assert workload_shape.season_rows(workload.demand(SPEC, TRACE_A)).is_empty()


def test_prefix_hits_grow_with_the_cache_and_are_none_without_hashes() -> None:
    """Three prompts of a shared block and one of three own ones, in turn: all that came before is found again."""
    hashes = pl.Series("prefix_hashes", [[1, 10 + i % 3] for i in range(2_000)])
    traced = TRACE_B.with_columns(hashes, prefix_block_tokens=pl.lit(1_024, pl.Int32))
    found = workload_shape.prefix_rows(workload.demand(SPEC, traced))
    assert found["tier"].to_list()[-1] == "endless" and found["capacity_tokens"].to_list()[-1] is None
    missed = 2_000 + 2 * (2_000 - 1_024)
    assert found["hit_tokens"].to_list() == [2_000 * 2_000 - missed] * 5
    assert found["added_share"].sum() == pytest.approx(found["hit_share"].max())
    assert workload_shape.prefix_rows(workload.demand(SPEC, TRACE_A)).is_empty()
    served = workload_shape.prefix_rows(workload.demand(SPEC, TRACE_A), (300, 1_000))
    assert served.select("tier", "hit_tokens", "hit_share").rows() == [("as served", 300, 0.3)]
    assert keeps_its_contract("workload_prefix", served)


def test_the_mix_counts_every_request_also_those_no_engine_worked_on(tmp_path: Path) -> None:
    rows = ["arrival_s,isl_tokens,osl_tokens,outcome,tenant,structured_output"]
    for i in range(300):
        outcome = "failed" if i % 10 == 0 else "cancelled" if i % 10 == 1 else "ok"
        rows.append(f"{i},{100 + i},{0 if outcome == 'failed' else 10},{outcome},t{i % 30},{'true' if i < 60 else ''}")
    (tmp_path / "trace.csv").write_text("\n".join(rows))
    warehouse = Warehouse(tmp_path / "capsheet.duckdb")
    ingest_source(warehouse, tmp_path, SPEC.trace, 0.05)
    query = (Path(workload.__file__).parents[2] / "sql" / "workload" / "mix.sql").read_text(encoding="utf-8")
    with warehouse.reader() as con:
        mix = con.execute(query, {"source": "trace.csv", "most": MIX_VALUES}).pl()
        replayable = con.execute(
            "SELECT arrival_at, isl_tokens, osl_tokens, prefix_hashes, prefix_block_tokens "
            "FROM request WHERE replayable"
        ).pl()
    by = {name: part for (name,), part in mix.group_by("dimension")}
    assert {name: part["requests"].sum() for name, part in by.items()} == dict.fromkeys(by, 300)
    assert dict(by["outcome"].select("value", "requests").iter_rows()) == {"ok": 240, "cancelled": 30, "failed": 30}
    tenants = by["tenant"].sort("position")
    assert tenants.height == MIX_VALUES + 1 and tenants["value"].to_list()[-1] == "others"
    assert dict(by["structured_output"].select("value", "requests").iter_rows()) == {"not said": 240, "true": 60}
    assert "model" not in by, "what the source never says is no dimension"
    demand = workload.demand(SPEC, replayable)
    told = figures(demand, mix)
    assert (told["failed_share"], told["cancelled_share"], told["rejected_share"]) == pytest.approx((0.1, 0.1, 0.0))
    assert keeps_its_contract("workload_mix", workload_shape.mix_rows(demand, mix))
