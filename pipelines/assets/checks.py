"""Blocking checks between sources and estimates: a failure here stops the run before a workbook exists."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import polars as pl

from pipelines.assets.sources import accelerator, engine_profile, model, observation, price, request, step_profile
from pipelines.contracts import CheckResult, validate, validate_requests
from pipelines.resources import PlanningResource

SMALL = (accelerator, price, engine_profile, model, observation, step_profile)
_PLACES = {
    name: 1000 * i
    for i, name in enumerate(
        ("accelerator", "price", "engine_profile", "model", "observation", "request", "step_profile")
    )
}


def _record(planning: PlanningResource, table: str, found: Sequence[CheckResult]) -> dg.AssetCheckResult:
    """Keep every result for the Checks sheet; fail when one that stops did not hold."""
    planning.write(
        (
            "draft_plan_check",
            pl.DataFrame(
                [
                    {
                        "position": _PLACES[table] + i,
                        "check_name": check.check_name,
                        "scope": table,
                        "passed": check.passed,
                        "severity": check.severity,
                        "observed": check.observed,
                        "expected": check.expected,
                        "remedy": check.remedy,
                    }
                    for i, check in enumerate(found)
                ],
                schema_overrides={"remedy": pl.String},
            ),
            {"scope": table},
        )
    )
    stopping = [check for check in found if not check.passed and check.severity == "stops"]
    description = "; ".join(f"{c.check_name}: {c.observed}, expected {c.expected}" for c in stopping[:3])
    return dg.AssetCheckResult(
        passed=not stopping,
        description=description or f"{len(found)} expectations hold",
        metadata={"expectations": len(found), "failed": len(stopping)},
    )


def _contract(asset: dg.AssetsDefinition) -> dg.AssetChecksDefinition:
    table = asset.key.to_user_string()

    @dg.asset_check(
        asset=asset,
        name="contract",
        blocking=True,
        description=f"Great Expectations suite of {table}, from the registry.",
    )
    def contract(planning: PlanningResource) -> dg.AssetCheckResult:
        frame = planning.frame(f"SELECT * FROM {table}")  # noqa: S608 - a name of ours
        return _record(planning, table, validate(table, frame))

    return contract


@dg.asset_check(
    asset=request, name="contract", blocking=True, description="Row rules of request in SQL, and what was rejected."
)
def request_contract(planning: PlanningResource) -> dg.AssetCheckResult:
    """Every trace the workspace names: counted, in range, in time."""
    sources = sorted({spec.trace.source for spec in planning.place.spec.services})
    with planning.reader() as con:
        found = validate_requests(con, sources, planning.place.spec.max_rejected_share)
    return _record(planning, "request", found)


CHECKS = [*(_contract(asset) for asset in SMALL), request_contract]
