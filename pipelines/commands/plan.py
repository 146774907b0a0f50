"""`capsheet plan`: the main job, through the asset graph, in this process."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from pipelines.commands import show
from pipelines.commands.bar import progress_bar
from pipelines.executor import Executor
from pipelines.home import quiet_environment
from pipelines.workspace import Place
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError
from warehouse.publish import settle_workbooks


def run(workspace: Path, *, json: bool, executor: Executor | None = None) -> None:
    """Run every asset and check, then say what was decided."""
    place = Place(workspace)
    quiet_environment(place)
    from pipelines.resources import hold_run, release_run

    hold_run(place.lock)
    try:
        settle_workbooks(Warehouse(place.warehouse), place.plans)
        with progress_bar(quiet=json):
            version = _execute(place, executor)
    finally:
        release_run(place.lock)
    summary = _summary(place, version)
    show.as_json(summary) if json else _tell(place, summary)


def _execute(place: Place, executor: Executor | None) -> int:
    warnings.filterwarnings("ignore", module="dagster")
    warnings.filterwarnings("ignore", module="great_expectations")
    import dagster as dg

    from pipelines.definitions import build_defs

    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    job = build_defs(place.folder, executor or "").resolve_job_def("publish_plan")
    try:
        job.execute_in_process(
            instance=dg.DagsterInstance.get(),
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=True,
        )
    except dg.DagsterError as error:
        raise _check_failure(place) or error from None
    return _version(place)


def _version(place: Place) -> int:
    with Warehouse(place.warehouse).reader() as con:
        return int(con.execute("SELECT max(plan_version) FROM plan").fetchall()[0][0])


def _check_failure(place: Place) -> CapsheetError | None:
    """The failed checks that stopped the run, as one message."""
    with Warehouse(place.warehouse).reader() as con:
        rows = con.execute(
            "SELECT scope, check_name, observed, expected, remedy FROM draft_plan_check "
            "WHERE NOT passed AND severity = 'stops' ORDER BY position"
        ).fetchall()
    if not rows:
        return None
    scope, name, observed, expected, remedy = rows[0]
    more = f" ({len(rows) - 1} more checks failed.)" if len(rows) > 1 else ""
    return CapsheetError(
        f"check {name} of {scope} failed: {observed}, expected {expected}. {remedy or ''}{more}".strip()
    )


def _summary(place: Place, version: int) -> dict[str, Any]:
    with Warehouse(place.warehouse).reader() as con:
        head = con.execute("SELECT * FROM plan WHERE plan_version = ?", [version]).pl().to_dicts()[0]
        services = (
            con.execute(
                "SELECT c.service, c.candidate_id, c.replicas, c.gpus, c.usd_per_hour, c.goodput_rps_per_replica, "
                "f.attainment, c.binding FROM plan_candidate c LEFT JOIN plan_capacity f "
                "ON f.plan_version = c.plan_version AND f.service = c.service AND f.candidate_id = c.candidate_id "
                "AND f.scenario = 'fleet_planned' WHERE c.plan_version = ? AND c.status = 'chosen' ORDER BY c.service",
                [version],
            )
            .pl()
            .to_dicts()
        )
        rejected = con.execute(
            "SELECT count(*) FROM rejected_row WHERE source_file IN (SELECT unnest(json_keys(?)))",
            [head["inputs_json"]],
        ).fetchall()[0][0]
    return {
        "plan_version": version,
        "workbook": str(place.plans / head["workbook"]),
        "gpus_total": head["gpus_total"],
        "usd_per_hour": head["usd_per_hour"],
        "usd_per_month": head["usd_per_month"],
        "inputs_sha256": head["inputs_sha256"],
        "rejected_rows": rejected,
        "checks_failed": head["checks_failed"],
        "services": services,
    }


def _tell(place: Place, summary: dict[str, Any]) -> None:
    show.as_table(summary["services"], f"plan version {summary['plan_version']} of {place.spec.workspace}")
    show.as_table(
        [
            {
                "GPUs": summary["gpus_total"],
                "USD per hour": summary["usd_per_hour"],
                "USD per month": summary["usd_per_month"],
                "rejected rows": summary["rejected_rows"],
                "checks that warn": summary["checks_failed"],
            }
        ]
    )
    import typer

    typer.echo(f"workbook: {summary['workbook']}")
