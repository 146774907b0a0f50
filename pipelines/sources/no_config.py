"""What a file, a folder or a repository holds instead of a model's config, and what to name in its place.

Belongs here: telling apart what people name by mistake: adapters, GGUF files, tokenisers, pipelines, error pages. Does
not: reading a config (`models`), asking a hub (`hub`, `modelscope`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from pipelines.sources.base import SourceError, shown

ADAPTER = "adapter_config.json"
_WEIGHTS = {".gguf": "a GGUF file", ".safetensors": "weights", ".bin": "weights", ".pt": "weights", ".pth": "weights"}
_KINDS = (
    ({"_diffusers_version"}, "a diffusion pipeline's", "It is no text decoder: capsheet sizes those"),
    ({"weight_map"}, "the index of a checkpoint's files", "Name the config.json beside it"),
    ({"added_tokens_decoder"}, "a tokeniser's config", "Name the config.json beside it"),
    ({"tokenizer_class"}, "a tokeniser's config", "Name the config.json beside it"),
    ({"n_layers", "dim"}, "the params.json of Meta's or Mistral's own format", "Name a repository with a config.json"),
    ({"eos_token_id", "transformers_version"}, "a generation config", "Name the config.json beside it"),
)
"""Keys that give a document away, what it is, and what to do; the first that fits counts."""


def refuse_no_config(config: Mapping[str, Any], name: str) -> None:
    """Refuse a JSON object that is no model's config, such as an adapter's or an error a download left behind.

    Raises:
        SourceError: it names neither a model type nor an architecture.
    """
    if "peft_type" in config:
        raise SourceError(_adapter(name, config))
    if config.get("model_type") or config.get("architectures"):
        return
    for keys, what, remedy in _KINDS:
        if keys <= set(config):
            raise SourceError(f"{name} is {what}, not a model's config. {remedy}.")
    found = shown(", ".join(map(str, config)), 80)
    raise SourceError(
        f"{name} is no model's config: it has neither model_type nor architectures, only {found}. Fetch the model's "
        "config.json again."
    )


def _adapter(name: str, config: Mapping[str, Any]) -> str:
    base = config.get("base_model_name_or_path")
    which = f", {shown(base)}" if isinstance(base, str) and base else ""
    return (
        f"{name} is an adapter's config ({shown(str(config['peft_type']), 20)}), not a model's. Name the base model it "
        f"is for{which}; the adapter adds little to it."
    )


def refuse_weights(name: str) -> None:
    """Refuse a file of weights named as the model.

    Raises:
        SourceError: its name ends as weights do.
    """
    what = _WEIGHTS.get(PurePath(name).suffix.lower())
    if what == "a GGUF file":
        raise SourceError(f"{name} is a GGUF file, which capsheet does not read. Name the base model it was made of.")
    if what is not None:
        raise SourceError(f"{name} is {what}, not a config. Name the folder it is in, or the config.json beside it.")


def instead_of_config(names: Collection[str]) -> str:
    """What a repository or folder without a config.json holds, as the end of a sentence, with what to do."""
    if any(name.lower().endswith(".gguf") for name in names):
        return "it holds GGUF files, which capsheet does not read. Name the base model they were made of"
    if ADAPTER in names:
        return "it holds an adapter only. Name the base model it is for"
    if "model_index.json" in names:
        return "it is a diffusion pipeline; capsheet sizes text decoders. Name a language model"
    if "params.json" in names:
        return "it is in Meta's or Mistral's own format. Name the repository of the same model that has one"
    return "it is no transformers model. Name the base model"
