"""`capsheet sweep`: every candidate of a service at every rate, and the largest rate each one keeps."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.commands import show
from pipelines.commands.bar import progress_bar
from pipelines.executor import Executor
from pipelines.planning import workload
from pipelines.planning.catalog import shipped
from pipelines.planning.contenders import Variants, contend, with_prices
from pipelines.planning.models import model_of, model_row
from pipelines.planning.sweep import summary, sweep
from pipelines.sources import check_tolerance, read_model, read_prices, read_trace
from pipelines.workspace import Place
from warehouse.errors import CapsheetError

MOST_RATES = 1000


def run(
    workspace: Path,
    service: str,
    rates: str,
    variants: Variants,
    *,
    executor: Executor | None,
    out: Path | None,
    json: bool,
) -> None:
    """Replay the grid, write its rows to `out`, and print what it comes to."""
    place = Place(workspace)
    names = [spec.name for spec in place.spec.services]
    wanted = service or (names[0] if len(names) == 1 else "")
    if wanted not in names:
        problem = f"no service is called {service[:40]!r}" if service else "there are several services"
        raise CapsheetError(f"{place.file}: {problem}. Name one with --service: {', '.join(names)}.")
    at = names.index(wanted)
    spec = place.spec.services[at]
    asked_rps = rates_of(rates) if rates else []
    if out is not None and not out.parent.is_dir():
        raise CapsheetError(f"{out} cannot be written: {out.parent} is no folder. Name another file.")
    options = {**spec.trace.options, "spread": spec.trace.spread}
    read = read_trace(place.path(spec.trace.source), spec.trace.source, spec.trace.format, options)
    check_tolerance(read, place.spec.max_rejected_share)
    demand = workload.demand(spec, read.frame.filter("replayable"))
    model = model_of(model_row(read_model(spec.model, spec.revision, offline=place.spec.offline, folder=place.folder)))
    prices = read_prices(place.spec.prices.usd_per_gpu_hour, place.spec.prices.source).frame.to_dicts()
    where = place.line_of("services", at, "candidates")
    found = contend(spec, variants, model, with_prices(shipped(), prices), demand, where)
    rates_rps = asked_rps or found.usual_rates()
    with progress_bar(quiet=json):
        rows = sweep(found.grid(spec, demand), rates_rps, executor=executor or place.spec.executor)
    if out is not None:
        _write(out, rows)
    said = {
        "service": spec.name,
        "model": model.model_id,
        "requests": len(demand.window_workload),
        "requests_counted": int(demand.counted.sum()),
        "rates_rps": rates_rps,
        "candidates": summary(rows),
        "left_out": list(found.left_out),
        "rows": rows,
    }
    show.as_json(said) if json else _tell(said, out)


def rates_of(text: str) -> list[float]:
    """Rates a second: `1,2,4`, or `1:64:12` for 12 from 1 to 64, evenly apart on a log scale.

    Raises CapsheetError for anything else.
    """
    try:
        if ":" in text:
            low, high, count = text.split(":")
            if not (0 < float(low) <= float(high) < math.inf and 1 <= int(count) <= MOST_RATES):
                raise ValueError
            rates = [float(f"{rate:.6g}") for rate in np.geomspace(float(low), float(high), int(count))]
        else:
            rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or len(rates) > MOST_RATES or not all(0 < rate < math.inf for rate in rates):
        raise CapsheetError(f"--rates {text[:60]!r}: write 1,2,4 or FROM:TO:HOW_MANY, in requests a second.")
    return sorted(set(rates))


def variants_of(gpu: str, tp: str, precision: str, max_num_seqs: str, max_num_batched_tokens: str) -> Variants:
    """Lists as typed, comma between. Raises CapsheetError for a number that is none."""

    def texts(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    def numbers(option: str, text: str) -> list[int]:
        try:
            return [int(part) for part in texts(text)]
        except ValueError:
            raise CapsheetError(f"{option} {text[:60]!r}: write whole numbers, as 1,2,4.") from None

    return Variants(
        texts(gpu),
        numbers("--tp", tp),
        texts(precision),
        numbers("--max-num-seqs", max_num_seqs),
        numbers("--max-num-batched-tokens", max_num_batched_tokens),
    )


def _write(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        with out.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise CapsheetError(f"{out} cannot be written: {error.strerror}. Name another file.") from None


def _tell(said: dict[str, Any], out: Path | None) -> None:
    import typer

    rates, rows = said["rates_rps"], said["rows"]
    title = (
        f"{said['service']}, {said['model']}: {len(said['candidates'])} candidates x {len(rates)} rates from "
        f"{rates[0]:.4g} to {rates[-1]:.4g} requests/s a replica, {said['requests']:,} requests each"
    )
    kept: dict[str, str] = {}
    for row in rows:
        kept[row["candidate_id"]] = kept.get(row["candidate_id"], "") + ("#" if row["feasible"] else ".")
    table = []
    for one in said["candidates"]:
        notes = ["more than asked"] * one["saturated"] + ["not monotone"] * (not one["monotone"])
        shown = {name: one[name] for name in ("candidate_id", "kept_rps", "kept_rps_per_gpu")}
        shown |= {"USD per million requests": one["usd_per_million_requests"], "binding": one["binding"]}
        table.append(shown | {"kept, by rate": kept[one["candidate_id"]], "note": ", ".join(notes)})
    show.as_table(table, title)
    for one in said["left_out"]:
        typer.echo(f"left out: {one['candidate_id']}: {one['reason']}")
    if out is not None:
        typer.echo(f"{len(rows):,} rows: {out}")
