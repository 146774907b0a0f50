"""What an engine's version takes: the model's type, its weights on an accelerator, each with how it is known.

Belongs here: reading the rows of `warehouse/catalog/support.csv`. Does not: the rows, whether the model then fits
(`estimator.memory`), wording for people (`pipelines`).
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.architecture import Architecture
from estimator.engines import Rows, profile_values
from estimator.hardware import Accelerator
from estimator.versions import before, version_key
from estimator.weights import NAMES, SAME

WEIGHTS_ONLY = 0.5
"""A row's value where weights are stored in a precision and multiplied in 16 bits."""


@dataclass(frozen=True, slots=True)
class Support:
    """One thing asked of an engine. `accepted` is None where no row says; `since` the first version known to take it.

    `weights_only`: the precision saves memory on this accelerator but does not speed up its GEMMs.
    """

    feature: str
    accepted: bool | None
    weights_only: bool = False
    since: str = ""
    label: str = "assumed"
    source: str = "no row of the table says"


def supports(
    engine: str, version: str, accelerator: Accelerator, architecture: Architecture, precision: str, table: Rows
) -> tuple[Support, ...]:
    """Whether an engine of this version takes the model's type, and weights in `precision` on this accelerator.

    `table` holds the rows of `support.csv`. `precision` is a name of `estimator.weights` or `auto`, the checkpoint's
    own. A mixed checkpoint asks for each of its parts' precisions. Raises UnknownEngine for an engine the table lacks.
    """
    known = profile_values(engine, version, accelerator, table)
    asked = [("model", architecture.model_type)] + [("weights", name) for name in _precisions(architecture, precision)]
    out = []
    for kind, name in asked:
        parameter = f"accepts_{kind}_{name}"
        found = known.get(parameter)
        feature = f"model_type {name}" if kind == "model" else f"{name} weights on {accelerator.gpu_id}"
        if found is None:
            out.append(Support(feature, None))
            continue
        since = _since(engine, parameter, table) if kind == "model" else ""
        weights_only = found.value == WEIGHTS_ONLY
        out.append(Support(feature, found.value > 0, weights_only, since, found.label, found.source))
    return tuple(out)


def _precisions(architecture: Architecture, precision: str) -> list[str]:
    name = SAME.get(precision.lower(), precision.lower())
    scheme = architecture.scheme
    if name != "auto":
        return [name]
    if scheme.scheme == "none":
        return [NAMES[architecture.dtype]]
    if scheme.scheme != "mixed":
        return [scheme.scheme]
    computes = {"fp8": "fp8", "int8": "int8", "fp4": "nvfp4"}
    return sorted({computes[c] for c in (scheme.dense_compute, scheme.expert_compute) if c in computes})


def _since(engine: str, parameter: str, table: Rows) -> str:
    """The first version of the rows that accept a thing; empty where none does."""
    first = ""
    for row in table:
        taken = str(row["engine"]) == engine.lower() and str(row["parameter"]) == parameter
        if not taken or float(str(row["value"])) <= 0:
            continue
        version = str(row["version_from"])
        if not first or before(version_key(version), version_key(first)):
            first = version
    return first
