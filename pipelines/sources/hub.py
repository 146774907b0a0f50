"""The Hugging Face hub (or a mirror at `HF_ENDPOINT`): config and weight sizes of a model at a pinned commit.

Belongs here: asking the hub through its own client, what its refusals mean, and remembering its answers. Does not: what
a config means. One look-up is two requests: the repository's files with their sizes, and config.json.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from pipelines.sources.base import SourceError
from pipelines.sources.models import (
    QUANT_SIDECAR,
    ModelRead,
    checkpoint_bytes,
    parse_object,
    refuse_no_config,
    with_sidecar,
)

_TIMEOUT_S = 20.0
_LOCAL = "or give the path of its config.json as the model"


def read(model_id: str, revision: str | None, *, offline: bool, cache: Path, endpoint: str | None) -> ModelRead:
    """The model at the hub; what was read once at a commit is read from `cache` after.

    Raises:
        SourceError: gated, missing, wrong revision, too many requests, no connection, or offline.
    """
    remembered = _remembered(cache, model_id, revision)
    if remembered is not None:
        return remembered
    if offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        known = _latest(cache, model_id) if revision is None else None
        if known is not None:
            return known
        why = "the workspace says `offline: true`" if offline else "HF_HUB_OFFLINE is set"
        at = f" at {revision}" if revision else ""
        raise SourceError(
            f"model {model_id}{at} is not in the catalogue, was not read before, and {why}. Go online once, {_LOCAL}."
        )
    from huggingface_hub import HfApi

    found: ModelRead | None = None
    try:
        info = HfApi(endpoint=endpoint).model_info(model_id, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or []}
        found = _described(model_id, info.sha or "", sizes, endpoint)
    except SourceError:
        raise
    except Exception as error:
        _explain(model_id, revision, error)
    _remember(cache, found)
    return found


def _described(model_id: str, sha: str, sizes: dict[str, int], endpoint: str | None) -> ModelRead:
    if not sha or not sha.isalnum():
        raise SourceError(f"model {model_id}: the hub did not say which commit it answered for. Set `revision`.")
    if "config.json" not in sizes:
        raise SourceError(
            f"model {model_id} has no config.json at {sha[:12]}: it is no transformers model (GGUF or adapter only?). "
            f"Name the base model, {_LOCAL}."
        )
    config = _document(model_id, sha, "config.json", endpoint)
    refuse_no_config(config, f"config.json of {model_id}")
    if QUANT_SIDECAR in sizes:
        config = with_sidecar(config, _document(model_id, sha, QUANT_SIDECAR, endpoint))
    weights = checkpoint_bytes(sizes)
    label = "verified" if weights else "estimated"
    return ModelRead(model_id, sha, config, weights, label, f"hub, {model_id} at commit {sha}")


def _document(model_id: str, sha: str, name: str, endpoint: str | None) -> dict[str, Any]:
    from huggingface_hub import hf_hub_download

    with tempfile.TemporaryDirectory() as folder:
        file = hf_hub_download(
            model_id, name, revision=sha, local_dir=folder, endpoint=endpoint, etag_timeout=_TIMEOUT_S
        )
        return parse_object(Path(file).read_bytes(), f"{name} of {model_id}")


def _explain(model_id: str, revision: str | None, error: Exception) -> NoReturn:
    """What the hub's refusal means and what to do, in one line."""
    from huggingface_hub import errors

    chain = error
    while isinstance(chain, errors.LocalEntryNotFoundError) and chain.__cause__ is not None:
        chain = chain.__cause__  # type: ignore[assignment]
    status = getattr(getattr(chain, "response", None), "status_code", None)
    if isinstance(chain, errors.RevisionNotFoundError):
        what = f"has no revision {revision}. Name a commit, branch or tag that it has"
    elif isinstance(chain, errors.GatedRepoError) or status == 403:
        what = f"is gated. Accept its licence at the hub and set HF_TOKEN to a token that may read it, {_LOCAL}"
    elif isinstance(chain, errors.RepositoryNotFoundError) or status in (401, 404):
        what = (
            "is not at the hub, or is private or gated and nobody is logged in. Mend the id; for a private or gated "
            f"model set HF_TOKEN, {_LOCAL}"
        )
    elif status == 429:
        what = f"cannot be asked for now: the hub counts too many requests (429). Wait, set HF_TOKEN, {_LOCAL}"
    elif isinstance(chain, errors.OfflineModeIsEnabled):
        what = f"cannot be asked for: HF_HUB_OFFLINE is set. Go online once, {_LOCAL}"
    elif status is not None:
        what = f"cannot be asked for: the hub answered {status}. Try later, {_LOCAL}"
    else:
        first = (str(error).splitlines() or [""])[0][:120]
        what = (
            f"cannot be asked for: no answer from the hub ({type(chain).__name__}: {first}). Check the connection and "
            f"HF_ENDPOINT, set `offline: true` for catalogue models, {_LOCAL}"
        )
    raise SourceError(f"model {model_id} {what}.") from None


def _file(cache: Path, model_id: str, sha: str) -> Path:
    return cache / f"{model_id.replace('/', '--')}@{sha}.json"


def _remembered(cache: Path, model_id: str, revision: str | None) -> ModelRead | None:
    """A model read before at exactly this commit; branches and tags move, so they are asked for again."""
    if revision is None or len(revision) != 40 or not revision.isalnum():
        return None
    return _load(_file(cache, model_id, revision))


def _latest(cache: Path, model_id: str) -> ModelRead | None:
    files = cache.glob(_file(Path(), model_id, "*").name) if cache.is_dir() else ()
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    return None if newest is None else _load(newest)


def _load(file: Path) -> ModelRead | None:
    """A remembered model; one that cannot be read is as good as none."""
    try:
        return ModelRead(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _remember(cache: Path, read: ModelRead) -> None:
    file = _file(cache, read.model_id, read.revision)
    partial = file.with_suffix(".partial")
    # A folder that cannot be written costs a later look-up, not this plan.
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({name: getattr(read, name) for name in ModelRead.__slots__}), encoding="utf-8")
        partial.replace(file)
