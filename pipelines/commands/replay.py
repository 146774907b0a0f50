"""`capsheet replay`: one configuration against a trace or a rate: percentiles, attainment, goodput, what bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from estimator.goodput import METRICS, ServiceLevel
from estimator.step_time import measured_on
from pipelines.commands import show
from pipelines.commands.size import model_folder
from pipelines.planning.catalog import shipped
from pipelines.planning.drafting import speculation_of
from pipelines.planning.profile_sources import measured_configuration, with_measured, workspace_profiles
from pipelines.planning.profiles import profile_for, told
from pipelines.planning.replay_rows import bucket_figures, search_figures, write_requests
from pipelines.planning.replaying import (
    Answer,
    Fleet,
    Load,
    answer,
    configuration,
    figures,
    percentiles_ms,
    workload_of,
)
from pipelines.planning.separating import Split, answer_split, handoff, split_figures
from pipelines.planning.sizing import Ask, Sized, size
from pipelines.sources import read_trace
from pipelines.sources.locations import find
from pipelines.sources.models import read_model
from pipelines.workspace import Place, ServiceSpec
from warehouse.errors import CapsheetError


def run(
    ask: dict[str, Any],
    load: dict[str, Any],
    fleet: dict[str, Any],
    drafts: dict[str, Any],
    split: dict[str, Any],
    targets_ms: dict[str, float | None],
    *,
    quantile: float,
    attainment: float,
    trace: Path | None,
    trace_format: str,
    profile: str | None,
    out: Path | None,
    service: str,
    workspace: Path,
    offline: bool,
    json: bool,
) -> None:
    """Replay what the options name and print it; what they leave open, the workspace's service says."""
    ask = dict(ask)
    pools = Split(**split)
    separate = pools.asked
    slo = _service_level(targets_ms, quantile, attainment)
    options: dict[str, object] = {}
    source, place_of_source = None if trace is None else str(trace), Path()
    place: Place | None = None
    if ask["model"] is None or service:
        place = Place(workspace)
        spec = _service(place, service)
        ask = _with_service(ask, spec)
        folder = place.folder
        if trace is None and load["isl_tokens"] is None:
            source, place_of_source, trace_format = spec.trace.source, place.folder, spec.trace.format
            options = {**spec.trace.options, **({"spread": spec.trace.spread} if spec.trace.spread != "none" else {})}
        slo = slo or _promise(spec)
    else:
        folder = model_folder(ask["model"])
    if ask["gpu"] is None:
        raise CapsheetError("--gpu is missing: the accelerator, such as H100-SXM.")
    asked = Load(**load, trace=None if source is None else _requests(source, place_of_source, trace_format, options))
    catalog = shipped()
    workload = workload_of(asked)
    if ask["max_model_len"] is None:
        longest = int((workload.isl_tokens + workload.osl_tokens).max())
        ask = ask | {"max_model_len": -(-(longest + 1) // 1024) * 1024}
    ask["engine"] = ask["engine"] or "vllm"
    read = read_model(ask["model"], offline=offline, folder=folder)
    sized = _measured(size(Ask(**ask), read, catalog), profile, place)
    serving = Fleet(**fleet, speculation=speculation_of(**drafts))
    made = measured_configuration(configuration(sized, workload, catalog, serving), sized, workload)
    before: dict[str, Any] = {}
    if separate and (serving.host_cache_gib or serving.speculation):
        own = "--host-cache-gib is" if serving.host_cache_gib else "--drafts are"
        raise CapsheetError(f"{own} for replicas that compute their own prompts: leave the pools out.")
    if separate:
        first = _same_times(size(Ask(**pools.prefill(ask)), read, catalog), sized)
        computes = measured_configuration(configuration(first, workload, catalog, serving), first, workload)
        way = handoff(pools, first, sized)
        found, both = answer_split(asked, workload, (computes, made), pools, way, serving, slo)
        answered = split_figures(found, both, way, slo)
        before = {
            "prefill_dp": first.ask.dp,
            "prefill_gpu": first.gpu.gpu_id,
            "prefill_tp": first.ask.tp,
            "prefill_kv_blocks": computes.limits.kv_blocks,
        }
    else:
        found = answer(asked, workload, made, serving, slo)
        answered = figures(found, slo)
    said = {
        "model": sized.read.model_id,
        "gpu": sized.gpu.gpu_id,
        "tp": sized.ask.tp,
        "dp": sized.ask.dp,
        "precision": sized.weights.precision,
        "engine": f"{sized.engine}@{sized.version}",
        "replicas": found.replay.replicas,
        "kv_blocks": made.limits.kv_blocks,
        "max_num_seqs": made.limits.max_num_seqs,
        "max_num_batched_tokens": made.limits.max_num_batched_tokens,
        "exclusive_prefill": made.limits.exclusive_prefill,
        "max_model_len": made.limits.max_model_len,
        "step_time_source": told(
            made.step,
            sized.measured,
            sized.gpu,
            fitted=measured_on(catalog.profile, sized.engine, sized.gpu.gpu_id),
        ),
        "speculation": drafts if serving.speculation else None,
        "arrival_rps": None if asked.clients else workload.rate_rps,
        "clients": asked.clients or None,
        **before,
        **answered,
        **search_figures(found.goodput),
        "buckets": bucket_figures(found.replay, found.counted, workload, slo),
    }
    if out is not None:
        write_requests(out, found.replay, found.counted)
    show.as_json(said) if json else _tell(said, found)


def _measured(sized: Sized, profile: str | None, place: Place | None) -> Sized:
    """With the step times that the option names, else those of the workspace's profiles that are of it."""
    if profile is not None:
        return with_measured(sized, profile)
    rows = [row for read in workspace_profiles(place) for row in read.frame.to_dicts()] if place is not None else []
    return replace(sized, measured=profile_for(rows, sized.configuration))


def _same_times(first: Sized, second: Sized) -> Sized:
    """Prefill replicas with the measured step times of the decode ones, where both are of one configuration."""
    return replace(first, measured=second.measured) if first.configuration == second.configuration else first


def _requests(source: str, folder: Path, trace_format: str, options: dict[str, object]) -> pl.DataFrame:
    """What can be replayed of every file that a source names, in order of arrival."""
    frames = []
    for file in find(source, folder):
        with file.local() as path:
            frames.append(read_trace(path, file.name, trace_format, options).frame.filter("replayable"))
    return pl.concat(frames).sort("arrival_at", maintain_order=True)


def _service(place: Place, name: str) -> ServiceSpec:
    services = {spec.name: spec for spec in place.spec.services}
    if not name and len(services) == 1:
        return next(iter(services.values()))
    if name not in services:
        wanted = f"no service is called {name[:40]!r}" if name else "there are several services"
        raise CapsheetError(f"{place.file}: {wanted}. Name one with --service: {', '.join(services)}.")
    return services[name]


def _with_service(ask: dict[str, Any], spec: ServiceSpec) -> dict[str, Any]:
    """What the options leave open, from the service: its model, its first accelerator and engine."""
    engine = spec.candidates.engines[0]
    own = {
        "model": spec.model,
        "gpu": spec.candidates.accelerators[0],
        "engine": f"{engine.name}@{engine.version}",
        "max_model_len": spec.candidates.max_model_len,
        "gpu_memory_utilization": engine.gpu_memory_utilization,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "exclusive_prefill": engine.exclusive_prefill,
        "kv_cache_dtype": engine.kv_cache_dtype,
    }
    return {name: own.get(name) if value is None else value for name, value in ask.items()}


def _promise(spec: ServiceSpec) -> ServiceLevel:
    limits = {m: {q / 100: ms / 1000 for q, ms in spec.slo.targets(m).items()} for m in METRICS}
    return ServiceLevel(limits["ttft"], limits["tpot"], limits["e2e"], spec.slo.attainment)


def _service_level(targets_ms: dict[str, float | None], quantile: float, attainment: float) -> ServiceLevel | None:
    limits = {m: {quantile / 100: ms / 1000} if ms is not None else {} for m, ms in targets_ms.items()}
    if not any(limits.values()):
        return None
    try:
        return ServiceLevel(limits["ttft"], limits["tpot"], limits["e2e"], attainment)
    except ValueError as error:
        raise CapsheetError(str(error)) from None


def _tell(said: dict[str, Any], found: Answer) -> None:
    import typer

    rate = f"{said['clients']} clients" if said["clients"] else f"{said['arrival_rps']:.4g} requests/s"
    fleet = _replicas(said["replicas"], said["gpu"], said["tp"], said["dp"])
    if "pools" in said:
        first, second = (said["pools"][name]["replicas"] for name in ("prefill", "decode"))
        prefill = _replicas(first, said["prefill_gpu"], said["prefill_tp"], said["prefill_dp"])
        fleet = f"{prefill} for prefill and {_replicas(second, said['gpu'], said['tp'], said['dp'])} for decode"
    title = f"{said['model']} ({said['precision']}) on {fleet}, {said['engine']}: {said['requests']:,} requests, {rate}"
    quantiles = percentiles_ms(found)
    columns = sorted({c for row in quantiles.values() for c in row}, key=lambda c: (c != "mean", c))
    typer.echo(title)
    typer.echo(f"step times: {said['step_time_source']}")
    if said["speculation"]:
        typer.echo(
            "{drafts} tokens drafted a step, in {draft_ms:g} ms, each accepted with a chance of {accepted:g}; "
            "the memory of a drafter is not counted".format(**said["speculation"])
        )
    show.as_table([{"ms": name} | {c: row.get(c) for c in columns} for name, row in quantiles.items()])
    names = (
        "served_rps",
        "output_tokens_per_s",
        "busy_share",
        "running_mean",
        "waiting_max",
        "kv_usage_p99",
        "preemptions",
        "prefix_hit_share",
        "queue_limit",
    )
    show.as_table([{name: said[name] for name in names}])
    if len(said["buckets"]) > 1:
        shown = ("bucket", "requests", "attainment", "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms")
        show.as_table([{name: row[name] for name in shown if name in row} for row in said["buckets"]])
    lost = {name: said[f"{name}_requests"] for name in ("capped", "rejected") if said[f"{name}_requests"]}
    for name, n in lost.items():
        typer.echo(f"{n:,} requests {name}: longer than max_model_len or the KV pool allows")
    if "pools" in said:
        _tell_pools(said)
    if "closed_loop" in said:
        show.as_table([{"phase": name} | row for name, row in said["closed_loop"].items()])
    if "attainment" in said:
        kept = "kept" if said["meets_slo"] else "broken"
        typer.echo(
            f"promise {kept}: {said['attainment']:.2%} attain (target {said['attainment_target']:.2%}); "
            f"{said['slo_binding']} binds, margin {said['slo_margin_ratio']:+.1%}"
        )
    if found.goodput is not None:
        more = " (the workload is too short to find the limit)" if said["goodput_saturated"] else ""
        why = f": {said['goodput_reason']}" if said["goodput_reason"] else f"; {said['goodput_binding']} binds there"
        of = "both pools" if "pools" in said else "one replica"
        typer.echo(f"goodput of {of}: {found.goodput.rate_rps:.4g} requests/s{more}{why}")


def _replicas(n: int, gpu: str, tp: int, dp: int) -> str:
    return f"{n} x {gpu} / TP{tp}" + (f" x DP{dp}" if dp > 1 else "")


def _tell_pools(said: dict[str, Any]) -> None:
    """The two pools, and what the way of the KV took of each request's time."""
    waits = {name: row for name, row in said["handoff_ms"].items() if row}
    columns = ("mean", "p50", "p90", "p95", "p99")
    show.as_table([{"handoff ms": name} | {c: row[c] for c in columns} for name, row in waits.items()])
    shown = ("replicas", "busy_share", "running_mean", "waiting_max", "kv_usage_p99")
    show.as_table([{"pool": name} | {c: pool[c] for c in shown} for name, pool in said["pools"].items()])
