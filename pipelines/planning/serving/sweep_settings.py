"""What the public launch scripts of InferenceX sweeps set, which no column of their exports records.

Belongs here: settings by engine, GPU generation, model and precision, as those scripts hold them. Does not: what an
engine resolves for what a script leaves open (`estimator.engines`).

Source: SemiAnalysisAI/InferenceX, `benchmarks/*.sh` and `benchmarks/single_node/*.sh` (2025-10 to 2026-04): each runs
`CONC` clients with 10 prompts each, lengths drawn in [0.8, 1] of nominal, prefix caching off. Read as configuration;
no measured value is in here. The first rule that holds is taken; scripts of one engine mostly agree, and a
model without a script of its own gets its engine's.

- KV cache: FP8, but 16 bits in weight-only INT4, in BF16, and where a script says nothing (mixtures of experts on
  Hopper, but with TensorRT-LLM only gpt-oss). It counts for what the cache holds. For time it stays at 16 bits: in
  these runs an FP8 cache is read no faster than a 16-bit one (with one byte an element errors grow with the cached
  tokens in the dense sweeps; with two they do not).
- SGLang on Blackwell polls for requests every 30 steps from 16 clients on, every 10 below
  (`--scheduler-recv-interval`), GLM excepted: a request waits half of that on average.
- TensorRT-LLM waits up to 20 iterations to fill a batch for Llama at 1,024 in and out below TP 8
  (`batch_wait_timeout_iters`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from estimator.serving import Layout
from estimator.step_time.coefficients import gpu_family
from pipelines.planning.serving.models import Served


@dataclass(frozen=True, slots=True)
class Run:
    """What a script knows of a run when it chooses settings."""

    served: Served
    gpu_id: str
    layout: Layout
    clients: float
    isl_tokens: float
    osl_tokens: float

    @property
    def family(self) -> str:
        """The model's family as scripts tell models apart: gpt-oss, glm, dense, mla or moe."""
        kind = self.served.architecture.model_type
        if kind.startswith("gpt_oss"):
            return "gpt-oss"
        if kind.startswith("glm"):
            return "glm"
        if self.served.kind == "dense":
            return "dense"
        return "mla" if self.served.kind == "MLA" else "moe"

    @property
    def generation(self) -> str | None:
        """The GPU's generation, such as Hopper."""
        return gpu_family(self.gpu_id)

    @property
    def hopper(self) -> bool:
        """Whether the GPU is of the Hopper generation."""
        return self.generation == "Hopper"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run; None leaves the engine its own."""

    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str | None = None
    admission_wait_steps: float = 0.0


def settings_of(engine: str, run: Run) -> Settings:
    """The settings a sweep's script gives an engine for a run; its own on generations the scripts read are not of."""
    return _BY_ENGINE[engine](run) if run.generation in {"Hopper", "Blackwell"} else Settings()


def _vllm(run: Run) -> Settings:
    bare = run.hopper and run.family != "dense"
    if not run.hopper and run.family in {"moe", "mla"} and run.served.precision in {"fp4", "fp8"}:
        return Settings(max(2048, round(2 * run.isl_tokens)), _fp8_kv(run))
    return Settings(8192, None if bare else _fp8_kv(run))


def _sglang(run: Run) -> Settings:
    if run.hopper:
        return Settings(None if run.family == "glm" else 32768)
    tokens = 16384 if run.served.precision == "fp4" else 32768
    if run.family == "mla" and run.layout.tp == 4 and run.served.precision == "fp8":
        tokens = 8192
    polled = 30 if run.clients >= 16 else 10
    return Settings(tokens, _fp8_kv(run), 0.0 if run.family == "glm" else polled / 2)


def _tensorrt_llm(run: Run) -> Settings:
    if run.family == "gpt-oss":
        return Settings(20000, None if run.hopper else "fp8")
    if run.family == "dense":
        waits = run.isl_tokens == run.osl_tokens == 1024 and run.layout.tp < 8
        tokens = round(run.isl_tokens + run.osl_tokens + 200) if run.hopper else 16384
        return Settings(tokens, _fp8_kv(run), 20.0 if waits else 0.0)
    rounded = int((run.clients + run.isl_tokens + 127) // 64 * 64)
    return Settings(max(8192, rounded), _fp8_kv(run))


def _fp8_kv(run: Run) -> str | None:
    return "fp8" if run.served.precision in {"fp4", "fp8"} else None


_BY_ENGINE: dict[str, Callable[[Run], Settings]] = {"vllm": _vllm, "sglang": _sglang, "tensorrt-llm": _tensorrt_llm}
