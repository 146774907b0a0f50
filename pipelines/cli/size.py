"""The signature and help of `capsheet size`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from pipelines.cli.options import JsonOption


def size(
    model: Annotated[str, typer.Argument(help="Hub id, or the path of a config.json or of its folder.")],
    gpu: Annotated[str, typer.Option(help="Accelerator, such as H100-SXM.")],
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks.", min=1)] = 1,
    pp: Annotated[int, typer.Option(help="Pipeline stages.", min=1)] = 1,
    dp: Annotated[int, typer.Option(help="Data-parallel attention ranks sharing the experts.", min=1)] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel ranks; 1 slices experts.", min=1)] = 1,
    engine: Annotated[str, typer.Option(help="vllm, sglang or tensorrt-llm, as name@version.")] = "vllm",
    max_model_len: Annotated[int | None, typer.Option(help="Longest context, tokens.", min=1)] = None,
    gpu_memory_utilization: Annotated[
        float | None, typer.Option(help="The engine's share of memory (SGLang: static, TensorRT-LLM: of what is free).")
    ] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Sequences at once.", min=1)] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Tokens of a step.", min=1)] = None,
    exclusive_prefill: Annotated[
        bool | None,
        typer.Option("--exclusive-prefill/--mixed-prefill", help="Prompts have steps of their own; else as it does."),
    ] = None,
    kv_cache_dtype: Annotated[str | None, typer.Option(help="auto, bfloat16, fp8, ...")] = None,
    quantization: Annotated[str, typer.Option(help="auto, bf16, fp8, int8, int4, mxfp4, nvfp4, ...")] = "auto",
    isl: Annotated[int | None, typer.Option(help="Mean input length, tokens.", min=1)] = None,
    osl: Annotated[int | None, typer.Option(help="Mean output length, tokens.", min=1)] = None,
    concurrency: Annotated[int | None, typer.Option(help="Requests at once; else the most that fit.", min=1)] = None,
    ttft_ms: Annotated[float | None, typer.Option(help="Target time to first token.", min=0.001)] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Target time per output token.", min=0.001)] = None,
    coefficient: Annotated[
        list[str] | None, typer.Option("--coefficient", "-c", help="NAME=VALUE; --explain lists them all.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Step times measured on this configuration: a file, folder or aiconfigurator.")
    ] = None,
    lang: Annotated[Literal["en", "zh"], typer.Option(help="Language of the page.")] = "en",
    explain: Annotated[bool, typer.Option("--explain", help="Show how each figure was had.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no hub.")] = False,
    json: JsonOption = False,
) -> None:
    """Size one model on one GPU: memory account, limits, bottleneck, launch command. Needs no workspace."""
    from pipelines.commands.size import run

    options = {
        "model": model,
        "gpu": gpu,
        "engine": engine,
        "tp": tp,
        "pp": pp,
        "dp": dp,
        "ep": ep,
        "max_model_len": max_model_len,
        "gpu_memory_utilization": gpu_memory_utilization,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "exclusive_prefill": exclusive_prefill,
        "kv_cache_dtype": kv_cache_dtype,
        "quantization": quantization,
        "isl_tokens": isl,
        "osl_tokens": osl,
        "concurrency": concurrency,
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
    }
    run(
        options,
        coefficients=coefficient or [],
        profile=profile,
        offline=offline,
        lang=lang,
        explain=explain,
        json=json,
    )
