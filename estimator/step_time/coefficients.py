"""Which coefficients hold for an engine, version, accelerator and precision, and how each is known.

Belongs here: the coefficients' names, units and physical floors, and the choice among catalogue rows. Does not: the
values (`warehouse/catalog/coefficients.csv`) and their use (`physics`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

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
    "sequence_overhead_us": "us",
    "step_overhead_us": "us",
    "request_seconds": "s",
    "prompt_us_per_token": "us",
    "client_overhead_ms": "ms",
}
"""Every coefficient and its unit. Factors ("x") multiply an ideal datasheet time and are at least 1."""

_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"(GH200|H20|H100|H200|H800)\b", "Hopper"),
    (r"(A10|A10G|A30|A40|A100|A800|A16|A2)\b", "Ampere"),
    (r"(L4|L20|L40|L40S|RTX-6000-Ada|RTX-40\d0)\b", "Ada"),
    (r"(B200|B300|GB200|GB300|RTX-50\d0|RTX-PRO-6000)\b", "Blackwell"),
    (r"MI\d+", "CDNA"),
)


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


def coefficients_for(
    rows: Iterable[Mapping[str, object]], engine: str, version: str, gpu_id: str, precision: str
) -> Coefficients:
    """The most specific coefficients among `engine_profile` rows for one engine, version, accelerator and precision.

    Each coefficient is chosen on its own. Among the rows whose engine and version range hold, a row for the accelerator
    (`gpu_scope` = gpu_id) beats one for its family (Hopper, Ampere, …), which beats '*'; at one scope a row for the
    precision (`parameter` = name@precision) beats one for all; then the latest `version_from` wins. What a narrow row
    leaves open the wider rows fill, so a new accelerator starts from its family and its own datasheet. Rows of other
    parameters are passed over. An empty `version` takes the newest range.

    Raises ValueError naming what is missing.
    """
    scopes = {gpu_id.casefold(): 2, "*": 0}
    if family := gpu_family(gpu_id):
        scopes.setdefault(family.casefold(), 1)
    best: dict[str, tuple[tuple[int, bool, tuple[int, ...]], Coefficient]] = {}
    engines: set[str] = set()
    for row in rows:
        name, _, row_precision = str(row["parameter"]).partition("@")
        if name not in COEFFICIENT_UNITS:
            continue
        engines.add(str(row["engine"]))
        scope = scopes.get(str(row["gpu_scope"]).casefold())
        holds = in_range(version, str(row["version_from"]), str(row["version_before"] or ""))
        if (
            str(row["engine"]).casefold() != engine.casefold()
            or scope is None
            or not holds
            or row_precision not in ("", precision)
        ):
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
    chosen = Coefficients({name: best[name][1] for name in COEFFICIENT_UNITS})
    check_coefficients(chosen)
    return chosen


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
