"""The Dagster code location of a workspace: assets, checks, the plan job and its weekly schedule."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from pipelines.assets.checks import CHECKS
from pipelines.assets.estimates import ESTIMATES
from pipelines.assets.publication import PUBLICATION
from pipelines.assets.sources import SOURCES, request_day
from pipelines.home import WORKSPACE_VARIABLE
from pipelines.resources import PlanningResource

PLAN_JOB = dg.define_asset_job(
    "publish_plan",
    selection=dg.AssetSelection.all() - dg.AssetSelection.assets(request_day),
    description="Sources to workbook: the next plan version.",
)
INGEST_JOB = dg.define_asset_job(
    "ingest_day",
    selection=dg.AssetSelection.assets(request_day),
    description="The trace files of one day into the warehouse.",
)
DAILY = dg.build_schedule_from_partitioned_job(
    INGEST_JOB,
    name="daily_ingest",
    hour_of_day=1,
    description="Yesterday's trace files every day at 01:00 UTC. Off until you switch it on.",
)
WEEKLY = dg.ScheduleDefinition(
    name="weekly_plan",
    job=PLAN_JOB,
    cron_schedule="0 6 * * 1",
    execution_timezone="UTC",
    description="A fresh plan every Monday at 06:00 UTC. Off until you switch it on.",
)


def build_defs(folder: Path, executor: str = "") -> dg.Definitions:
    """Everything for the workspace in `folder`. One process, since the warehouse has one writer; only replays go
    where `executor` says, else the workspace."""
    return dg.Definitions(
        assets=[*SOURCES, *ESTIMATES, *PUBLICATION],
        asset_checks=CHECKS,
        jobs=[PLAN_JOB, INGEST_JOB],
        schedules=[WEEKLY, DAILY],
        resources={"planning": PlanningResource(folder=str(folder.resolve()), executor=executor)},
        executor=dg.in_process_executor,
    )


defs = build_defs(Path(os.environ.get(WORKSPACE_VARIABLE, ".")))
