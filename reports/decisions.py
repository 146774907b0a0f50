"""What was decided for each service, picked out of the plan's rows.

Belongs here: choosing the rows a reader asks for first (the chosen configuration, its replays) and saying them in
words. Does not: deciding anything; `estimator` and the plan did that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports.frames import PlanFrames, Row, rows_of

STATUS_WORDS = {
    "chosen": "chosen",
    "feasible": "meets the SLO",
    "short_of_slo": "short of the SLO",
    "not_shortlisted": "not shortlisted",
    "does_not_fit": "does not fit",
    "not_possible": "not possible",
}
"""Statuses of `plan_candidate` in reading order, in words."""
_RANK = {status: rank for rank, status in enumerate(STATUS_WORDS)}
SCENARIO_WORDS = {
    "fleet_planned": "fleet at the planned rate",
    "fleet_all_up": "fleet, every replica up",
    "fleet_one_down": "fleet, one replica down",
    "fleet_failures_down": "fleet, as many down as headroom covers",
    "goodput_replica": "one replica at goodput",
}
"""Scenarios of `plan_capacity` in reading order, in words."""
RISK_WORDS = {
    "demand": "demand itself",
    "traffic": "traffic above forecast",
    "failure": "replica failure",
    "deployment": "rolling upgrade",
    "memory": "memory growth",
    "control": "scale-up delay",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """One service: its candidates in rank order, the chosen one, and what its fleet does when replayed."""

    service: str
    ranked: tuple[Row, ...]
    chosen: Row | None
    planned: Row | None
    one_down: Row | None

    @property
    def words(self) -> str:
        """The decision as a sentence; money apart, since that lives in formulas."""
        if self.chosen is None:
            if not self.ranked:
                return "No configuration was considered."
            best = self.ranked[0]
            return f"No configuration meets the SLO. Closest: {best['candidate_id']}: {best['reason']}"
        return f"{self.chosen['model_id']} on {configuration(self.chosen)}"

    @property
    def binding(self) -> str:
        """What limits the chosen configuration, and the target with the least margin in the replay."""
        if self.chosen is None:
            return ""
        parts = [target_words(self.chosen["binding"])] if self.chosen["binding"] else []
        if self.planned is not None and target_words(self.planned["binding"]) not in parts:
            parts.append(f"least margin: {target_words(self.planned['binding'])}")
        return "; ".join(parts)


def target_words(binding: str | None) -> str:
    """What binds, as people write it: `tpot_p99` is TPOT P99; other words stay."""
    if binding is not None and re.fullmatch(r"(ttft|tpot|e2e)_p\d+", binding):
        return binding.replace("_", " ").upper()
    return binding or ""


def configuration(candidate: Row) -> str:
    """A candidate in words: GPUs a replica, parallelism, precision, engine."""
    count = candidate["gpus_per_replica"]
    gpus = f"{count} × {candidate['gpu_id']}"
    engine = f"{candidate['engine']} {candidate['engine_version']}"
    return f"{gpus} a replica, TP{candidate['tp']}, {candidate['precision']} weights, {engine}"


def _order(row: Row) -> tuple[int, float, float, str]:
    cost = row["usd_per_hour"] if row["usd_per_hour"] is not None else float("inf")
    goodput = row["goodput_rps_per_gpu"] or 0.0
    return _RANK[row["status"]], cost, -goodput, row["candidate_id"]


def decide(frames: PlanFrames) -> list[Decision]:
    """The decision of every service, candidates ranked by status, then cost, then goodput per GPU."""
    decisions = []
    for service in frames.services:
        ranked = tuple(sorted(rows_of(frames.candidates, service=service), key=_order))
        chosen = next((row for row in ranked if row["status"] == "chosen"), None)
        replays: dict[str, Row] = {}
        if chosen is not None:
            of_chosen = rows_of(frames.capacity, service=service, candidate_id=chosen["candidate_id"])
            replays = {row["scenario"]: row for row in of_chosen}
        decisions.append(Decision(service, ranked, chosen, replays.get("fleet_planned"), replays.get("fleet_one_down")))
    return decisions
