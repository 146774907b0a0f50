"""Whether an engine starts with what it is asked to hold, and the least change that would make it.

Belongs here: reasons against a case and changes tried on it. Does not: what a GPU holds (`case`), which TP sizes an
engine accepts (`limits`).
"""

from __future__ import annotations

import math
from dataclasses import replace

from estimator.memory.case import Case, StageAccount, binding, share_of_memory, stage_accounts
from estimator.memory.limits import tensor_parallel_problem
from estimator.weights import UnsupportedPrecision
from estimator.weights import weights as weights_in

MAX_UTILIZATION = 0.95
"""The highest share capsheet proposes: beyond it warm-up runs out of memory in start-up logs."""


def reasons_against(case: Case, held: StageAccount, lacking_gib: float) -> list[str]:
    """Why the engine does not start; empty when it does. `lacking_gib` is what its warm-up lacks."""
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


def _tp_problem(case: Case, tp: int) -> str | None:
    ep = 1 if case.ep == 1 else tp
    return tensor_parallel_problem(
        case.architecture, tp, scheme=case.weights.scheme, ep=ep, engine=case.settings.engine
    )


def _fits(case: Case) -> bool:
    accounts, _, _ = stage_accounts(case)
    return not reasons_against(case, binding(case, accounts), max(each.warm_up_gib for each in accounts))


def least_change(case: Case, lacking_gib: float) -> str:
    """The smallest of the usual changes that makes the case feasible, tried in order; what a GPU would need if none."""
    settings = case.settings
    share, _ = share_of_memory(case)
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


def _shorter(case: Case) -> int | None:
    """The longest max_model_len, in steps of 1,024, at which the case fits; None when none does."""
    low, high = 0, case.settings.max_model_len // 1024
    while low < high:
        middle = (low + high + 1) // 2
        if _fits(replace(case, settings=replace(case.settings, max_model_len=middle * 1024))):
            low = middle
        else:
            high = middle - 1
    return low * 1024 if low else None
