"""The account: visible memory less everything else is the KV budget, by each engine's own rule.

Belongs here: the order of the terms, the rule, feasibility and the least change that mends it. Does not: any term's
arithmetic (sibling modules).

    vLLM           visible x utilisation - weights - activation - non-torch [- graphs, from 0.21] - safety
    SGLang         (visible - non-torch) x mem_fraction_static - weights - safety
    TensorRT-LLM   (visible - weights - activation - non-torch) x free_gpu_memory_fraction - safety
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.architecture import Architecture
from estimator.engines import EngineSettings, Known, Rows, profile_values
from estimator.hardware import GIB, Accelerator
from estimator.memory import kv, overheads, ranks, sglang
from estimator.memory.limits import tensor_parallel_problem
from estimator.weights import UnsupportedPrecision, Weights
from estimator.weights import weights as weights_in

MAX_UTILIZATION = 0.95
"""The highest share capsheet proposes: beyond it warm-up runs out of memory in start-up logs."""


@dataclass(frozen=True, slots=True)
class Term:
    """One line of the account, in reading order."""

    term: str
    value: float
    unit: str
    label: str
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What a GPU of one pipeline stage holds, GiB."""

    weights_gib: float
    activation_gib: float
    graph_gib: float
    budget_gib: float


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """What a GPU of a replica holds. With pipeline stages, the figures are the binding stage's: the one whose cache
    holds fewest tokens."""

    terms: tuple[Term, ...]
    weights_gib_per_gpu: float
    activation_gib_per_gpu: float
    non_torch_gib_per_gpu: float
    graph_gib_per_gpu: float
    kv_budget_gib_per_gpu: float
    kv_bytes_per_token_per_gpu: float
    kv_budget_tokens: int
    kv_blocks: int
    feasible: bool
    reasons: tuple[str, ...]
    least_change: str
    layout: kv.Layout
    state_gib_per_sequence: float
    first_stage: StageFigures
    """Of the first pipeline stage, whose figures a log prints: the binding stage's own without stages."""

    def max_concurrency(self, length_tokens: float) -> float:
        """Requests of this length that fit at once, counted in whole blocks a request (not budget / rate)."""
        needed = self.layout.blocks_per_request(max(1, math.ceil(length_tokens)))
        return self.kv_blocks / needed if needed else 0.0

    def capacity_tokens(self, length_tokens: float) -> float:
        """Tokens the cache holds in requests of this length; for a hybrid, more than `kv_budget_tokens` suggests."""
        return self.max_concurrency(length_tokens) * length_tokens


@dataclass(frozen=True, slots=True)
class _StageAccount(StageFigures):
    warm_up_gib: float
    """Warm-up's need beyond what is left for it when weights, cache and graphs are in place; 0 when it suffices."""
    layout: kv.Layout
    blocks: int


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything the rule needs, so that a change can be tried by replacing one field."""

    architecture: Architecture
    weights: Weights
    accelerator: Accelerator
    settings: EngineSettings
    tp: int
    pp: int
    dp: int
    ep: int
    known: Mapping[str, Known]
    safety_gib: float


def memory_account(
    architecture: Architecture,
    weights: Weights,
    accelerator: Accelerator,
    settings: EngineSettings,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    ep: int = 1,
    *,
    profile: Rows,
    safety_gib: float = 0.0,
) -> MemoryAccount:
    """The account of one GPU of a replica on tp x pp GPUs.

    `dp` counts data-parallel attention ranks that share the experts with this one: experts spread over tp x dp ranks
    whatever the engine. `ep` of them get experts of their own, tp x dp / ep share each; at tp x dp they are whole. An
    architecture with something unaccounted for is never feasible: its cache holds 0 blocks, its terms are labelled
    assumed and the reasons say what is missing.

    Raises ValueError for sizes below 1 or more stages than layers, UnknownEngine for an engine the profile lacks.
    """
    if min(tp, pp, dp, ep) < 1:
        raise ValueError(f"tp {tp}, pp {pp}, dp {dp}, ep {ep}: each is at least 1")
    known = profile_values(settings.engine, settings.version, accelerator, profile)
    if architecture.compressed and not {"compressed_packing", "compressed_window_share"} & set(known):
        gap = f"how {settings.engine} {settings.version} lays out the cache of compressed attention is not known"
        architecture = replace(architecture, unaccounted=(*architecture.unaccounted, gap))
    case = _Case(_as_run(architecture, known), weights, accelerator, settings, tp, pp, dp, ep, known, safety_gib)
    accounts, share, share_label = _stages(case)
    held, first = _binding(case, accounts), accounts[0]
    lacking = max(each.warm_up_gib for each in accounts)
    if architecture.unaccounted:
        held = replace(held, blocks=0)  # what the cache holds is not known, so no figure stands for it
    reasons = _reasons(case, held, lacking)
    tokens = held.layout.printed_tokens(held.blocks, settings.max_model_len)
    rate = held.layout.bytes_per_token
    if held.layout.at_length and len(held.layout.groups) > 1 and tokens:
        rate = held.blocks * held.layout.block_bytes / tokens
    outside = overheads.non_torch(known, tp, pp)
    return MemoryAccount(
        terms=_terms(case, held, share, share_label, outside, tokens, rate),
        weights_gib_per_gpu=held.weights_gib,
        activation_gib_per_gpu=held.activation_gib,
        non_torch_gib_per_gpu=outside.value,
        graph_gib_per_gpu=held.graph_gib,
        kv_budget_gib_per_gpu=held.budget_gib,
        kv_bytes_per_token_per_gpu=rate,
        kv_budget_tokens=tokens,
        kv_blocks=held.blocks,
        feasible=not reasons,
        reasons=tuple(reasons),
        least_change=_least_change(case, lacking) if reasons and not architecture.unaccounted else "",
        layout=held.layout,
        state_gib_per_sequence=held.layout.state_bytes_per_sequence / GIB,
        first_stage=StageFigures(first.weights_gib, first.activation_gib, first.graph_gib, first.budget_gib),
    )


def _as_run(architecture: Architecture, known: Mapping[str, Known]) -> Architecture:
    """The architecture as the engine runs it: engines before they knew MLA cached every head, padded."""
    padded = int(overheads.value(known, "mla_head_elements"))
    if not padded:
        return architecture
    layers = (
        replace(
            layer,
            attention=replace(
                layer.attention,
                kind="full",
                kv_heads=layer.attention.heads,
                kv_elements_per_token=2 * layer.attention.heads * padded,
            ),
        )
        if layer.attention.kind == "mla"
        else layer
        for layer in architecture.layers
    )
    return replace(architecture, layers=tuple(layers))


def _share(case: _Case) -> tuple[float, tuple[str, str]]:
    settings = case.settings
    provenance = settings.provenance.get("gpu_memory_utilization", ("assumed", "set by the caller"))
    if settings.engine == "sglang":
        share = sglang.static_fraction(settings, case.accelerator, case.known, case.tp * case.pp, case.architecture)
        if math.isnan(settings.gpu_memory_utilization):
            provenance = ("cited", "SGLang server_args heuristic by version and memory")
        return share, provenance
    if math.isnan(settings.gpu_memory_utilization):
        return 0.9, ("assumed", "no default in the profile")
    return settings.gpu_memory_utilization, provenance


def _stages(case: _Case) -> tuple[list[_StageAccount], float, tuple[str, str]]:
    share, label = _share(case)
    return [_stage(case, stage, share) for stage in ranks.stages(case.architecture, case.pp)], share, label


def _binding(case: _Case, accounts: Sequence[_StageAccount]) -> _StageAccount:
    length = case.settings.max_model_len

    def holds(account: _StageAccount) -> float:
        needed = account.layout.blocks_per_request(length)
        # A stage without any cache never binds by tokens; negative budgets bind by how negative they are.
        return (
            account.blocks / needed
            if account.budget_gib > 0 and account.layout.block_bytes
            else (account.budget_gib if account.budget_gib <= 0 else math.inf)
        )

    return min(accounts, key=holds)


def _stage(case: _Case, stage: ranks.Stage, share: float) -> _StageAccount:
    architecture, settings, known = case.architecture, case.settings, case.known
    # Engines count data-parallel attention ranks among those that share the experts (SGLang's --tp-size is tp x dp).
    expert_ranks = case.tp * case.dp
    ep = min(case.ep, expert_ranks)
    weights_gib = ranks.rank_weight_bytes(architecture, case.weights, stage, case.tp, expert_ranks, ep, known) / GIB
    activation = overheads.activation_gib(architecture, case.weights, settings, stage, case.tp, expert_ranks, ep, known)
    graph = overheads.graph_gib(settings, stage, case.tp, known)
    outside = overheads.non_torch(known, case.tp, case.pp).value
    visible = case.accelerator.visible_memory_gib
    if settings.engine == "sglang":
        budget = (visible - outside) * share - weights_gib
    elif settings.engine == "tensorrt-llm":
        budget = (visible - weights_gib - activation - outside) * share
    else:
        budget = visible * share - weights_gib - activation - outside
        if overheads.value(known, "graph_in_budget") > 0:
            budget -= graph
    budget -= case.safety_gib
    layout = kv.layout(stage.layers, settings, case.tp, ranks.BYTES[architecture.dtype], known)
    pool = budget * GIB
    if settings.engine == "sglang":
        pool = sglang.token_pool(pool, stage.layers, settings, case.tp, layout, known)
    left = visible - weights_gib - outside - max(budget, 0.0) - graph
    warm_up = overheads.warm_up_gib(architecture, settings, stage, expert_ranks, ep, known)
    lacking = max(0.0, warm_up - left) if budget > 0 else 0.0
    return _StageAccount(weights_gib, activation, graph, budget, lacking, layout, layout.blocks(pool))


def _reasons(case: _Case, held: _StageAccount, lacking_gib: float) -> list[str]:
    settings = case.settings
    if case.architecture.unaccounted:
        return [f"not accounted for, so the cache is not sized: {'; '.join(case.architecture.unaccounted)}"]
    out: list[str] = []
    problem = _tp_problem(case, case.tp)
    if problem:
        out.append(problem)
    if settings.max_model_len > case.architecture.max_position_tokens:
        out.append(
            f"max_model_len {settings.max_model_len:,} is beyond the {case.architecture.max_position_tokens:,} tokens "
            "the model allows"
        )
    if held.budget_gib <= 0:
        out.append(
            f"no memory is left for the KV cache: {held.budget_gib:.2f} GiB a GPU after {held.weights_gib:.2f} of "
            f"weights on {case.accelerator.visible_memory_gib:.2f} visible"
        )
    else:
        needed = held.layout.blocks_per_request(settings.max_model_len)
        if held.blocks < needed:
            out.append(
                f"the KV cache's {held.blocks:,} blocks hold no request of max_model_len {settings.max_model_len:,} "
                f"({needed:,} blocks)"
            )
        if lacking_gib:
            out.append(
                f"start-up would run out of memory once the cache is allocated: drawing for {settings.max_num_seqs:,} "
                f"sequences lacks {lacking_gib:.2f} GiB beside the CUDA graphs"
            )
    return out


def _tp_problem(case: _Case, tp: int) -> str | None:
    ep = 1 if case.ep == 1 else tp
    return tensor_parallel_problem(
        case.architecture, tp, scheme=case.weights.scheme, ep=ep, engine=case.settings.engine
    )


def _fits(case: _Case) -> bool:
    accounts, _, _ = _stages(case)
    return not _reasons(case, _binding(case, accounts), max(each.warm_up_gib for each in accounts))


def _least_change(case: _Case, lacking_gib: float) -> str:
    """The smallest of the usual changes that makes the case feasible, tried in order; what a GPU would need if none."""
    settings = case.settings
    share, _ = _share(case)
    if settings.engine != "tensorrt-llm" and (share < MAX_UTILIZATION or lacking_gib):
        flag = "--mem-fraction-static" if settings.engine == "sglang" else "--gpu-memory-utilization"
        up = range(math.floor(share * 100) + 1, round(MAX_UTILIZATION * 100) + 1)
        # A share that leaves the warm-up too little has to fall; up to 0.05, beyond which the cache is the matter.
        down = range(math.ceil(share * 100) - 1, max(1, round(share * 100) - 6), -1)
        for percent in (*down, *up) if lacking_gib else up:
            if _fits(replace(case, settings=replace(settings, gpu_memory_utilization=percent / 100))):
                return f"It fits with {flag} {percent / 100:.2f}."
    shorter = _shorter(case)
    if shorter:
        return f"It fits with --max-model-len {shorter}."
    for tp in (2, 4, 8, 16):
        if tp > case.tp and not _tp_problem(case, tp) and _fits(replace(case, tp=tp)):
            return f"It fits with tensor parallel {tp}."
    for precision in ("fp8", "int4"):
        if case.weights.scheme.scheme != "none":
            break
        try:
            smaller = weights_in(case.architecture, precision)
        except UnsupportedPrecision:
            continue
        if _fits(replace(case, weights=smaller)):
            return f"It fits in {precision}."
    for visible in (39.5, 79.0, 94.0, 140.0, 178.0, 268.0):
        bigger = replace(case.accelerator, visible_memory_gib=visible)
        if visible > case.accelerator.visible_memory_gib and _fits(replace(case, accelerator=bigger)):
            return f"It fits on a GPU with {visible:g} GiB visible."
    return "No single change of utilisation, length, tensor parallel, precision or GPU makes it fit; combine them."


def _shorter(case: _Case) -> int | None:
    """The longest max_model_len, in steps of 1,024, at which the case fits; None when none does."""
    low, high = 0, case.settings.max_model_len // 1024
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(replace(case, settings=replace(case.settings, max_model_len=middle * 1024))):
            low = middle
        else:
            high = middle - 1
    return low * 1024 if low else None


def _terms(
    case: _Case,
    held: _StageAccount,
    share: float,
    share_label: tuple[str, str],
    outside: Known,
    tokens: int,
    rate: float,
) -> tuple[Term, ...]:
    settings, weights, known = case.settings, case.weights, case.known
    visible = case.accelerator.visible_memory_gib
    kv_label, kv_source = settings.provenance.get("kv_cache_dtype", ("assumed", "set by the caller"))
    in_budget = overheads.value(known, "graph_in_budget") > 0
    of = {"sglang": "weights and KV cache", "tensorrt-llm": "what is free after weights"}.get(
        settings.engine, "visible memory"
    )
    logit = known.get("sampler_bytes_per_logit", Known(0, "inferred", "forward pass of a full batch"))
    graph = known.get("graph_base_gib", Known(0, "assumed", "the profile has no figure"))
    length = settings.max_model_len
    needed = held.layout.blocks_per_request(length)
    missing = "; ".join(case.architecture.unaccounted)
    terms = (
        Term("visible_memory", visible, "GiB", "measured", f"catalogue: {case.accelerator.gpu_id}"),
        Term("utilization", share, "", *share_label, note=f"share of {of}"),
        Term("weights", held.weights_gib, "GiB", weights.label, weights.source, weights.note),
        Term(
            "activation",
            held.activation_gib,
            "GiB",
            "estimated",
            logit.source,
            f"{settings.max_num_seqs:,} sequences, {settings.max_num_batched_tokens:,} batched tokens"
            + ("; inside the memory left out" if settings.engine == "sglang" else ""),
        ),
        Term("non_torch", outside.value, "GiB", outside.label, outside.source, f"TP {case.tp}"),
        Term(
            "cuda_graphs",
            held.graph_gib,
            "GiB",
            "estimated",
            graph.source,
            "deducted from the budget" if in_budget else "outside the budget: keep this much free",
        ),
        Term("safety", case.safety_gib, "GiB", "assumed", "workspace", "left free on purpose"),
        Term("kv_budget", held.budget_gib, "GiB", "estimated", f"{settings.engine} budget rule"),
        Term("kv_bytes_per_token", rate, "B", kv_label, kv_source, settings.kv_cache_dtype),
        Term(
            "state_per_sequence",
            held.layout.state_bytes_per_sequence / GIB,
            "GiB",
            "inferred",
            "config.json",
            "recurrent layers" if held.layout.state_bytes_per_sequence else "no recurrent layers",
        ),
        Term(
            "kv_blocks",
            held.blocks,
            "blocks",
            "estimated",
            f"{settings.engine} page layout",
            f"{len(held.layout.groups)} group(s) of layers",
        ),
        Term(
            "kv_budget_tokens",
            tokens,
            "tokens",
            "estimated",
            f"{settings.engine} page layout",
            "as the engine prints it",
        ),
        Term(
            "max_concurrency",
            held.blocks / needed if needed else 0.0,
            "requests",
            "estimated",
            f"{settings.engine} page layout",
            f"requests of {length:,} tokens, in whole blocks",
        ),
    )
    if not missing:
        return terms
    measured = {"visible_memory", "utilization"}
    return tuple(t if t.term in measured else replace(t, label="assumed", note=f"not whole: {missing}") for t in terms)
