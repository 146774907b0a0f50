"""A model, its config and its size, as the tests of `capsheet size` share them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.commands.size import answer
from pipelines.planning.sizing import Ask

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}


FIGURES = (
    "weights_gib_per_gpu",
    "activation_gib_per_gpu",
    "non_torch_gib_per_gpu",
    "graph_gib_per_gpu",
    "kv_budget_gib_per_gpu",
    "kv_bytes_per_token_per_gpu",
    "kv_budget_tokens",
    "max_concurrency",
    "parameters_total",
    "parameters_active",
)


def sized(model: str = LLAMA, gpu: str = "H100-SXM", explain: bool = False, **options: Any) -> dict[str, Any]:
    ask = Ask(model, gpu, **{"engine": "vllm@0.19.0", "max_model_len": 4096, **options})
    return answer(ask, Path.cwd(), offline=True, explain=explain)


def config_file(folder: Path, **changes: Any) -> Path:
    file = folder / "config.json"
    kept = {name: value for name, value in {**CONFIG, **changes}.items() if value is not ...}
    file.write_text(json.dumps(kept), encoding="utf-8")
    return file
