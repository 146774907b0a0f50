"""The account: visible memory less everything else is the KV budget, line by line.

Belongs here: the account, and the order of its terms. Does not: the rule and what a stage holds (`case`), whether it
starts (`feasibility`), or any term's arithmetic (sibling modules).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from estimator.architecture import Architecture
from estimator.engines import EngineSettings, Known, Rows, profile_values
from estimator.hardware import GIB, Accelerator
from estimator.memory import kv, overheads
from estimator.memory.case import Case, StageAccount, StageFigures, as_run, binding, stage_accounts
from estimator.memory.feasibility import least_change, reasons_against
from estimator.weights import Weights


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
    case = Case(as_run(architecture, known), weights, accelerator, settings, tp, pp, dp, ep, known, safety_gib)
    accounts, share, share_label = stage_accounts(case)
    held, first = binding(case, accounts), accounts[0]
    lacking = max(each.warm_up_gib for each in accounts)
    if architecture.unaccounted:
        held = replace(held, blocks=0)  # what the cache holds is not known, so no figure stands for it
    reasons = reasons_against(case, held, lacking)
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
        least_change=least_change(case, lacking) if reasons and not architecture.unaccounted else "",
        layout=held.layout,
        state_gib_per_sequence=held.layout.state_bytes_per_sequence / GIB,
        first_stage=StageFigures(first.weights_gib, first.activation_gib, first.graph_gib, first.budget_gib),
    )


def _terms(
    case: Case,
    held: StageAccount,
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
