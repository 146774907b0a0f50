"""The parts that every kind of file shares: GPU, engine and its resolved limits, put together as one case.

Belongs here: from names and numbers to a `ServingCase`. Does not: the columns of a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from estimator.engines import EngineSettings, resolve_settings
from estimator.hardware import Accelerator, resolve_gpu
from estimator.memory import memory_account
from estimator.serving import Layout, Protocol, ServingCase
from estimator.serving.intervals import SPREAD
from estimator.step_time import ADJUSTMENT, COEFFICIENT_UNITS
from pipelines.planning.catalog import Catalog, Rows, shipped
from pipelines.planning.serving.cells import Unreadable
from pipelines.planning.serving.models import Served
from pipelines.sources.base import shown

_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trt": "tensorrt-llm", "tensorrt": "tensorrt-llm"}
"""What the letters of an engine's name begin with, those of a front before it (`dynamo-trt`) left out."""
LENGTH_MARGIN = 200
"""Tokens a benchmark's server is given beyond the lengths it is sent, as the public sweeps do."""
MOST_CLIENTS, MOST_TOKENS = 16_384, 1e9
"""Clients of one worker, and tokens of their requests, at most: beyond, a row takes many seconds, and no engine holds
as much."""
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?((\.|-)?(rc|post|dev|a|b|pre)\d*)*")


@dataclass(frozen=True, slots=True)
class Built:
    """A case, what was assumed to make it, and which measured metrics are no truth about it, with the reason."""

    case: ServingCase
    served: Served
    assumed: tuple[str, ...]
    uncounted: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Lookups:
    """Accelerators by name and engines' own settings, each looked up once for a file."""

    catalog: Catalog
    _accelerators: dict[str, Accelerator | None] = field(default_factory=dict)
    _settings: dict[object, EngineSettings] = field(default_factory=dict)
    _capacities: dict[object, float | None] = field(default_factory=dict)
    _profile: Rows = ()

    def __post_init__(self) -> None:
        """Keep the profile's rows of settings and memory: those of step times are several times as many."""
        self._profile = [
            row
            for row in self.catalog.profile
            if (name := str(row["parameter"]).partition("@")[0]) not in COEFFICIENT_UNITS
            and not name.startswith((ADJUSTMENT, SPREAD))
        ]

    def accelerator(self, name: str) -> Accelerator:
        """The accelerator a cell means: remarks in brackets, a number of cards before its name and a memory size
        behind it do not matter.

        Raises Unreadable when the catalogue has none of the name, or not its rates.
        """
        if name not in self._accelerators:
            known = self.catalog.accelerators
            found = _named(name, known)
            self._accelerators[name] = known[found] if found else None
        accelerator = self._accelerators[name]
        if accelerator is None and (half_known := _named(name, _gpu_ids())):
            raise Unreadable(f"gpu {half_known}: the catalogue has no bandwidth or no FLOP rate of it")
        if accelerator is None:
            raise Unreadable(f"gpu {shown(name, 40)} is not in the catalogue")
        return accelerator

    def kv_tokens(
        self, served: Served, gpu: Accelerator, settings: EngineSettings, layout: Layout, length_tokens: float
    ) -> float | None:
        """Tokens one worker's KV cache holds in requests of a length; None when the account says it cannot run."""
        key = (served.precision, id(settings), gpu.gpu_id, replace(layout, workers=1, batch=None), length_tokens)
        if key not in self._capacities:
            account = memory_account(
                served.architecture,
                served.weights,
                gpu,
                settings,
                tp=layout.tp,
                pp=layout.pp,
                dp=layout.dp,
                ep=layout.ep,
                profile=self._profile,
            )
            held = account.capacity_tokens(length_tokens) * layout.dp
            self._capacities[key] = held if account.feasible else None
        return self._capacities[key]

    def settings(
        self, engine: str, version: str, gpu: Accelerator, served: Served, asked: Mapping[str, object]
    ) -> EngineSettings:
        """What the engine resolves; raises UnknownEngine (a ValueError) for a setting out of range."""
        key = (engine, version, gpu.gpu_id, id(served.architecture), *sorted(asked.items()))
        if key not in self._settings:
            self._settings[key] = resolve_settings(engine, version, gpu, served.architecture, self._profile, asked)
        return self._settings[key]


def _named(name: str, known: Collection[str]) -> str | None:
    """The accelerator of `known` that a cell means."""
    bare = re.sub(r"^\d+\s*[x*]\s*(?=[a-z])", "", re.sub(r"\(.*?\)", "", name).strip(), flags=re.IGNORECASE)
    return resolve_gpu(bare, known) or resolve_gpu(re.sub(r"[-_ ]\d+\s*gb$", "", bare, flags=re.IGNORECASE), known)


@cache
def _gpu_ids() -> tuple[str, ...]:
    """Every accelerator the catalogue knows something of."""
    return tuple(shipped(memory_only=True).accelerators)


def engine_of(name: str) -> str:
    """The engine's name in the catalogue; raises Unreadable for another."""
    letters = re.sub(r"[^a-z]", "", name.lower()).removeprefix("nvidia").removeprefix("dynamo")
    for beginning, engine in _ENGINES.items():
        if letters.startswith(beginning):
            return engine
    raise Unreadable(f"engine {shown(name, 40)}: only vLLM, SGLang and TensorRT-LLM are predicted")


def version_of(text: str) -> str:
    """The first release number in a cell, such as 0.15.1 or 1.0.0rc3; empty (the newest) when it holds none."""
    found = _VERSION.search(text)
    return found.group(0) if found else ""


def build(
    served: Served,
    gpu: Accelerator,
    engine: str,
    version: str,
    layout: Layout,
    protocol: Protocol,
    isl_tokens: float,
    osl_tokens: float,
    lookups: Lookups,
    *,
    settings: Mapping[str, object] | None = None,
    prefill: Layout | None = None,
    admission_wait_steps: float = 0.0,
    stored_as: str | None = None,
    assumed: tuple[str, ...] = (),
    uncounted: Mapping[str, str] | None = None,
) -> Built:
    """A case, with the engine's own limits where `settings` leaves them open; raises ValueError when none can be.

    `stored_as` is the type of the KV cache where it is known, for what the cache holds: the time to read it is that of
    the engine's own type (see `sweep_settings`).
    """
    notes = [*served.notes, *assumed]
    if not version:
        notes.append("engine version not stated: the newest")
    asked = {name: value for name, value in (settings or {}).items() if value is not None}
    known = lookups.settings(engine, version, gpu, served, asked)
    length = math.ceil(isl_tokens + osl_tokens)
    if length > served.architecture.max_position_tokens:
        raise Unreadable(f"{length:,} tokens are more than the model's {served.architecture.max_position_tokens:,}")
    clients = (protocol.concurrency or 0) / layout.workers
    if clients > MOST_CLIENTS or clients * length > MOST_TOKENS:
        most = f"{MOST_CLIENTS:,} clients of one worker, or {MOST_TOKENS:,.0f} tokens of theirs"
        raise Unreadable(f"more than {most}, are not simulated")
    longest = {"max_model_len": length + LENGTH_MARGIN, **({"kv_cache_dtype": stored_as} if stored_as else {})}
    stored = lookups.settings(engine, version, gpu, served, {**longest, **asked})
    for name in ("max_num_batched_tokens", "max_num_seqs"):
        if name not in asked:
            notes.append(f"{name} {getattr(known, name)}: the engine's default")
    held = lookups.kv_tokens(served, gpu, stored, layout, length)
    if held is None:
        notes.append("the memory account says that this does not fit")
    case = ServingCase(
        architecture=served.architecture,
        weights=served.weights,
        accelerator=gpu,
        engine=engine,
        engine_version=version,
        precision=served.precision,
        layout=layout,
        protocol=protocol,
        isl_tokens=isl_tokens,
        osl_tokens=osl_tokens,
        max_num_batched_tokens=known.max_num_batched_tokens,
        max_num_seqs=known.max_num_seqs,
        prefill=prefill,
        kv_cache_bytes=known.kv_element_bytes,
        admission_wait_steps=admission_wait_steps,
        exclusive_prefill=known.exclusive_prefill,
        kv_tokens=held,
    )
    return Built(case, served, tuple(notes), uncounted or {})
