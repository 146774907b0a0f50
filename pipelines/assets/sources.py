"""Assets that read the outside: catalogue, prices, engines, models, traces, observations."""

from __future__ import annotations

import dagster as dg
import polars as pl

from pipelines.planning.models import model_row
from pipelines.resources import PlanningResource, result
from pipelines.sources import (
    check_tolerance,
    read_catalog_table,
    read_model,
    read_observations,
    read_prices,
    read_trace,
)

GROUP = "sources"


@dg.asset(
    group_name=GROUP,
    description="Accelerators of the catalogue: visible memory, dense rates, links.",
    kinds={"csv", "duckdb"},
)
def accelerator(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`accelerator`, whole."""
    return planning.store("accelerator", "accelerator", read_catalog_table("accelerators"), "all")


@dg.asset(
    group_name=GROUP, description="Prices: the workspace's own first, then the catalogue's.", kinds={"csv", "duckdb"}
)
def price(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`price`, whole."""
    spec = planning.place.spec.prices
    return planning.store("price", "price", read_prices(spec.usd_per_gpu_hour, spec.source), "all")


@dg.asset(
    group_name=GROUP,
    description="Engine defaults and step-time coefficients, each with its source.",
    kinds={"csv", "duckdb"},
)
def engine_profile(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`engine_profile`, whole: engines and coefficients."""
    engines, coefficients = read_catalog_table("engines"), read_catalog_table("coefficients")
    both = pl.concat([engines.frame, coefficients.frame])
    planning.write(
        ("engine_profile", both, "all"),
        ("source_file", planning.source_row("engine", engines), {"source_file": engines.source_file}),
        ("source_file", planning.source_row("coefficient", coefficients), {"source_file": coefficients.source_file}),
    )
    return result(both)


@dg.asset(
    group_name=GROUP,
    description="The services' models: architecture, parameters, weight bytes.",
    kinds={"json", "duckdb"},
)
def model(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`model`: one row a model of the workspace."""
    place = planning.place
    rows, files = [], []
    for spec in {s.model: s for s in place.spec.services}.values():
        read = read_model(spec.model, spec.revision, offline=place.spec.offline, folder=place.folder)
        rows.append(model_row(read))
        files.append(read)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    planning.write(
        ("model", frame, "all"),
        *(
            (  # one fingerprint a model
                "source_file",
                planning.source_row("model", read.as_source()),
                {"source_file": read.as_source().source_file},
            )
            for read in files
        ),
    )
    return result(frame.drop("config_json"))


@dg.asset(
    group_name=GROUP, description="Requests of the services' traces; broken rows are in rejected_row.", kinds={"duckdb"}
)
def request(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`request`: one source file at a time, replaced whole."""
    place = planning.place
    kept = rejected = 0
    details = []
    for source, spec in {s.trace.source: s.trace for s in place.spec.services}.items():
        options = {**spec.options, "spread": spec.spread}
        read = read_trace(place.path(source), source, spec.format, options)
        check_tolerance(read, place.spec.max_rejected_share)
        planning.store("trace", "request", read, {"source_file": source})
        kept, rejected = kept + read.frame.height, rejected + read.rejected.height
        details.append(f"{source}: {read.format}; {read.detail}")
    return dg.MaterializeResult(
        metadata={"dagster/row_count": kept, "rejected": rejected, "detail": "\n".join(details)}
    )


@dg.asset(group_name=GROUP, description="Measured serving: what benchmarks and production saw.", kinds={"duckdb"})
def observation(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`observation`: every observation source of the workspace."""
    place = planning.place
    reads = [
        read
        for spec in place.spec.observations
        for read in read_observations(place.folder, spec.source, spec.served, spec.format)
    ]
    for read in reads:
        check_tolerance(read, place.spec.max_rejected_share)
    frames = [read.frame for read in reads]
    if not frames:
        planning.write(("observation", pl.DataFrame(), "all"))
        return dg.MaterializeResult(metadata={"dagster/row_count": 0, "detail": "the workspace names no observations"})
    frame = pl.concat(frames)
    planning.write(
        ("observation", frame, "all"),
        *(("rejected_row", read.rejected, {"source_file": read.source_file}) for read in reads),
        *(
            ("source_file", planning.source_row("observation", read), {"source_file": read.source_file})
            for read in reads
        ),
    )
    return result(frame, rejected=sum(read.rejected.height for read in reads))


SOURCES = [accelerator, price, engine_profile, model, request, observation]
