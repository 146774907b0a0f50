"""One warehouse with two published plan versions, small enough to know every figure of.

Service `chat` runs on two H100 replicas of one GPU in version 1, on three in version 2, where the price fell as well;
`code` runs on an L40S in both, and gained a spare in version 2.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.warehouse.rows import fill_drafts, publish_one, valid_rows
from warehouse.connection import Warehouse
from warehouse.registry import table
from warehouse.write import replace_rows

HOURS = 730.0


def _costs(lines: list[tuple[str, str, str, int, float]]) -> pl.DataFrame:
    services, items, gpu_ids, gpus, prices = (list(column) for column in zip(*lines, strict=True))
    per_hour = [count * price for count, price in zip(gpus, prices, strict=True)]
    return valid_rows(
        table("draft_plan_cost"),
        len(lines),
        service=services,
        item=items,
        gpu_id=gpu_ids,
        gpus=gpus,
        usd_per_gpu_hour=prices,
        hours_per_month=HOURS,
        usd_per_hour=per_hour,
        usd_per_month=[usd * HOURS for usd in per_hour],
    )


def _candidates() -> pl.DataFrame:
    return valid_rows(
        table("draft_plan_candidate"),
        4,
        service=["chat", "chat", "chat", "code"],
        candidate_id=["H100 tp1", "H200 tp1", "L40S tp1", "L40S tp1"],
        status=["chosen", "feasible", "does_not_fit", "chosen"],
        usd_per_hour=[5.0, 4.0, None, 1.0],
        k_bound=[40.0, 90.0, None, 8.0],
        l_bound=[25.0, 60.0, None, 12.0],
        binding=["TPOT (L)", "TPOT (L)", "weights", "KV memory (K)"],
    )


def _capacity() -> pl.DataFrame:
    return valid_rows(
        table("draft_plan_capacity"),
        4,
        service=["chat", "chat", "chat", "code"],
        candidate_id=["H100 tp1", "H100 tp1", "H200 tp1", "L40S tp1"],
        scenario=["fleet_planned", "fleet_one_down", "fleet_planned", "fleet_planned"],
        margin_ratio=[0.25, -0.1, 0.5, 0.05],
        meets_slo=[True, False, True, True],
    )


def _frames(costs: pl.DataFrame) -> dict[str, pl.DataFrame]:
    risks = costs.select("service", "item")
    return {
        "plan_candidate": _candidates(),
        "plan_capacity": _capacity(),
        "plan_cost": costs,
        "plan_series": valid_rows(table("draft_plan_series"), 3, service=["chat"] * 3, bin=[0, 1, 2]),
        "plan_headroom": valid_rows(
            table("draft_plan_headroom"),
            costs.height,
            service=risks["service"].to_list(),
            risk=risks["item"].to_list(),
            gpus=costs["gpus"].to_list(),
        ),
        "plan_memory": valid_rows(
            table("draft_plan_memory"),
            3,
            service=["chat", "chat", "chat"],
            candidate_id=["H100 tp1", "H100 tp1", "H200 tp1"],
            term=["weights", "KV cache", "weights"],
            value=[14.96, 50.0, 14.96],
        ),
        "plan_assumption": valid_rows(
            table("draft_plan_assumption"),
            3,
            service=["all", "chat", "chat"],
            name=["hours_per_month", "ttft_p99_target_ms", "growth"],
            value=[HOURS, 500.0, None],
            text=[None, None, "none expected"],
            label=["assumed", "cited", "assumed"],
        ),
        "plan_number": valid_rows(
            table("draft_plan_number"), 2, number=["chat.gpus", "code.gpus"], formula="sizing.replicas"
        ),
        "prediction_error": valid_rows(
            table("draft_prediction_error"),
            3,
            observation_id=["observation_id 0", "observation_id 1", "observation_id 2"],
            error_ratio=[-0.1, 0.3, 9.0],
            saturated=[False, False, True],
        ),
    }


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Versions 1 and 2 as the module says, with the sources they rest on; read it, never write it."""
    folder: Path = tmp_path_factory.mktemp("published")
    warehouse = Warehouse(folder / "capsheet.duckdb")
    first = _costs([("chat", "demand", "H100", 2, 3.0), ("code", "demand", "L40S", 1, 1.0)])
    second = _costs(
        [
            ("chat", "demand", "H100", 3, 2.5),
            ("code", "demand", "L40S", 1, 1.0),
            ("code", "failure", "L40S", 1, 1.0),
        ]
    )
    for costs in (first, second):
        fill_drafts(warehouse, **_frames(costs))
        month = float(costs["usd_per_month"].sum())
        publish_one(warehouse, folder / "plans", gpus_total=int(costs["gpus"].sum()), usd_per_month=month)
    rejected = {
        "source_file": "trace.csv",
        "line": [7, 9, 12],
        "reason": [
            "osl_tokens is 0, must be above 0",
            "osl_tokens is '-3', must be above 0; ttft_ms is NaN, not a finite number",
            "same source_file, line as line 3",
        ],
        "raw": ["seven", "nine", "twelve"],
    }
    with warehouse.writer() as con:
        replace_rows(con, table("rejected_row"), valid_rows(table("rejected_row"), 3, **rejected), "all")
        replace_rows(con, table("observation"), valid_rows(table("observation"), 3), "all")
        sources = valid_rows(table("source_file"), 2, rows_read=[10, 0], rows_rejected=[3, 0], rows_kept=[7, 0])
        replace_rows(con, table("source_file"), sources, "all")
    return warehouse
