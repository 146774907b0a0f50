"""A model as read, as a row of `model`, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from estimator.configs import UnsupportedConfig, parse_config
from pipelines.planning.candidates import Model
from pipelines.sources import ModelRead, SourceError


def model_row(read: ModelRead) -> dict[str, Any]:
    """A row of `model`. Raises SourceError when the config is of an architecture nobody can account for."""
    try:
        architecture = parse_config(read.config, read.model_id)
    except UnsupportedConfig as error:
        raise SourceError(f"{read.model_id}: {error}") from None
    if architecture.unaccounted:
        raise SourceError(
            f"{read.model_id}: its config holds {', '.join(architecture.unaccounted)}, which the memory account does "
            "not cover, so no figure for it would be right. Choose another model."
        )
    served = Model(read.model_id, architecture, read.checkpoint_bytes, read.label, read.source)
    weight = served.weights("auto")
    widest = max(architecture.layers, key=lambda layer: layer.attention.kv_elements_per_token).attention
    return {
        "model_id": read.model_id,
        "revision": read.revision,
        "model_type": architecture.model_type,
        "attention_kind": architecture.attention_kind,
        "layers": len(architecture.layers),
        "hidden_size": architecture.hidden_size,
        "heads": max(widest.heads, 1),
        "kv_heads": max(widest.kv_heads, 1),
        "head_dim": max(widest.head_dim, 1),
        "vocab_size": architecture.vocab_size,
        "max_position_tokens": architecture.max_position_tokens,
        "parameters_total": architecture.parameters_total,
        "parameters_active": architecture.parameters_active,
        "dtype": architecture.dtype,
        "quantization": architecture.quantization,
        "checkpoint_bytes": read.checkpoint_bytes,
        "weight_bytes": int(weight.dense_bytes + weight.expert_bytes),
        "weight_label": weight.label,
        "kv_bytes_per_token": 2.0 * sum(layer.attention.kv_elements_per_token for layer in architecture.layers),
        "config_json": json.dumps(read.config, ensure_ascii=False, sort_keys=True),
        "source": read.source,
    }


def model_of(row: Mapping[str, Any]) -> Model:
    """The model of a row of `model`."""
    return Model(
        model_id=row["model_id"],
        architecture=parse_config(json.loads(row["config_json"]), row["model_id"]),
        checkpoint_bytes=row["checkpoint_bytes"],
        label=row["weight_label"],
        source=row["source"],
    )
