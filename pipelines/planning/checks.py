"""What is checked about the decision itself, after the replays: rows of `plan_check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from estimator.length_classes import SPLIT_OCTAVES, SPLIT_SHARE, split
from pipelines.planning.capacity import LEAST_REQUESTS, LEAST_STAYS, Sized, service_level, stays, too_brief
from pipelines.planning.catalog import Catalog
from pipelines.planning.profiles import Configuration, unused
from pipelines.planning.workload import Demand
from pipelines.planning.workload_shape import split_text
from pipelines.workspace import ServiceSpec

FIRST_POSITION = 10_000
"""After every check of a source."""
USUAL_ERROR = 0.2
"""Median error of a metric beyond which the sheet warns: about what a fit left out of its own data reaches."""


def decision_checks(spec: ServiceSpec, sized: Sized) -> list[dict[str, Any]]:
    """Whether the chosen fleet keeps its promise in every scenario, and whether the search behind it is sound."""
    slo, name, rows = service_level(spec), spec.name, []
    for run in sized.runs:
        scenario = run.scenario.replace("_", " ")
        kept = slo.meets(run.replay, run.counted)
        binding, margin = slo.binding(run.replay, run.counted)
        rows.append(
            _row(
                f"{name}: SLO holds, {scenario}",
                kept,
                f"attainment {slo.attained(run.replay, run.counted):.2%}, least margin {margin:+.1%} ({binding})",
                f"every target, attainment at least {slo.attainment:.2%}",
                "Add headroom, or loosen the target that binds.",
            )
        )
    rejected = sum(int((run.replay.replica < 0).sum()) for run in sized.runs)
    rows.append(
        _row(
            f"{name}: the engine takes every request",
            rejected == 0,
            f"{rejected} requests refused over all replays",
            "none",
            "Raise max_model_len, or choose more memory: they count as misses.",
        )
    )
    planned = next(run for run in sized.runs if run.scenario == "fleet_planned")
    each = int(planned.counted.sum()) / planned.replicas
    rows.append(
        _row(
            f"{name}: the replayed window is long enough",
            not too_brief(planned.replay, planned.counted, planned.replicas),
            f"{stays(planned.replay, planned.counted):,.1f} x a request's mean stay; {each:,.0f} requests a replica",
            f"at least {LEAST_STAYS} stays and {LEAST_REQUESTS} requests a replica",
            "Demand is scaled by playing the trace faster: give a longer trace or window, or a smaller demand_factor.",
        )
    )
    candidate = sized.candidate
    rows.append(
        _row(
            f"{name}: step times were measured on this accelerator",
            candidate.step_measured or (candidate.profile is not None and candidate.profile.label == "measured"),
            f"{candidate.engine.name} on {candidate.gpu.gpu_id}: {candidate.step_time_source}",
            "a measured profile, or measurements in the fit behind the coefficients",
            "Benchmark one replica, and hold it against this plan with capsheet accuracy, before buying the fleet.",
        )
    )
    reach = sized.goodput
    rows.append(
        _row(
            f"{name}: the goodput search found the limit",
            reach.found,
            f"{len(reach.evaluations)} replays, {'monotone' if reach.monotone else 'not monotone'}, "
            + (
                "no rate broke the promise"
                if reach.saturated
                else f"{reach.rate_rps:.4g} requests/s held, {reach.failed_rps:.4g} did not"
            ),
            f"monotone, bracketed within {reach.tolerance:.0%}",
            "Give a longer trace or window: the true goodput differs from the one shown.",
        )
    )
    return rows


def profile_checks(catalog: Catalog, considered: Iterable[Configuration]) -> list[dict[str, Any]]:
    """Whether each measured profile is of a configuration that was considered."""
    return [
        _row(
            f"profile {name}: a candidate has its configuration",
            uses > 0,
            f"{uses} of the candidates" if uses else f"none; the nearest differs in {unlike or 'everything'}",
            "at least one",
            "Mend what the profile says it was measured on, or add such a candidate; this plan does without it.",
        )
        for name, uses, unlike in unused(catalog.step_profiles, considered)
    ]


def workload_checks(spec: ServiceSpec, demand: Demand) -> list[dict[str, Any]]:
    """Whether one pool suits all requests of a service, or two kinds of them are far apart: a suggestion."""
    apart = split(demand.isl_tokens, demand.osl_tokens)
    return [
        _row(
            f"{spec.name}: its requests are of one kind",
            apart is None,
            split_text(apart),
            f"no two kinds {2**SPLIT_OCTAVES:.0f} times apart in cost, each {SPLIT_SHARE:.0%} of requests and of work",
            "Plan the two kinds as services of their own, each with its part of the trace, and compare what they cost: "
            "in one pool the long ones hold up the short ones.",
            "informs",
        )
    ]


def error_checks(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Whether predictions are near what was observed, by service and metric, saturated observations apart."""
    rows = []
    for service in dict.fromkeys(row["service"] for row in errors):
        for metric in dict.fromkeys(row["metric"] for row in errors):
            ratios = [
                abs(row["error_ratio"])
                for row in errors
                if row["service"] == service
                and row["metric"] == metric
                and row["error_ratio"] is not None
                and not row["saturated"]
            ]
            if ratios:
                rows.append(
                    _row(
                        f"{service}: predicted {metric} is near the observed",
                        median(ratios) <= USUAL_ERROR,
                        f"median error {median(ratios):.1%} over {len(ratios)} observations",
                        f"at most {USUAL_ERROR:.0%}",
                        "See Prediction vs Observed; recalibrate on your own measurements before relying on it.",
                    )
                )
    return rows


def _row(
    name: str, passed: bool, observed: str, expected: str, remedy: str, severity: Literal["warns", "informs"] = "warns"
) -> dict[str, Any]:
    return {
        "check_name": name,
        "passed": passed,
        "severity": severity,
        "observed": observed,
        "expected": expected,
        "remedy": None if passed else remedy,
    }


def placed(rows: Sequence[dict[str, Any]], scope: str, first: int) -> list[dict[str, Any]]:
    """The rows with their scope and their places on the sheet."""
    return [{**row, "scope": scope, "position": first + i} for i, row in enumerate(rows)]
