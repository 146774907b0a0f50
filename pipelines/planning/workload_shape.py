"""The shape of a service's workload beyond its buckets: seasons, mix, prefix hits by tier, kinds far apart; as rows.

Belongs here: rows from a trace's arrays and from the mix that SQL counted. Does not: the buckets and windows that plans
rest on (`workload`), or how a figure is had (`estimator`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import numpy as np
import polars as pl

from estimator.length_classes import Split, relative_cost, split
from estimator.prefixes import reuse, tier_hits
from estimator.workload import count_dispersion, full_window_rates, seasons
from pipelines.planning.workload import Demand, Figure
from warehouse.frames import polars_schema
from warehouse.registry import table

TIERS_TOKENS = (250_000.0, 1_000_000.0, 4_000_000.0, 16_000_000.0, float("inf"))
"""Cache sizes asked about: about one accelerator's KV cache, a few of them, a node's host memory, a shared store."""
MIX_VALUES = 20
"""Values of a dimension that stand alone; tenants can be millions."""
_LOST = ("failed", "rejected", "cancelled", "cache_hit")


def season_rows(demand: Demand) -> pl.DataFrame:
    """Rows of `workload_season`."""
    started = demand.started_at.replace(tzinfo=UTC).timestamp()
    return _rows(
        "workload_season",
        demand,
        (
            {
                "period": found.period,
                "slot": found.slot,
                "covered_h": found.covered_h,
                "requests": found.requests,
                "arrival_rps": found.arrival_rps,
                "factor": found.factor,
            }
            for found in seasons(started, demand.arrival_s)
        ),
    )


def mix_rows(demand: Demand, mix: pl.DataFrame) -> pl.DataFrame:
    """Rows of `workload_mix` from what `sql/workload/mix.sql` counted."""
    return _rows("workload_mix", demand, mix.iter_rows(named=True))


def prefix_rows(demand: Demand, served: tuple[int, int] = (0, 0)) -> pl.DataFrame:
    """Rows of `workload_prefix`: caches of rising size where the trace has block hashes, and what was `served` so.

    `served` are the input tokens the source says came from a cache, and all input tokens of the requests it says it of;
    (0, 0) where it says nothing.
    """
    rows: list[dict[str, Any]] = []
    if demand.has_prefixes:
        work = demand.workload
        found = reuse(work.isl_tokens, work.hash_offsets, work.hash_ids, work.prefix_block_tokens)
        total = int(demand.isl_tokens.sum())
        rows += [
            {
                "tier": f"{capacity:,.0f} tokens" if np.isfinite(capacity) else "endless",
                "capacity_tokens": capacity if np.isfinite(capacity) else None,
                "hit_tokens": hit,
                "hit_share": hit / total,
                "added_share": added / total,
            }
            for capacity, hit, added in tier_hits(found, TIERS_TOKENS)
        ]
    hit, asked = served
    if asked:
        share = min(1.0, hit / asked)
        rows.append({"tier": "as served", "hit_tokens": hit, "hit_share": share, "added_share": 0.0})
    return _rows("workload_prefix", demand, ({"position": position, **row} for position, row in enumerate(rows)))


def _rows(name: str, demand: Demand, rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]]) -> pl.DataFrame:
    schema = {column: dtype for column, dtype in polars_schema(table(name)).items() if column != "plan_version"}
    said = {"service": demand.service, "label": "assumed" if demand.synthetic else "measured"}
    return pl.DataFrame([{**row, **said} for row in rows], schema=schema, orient="row")


def figures(demand: Demand, mix: pl.DataFrame, trace: str, label: str) -> list[Figure]:
    """Figures of the shape: bursts, what was lost, prefix hits, and kinds of request too far apart for one pool."""
    rates = full_window_rates(demand.arrival_s, 60.0)
    found: list[Figure] = [
        ("peak_over_mean_1m", float(rates.max() / rates.mean()), None, "", label, f"{trace}, whole windows"),
        *(
            (
                f"count_dispersion_{name}",
                count_dispersion(demand.arrival_s, window_s),
                None,
                "",
                label,
                f"{trace}; variance over mean of arrivals in {window_s:g} s, 1 is Poisson",
            )
            for name, window_s in (("10s", 10.0), ("5m", 300.0))
        ),
    ]
    outcomes = {row["value"]: row["share"] for row in mix.filter(pl.col("dimension") == "outcome").to_dicts()}
    found += [
        (f"{name}_share", outcomes.get(name, 0.0), None, "", label, f"{trace}, of all its requests") for name in _LOST
    ]
    cost = relative_cost(demand.isl_tokens, demand.osl_tokens)
    found.append(
        (
            "cost_cv",
            float(cost.std() / cost.mean()),
            None,
            "",
            label,
            f"{trace}; deviation over mean of estimator.length_classes.relative_cost",
        )
    )
    apart = split(demand.isl_tokens, demand.osl_tokens)
    found.append(("pool_split", None, split_text(apart), "", "estimated", "estimator.length_classes.split"))
    return found


def split_text(apart: Split | None) -> str:
    """The suggestion to give kinds of request pools of their own, or that there is nothing to part."""
    if apart is None:
        return "one pool: no two kinds of request are far apart"
    return (
        f"two pools, parted at {apart.at_tokens:,} {apart.by} tokens: the longer {apart.long_share:.0%} cost "
        f"{apart.times_apart:,.0f} times as much each, {apart.long_cost_share:.0%} of all work"
    )
