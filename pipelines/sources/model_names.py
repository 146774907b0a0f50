"""Finding the config behind a model's name: in a folder of configs, the catalogue, and what a hub client kept.

Belongs here: how names in logs are spelt. Does not: reading a workspace's model (`models`), asking a hub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.sources.base import SourceError
from pipelines.sources.models import read_model, with_sidecar
from warehouse.catalog import catalog_models

SIDECAR = ".hf_quant_config.json"
_VARIANTS = (".partial", ".blis", ".llm-cal")
_REPACKED = re.compile(
    r"[-_. ]+(awq|gptq|int4|int8|fp8|nvfp4|mxfp4|fp4|bnb|4bit|8bit|w4a16|w8a8|w8a16|autoround|quantized|dynamic|"
    r"static|block|marlin|g\d+|gguf|q\d[_\w]*|hf)(?=$|[-_. ])",
    re.IGNORECASE,
)
"""What makers of quantised copies add to the name of the model they copied."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model's config and where it was found; `instead` names the model it really is of, where that is another."""

    config: dict[str, Any]
    source: str
    instead: str | None = None


@dataclass(slots=True)
class ModelFolders:
    """Configs by name: `folder`/org--name.json first, then the catalogue, then a hub client's cache.

    A name matches whatever its case; a name without its organisation matches by its last part; a quantised copy that
    has no config of its own is taken for the model it is a copy of, and says so.
    """

    folder: Path | None = None
    _by_name: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise SourceError for a folder that is not one."""
        if self.folder is not None and not self.folder.is_dir():
            raise SourceError(f"{self.folder} is not a folder. Name the folder that holds org--name.json files.")
        own = sorted(self.folder.glob("*--*.json")) if self.folder is not None else []
        for file in (*(f for f in own if not f.name.endswith(SIDECAR)), *catalog_models().values()):
            self._enter(file)

    def _enter(self, file: Path) -> None:
        stem = file.stem
        # A whole config of a name wins over a trimmed one, and the folder over the catalogue.
        for variant in _VARIANTS:
            stem = stem.removesuffix(variant)
        name = stem.replace("--", "/", 1).lower()
        trimmed = stem != file.stem
        for key in (name, name.rpartition("/")[2]):
            held = self._by_name.get(key)
            if held is None or (not trimmed and held.stem.endswith(_VARIANTS)):
                self._by_name[key] = file

    def find(self, model_id: str) -> Found | None:
        """The config of a model, or None when no place has one. Raises SourceError for a file that is no config."""
        name = model_id.strip().lower()
        for candidate in _spellings(name):
            file = (
                self._by_name.get(candidate) or self._by_name.get(candidate.rpartition("/")[2]) or _hub_cache(candidate)
            )
            if file is not None:
                known = file.stem.replace("--", "/", 1) if "--" in file.stem else candidate
                same = candidate in (name, name.rpartition("/")[2])
                return Found(self._read(file), str(file.name), None if same else known)
        return None

    def _read(self, file: Path) -> dict[str, Any]:
        config = read_model(str(file.resolve()), offline=True, folder=file.parent).config
        sidecar = file.with_name(file.stem + SIDECAR)
        if sidecar.is_file():
            config = with_sidecar(config, read_model_document(sidecar))
        return {key: value for key, value in config.items() if not key.startswith("_")}


def read_model_document(file: Path) -> dict[str, Any]:
    """A JSON object beside a config."""
    from pipelines.sources.models import parse_object

    return parse_object(file.read_bytes(), file.name)


def _spellings(name: str) -> Iterable[str]:
    """The name as it is, then without what stands after it, with what its maker's files add, and without what a
    quantised copy's name adds."""
    yield name
    bare = re.sub(r"\s*\(.*", "", name)
    if not bare:
        return
    yield bare
    bare = bare.split()[0]
    yield bare
    yield f"{bare}-hf"
    if bare.startswith("llama-3-"):
        yield f"meta-{bare}"
    while (shorter := _REPACKED.sub("", bare)) != bare:
        bare = shorter
        yield bare


def _hub_cache(name: str) -> Path | None:
    """The config a hub client downloaded before, of any revision."""
    if "/" not in name or ".." in name:
        return None
    home = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface") / "hub")
    folder = home.expanduser()
    if not folder.is_dir():
        return None
    wanted = f"models--{name.replace('/', '--')}"
    for model in folder.iterdir():
        if model.name.lower() == wanted:
            return next(iter(sorted(model.glob("snapshots/*/config.json"))), None)
    return None
