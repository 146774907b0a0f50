"""The published calculators' rules for one configuration, and the coefficients anyone may override.

Belongs here: `estimator.calculator` called for what was sized, its coefficients by name, reading NAME=VALUE. Does not:
the formulas (`estimator.calculator`), what capsheet plans with (`calculation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from estimator import calculator as rules
from estimator.bounds import MeanLoad
from estimator.calculator import RuleOfThumb
from estimator.hardware import GB, GIB
from estimator.step_time import COEFFICIENT_UNITS
from estimator.step_time.physics import compute_flops
from pipelines.planning.figures import Figure
from pipelines.planning.sizing import Sized
from warehouse.errors import CapsheetError

RULES: Mapping[str, RuleOfThumb] = {
    "prefill_utilisation": rules.PREFILL_UTILISATION,
    "decode_bandwidth_utilisation": rules.DECODE_BANDWIDTH_UTILISATION,
    "communication_efficiency": rules.COMMUNICATION_EFFICIENCY,
    "parallel_efficiency": rules.PARALLEL_EFFICIENCY,
    "concurrency_degradation": rules.CONCURRENCY_DEGRADATION,
    "activation_share": rules.ACTIVATION_SHARE,
    "framework_overhead_gb": rules.FRAMEWORK_OVERHEAD_GB,
    "safety_factor": rules.SAFETY_FACTOR,
    "safety_gib": RuleOfThumb("memory left free on every GPU", 0.0, 0.0, 4.0, "0 unless asked for: the user's margin"),
}
"""Coefficients of the rules by the name they are overridden by."""
SET = "set by the caller"
"""Source of a coefficient that an option sets."""
SHARES = {"prefill_utilisation", "decode_bandwidth_utilisation", "communication_efficiency", "parallel_efficiency"}
SHARES |= {"safety_factor", "activation_share"}


def read_coefficients(pairs: list[str]) -> dict[str, float]:
    """Overrides from NAME=VALUE. Raises CapsheetError for a name or value that cannot be."""
    found: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        name = name.strip().replace("-", "_").replace("utilization", "utilisation")
        if name not in RULES and name not in COEFFICIENT_UNITS:
            known = ", ".join([*RULES, *COEFFICIENT_UNITS])
            raise CapsheetError(f"--coefficient {pair[:60]!r}: there is no such coefficient. There are {known}.")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        floor_is_open = name in SHARES - {"activation_share"} or name == "concurrency_degradation"
        high = 1.0 if name in SHARES else 1e6
        if not (math.isfinite(value) and 0 <= value <= high) or (floor_is_open and value == 0):
            low = "above 0" if floor_is_open else "from 0"
            raise CapsheetError(f"--coefficient {name}: {text[:40]!r} is not a number {low} to {high:g}.")
        found[name] = value
    return found


def rows(own: Mapping[str, float]) -> list[dict[str, Any]]:
    """Each coefficient with value, default, usual range and source; `own` are the caller's."""
    return [
        {
            "name": name,
            "value": own.get(name, rule.default),
            "default": rule.default,
            "usual_low": rule.usual_low,
            "usual_high": rule.usual_high,
            "unit": {"framework_overhead_gb": "GB", "safety_gib": "GiB"}.get(name, "share" if name in SHARES else "x"),
            "label": "assumed",
            "source": SET if name in own else rule.source,
            "meaning": rule.name,
        }
        for name, rule in RULES.items()
    ]


def unusual(table: Sequence[Mapping[str, Any]]) -> list[str]:
    """Coefficients of a table that the caller set outside what is usual, as sentences."""
    return [
        f"--coefficient {row['name']}: {row['value']:g} is outside its usual range, {low:g} to {high:g}"
        for row in table
        for low, high in [(row["usual_low"], row["usual_high"])]
        if row["source"] == SET and low is not None and high is not None and not low <= row["value"] <= high
    ]


def figures(sized: Sized, values: Mapping[str, float], load: MeanLoad, tpot_ms: float) -> list[Figure]:
    """The published calculators' formulas, with active parameters for a prompt and no weight divided twice."""
    ask, gpu, account, weight = sized.ask, sized.gpu, sized.account, sized.weights
    assert account is not None
    active = sized.architecture.parameters_active
    forward = [layer.feed_forward for layer in sized.architecture.layers if layer.feed_forward.experts]
    share = forward[0].experts_per_token / forward[0].experts if forward else 1.0
    bandwidth, utilisation = gpu.memory_bandwidth_gbs, values["decode_bandwidth_utilisation"]
    communication = values["communication_efficiency"]
    tflops = compute_flops(gpu, weight.expert_compute if forward else weight.dense_compute) / 1e12

    def rate(streamed_bytes: float) -> float:
        return rules.decode_tokens_per_s(streamed_bytes / GB, bandwidth, ask.tp, utilisation, communication)

    whole, touched = weight.streamed_bytes + weight.expert_bytes, weight.streamed_bytes + weight.expert_bytes * share
    length = load.isl_tokens + load.osl_tokens
    kv_gb = account.kv_bytes_per_token_per_gpu * length / GB
    k = (
        rules.memory_concurrency(
            gpu.visible_memory_gib * GIB / GB,
            account.weights_gib_per_gpu * GIB / GB,
            kv_gb,
            values["activation_share"],
            values["framework_overhead_gb"],
        )
        if kv_gb > 0
        else None
    )
    target = 1000 / tpot_ms
    slots = rules.sla_concurrency(rate(whole), target, values["concurrency_degradation"])
    reading = {"bandwidth_gbs": bandwidth, "tp": ask.tp, "utilisation": utilisation, "communication": communication}
    experts = {"experts_share": share}
    return [
        _rule(
            "rule_prefill_ms",
            1000 * rules.prefill_seconds(active, load.isl_tokens, tflops, ask.tp, values["prefill_utilisation"]),
            "ms",
            "2 x active parameters x isl / (peak x GPUs x utilisation)",
            {"parameters_active": active, "isl_tokens": load.isl_tokens, "tflops": tflops, "tp": ask.tp},
            rules.PREFILL_UTILISATION.source,
        ),
        _rule(
            "rule_tpot_floor_ms",
            1000 * rules.weight_read_seconds(whole / ask.tp / GB, bandwidth),
            "ms",
            "weights of a GPU, embedding left out / its bandwidth: no decode step that reads them all is faster",
            {"weights_gb": whole / ask.tp / GB, "bandwidth_gbs": bandwidth},
            "datasheet bandwidth",
        ),
        _rule(
            "moe_conservative_tokens_per_s_per_user" if forward else "rule_decode_tokens_per_s_per_user",
            rate(whole),
            "tokens/s",
            "bandwidth x utilisation x GPUs x communication / all weights (a batch touches most experts)",
            {**reading, "weights_gb": whole / GB},
            rules.DECODE_BANDWIDTH_UTILISATION.source,
        ),
        *(
            [
                _rule(
                    "moe_optimistic_tokens_per_s_per_user",
                    rate(touched),
                    "tokens/s",
                    "the same, reading only the experts one token uses (batch 1)",
                    {**reading, **experts, "weights_gb": touched / GB},
                    rules.DECODE_BANDWIDTH_UTILISATION.source,
                )
            ]
            if forward
            else []
        ),
        _rule(
            "rule_k_requests",
            k,
            "requests",
            "floor((memory - weights x (1 + activation share) - framework) / KV of isl + osl), per GPU",
            {"memory_gb": gpu.visible_memory_gib * GIB / GB, "kv_gb_per_request": kv_gb, "isl_plus_osl": length},
            rules.FRAMEWORK_OVERHEAD_GB.source,
        ),
        _rule(
            "rule_l_requests",
            slots,
            "requests",
            "floor(decode rate without batching / rate a user wants / degradation)",
            {"tokens_per_s_per_user": target, "degradation": values["concurrency_degradation"]},
            rules.CONCURRENCY_DEGRADATION.source,
        ),
        _rule(
            "rule_bottleneck",
            rules.bottleneck(k, slots) if k is not None else "memory bandwidth / compute",
            "",
            "memory capacity where K <= L",
            {"k": k, "l": slots},
            "eight-GPU calculator, llm-cal",
        ),
    ]


def _rule(
    name: str, value: float | int | str | None, unit: str, formula: str, inputs: Mapping[str, object], source: str
) -> Figure:
    return Figure(name, value, unit, "estimated", f"rule of thumb: {source}", formula, inputs)
