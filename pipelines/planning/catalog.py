"""The catalogue as planning takes it: from the warehouse's rows, or straight from the files that ship.

Belongs here: which rows are usable and how they become estimator types. Does not: the files (`warehouse.catalog`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estimator.hardware import Accelerator, resolve_gpu
from warehouse.errors import CapsheetError

Rows = Sequence[Mapping[str, Any]]
_NEEDED = ("visible_memory_gib", "memory_bandwidth_gbs", "fp16_dense_tflops")
_MEMORY = _NEEDED[:1]


class UnknownAccelerator(CapsheetError):  # noqa: N818 - reads as a sentence where it is caught
    """An accelerator the catalogue does not know, or has too few figures of."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """Accelerators by id, the price each is planned with, the engine profile rows, and measured step times."""

    accelerators: Mapping[str, Accelerator]
    prices: Mapping[str, Mapping[str, Any]]
    profile: Rows
    step_profiles: Rows = ()
    """Rows of `step_profile`."""

    def accelerator(self, name: str, where: str) -> Accelerator:
        """The accelerator a name means; raises UnknownAccelerator naming the nearest."""
        known = resolve_gpu(name, self.accelerators)
        if known is not None:
            return self.accelerators[known]
        near = difflib.get_close_matches(name, list(self.accelerators), n=3, cutoff=0.4)
        hint = f"Near it: {', '.join(near)}" if near else f"It knows {', '.join(sorted(self.accelerators))}"
        raise UnknownAccelerator(
            f"{where}: the catalogue has no accelerator {name!r} with the figures a plan needs. {hint}."
        )


def catalog_of(
    accelerators: Iterable[Mapping[str, Any]],
    prices: Iterable[Mapping[str, Any]],
    profile: Rows,
    *,
    needed: Sequence[str] = _NEEDED,
    step_profiles: Rows = (),
) -> Catalog:
    """A catalogue from rows of `accelerator`, `price` and `engine_profile`.

    Accelerators that lack a `needed` figure are left out; one they lack otherwise is NaN, so nothing can rest on it.
    """
    fields = set(Accelerator.__dataclass_fields__)
    unknown = dict.fromkeys(_NEEDED, math.nan)
    return Catalog(
        accelerators={
            row["gpu_id"]: Accelerator(
                **unknown | {name: row[name] for name in fields & set(row) if row[name] is not None}
            )
            for row in accelerators
            if all(row[name] for name in needed)
        },
        prices={row["gpu_id"]: row for row in prices if row["planning_default"]},
        profile=profile,
        step_profiles=step_profiles,
    )


def shipped(*, memory_only: bool = False) -> Catalog:
    """The catalogue that ships, for commands that need no workspace.

    `memory_only` keeps accelerators of which only the memory is known: enough for an account, not for a step time.
    """
    from warehouse.catalog import read_catalog

    profile = [*read_catalog("engines").to_dicts(), *read_catalog("coefficients").to_dicts()]
    accelerators, prices = read_catalog("accelerators").to_dicts(), read_catalog("prices").to_dicts()
    return catalog_of(accelerators, prices, profile, needed=_MEMORY if memory_only else _NEEDED)
