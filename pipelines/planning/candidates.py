"""Which configurations a service could run on: enumerated, accounted for in memory, bounded, and shortlisted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from estimator.architecture import Architecture
from estimator.bounds import Bounds, bounds, decode_step_seconds
from estimator.engines import EngineSettings, UnknownEngine, resolve_settings
from estimator.hardware import Accelerator
from estimator.memory import MemoryAccount, memory_account, tensor_parallel_problem
from estimator.replay import EngineLimits
from estimator.step_time import Profile, coefficients_for, measured_on, model_kind, outside_s, step_parameters
from estimator.support import supports
from estimator.weights import UnsupportedPrecision, Weights, weights
from estimator.workload import Floats
from pipelines.planning.catalog import Catalog
from pipelines.planning.profiles import Configuration, measured_step, profile_for, told
from pipelines.planning.workload import Demand
from pipelines.workspace import METRICS, EngineSpec, ServiceSpec, WorkspaceError
from warehouse.catalog import read_catalog

SHORTLIST = 6
"""Candidates of a service that are replayed; the rest are told apart by analysis alone."""


@dataclass(frozen=True, slots=True)
class Model:
    """A service's model as planning needs it."""

    model_id: str
    architecture: Architecture
    checkpoint_bytes: int | None
    label: str
    """How the checkpoint's bytes are known."""
    source: str

    def weights(self, precision: str) -> Weights:
        """The weights in a precision, labelled as the checkpoint's bytes are where they rest on them.

        Raises UnsupportedPrecision for a precision nobody can size.
        """
        found = weights(self.architecture, precision, self.checkpoint_bytes)
        return replace(found, label=self.label) if found.label == "verified" else found


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration. What it could not reach is None; `status` and `reason` say why."""

    candidate_id: str
    gpu: Accelerator
    tp: int
    precision: str
    engine: EngineSpec
    price: Mapping[str, Any]
    max_model_len: int
    settings: EngineSettings | None = None
    weights: Weights | None = None
    account: MemoryAccount | None = None
    step: Floats | None = None
    model_kind: str = ""
    step_measured: bool = False
    """Whether the step-time fit has seen this engine on this accelerator."""
    profile: Profile | None = None
    """Measured step times of this very configuration, which go before physics."""
    step_time_source: str | None = None
    """What its step times rest on, in a line."""
    request_s: float = 0.0
    kv_blocks: int = 0
    isl_mean_tokens: float = 0.0
    """Mean over the requests the engine takes; what the bounds are of."""
    osl_mean_tokens: float = 0.0
    bounds: Bounds | None = None
    status: str = "not_possible"
    reason: str = ""

    def configuration(self, model_id: str) -> Configuration:
        """What its step times depend on."""
        precision = self.weights.precision if self.weights else self.precision
        return Configuration(model_id, self.gpu.gpu_id, self.engine.name, self.engine.version, self.tp, precision)

    @property
    def limits(self) -> EngineLimits:
        """What the replay may use of the engine; only for a candidate that fits."""
        assert self.settings is not None and self.account is not None
        return EngineLimits.of(self.settings, self.kv_blocks)


def context_length(spec: ServiceSpec, demand: Demand, architecture: Architecture) -> int:
    """The longest context to serve: as the workspace says, else the trace's longest request rounded up to 1,024.

    Raises WorkspaceError when the model cannot go that far.
    """
    longest = int((demand.isl_tokens + demand.osl_tokens).max())
    asked = spec.candidates.max_model_len
    length = asked if asked is not None else min(-(-(longest + 1) // 1024) * 1024, architecture.max_position_tokens)
    if length > architecture.max_position_tokens:
        raise WorkspaceError(
            f"service {spec.name}: max_model_len {length:,} is beyond the {architecture.max_position_tokens:,} tokens "
            f"{spec.model} allows. Lower it."
        )
    return length


def consider(spec: ServiceSpec, model: Model, catalog: Catalog, demand: Demand, where: str) -> list[Candidate]:
    """Every candidate of a service, with its status before any replay: the shortlist carries status 'feasible'.

    Raises WorkspaceError for an accelerator or engine nobody knows, or one without a price.
    """
    length = context_length(spec, demand, model.architecture)
    found: list[Candidate] = []
    for gpu_name in spec.candidates.accelerators:
        gpu = catalog.accelerator(gpu_name, where)
        price = catalog.prices.get(gpu.gpu_id)
        if price is None:
            raise WorkspaceError(
                f"{where}: no price is known for {gpu.gpu_id}. Set prices.usd_per_gpu_hour.{gpu.gpu_id} there."
            )
        for name, engine in named(spec.candidates.engines).items():
            for tp in spec.candidates.tensor_parallel:
                for precision in spec.candidates.precisions:
                    blank = Candidate(
                        f"{gpu.gpu_id} / TP{tp} / {precision} / {name}",
                        gpu,
                        tp,
                        precision,
                        engine,
                        price,
                        length,
                    )
                    found.append(_estimate(blank, spec, model, catalog, demand))
    return _shortlist(found)


def named(engines: Sequence[EngineSpec]) -> dict[str, EngineSpec]:
    """Engines as name@version, with the settings in which several of one version differ; the same one stands once."""
    found: dict[str, EngineSpec] = {}
    for engine in engines:
        own = engine.overrides()
        alike = [other.overrides() for other in engines if (other.name, other.version) == (engine.name, engine.version)]
        parts = [f"{engine.name}@{engine.version}"]
        for setting in EngineSpec.model_fields:
            if any(other.get(setting) != own.get(setting) for other in alike):
                parts.append(f"{setting}={own.get(setting, 'default')}")
        found[" / ".join(parts)] = engine
    return found


def _estimate(candidate: Candidate, spec: ServiceSpec, model: Model, catalog: Catalog, demand: Demand) -> Candidate:
    architecture, gpu, tp = model.architecture, candidate.gpu, candidate.tp
    if tp > gpu.node_gpus:
        reason = f"TP {tp} crosses nodes of {gpu.node_gpus} {gpu.gpu_id}, whose network no measurement tells"
        return replace(candidate, reason=reason)
    try:
        weight = model.weights(candidate.precision)
        problem = tensor_parallel_problem(architecture, tp, scheme=weight.scheme, engine=candidate.engine.name)
        problem = problem or _refusal(candidate, architecture)
        if problem:
            return replace(candidate, reason=problem)
        settings = resolve_settings(
            candidate.engine.name,
            candidate.engine.version,
            gpu,
            architecture,
            catalog.profile,
            {**candidate.engine.overrides(), "max_model_len": candidate.max_model_len},
        )
    except UnsupportedPrecision as error:
        return replace(candidate, reason=str(error))
    except UnknownEngine as error:
        raise WorkspaceError(f"service {spec.name}: {error}") from None
    account = memory_account(
        architecture,
        weight,
        gpu,
        settings,
        tp=tp,
        profile=catalog.profile,
        safety_gib=spec.headroom.memory_gib_per_gpu,
    )
    candidate = replace(
        candidate,
        settings=settings,
        weights=weight,
        account=account,
        model_kind=model_kind(architecture),
        step_measured=measured_on(catalog.profile, candidate.engine.name, gpu.gpu_id),
    )
    if not account.feasible:
        reason = ". ".join(filter(None, ("; ".join(account.reasons), account.least_change))).rstrip(".")
        return replace(candidate, status="does_not_fit", reason=reason)
    coefficients = coefficients_for(
        catalog.profile,
        candidate.engine.name,
        candidate.engine.version,
        gpu.gpu_id,
        weight.precision,
        candidate.model_kind,
    )
    step = step_parameters(architecture, weight, gpu, tp, coefficients, kv_cache_bytes=settings.kv_element_bytes)
    profile = profile_for(catalog.step_profiles, candidate.configuration(model.model_id))
    step = measured_step(step, profile, coefficients, settings.max_num_batched_tokens)
    # A request that the engine refuses for its length must not move the mean that the bounds are of.
    served = demand.isl_tokens + demand.osl_tokens <= candidate.max_model_len
    if not served.any():
        return replace(candidate, reason=f"no request of the trace fits in max_model_len {candidate.max_model_len:,}")
    isl, osl = float(demand.isl_tokens[served].mean()), float(demand.osl_tokens[served].mean())
    request_s = outside_s(coefficients, isl, decode_step_seconds(step, 1.0, isl + osl / 2))
    limit = {metric: min(spec.slo.targets(metric).values(), default=None) for metric in METRICS}
    bound = bounds(
        step,
        account,
        isl_tokens=isl,
        osl_tokens=osl,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        exclusive_prefill=settings.exclusive_prefill,
        request_s=request_s,
        ttft_target_s=_seconds(limit["ttft"]),
        tpot_target_s=_seconds(limit["tpot"]),
        e2e_target_s=_seconds(limit["e2e"]),
    )
    return replace(
        candidate,
        step=step,
        profile=profile,
        step_time_source=told(step, profile, gpu, fitted=candidate.step_measured),
        request_s=request_s,
        kv_blocks=replay_blocks(account, settings, isl + osl),
        isl_mean_tokens=isl,
        osl_mean_tokens=osl,
        bounds=bound,
        status="feasible",
        reason="fits; not yet replayed",
    )


def _refusal(candidate: Candidate, architecture: Architecture) -> str:
    """Why an engine of this version does not start with this model or these weights on this card; empty if it does.

    Cards without BF16 run such weights in FP16: no refusal.
    """
    engine, version = candidate.engine.name, candidate.engine.version
    for support in supports(engine, version, candidate.gpu, architecture, candidate.precision, _support_table()):
        if support.accepted is False and not support.feature.startswith("bf16"):
            later = f"; it does from {support.since} on" if support.since else ""
            return f"{engine} {version} does not take {support.feature}{later} ({support.source})"
    return ""


@cache
def _support_table() -> list[dict[str, Any]]:
    return read_catalog("support").to_dicts()


def replay_blocks(account: MemoryAccount, settings: EngineSettings, length_tokens: float) -> int:
    """KV blocks for a replay, which knows one kind of block: the pool itself, or, for a model whose layers hold
    different lengths of context, as many as hold its capacity in requests of `length_tokens`."""
    if len(account.layout.groups) == 1:
        return account.kv_blocks
    return int(account.capacity_tokens(length_tokens) // settings.block_tokens)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _shortlist(found: list[Candidate]) -> list[Candidate]:
    """Keep the candidates that analysis says serve most per dollar, and each accelerator's best among them."""

    def usd_per_request(candidate: Candidate) -> float:
        assert candidate.bounds is not None
        rate = candidate.bounds.capacity_rps
        return candidate.price["usd_per_gpu_hour"] * candidate.tp / rate if rate > 0 else float("inf")

    able = [c for c in found if c.status == "feasible"]
    unable = {c.candidate_id for c in able if c.bounds is not None and c.bounds.capacity_rps <= 0}
    ranked = sorted((c for c in able if c.candidate_id not in unable), key=usd_per_request)
    best_of_each = list({c.gpu.gpu_id: c for c in reversed(ranked)}.values())
    kept = {c.candidate_id for c in (*best_of_each, *ranked)[: max(SHORTLIST, len(best_of_each))]}
    result = []
    for candidate in found:
        if candidate.status != "feasible" or candidate.candidate_id in kept:
            result.append(candidate)
        elif candidate.candidate_id in unable:
            assert candidate.bounds is not None
            result.append(
                replace(
                    candidate, status="short_of_slo", reason=f"misses {candidate.bounds.binding} on an idle replica"
                )
            )
        else:
            factor = usd_per_request(candidate) / usd_per_request(ranked[0])
            reason = f"analysis puts its cost per request at {factor:.2f} x the best one's; not replayed"
            result.append(replace(candidate, status="not_shortlisted", reason=reason))
    return result


def candidate_row(service: str, model_id: str, candidate: Candidate) -> dict[str, Any]:
    """A row of `plan_candidate`, before capacity fills its figures in."""
    settings, account, bound = candidate.settings, candidate.account, candidate.bounds
    return {
        "service": service,
        "candidate_id": candidate.candidate_id,
        "status": candidate.status,
        "reason": candidate.reason,
        "model_id": model_id,
        "gpu_id": candidate.gpu.gpu_id,
        "tp": candidate.tp,
        "precision": candidate.weights.precision if candidate.weights else candidate.precision,
        "kv_cache_dtype": settings.kv_cache_dtype if settings else "auto",
        "engine": candidate.engine.name,
        "engine_version": candidate.engine.version,
        "gpus_per_replica": candidate.tp,
        # NaN: the engine's own heuristic decides; the memory account shows what it came to.
        "gpu_memory_utilization": settings.gpu_memory_utilization
        if settings and math.isfinite(settings.gpu_memory_utilization)
        else None,
        "max_model_len": candidate.max_model_len,
        "max_num_seqs": settings.max_num_seqs if settings else None,
        "max_num_batched_tokens": settings.max_num_batched_tokens if settings else None,
        "kv_budget_tokens": max(0, int(account.kv_budget_tokens)) if account else None,
        "k_bound": bound.k_requests if bound else None,
        "l_bound": bound.l_requests if bound else None,
        "zero_load_ttft_ms": bound.zero_load_ttft_s * 1000 if bound else None,
        "zero_load_tpot_ms": bound.zero_load_tpot_s * 1000 if bound else None,
        "step_time_source": candidate.step_time_source,
        "binding": bound.binding if bound else ("weights" if candidate.status == "does_not_fit" else None),
        "goodput_rps_per_replica": None,
        "goodput_rps_per_gpu": None,
        "replicas": None,
        "gpus": None,
        "usd_per_gpu_hour": candidate.price["usd_per_gpu_hour"],
        "usd_per_hour": None,
        "usd_per_million_output_tokens": None,
        "label": "estimated",
    }


def memory_rows(service: str, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Rows of `plan_memory` for every candidate that has an account."""
    return [
        {
            "service": service,
            "candidate_id": candidate.candidate_id,
            "position": i,
            "term": term.term,
            "value": float(term.value),
            "unit": term.unit,
            "label": term.label,
            "source": term.source,
            "note": term.note,
        }
        for candidate in candidates
        if candidate.account is not None
        for i, term in enumerate(candidate.account.terms)
    ]
