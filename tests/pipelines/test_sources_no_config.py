"""What people name instead of a model's config is called what it is; weights of no known size are not counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.sources import SourceError, read_model
from pipelines.sources.checkpoint import checkpoint_bytes, statement

CONFIG = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2}


def refusal(folder: Path, spec: str) -> str:
    with pytest.raises(SourceError) as caught:
        read_model(spec, folder=folder, offline=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("size", [None, 0, -5, 134, 10**30])
def test_a_weight_file_of_no_size_that_weights_have_leaves_the_bytes_unknown_and_says_so(size: int | None) -> None:
    sizes = {"model-1.safetensors": 5_000_000_000, "model-2.safetensors": size}
    assert checkpoint_bytes(sizes) is None
    assert "so the config counts" in statement(sizes, 5_000_000_000)


def test_a_folder_that_lacks_shards_of_its_index_is_sized_by_the_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 5000)
    index = {"metadata": {"total_size": 9000}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    got = read_model("config.json", folder=tmp_path, offline=True)
    assert got.checkpoint_bytes == 9000
    assert "1 of the checkpoint's files are not here" in got.weights_note


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"peft_type": "LORA", "base_model_name_or_path": "org/base"}, ["adapter", "base model", "'org/base'"]),
        ({"peft_type": "LORA", "model_type": "llama"}, ["adapter", "base model"]),
        ({"weight_map": {}, "metadata": {}}, ["index", "config.json beside it"]),
        ({"tokenizer_class": "X", "bos_token": "<s>"}, ["tokeniser"]),
        ({"eos_token_id": 2, "transformers_version": "4.1"}, ["generation config"]),
        ({"dim": 4096, "n_layers": 32, "n_heads": 32}, ["params.json"]),
        ({"_class_name": "Flux", "_diffusers_version": "0.3"}, ["diffusion"]),
        ({"detail": "not found"}, ["neither model_type nor architectures"]),
    ],
)
def test_a_document_that_is_no_model_s_config_is_called_what_it_is(
    tmp_path: Path, content: dict[str, Any], words: list[str]
) -> None:
    (tmp_path / "document.json").write_text(json.dumps(content))
    message = refusal(tmp_path, "document.json")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("m-Q4_K_M.gguf", ["GGUF", "base model"]),
        ("model.safetensors", ["weights", "config.json"]),
        ("adapter_config.json", ["adapter only", "base model"]),
        ("model_index.json", ["diffusion"]),
        ("readme.txt", ["no transformers model"]),
    ],
)
def test_a_folder_without_a_config_says_what_it_holds_instead(tmp_path: Path, file: str, words: list[str]) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / file).write_bytes(b"GGUF\x03\x00")
    message = refusal(tmp_path, "m")
    assert "config.json is not there" in message
    if file.endswith(("gguf", "safetensors")):
        message = refusal(tmp_path, f"m/{file}")
        assert all(word in message for word in words)
    else:
        assert all(word in message for word in words)
