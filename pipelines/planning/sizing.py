"""One configuration sized without a workspace: what was asked, what was resolved, the memory account as figures.

Belongs here: turning the options of `capsheet size` into estimator calls, and refusing what cannot be. Does not: the
account as figures (`account_figures`), time and throughput (`calculation`), the launch command (`launch`), wording and
tables (`pipelines.commands`).
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from estimator.architecture import Architecture
from estimator.configs import UnsupportedConfig, parse_config
from estimator.engines import EngineSettings, UnknownEngine, resolve_settings
from estimator.hardware import ALIASES, Accelerator, resolve_gpu
from estimator.memory import MemoryAccount, Term, memory_account, tensor_parallel_problem
from estimator.memory.feasibility import MAX_UTILIZATION
from estimator.step_time import Profile
from estimator.support import Support, supports
from estimator.versions import version_key
from estimator.weights import UnsupportedPrecision, Weights, weights
from pipelines.planning.catalog import Catalog
from pipelines.planning.profiles import Configuration
from pipelines.sources import ModelRead
from warehouse.errors import CapsheetError

TP_SIZES = (1, 2, 4, 8, 16)
UNSIZED = "not accounted for, so the cache is not sized: "
"""How the memory account begins its reason for a cache it cannot lay out."""
MISMATCH = 0.05
"""How far a checkpoint may be from what its config comes to before a warning says so."""
GRAPHS_OUTSIDE = "CUDA graphs take {needed:.2f} GiB outside the budget and {left:.2f} GiB is left: warm-up may run out"
LARGEST_REPLICA = 4096
"""Accelerators of the largest replica that is sized."""
_RANGES = (
    ("tp", 1, 10**9, "a number of ranks"),
    ("pp", 1, 10**9, "a number of stages"),
    ("dp", 1, 10**9, "a number of ranks"),
    ("ep", 1, 10**9, "a number of ranks"),
    ("gpu_memory_utilization", 0.01, 1, "a share of memory, such as 0.9,"),
    ("max_model_len", 1, 10**9, "a number of tokens"),
    ("max_num_seqs", 1, 10**6, "a number of sequences"),
    ("max_num_batched_tokens", 1, 10**9, "a number of tokens"),
    ("isl_tokens", 1, 10**9, "a number of tokens"),
    ("osl_tokens", 1, 10**9, "a number of tokens"),
    ("concurrency", 1, 10**7, "a number of requests"),
    ("ttft_ms", 0.001, 10**9, "a time in milliseconds"),
    ("tpot_ms", 0.001, 10**9, "a time in milliseconds"),
)
"""Field, least, largest and what it is; NaN is in no range."""
_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "sgl": "sglang",
    "tensorrtllm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
}
_NAME_AND_VERSION = re.compile(r"(?P<name>.*?)\s*(?:@|==|:|=|\s(?=v?\d))\s*(?P<version>.*)", re.DOTALL)
_VERSION = re.compile(r"v?(?P<number>\d{1,9}(\.\d{1,9}){0,3}([.-]?(rc|post|dev|a|b)\d{1,9})*)(\+[\w.]{1,40})?")
_SETTING = re.compile(r"(gpu_memory_utilization|max_model_len|max_num_seqs|max_num_batched_tokens|kv_cache_dtype) is ")


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
    exclusive_prefill: bool | None = None
    kv_cache_dtype: str | None = None
    quantization: str = "auto"
    isl_tokens: int | None = None
    osl_tokens: int | None = None
    concurrency: int | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    coefficients: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise CapsheetError for a size or target that no deployment has."""
        for flag, low, high, what in _RANGES:
            value = getattr(self, flag)
            if value is not None and not low <= value <= high:
                name = flag.removesuffix("_tokens").replace("_", "-")
                raise CapsheetError(f"--{name} is {str(value)[:24]}; {what} is from {low:g} to {high:,}.")
        if self.gpus_per_replica > LARGEST_REPLICA:
            raise CapsheetError(
                f"tp {self.tp} x pp {self.pp} x dp {self.dp} is {self.gpus_per_replica:.12g} accelerators a replica; "
                f"capsheet sizes up to {LARGEST_REPLICA:,}."
            )

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
    support: tuple[Support, ...] = ()
    """What the engine's version is known to take of it."""
    unaccounted: tuple[str, ...] = ()
    measured: Profile | None = None
    """Measured step times of it, which go before physics."""

    @property
    def configuration(self) -> Configuration:
        """What its step times depend on."""
        ask = self.ask
        names = (self.read.model_id, self.gpu.gpu_id, self.engine, self.version)
        return Configuration(*names, ask.tp, self.weights.precision, ask.dp, ask.ep)

    @property
    def feasible(self) -> bool:
        """Whether it starts; a model that is not wholly understood is never said to."""
        return self.account is not None and self.account.feasible

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it does not start, or why nobody can say."""
        if self.account is not None:
            return self.account.reasons
        return tuple(f"not accounted for: {item}" for item in self.unaccounted)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may still go wrong where the account fits."""
        said = []
        if abs(self.weights.scale - 1) > MISMATCH:
            said.append(f"weights: {self.weights.note}")
        if self.ask.tp > self.gpu.node_gpus:
            said.append(
                f"TP {self.ask.tp} crosses nodes of {self.gpu.node_gpus} {self.gpu.gpu_id}, and times assume the usual "
                "network between them"
            )
        share = self.ask.gpu_memory_utilization
        if share is not None and share > MAX_UTILIZATION and self.engine != "tensorrt-llm":
            said.append(
                f"a share of {share:g} is above {MAX_UTILIZATION:g}, beyond which start-ups run out of memory in "
                "warm-up"
            )
        return (*said, *self._graph_warnings())

    def _graph_warnings(self) -> tuple[str, ...]:
        """vLLM's CUDA graphs where they lie outside the budget and find no room there."""
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
    from warehouse.catalog import read_catalog

    gpu = card(ask.gpu, catalog)
    engine, version, newest = engine_of(ask.engine, catalog)
    try:
        architecture = parse_config(read.config, read.model_id)
        found = weights(architecture, ask.quantization, read.checkpoint_bytes)
        settings = resolve_settings(engine, version, gpu, architecture, catalog.profile, overrides(ask))
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
        account = _as_known(account, ask, gpu.gpu_id)
    gaps = architecture.unaccounted
    if account is not None and account.reasons and account.reasons[0].startswith(UNSIZED):
        gaps, account = (account.reasons[0].removeprefix(UNSIZED),), None
    assumed = [f"{engine} {version}: the newest the catalogue has figures of"] if newest else []
    assumed += list(architecture.notes)
    return Sized(
        ask,
        read,
        architecture,
        gpu,
        engine,
        version,
        settings,
        found,
        account,
        catalog.profile,
        tuple(assumed),
        supports(engine, version, gpu, architecture, ask.quantization, read_catalog("support").to_dicts()),
        tuple(gaps),
    )


def _as_known(account: MemoryAccount, ask: Ask, gpu_id: str) -> MemoryAccount:
    """The account with what the estimator cannot know: how the catalogue has the visible memory, who set the margin."""
    from warehouse.catalog import read_catalog

    labels = dict(read_catalog("accelerators").select("gpu_id", "visible_memory_label").iter_rows())
    margin = "set by the caller" if "safety_gib" in ask.coefficients else "0 unless asked for"
    known = labels.get(gpu_id) or "assumed"

    def told(term: Term) -> Term:
        if term.term == "visible_memory":
            return replace(term, label=known)
        return replace(term, source=margin) if term.term == "safety" else term

    return replace(account, terms=tuple(map(told, account.terms)))


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
    """The accelerator a name means, or the instance type of a provider that the prices know; NaN stands for a bandwidth
    or rate that no source gives.

    Raises CapsheetError that says what to write instead.
    """
    from warehouse.catalog import read_catalog

    known = resolve_gpu(name, catalog.accelerators)
    if known is not None:
        return catalog.accelerators[known]
    rows = {row["gpu_id"]: row for row in read_catalog("accelerators").to_dicts()}
    known = resolve_gpu(name, rows) or _instance(name)
    if known is None:
        raise CapsheetError(_unknown_card(name, list(rows)))
    row = rows[known]
    if row["visible_memory_gib"] is None:
        raise CapsheetError(
            f"--gpu: the catalogue has {known} without its memory, which no source gives ({row['note']}). Name another."
        )
    unknown = {"memory_bandwidth_gbs": math.nan, "fp16_dense_tflops": math.nan}
    fields = {n: row[n] for n in Accelerator.__dataclass_fields__ if row.get(n) is not None}
    return Accelerator(**(unknown | fields))


def _instance(name: str) -> str | None:
    """The accelerator of a provider's instance type, such as AWS's p5.48xlarge, as the prices name them."""
    from warehouse.catalog import read_catalog

    skus = read_catalog("prices").select("sku", "gpu_id").drop_nulls()
    return {sku.lower(): str(gpu_id) for sku, gpu_id in skus.iter_rows()}.get(name.strip().lower())


def _unknown_card(name: str, known: list[str]) -> str:
    """What is wrong with the name of an accelerator, in one line."""
    counted = re.fullmatch(r"\s*(\d{1,4})\s*[x*×]\s*(.+)", name) or re.fullmatch(r"(.+?)\s*[x*×:]\s*(\d{1,4})\s*", name)
    if counted is not None:
        first, last = counted.groups()
        count, inner = (first, last) if first.isdigit() else (last, first)
        one = resolve_gpu(inner, known)
        if one is not None:
            return f"--gpu names one accelerator; {count} of them are --gpu {one} --tp {count}, or --pp and --dp."
    shown_name = repr(name[:40] + ("..." if len(name) > 40 else ""))
    spelt = {alias.lower(): gpu_id for alias, gpu_id in (ALIASES | {gpu_id: gpu_id for gpu_id in known}).items()}
    near = difflib.get_close_matches(name[:40].lower(), list(spelt), n=6, cutoff=0.55)
    ids = list(dict.fromkeys(spelt[spelling] for spelling in near if spelt[spelling] in known))[:3]
    hint = f"Near it: {', '.join(ids)}" if ids else f"It has {', '.join(sorted(known))}"
    return f"--gpu: the catalogue has no accelerator {shown_name}. {hint}."


def engine_of(text: str, catalog: Catalog) -> tuple[str, str, bool]:
    """Engine, version, and whether the version was left open: `vllm@0.19.0`, `vllm==0.19.0`, `vllm 0.19` or `vllm`.

    Left open, it is the newest version from which on a figure of the catalogue holds. Raises CapsheetError.
    """
    parts = _NAME_AND_VERSION.fullmatch(text.strip())
    name, version = (parts["name"], parts["version"]) if parts else (text.strip(), None)
    engine = _ENGINES.get(re.sub(r"[\s_-]", "", name.lower()))
    rows = [row for row in catalog.profile if row["engine"] == engine]
    if engine is None or not rows:
        known = ", ".join(sorted({str(row["engine"]) for row in catalog.profile}))
        raise CapsheetError(f"--engine: no engine {name[:40]!r}; there are {known}. Write it like vllm@0.19.0.")
    if version is None:
        return engine, max((str(row["version_from"]) for row in rows), key=version_key), True
    number = _VERSION.fullmatch(version)
    if number is None:
        raise CapsheetError(f"--engine: {version[:40]!r} is no version. Write it like {engine}@0.19.0.")
    return engine, number["number"], False


def accepted_tp(sized: Sized) -> list[int]:
    """Tensor-parallel sizes the engine accepts for a model in its weights' blocks, up to 16."""

    def accepts(tp: int) -> bool:
        ep = 1 if sized.ask.ep == 1 else tp * sized.ask.dp
        scheme, engine = sized.weights.scheme, sized.engine
        return tensor_parallel_problem(sized.architecture, tp, scheme=scheme, ep=ep, engine=engine) is None

    return [tp for tp in TP_SIZES if accepts(tp)]


def overrides(ask: Ask) -> dict[str, object]:
    """The engine's settings the caller names; None is left to the engine."""
    sizes = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")
    names = (*sizes, "exclusive_prefill", "gpu_memory_utilization", "kv_cache_dtype")
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


def _one_line(model: str, error: Exception) -> str:
    """An estimator's message as one line that names the option it is about, or the model, once."""
    text = " ".join(str(error).split())[:400]
    setting = _SETTING.match(text)
    if setting:
        return f"--{setting[1].replace('_', '-')}{text[setting.end(1) :]}"
    if isinstance(error, UnsupportedPrecision):
        return f"--quantization: {text}"
    return text if text.startswith(model) else f"{model}: {text}"
