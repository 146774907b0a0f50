"""From a service of the workspace to the grid that a sweep replays: which configurations, which requests, which rates.

Belongs here: variants of a service's candidates, and who of them can be replayed. Does not: the replays (`sweep`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from pydantic import ValidationError

from pipelines.planning.candidates import Candidate, Model, consider
from pipelines.planning.capacity import service_level
from pipelines.planning.catalog import Catalog
from pipelines.planning.sweep import Contender, Grid
from pipelines.planning.workload import Demand
from pipelines.workspace import CandidatesSpec, ServiceSpec
from warehouse.errors import CapsheetError

RATES = 12
"""Rates where the user names none."""


@dataclass(frozen=True, slots=True)
class Variants:
    """What to try instead of what the workspace says; an empty sequence leaves it as it is."""

    accelerators: Sequence[str] = ()
    tensor_parallel: Sequence[int] = ()
    precisions: Sequence[str] = ()
    max_num_seqs: Sequence[int] = ()
    max_num_batched_tokens: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Contenders:
    """The candidates that can be replayed under their names, and why the others cannot."""

    candidates: Mapping[str, Candidate]
    left_out: Sequence[Mapping[str, str]] = field(default_factory=list)

    def usual_rates(self) -> list[float]:
        """Rates, evenly apart on a log scale, from half the weakest one's bound to a quarter above the strongest's.

        Raises CapsheetError when none is bounded above 0.
        """
        bounds = [c.bounds.capacity_rps for c in self.candidates.values() if c.bounds is not None]
        bounds = [rate for rate in bounds if rate > 0]
        if not bounds:
            raise CapsheetError("no candidate keeps the promise for one request alone. Name the rates with --rates.")
        return [float(f"{rate:.3g}") for rate in np.geomspace(min(bounds) / 2, max(bounds) * 1.25, RATES)]

    def grid(self, spec: ServiceSpec, demand: Demand) -> Grid:
        """The service's busiest stretch, warm-up before it, under its own promise."""
        several = [_contender(name, candidate) for name, candidate in self.candidates.items()]
        return Grid(demand.window_workload, several, service_level(spec), demand.warm_s)


def contend(
    spec: ServiceSpec, variants: Variants, model: Model, catalog: Catalog, demand: Demand, where: str
) -> Contenders:
    """Every combination, shortlisted or not, that fits into memory and has a step time.

    Raises CapsheetError for a variant that makes no sense, and when nothing is left to replay.
    """
    found: dict[str, Candidate] = {}
    left_out: list[dict[str, str]] = []
    for name, candidate in _every(spec, variants, model, catalog, demand, where):
        problem = _problem(candidate)
        if problem:
            left_out.append({"candidate_id": name, "reason": problem})
        else:
            found[name] = candidate
    if not found:
        first = left_out[0]
        raise CapsheetError(f"service {spec.name}: no candidate can be replayed. {' '.join(first.values())}.")
    return Contenders(found, left_out)


def _every(
    spec: ServiceSpec, variants: Variants, model: Model, catalog: Catalog, demand: Demand, where: str
) -> Iterable[tuple[str, Candidate]]:
    names = ("accelerators", "tensor_parallel", "precisions")
    chosen = {name: list(values) for name in names if (values := getattr(variants, name))}
    for seqs, tokens in product(variants.max_num_seqs or (None,), variants.max_num_batched_tokens or (None,)):
        flags = {"max_num_seqs": seqs, "max_num_batched_tokens": tokens}
        given = {name: value for name, value in flags.items() if value is not None}
        engines = [engine.model_dump() | given for engine in spec.candidates.engines]
        asked = _validated(spec.candidates.model_dump() | chosen | {"engines": engines})
        suffix = "".join(f" / {name}={value}" for name, value in given.items())
        for candidate in consider(spec.model_copy(update={"candidates": asked}), model, catalog, demand, where):
            yield candidate.candidate_id + suffix, candidate


def _validated(candidates: dict[str, Any]) -> CandidatesSpec:
    try:
        return CandidatesSpec.model_validate(candidates)
    except ValidationError as error:
        first = error.errors()[0]
        name, said = first["loc"][-1], first["msg"].removeprefix("Value error, ")
        raise CapsheetError(f"{name}: {said}, not {first['input']!r}.") from None


def _problem(candidate: Candidate) -> str:
    if candidate.step is None:
        return candidate.reason
    try:
        _ = candidate.limits
    except ValueError as error:
        return str(error)
    return ""


def _contender(name: str, candidate: Candidate) -> Contender:
    assert candidate.step is not None and candidate.weights is not None
    limits = candidate.limits
    described: dict[str, str | int | float] = {
        "candidate_id": name,
        "gpu_id": candidate.gpu.gpu_id,
        "tp": candidate.tp,
        "precision": candidate.weights.precision,
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "usd_per_hour": candidate.tp * float(candidate.price["usd_per_gpu_hour"]),
    }
    return Contender(described, candidate.step, limits, candidate.request_s)


def with_prices(catalog: Catalog, prices: Iterable[Mapping[str, Any]]) -> Catalog:
    """The catalogue with other rows of `price`."""
    return replace(catalog, prices={row["gpu_id"]: row for row in prices if row["planning_default"]})
