"""Every published figure with its label, formula and inputs: what `capsheet explain` answers from."""

from __future__ import annotations

import json
from typing import Any

from pipelines.planning.candidates import Model
from pipelines.planning.capacity import Sized
from pipelines.planning.profiles import rests_on
from pipelines.planning.workload import Demand
from pipelines.workspace import ServiceSpec, Workspace


def service_numbers(
    workspace: Workspace, spec: ServiceSpec, model: Model, demand: Demand, sized: Sized
) -> list[dict[str, Any]]:
    """Rows of `plan_number` for one service."""
    candidate, account, reach = sized.candidate, sized.candidate.account, sized.goodput
    assert account is not None and candidate.bounds is not None and candidate.settings is not None
    assert candidate.step is not None
    usd = float(candidate.price["usd_per_gpu_hour"])
    rows: list[dict[str, Any]] = []

    def add(name: str, value: float, unit: str, label: str, formula: str, source: str, **inputs: object) -> None:
        rows.append(
            {
                "number": f"{spec.name}.{name}",
                "value": float(value),
                "unit": unit,
                "label": label,
                "formula": formula,
                "inputs_json": json.dumps(inputs, ensure_ascii=False, sort_keys=True),
                "source": source,
            }
        )

    shape = {"candidate": candidate.candidate_id, "model": model.model_id}
    add(
        "planned_rps",
        demand.planned_rps,
        "1/s",
        "inferred",
        "planning.workload.Demand.planned_rps",
        spec.trace.source,
        traced_rps=demand.traced_rps,
        demand_factor=demand.demand_factor,
        window_from_s=demand.window.start_s,
        window_to_s=demand.window.end_s,
    )
    for term in account.terms:
        add(
            f"memory.{term.term}",
            term.value,
            term.unit,
            term.label,
            "estimator.memory.memory_account",
            term.source,
            **shape,
            note=term.note,
        )
    add(
        "k_bound",
        candidate.bounds.k_requests,
        "requests",
        "estimated",
        "estimator.bounds.bounds",
        "KV budget in blocks over blocks of a mean request",
        **shape,
        kv_budget_tokens=account.kv_budget_tokens,
        isl_mean_tokens=candidate.isl_mean_tokens,
        osl_mean_tokens=candidate.osl_mean_tokens,
    )
    zero_load_ms = (candidate.bounds.zero_load_ttft_s * 1e3, candidate.bounds.zero_load_tpot_s * 1e3)
    lengths = (candidate.isl_mean_tokens, candidate.osl_mean_tokens)
    for name, value_ms, known in zip(
        ("zero_load_ttft_ms", "zero_load_tpot_ms"),
        zero_load_ms,
        rests_on(candidate.step, candidate.profile, *lengths),
        strict=True,
    ):
        add(
            name,
            value_ms,
            "ms",
            known[0],
            "estimator.step_time.step_seconds",
            known[1],
            **shape,
            isl_mean_tokens=candidate.isl_mean_tokens,
            osl_mean_tokens=candidate.osl_mean_tokens,
            step_times=candidate.step_time_source,
        )
    add(
        "l_bound",
        candidate.bounds.l_requests or 0,
        "requests",
        "estimated",
        "estimator.bounds.bounds",
        "largest batch whose TPOT stays inside its target",
        **shape,
        tpot_target_ms=min(spec.slo.targets("tpot").values()),
        step_times=candidate.step_time_source,
    )
    add(
        "goodput_rps_per_replica",
        reach.rate_rps,
        "1/s",
        "estimated",
        "estimator.goodput.goodput",
        "bisection over open-loop replays of the planning window",
        **shape,
        evaluations=len(reach.evaluations),
        attainment=reach.attainment,
        attainment_target=spec.slo.attainment,
        binding=reach.binding,
        margin_ratio=reach.margin_ratio,
        step_times=candidate.step_time_source,
    )
    for allowance in sized.allowances:
        add(
            f"replicas.{allowance.risk}",
            allowance.replicas,
            "replicas",
            allowance.label,
            f"estimator.fleet ({allowance.risk})",
            allowance.source,
            basis=allowance.basis,
            factor=allowance.factor,
        )
    parts = {a.risk: a.replicas for a in sized.allowances}
    add("replicas_total", sized.replicas, "replicas", "estimated", "sum over risks", "plan_headroom", **parts)
    add(
        "gpus_total",
        sized.gpus,
        "GPUs",
        "estimated",
        "replicas_total x gpus_per_replica",
        "plan_headroom",
        replicas_total=sized.replicas,
        gpus_per_replica=candidate.tp,
    )
    add(
        "usd_per_hour",
        sized.usd_per_hour,
        "USD/h",
        "estimated",
        "gpus_total x usd_per_gpu_hour",
        str(candidate.price["source"]),
        gpus_total=sized.gpus,
        usd_per_gpu_hour=usd,
    )
    hours = workspace.prices.hours_per_month
    add(
        "usd_per_month",
        sized.usd_per_hour * hours,
        "USD/month",
        "estimated",
        "usd_per_hour x hours_per_month",
        str(candidate.price["source"]),
        usd_per_hour=sized.usd_per_hour,
        hours_per_month=hours,
    )
    return rows


def total_numbers(workspace: Workspace, chosen: dict[str, Sized]) -> list[dict[str, Any]]:
    """Rows of `plan_number` for the workspace as a whole."""
    gpus = {name: s.gpus for name, s in chosen.items()}
    usd = {name: s.usd_per_hour for name, s in chosen.items()}
    hours = workspace.prices.hours_per_month
    totals: list[tuple[str, float, str, str, dict[str, float]]] = [
        ("total.gpus", float(sum(gpus.values())), "GPUs", "sum over services", {k: float(v) for k, v in gpus.items()}),
        ("total.usd_per_hour", sum(usd.values()), "USD/h", "sum over services", usd),
        (
            "total.usd_per_month",
            sum(usd.values()) * hours,
            "USD/month",
            "usd_per_hour x hours_per_month",
            {"usd_per_hour": sum(usd.values()), "hours_per_month": hours},
        ),
    ]
    return [
        {
            "number": name,
            "value": value,
            "unit": unit,
            "label": "estimated",
            "formula": formula,
            "inputs_json": json.dumps(inputs, ensure_ascii=False, sort_keys=True),
            "source": "plan_cost",
        }
        for name, value, unit, formula, inputs in totals
    ]
