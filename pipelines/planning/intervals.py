"""How far a measured TPOT may lie from the one computed: its P10 and P90, as figures.

Belongs here: the spread of the catalogue for a closed loop, applied. Does not: the spreads (`estimator.serving`), the
TPOT itself (`calculation`).
"""

from __future__ import annotations

from estimator.serving.intervals import SPREAD, UNSEEN_WIDENING, Spreads
from pipelines.planning.figures import Figure
from pipelines.planning.sizing import Sized

_SOURCE = "spread of measured over predicted TPOT, each model, accelerator and engine left out of the fit in turn"


def tpot_interval(sized: Sized, tpot_ms: float) -> list[Figure]:
    """P10 and P90 of the TPOT that a closed loop measures at this batch; empty where the catalogue has no spread."""
    spreads = Spreads.of(sized.profile)
    ends = {end: spreads.values.get((sized.engine, f"{SPREAD}_{end}:tpot@closed")) for end in ("p10", "p90")}
    widen = 1.0 if (sized.engine, sized.gpu.gpu_id) in spreads.seen else UNSEEN_WIDENING
    return [
        Figure(
            f"tpot_{end}_ms",
            tpot_ms * spread**widen,
            "ms",
            "estimated",
            _SOURCE,
            "TPOT x spread ^ widening, wider on an accelerator without measurements",
            {"tpot_ms": tpot_ms, "spread": spread, "widening": widen},
        )
        for end, spread in ends.items()
        if spread is not None
    ]
