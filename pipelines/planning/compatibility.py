"""What the engine, its version and the card make of a model: what refuses to start, and notes.

Belongs here: the support table's answers and rules of the cards, as sentences with label and source. Does not: the
table (`estimator.support`), the launch command (`launch`), whether memory suffices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.versions import before, version_key
from pipelines.planning.launch import (
    UNNAMED,
    half_precision,
    kv_dtype,
    model_argument,
    remote_code,
    runtime_precision,
    shares_experts,
)
from pipelines.planning.sizing import Sized

_RUNTIME_QUANTISATION = {"vllm": {"fp8"}, "sglang": {"fp8", "int8"}}
"""Precisions an engine makes of a 16-bit checkpoint as it loads it; the others need a checkpoint of their own."""
_PLAIN = ("bf16 weights", "fp16 weights")
_MEASURED = {"NVIDIA"}
"""Makers whose cards the catalogue has start-up logs of, by and large."""
_KV_TYPES = {
    "vllm": ({"bfloat16", "float16", "float32", "fp8"}, "vLLM documentation, engine arguments (0.5.3 to 0.8.5)"),
    "sglang": ({"bfloat16", "float16", "fp8", "fp4"}, "SGLang documentation, server arguments"),
    "tensorrt-llm": ({"bfloat16", "float16", "fp8", "int8", "fp4"}, "TensorRT-LLM documentation, quantization"),
}
"""Types of the KV cache that an engine's documentation names."""
_TRT_DOCS = "TensorRT-LLM documentation, trtllm-serve"


def compatibility(sized: Sized, card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Notes with label and source; `card` is the accelerator's row of the catalogue."""
    notes: list[dict[str, Any]] = []

    def note(text: str, label: str, source: str) -> None:
        notes.append({"note": text, "label": label, "source": source})

    gpu, engine = sized.gpu, f"{sized.engine} {sized.version}"
    generation = str(card["arch"])
    _support_notes(sized, note)
    _card_notes(sized, generation, note)
    if card["vendor"] not in _MEASURED:
        note(
            f"{sized.engine} runs on {gpu.gpu_id} through {card['vendor']}'s own build or plugin; activation, graphs "
            "and what lies outside the allocator are taken from NVIDIA cards",
            "assumed",
            "engine profile",
        )
    windowed = any(layer.attention.kind in {"sliding", "chunked"} for layer in sized.architecture.layers)
    if windowed and sized.engine == "vllm" and before(version_key(sized.version), (0, 9, 2)):
        note(
            "before 0.9.2 vLLM keeps every token in sliding-window layers too: a later version holds more requests",
            "inferred",
            "engine profile: kv_groups",
        )
    precision = runtime_precision(sized)
    if precision and precision not in _RUNTIME_QUANTISATION.get(sized.engine, set()) | {"bf16", "fp16", "fp32"}:
        note(
            f"{sized.engine} does not make {precision} of this checkpoint as it loads: name a checkpoint that is in it",
            "inferred",
            "engine's documentation of --quantization",
        )
    if sized.engine == "tensorrt-llm":
        _tensorrt_notes(sized, note)
    if model_argument(sized) == UNNAMED:
        note(
            f"the name of {sized.ask.model} tells no model: put its folder or hub id for {UNNAMED} in the command",
            "verified",
            "name of the file",
        )
    _cache_notes(sized, note)
    if remote_code(sized):
        note("the checkpoint runs code of its own (auto_map): read it before trusting it", "verified", "config.json")
    known = sorted({version_key(str(row["version_from"])) for row in sized.profile if row["engine"] == sized.engine})
    if before(known[-1], version_key(sized.version)):
        newest = ".".join(map(str, known[-1]))
        note(
            f"the newest figures of {sized.engine} in the catalogue hold from {newest} on and are taken for "
            f"{sized.version}",
            "assumed",
            "engine profile",
        )
    first = next((version for version in known if any(version)), known[-1])
    if before(version_key(sized.version), first):
        note(
            f"{engine} is older than {'.'.join(map(str, first))}, the first version the catalogue tells apart: it "
            "takes the oldest figures",
            "assumed",
            "engine profile",
        )
    return notes


def _support_notes(sized: Sized, note: Any) -> None:
    """What the support table says of the model's type and its weights."""
    engine = f"{sized.engine} {sized.version}"
    for support in sized.support:
        if support.accepted is None:
            if support.feature.startswith(_PLAIN):
                continue  # 16-bit weights run wherever the card has the type, which the card's notes say
            note(f"no source says whether {engine} takes {support.feature}", support.label, support.source)
        elif support.weights_only:
            note(
                f"{support.feature}: stored so, widened to 16 bits in the kernel; that saves memory and not compute",
                support.label,
                support.source,
            )
        elif support.accepted and support.since:
            note(f"{sized.engine} takes {support.feature} from {support.since} on", support.label, support.source)


def _card_notes(sized: Sized, generation: str, note: Any) -> None:
    """What the card has no units for, where the support table does not say it better."""
    gpu, weight = sized.gpu, sized.weights
    said = {support.feature.partition(" weights")[0] for support in sized.support if support.accepted is not None}
    rates = {"fp8": gpu.fp8_dense_tflops, "int8": gpu.int8_dense_tops, "fp4": gpu.fp4_dense_tflops}
    for compute in sorted({weight.dense_compute, weight.expert_compute} & set(rates)):
        told = bool(said & ({"nvfp4", "mxfp4"} if compute == "fp4" else {compute}))
        if rates[compute] is None and not told:
            note(
                f"{gpu.gpu_id} has no {compute.upper()} rate in the catalogue: engines that run it there widen weights "
                "to 16 bits in the kernel, which saves memory and not compute",
                "inferred",
                "catalogue: dense rates",
            )
    if half_precision(sized, generation):
        note(
            f"{generation} cards have no bfloat16: the command says --dtype half (float16)",
            "cited",
            "CUDA compute capability below 8.0",
        )
    if sized.settings.kv_cache_dtype == "fp8" and gpu.fp8_dense_tflops is None:
        note("an FP8 KV cache is widened as it is read on this card", "inferred", "catalogue: dense rates")


def _cache_notes(sized: Sized, note: Any) -> None:
    """What is known of a KV cache in the type asked for."""
    dtype = sized.settings.kv_cache_dtype
    named, docs = _KV_TYPES.get(sized.engine, ({dtype}, ""))
    if dtype not in named:
        note(f"the documentation of {sized.engine} names no KV cache in {dtype}", "cited", docs)
    if dtype == "fp4":
        note("the scales of an FP4 cache's blocks, about an eighth more, are not counted", "assumed", "engine profile")
    latent = any(layer.attention.kind == "mla" for layer in sized.architecture.layers)
    if (sized.ask.kv_cache_dtype or "").lower() == "fp8_ds_mla" and not latent:
        note("fp8_ds_mla is a layout of latent attention, which this model has not", "verified", "config.json")


def _tensorrt_notes(sized: Sized, note: Any) -> None:
    """What trtllm-serve has no flag for."""
    where = "in the YAML of --extra_llm_api_options (--config in later versions)"
    if kv_dtype(sized):
        note(f"set kv_cache_config.dtype to {sized.settings.kv_cache_dtype} {where}", "cited", _TRT_DOCS)
    if sized.ask.dp > 1:
        how = f"set enable_attention_dp: true {where}" if shares_experts(sized) else f"start it {sized.ask.dp} times"
        note(f"TensorRT-LLM has no flag for data parallel: {how}", "cited", _TRT_DOCS)
    if before(version_key(sized.version), (0, 18)):
        note(
            "the command follows the documentation of 0.18.2; an older version may want an engine built first",
            "assumed",
            _TRT_DOCS,
        )


def refusals(sized: Sized, card: Mapping[str, Any]) -> list[str]:
    """Why an engine of this version does not start with this model on this card, whatever the memory; sources said."""
    engine, out = f"{sized.engine} {sized.version}", []
    if sized.engine == "tensorrt-llm" and card["vendor"] != "NVIDIA":
        out.append(f"TensorRT-LLM runs on NVIDIA cards only, and {sized.gpu.gpu_id} is made by {card['vendor']}")
    for support in sized.support:
        if support.accepted is False and not (
            support.feature.startswith("bf16") and half_precision(sized, str(card["arch"]))
        ):
            later = f"; it does from {support.since} on" if support.since else ""
            out.append(f"{engine} does not take {support.feature}{later} ({support.source})")
    return out
