"""The decision: every shortlisted candidate sized, one chosen a service, and the rows that say so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from pipelines.executor import Executor, run_all
from pipelines.planning import assumptions, capacity, capacity_rows, checks, numbers
from pipelines.planning.candidates import Candidate, Model, candidate_row
from pipelines.planning.capacity import Sized
from pipelines.planning.catalog import Catalog
from pipelines.planning.workload import Demand
from pipelines.workspace import ServiceSpec, Workspace, WorkspaceError

Rows = list[dict[str, Any]]
Considered = Sequence[tuple[ServiceSpec, Model, Demand, list[Candidate]]]
TABLES = (
    "plan_assumption",
    "plan_candidate",
    "plan_capacity",
    "plan_bucket",
    "plan_series",
    "plan_headroom",
    "plan_cost",
    "plan_number",
    "plan_check",
)


def decide(
    workspace: Workspace, catalog: Catalog, considered: Considered, *, executor: Executor = "local"
) -> dict[str, Rows]:
    """Rows of every table of the decision, by table. Candidates are replayed where `executor` says.

    Raises WorkspaceError when no candidate of a service keeps its promise: half a plan would look like a whole one.
    """
    places = [
        (service, i)
        for service, (*_, several) in enumerate(considered)
        for i, candidate in enumerate(several)
        if candidate.status == "feasible"
    ]
    sizes = run_all(_sized, considered, places, executor=executor, stage="replaying candidates")
    with closing(sizes):
        return _decide(workspace, catalog, considered, sizes)


def _sized(considered: Considered, place: tuple[int, int]) -> Sized:
    spec, _, demand, candidates = considered[place[0]]
    return capacity.size(spec, demand, candidates[place[1]])


def _decide(workspace: Workspace, catalog: Catalog, considered: Considered, sizes: Iterator[Sized]) -> dict[str, Rows]:
    """The rows, from the sizes of every service's feasible candidates in turn."""
    rows: dict[str, Rows] = {name: [] for name in TABLES}
    chosen: dict[str, Sized] = {}
    for spec, model, demand, candidates in considered:
        sized = [next(sizes) for candidate in candidates if candidate.status == "feasible"]
        best = capacity.choose(sized)
        if best is None:
            raise WorkspaceError(_none_feasible(spec, candidates, sized))
        best = capacity.verify(spec, demand, best)
        best = replace(best, candidate=replace(best.candidate, status="chosen", reason="cheapest that keeps the SLO"))
        chosen[spec.name] = best
        by_id = {s.candidate.candidate_id: s for s in (*sized, best)}
        output_rate = float(demand.osl_tokens.sum()) / demand.span_s * demand.demand_factor
        for candidate in candidates:
            row = candidate_row(spec.name, model.model_id, candidate)
            size = by_id.get(candidate.candidate_id)
            if size is not None:
                row |= {"status": size.candidate.status, "reason": size.candidate.reason}
                row |= capacity_rows.candidate_figures(size, output_rate)
                rows["plan_capacity"] += capacity_rows.capacity_rows(spec.name, spec, size)
            rows["plan_candidate"].append(row)
        buckets = capacity_rows.bucket_rows(spec.name, spec, demand, best, ("fleet_planned", "fleet_all_up"))
        rows["plan_bucket"] += buckets
        rows["plan_series"] += capacity_rows.series_rows(spec.name, best)
        rows["plan_headroom"] += capacity_rows.headroom_rows(spec.name, best)
        rows["plan_cost"] += capacity_rows.cost_rows(spec.name, best, workspace.prices.hours_per_month)
        rows["plan_check"] += [*checks.decision_checks(spec, best), *checks.workload_checks(spec, demand)]
        rows["plan_number"] += numbers.service_numbers(workspace, spec, model, demand, best)
    rows["plan_check"] += checks.profile_checks(
        catalog, [c.configuration(model.model_id) for _, model, _, several in considered for c in several]
    )
    rows["plan_number"] += numbers.total_numbers(workspace, chosen)
    rows["plan_assumption"] = assumptions.assumption_rows(
        workspace,
        catalog,
        [(spec, model, demand, chosen[spec.name].candidate) for spec, model, demand, _ in considered],
    )
    return rows


def _none_feasible(spec: ServiceSpec, candidates: list[Candidate], sized: list[Sized]) -> str:
    reasons = [f"{s.candidate.candidate_id}: {s.candidate.reason}" for s in sized]
    reasons += [f"{c.candidate_id}: {c.reason}" for c in candidates if c.status != "feasible"]
    shown = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    return (
        f"service {spec.name}: no candidate keeps its SLO, so there is no plan. {shown}. "
        "Loosen the target that binds, or add accelerators, tensor_parallel sizes or precisions."
    )
