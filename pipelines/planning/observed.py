"""What was measured against what capsheet predicts for the same configuration, arrivals and lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from estimator.bounds import bounds, decode_step_seconds
from estimator.engines import resolve_settings
from estimator.memory import memory_account
from estimator.replay import EngineLimits, Workload, replay
from estimator.step_time import coefficients_for, model_kind, outside_s, step_parameters
from pipelines.planning.candidates import Model, replay_blocks
from pipelines.planning.catalog import Catalog
from pipelines.planning.profiles import Configuration, measured_step, profile_for

NEAR_CAPACITY = 0.9
"""Share of predicted capacity above which a small error of the step time becomes a large one of the queue."""
METRICS = ("ttft_p50", "ttft_p99", "tpot_mean", "e2e_mean")
_OBSERVED = {
    "ttft_p50": "ttft_p50_ms",
    "ttft_p99": "ttft_p99_ms",
    "tpot_mean": "tpot_mean_ms",
    "e2e_mean": "e2e_mean_ms",
}


def bucket_name(observation: Mapping[str, Any]) -> str:
    """Bucket of an observation: its mean lengths and its rate."""
    return (
        f"in {observation['isl_mean_tokens']:.0f} / out {observation['osl_mean_tokens']:.0f} "
        f"at {observation['achieved_rps']:.3g}/s"
    )


def error_rows(
    service: str, model: Model, catalog: Catalog, observations: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Rows of `prediction_error` for the observations of a service's model, every one of them, comparable or not."""
    rows: list[dict[str, Any]] = []
    for observation in observations:
        predicted, utilisation, note = _predict(model, catalog, observation)
        for metric in METRICS:
            forecast, seen = predicted.get(metric), observation[_OBSERVED[metric]]
            both = forecast is not None and seen is not None
            rows.append(
                {
                    "service": service,
                    "observation_id": observation["observation_id"],
                    "bucket": bucket_name(observation),
                    "metric": metric,
                    "predicted_ms": forecast,
                    "observed_ms": seen,
                    "error_ms": seen - forecast if both else None,
                    "error_ratio": forecast / seen - 1 if both else None,
                    "saturated": observation["saturated"],
                    "utilisation": utilisation,
                    "label": "estimated",
                    "note": note or ("saturated: shown, never fitted" if observation["saturated"] else None),
                }
            )
    return rows


def _predict(
    model: Model, catalog: Catalog, observation: Mapping[str, Any]
) -> tuple[dict[str, float], float | None, str | None]:
    gpu = catalog.accelerators.get(observation["gpu_id"])
    if gpu is None:
        return {}, None, f"the catalogue has no accelerator {observation['gpu_id']}"
    if observation["arrival"] not in ("constant", "poisson"):
        return {}, None, f"arrivals of kind {observation['arrival']} are not predicted from a summary"
    overrides = {
        name: observation[name]
        for name in ("max_num_seqs", "max_num_batched_tokens", "chunked_prefill", "prefix_caching")
        if observation[name] is not None
    }
    try:
        weight = model.weights(observation["precision"])
        settings = resolve_settings(
            observation["engine"], observation["engine_version"], gpu, model.architecture, catalog.profile, overrides
        )
        account = memory_account(
            model.architecture, weight, gpu, settings, tp=observation["tp"], profile=catalog.profile
        )
    except ValueError as error:
        return {}, None, str(error)
    if not account.feasible:
        return {}, None, "; ".join(account.reasons)
    if settings.prefix_caching and observation["cached_share"] is None:
        return {}, None, "prefixes were cached and nobody says how much of the input was found: not comparable"
    coefficients = coefficients_for(
        catalog.profile,
        observation["engine"],
        observation["engine_version"],
        gpu.gpu_id,
        weight.precision,
        model_kind(model.architecture),
    )
    step = step_parameters(
        model.architecture, weight, gpu, observation["tp"], coefficients, kv_cache_bytes=settings.kv_element_bytes
    )
    engine, version, tp = (observation[name] for name in ("engine", "engine_version", "tp"))
    wanted = Configuration(model.model_id, gpu.gpu_id, engine, version, tp, weight.precision)
    profile = profile_for(catalog.step_profiles, wanted)
    step = measured_step(step, profile, coefficients, settings.max_num_batched_tokens)
    blocks = replay_blocks(account, settings, observation["isl_mean_tokens"] + observation["osl_mean_tokens"])
    limits = EngineLimits.of(settings, blocks, prefix_caching=False)
    result = replay(
        _workload(observation),
        step,
        limits,
        replicas=observation["replicas"],
        request_seconds=outside_s(
            coefficients,
            observation["isl_mean_tokens"],
            decode_step_seconds(step, 1.0, observation["isl_mean_tokens"] + observation["osl_mean_tokens"] / 2),
        ),
    )
    load = bounds(
        step,
        account,
        isl_tokens=max(1.0, _new_tokens(observation)),
        osl_tokens=observation["osl_mean_tokens"],
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        exclusive_prefill=settings.exclusive_prefill,
    )
    utilisation = observation["achieved_rps"] / (load.capacity_rps * observation["replicas"])
    notes = []
    if (observation["cached_share"] or 0) > 0:
        notes.append("cached input tokens are taken off the prompt: the benchmark's prefixes are not in its summary")
    if utilisation > NEAR_CAPACITY and not observation["saturated"]:
        notes.append(f"above {NEAR_CAPACITY:.0%} of predicted capacity: the queue decides, no percentile is reliable")
    figures = {
        "ttft_p50": float(np.nanpercentile(result.ttft_s, 50)) * 1000,
        "ttft_p99": float(np.nanpercentile(result.ttft_s, 99)) * 1000,
        "tpot_mean": float(np.nanmean(result.tpot_s)) * 1000,
        "e2e_mean": float(np.nanmean(result.e2e_s)) * 1000,
    }
    return figures, utilisation, "; ".join(notes) or None


def _workload(observation: Mapping[str, Any]) -> Workload:
    """The benchmark's arrivals again: its own count and rate, evenly spaced or Poisson, lengths at their means.

    Fractional mean lengths are kept by mixing the two whole numbers around them.
    """
    n = max(2, round(observation["achieved_rps"] * observation["duration_s"]))
    rng = np.random.default_rng(0)
    if observation["arrival"] == "constant":
        arrival_s = np.arange(n) / observation["achieved_rps"]
    else:
        arrival_s = np.cumsum(rng.exponential(1 / observation["achieved_rps"], n))
        arrival_s -= arrival_s[0]
    lengths = (max(1.0, _new_tokens(observation)), observation["osl_mean_tokens"])
    return Workload.of(arrival_s, _mixed(lengths[0], n), _mixed(lengths[1], n))


def _new_tokens(observation: Mapping[str, Any]) -> float:
    """Mean input tokens that were not found in cache."""
    return float(observation["isl_mean_tokens"] * (1 - (observation["cached_share"] or 0.0)))


def _mixed(mean: float, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    steps = np.floor(np.arange(1, n + 1) * mean).astype(np.int64)
    whole: np.ndarray[tuple[int], np.dtype[np.int64]] = np.diff(steps, prepend=np.int64(0))
    return whole
