"""The command line. Signatures and help only: each command's work is imported when it runs, so that help is instant."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.options import HERE, ExecutorOption, JsonOption, WorkspaceOption
from pipelines.cli.replay import replay
from pipelines.cli.size import size

app = typer.Typer(
    name="capsheet",
    help="GPU capacity planning for LLM inference that keeps itself honest.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


app.command()(size)


app.command()(replay)


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
