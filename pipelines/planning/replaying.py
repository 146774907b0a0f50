"""One configuration replayed against a trace or made-up arrivals: what users of it would see.

Belongs here: turning the options of `capsheet replay` into estimator calls, and their answer into figures. Does not:
sizing (`sizing`), sources, wording and tables (`pipelines.commands`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl

from estimator.bounds import decode_step_seconds
from estimator.goodput import Goodput, Serve, ServiceLevel, alone_seconds, goodput_of
from estimator.hardware import GB, GIB
from estimator.replay import OUTCOMES, EngineLimits, Replay, Router, Speculation, Tier, Workload, arrivals, replay
from estimator.replay.result import Mask
from estimator.replay.workload import Floats
from estimator.step_time import Coefficients, coefficients_for, model_kind, outside_s, step_parameters
from pipelines.planning.candidates import replay_blocks
from pipelines.planning.catalog import Catalog
from pipelines.planning.sizing import Sized
from warehouse.errors import CapsheetError

Arrival = Literal["poisson", "constant", "gamma", "closed"]
QUANTILES = (50, 90, 95, 99)
SERIES_BINS = 120
MOST_REQUESTS = 20_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent. A trace keeps its own arrivals unless `arrival` is given; `rate_rps` then scales or makes them."""

    trace: pl.DataFrame | None = None
    arrival: Arrival | None = None
    rate_rps: float | None = None
    isl_tokens: int | None = None
    osl_tokens: int | None = None
    requests: int | None = None
    clients: int = 0
    gap_variation: float = 2.0
    seed: int = 0
    prompts: int | None = None
    """Closed loop: prompts of each client; then there are clients x prompts requests."""
    superpose: bool = False
    """A trace reaches `rate_rps` by copies laid over each other instead of by playing it faster."""
    grid_s: float | None = None
    """A trace's clock ticks this coarsely: each arrival is moved to a random moment of its tick."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What serves it."""

    replicas: int = 1
    router: Router = "least_load"
    prefix_caching: bool = True
    warmup_s: float = 0.0
    drain_s: float = 0.0
    host_cache_gib: float = 0.0
    """Host memory for KV the device had no room for, per GPU; `host_gbs` is the way back, GB/s per GPU."""
    host_gbs: float | None = None
    async_loads: bool = False
    speculation: Speculation | None = None

    def counted(self, result: Replay) -> Mask:
        """Requests outside warm-up and drain. Raises CapsheetError where none is left."""
        counted = result.steady(self.warmup_s, self.drain_s)
        if not counted.any():
            raise CapsheetError(
                f"--warmup-s {self.warmup_s:g} and --drain-s {self.drain_s:g} leave no request to count."
            )
        return counted


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration as the replay takes it, and where its coefficients come from."""

    step: Floats
    limits: EngineLimits
    request_s: float
    coefficients: Coefficients
    ranks: int = 1
    """Data-parallel attention ranks in lockstep; the step and the limits are one rank's."""
    host: Tier | None = None


def configuration(sized: Sized, load: Workload, catalog: Catalog, fleet: Fleet) -> Configuration:
    """Step parameters and limits of a sized configuration. Raises CapsheetError for one that cannot be replayed."""
    if sized.account is None or not sized.feasible:
        raise CapsheetError(f"{sized.ask.model} on {sized.gpu.gpu_id} does not start: {'; '.join(sized.reasons)}.")
    if sized.ask.pp > 1:
        raise CapsheetError("replay knows no pipeline stages: leave the pipeline-parallel size at 1.")
    if sized.ask.dp > 1 and not any(layer.feed_forward.experts for layer in sized.architecture.layers):
        raise CapsheetError(f"data-parallel ranks of a dense model are replicas: use --replicas {sized.ask.dp}.")
    if math.isnan(sized.gpu.memory_bandwidth_gbs) or math.isnan(sized.gpu.fp16_dense_tflops):
        raise CapsheetError(f"no source gives {sized.gpu.gpu_id}'s memory bandwidth or 16-bit rate: nothing to replay.")
    settings = sized.settings
    try:
        chosen = coefficients_for(
            catalog.profile,
            sized.engine,
            sized.version,
            sized.gpu.gpu_id,
            sized.weights.precision,
            model_kind(sized.architecture),
        )
        step = step_parameters(
            sized.architecture,
            sized.weights,
            sized.gpu,
            sized.ask.tp,
            {**chosen, **sized.ask.coefficients},
            ep=sized.ask.ep,
            kv_cache_bytes=settings.kv_element_bytes,
            dp=sized.ask.dp,
        )
        length = float(load.isl_tokens.mean()) + float(load.osl_tokens.mean())
        blocks = replay_blocks(sized.account, settings, length)
        limits = EngineLimits.of(settings, blocks, prefix_caching=fleet.prefix_caching)
    except ValueError as error:
        raise CapsheetError(f"{sized.ask.model}: {error}") from None
    isl, osl = float(load.isl_tokens.mean()), float(load.osl_tokens.mean())
    request_s = outside_s({**chosen, **sized.ask.coefficients}, isl, decode_step_seconds(step, 1.0, isl + osl / 2))
    host = _host(fleet, sized.account.kv_bytes_per_token_per_gpu * settings.block_tokens, load)
    return Configuration(step, limits, request_s, chosen, sized.ask.dp, host)


def _host(fleet: Fleet, block_bytes: float, load: Workload) -> Tier | None:
    if not fleet.host_cache_gib:
        return None
    if fleet.host_gbs is None:
        raise CapsheetError("--host-gbs is missing: what a GPU loads from its host's memory, GB/s.")
    if not load.prefix_block_tokens or not fleet.prefix_caching:
        raise CapsheetError("--host-cache-gib keeps prefixes: it needs prefix caching and a trace that has some.")
    return Tier.of_bytes(fleet.host_cache_gib * GIB, block_bytes, fleet.host_gbs * GB)


def workload_of(load: Load) -> Workload:
    """The requests to replay. Raises CapsheetError for options that name none, or not how they arrive."""
    if load.arrival == "closed" and load.clients < 1:
        raise CapsheetError("--arrival closed needs --clients, the number of users who wait for their answers.")
    if load.clients and load.arrival not in (None, "closed"):
        raise CapsheetError(f"--clients goes with --arrival closed, not {load.arrival}.")
    if load.prompts is not None:
        if not load.clients or load.requests is not None:
            raise CapsheetError("--prompts is how many each of --clients sends, in place of --requests.")
        load = replace(load, requests=load.clients * load.prompts)
    if load.grid_s is not None and (load.trace is None or load.arrival is not None or load.clients):
        raise CapsheetError("--grid-s is for arrivals of a --trace whose clock was coarse; others are made, or none.")
    if load.superpose and (load.trace is None or load.arrival is not None or load.rate_rps is None or load.clients):
        raise CapsheetError("--superpose lays copies of a --trace over each other until they have --rate: give both.")
    try:
        base = _lengths(load)
        return _arriving(base, load)
    except ValueError as error:
        raise CapsheetError(str(error)) from None


def _lengths(load: Load) -> Workload:
    if load.trace is not None:
        for option in ("isl_tokens", "osl_tokens"):
            if getattr(load, option) is not None:
                raise CapsheetError(
                    f"--{option.removesuffix('_tokens')} and --trace: the trace has lengths of its own."
                )
        traced = from_trace(load.trace)
        if load.requests is None or load.requests >= len(traced):
            return traced
        return traced.window(0.0, float(np.nextafter(traced.arrival_s[load.requests - 1], np.inf)))
    if load.isl_tokens is None or load.osl_tokens is None:
        raise CapsheetError("give --trace FILE, or --isl and --osl with --rate (or --clients).")
    n = 1000 if load.requests is None else load.requests
    if not 1 <= n <= MOST_REQUESTS:
        raise CapsheetError(f"--requests {n}: from 1 to {MOST_REQUESTS:,}.")
    return Workload.of(np.zeros(n), np.full(n, load.isl_tokens), np.full(n, load.osl_tokens))


def _arriving(base: Workload, load: Load) -> Workload:
    n = len(base)
    if load.clients:
        return base
    if load.trace is not None and load.arrival is None:
        if load.grid_s is not None:
            base = base.with_arrivals(arrivals.spread_over_grid(base.arrival_s, load.grid_s, load.seed))
        if load.rate_rps is None:
            return base
        if not math.isfinite(base.rate_rps):
            raise CapsheetError("--rate: all requests of the trace arrive at one instant. Add --arrival.")
        factor = load.rate_rps / base.rate_rps
        return base.superposed(factor, load.seed) if load.superpose else base.scaled(factor)
    rate = load.rate_rps if load.rate_rps is not None or load.trace is None else base.rate_rps
    if rate is None:
        raise CapsheetError("--rate is missing: requests a second.")
    if load.arrival == "constant":
        return base.with_arrivals(arrivals.evenly_spaced(n, rate))
    if load.arrival == "gamma":
        return base.with_arrivals(arrivals.gamma(n, rate, load.gap_variation, load.seed))
    return base.with_arrivals(arrivals.poisson(n, rate, load.seed))


def from_trace(requests: pl.DataFrame) -> Workload:
    """A workload from rows of `request`, from their first arrival on; prefixes count where every hash has one size."""
    rows = requests.sort("arrival_at", maintain_order=True)
    if not rows.height:
        raise CapsheetError("the trace holds no usable request.")
    stamps = rows["arrival_at"].dt.epoch("us").to_numpy()
    isl = rows["isl_tokens"].to_numpy().astype(np.int64)
    osl = rows["osl_tokens"].to_numpy().astype(np.int64)
    blocks = rows["prefix_block_tokens"].drop_nulls().unique().to_list()
    hashes = rows["prefix_hashes"]
    if len(blocks) != 1 or hashes.null_count() == len(hashes):
        return Workload.of((stamps - stamps[0]) / 1e6, isl, osl)
    lengths = hashes.list.len().fill_null(0).to_numpy().astype(np.int64)
    ids = hashes.drop_nulls().explode().drop_nulls().to_numpy().astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Workload.of((stamps - stamps[0]) / 1e6, isl, osl, offsets, ids, int(blocks[0]))


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A replay, which of its requests count, and, with a service level, the goodput."""

    replay: Replay
    counted: Mask
    goodput: Goodput | None = field(default=None)
    clients: int = 0
    goodput_of: str = "goodput_rps_per_replica"
    """What the goodput is called: of one replica, or of pools as a whole."""


def answer(load: Load, workload: Workload, made: Configuration, fleet: Fleet, slo: ServiceLevel | None) -> Answer:
    """Replay it, and search for the goodput of one replica where there is a promise and an open loop.

    Raises CapsheetError for what cannot be.
    """
    try:
        result = replay(
            workload,
            made.step,
            made.limits,
            replicas=fleet.replicas,
            router=fleet.router,
            request_seconds=made.request_s,
            clients=load.clients,
            series_bins=SERIES_BINS,
            ranks=made.ranks,
            host=made.host,
            async_loads=fleet.async_loads,
            speculation=fleet.speculation,
        )
        counted = fleet.counted(result)
        reach = search(load, workload, made, fleet, slo, partial(one_replica, made, fleet))
    except ValueError as error:
        raise CapsheetError(str(error)) from None
    return Answer(result, counted, reach, load.clients)


def one_replica(made: Configuration, fleet: Fleet, workload: Workload) -> Replay:
    """The workload on one replica: all its ranks, with its share of host memory."""
    return replay(
        workload,
        made.step,
        made.limits,
        request_seconds=made.request_s,
        ranks=made.ranks,
        host=made.host,
        async_loads=fleet.async_loads,
        speculation=fleet.speculation,
    )


def search(
    load: Load, workload: Workload, made: Configuration, fleet: Fleet, slo: ServiceLevel | None, serve: Serve
) -> Goodput | None:
    """The goodput of what `serve` replays; None in a closed loop, without a promise, or for a load of no rate.

    `made` says how long a request takes alone. Raises ValueError as `goodput_of` does.
    """
    if slo is None or load.clients or len(workload) < 2 or workload.span_s <= 0:
        return None
    return goodput_of(
        serve,
        workload,
        slo,
        alone_s=alone_seconds(workload, made.step),
        warmup_s=fleet.warmup_s,
        drain_s=fleet.drain_s,
    )


def percentiles_ms(found: Answer) -> dict[str, dict[str, float]]:
    """Mean and percentiles of TTFT, TPOT, E2E and queue time over counted requests that ended; ITL over every gap."""
    result, counted = found.replay, found.counted
    rows: dict[str, dict[str, float]] = {}
    for name in ("ttft", "tpot", "e2e", "queue"):
        seconds = getattr(result, f"{name}_s")[counted]
        seconds = seconds[np.isfinite(seconds)]
        if len(seconds):
            at = np.quantile(seconds, [q / 100 for q in QUANTILES], method="inverted_cdf")
            rows[name] = {"mean": float(seconds.mean()) * 1000} | {
                f"p{q}": float(v) * 1000 for q, v in zip(QUANTILES, at, strict=True)
            }
        if name == "ttft" and result.gap_counts.any():
            rows["itl"] = {f"p{q}": result.itl_s(q / 100) * 1000 for q in QUANTILES}
    return rows


def figures(found: Answer, slo: ServiceLevel | None) -> dict[str, Any]:
    """Everything the replay says, as plain values with their unit in the name."""
    result = found.replay
    served = np.isfinite(result.e2e_s)
    seconds = result.makespan_s
    outcomes = np.bincount(result.outcome, minlength=len(OUTCOMES))
    said: dict[str, Any] = {
        "requests": len(result.e2e_s),
        "requests_counted": int(found.counted.sum()),
        **{f"{name}_requests": int(n) for name, n in zip(OUTCOMES, outcomes, strict=True)},
        "makespan_s": seconds,
        "served_rps": float(served.sum()) / seconds if seconds else 0.0,
        "input_tokens_per_s": float(result.isl_tokens[served].sum()) / seconds if seconds else 0.0,
        "output_tokens_per_s": float(result.osl_tokens[served].sum()) / seconds if seconds else 0.0,
        "percentiles_ms": percentiles_ms(found),
        "running_mean": result.running_mean,
        "waiting_max": result.waiting_max,
        "kv_usage_p99": result.kv_usage_p99,
        "preemptions": int(result.preemptions.sum()),
        "prefix_hit_share": float(result.cached_tokens[served].sum())
        / max(1.0, float(result.isl_tokens[served].sum())),
        "host_tokens": int(result.host_tokens.sum()),
        "busy_share": result.busy_share,
        "queue_limits_share": result.waits_share,
        "queue_limit": _limit(result.waits_share),
        "series": series_figures(result),
        "label": "estimated",
    }
    if found.clients:
        said["closed_loop"] = _phases(result, min(found.clients, len(result.e2e_s)))
    if slo is not None:
        binding, margin = slo.binding(result, found.counted)
        said |= {
            "attainment": slo.attained(result, found.counted),
            "attainment_target": slo.attainment,
            "meets_slo": slo.meets(result, found.counted),
            "slo_binding": binding,
            "slo_margin_ratio": margin,
        }
    if found.goodput is not None:
        reach = found.goodput
        said |= {
            found.goodput_of: reach.rate_rps,
            "goodput_binding": reach.binding,
            "goodput_saturated": reach.saturated,
            "goodput_monotone": reach.monotone,
            "goodput_reason": reach.reason,
        }
    return said


def _limit(shares: Mapping[str, float]) -> str:
    name, share = max(shares.items(), key=lambda item: item[1])
    return name if share > 0 else "none"


def _phases(result: Replay, clients: int) -> dict[str, dict[str, Any]]:
    """A closed loop's phases: the start-up burst of published sweeps apart from what a loaded service does."""
    rows: dict[str, dict[str, Any]] = {}
    for name, sent in result.phases(clients).items():
        ended = sent & np.isfinite(result.e2e_s)
        row: dict[str, Any] = {"requests": int(sent.sum())}
        for metric in ("ttft", "tpot", "e2e"):
            seconds = getattr(result, f"{metric}_s")[ended]
            seconds = seconds[np.isfinite(seconds)]
            row[f"{metric}_mean_ms"] = float(seconds.mean()) * 1000 if len(seconds) else None
        rows[name] = row
    return rows


def series_figures(result: Replay) -> dict[str, Any]:
    """The replay over time, in lists."""
    series = result.series
    if series is None:
        return {}
    columns = ("start_s", "running", "waiting", "kv_usage", "preemptions", "busy_share")
    return {
        "bin_s": series.bin_s,
        **{name: getattr(series, name).tolist() for name in columns},
        "queue_limit": series.binding(),
    }
