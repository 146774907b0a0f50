"""A figure with how it was had: what the calculator shows, labels and explains.

Belongs here: the one shape that tables, JSON and derivations are made from. Does not: computing a figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: its name carries its unit; `value` is None where nothing honest can be said."""

    name: str
    value: float | int | str | None
    unit: str
    label: str
    source: str
    formula: str = ""
    inputs: Mapping[str, object] = field(default_factory=dict)

    def derivation(self) -> dict[str, Any]:
        """The figure as one step of a derivation trace."""
        return {
            "step": self.name,
            "formula": self.formula,
            "inputs": dict(self.inputs),
            "value": self.value,
            "unit": self.unit,
            "label": self.label,
            "source": self.source,
        }
