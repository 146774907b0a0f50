"""A service's requests as arrays, its planning window, and the rows of its workload tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from estimator.length_classes import relative_cost
from estimator.replay import Workload
from estimator.workload import (
    Bucket,
    Floats,
    Ints,
    PlanningWindow,
    busiest_window,
    full_window_rates,
    gap_variation,
    joint_buckets,
    window_counts,
)
from pipelines.workspace import ServiceSpec, WorkspaceError

REQUEST_COLUMNS = ("arrival_at", "isl_tokens", "osl_tokens", "prefix_hashes", "prefix_block_tokens")
LENGTH_PERCENTILES = (50, 90, 95, 99)
Figure = tuple[str, float | None, str | None, str, str, str]
"""Name, value, text, unit, label and source of a row of `plan_workload`."""
WARM_S = 300.0
"""Replayed before the planning window, and not counted, so that the window begins with engines and caches warm."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a service must serve: the whole trace, its buckets, and the stretch that capacity is planned on.

    `arrival_s` counts from the first arrival. `demand_factor` is planned over traced demand.
    """

    service: str
    started_at: datetime
    arrival_s: Floats
    isl_tokens: Ints
    osl_tokens: Ints
    workload: Workload
    buckets: list[Bucket]
    window: PlanningWindow
    demand_factor: float
    has_prefixes: bool
    synthetic: bool = False
    """The trace says of itself that it was made up: its figures are assumed, not measured."""

    @property
    def span_s(self) -> float:
        """From the first to the last arrival."""
        return float(self.arrival_s[-1])

    @property
    def counted(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which requests the planning window counts."""
        return (self.arrival_s >= self.window.start_s) & (self.arrival_s < self.window.end_s)

    @property
    def traced_rps(self) -> float:
        """Arrivals a second in the planning window, as traced."""
        return float(self.counted.sum()) / (self.window.end_s - self.window.start_s)

    @property
    def planned_rps(self) -> float:
        """Arrivals a second in the planning window, as planned for."""
        return self.traced_rps * self.demand_factor

    @property
    def window_workload(self) -> Workload:
        """The planning window with its warm-up before it, at traced rate, from second 0 on."""
        return self.workload.window(self.window.warm_from_s, self.window.end_s)

    @property
    def warm_s(self) -> float:
        """How much of `window_workload` is warm-up."""
        return self.window.start_s - self.window.warm_from_s

    def bucket_of(self) -> Ints:
        """Index into `buckets` for each request."""
        index = np.empty(len(self.arrival_s), dtype=np.int64)
        for i, bucket in enumerate(self.buckets):
            index[bucket.members] = i
        return index


def demand(spec: ServiceSpec, requests: pl.DataFrame, *, synthetic: bool = False) -> Demand:
    """A service's demand from its `request` rows, which need not be sorted.

    Raises WorkspaceError when there are too few requests to plan on.
    """
    rows = requests.select(REQUEST_COLUMNS).sort("arrival_at", maintain_order=True)
    if len(rows) < 2:
        raise WorkspaceError(
            f"service {spec.name}: {spec.trace.source} holds {len(rows)} usable request(s); a plan needs at least 2. "
            "Give it a longer trace."
        )
    arrivals = rows["arrival_at"].dt.epoch("us").to_numpy()
    arrival_s = (arrivals - arrivals[0]) / 1e6
    if arrival_s[-1] <= 0:
        raise WorkspaceError(
            f"service {spec.name}: all {len(rows)} requests of {spec.trace.source} arrive at one instant, so there is "
            "no rate to plan for. Check the unit of its timestamps."
        )
    isl = rows["isl_tokens"].to_numpy().astype(np.int64)
    osl = rows["osl_tokens"].to_numpy().astype(np.int64)
    hashes = rows["prefix_hashes"]
    prefixed = spec.trace.prefix_sharing and hashes.null_count() < len(hashes)
    if prefixed:
        blocks = rows["prefix_block_tokens"].drop_nulls().unique().sort().to_list()
        if len(blocks) != 1:
            raise WorkspaceError(
                f"service {spec.name}: {spec.trace.source} has prefix blocks of {len(blocks)} sizes "
                f"({', '.join(map(str, blocks[:4])) or 'none stated'}); one is needed. Split the trace, or set "
                "trace.prefix_sharing: false."
            )
        lengths = hashes.list.len().fill_null(0).to_numpy().astype(np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        ids = hashes.drop_nulls().explode().drop_nulls().to_numpy().astype(np.int64)
        workload = Workload.of(arrival_s, isl, osl, offsets, ids, int(blocks[0]))
    else:
        workload = Workload.of(arrival_s, isl, osl)
    return Demand(
        service=spec.name,
        started_at=rows["arrival_at"][0],
        arrival_s=arrival_s,
        isl_tokens=isl,
        osl_tokens=osl,
        workload=workload,
        buckets=joint_buckets(isl, osl),
        # Demand is scaled by time-warp, which shortens the warm-up with everything else: take that much more of it.
        window=busiest_window(
            arrival_s, isl + osl, spec.trace.window_minutes * 60.0, WARM_S * max(1.0, spec.trace.demand_factor)
        ),
        demand_factor=spec.trace.demand_factor,
        has_prefixes=prefixed,
        synthetic=synthetic,
    )


def bucket_rows(demand: Demand) -> pl.DataFrame:
    """Rows of `workload_bucket`."""
    counted = demand.counted
    cost = relative_cost(demand.isl_tokens, demand.osl_tokens)
    seconds = demand.window.end_s - demand.window.start_s
    total, inputs, outputs = len(demand.arrival_s), demand.isl_tokens.sum(), demand.osl_tokens.sum()
    return pl.DataFrame(
        [
            {
                "service": demand.service,
                "bucket": bucket.name,
                "isl_from_tokens": bucket.isl_from_tokens,
                "isl_to_tokens": bucket.isl_to_tokens,
                "osl_from_tokens": bucket.osl_from_tokens,
                "osl_to_tokens": bucket.osl_to_tokens,
                "requests": len(bucket.members),
                "share": len(bucket.members) / total,
                "isl_mean_tokens": float(demand.isl_tokens[bucket.members].mean()),
                "osl_mean_tokens": float(demand.osl_tokens[bucket.members].mean()),
                "input_share": float(demand.isl_tokens[bucket.members].sum() / inputs),
                "output_share": float(demand.osl_tokens[bucket.members].sum() / outputs),
                "cost_share": float(cost[bucket.members].sum() / cost.sum()),
                "cost_spread": float(np.divide(*np.percentile(cost[bucket.members], [90, 10]))),
                "peak_rps": float(counted[bucket.members].sum()) / seconds * demand.demand_factor,
            }
            for bucket in demand.buckets
        ]
    )


def window_rows(demand: Demand, window_s: int = 300) -> pl.DataFrame:
    """Rows of `workload_window`: arrivals by the five minutes, as traced."""
    isl = window_counts(demand.arrival_s, window_s, demand.isl_tokens.astype(np.float64))
    osl = window_counts(demand.arrival_s, window_s, demand.osl_tokens.astype(np.float64))
    counts = window_counts(demand.arrival_s, window_s)
    return pl.DataFrame(
        {
            "service": [demand.service] * len(counts),
            "window_start_at": [demand.started_at + timedelta(seconds=window_s * i) for i in range(len(counts))],
            "window_s": [window_s] * len(counts),
            "requests": counts.astype(np.int64),
            "arrival_rps": counts / window_s,
            "isl_tokens": isl.astype(np.int64),
            "osl_tokens": osl.astype(np.int64),
        }
    )


def figure_rows(spec: ServiceSpec, demand: Demand, shape: Callable[[str, str], list[Figure]]) -> pl.DataFrame:
    """Rows of `plan_workload`: the figures a planner asks for first, then those of the workload's `shape`."""
    trace = f"{'synthetic ' if demand.synthetic else ''}trace {spec.trace.source}"
    label = "assumed" if demand.synthetic else "measured"
    figures: list[Figure] = [
        ("requests", len(demand.arrival_s), None, "requests", label, trace),
        ("first_arrival_at", None, demand.started_at.isoformat(timespec="seconds"), "UTC", label, trace),
        ("trace_span_hours", demand.span_s / 3600, None, "h", label, trace),
        ("mean_rps", len(demand.arrival_s) / demand.span_s, None, "1/s", label, trace),
    ]
    for minutes in (1, 5):
        rates = full_window_rates(demand.arrival_s, minutes * 60.0)
        figures += [
            (f"rps_p{q}_{minutes}m", float(np.percentile(rates, q)), None, "1/s", label, f"{trace}, whole windows")
            for q in (50, 90, 99)
        ]
    figures.append(("gap_cv", gap_variation(demand.arrival_s), None, "", label, f"{trace}; 1 is Poisson"))
    for name, lengths in (("isl", demand.isl_tokens), ("osl", demand.osl_tokens)):
        figures.append((f"{name}_mean_tokens", float(lengths.mean()), None, "tokens", label, trace))
        figures += [
            (f"{name}_p{q}_tokens", float(np.percentile(lengths, q)), None, "tokens", label, trace)
            for q in LENGTH_PERCENTILES
        ]
        figures.append((f"{name}_max_tokens", float(lengths.max()), None, "tokens", label, trace))
    correlation = (
        float(np.corrcoef(demand.isl_tokens, demand.osl_tokens)[0, 1])
        if demand.isl_tokens.std() > 0 and demand.osl_tokens.std() > 0
        else None
    )
    start = demand.started_at + timedelta(seconds=demand.window.start_s)
    figures += [
        ("isl_osl_correlation", correlation, None, "", label, trace),
        (
            "prefix_relation",
            None,
            "replayed by block hash" if demand.has_prefixes else "none: every prompt is new",
            "",
            label if demand.has_prefixes else "assumed",
            trace if demand.has_prefixes else f"{trace}: no block hashes, or prefix_sharing: false",
        ),
        (
            "planning_window_start_at",
            None,
            start.isoformat(timespec="seconds"),
            "UTC",
            "inferred",
            "estimator.workload.busiest_window",
        ),
        (
            "planning_window_minutes",
            (demand.window.end_s - demand.window.start_s) / 60,
            None,
            "min",
            "assumed",
            "capsheet.yaml",
        ),
        ("planning_window_traced_rps", demand.traced_rps, None, "1/s", label, trace),
        ("demand_factor", demand.demand_factor, None, "", "assumed", "capsheet.yaml"),
        ("planned_rps", demand.planned_rps, None, "1/s", "inferred", "planning window x demand factor"),
        *shape(trace, label),
    ]
    return pl.DataFrame(
        [
            {
                "service": demand.service,
                "position": i,
                "name": name,
                "value": None if value is None else float(value),
                "text": text,
                "unit": unit,
                "label": how,
                "source": source,
            }
            for i, (name, value, text, unit, how, source) in enumerate(figures)
        ],
        schema_overrides={"value": pl.Float64, "text": pl.String},
    )
