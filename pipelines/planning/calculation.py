"""Time and throughput of one configuration: what the step model says, and beside it the published rules.

Belongs here: calling `estimator.bounds` for a mean request, coefficients and who set them, fleet tiers. Does not: the
memory account (`sizing`), the published rules (`rules_of_thumb`), queues and tails (a replay).

A pipeline of `pp` stages runs `pp` micro-batches at once, each crossing all stages in the time of a step on `tp`
accelerators: a replica's batch B is pp x dp lanes of B / (pp x dp) sequences. Bubbles and hops are left out.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from estimator import calculator as rules
from estimator.bounds import (
    LARGEST_BATCH,
    Bounds,
    MeanLoad,
    Parameters,
    bounds,
    decode_step_seconds,
    decode_step_terms,
    prefill_seconds,
    prefill_terms,
    tpot_seconds,
    zero_load_ttft_seconds,
)
from estimator.memory import MemoryAccount
from estimator.step_time import (
    COEFFICIENT_UNITS,
    Coefficients,
    coefficients_for,
    model_kind,
    outside_s,
    step_parameters,
)
from pipelines.planning import rules_of_thumb
from pipelines.planning.catalog import Catalog
from pipelines.planning.figures import Figure
from pipelines.planning.intervals import tpot_interval
from pipelines.planning.profiles import PHYSICS, attributed, measured_step
from pipelines.planning.sizing import Sized, accepted_tp, account_of
from warehouse.errors import CapsheetError

ISL_TOKENS, OSL_TOKENS = 2000, 512
"""A mean request where the user names none (llm-cal's default)."""
TTFT_MS, TPOT_MS = 1000.0, 100.0
"""Targets where the user names none (the eight-GPU calculator's example: 1 s to the first token, 100 ms a token)."""
TIERS = (("min", 1), ("dev", 8), ("prod", 16))
"""Fleet tiers, as llm-cal has them: requests of the whole context length that one replica must hold at once."""


@dataclass(frozen=True, slots=True)
class Calculation:
    """The calculator's part of an answer; `figures` is empty where the accelerator's rates are not known."""

    figures: tuple[Figure, ...]
    coefficients: tuple[dict[str, Any], ...]
    fleet: tuple[dict[str, Any], ...]
    assumed: tuple[str, ...]
    missing: str = ""
    isl_tokens: int = 0
    """Lengths of the mean request that everything is of."""
    osl_tokens: int = 0

    @property
    def step_by_term_ms(self) -> dict[str, float]:
        """Where the decode step goes: its terms, longest first; empty without times."""
        inputs = next((dict(figure.inputs) for figure in self.figures if figure.name == "decode_step_ms"), {})
        terms = {
            name.removesuffix("_ms").replace("_", " "): value for name, value in inputs.items() if name[-3:] == "_ms"
        }
        return dict(sorted(((name, float(str(value))) for name, value in terms.items()), key=lambda term: -term[1]))


@dataclass(frozen=True, slots=True)
class _Lane:
    """A memory account shared by lanes: what `bounds` may put into one of them."""

    account: MemoryAccount
    lanes: int

    def max_concurrency(self, length_tokens: float) -> float:
        """Requests of a length that one lane's share holds."""
        return self.account.max_concurrency(length_tokens) / self.lanes


def calculate(sized: Sized, catalog: Catalog) -> Calculation:
    """Everything of the calculator for a configuration that has a memory account.

    Raises CapsheetError for coefficients that beat the datasheet, or lengths beyond max_model_len.
    """
    assert sized.account is not None
    ask, gpu = sized.ask, sized.gpu
    isl, osl, assumed = _lengths(sized)
    values = {name: ask.coefficients.get(name, rule.default) for name, rule in rules_of_thumb.RULES.items()}
    try:
        chosen = coefficients_for(
            catalog.profile,
            sized.engine,
            sized.version,
            gpu.gpu_id,
            sized.weights.precision,
            model_kind(sized.architecture),
        )
    except ValueError as error:
        raise CapsheetError(f"{ask.model}: {error}") from None
    own = {name: value for name, value in ask.coefficients.items() if name in COEFFICIENT_UNITS}
    table = tuple(rules_of_thumb.rows(ask.coefficients) + _step_rows(chosen, own))
    fleet = tuple(fleet_tiers(sized, catalog))
    if math.isnan(gpu.memory_bandwidth_gbs) or math.isnan(gpu.fp16_dense_tflops):
        lacking = f"no source gives {gpu.gpu_id}'s memory bandwidth or 16-bit rate, so no time is computed"
        return Calculation((), table, fleet, tuple(assumed), lacking, isl, osl)
    try:
        figures = _figures(sized, {**chosen, **own}, values, isl, osl)
    except ValueError as error:
        raise CapsheetError(f"--coefficient: {error}") from None
    targets = ((ask.ttft_ms, "TTFT", TTFT_MS), (ask.tpot_ms, "TPOT", TPOT_MS))
    assumed += [f"{name} target {default:g} ms" for given, name, default in targets if given is None]
    return Calculation(tuple(figures), table, fleet, tuple(assumed), "", isl, osl)


def _lengths(sized: Sized) -> tuple[int, int, list[str]]:
    """Input and output length of the mean request, and which were assumed."""
    ask, length = sized.ask, sized.settings.max_model_len
    given_isl, given_osl = ask.isl_tokens, ask.osl_tokens
    osl = given_osl or max(1, min(OSL_TOKENS, length - given_isl if given_isl else length // 4))
    isl = given_isl or max(1, min(ISL_TOKENS, length - osl))
    if isl + osl > max(length, 2):
        asked = " and ".join(f"--{n} {v:,}" for n, v in (("isl", given_isl), ("osl", given_osl)) if v is not None)
        raise CapsheetError(
            f"{asked} makes a request of at least {isl + osl:,} tokens, beyond --max-model-len {length:,}. Shorten it, "
            "or raise the limit."
        )
    named = (("isl", ask.isl_tokens, isl), ("osl", ask.osl_tokens, osl))
    return isl, osl, [f"{name} {value:,} tokens" for name, given, value in named if given is None]


def _figures(
    sized: Sized, coefficients: Mapping[str, float], values: Mapping[str, float], isl: int, osl: int
) -> list[Figure]:
    ask, account = sized.ask, sized.account
    assert account is not None
    lanes = ask.pp * ask.dp
    physics = _parameters(sized, coefficients, ask.tp)
    seqs, budget = max(1, sized.settings.max_num_seqs // ask.pp), sized.settings.max_num_batched_tokens
    p = measured_step(physics, sized.measured, coefficients, budget)
    request_s = outside_s(coefficients, isl, decode_step_seconds(p, 1.0, isl + osl / 2))
    load = MeanLoad(isl, osl, budget, seqs, request_s, sized.settings.exclusive_prefill)
    tpot_ms = ask.tpot_ms or TPOT_MS
    bound = bounds(
        p,
        _Lane(account, ask.pp),
        isl_tokens=isl,
        osl_tokens=osl,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        exclusive_prefill=load.exclusive_prefill,
        request_s=request_s,
        ttft_target_s=(ask.ttft_ms or TTFT_MS) / 1000,
        tpot_target_s=tpot_ms / 1000,
    )
    limit = bound.concurrency_limit * lanes
    batch = ask.concurrency or max(1, limit)
    timed = [*_time_figures(sized, p, load, batch, lanes), *_bound_figures(sized, p, load, bound, values, tpot_ms)]
    each, context = max(1.0, batch / lanes), load.mean_context_tokens
    return [
        *attributed(timed, p, sized.measured, batch=each, context=context, isl=isl),
        *_efficiency_figures(sized, coefficients, load, batch, values),
        *rules_of_thumb.figures(sized, values, load, tpot_ms),
    ]


def _parameters(sized: Sized, coefficients: Mapping[str, float], tp: int) -> Parameters:
    groups = math.gcd(tp, sized.ask.ep)
    return step_parameters(
        sized.architecture,
        sized.weights,
        sized.gpu,
        tp,
        coefficients,
        groups,
        kv_cache_bytes=sized.settings.kv_element_bytes,
    )


def _time_figures(sized: Sized, p: Parameters, load: MeanLoad, batch: int, lanes: int) -> list[Figure]:
    each = max(1.0, batch / lanes)
    context = load.mean_context_tokens
    step_s = decode_step_seconds(p, each, context)
    prefill_s = prefill_seconds(p, load.isl_tokens, load.max_num_batched_tokens)
    tpot_ms = 1000 * tpot_seconds(p, load, each)
    at = {"batch": batch, "lanes": lanes, "context_tokens": context}
    step_by_term = _by_term(decode_step_terms(p, each, context))
    prefill_by_term = _by_term(prefill_terms(p, load.isl_tokens, load.max_num_batched_tokens))
    prompt = {"isl_tokens": load.isl_tokens, "max_num_batched_tokens": load.max_num_batched_tokens}
    return [
        _step(
            "prefill_ms",
            1000 * prefill_s,
            "ms",
            "sum of the steps of one prompt alone, in chunks",
            prompt | prefill_by_term,
        ),
        _step(
            "zero_load_ttft_ms",
            1000 * zero_load_ttft_seconds(p, load),
            "ms",
            "prefill + a request's time outside the steps",
            {**prompt, "request_s": load.request_s},
        ),
        _step(
            "prefill_tokens_per_s_per_replica",
            lanes * load.isl_tokens / prefill_s,
            "tokens/s",
            "lanes x isl / prefill time",
            {**prompt, "lanes": lanes},
        ),
        _step("batch", batch, "requests", "as asked with --concurrency, else the limit of every bound", {}),
        _step(
            "decode_step_ms", 1000 * step_s, "ms", "one decode step of a lane's share of the batch", at | step_by_term
        ),
        _step("decode_tokens_per_s_per_user", 1 / step_s, "tokens/s", "1 / decode step", at),
        _step("decode_tokens_per_s_per_replica", batch / step_s, "tokens/s", "batch / decode step", at),
        _step(
            "tpot_ms",
            tpot_ms,
            "ms",
            "decode step + the share of others' prefills that fall on it",
            {**at, "isl_tokens": load.isl_tokens, "osl_tokens": load.osl_tokens},
        ),
        # The spread is that of the fit's own predictions.
        *(tpot_interval(sized, tpot_ms) if sized.measured is None else ()),
    ]


def _by_term(terms: Mapping[str, float]) -> dict[str, float]:
    """Terms of a step that take time, in ms, by names that say so."""
    return {f"{name.replace(' ', '_')}_ms": 1000 * seconds for name, seconds in terms.items() if abs(seconds) > 1e-9}


def _bound_figures(
    sized: Sized, p: Parameters, load: MeanLoad, bound: Bounds, values: Mapping[str, float], tpot_ms: float
) -> list[Figure]:
    ask, account = sized.ask, sized.account
    assert account is not None
    lanes = ask.pp * ask.dp
    length = load.isl_tokens + load.osl_tokens
    limit = bound.concurrency_limit * lanes
    first = math.floor(limit * values["safety_factor"])

    def step_s(batch: int) -> float:
        return decode_step_seconds(p, batch, load.mean_context_tokens)

    limits = {
        "k_requests": bound.k_requests * lanes,
        "l_requests": (bound.l_requests or 0) * lanes,
        "max_num_seqs": load.max_num_seqs * lanes,
        "ttft_target_ms": ask.ttft_ms or TTFT_MS,
    }
    figures = [
        Figure(
            "k_requests",
            account.max_concurrency(length) * ask.dp,
            "requests",
            "estimated",
            f"{sized.engine} page layout",
            "K: blocks / blocks of a request of isl + osl tokens, over dp engine cores",
            {
                "isl_tokens": load.isl_tokens,
                "osl_tokens": load.osl_tokens,
                "blocks": account.kv_blocks,
                "blocks_per_request": account.layout.blocks_per_request(round(length)),
                "dp": ask.dp,
            },
        ),
        _step(
            "l_requests",
            None if (bound.l_requests or 0) >= LARGEST_BATCH else (bound.l_requests or 0) * lanes,
            "requests",
            "L: largest batch whose TPOT, prefills included, meets the target; none where no batch misses it",
            {"tpot_target_ms": tpot_ms, "lanes": lanes},
        ),
        _step(
            "tpot_batch_limit",
            bisect_right(range(1, LARGEST_BATCH + 1), tpot_ms / 1000, key=step_s) * lanes,
            "requests",
            "largest batch whose decode step alone meets the target",
            {"tpot_target_ms": tpot_ms, "context_tokens": load.mean_context_tokens, "lanes": lanes},
        ),
        _step("concurrency_limit", limit, "requests", "the smallest of K, L, TTFT and max_num_seqs", limits),
        _step("bottleneck", bound.binding, "", "the bound that gives the limit, or a full token budget before it", {}),
        _step("capacity_rps", bound.capacity_rps * lanes, "1/s", "rate that keeps the limit in the engine", {}),
        Figure(
            "first_load_test_requests",
            first,
            "requests",
            "assumed",
            rules.SAFETY_FACTOR.source,
            "floor(safety_factor x limit): where a load test begins",
            {"safety_factor": values["safety_factor"], "concurrency_limit": limit},
        ),
    ]
    if ask.concurrency is not None:
        replicas = math.ceil(ask.concurrency / first) if first else None
        figures.append(
            Figure(
                "replicas_for_concurrency",
                replicas,
                "replicas",
                "estimated",
                PHYSICS,
                "ceil(concurrency / first_load_test_requests)",
                {"concurrency": ask.concurrency, "first_load_test_requests": first},
            )
        )
    return figures


def _efficiency_figures(
    sized: Sized, coefficients: Mapping[str, float], load: MeanLoad, batch: int, values: Mapping[str, float]
) -> list[Figure]:
    """Share of a linear speed-up that the tensor-parallel ranks reach at the batch."""
    tp = sized.ask.tp
    each = max(1.0, batch / (sized.ask.pp * sized.ask.dp))
    one = each / decode_step_seconds(_parameters(sized, coefficients, 1), each, load.mean_context_tokens)
    all_ = each / decode_step_seconds(_parameters(sized, coefficients, tp), each, load.mean_context_tokens)
    return [
        _step(
            "parallel_efficiency",
            rules.parallel_efficiency(all_, one, tp),
            "share",
            "decode rate at TP n / (n x rate at TP 1), memory aside",
            {"tp": tp, "tokens_per_s_tp1": one, "tokens_per_s": all_},
        ),
        Figure(
            "parallel_efficiency_rule",
            rules.published_parallel_efficiency(tp, values["parallel_efficiency"]),
            "share",
            "cited",
            rules.PARALLEL_EFFICIENCY.source,
            "as published for 1, 2 and 4 GPUs; the coefficient for eight",
            {"tp": tp, "parallel_efficiency": values["parallel_efficiency"]},
        ),
    ]


def _step(name: str, value: float | int | str | None, unit: str, formula: str, inputs: Mapping[str, object]) -> Figure:
    return Figure(name, value, unit, "estimated", PHYSICS, formula, inputs)


def fleet_tiers(sized: Sized, catalog: Catalog) -> list[dict[str, Any]]:
    """For each tier the smallest tensor-parallel size the engine accepts whose replica holds its requests."""
    length = sized.settings.max_model_len
    rows: list[dict[str, Any]] = []
    sizes = []
    for tp in accepted_tp(sized):
        if sized.ask.ep > 1 and sized.ask.ep > tp * sized.ask.dp:
            continue
        account = account_of(sized.ask, sized.architecture, sized.weights, sized.gpu, sized.settings, catalog, tp)
        sizes.append((tp, account))
    for tier, needed in TIERS:
        found = next(((tp, a) for tp, a in sizes if a.feasible and a.max_concurrency(length) >= needed), None)
        rows.append(
            {
                "tier": tier,
                "requests_needed": needed,
                "max_model_len": length,
                "tp": found[0] if found else None,
                "gpus": found[0] * sized.ask.pp * sized.ask.dp if found else None,
                "nodes_a_group": math.ceil(found[0] / sized.gpu.node_gpus) if found else None,
                "weights_gib_per_gpu": found[1].weights_gib_per_gpu if found else None,
                "kv_budget_gib_per_gpu": found[1].kv_budget_gib_per_gpu if found else None,
                "max_concurrency": found[1].max_concurrency(length) if found else None,
                "label": "estimated",
            }
        )
    return rows


def _step_rows(chosen: Coefficients, own: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "value": own.get(name, row.value),
            "default": row.value,
            "usual_low": row.usual_low,
            "usual_high": row.usual_high,
            "unit": row.unit,
            "label": "assumed" if name in own else row.label,
            "source": rules_of_thumb.SET if name in own else row.source,
            "meaning": row.meaning,
        }
        for name, row in chosen.chosen.items()
    ]
