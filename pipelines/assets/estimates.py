"""Assets that estimate: workload, candidates, capacity, errors. Their rows are drafts until a plan is published."""

from __future__ import annotations

from functools import partial

import dagster as dg
import polars as pl

from pipelines.assets.sources import accelerator, engine_profile, model, observation, price, request, step_profile
from pipelines.planning import checks, decision, observed, workload, workload_shape
from pipelines.planning.candidates import candidate_row, memory_rows
from pipelines.planning.loading import catalog, considered, demand, frame_of, mix, models, served_hits
from pipelines.resources import PlanningResource, result
from warehouse.write import Scope

GROUP = "estimates"
KINDS = {"python", "duckdb"}


@dg.asset(
    deps=[request],
    group_name=GROUP,
    kinds=KINDS,
    description="Joint ISL x OSL buckets, arrival windows, seasons, mix, prefix hits and figures of each service.",
)
def workload_bucket(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`workload_bucket`, `workload_window`, `workload_season`, `workload_mix`, `workload_prefix`, `plan_workload`."""
    found = [(spec, demand(planning, spec), mix(planning, spec)) for spec in planning.place.spec.services]
    rows = {
        "bucket": [workload.bucket_rows(wanted) for _, wanted, _ in found],
        "window": [workload.window_rows(wanted) for _, wanted, _ in found],
        "season": [workload_shape.season_rows(wanted) for _, wanted, _ in found],
        "mix": [workload_shape.mix_rows(wanted, shares) for _, wanted, shares in found],
        "prefix": [workload_shape.prefix_rows(wanted, served_hits(planning, spec)) for spec, wanted, _ in found],
    }
    figures = [
        workload.figure_rows(spec, wanted, partial(workload_shape.figures, wanted, shares))
        for spec, wanted, shares in found
    ]
    buckets = pl.concat(rows["bucket"])
    planning.write(
        *((f"draft_workload_{name}", pl.concat(frames), "all") for name, frames in rows.items()),
        ("draft_plan_workload", pl.concat(figures), "all"),
    )
    return result(buckets)


@dg.asset(
    deps=[workload_bucket, accelerator, price, engine_profile, model, step_profile],
    group_name=GROUP,
    kinds=KINDS,
    description="Configurations considered: memory account, step time, K and L bounds, shortlist.",
)
def plan_candidate(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`plan_memory`, and `plan_candidate` before any replay."""
    found = considered(planning)
    rows = [candidate_row(spec.name, served.model_id, c) for spec, served, _, several in found for c in several]
    memory = [row for spec, _, _, several in found for row in memory_rows(spec.name, several)]
    frame = frame_of("plan_candidate", rows)
    planning.write(
        ("draft_plan_candidate", frame, "all"), ("draft_plan_memory", frame_of("plan_memory", memory), "all")
    )
    return result(frame)


@dg.asset(
    deps=[plan_candidate],
    group_name=GROUP,
    kinds=KINDS,
    description="Open-loop replays: goodput of a replica, the smallest fleet, headroom, cost, the choice.",
)
def plan_capacity(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`plan_capacity` and every table of the decision; `plan_candidate` again, now with what the replays found."""
    spec, where = planning.place.spec, planning.replays_on
    rows = decision.decide(spec, catalog(planning), considered(planning), executor=where)
    rows["plan_check"] = checks.placed(rows["plan_check"], "decision", checks.FIRST_POSITION)
    frames = {name: frame_of(name, found) for name, found in rows.items()}
    own: dict[str, Scope] = {"plan_check": {"scope": "decision"}}
    planning.write(*((f"draft_{name}", frame, own.get(name, "all")) for name, frame in frames.items()))
    return result(frames["plan_capacity"])


@dg.asset(
    deps=[observation, plan_candidate],
    group_name=GROUP,
    kinds=KINDS,
    description="Predicted against observed TTFT, TPOT and E2E, per bucket.",
)
def prediction_error(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`prediction_error` for every observation of a service's model."""
    named, known, seen = models(planning), catalog(planning), planning.rows("observation")
    rows = []
    for spec in planning.place.spec.services:
        served = named[spec.model]
        rows += observed.error_rows(spec.name, served, known, [o for o in seen if o["model_id"] == served.model_id])
    frame = frame_of("prediction_error", rows)
    found = frame_of("plan_check", checks.placed(checks.error_checks(rows), "prediction", 2 * checks.FIRST_POSITION))
    planning.write(("draft_prediction_error", frame, "all"), ("draft_plan_check", found, {"scope": "prediction"}))
    return result(frame)


ESTIMATES = [workload_bucket, plan_candidate, plan_capacity, prediction_error]
