"""Assets that read the outside: catalogue, prices, engines, models, step profiles, traces, observations."""

from collections import Counter
from collections.abc import Collection
from datetime import date

import dagster as dg
import polars as pl

from pipelines.ingest import ingest_source
from pipelines.planning.models import model_row
from pipelines.planning.profile_sources import workspace_profiles
from pipelines.resources import PlanningResource, hold_run, result
from pipelines.sources import (
    check_tolerance,
    read_catalog_table,
    read_model,
    read_observations,
    read_prices,
)

GROUP = "sources"
DAYS = dg.DailyPartitionsDefinition(start_date="2020-01-01", timezone="UTC")
"""Days that trace files are delivered for, until yesterday."""


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
    group_name=GROUP,
    description="Measured step times, each with the configuration it is of; they go before physics.",
    kinds={"duckdb"},
)
def step_profile(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`step_profile`: every profile of the workspace."""
    reads = workspace_profiles(planning.place)
    if not reads:
        planning.write(("step_profile", pl.DataFrame(), "all"))
        return dg.MaterializeResult(metadata={"dagster/row_count": 0, "detail": "the workspace names no profiles"})
    frame = pl.concat([read.frame for read in reads])
    files = [(read, {"source_file": read.source_file}) for read in reads]
    planning.write(
        ("step_profile", frame, "all"),
        *(("rejected_row", read.rejected, scope) for read, scope in files),
        *(("source_file", planning.source_row("profile", read), scope) for read, scope in files),
    )
    return result(frame, rejected=sum(read.rejected.height for read in reads))


@dg.asset(
    group_name=GROUP,
    partitions_def=DAYS,
    backfill_policy=dg.BackfillPolicy.single_run(),  # the warehouse has one writer
    description="The trace files of one day, as their paths name it; a late one is read when its day is run again.",
    kinds={"duckdb"},
)
def request_day(context: dg.AssetExecutionContext, planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`request`, the files of a day (or of several, in a backfill): read once, replaced where they changed."""
    return _ingested(planning, [date.fromisoformat(day) for day in context.partition_keys])


@dg.asset(
    deps=[request_day],
    group_name=GROUP,
    description="Requests of the services' traces, whatever is not yet in; broken rows are in rejected_row.",
    kinds={"duckdb"},
)
def request(planning: PlanningResource) -> dg.MaterializeResult[None]:
    """`request`: every file of every trace, each replaced whole where it changed."""
    return _ingested(planning, None)


def _ingested(planning: PlanningResource, days: Collection[date] | None) -> dg.MaterializeResult[None]:
    place = planning.place
    hold_run(place.lock)
    specs = {s.trace.source: s.trace for s in place.spec.services}
    files = [
        file
        for spec in specs.values()
        for file in ingest_source(
            planning.warehouse, place.folder, spec, place.spec.max_rejected_share, days=days, sources=specs
        )
    ]
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": sum(file.rows_kept for file in files),
            "rejected": sum(file.rows_rejected for file in files),
            "files": ", ".join(f"{count} {state}" for state, count in Counter(file.state for file in files).items()),
            "detail": "\n".join(f"{file.source_file}: {file.format}; {file.detail}" for file in files[:20]),
        }
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


SOURCES = [accelerator, price, engine_profile, model, step_profile, request_day, request, observation]
