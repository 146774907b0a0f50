"""How far a measurement may lie from its prediction: P10 and P90 of measured over predicted.

Belongs here: choosing the spread of a case's metric and applying it. Does not: the spreads themselves, which are rows
of the catalogue worked out by leaving every combination of model, accelerator and engine out of the fit in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from estimator.serving.case import ServingCase
from estimator.step_time import ADJUSTMENT

SPREAD = "measured_over_predicted"
"""Catalogue parameters of spreads are named SPREAD_p10:METRIC@LOAD and SPREAD_p90:METRIC@LOAD."""
UNSEEN_WIDENING = 1.5
"""Spreads of an accelerator that no measurement of the fit ran on are this much wider, in logarithms (assumed)."""


@dataclass(frozen=True, slots=True)
class Spreads:
    """The catalogue's spreads: (engine, parameter) to value, and the accelerators the fit has seen, by engine."""

    values: Mapping[tuple[str, str], float]
    seen: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, object]]) -> Spreads:
        """From `engine_profile` rows."""
        values, seen = {}, set()
        for row in rows:
            engine, parameter, scope = str(row["engine"]), str(row["parameter"]), str(row["gpu_scope"])
            if parameter.startswith(SPREAD):
                values[engine, parameter] = float(str(row["value"]))
            elif parameter.startswith(ADJUSTMENT) and scope != "*":
                seen.add((engine, scope))
        return cls(values, frozenset(seen))


def load_kind(case: ServingCase) -> str:
    """closed, separated or open: what the protocol and the layout make of the errors."""
    if case.prefill is not None:
        return "separated"
    return "open" if case.protocol.concurrency is None else "closed"


def interval(case: ServingCase, metric: str, value: float, spreads: Spreads) -> tuple[float, float] | None:
    """P10 and P90 of what would be measured where `value` is predicted; None where no spread is known."""
    names = [f"{SPREAD}_{end}:{metric}@{load_kind(case)}" for end in ("p10", "p90")]
    found = [spreads.values.get((case.engine, name)) for name in names]
    low, high = found
    if low is None or high is None:
        return None
    widen = 1.0 if (case.engine, case.accelerator.gpu_id) in spreads.seen else UNSEEN_WIDENING
    return float(value * low**widen), float(value * high**widen)
