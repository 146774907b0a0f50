"""The inputs of a plan as rows of the Assumptions sheet: each with unit, label, source, and what it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from estimator.engines import profile_values
from estimator.step_time import COEFFICIENT_UNITS, coefficients_for
from pipelines.planning.candidates import Candidate, Model
from pipelines.planning.catalog import Catalog
from pipelines.planning.workload import Demand
from pipelines.workspace import METRICS, ServiceSpec, Workspace

GIVEN = "capsheet.yaml"
ENGINE_UNITS = {
    "gpu_memory_utilization": "share",
    "max_model_len": "tokens",
    "max_num_seqs": "sequences",
    "max_num_batched_tokens": "tokens",
    "block_tokens": "tokens",
    "speculative_tokens": "tokens",
}


def assumption_rows(
    workspace: Workspace,
    catalog: Catalog,
    services: Sequence[tuple[ServiceSpec, Model, Demand, Candidate]],
) -> list[dict[str, Any]]:
    """Rows of `plan_assumption`: money first, then each service's promise, demand, headroom, engine; physics."""
    rows: list[dict[str, Any]] = []
    units = {str(row["parameter"]): str(row["unit"]) for row in catalog.profile}

    def add(
        service: str, name: str, value: float | str | None, unit: str, label: str, source: str, comment: str = ""
    ) -> None:
        number = float(value) if isinstance(value, int | float) and math.isfinite(value) else None
        value = "the engine's own" if isinstance(value, float) and not math.isfinite(value) else value
        rows.append(
            {
                "position": len(rows),
                "service": service,
                "name": name,
                "value": number,
                "text": None if number is not None or value is None else str(value),
                "unit": unit,
                "label": label,
                "source": source,
                "comment": comment or None,
            }
        )

    add("all", "hours_per_month", workspace.prices.hours_per_month, "h", "assumed", GIVEN, "hours billed in a month")
    used = sorted({candidate.gpu.gpu_id for _, _, _, candidate in services} | _considered(services))
    for gpu_id in used:
        price = catalog.prices[gpu_id]
        terms = ", ".join(str(price[k]) for k in ("provider", "commitment", "region", "as_of") if price[k])
        add(
            "all",
            f"usd_per_gpu_hour {gpu_id}",
            price["usd_per_gpu_hour"],
            "USD/h",
            price["label"],
            price["source"],
            terms,
        )
    for spec, model, demand, candidate in services:
        name = spec.name
        add(
            name,
            "model",
            model.model_id,
            "",
            model.label,
            model.source,
            "weights and KV cache are computed from its config",
        )
        for metric in METRICS:
            for q, limit in spec.slo.targets(metric).items():
                add(
                    name,
                    f"slo_{metric}_p{q}_ms",
                    limit,
                    "ms",
                    "assumed",
                    GIVEN,
                    f"P{q} of {metric.upper()} must stay within it",
                )
        add(
            name,
            "slo_attainment",
            spec.slo.attainment,
            "share",
            "assumed",
            GIVEN,
            "share of requests that meet every target",
        )
        add(name, "trace", spec.trace.source, "", "verified", GIVEN, "requests the plan replays")
        add(name, "demand_factor", spec.trace.demand_factor, "x", "assumed", GIVEN, "planned demand over traced demand")
        add(
            name,
            "planning_window_minutes",
            spec.trace.window_minutes,
            "min",
            "assumed",
            GIVEN,
            "busiest stretch, planned on",
        )
        add(
            name,
            "planned_rps",
            demand.planned_rps,
            "1/s",
            "inferred",
            "trace x demand_factor",
            "mean rate of that stretch",
        )
        headroom = spec.headroom
        add(
            name, "headroom_traffic_factor", headroom.traffic_factor, "x", "assumed", GIVEN, "forecast error and bursts"
        )
        add(name, "headroom_failure_replicas", headroom.failure_replicas, "replicas", "assumed", GIVEN, "lost at once")
        add(
            name,
            "headroom_deployment_surge_replicas",
            headroom.deployment_surge_replicas,
            "replicas",
            "assumed",
            GIVEN,
            "run twice during a rolling upgrade",
        )
        add(
            name,
            "headroom_memory_gib_per_gpu",
            headroom.memory_gib_per_gpu,
            "GiB",
            "assumed",
            GIVEN,
            "kept free on every GPU",
        )
        add(
            name,
            "headroom_ready_minutes",
            headroom.ready_minutes,
            "min",
            "assumed",
            GIVEN,
            "from asking for a replica to traffic",
        )
        add(
            name,
            "headroom_growth_per_hour",
            headroom.growth_per_hour,
            "share/h",
            "assumed",
            GIVEN,
            "bridged while it starts",
        )
        if candidate.step_time_source is not None:
            label = candidate.profile.label if candidate.profile is not None else "estimated"
            source = candidate.profile.source if candidate.profile is not None else "coefficients, below"
            add(name, "step_times", candidate.step_time_source, "", label, source, "of the chosen candidate")
        settings = candidate.settings
        if settings is not None:
            for setting, (label, source) in settings.provenance.items():
                value, unit = getattr(settings, setting), ENGINE_UNITS.get(setting, "")
                shown = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
                add(name, f"engine_{setting}", shown, unit, label, source, "of the chosen candidate")
    for candidate in {_where(candidate): candidate for *_, candidate in services}.values():
        where = _where(candidate)
        assert candidate.weights is not None
        engine = candidate.engine
        chosen = coefficients_for(
            catalog.profile,
            engine.name,
            engine.version,
            candidate.gpu.gpu_id,
            candidate.weights.precision,
            candidate.model_kind,
        ).chosen
        for name, row in chosen.items():
            add("all", f"{name} ({where})", row.value, row.unit, row.label, row.source, row.meaning)
        for name, known in profile_values(engine.name, engine.version, candidate.gpu, catalog.profile).items():
            if name.partition("@")[0] not in COEFFICIENT_UNITS:
                add("all", f"{name} ({where})", known.value, units.get(name, ""), known.label, known.source)
    return rows


def _where(candidate: Candidate) -> str:
    precision = candidate.weights.precision if candidate.weights else candidate.precision
    return f"{candidate.engine.name}@{candidate.engine.version} on {candidate.gpu.gpu_id}, {precision}"


def _considered(services: Sequence[tuple[ServiceSpec, Model, Demand, Candidate]]) -> set[str]:
    return {gpu for spec, *_ in services for gpu in spec.candidates.accelerators}
