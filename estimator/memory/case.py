"""What is asked of an account, and what a GPU of each pipeline stage then holds, by the engine's own rule.

Belongs here: the case and its stages. Does not: whether it starts (`feasibility`), the account's lines (`account`), or
any term's arithmetic (`ranks`, `overheads`, `kv`).

    vLLM           visible x utilisation - weights - activation - non-torch [- graphs, from 0.21] - safety
    SGLang         (visible - non-torch) x mem_fraction_static - weights - safety
    TensorRT-LLM   (visible - weights - activation - non-torch) x free_gpu_memory_fraction - safety
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.architecture import Architecture
from estimator.engines import EngineSettings, Known
from estimator.hardware import GIB, Accelerator
from estimator.memory import kv, overheads, ranks, sglang
from estimator.weights import Weights


@dataclass(frozen=True, slots=True)
class Case:
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


@dataclass(frozen=True, slots=True)
class StageFigures:
    """What a GPU of one pipeline stage holds, GiB."""

    weights_gib: float
    activation_gib: float
    graph_gib: float
    budget_gib: float


@dataclass(frozen=True, slots=True)
class StageAccount(StageFigures):
    """The same with its cache."""

    warm_up_gib: float
    """Warm-up's need beyond what is left for it when weights, cache and graphs are in place; 0 when it suffices."""
    layout: kv.Layout
    blocks: int


def as_run(architecture: Architecture, known: Mapping[str, Known]) -> Architecture:
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


def share_of_memory(case: Case) -> tuple[float, tuple[str, str]]:
    """The share of memory that the engine's rule starts from, and how it is known: (label, source)."""
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


def stage_accounts(case: Case) -> tuple[list[StageAccount], float, tuple[str, str]]:
    """Every stage, the share of memory, and how that is known."""
    share, label = share_of_memory(case)
    return [_stage(case, stage, share) for stage in ranks.stages(case.architecture, case.pp)], share, label


def binding(case: Case, accounts: Sequence[StageAccount]) -> StageAccount:
    """The stage whose cache holds fewest requests of max_model_len."""
    length = case.settings.max_model_len

    def holds(account: StageAccount) -> float:
        needed = account.layout.blocks_per_request(length)
        # A stage without any cache never binds by tokens; negative budgets bind by how negative they are.
        return (
            account.blocks / needed
            if account.budget_gib > 0 and account.layout.block_bytes
            else (account.budget_gib if account.budget_gib <= 0 else math.inf)
        )

    return min(accounts, key=holds)


def _stage(case: Case, stage: ranks.Stage, share: float) -> StageAccount:
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
    return StageAccount(weights_gib, activation, graph, budget, lacking, layout, layout.blocks(pool))
