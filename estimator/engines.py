"""Serving engines' settings: what was asked for, and what the engine itself resolves for the rest.

Belongs here: choosing rows of the engine profile by engine, version and accelerator, and `EngineSettings`. Does not:
how the settings spend memory (`estimator.memory`) or time (`estimator.step_time`). The figures are rows of the
`engine_profile` table (`warehouse/catalog/engines.csv`), not constants here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from estimator.architecture import Architecture
from estimator.hardware import Accelerator
from estimator.versions import in_range, version_key

Rows = Sequence[Mapping[str, object]]

ENGINES = ("vllm", "sglang", "tensorrt-llm")
KV_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
KV_NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "float": "float32",
    "fp32": "float32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_ds_mla": "fp8",
    "fp8_inc": "fp8",
    "nvfp4": "fp4",
    "fp4_e2m1": "fp4",
}
COMPRESSED = ("max_num_seqs", "block_tokens")
"""Settings with a default of their own for compressed attention: parameter compressed_<name> of the profile."""
OVERRIDES = frozenset(
    """gpu_memory_utilization max_model_len max_num_seqs max_num_batched_tokens block_tokens kv_cache_dtype
    chunked_prefill exclusive_prefill prefix_caching speculative_tokens enforce_eager""".split()  # noqa: SIM905 - read as a list
)


class UnknownEngine(ValueError):  # noqa: N818 - reads as a sentence where it is caught
    """An engine, or a setting of one, that capsheet does not know."""


@dataclass(frozen=True, slots=True)
class Known:
    """One value of the profile with how it is known."""

    value: float
    label: str
    source: str


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """An engine's resolved settings. `provenance` says of each how it is known: (label, source).

    `gpu_memory_utilization` is vLLM's flag, SGLang's mem_fraction_static or TensorRT-LLM's
    free_gpu_memory_fraction: shares of different things (`estimator.memory`). `exclusive_prefill`: prompts are computed
    in steps of their own while decodes wait, as SGLang does without --enable-mixed-chunk. `output_reserve`: share of
    what running requests have still to generate that the engine keeps room for when it admits one.
    """

    engine: str
    version: str
    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    block_tokens: int
    kv_cache_dtype: str
    chunked_prefill: bool
    prefix_caching: bool
    exclusive_prefill: bool = False
    output_reserve: float = 0.0
    speculative_tokens: int = 0
    enforce_eager: bool = False
    provenance: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def kv_element_bytes(self) -> float:
        """Bytes of one cached element."""
        return KV_BYTES[self.kv_cache_dtype]


def holds_for(row: Mapping[str, object], version: str) -> bool:
    """Whether a profile row holds at `version`."""
    return in_range(version, str(row["version_from"] or ""), str(row["version_before"] or ""))


def _scope_rank(scope: str, accelerator: Accelerator) -> float | None:
    """How narrowly a scope names the accelerator: id, name pattern, memory class, all; None when it does not."""
    if scope == "*":
        return 0.0
    threshold = re.fullmatch(r"(>=|<)(\d+(?:\.\d+)?)GiB", scope)
    if threshold:
        bound = float(threshold.group(2))
        inside = accelerator.visible_memory_gib >= bound
        if threshold.group(1) == "<":
            return 1.0 + 1.0 / (1.0 + bound) if not inside else None
        return 1.0 + bound / 1e6 if inside else None
    if scope == accelerator.gpu_id:
        return 3.0
    return 2.0 if fnmatchcase(accelerator.gpu_id, scope) else None


def profile_values(engine: str, version: str, accelerator: Accelerator, profile: Rows) -> dict[str, Known]:
    """Every parameter that holds: the narrowest scope wins, then the latest `version_from`.

    Raises UnknownEngine when the profile has no row of the engine.
    """
    name = engine.lower()
    rows = [row for row in profile if str(row["engine"]).lower() == name]
    if not rows:
        known = sorted({str(row["engine"]) for row in profile}) or list(ENGINES)
        raise UnknownEngine(f"no engine {engine!r} in the profile; it knows {', '.join(known)}")
    best: dict[str, tuple[float, tuple[int, ...], Known]] = {}
    for row in rows:
        rank = _scope_rank(str(row["gpu_scope"]), accelerator)
        value = row["value"]
        if rank is None or not holds_for(row, version) or not isinstance(value, int | float | str):
            continue
        key = (rank, version_key(str(row["version_from"])))
        parameter = str(row["parameter"])
        if parameter not in best or key > best[parameter][:2]:
            best[parameter] = (*key, Known(float(value), str(row["label"]), str(row["source"])))
    return {parameter: entry[2] for parameter, entry in best.items()}


def resolve_settings(
    engine: str,
    version: str,
    accelerator: Accelerator,
    architecture: Architecture,
    profile: Rows,
    overrides: Mapping[str, object] | None = None,
) -> EngineSettings:
    """The settings an engine of this version would run with: overrides first, then its own defaults.

    Raises UnknownEngine for an engine not in the profile, a setting that does not exist, or a value out of range.
    """
    asked = {name: value for name, value in (overrides or {}).items() if value is not None}
    unknown = sorted(set(asked) - OVERRIDES)
    if unknown:
        raise UnknownEngine(f"{engine} has no setting {unknown[0]!r}; capsheet reads {', '.join(sorted(OVERRIDES))}")
    known = profile_values(engine, version, accelerator, profile)
    provenance: dict[str, tuple[str, str]] = {}

    def number(name: str, fallback: float, low: float, high: float, why: str = "class default") -> float:
        if name in asked:
            value = asked[name]
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise UnknownEngine(f"{name} is {value!r}; it takes a number from {low:g} to {high:g}")
            provenance[name] = ("assumed", "set by the caller")
            return float(value)
        found = known.get(name)
        provenance[name] = (found.label, found.source) if found else ("assumed", why)
        return found.value if found else fallback

    def flag(name: str, default: bool, label: str, source: str) -> bool:
        if name in asked:
            if not isinstance(asked[name], bool):
                raise UnknownEngine(f"{name} is {asked[name]!r}; it takes true or false")
            provenance[name] = ("assumed", "set by the caller")
            return bool(asked[name])
        provenance[name] = (label, source)
        return default

    length = int(number("max_model_len", architecture.max_position_tokens, 1, 1e9, "the model's longest context"))
    if "max_model_len" not in asked:
        provenance["max_model_len"] = ("verified", "the model's config.json")
    if architecture.compressed:
        own = {name: known[f"compressed_{name}"] for name in COMPRESSED if f"compressed_{name}" in known}
        known |= own
    seqs = int(number("max_num_seqs", 256, 1, 1e6))
    above = known.get("chunked_prefill_above_tokens")
    chunked = flag(
        "chunked_prefill",
        (above is None or length > above.value) and _may_chunk(architecture, known),
        above.label if above else "assumed",
        above.source if above else "class default",
    )
    tokens = _batched_tokens(asked, known, provenance, chunked=chunked, length=length, seqs=seqs)
    caching = known.get("prefix_caching", Known(1.0, "assumed", "class default"))
    alone = known.get("exclusive_prefill", Known(0.0, "cited", "prompts share steps with decodes"))
    if not chunked:
        alone = known.get("exclusive_prefill_unchunked", alone)
    return EngineSettings(
        engine=engine.lower(),
        version=version,
        gpu_memory_utilization=number("gpu_memory_utilization", math.nan, 0.01, 1.0, "the engine's own heuristic"),
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        block_tokens=int(number("block_tokens", 16, 1, 1e6)),
        kv_cache_dtype=_kv_dtype(asked, architecture, provenance),
        chunked_prefill=chunked,
        prefix_caching=flag("prefix_caching", caching.value > 0, caching.label, caching.source),
        exclusive_prefill=flag("exclusive_prefill", alone.value > 0, alone.label, alone.source),
        output_reserve=number("output_reserve", 0.0, 0.0, 1.0, "room for what is known of a request"),
        speculative_tokens=int(number("speculative_tokens", 0, 0, 1000, "no speculative decoding")),
        enforce_eager=flag("enforce_eager", False, "assumed", "CUDA graphs are on by default"),
        provenance=provenance,
    )


def _may_chunk(architecture: Architecture, known: Mapping[str, Known]) -> bool:
    """Whether the engine switches chunked prefill on by itself for a model of this kind."""
    if "chunked_prefill_all_models" not in known or known["chunked_prefill_all_models"].value > 0:
        return True
    return not architecture.multimodal and all(layer.attention.kind != "sliding" for layer in architecture.layers)


def _batched_tokens(
    asked: Mapping[str, object],
    known: Mapping[str, Known],
    provenance: dict[str, tuple[str, str]],
    *,
    chunked: bool,
    length: int,
    seqs: int,
) -> int:
    """Tokens of a step: as asked; chunked, the engine's budget, no more than all sequences at full length; whole
    prompts, at least one of them."""
    name = "max_num_batched_tokens"
    if name in asked:
        value = asked[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1e9:
            raise UnknownEngine(f"{name} is {value!r}; it takes a whole number from 1")
        provenance[name] = ("assumed", "set by the caller")
        return value
    budget = known.get("max_num_batched_tokens_chunked", Known(2048, "assumed", "class default"))
    provenance[name] = (budget.label, budget.source)
    if not chunked:
        provenance[name] = ("cited", "without chunked prefill a step holds the longest prompt")
        return max(length, 2048)
    return int(min(budget.value, seqs * length))


def _kv_dtype(asked: Mapping[str, object], architecture: Architecture, provenance: dict[str, tuple[str, str]]) -> str:
    value = str(asked.get("kv_cache_dtype", "auto")).lower()
    value = KV_NAMES.get(value, value)
    if value == "auto":
        declared = architecture.scheme.kv_cache_dtype
        why = "the checkpoint's quantisation" if declared else "the model's dtype"
        provenance["kv_cache_dtype"] = ("verified", f"auto: {why}")
        return declared or architecture.dtype
    if value not in KV_BYTES:
        raise UnknownEngine(f"kv_cache_dtype is {value!r}; it takes auto, {', '.join(sorted({*KV_BYTES, *KV_NAMES}))}")
    provenance["kv_cache_dtype"] = ("assumed", "set by the caller")
    return value
