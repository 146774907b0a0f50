"""NVIDIA AIConfigurator's estimates of step times as a profile: the optional extra `capsheet[aiconfigurator]`.

https://github.com/ai-dynamo/aiconfigurator (Apache-2.0), the package aiconfigurator-core. It interpolates kernels that
were timed on silicon for one version of an engine, and ships those tables: nothing is fetched. Its figures are another
model's estimates, so they are labelled `cited`. It models neither the host's work nor the server's: a step is shorter
than what a client sees.

Belongs here: naming model, accelerator and precision as AIConfigurator does, and the grid it is asked on. Does not:
what the points are used for.
"""

from __future__ import annotations

import importlib
import json
import logging
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, cast

from pipelines.sources.base import SourceError, shown
from pipelines.sources.profile_points import Read

NAME = "aiconfigurator"
PACKAGE = "aiconfigurator-core"
INSTALL = "Install it with `pip install 'capsheet[aiconfigurator]'`."
SYSTEMS = {
    "A100-80GB-SXM": "a100_sxm",
    "L40S": "l40s",
    "H100-SXM": "h100_sxm",
    "H200-SXM": "h200_sxm",
    "B200-SXM": "b200_sxm",
    "B300-SXM": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "RTX-PRO-6000-Blackwell-Server": "rtx_pro_6000_server",
}
"""Accelerators that it has timings of, by the catalogue's names."""
BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
GEMMS = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "w4a16": "int4_wo", "nvfp4": "nvfp4", "fp4": "nvfp4"}
EXPERTS = {**GEMMS, "mxfp4": "w4a16_mxfp4"}
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
}
"""Where a config names its type alone, as the shipped ones do: the class that transformers has of it."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (128, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)
PROMPTS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)


class Engine(Protocol):
    """What is asked of a compiled model: milliseconds."""

    def predict_decode_latency(self, bs: int, isl: int, osl: int = 2) -> float:
        """A decode step of `bs` sequences behind `isl` tokens."""

    def predict_prefill_latency(self, bs: int, isl: int, prefix: int = 0) -> float:
        """A prefill of `bs` prompts."""


def installed() -> str:
    """The package's version. Raises SourceError where the extra is not installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        raise SourceError(f"AIConfigurator is not installed. {INSTALL}") from None


def read(of: Mapping[str, Any], config: Mapping[str, Any], longest: int) -> tuple[Read, str]:
    """Points of a configuration (columns of `step_profile`) up to a context of `longest`, and what they are of.

    Raises:
        SourceError: the extra is not installed, or it does not know the configuration.
    """
    version = installed()
    engine, tables = _engine(of, config)
    result = Read(notes=[f"{PACKAGE} {version}, {tables}", "ms, neither host nor server"])
    line = 0
    try:
        for batch in BATCHES:
            for context in (c for c in CONTEXTS if c <= longest):
                line += 1
                ms = float(engine.predict_decode_latency(batch, context))
                raw = f"{batch} sequences, {context} tokens: {ms:g} ms"
                result.decode(line, raw, sequences=batch, context=context, span=0.0, ms=ms)
        for tokens in (n for n in PROMPTS if n <= longest):
            line += 1
            ms = float(engine.predict_prefill_latency(1, tokens))
            result.prompt(line, f"{tokens} tokens: {ms:g} ms", tokens=tokens, ms=ms, seen_from="engine")
    except Exception as error:
        raise SourceError(f"AIConfigurator cannot say how long {tables} takes: {_said(error)}.") from None
    return result, f"{PACKAGE} {version}, {tables}"


def _engine(of: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Engine, str]:
    """The model compiled for one configuration, and the tables it rests on."""
    system, backend = SYSTEMS.get(str(of["gpu_id"])), BACKENDS.get(str(of["engine"]))
    if system is None or backend is None:
        raise SourceError(
            f"AIConfigurator has no timings of {of['engine']} on {of['gpu_id']}. It has {', '.join(BACKENDS)} on "
            f"{', '.join(SYSTEMS)}."
        )
    gemm, experts = GEMMS.get(str(of["precision"])), EXPERTS.get(str(of["precision"]))
    if experts is None:
        raise SourceError(f"AIConfigurator is not asked for precision {shown(str(of['precision']))}. Measure it.")
    if config.get("quantization_config"):
        # A checkpoint in a precision of its own, block sizes and all, is read off its config.
        gemm, experts = None, None
    logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)
    try:
        database = cast(Any, importlib.import_module("aiconfigurator_core.sdk.perf_database"))
        compiled = cast(Any, importlib.import_module("aiconfigurator_core.sdk.engine"))
    except ImportError as error:
        raise SourceError(f"AIConfigurator cannot be imported: {_said(error)}. {INSTALL}") from None
    ranks = int(of["tp"]) * int(of["dp"])
    ep = int(of["ep"])
    try:
        slots = database.get_version_slots(system, backend) or {}
        asked = str(of["engine_version"])
        version = asked if asked in slots.values() else slots["current"]
        named = {"architectures": [ARCHITECTURES.get(str(config.get("model_type")), "")], **config}
        with tempfile.TemporaryDirectory() as folder:
            # Its own copies of configs are by hub id; ours is the one the plan is of.
            (Path(folder) / "config.json").write_text(json.dumps(named), encoding="utf-8")
            engine = compiled.EngineHandle.compile(
                folder,
                system,
                backend,
                backend_version=version,
                tp_size=int(of["tp"]),
                attention_dp_size=int(of["dp"]),
                moe_tp_size=ranks // ep,
                moe_ep_size=ep,
                gemm_quant_mode=gemm,
                moe_quant_mode=experts,
            )
    except Exception as error:
        raise SourceError(f"AIConfigurator does not know {of['model_id']} so: {_said(error)}.") from None
    return cast(Engine, engine), f"{system} {backend} {version}"


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
