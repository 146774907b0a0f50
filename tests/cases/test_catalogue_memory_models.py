"""The models of the shared configs in the catalogue: each is there, parses, and agrees with the summary's figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from estimator.configs import UnsupportedConfig, parse_config
from pipelines.sources.model_names import ModelFolders
from tests.estimator.memory_fixtures import CATALOG, model

NO_MODELS = {"fixture/llama3_70b", "fixture/mistral_sliding"}
"""Configs cut down on purpose: they state no feed-forward."""
VARIANTS = (".partial", ".blis", ".llm-cal")


def named(stem: str) -> str:
    for variant in VARIANTS:
        stem = stem.removesuffix(variant)
    return stem.replace("--", "/", 1)


def test_every_model_of_the_shared_summary_is_in_the_catalogue_with_the_same_shape(shared: Path) -> None:
    with (shared / "data" / "catalog" / "hf_configs_summary.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    absent, differ = [], []
    for row in rows:
        name = named(row["name"])
        if "/" not in name or name.startswith("fixture/"):
            continue  # made up for tests of readers
        if not (CATALOG / "models" / f"{name.replace('/', '--')}.json").is_file():
            absent.append(name)
            continue
        found = model(name)
        shape = {"num_hidden_layers": len(found.layers), "hidden_size": found.hidden_size}
        shape["vocab_size"] = found.vocab_size
        differ += [
            (name, column, row[column], value) for column, value in shape.items() if row[column] not in {"", str(value)}
        ]
    assert not absent
    assert not differ


def test_every_shared_config_is_read_or_says_which_figure_it_lacks(shared: Path) -> None:
    folder = shared / "data" / "hf_configs"
    folders = ModelFolders(folder)
    names = {named(file.stem) for file in folder.glob("*--*.json") if ".hf_quant_config" not in file.name}
    assert len(names) > 100
    for name in names:
        found = folders.find(name)
        assert found is not None, name
        if name in NO_MODELS:
            with pytest.raises(UnsupportedConfig, match="intermediate_size is missing"):
                parse_config(found.config, name)
        else:
            assert parse_config(found.config, name).layers, name
