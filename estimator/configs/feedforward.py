"""Feed-forward layers of a config: dense, routed, shared, dense-first, interleaved, latent and parallel experts.

Belongs here: which layers route, and how many parameters a layer's feed-forward has. Does not: attention, bytes.
"""

from __future__ import annotations

from estimator.architecture import FeedForward
from estimator.configs.families import UNGATED
from estimator.configs.fields import Fields

EXPERTS = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_moe_experts",
    "num_routed_experts",
    "n_experts",
)
TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
    "num_selected_experts",
)
EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
WIDTH = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff")
SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
SHARED_WIDTH = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)


def matrices(family: str) -> int:
    """Weight matrices of a feed-forward: 3 with a gate, 2 without."""
    return 2 if family in UNGATED else 3


def expert_count(text: Fields) -> int:
    """Routed experts of a layer that routes; 0 for a dense model."""
    return text.integer(*EXPERTS, default=0, minimum=0, maximum=100_000)


def dense_width(text: Fields, hidden: int) -> int:
    """Width of a dense feed-forward; 4 x hidden where the family's class leaves it out (gpt2, bloom, falcon)."""
    if text.has("intermediate_size_mlp"):
        return text.integer("intermediate_size_mlp")
    if text.has("dense_intermediate_size"):
        return text.integer("dense_intermediate_size")
    family = text.text("model_type")
    if not text.has(*WIDTH) and family in {"gpt2", "bloom", "falcon", "gptj", "codegen"}:
        return 4 * hidden
    return text.integer(*WIDTH)


def dense(text: Fields, family: str, hidden: int, width: int) -> FeedForward:
    """A dense feed-forward of one layer."""
    bias = text.boolean("mlp_bias", "enable_bias", default=family in {"opt", "phi", "gpt2", "bloom", "gpt_neox"})
    parameters = matrices(family) * hidden * width + ((width + hidden) if bias else 0)
    return FeedForward(dense_parameters=parameters, intermediate_size=width)


def routed(text: Fields, family: str, hidden: int) -> FeedForward:
    """A feed-forward of routed experts, with its router and shared experts.

    `moe_latent_size` (Nemotron-3) routes in a narrower space between two projections every token uses;
    `residual_moe` (Grok-2) and `enable_moe_block` (Gemma-4) keep a dense feed-forward beside the experts.
    """
    experts = expert_count(text)
    top_k = text.integer(*TOP_K, minimum=1, maximum=experts)
    width = text.integer(*EXPERT_WIDTH, default=None) or text.integer(*WIDTH)
    per = matrices(family)
    latent = text.integer("moe_latent_size", "routed_expert_hidden_size", default=0, minimum=0)
    inner = latent or hidden
    expert = per * inner * width + ((2 * width + hidden) if family == "gpt_oss" else 0)
    router = hidden * experts
    shared_count = text.integer(*SHARED_COUNT, default=0, minimum=0, maximum=1000)
    shared_width = text.integer(*SHARED_WIDTH, default=0, minimum=0) or shared_count * width
    if family == "llama4_text":
        shared_width = width
    always = router + per * hidden * shared_width + 2 * hidden * latent
    if family == "qwen2_moe" or family.startswith(("qwen3_next", "qwen3_5_moe")):
        always += hidden  # the shared expert's gate
    beside = 0
    if text.boolean("residual_moe", default=False) or text.boolean("enable_moe_block", default=False):
        beside = text.integer(*WIDTH)
        always += per * hidden * beside
    return FeedForward(
        dense_parameters=always,
        experts=experts,
        experts_per_token=top_k,
        expert_parameters=expert,
        router_parameters=router,
        intermediate_size=shared_width + beside,
        expert_intermediate_size=width,
    )


def routes(text: Fields, layers: int) -> list[bool]:
    """Which layers route, by whichever of the families' ways the config uses."""
    if expert_count(text) == 0:
        return [False] * layers
    kinds = text.texts("mlp_layer_types")
    if kinds is not None:
        _covers(text, "mlp_layer_types", len(kinds), layers)
        return [kind in {"sparse", "moe"} for kind in kinds[:layers]]
    if isinstance(text.values.get("moe_layer_freq"), list):
        flags = text.integers("moe_layer_freq") or []
        _covers(text, "moe_layer_freq", len(flags), layers)
        return [flag > 0 for flag in flags[:layers]]
    if text.has("moe_layers_enum"):
        chosen = {int(part) for part in text.text("moe_layers_enum").split(",") if part.strip().isdigit()}
        return [index in chosen for index in range(layers)]
    listed = text.integers("moe_layers")
    if listed is not None:
        return [index in set(listed) for index in range(layers)]
    first = text.integer("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", default=0, minimum=0)
    period = text.integer("expert_layer_period", "moe_layer_freq", "interleave_moe_layer_step", default=1)
    offset = text.integer("expert_layer_offset", default=0, minimum=0)
    step = text.integer("decoder_sparse_step", default=1)
    only_dense = set(text.integers("mlp_only_layers") or [])
    flags_out = []
    for index in range(layers):
        if text.has("expert_layer_period"):
            on_period = index % period == offset
        elif text.has("interleave_moe_layer_step"):
            on_period = (index + 1) % period == 0
        else:
            on_period = index % period == 0
        flags_out.append(index >= first and on_period and (index + 1) % step == 0 and index not in only_dense)
    return flags_out


def _covers(text: Fields, name: str, entries: int, layers: int) -> None:
    if entries < layers:
        raise text.fail(name, f"has {entries} entries for {layers} layers", "take the whole config.json of the model")


def stack(text: Fields, family: str, hidden: int, layers: int) -> list[FeedForward]:
    """The feed-forward of every layer."""
    flags = routes(text, layers)
    sparse = routed(text, family, hidden) if any(flags) else FeedForward()
    plain = dense(text, family, hidden, dense_width(text, hidden)) if not all(flags) else FeedForward()
    return [sparse if flag else plain for flag in flags]
