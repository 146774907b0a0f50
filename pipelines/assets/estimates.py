"""Assets that estimate: workload, candidates, capacity, errors. Their rows are drafts until a plan is published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dagster as dg
import polars as pl

from estimator.hardware import Accelerator
from pipelines.assets.sources import accelerator, engine_profile, model, observation, price, request
from pipelines.planning import assumptions, capacity, numbers, observed, workload
from pipelines.planning.candidates import Candidate, Catalog, Model, candidate_row, consider, memory_rows
from pipelines.planning.capacity import Sized
from pipelines.planning.models import model_of
from pipelines.planning.workload import Demand
from pipelines.progress import report
from pipelines.resources import PlanningResource, result
from pipelines.workspace import ServiceSpec, WorkspaceError
from warehouse.registry import table

GROUP = "estimates"
DRAFTS = {"kinds": {"python", "duckdb"}, "group_name": GROUP}


def _demand(planning: PlanningResource, spec: ServiceSpec) -> Demand:
    columns = ", ".join(workload.REQUEST_COLUMNS)
    query = f"SELECT {columns} FROM request WHERE source_file = ? AND outcome <> 'failed' ORDER BY line"  # noqa: S608
    return workload.demand(spec, planning.frame(query, [spec.trace.source]))


def _models(planning: PlanningResource) -> dict[str, Model]:
    rows = {row["model_id"]: row for row in planning.rows("model")}
    named = {row["model_id"]: row for row in rows.values()}
    return {spec.model: model_of(named[_known(spec.model, named)]) for spec in planning.place.spec.services}


def _known(name: str, rows: dict[str, Any]) -> str:
    if name in rows:
        return name
    raise WorkspaceError(f"model {name} was not read; materialize the asset `model` first.")


def _catalog(planning: PlanningResource) -> Catalog:
    fields = Accelerator.__dataclass_fields__
    usable = {
        row["gpu_id"]: Accelerator(**{name: row[name] for name in fields if name in row and row[name] is not None})
        for row in planning.rows("accelerator")
        if row["visible_memory_gib"] and row["memory_bandwidth_gbs"] and row["fp16_dense_tflops"]
    }
    prices: dict[str, Any] = {}
    for row in planning.rows("price"):
        if row["planning_default"]:
            prices[row["gpu_id"]] = row
    return Catalog(usable, prices, planning.rows("engine_profile"))


def _considered(planning: PlanningResource) -> list[tuple[ServiceSpec, Model, Demand, list[Candidate]]]:
    models, catalog = _models(planning), _catalog(planning)
    found = []
    for i, spec in enumerate(planning.place.spec.services):
        demand = _demand(planning, spec)
        where = planning.place.line_of("services", i, "candidates", "accelerators")
        found.append((spec, models[spec.model], demand, consider(spec, models[spec.model], catalog, demand, where)))
    return found


@dg.asset(deps=[request], description="Joint ISL x OSL buckets, arrival windows and figures of each service.", **DRAFTS)
def workload_bucket(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`workload_bucket`, `workload_window`, `plan_workload`."""
    found = [(spec, _demand(planning, spec)) for spec in planning.place.spec.services]
    buckets = pl.concat([workload.bucket_rows(demand) for _, demand in found])
    planning.write(
        ("draft_workload_bucket", buckets, "all"),
        ("draft_workload_window", pl.concat([workload.window_rows(demand) for _, demand in found]), "all"),
        ("draft_plan_workload", pl.concat([workload.figure_rows(spec, demand) for spec, demand in found]), "all"),
    )
    return result(buckets)


@dg.asset(
    deps=[workload_bucket, accelerator, price, engine_profile, model],
    description="Configurations considered: memory account, step time, K and L bounds.",
    **DRAFTS,
)
def plan_candidate(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`plan_memory`, and `plan_candidate` before any replay."""
    found = _considered(planning)
    rows = frame_of(
        "plan_candidate",
        [candidate_row(spec.name, m.model_id, c) for spec, m, _, candidates in found for c in candidates],
    )
    memory = pl.concat([memory_rows(spec.name, candidates) for spec, _, _, candidates in found])
    planning.write(("draft_plan_candidate", rows, "all"), ("draft_plan_memory", memory, "all"))
    return result(rows)


@dg.asset(
    deps=[plan_candidate],
    description="Open-loop replays: goodput of a replica, the smallest fleet, headroom, cost, the choice.",
    **DRAFTS,
)
def plan_capacity(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`plan_capacity`, `plan_bucket`, `plan_headroom`, `plan_cost`, `plan_number`, and `plan_candidate` in full."""
    workspace, catalog = planning.place.spec, _catalog(planning)
    found = _considered(planning)
    total = sum(sum(c.status == "feasible" for c in candidates) for *_, candidates in found)
    done = 0
    tables: dict[str, list[Any]] = {
        name: []
        for name in ("plan_candidate", "plan_capacity", "plan_bucket", "plan_headroom", "plan_cost", "plan_number")
    }
    chosen: dict[str, Sized] = {}
    for spec, served, demand, candidates in found:
        sized: list[Sized] = []
        for candidate in candidates:
            if candidate.status == "feasible":
                sized.append(capacity.size(spec, demand, candidate))
                done += 1
                report("replaying candidates", done, total)
        best = capacity.choose(sized)
        if best is None:
            raise WorkspaceError(_none_feasible(spec, candidates, sized))
        best = capacity.verify(spec, demand, best)
        best = replace(best, candidate=replace(best.candidate, status="chosen", reason="cheapest that keeps the SLO"))
        chosen[spec.name] = best
        by_id = {s.candidate.candidate_id: s for s in sized} | {best.candidate.candidate_id: best}
        output_rate = float(demand.osl_tokens.sum()) / demand.span_s * demand.demand_factor
        for candidate in candidates:
            row = candidate_row(spec.name, served.model_id, candidate)
            size = by_id.get(candidate.candidate_id)
            if size is not None:
                row |= {"status": size.candidate.status, "reason": size.candidate.reason}
                row |= capacity.candidate_figures(size, output_rate)
                tables["plan_capacity"] += capacity.capacity_rows(spec.name, spec, size)
            tables["plan_candidate"].append(row)
        tables["plan_bucket"] += capacity.bucket_rows(spec.name, spec, demand, best, ("fleet_planned", "fleet_all_up"))
        tables["plan_headroom"] += capacity.headroom_rows(spec.name, best).to_dicts()
        tables["plan_cost"] += capacity.cost_rows(spec.name, best, workspace.prices.hours_per_month).to_dicts()
        tables["plan_number"] += numbers.service_numbers(workspace, spec, served, demand, best)
    tables["plan_number"] += numbers.total_numbers(workspace, chosen)
    used = {(s.candidate.engine.name, s.candidate.engine.version) for s in chosen.values()}
    assumed = assumptions.assumption_rows(
        workspace,
        catalog,
        [(spec, served, demand, chosen[spec.name].candidate) for spec, served, demand, _ in found],
        [row for row in catalog.profile if any(applies(row, *engine) for engine in used)],
    )
    frames = {name: frame_of(name, rows) for name, rows in tables.items()} | {"plan_assumption": assumed}
    planning.write(*((f"draft_{name}", frame, "all") for name, frame in frames.items()))
    return result(frames["plan_capacity"])


@dg.asset(
    deps=[observation, plan_candidate],
    description="Predicted against observed TTFT, TPOT and E2E, per bucket.",
    **DRAFTS,
)
def prediction_error(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`prediction_error` for every observation of a service's model."""
    models, catalog, seen = _models(planning), _catalog(planning), planning.rows("observation")
    rows = []
    for spec in planning.place.spec.services:
        served = models[spec.model]
        rows += observed.error_rows(spec.name, served, catalog, [o for o in seen if o["model_id"] == served.model_id])
    frame = frame_of("prediction_error", rows)
    planning.write(("draft_prediction_error", frame, "all"))
    return result(frame)


def frame_of(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame typed by the registry, so that an all-null or empty column keeps its type."""
    types = {"VARCHAR": pl.String, "BIGINT": pl.Int64, "INTEGER": pl.Int32, "DOUBLE": pl.Float64, "BOOLEAN": pl.Boolean}
    schema = {c.name: types[c.type] for c in table(name).columns if c.name != "plan_version"}
    return pl.DataFrame(rows, schema=schema, orient="row")


def applies(row: dict[str, Any], engine: str, version: str) -> bool:
    """Whether a profile row holds for an engine version."""
    from estimator.engines import holds_for

    return bool(row["engine"] == engine and holds_for(row, version))


def _none_feasible(spec: ServiceSpec, candidates: list[Candidate], sized: list[Sized]) -> str:
    reasons = [f"{s.candidate.candidate_id}: {s.candidate.reason}" for s in sized]
    reasons += [f"{c.candidate_id}: {c.reason}" for c in candidates if c.status != "feasible"]
    shown = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return (
        f"service {spec.name}: no candidate keeps its SLO, so there is no plan. {shown}. "
        "Loosen the target that binds, or add accelerators, tensor_parallel sizes or precisions."
    )


ESTIMATES = [workload_bucket, plan_candidate, plan_capacity, prediction_error]
