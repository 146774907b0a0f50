"""A model: its config and the bytes of its weights, from a local file, the catalogue, or a model hub.

Belongs here: where a model named in the workspace is found, and local files. Does not: the hubs' clients (`hub`,
`modelscope`), which files are weights (`checkpoint`), what a config means (`estimator.configs`). Weights are never
downloaded: only their sizes are asked for.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.sources.base import REJECTED_SCHEMA, SourceError, SourceRead, expanded, fingerprint, shown
from pipelines.sources.checkpoint import (
    INDEX,
    checkpoint_bytes,
    index_total,
    local_bytes_by_type,
    missing_shards,
    statement,
)
from pipelines.sources.files import open_source, read_all
from pipelines.sources.no_config import instead_of_config, refuse_no_config, refuse_weights

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"{_PART}(?:/{_PART})?")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
_CONFIG_BYTES = 16 * 2**20
_PAGE = re.compile(
    rf"https?://(?:www\.)?(?:(?P<ms>modelscope\.(?:cn|com))/models|huggingface\.co|hf\.co|hf-mirror\.com)/"
    rf"(?P<id>{_PART}/{_PART})(?:/(?:tree|blob|resolve|files|summary)(?:/.*)?)?/?"
)
"""The address of a model's page, as a browser shows it."""

HUBS = {"hf": "hub", "huggingface": "hub", "modelscope": "modelscope"}
"""What stands before the colon of a model's name -> the module that asks that hub."""

QUANT_SIDECAR = "hf_quant_config.json"
"""ModelOpt's quantisation, kept beside a config that does not mention it."""


@dataclass(frozen=True, slots=True)
class ModelRead:
    """A model as found. `checkpoint_bytes` is the size of its weight files, None where nobody says.

    `revision` is a commit, `local` or `catalog`; `label` says how the bytes are known; `source` where all came from;
    `weights_note` how file sizes, index and stored types agree.
    """

    model_id: str
    revision: str
    config: dict[str, Any]
    checkpoint_bytes: int | None
    label: str
    source: str
    weights_note: str = ""

    def as_source(self) -> SourceRead:
        """The model as a row of `source_file`: one document, its fingerprint over config and weight bytes."""
        text = json.dumps(self.config, sort_keys=True)
        content = hashlib.sha256(f"{text}\n{self.checkpoint_bytes}".encode()).hexdigest()
        weights = "weight bytes unknown" if self.checkpoint_bytes is None else f"{self.checkpoint_bytes:,} B of weights"
        return SourceRead(
            source_file=f"{self.model_id} @ {self.revision}",
            format="config.json",
            frame=pl.DataFrame({"model_id": [self.model_id]}),
            rejected=pl.DataFrame(schema=REJECTED_SCHEMA),
            rows_read=1,
            sha256=fingerprint(content, "config.json", {"revision": self.revision}),
            size_bytes=len(text),
            detail="; ".join(part for part in (self.source, f"{weights} ({self.label})", self.weights_note) if part),
        )


def read_model(
    spec: str, revision: str | None = None, *, offline: bool = False, folder: Path, endpoint: str | None = None
) -> ModelRead:
    """The model that a workspace names: a path in `folder` (a config.json or the folder of one), or a hub id.

    A hub id that the catalogue ships is taken from there unless a revision or a hub is asked for; any other is looked
    up at Hugging Face (`HF_ENDPOINT`, or `endpoint`; token `HF_TOKEN`), pinned to a commit, and remembered in
    `folder`/.capsheet/models. `modelscope:org/name` is looked up at ModelScope (`MODELSCOPE_DOMAIN`, token
    `MODELSCOPE_API_TOKEN`), `hf:org/name` at Hugging Face in any case.

    Raises:
        SourceError: not found, gated, offline, malformed, or not a model's config. Each says what to do.
    """
    from warehouse.catalog import catalog_models

    if not spec.strip():
        raise SourceError("no model is named. Give a hub id (organisation/name), or the path of a config.json.")
    page = _PAGE.fullmatch(spec)
    if page is not None:
        spec = f"modelscope:{page['id']}" if page["ms"] else page["id"]
    path = folder / expanded(spec) if "\x00" not in spec else None
    looks_local = spec.startswith((".", "/", "~")) or spec.endswith(".json")
    if path is not None and (looks_local or exists(path)):
        if revision is not None:
            raise SourceError(
                f"model {shown(spec)} is a file, which has no revision. Remove revision {shown(revision)}."
            )
        return _local(path, spec)
    hub, _, named = spec.rpartition(":")
    if (hub and hub not in HUBS) or not _HUB_ID.fullmatch(named) or ".." in named or "--" in named or len(named) > 96:
        raise SourceError(
            f"model {shown(spec)} is neither a path that exists nor a hub id (organisation/name of letters, digits, "
            "dot, dash and underscore, with modelscope: or hf: before it where the hub is chosen). Mend it, or give "
            "the path of a config.json."
        )
    if revision is not None and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise SourceError(f"model {spec}: revision {shown(revision)} is no commit, branch or tag. Mend it.")
    shipped = catalog_models().get(spec)
    if shipped is not None and revision is None:
        return _shipped(shipped, spec)
    cache = folder / ".capsheet" / "models"
    if HUBS.get(hub) == "modelscope":
        from pipelines.sources import modelscope

        return modelscope.read(named, revision, offline=offline, cache=cache, endpoint=endpoint)
    from pipelines.sources import hub as huggingface

    return huggingface.read(named, revision, offline=offline, cache=cache, endpoint=endpoint)


def exists(path: Path) -> bool:
    """Whether a path is there; one that no file system takes is not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _shipped(file: Path, model_id: str) -> ModelRead:
    """A model of the catalogue; keys with an underscore in front are the catalogue's notes, not the config's."""
    read = _config(file, f"catalogue {file.name}")
    config = {key: value for key, value in read.items() if not key.startswith("_")}
    known = read.get("_checkpoint_bytes")
    told = "; ".join(str(read[key]) for key in ("_source", "_weights_source") if key in read)
    source = f"catalogue, {file.name}" + (f": {told}" if told else "")
    return ModelRead(model_id, "catalog", config, known, "cited" if known else "estimated", source)


def _local(path: Path, spec: str) -> ModelRead:
    file = path / "config.json" if path.is_dir() else path
    name = f"{spec.rstrip('/')}/config.json" if path.is_dir() else spec
    if path.is_dir() and not file.exists():
        held = {entry.name for entry in path.iterdir()}
        raise SourceError(f"{name} is not there (looked for {file}): {instead_of_config(held)}.")
    refuse_weights(name)
    config = _config(file, name)
    refuse_no_config(config, name)
    sidecar = file.with_name(QUANT_SIDECAR)
    if sidecar.is_file():
        config = with_sidecar(config, _config(sidecar, str(Path(name).with_name(QUANT_SIDECAR))))
    sizes = {weights.name: weights.stat().st_size for weights in file.parent.iterdir() if weights.is_file()}
    found = checkpoint_bytes(sizes)
    total, missing = None, 0
    if INDEX in sizes:
        index = _config(file.with_name(INDEX), str(Path(name).with_name(INDEX)))
        total, missing = index_total(index), missing_shards(index, sizes)
    if missing:
        note = f"{missing} of the checkpoint's files are not here, so the index's total_size counts"
        return ModelRead(spec, "local", config, total, "verified" if total else "estimated", f"local file {name}", note)
    stored = [file.with_name(weights) for weights in sorted(sizes) if re.fullmatch(r"model.*\.safetensors", weights)]
    note = statement(sizes, total, local_bytes_by_type(stored) if stored else None)
    return ModelRead(spec, "local", config, found, "verified" if found else "estimated", f"local file {name}", note)


def _config(file: Path, name: str) -> dict[str, Any]:
    opened = open_source(file, name)
    if opened.kind != "text" or opened.size_bytes > _CONFIG_BYTES:
        what = "Parquet" if opened.kind != "text" else f"{opened.size_bytes:,} bytes long"
        raise SourceError(f"{name} is {what}, so it is no config.json. Name the model's config.json.")
    return parse_object(read_all(opened), name)


def parse_object(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        SourceError: it is not JSON, or not an object; names the line.
    """
    try:
        parsed = json.loads(content)
    except json.JSONDecodeError as error:
        raise SourceError(
            f"{name}, line {error.lineno}: not valid JSON ({error.msg}). Mend or fetch it again."
        ) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{name} is not valid JSON ({str(error).splitlines()[0]}). Fetch it again.") from None
    if not isinstance(parsed, dict):
        raise SourceError(f"{name} holds a JSON {type(parsed).__name__}, not an object. Name the model's config.json.")
    return parsed


def with_sidecar(config: dict[str, Any], sidecar: dict[str, Any]) -> dict[str, Any]:
    """The config with ModelOpt's sidecar as its `quantization_config`, where it declares none of its own."""
    declared = sidecar.get("quantization", sidecar)
    if config.get("quantization_config") or not isinstance(declared, dict):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **declared}}
