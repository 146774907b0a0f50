"""The command line. Signatures and help only: each command's work is imported when it runs, so that help is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(
    name="capsheet",
    help="GPU capacity planning for LLM inference that keeps itself honest.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", "-w", help="Folder that holds capsheet.yaml.", file_okay=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer as JSON, for machines.")]
ExecutorOption = Annotated[
    Literal["local", "ray"] | None, typer.Option(help="Where replays run; else as the workspace says, else local.")
]
HERE = Path()


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"capsheet {version('capsheet')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """GPU capacity planning for LLM inference that keeps itself honest."""


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make the workspace in.", file_okay=False)] = HERE,
    json: JsonOption = False,
) -> None:
    """Make a workspace: a commented capsheet.yaml and sample inputs."""
    from pipelines.commands.init import run

    run(folder, json=json)


@app.command()
def plan(workspace: WorkspaceOption = HERE, executor: ExecutorOption = None, json: JsonOption = False) -> None:
    """Ingest, validate, estimate, replay, and publish the next plan version with its workbook."""
    from pipelines.commands.plan import run

    run(workspace, json=json, executor=executor)


ingest = typer.Typer(help="Read one source alone and say what it holds.", no_args_is_help=True)
app.add_typer(ingest, name="ingest")


@ingest.command("trace")
def ingest_trace(
    source: Annotated[str, typer.Argument(help="File, folder, pattern or address (s3://...) of a request trace.")],
    trace_format: Annotated[str, typer.Option("--format", help="Its format; else detected by its header.")] = "auto",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="NAME=VALUE, such as time_unit=ms or spread=uniform.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="NAME=COLUMN of a mapped file, such as isl_tokens=in.")
    ] = None,
    workspace: WorkspaceOption = HERE,
    json: JsonOption = False,
) -> None:
    """Read a trace: what was detected, and rows in = kept + rejected. In a workspace it is stored."""
    from pipelines.commands.ingest import trace

    trace(source, format=trace_format, options=option or [], columns=column or [], workspace=workspace, json=json)


@app.command()
def history(workspace: WorkspaceOption = HERE, json: JsonOption = False) -> None:
    """The plan versions published so far."""
    from pipelines.commands.history import run

    run(workspace, json=json)


@app.command()
def explain(
    version: Annotated[int, typer.Argument(help="Plan version.", min=1)],
    number: Annotated[
        str, typer.Argument(help="Name of the figure, such as chat.gpus_total; left out, lists all.")
    ] = "",
    workspace: WorkspaceOption = HERE,
    json: JsonOption = False,
) -> None:
    """Where a published figure came from: value, unit, label, formula and inputs."""
    from pipelines.commands.explain import run

    run(version, number, workspace, json=json)


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help='A named query, or "SELECT ...".')] = "",
    list_queries: Annotated[bool, typer.Option("--list", help="List the named queries.")] = False,
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE for a query's $NAME.")] = None,
    workspace: WorkspaceOption = HERE,
    json: JsonOption = False,
) -> None:
    """Ask the warehouse, read-only."""
    from pipelines.commands.sql import run

    run(query, list_queries=list_queries, params=param or [], workspace=workspace, json=json)


@app.command()
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


@app.command()
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


@app.command()
def sweep(
    rates: Annotated[
        str, typer.Option(help="Requests a second a replica: 1,2,4 or FROM:TO:HOW_MANY; else 12 about the bounds.")
    ] = "",
    gpu: Annotated[str, typer.Option(help="Accelerators, as A,B; else the workspace's.")] = "",
    tp: Annotated[str, typer.Option(help="Tensor-parallel sizes, as 1,2,4.")] = "",
    precision: Annotated[str, typer.Option(help="Precisions, as bf16,fp8.")] = "",
    max_num_seqs: Annotated[str, typer.Option(help="Sequences at once, as 64,128,256.")] = "",
    max_num_batched_tokens: Annotated[str, typer.Option(help="Tokens of a step, as 2048,8192.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write one row a candidate and rate to this CSV.")] = None,
    service: Annotated[str, typer.Option(help="Service of the workspace, where there are several.")] = "",
    executor: ExecutorOption = None,
    workspace: WorkspaceOption = HERE,
    json: JsonOption = False,
) -> None:
    """Replay every candidate of a service at every rate: what each one keeps, and what a request costs there."""
    from pipelines.commands.sweep import run, variants_of

    variants = variants_of(gpu, tp, precision, max_num_seqs, max_num_batched_tokens)
    run(workspace, service, rates, variants, executor=executor, out=out, json=json)


@app.command()
def accuracy(
    file: Annotated[Path, typer.Argument(help="CSV of start-ups or benchmarks: configuration and what was measured.")],
    models: Annotated[Path | None, typer.Option(help="Folder of org--name.json configs.", file_okay=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Write one record a row to this CSV.", dir_okay=False)] = None,
    correct: Annotated[
        float | None, typer.Option(help="Correct on this share of each combination's points, score the rest.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Predict measured rows from their configuration alone, and print the errors."""
    from pipelines.commands.accuracy import run

    run(file, models=models, out=out, json=json, correct=correct)


@app.command()
def ui(
    workspace: WorkspaceOption = HERE,
    port: Annotated[int, typer.Option(help="Port on this machine.", min=1, max=65535)] = 3000,
) -> None:
    """Open the asset graph of this workspace (Dagster), offline, on this machine only."""
    from pipelines.commands.ui import run

    run(workspace, port)


@app.command()
def doctor(
    workspace: WorkspaceOption = HERE,
    data_docs: Annotated[
        Path | None,
        typer.Option(
            help="Write every table's data contract, and what its rows make of it, here as a site (HTML).",
            file_okay=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """What is missing, locked, stale or misconfigured, and what mends it."""
    from pipelines.commands.doctor import contracts, run

    contracts(data_docs, workspace, json=json) if data_docs is not None else run(workspace, json=json)


def main() -> None:
    """Entry point. Exit 0 done, 1 failed with one message, 2 wrong usage; never a traceback."""
    from warehouse.errors import CapsheetError

    try:
        app(standalone_mode=True)
    except CapsheetError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except KeyboardInterrupt:
        _fail("stopped; nothing was published")
    except Exception as error:
        _fail(_crash(error))


def _fail(message: str) -> None:
    typer.echo(f"capsheet: {message}", err=True)
    sys.exit(1)


def _crash(error: Exception) -> str:
    """Keep what a maintainer needs in a file, and say one line to the user."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="capsheet-", suffix=".log", delete=False, encoding="utf-8") as log:
        traceback.print_exc(file=log)
    first = (str(error).splitlines() or [""])[0][:200]
    return (
        f"failed in a way it does not know ({type(error).__name__}: {first}). The former plan is untouched. "
        f"Details are in {log.name}: please report them."
    )
