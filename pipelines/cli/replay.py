"""The signature and help of `capsheet replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipelines.cli.options import HERE, JsonOption, WorkspaceOption


def replay(
    model: Annotated[
        str | None, typer.Option(help="Hub id or path of a config.json; left out, the workspace's service says.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="Accelerator, such as H100-SXM.")] = None,
    tp: Annotated[int, typer.Option(help="Tensor-parallel ranks.", min=1)] = 1,
    dp: Annotated[
        int, typer.Option(help="Data-parallel attention ranks in lockstep, of a model with experts.", min=1)
    ] = 1,
    ep: Annotated[int, typer.Option(help="Expert-parallel ranks, those of --tp x --dp.", min=1)] = 1,
    engine: Annotated[str | None, typer.Option(help="Engine as name@version; else vllm.")] = None,
    quantization: Annotated[str, typer.Option(help="auto, bf16, fp8, int8, int4, ...")] = "auto",
    kv_cache_dtype: Annotated[str | None, typer.Option(help="auto, bfloat16, fp8, ...")] = None,
    max_model_len: Annotated[int | None, typer.Option(help="Longest context, tokens.", min=1)] = None,
    max_num_seqs: Annotated[int | None, typer.Option(help="Sequences at once.", min=1)] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option(help="Tokens of a step.", min=1)] = None,
    exclusive_prefill: Annotated[
        bool | None,
        typer.Option("--exclusive-prefill/--mixed-prefill", help="Prompts have steps of their own; else as it does."),
    ] = None,
    gpu_memory_utilization: Annotated[float | None, typer.Option(help="The engine's share of memory.")] = None,
    no_prefix_caching: Annotated[bool, typer.Option("--no-prefix-caching", help="Every prompt is new.")] = False,
    host_cache_gib: Annotated[float, typer.Option(help="Host memory for KV, a GPU's share.", min=0.0)] = 0.0,
    host_gbs: Annotated[float | None, typer.Option(help="What a GPU loads from it, GB/s.", min=1e-6)] = None,
    async_loads: Annotated[bool, typer.Option("--async-loads", help="Loads hold up their request only.")] = False,
    drafts: Annotated[int, typer.Option(help="Speculative decoding: tokens drafted a step.", min=0, max=31)] = 0,
    accepted: Annotated[
        float | None,
        typer.Option(help="Chance that a draft is accepted if those before it were.", min=0, max=1),
    ] = None,
    draft_ms: Annotated[float, typer.Option(help="The drafter's time in a step.", min=0.0)] = 0.0,
    trace: Annotated[Path | None, typer.Option(help="Requests to replay.", dir_okay=False)] = None,
    trace_format: Annotated[str, typer.Option("--format", help="Format of the trace.")] = "auto",
    rate: Annotated[float | None, typer.Option(help="Requests a second; a trace is sped up to it.", min=1e-9)] = None,
    isl: Annotated[int | None, typer.Option(help="Input length without a trace, tokens.", min=1)] = None,
    osl: Annotated[int | None, typer.Option(help="Output length without a trace, tokens.", min=1)] = None,
    requests: Annotated[int | None, typer.Option(help="How many; 1,000, or the whole trace.", min=1)] = None,
    arrival: Annotated[
        Literal["poisson", "constant", "gamma", "closed"] | None,
        typer.Option(help="How they arrive; the trace as it is, else poisson."),
    ] = None,
    gap_variation: Annotated[float, typer.Option(help="Of gamma gaps: deviation over mean.", min=1e-6)] = 2.0,
    clients: Annotated[int, typer.Option(help="Closed loop: clients that wait for their answers.", min=0)] = 0,
    prompts: Annotated[int | None, typer.Option(help="Closed loop: prompts of each client.", min=1)] = None,
    grid_s: Annotated[
        float | None, typer.Option(help="Spread a trace's arrivals over ticks of this.", min=1e-9)
    ] = None,
    superpose: Annotated[bool, typer.Option("--superpose", help="Reach --rate by copies of the trace.")] = False,
    seed: Annotated[int, typer.Option(help="Of the arrivals.", min=0)] = 0,
    replicas: Annotated[int, typer.Option(help="Equal replicas behind a router.", min=1, max=4096)] = 1,
    router: Annotated[
        Literal["least_load", "round_robin", "prefix"], typer.Option(help="How requests find a replica.")
    ] = "least_load",
    prefill_replicas: Annotated[int, typer.Option(help="Replicas that compute prompts only.", min=0, max=4096)] = 0,
    decode_replicas: Annotated[
        int, typer.Option(help="Replicas that decode what those computed.", min=0, max=4096)
    ] = 0,
    prefill_gpu: Annotated[str | None, typer.Option(help="Accelerator of the prefill replicas; else --gpu.")] = None,
    prefill_tp: Annotated[int | None, typer.Option(help="Their tensor-parallel ranks; else --tp.", min=1)] = None,
    prefill_max_num_seqs: Annotated[int | None, typer.Option(help="Their sequences at once.", min=1)] = None,
    prefill_max_num_batched_tokens: Annotated[int | None, typer.Option(help="Tokens of their steps.", min=1)] = None,
    link_gbs: Annotated[
        float | None, typer.Option(help="What a GPU's link carries from prefill to decode, GB/s.", min=1e-6)
    ] = None,
    link_of: Annotated[
        Literal["prefill", "decode", "fleet"], typer.Option(help="Whose link it is: each replica's, or one for all.")
    ] = "prefill",
    post_ms: Annotated[
        float, typer.Option(help="From blocks being there until a transfer is asked for.", min=0.0)
    ] = 0.0,
    transfers_at_once: Annotated[int, typer.Option(help="Transfers that share a link; 0 for all.", min=0)] = 0,
    first_token: Annotated[
        Literal["prefill", "with_kv", "decode"] | None,
        typer.Option(help="Where clients get it: as sampled, with the KV (SGLang), computed again (vLLM)."),
    ] = None,
    warmup_s: Annotated[float, typer.Option(help="Requests this early are not counted.", min=0.0)] = 0.0,
    drain_s: Annotated[float, typer.Option(help="Requests this late are not counted.", min=0.0)] = 0.0,
    ttft_ms: Annotated[float | None, typer.Option(help="Target time to first token.", min=0.001)] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Target time per output token.", min=0.001)] = None,
    e2e_ms: Annotated[float | None, typer.Option(help="Target time of the whole answer.", min=0.001)] = None,
    percentile: Annotated[float, typer.Option(help="Percentile the targets hold for.", min=0.1, max=100.0)] = 99.0,
    attainment: Annotated[float, typer.Option(help="Share of requests inside all targets.", min=0.001, max=1.0)] = 0.99,
    profile: Annotated[
        str | None, typer.Option(help="Step times measured on this configuration: a file, folder or aiconfigurator.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write one row a request to this CSV.", dir_okay=False)] = None,
    service: Annotated[str, typer.Option(help="Service of the workspace, where there are several.")] = "",
    workspace: WorkspaceOption = HERE,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no hub.")] = False,
    json: JsonOption = False,
) -> None:
    """Replay a trace or made-up arrivals on one configuration: percentiles, attainment, goodput, what bound."""
    from pipelines.commands.replay import run

    run(
        {
            "model": model,
            "gpu": gpu,
            "tp": tp,
            "dp": dp,
            "ep": ep,
            "engine": engine,
            "quantization": quantization,
            "kv_cache_dtype": kv_cache_dtype,
            "max_model_len": max_model_len,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "exclusive_prefill": exclusive_prefill,
            "gpu_memory_utilization": gpu_memory_utilization,
        },
        {
            "arrival": arrival,
            "rate_rps": rate,
            "isl_tokens": isl,
            "osl_tokens": osl,
            "requests": requests,
            "clients": clients,
            "gap_variation": gap_variation,
            "seed": seed,
            "prompts": prompts,
            "superpose": superpose,
            "grid_s": grid_s,
        },
        {
            "replicas": replicas,
            "router": router,
            "prefix_caching": not no_prefix_caching,
            "warmup_s": warmup_s,
            "drain_s": drain_s,
            "host_cache_gib": host_cache_gib,
            "host_gbs": host_gbs,
            "async_loads": async_loads,
        },
        {"drafts": drafts, "accepted": accepted, "draft_ms": draft_ms},
        {
            "prefill_replicas": prefill_replicas,
            "decode_replicas": decode_replicas,
            "prefill_gpu": prefill_gpu,
            "prefill_tp": prefill_tp,
            "prefill_max_num_seqs": prefill_max_num_seqs,
            "prefill_max_num_batched_tokens": prefill_max_num_batched_tokens,
            "link_gbs": link_gbs,
            "link": link_of,
            "post_ms": post_ms,
            "transfers_at_once": transfers_at_once,
            "first_token": first_token,
        },
        {"ttft": ttft_ms, "tpot": tpot_ms, "e2e": e2e_ms},
        quantile=percentile,
        attainment=attainment,
        trace=trace,
        trace_format=trace_format,
        profile=profile,
        out=out,
        service=service,
        workspace=workspace,
        offline=offline,
        json=json,
    )
