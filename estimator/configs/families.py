"""What families of models leave unsaid in config.json: class defaults and shapes fixed in the modelling code.

Belongs here: facts keyed by `model_type` (from the transformers and vLLM model classes). Does not: reading values
(`fields`), arithmetic on them (the sibling modules).
"""

from __future__ import annotations

from collections.abc import Mapping

NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")
"""Where multimodal configs keep their language model; the first that holds an object is read, repeatedly."""

KNOWN = frozenset(
    """baichuan bailing_moe bailing_moe_v2 bloom chatglm cohere cohere2 command-r deepseek deepseek_v2
    deepseek_v3 deepseek_v32 deepseek_v4 deepseek_ref dots1 ernie4_5 ernie4_5_moe exaone exaone4 falcon gemma
    gemma2 gemma3 gemma3_text gemma4 gemma4_text glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neox
    gpt_oss gptj grok granite granitemoe granitemoehybrid internlm internlm2 internlm3 jamba kimi_k2 kimi_k25 kimi_k3
    kimi_linear kimi_vl llama llama4 llama4_text llava llava_next mamba mamba2 mimo mimo_v2_flash minicpm
    minicpm3 minimax_m2 minimax_m3 ministral ministral3 mistral mistral3 mixtral moonshot mpt nemotron nemotron-nas
    nemotron_h olmo olmo2 olmo3 olmoe opt phi phi3 phimoe qwen qwen2 qwen2_5_vl qwen2_5_vl_text qwen2_moe
    qwen2_vl qwen2_vl_text qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl
    qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text seed_oss smollm3 solar stablelm starcoder2 step3p5 step3p7
    yi""".split()  # noqa: SIM905
)
"""Model types whose shape the sibling modules describe whole. Any other is read as a plain decoder and says so."""

ARCHITECTURES: Mapping[str, str] = {"Grok1ForCausalLM": "grok"}
"""Model types of configs that leave `model_type` out, by the class they name (Grok-2)."""

TIED = frozenset(
    """gemma gemma2 gemma3 gemma3_text gemma4 gemma4_text opt gpt2 bloom cohere cohere2 starcoder2 gpt_bigcode mpt mamba
    mamba2 falcon""".split()  # noqa: SIM905
)
"""Families whose class default ties the output head to the input embedding."""

UNGATED = frozenset(
    "opt phi gpt2 bloom falcon gpt_neox gptj codegen mpt starcoder2 gpt_bigcode nemotron nemotron_h persimmon".split()  # noqa: SIM905
)
"""Families whose feed-forward has two matrices (up, down) instead of three (gate, up, down)."""

QKV_BIAS = frozenset(
    "qwen qwen2 qwen2_moe qwen2_vl qwen2_5_vl qwen2_vl_text qwen2_5_vl_text opt phi gpt2 bloom".split()  # noqa: SIM905
)
"""Families with a bias on q, k and v whatever the config says."""

ACTIVE_LEAVES_OUT: Mapping[str, tuple[str, ...]] = {
    # gpt-oss model card (arXiv 2508.10925): 5.13 B and 3.61 B active, "unembedding counted, embedding not"
    "gpt_oss": ("embedding",),
    # DeepSeek-V3 README_WEIGHTS: 36.7 B; V2: 21 B; V4-Pro: 49 B. Kimi-K2 (same architecture): 32 B
    "deepseek_v2": ("embedding",),
    "deepseek_v3": ("embedding",),
    "deepseek_v32": ("embedding",),
    "deepseek_v4": ("embedding",),
    "kimi_k2": ("embedding",),
    "kimi_linear": ("embedding",),
    # Nemotron-3: 3.2 B of Nano and 55 B of Ultra are stated without embeddings
    "nemotron_h": ("embedding",),
    # GLM-4.5: 32 B; GLM-5: 40 B
    "glm4_moe": ("embedding", "head"),
    "glm4_moe_lite": ("embedding", "head"),
    "glm_moe_dsa": ("embedding", "head"),
    # MiniMax-M2: 10 B; 9.8 without either is the nearest count
    "minimax_m2": ("embedding", "head"),
    "minimax_m3": ("embedding", "head"),
}
"""What makers of routed models leave out of the active count they publish; everything counts elsewhere (Qwen, Mixtral,
Llama-4, Jamba, Grok)."""

CLASS_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "gemma3_text": {
        "vocab_size": 262208,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "gemma2": {"vocab_size": 256000, "head_dim": 256, "max_position_embeddings": 8192, "sliding_window": 4096},
    "gemma": {"vocab_size": 256000, "head_dim": 256, "max_position_embeddings": 8192},
    "llama": {"vocab_size": 32000, "max_position_embeddings": 2048},
    "llama4_text": {"vocab_size": 202048, "head_dim": 128, "attention_chunk_size": 8192},
    "mistral": {"vocab_size": 32000, "num_key_value_heads": 8, "max_position_embeddings": 131072},
    "mixtral": {"vocab_size": 32000, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen2_moe": {"shared_expert_intermediate_size": 5632, "moe_intermediate_size": 1408},
    "gpt_oss": {"head_dim": 64, "sliding_window": 128},
    "deepseek_v3": {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "opt": {"max_position_embeddings": 2048},
}
"""Values the model's config class fills in when config.json omits them (transformers)."""

PATTERNS: Mapping[str, int] = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma4_text": 6, "cohere2": 4, "exaone4": 4}
"""Every n-th layer attends fully, the others through the sliding window, where no layer list is given."""


def base_type(model_type: str) -> str:
    """The family's language-model type: `gemma3` configs nest a `gemma3_text` and may leave its name out."""
    return {"gemma3": "gemma3_text", "gemma4": "gemma4_text", "llama4": "llama4_text"}.get(model_type, model_type)
