"""Models read from a hub before, one file a commit, so that a pinned model is never asked for twice.

Belongs here: the workspace's copies of small documents (config and byte counts). Does not: asking a hub.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from pipelines.sources.models import ModelRead


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a whole commit: branches and tags move, so they are asked for again."""
    return revision is not None and len(revision) == 40 and all(sign in "0123456789abcdef" for sign in revision.lower())


def recall(cache: Path, model_id: str, revision: str | None) -> ModelRead | None:
    """A model read before at exactly this commit."""
    return _load(_file(cache, model_id, revision)) if revision is not None and is_commit(revision) else None


def latest(cache: Path, model_id: str) -> ModelRead | None:
    """A model read before at whichever commit was read last."""
    files = cache.glob(_file(Path(), model_id, "*").name) if cache.is_dir() else ()
    newest = max(files, key=lambda file: file.stat().st_mtime, default=None)
    return None if newest is None else _load(newest)


def remember(cache: Path, read: ModelRead) -> None:
    """Keep what was read; a folder that cannot be written costs a later look-up, not this plan."""
    file = _file(cache, read.model_id, read.revision)
    partial = file.with_suffix(".partial")
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps({name: getattr(read, name) for name in ModelRead.__slots__}), encoding="utf-8")
        partial.replace(file)


def _file(cache: Path, model_id: str, revision: str) -> Path:
    return cache / f"{model_id.replace(':', '--').replace('/', '--')}@{revision.replace('/', '--')}.json"


def _load(file: Path) -> ModelRead | None:
    """A remembered model; one that cannot be read is as good as none."""
    try:
        return ModelRead(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
