"""One configuration sized without a workspace: what was asked, what was resolved, the memory account as figures.

Belongs here: turning the options of `capsheet size` into estimator calls, and refusing what cannot be. Does not: time
and throughput (`calculation`), the launch command (`launch`), wording and tables (`pipelines.commands`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config
from estimator.engines import EngineSettings, UnknownEngine, resolve_settings
from estimator.hardware import Accelerator, resolve_gpu
from estimator.memory import MemoryAccount, memory_account, tensor_parallel_problem
from estimator.versions import version_key
from estimator.weights import UnsupportedPrecision, Weights, weights
from pipelines.planning.catalog import Catalog
from pipelines.planning.figures import Figure
from pipelines.sources import ModelRead
from warehouse.errors import CapsheetError

TP_SIZES = (1, 2, 4, 8, 16)
GRAPHS_OUTSIDE = "CUDA graphs take {needed:.2f} GiB outside the budget and {left:.2f} GiB is left: warm-up may run out"
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrtllm": "tensorrt-llm", "trtllm": "tensorrt-llm"}
_VERSION = re.compile(r"v?\d+(\.\d+)*([.-]?(rc|post|dev|a|b)\d+)?")


@dataclass(frozen=True, slots=True)
class Ask:
    """What a user asks to size. None is the engine's own default, or the model's."""

    model: str
    gpu: str
    engine: str = "vllm"
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str | None = None
    quantization: str = "auto"
    isl_tokens: int | None = None
    osl_tokens: int | None = None
    concurrency: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    coefficients: Mapping[str, float] = field(default_factory=dict)

    @property
    def gpus_per_replica(self) -> int:
        """Accelerators of a replica; expert-parallel ranks are among them."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True, slots=True)
class Sized:
    """A configuration, resolved and accounted for. `unaccounted` models have no account: nothing about them is sure."""

    ask: Ask
    read: ModelRead
    architecture: Architecture
    gpu: Accelerator
    engine: str
    version: str
    settings: EngineSettings
    weights: Weights
    account: MemoryAccount | None
    profile: Sequence[Mapping[str, Any]]
    assumed: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether it starts; a model that is not wholly understood is never said to."""
        return self.account is not None and self.account.feasible

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not start, or why nobody can say."""
        if self.account is not None:
            return self.account.reasons
        return tuple(f"not accounted for: {item}" for item in self.architecture.unaccounted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may still go wrong where the account fits."""
        if self.account is None or self.settings.engine != "vllm" or not self.account.feasible:
            return ()
        terms = {term.term: term for term in self.account.terms}
        left = self.gpu.visible_memory_gib * (1 - terms["utilization"].value)
        needed = self.account.graph_gib_per_gpu
        inside = "deducted" in terms["cuda_graphs"].note
        return () if inside or needed <= left else (GRAPHS_OUTSIDE.format(needed=needed, left=left),)


def size(ask: Ask, read: ModelRead, catalog: Catalog) -> Sized:
    """Resolve and account for a configuration.

    Raises CapsheetError for a GPU, engine, setting or precision nobody knows, sizes that cannot be, or a config that
    cannot be read. A configuration that does not fit is an answer, not an error.
    """
    gpu = card(ask.gpu, catalog)
    engine, version, newest = engine_of(ask.engine, catalog)
    try:
        architecture = parse_config(read.config, read.model_id)
        found = weights(architecture, ask.quantization, read.checkpoint_bytes)
        settings = resolve_settings(engine, version, gpu, architecture, catalog.profile, _overrides(ask))
    except (UnsupportedConfig, UnsupportedPrecision, UnknownEngine) as error:
        raise CapsheetError(_one_line(ask.model, error)) from None
    if found.label == "verified":
        found = replace(found, label=read.label)
    _check_ranks(ask, architecture, engine)
    account = None
    if not architecture.unaccounted:
        try:
            account = account_of(ask, architecture, found, gpu, settings, catalog)
        except ValueError as error:
            raise CapsheetError(_one_line(ask.model, error)) from None
    assumed = [f"{engine} {version}: the newest the catalogue has figures of"] if newest else []
    assumed += list(architecture.notes)
    return Sized(
        ask, read, architecture, gpu, engine, version, settings, found, account, catalog.profile, tuple(assumed)
    )


def account_of(
    ask: Ask,
    architecture: Architecture,
    found: Weights,
    gpu: Accelerator,
    settings: EngineSettings,
    catalog: Catalog,
    tp: int | None = None,
) -> MemoryAccount:
    """The memory account of what is asked, at another tensor-parallel size where `tp` is given."""
    ranks = (tp or ask.tp) * ask.dp
    ep = ask.ep if tp is None or ask.ep == 1 else ranks
    return memory_account(
        architecture,
        found,
        gpu,
        settings,
        tp or ask.tp,
        ask.pp,
        ask.dp,
        ep,
        profile=catalog.profile,
        safety_gib=ask.coefficients.get("safety_gib", 0.0),
    )


def card(name: str, catalog: Catalog) -> Accelerator:
    """The accelerator a name means; NaN stands for a bandwidth or rate that no source gives.

    Raises CapsheetError naming the nearest accelerators.
    """
    from warehouse.catalog import read_catalog

    if resolve_gpu(name, catalog.accelerators) is None:
        rows = {row["gpu_id"]: row for row in read_catalog("accelerators").to_dicts() if row["visible_memory_gib"]}
        known = resolve_gpu(name, rows)
        if known is not None:
            unknown = {"memory_bandwidth_gbs": math.nan, "fp16_dense_tflops": math.nan}
            fields = {n: rows[known][n] for n in Accelerator.__dataclass_fields__ if rows[known][n] is not None}
            return Accelerator(**(unknown | fields))
    return catalog.accelerator(name, "--gpu")


def engine_of(text: str, catalog: Catalog) -> tuple[str, str, bool]:
    """Engine, version, and whether the version was left open, from `name@version` or `name`.

    Left open, it is the newest version from which on a figure of the catalogue holds. Raises CapsheetError.
    """
    name, at, version = text.strip().partition("@")
    engine = _ENGINES.get(re.sub(r"[^a-z]", "", name.lower()))
    rows = [row for row in catalog.profile if row["engine"] == engine]
    if engine is None or not rows:
        known = ", ".join(sorted({str(row["engine"]) for row in catalog.profile}))
        raise CapsheetError(f"--engine: no engine {name[:40]!r}; there are {known}. Write it like vllm@0.19.0.")
    if at and not _VERSION.fullmatch(version):
        raise CapsheetError(f"--engine: {version[:40]!r} is no version. Write it like {engine}@0.19.0.")
    newest = max((str(row["version_from"]) for row in rows), key=version_key)
    return engine, version.removeprefix("v") or newest, not at


def accepted_tp(architecture: Architecture) -> list[int]:
    """Tensor-parallel sizes the engines accept for a model, up to 16."""
    return [tp for tp in TP_SIZES if tensor_parallel_problem(architecture, tp) is None]


def _overrides(ask: Ask) -> dict[str, object]:
    names = ("max_model_len", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype")
    return {name: getattr(ask, name) for name in names}


def _check_ranks(ask: Ask, architecture: Architecture, engine: str) -> None:
    """Refuse parallel sizes no engine runs; a tensor-parallel size that does not divide is the account's to say."""
    experts = max((layer.feed_forward.experts for layer in architecture.layers), default=0)
    ranks = ask.tp * ask.dp
    if ask.ep > 1 and not experts:
        raise CapsheetError(f"--ep {ask.ep}: {ask.model} has no experts to spread. Leave --ep out.")
    if ask.ep > 1 and engine == "vllm" and ask.ep != ranks:
        raise CapsheetError(
            f"--ep {ask.ep}: vLLM spreads experts over all tp x dp = {ranks} ranks or over none. Use --ep {ranks}."
        )
    if ask.ep > 1 and (ask.ep > ranks or ranks % ask.ep):
        raise CapsheetError(f"--ep {ask.ep} does not divide tp x dp = {ranks}. Choose a divisor of it.")
    if ask.ep > experts > 0:
        raise CapsheetError(f"--ep {ask.ep}: {ask.model} has {experts} experts. Use at most as many ranks.")


def memory_figures(sized: Sized) -> list[Figure]:
    """The account's figures, parameters first, each with its formula and inputs; values None where nothing is sure."""
    architecture, account, settings = sized.architecture, sized.account, sized.settings
    sure = account is not None
    terms = {term.term: term for term in account.terms} if account else {}
    config = f"config.json: {sized.read.source}"
    label = {name: term.label for name, term in terms.items()}

    def figure(name: str, unit: str, term: str, formula: str, **inputs: object) -> Figure:
        value = getattr(account, name) if account else None
        source = terms[term].source if term in terms else "not accounted for"
        return Figure(name, value, unit, label.get(term, "estimated"), source, formula, inputs)

    shown = {name: term.value for name, term in terms.items()}
    layers = len(architecture.layers)
    length = settings.max_model_len
    return [
        Figure(
            "parameters_total",
            architecture.parameters_total if sure else None,
            "",
            "inferred",
            config,
            "embedding + head + sum over layers (attention + norms + dense + experts) + vision",
            {"layers": layers, "hidden_size": architecture.hidden_size, "vocab_size": architecture.vocab_size},
        ),
        Figure(
            "parameters_active",
            architecture.parameters_active if sure else None,
            "",
            "inferred",
            config,
            "parameters_total less routed experts a token leaves idle and the vision tower",
            _experts(architecture),
        ),
        figure(
            "weights_gib_per_gpu",
            "GiB",
            "weights",
            "bytes by part / the ranks that slice it; copies, embedding and head on their ranks; the binding stage",
            total_gib=sized.weights.total_bytes / 2**30,
            tp=sized.ask.tp,
            pp=sized.ask.pp,
            dp=sized.ask.dp,
            ep=sized.ask.ep,
            precision=sized.weights.precision,
        ),
        figure(
            "activation_gib_per_gpu",
            "GiB",
            "activation",
            "the larger of forward pass and sampler in the profiling run",
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            vocab_size=architecture.vocab_size,
            hidden_size=architecture.hidden_size,
        ),
        figure("non_torch_gib_per_gpu", "GiB", "non_torch", "engine profile at this TP", tp=sized.ask.tp),
        figure(
            "graph_gib_per_gpu",
            "GiB",
            "cuda_graphs",
            "(base + layers x each + experts) x (captured / largest) ^ 0.5",
            layers=layers,
        ),
        figure("kv_budget_gib_per_gpu", "GiB", "kv_budget", _rule(settings.engine), **shown),
        figure(
            "kv_bytes_per_token_per_gpu",
            "B",
            "kv_bytes_per_token",
            "sum over layers of cached elements of a rank x bytes of one",
            kv_cache_dtype=settings.kv_cache_dtype,
            attention=architecture.attention_kind,
            tp=sized.ask.tp,
        ),
        figure(
            "kv_budget_tokens",
            "tokens",
            "kv_budget_tokens",
            "whole blocks of the budget, in tokens as this engine counts them",
            blocks=account.kv_blocks if account else None,
            block_tokens=account.layout.printed_block_tokens if account else None,
        ),
        Figure(
            "max_concurrency",
            account.max_concurrency(length) if account else None,
            "requests",
            label.get("max_concurrency", "estimated"),
            terms["max_concurrency"].source if terms else "not accounted for",
            "blocks / blocks of a request of max_model_len tokens, on one engine core",
            {"max_model_len": length, "blocks": account.kv_blocks if account else None},
        ),
        figure("state_gib_per_sequence", "GiB", "state_per_sequence", "recurrent layers' state of one sequence"),
    ]


def _experts(architecture: Architecture) -> dict[str, object]:
    forwards = [layer.feed_forward for layer in architecture.layers if layer.feed_forward.experts]
    if not forwards:
        return {"experts": 0}
    return {"experts": forwards[0].experts, "experts_per_token": forwards[0].experts_per_token}


def _rule(engine: str) -> str:
    return {
        "sglang": "(visible - non_torch) x mem_fraction_static - weights - safety",
        "tensorrt-llm": "(visible - weights - activation - non_torch) x free_gpu_memory_fraction - safety",
    }.get(engine, "visible x utilization - weights - activation - non_torch [- graphs from 0.21] - safety")


def _one_line(model: str, error: Exception) -> str:
    """An estimator's message as one line that names the model once."""
    text = " ".join(str(error).split())[:400]
    return text if text.startswith(model) else f"{model}: {text}"
