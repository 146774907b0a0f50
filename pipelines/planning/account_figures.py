"""The memory account of what was sized, as figures: each with its formula, inputs, label and source.

Belongs here: which figures `size` gives and how each is explained. Does not: computing them (`estimator.memory`).
"""

from __future__ import annotations

from estimator.architecture import Architecture
from estimator.engines import profile_values
from pipelines.planning.figures import Figure
from pipelines.planning.sizing import Sized


def memory_figures(sized: Sized) -> list[Figure]:
    """The account's figures, parameters first, each with its formula and inputs; values None where nothing is sure."""
    architecture, account, settings = sized.architecture, sized.account, sized.settings
    sure = account is not None
    terms = {term.term: term for term in account.terms} if account else {}
    config = f"config.json: {sized.read.source}"
    label = {name: term.label for name, term in terms.items()}

    def figure(name: str, unit: str, term: str, formula: str, **inputs: object) -> Figure:
        value = getattr(account, name) if account else None
        source = terms[term].source if term in terms else "not accounted for"
        return Figure(name, value, unit, label.get(term, "estimated"), source, formula, inputs)

    spent = ("visible_memory", "utilization", "weights", "activation", "non_torch", "cuda_graphs", "safety")
    shown = {name: terms[name].value for name in spent if name in terms}
    layers = len(architecture.layers)
    length = settings.max_model_len
    return [
        Figure(
            "parameters_total",
            architecture.parameters_total if sure else None,
            "",
            "inferred",
            config,
            "embedding + head + sum over layers (attention + norms + dense + experts) + vision",
            {"layers": layers, "hidden_size": architecture.hidden_size, "vocab_size": architecture.vocab_size},
        ),
        Figure(
            "parameters_active",
            architecture.parameters_active if sure else None,
            "",
            "inferred",
            config,
            "parameters_total less routed experts a token leaves idle and the vision tower",
            _experts(architecture),
        ),
        figure(
            "weights_gib_per_gpu",
            "GiB",
            "weights",
            "bytes by part / the ranks that slice it; copies, embedding and head on their ranks; the binding stage",
            total_gib=sized.weights.total_bytes / 2**30,
            tp=sized.ask.tp,
            pp=sized.ask.pp,
            dp=sized.ask.dp,
            ep=sized.ask.ep,
            precision=sized.weights.precision,
        ),
        figure(
            "activation_gib_per_gpu",
            "GiB",
            "activation",
            "the larger of forward pass and sampler in the profiling run",
            **_profile(sized, "sampler_", "forward_"),
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            vocab_size=architecture.vocab_size,
            hidden_size=architecture.hidden_size,
        ),
        figure("non_torch_gib_per_gpu", "GiB", "non_torch", "engine profile at this TP", tp=sized.ask.tp),
        figure(
            "graph_gib_per_gpu",
            "GiB",
            "cuda_graphs",
            "a base, each layer and experts, by how many batch sizes are captured",
            layers=layers,
            **_profile(sized, "graph_"),
        ),
        figure("kv_budget_gib_per_gpu", "GiB", "kv_budget", _rule(settings.engine), **shown),
        figure(
            "kv_bytes_per_token_per_gpu",
            "B",
            "kv_bytes_per_token",
            "sum over layers of cached elements of a rank x bytes of one",
            kv_cache_dtype=settings.kv_cache_dtype,
            attention=architecture.attention_kind,
            tp=sized.ask.tp,
        ),
        figure(
            "kv_budget_tokens",
            "tokens",
            "kv_budget_tokens",
            "whole blocks of the budget, in tokens as this engine counts them",
            blocks=account.kv_blocks if account else None,
            block_tokens=account.layout.printed_block_tokens if account else None,
        ),
        Figure(
            "max_concurrency",
            account.max_concurrency(length) if account else None,
            "requests",
            label.get("max_concurrency", "estimated"),
            terms["max_concurrency"].source if terms else "not accounted for",
            "blocks / blocks of a request of max_model_len tokens, on one engine core",
            {
                "max_model_len": length,
                "blocks": account.kv_blocks if account else None,
                "blocks_per_request": account.layout.blocks_per_request(length) if account else None,
            },
        ),
        figure("state_gib_per_sequence", "GiB", "state_per_sequence", "recurrent layers' state of one sequence"),
    ]


def _experts(architecture: Architecture) -> dict[str, object]:
    forwards = [layer.feed_forward for layer in architecture.layers if layer.feed_forward.experts]
    if not forwards:
        return {"experts": 0}
    return {"experts": forwards[0].experts, "experts_per_token": forwards[0].experts_per_token}


def _profile(sized: Sized, *prefixes: str) -> dict[str, object]:
    """The engine profile's values that a term is made of."""
    known = profile_values(sized.engine, sized.version, sized.gpu, sized.profile)
    return {name: row.value for name, row in sorted(known.items()) if name.startswith(prefixes)}


def _rule(engine: str) -> str:
    return {
        "sglang": "(visible - non_torch) x mem_fraction_static - weights - safety",
        "tensorrt-llm": "(visible - weights - activation - non_torch) x free_gpu_memory_fraction - safety",
    }.get(engine, "visible x utilization - weights - activation - non_torch [- graphs from 0.21] - safety")
