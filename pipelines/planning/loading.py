"""From the warehouse's tables to what planning works on: catalogue, models, demand, candidates."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any

import polars as pl

from pipelines.planning import workload
from pipelines.planning.candidates import Candidate, Model, consider
from pipelines.planning.catalog import Catalog, catalog_of
from pipelines.planning.models import model_of
from pipelines.planning.workload import Demand
from pipelines.planning.workload_shape import MIX_VALUES
from pipelines.resources import PlanningResource
from pipelines.workspace import ServiceSpec, WorkspaceError
from warehouse.frames import polars_schema
from warehouse.registry import table

OF_SOURCE = "source_file IN (SELECT source_file FROM source_file WHERE named_by = ?)"
"""The rows of every file that one name in the workspace stands for."""
Considered = tuple[ServiceSpec, Model, Demand, list[Candidate]]


def catalog(planning: PlanningResource) -> Catalog:
    """Accelerators with the figures a plan needs, the price each is planned with, engine profile, step profiles."""
    return catalog_of(
        planning.rows("accelerator"),
        planning.rows("price"),
        planning.rows("engine_profile"),
        step_profiles=planning.rows("step_profile"),
    )


def models(planning: PlanningResource) -> dict[str, Model]:
    """The services' models by the name the workspace gives them."""
    rows = {row["model_id"]: row for row in planning.rows("model")}
    missing = [spec.model for spec in planning.place.spec.services if spec.model not in rows]
    if missing:
        raise WorkspaceError(f"model {missing[0]} was not read yet: materialize the asset `model` first.")
    return {spec.model: model_of(rows[spec.model]) for spec in planning.place.spec.services}


def demand(planning: PlanningResource, spec: ServiceSpec) -> Demand:
    """A service's demand. Requests that no engine worked on, or whose lengths nobody knows, are left out."""
    columns = ", ".join(workload.REQUEST_COLUMNS)
    query = f"SELECT {columns} FROM request WHERE {OF_SOURCE} AND replayable ORDER BY source_file, line"  # noqa: S608
    told = planning.frame("SELECT detail FROM source_file WHERE named_by = ?", [spec.trace.source])["detail"]
    synthetic = any("synthetic" in (detail or "") for detail in told)
    return workload.demand(spec, planning.frame(query, [spec.trace.source]), synthetic=synthetic)


def mix(planning: PlanningResource, spec: ServiceSpec) -> pl.DataFrame:
    """Shares of a service's requests, also of those that no engine worked on, by model, tenant, feature, outcome."""
    return _counted(planning, "mix", {"source": spec.trace.source, "most": MIX_VALUES})


def served_hits(planning: PlanningResource, spec: ServiceSpec) -> tuple[int, int]:
    """Input tokens the source says came from a cache, and the input tokens of the requests it says it of."""
    row = _counted(planning, "served_hits", {"source": spec.trace.source}).row(0)
    return int(row[0]), int(row[1])


def _counted(planning: PlanningResource, name: str, values: Mapping[str, object]) -> pl.DataFrame:
    query = (resources.files("sql") / "workload" / f"{name}.sql").read_text(encoding="utf-8")
    with planning.reader() as con:
        return con.execute(query, dict(values)).pl()


def considered(planning: PlanningResource) -> list[Considered]:
    """Every service with its candidates, shortlisted. The same rows give the same candidates each time."""
    known, by_name = catalog(planning), models(planning)
    found = []
    for i, spec in enumerate(planning.place.spec.services):
        wanted = demand(planning, spec)
        where = planning.place.line_of("services", i, "candidates")
        found.append((spec, by_name[spec.model], wanted, consider(spec, by_name[spec.model], known, wanted, where)))
    return found


def frame_of(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows of a table as a frame typed by the registry, so that an empty or all-null column keeps its type."""
    schema = {k: v for k, v in polars_schema(table(name)).items() if k != "plan_version"}
    return pl.DataFrame(rows, schema=schema, orient="row")
