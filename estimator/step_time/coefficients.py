"""Which coefficients hold for an engine, version, accelerator, precision and kind of model, and how each is known.

Belongs here: the coefficients' names, units and physical floors, and the choice among catalogue rows. Does not: the
values (`warehouse/catalog/coefficients.csv`) and their use (`physics`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.architecture import Architecture
from estimator.versions import in_range, version_key

COEFFICIENT_UNITS: dict[str, str] = {
    "dense_read_factor": "x",
    "expert_read_factor": "x",
    "kv_read_factor": "x",
    "dense_flops_factor": "x",
    "expert_flops_factor": "x",
    "attention_flops_factor": "x",
    "collective_bytes_factor": "x",
    "expert_imbalance_factor": "x",
    "layer_overhead_us": "us",
    "moe_layer_overhead_us": "us",
    "mla_layer_overhead_us": "us",
    "linear_layer_overhead_us": "us",
    "prefill_layer_host_us": "us",
    "collective_us": "us",
    "collective_pcie_us": "us",
    "collective_network_us": "us",
    "sequence_overhead_us": "us",
    "sequence_layer_overhead_us": "us",
    "step_overhead_us": "us",
    "request_seconds": "s",
    "prompt_us_per_token": "us",
    "client_overhead_ms": "ms",
    "first_token_steps": "steps",
}
"""Every coefficient and its unit. Factors ("x") multiply an ideal datasheet time and are at least 1."""

_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"(GH200|H20|H100|H200|H800)\b", "Hopper"),
    (r"(A10|A10G|A30|A40|A100|A800|A16|A2)\b", "Ampere"),
    (r"(L4|L20|L40|L40S|RTX-6000-Ada|RTX-40\d0)\b", "Ada"),
    (r"(B200|B300|GB200|GB300|RTX-50\d0|RTX-PRO-6000)\b", "Blackwell"),
    (r"MI\d+", "CDNA"),
)


ADJUSTMENT = "adjust:"
"""Rows of the catalogue so named multiply a coefficient where they hold: a fit's departures from the engine's value."""
OPEN, CLOSED = "open", "closed"
"""Kinds of load: requests that arrive when they will, as in production, or a benchmark's clients in a closed loop.
Prompts of the second cost more than the step model says; why is not known, so it stands as an adjustment of its own."""
_SAME_RATE = {"fp16": "bf16", "nvfp4": "fp4", "mxfp4": "fp4"}
"""Precisions that benchmarks name alike."""
SHARPNESS = 8.0
"""Of the soft floor at 1 under factors: a factor of 1.15 is as asked within 3 %, and none gets below 1."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """One chosen coefficient with its origin. `parameter` may carry a precision, as in `dense_read_factor@fp8`."""

    parameter: str
    value: float
    unit: str
    gpu_scope: str
    version_from: str
    label: str
    source: str
    meaning: str
    usual_low: float | None = None
    usual_high: float | None = None


class Coefficients(Mapping[str, float]):
    """Coefficient name → value; `chosen` holds the catalogue row behind each."""

    def __init__(self, chosen: Mapping[str, Coefficient]) -> None:
        self.chosen = dict(chosen)

    def __getitem__(self, name: str) -> float:
        return self.chosen[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)


def gpu_family(gpu_id: str) -> str | None:
    """Hopper, Ampere, Ada, Blackwell or CDNA; None for an accelerator of no family with measurements of its own."""
    return next((family for pattern, family in _FAMILIES if re.match(pattern, gpu_id, re.IGNORECASE)), None)


def check_coefficients(coefficients: Mapping[str, float]) -> None:
    """Raise ValueError when a coefficient is missing, not finite, or better than the datasheet allows."""
    for name, unit in COEFFICIENT_UNITS.items():
        if name not in coefficients:
            raise ValueError(f"coefficient {name} is missing; add it to the engine's catalogue rows")
        value, floor = coefficients[name], 1.0 if unit == "x" else 0.0
        if not math.isfinite(value) or value < floor:
            raise ValueError(f"coefficient {name} is {value:g}; it must be a number of at least {floor:g} {unit}")


def model_kind(architecture: Architecture) -> str:
    """mla, moe or dense: whose kernels a model runs. A mixture of experts with latent attention is mla."""
    if any(layer.attention.kind == "mla" for layer in architecture.layers):
        return "mla"
    return "moe" if any(layer.feed_forward.experts for layer in architecture.layers) else "dense"


def measured_on(rows: Iterable[Mapping[str, object]], engine: str, gpu_id: str) -> bool:
    """Whether the fit behind these rows has seen this engine on this accelerator: there are adjustments for it."""
    return any(
        str(row["gpu_scope"]) == gpu_id
        and str(row["engine"]) == engine
        and str(row["parameter"]).startswith(ADJUSTMENT)
        for row in rows
    )


def adjusted(value: float, by: float, unit: str) -> float:
    """A coefficient times an adjustment; factors approach 1, the datasheet, and never pass it."""
    if unit != "x":
        return value * by
    return float((1.0 + (max(value, 1.0) ** SHARPNESS - 1.0) * by**SHARPNESS) ** (1.0 / SHARPNESS))


def outside_s(coefficients: Mapping[str, float], isl_tokens: float, step_s: float) -> float:
    """Seconds of a request outside the engine's steps: server and tokeniser, and the steps its first token trails by.

    `step_s` is a decode step. What benchmarks' own clients add (`client_overhead_ms`) is left out.
    """
    return (
        coefficients["request_seconds"]
        + isl_tokens * coefficients["prompt_us_per_token"] * 1e-6
        + coefficients["first_token_steps"] * step_s
    )


def coefficients_for(
    rows: Iterable[Mapping[str, object]],
    engine: str,
    version: str,
    gpu_id: str,
    precision: str,
    kind: str = "",
    load: str = OPEN,
) -> Coefficients:
    """The most specific coefficients among `engine_profile` rows for one engine, version, accelerator and precision.

    Each coefficient is chosen on its own. Among the rows whose engine and version range hold, a row for the accelerator
    (`gpu_scope` = gpu_id) beats one for its family (Hopper, Ampere, …), which beats '*'; at one scope a row for the
    precision (`parameter` = name@precision) beats one for all; then the latest `version_from` wins. What a narrow row
    leaves open the wider rows fill, so a new accelerator starts from its family and its own datasheet. Rows of other
    parameters are passed over. An empty `version` takes the newest range.

    Rows of parameter `adjust:NAME` multiply the chosen value (`adjusted`), every one that holds: for the accelerator,
    its family or all, and, behind an @, for a precision, a kind of model (`model_kind`), a kind of load (OPEN, CLOSED)
    or several of these, as in `adjust:kv_read_factor@fp8+moe`.

    Raises ValueError naming what is missing.
    """
    scopes = {gpu_id.casefold(): 2, "*": 0}
    if family := gpu_family(gpu_id):
        scopes.setdefault(family.casefold(), 1)
    best: dict[str, tuple[tuple[int, bool, tuple[int, ...]], Coefficient]] = {}
    adjustments: dict[str, list[Coefficient]] = {}
    engines: set[str] = set()
    for row in rows:
        name, _, row_precision = str(row["parameter"]).partition("@")
        adjusts = name.startswith(ADJUSTMENT)
        name = name.removeprefix(ADJUSTMENT)
        if name not in COEFFICIENT_UNITS:
            continue
        engines.add(str(row["engine"]))
        scope = scopes.get(str(row["gpu_scope"]).casefold())
        if (
            str(row["engine"]).casefold() != engine.casefold()
            or scope is None
            or not in_range(version, str(row["version_from"]), str(row["version_before"] or ""))
        ):
            continue
        if adjusts:
            if set(filter(None, row_precision.split("+"))) <= {_SAME_RATE.get(precision, precision), kind, load}:
                adjustments.setdefault(name, []).append(_coefficient(row))
            continue
        if row_precision not in ("", precision):
            continue
        rank = (scope, bool(row_precision), version_key(str(row["version_from"])))
        if name not in best or rank > best[name][0]:
            best[name] = (rank, _coefficient(row))
    missing = [name for name in COEFFICIENT_UNITS if name not in best]
    if missing:
        raise ValueError(
            f"no {', '.join(missing)} for engine {engine!r} version {version!r} on {gpu_id}; "
            f"engines with coefficients: {', '.join(sorted(engines)) or 'none'}"
        )
    chosen = Coefficients({name: _adjusted(best[name][1], adjustments.get(name, ())) for name in COEFFICIENT_UNITS})
    check_coefficients(chosen)
    return chosen


def _adjusted(base: Coefficient, adjustments: Sequence[Coefficient]) -> Coefficient:
    """The coefficient with every adjustment that holds; its source names them."""
    if not adjustments:
        return base
    by = math.prod(adjustment.value for adjustment in adjustments)
    held = ", ".join(
        " ".join((one.gpu_scope if one.gpu_scope != "*" else "all", one.parameter.partition("@")[2])).strip()
        for one in adjustments
    )
    return replace(
        base,
        value=adjusted(base.value, by, COEFFICIENT_UNITS[base.parameter.partition("@")[0]]),
        source=f"{base.source}; x {by:.3g} from the same fit for {held}",
    )


def _coefficient(row: Mapping[str, object]) -> Coefficient:
    def number(name: str) -> float | None:
        value = row.get(name)
        return None if value is None or value == "" else float(str(value))

    return Coefficient(
        parameter=str(row["parameter"]),
        value=float(str(row["value"])),
        unit=str(row["unit"]),
        gpu_scope=str(row["gpu_scope"]),
        version_from=str(row["version_from"]),
        label=str(row["label"]),
        source=str(row["source"]),
        meaning=str(row["meaning"]),
        usual_low=number("usual_low"),
        usual_high=number("usual_high"),
    )
