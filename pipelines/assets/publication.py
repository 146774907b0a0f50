"""The asset that publishes: rows, header and workbook of the next plan version, in one transaction."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from importlib.metadata import version as package_version
from typing import Any

import dagster as dg
import duckdb

from pipelines.assets.estimates import plan_capacity, prediction_error
from pipelines.planning.frames import plan_frames
from pipelines.resources import PlanningResource
from reports.workbook import build_workbook, workbook_name
from warehouse.publish import publish


@dg.asset(
    deps=[plan_capacity, prediction_error],
    group_name="publication",
    description="The next plan version and its workbook: all of it in one transaction, or nothing.",
    kinds={"duckdb", "excel"},
)
def plan(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`plan` and every versioned table, and the workbook beside the warehouse."""
    place = planning.place

    def workbook(con: duckdb.DuckDBPyConnection, number: int, created_at: datetime) -> tuple[str, bytes]:
        frames = plan_frames(con, number, created_at, header, sources)
        return workbook_name(place.spec.workspace, number, created_at), build_workbook(frames, created_at)

    sources = current_sources(planning)
    header = plan_header(planning, sources)
    published = publish(planning.warehouse, header, workbook, place.plans)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": 1,
            "version": published.version,
            "workbook": dg.MetadataValue.path(published.path),
            "gpus": header["gpus_total"],
            "usd_per_month": header["usd_per_month"],
        }
    )


MEETING = """
SELECT count(*) AS n FROM (
    SELECT service FROM draft_plan_capacity JOIN draft_plan_candidate USING (service, candidate_id)
    WHERE status = 'chosen' AND scenario IN ('fleet_planned', 'fleet_all_up')
    GROUP BY service HAVING bool_and(meets_slo)
)"""
"""Services whose chosen fleet keeps its promise in the planned stretch and over the whole trace."""


def plan_header(planning: PlanningResource, sources: list[str]) -> dict[str, Any]:
    """The columns of `plan` that are known before it is published."""
    place = planning.place
    inputs = planning.frame("SELECT source_file, sha256 FROM source_file ORDER BY source_file").to_dicts()
    fingerprints = {row["source_file"]: row["sha256"] for row in inputs if row["source_file"] in sources}
    fingerprints["capsheet.yaml"] = place.sha256
    calibration = planning.frame("SELECT coalesce(max(calibration_version), 0) AS v FROM calibration")["v"][0]
    code = package_version("capsheet")
    text = json.dumps({"inputs": fingerprints, "calibration": calibration, "code": code}, sort_keys=True)
    totals = planning.frame(
        "SELECT coalesce(sum(gpus), 0)::INTEGER AS gpus, coalesce(sum(usd_per_hour), 0) AS hour, "
        "coalesce(sum(usd_per_month), 0) AS month FROM draft_plan_cost"
    ).to_dicts()[0]
    failed = planning.frame("SELECT count(*) AS n FROM draft_plan_check WHERE NOT passed AND severity <> 'informs'")[
        "n"
    ][0]
    return {
        "workspace": place.spec.workspace,
        "code_version": code,
        "calibration_version": calibration,
        "inputs_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "inputs_json": json.dumps(fingerprints, sort_keys=True),
        "services": len(place.spec.services),
        "services_meeting_slo": planning.frame(MEETING)["n"][0],
        "gpus_total": totals["gpus"],
        "usd_per_hour": totals["hour"],
        "usd_per_month": totals["month"],
        "checks_failed": failed,
    }


def current_sources(planning: PlanningResource) -> list[str]:
    """The sources this plan rests on: the catalogue, and what the tables in use came from."""
    return planning.frame(
        "SELECT source_file FROM source_file WHERE kind IN ('accelerator', 'price', 'engine', 'coefficient') "
        "UNION SELECT DISTINCT source_file FROM observation "
        "UNION SELECT DISTINCT source_file FROM step_profile "
        "UNION SELECT model_id || ' @ ' || revision FROM model "
        "UNION SELECT source_file FROM source_file WHERE named_by IN (SELECT unnest($1::VARCHAR[]))",
        [[spec.trace.source for spec in planning.place.spec.services]],
    )["source_file"].to_list()


PUBLICATION = [plan]
