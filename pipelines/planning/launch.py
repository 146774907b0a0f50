"""How to start what was sized, and what the engine and the card make of it.

Belongs here: the launch command of each engine, quoted for a shell, and compatibility notes. Does not: whether it fits.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from estimator.versions import before, version_key
from pipelines.planning.sizing import Sized

_RUNTIME_QUANTISATION = {"vllm": {"fp8"}, "sglang": {"fp8", "int8"}}
"""Precisions an engine makes of a 16-bit checkpoint as it loads it; the others need a checkpoint of their own."""
_NO_BF16 = {"Turing", "Volta"}


def launch_command(sized: Sized) -> str:
    """The command that starts one replica, one option a line; every word from outside is quoted."""
    words = {"sglang": _sglang, "tensorrt-llm": _tensorrt}.get(sized.engine, _vllm)(sized)
    lines = [" ".join(shlex.quote(word) for word in line) for line in words]
    return " \\\n  ".join(lines)


def _model(sized: Sized) -> str:
    """What the engine is given: the hub id, or the folder of a local config."""
    if sized.read.revision != "local":
        return sized.read.model_id
    path = Path(sized.ask.model).expanduser()
    folder = path.parent if path.suffix == ".json" else path
    text = str(folder)
    return text if text.startswith(("/", ".")) else f"./{text}"


def _share(sized: Sized) -> str:
    assert sized.account is not None
    return f"{next(term.value for term in sized.account.terms if term.term == 'utilization'):g}"


def _remote_code(sized: Sized) -> bool:
    """Whether the checkpoint brings code of its own; an engine then runs it only when told to trust it."""
    return bool(sized.read.config.get("auto_map"))


def _shares_experts(sized: Sized) -> bool:
    """Whether data-parallel attention ranks share one set of experts."""
    return sized.ask.dp > 1 and any(layer.feed_forward.experts for layer in sized.architecture.layers)


def _runtime_precision(sized: Sized) -> str | None:
    """The precision the engine must be told to make at load; None where the checkpoint already is in it."""
    asked = sized.ask.quantization.lower()
    name = sized.weights.precision
    if asked == "auto" or sized.weights.scheme == sized.architecture.scheme:
        return None
    return name


def _kv_dtype(sized: Sized) -> str | None:
    asked = sized.ask.kv_cache_dtype
    return None if asked is None or asked.lower() == "auto" else asked.lower()


def _vllm(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    lines = [["vllm", "serve", _model(sized)], ["--tensor-parallel-size", str(ask.tp)]]
    lines += [["--pipeline-parallel-size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--data-parallel-size", str(ask.dp)]] if ask.dp > 1 else []
    lines += [["--enable-expert-parallel"]] if ask.ep > 1 else []
    lines += [
        ["--max-model-len", str(settings.max_model_len)],
        ["--gpu-memory-utilization", _share(sized)],
        ["--max-num-seqs", str(settings.max_num_seqs)],
        ["--max-num-batched-tokens", str(settings.max_num_batched_tokens)],
    ]
    kv, precision = _kv_dtype(sized), _runtime_precision(sized)
    lines += [["--kv-cache-dtype", kv]] if kv else []
    lines += [["--quantization", "fp8"]] if precision == "fp8" else []
    return lines + ([["--trust-remote-code"]] if _remote_code(sized) else [])


def _sglang(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    shared = _shares_experts(sized)  # SGLang counts data-parallel attention ranks among the tensor-parallel ones
    ranks = ask.tp * (ask.dp if shared else 1)
    lines = [["python", "-m", "sglang.launch_server"], ["--model-path", _model(sized)], ["--tp-size", str(ranks)]]
    lines += [["--pp-size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--dp-size", str(ask.dp)]] if ask.dp > 1 else []
    lines += [["--enable-dp-attention"]] if shared else []
    lines += [["--ep-size", str(ask.ep)]] if ask.ep > 1 else []
    lines += [
        ["--context-length", str(settings.max_model_len)],
        ["--mem-fraction-static", _share(sized)],
        ["--max-running-requests", str(settings.max_num_seqs)],
        ["--chunked-prefill-size", str(settings.max_num_batched_tokens)],
    ]
    kv, precision = _kv_dtype(sized), _runtime_precision(sized)
    kv = {"fp8": "fp8_e4m3", "bfloat16": "bf16"}.get(kv or "", kv)
    lines += [["--kv-cache-dtype", kv]] if kv else []
    runtime = {"fp8": "fp8", "int8": "w8a8_int8"}.get(precision or "")
    lines += [["--quantization", runtime]] if runtime else []
    return lines + ([["--trust-remote-code"]] if _remote_code(sized) else [])


def _tensorrt(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    ranks = ask.tp * (ask.dp if _shares_experts(sized) else 1)
    lines = [["trtllm-serve", _model(sized)], ["--tp_size", str(ranks)]]
    lines += [["--pp_size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--ep_size", str(ask.ep)]] if ask.ep > 1 else []
    lines += [
        ["--max_seq_len", str(settings.max_model_len)],
        ["--max_batch_size", str(settings.max_num_seqs)],
        ["--max_num_tokens", str(settings.max_num_batched_tokens)],
        ["--kv_cache_free_gpu_memory_fraction", _share(sized)],
    ]
    return lines + ([["--trust_remote_code"]] if _remote_code(sized) else [])


def compatibility(sized: Sized, generations: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the engine, its version and the card make of this model: notes with label and source.

    `generations` maps an accelerator to its generation, such as Hopper.
    """
    gpu, weight, settings = sized.gpu, sized.weights, sized.settings
    notes: list[dict[str, Any]] = []

    def note(text: str, label: str, source: str) -> None:
        notes.append({"note": text, "label": label, "source": source})

    generation = generations.get(gpu.gpu_id, "")
    needs = {"fp8": ("FP8", gpu.fp8_dense_tflops), "int8": ("INT8", gpu.int8_dense_tops)}
    needs["fp4"] = ("FP4", gpu.fp4_dense_tflops)
    for compute in sorted({weight.dense_compute, weight.expert_compute} & set(needs)):
        name, rate = needs[compute]
        if rate is None:
            note(
                f"{gpu.gpu_id} has no {name} rate in the catalogue: engines that run it there widen weights to 16 bits "
                "in the kernel, which saves memory and not compute",
                "inferred",
                "catalogue: dense rates",
            )
    if generation in _NO_BF16 and sized.architecture.dtype == "bfloat16":
        note(
            f"{generation} cards have no bfloat16: add --dtype half (--dtype float16)",
            "cited",
            "CUDA compute capability below 8.0",
        )
    if settings.kv_cache_dtype == "fp8" and gpu.fp8_dense_tflops is None:
        note("an FP8 KV cache is widened as it is read on this card", "inferred", "catalogue: dense rates")
    windowed = any(layer.attention.kind in {"sliding", "chunked"} for layer in sized.architecture.layers)
    if windowed and sized.engine == "vllm" and before(version_key(sized.version), (0, 9, 2)):
        note(
            "before 0.9.2 vLLM keeps every token in sliding-window layers too: a later version holds more requests",
            "inferred",
            "engine profile: kv_groups",
        )
    precision = _runtime_precision(sized)
    if precision and precision not in _RUNTIME_QUANTISATION.get(sized.engine, set()) | {"bf16", "fp16", "fp32"}:
        note(
            f"{sized.engine} does not make {precision} of this checkpoint as it loads: name a checkpoint that is in it",
            "inferred",
            "engine's documentation of --quantization",
        )
    if sized.engine == "tensorrt-llm" and _kv_dtype(sized):
        note(
            f"set kv_cache_config.dtype to {settings.kv_cache_dtype} in the YAML of --extra_llm_api_options",
            "cited",
            "TensorRT-LLM documentation, trtllm-serve",
        )
    if sized.engine == "tensorrt-llm" and sized.ask.dp > 1:
        how = (
            "set enable_attention_dp: true in the YAML of --extra_llm_api_options"
            if _shares_experts(sized)
            else f"start it {sized.ask.dp} times"
        )
        note(f"TensorRT-LLM has no flag for data parallel: {how}", "cited", "TensorRT-LLM documentation")
    if _remote_code(sized):
        note("the checkpoint runs code of its own (auto_map): read it before trusting it", "verified", "config.json")
    newest = max(version_key(str(row["version_from"])) for row in sized.profile if row["engine"] == sized.engine)
    if before(newest, version_key(sized.version)):
        known = ".".join(map(str, newest))
        note(
            f"the newest figures of {sized.engine} in the catalogue hold from {known} on and are taken for "
            f"{sized.version}",
            "assumed",
            "engine profile",
        )
    return notes
