"""Hugging Face's hub: a model's config and the sizes of its weight files, pinned to a commit.

Belongs here: the hub's client (`huggingface_hub`), and what each refusal of the hub means. Does not: other hubs
(`modelscope`), what was read before (`remembered`). One look-up is the repository's files with their sizes,
config.json, and the safetensors index where there is one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pipelines.sources import remembered
from pipelines.sources.base import SourceError, shown
from pipelines.sources.checkpoint import INDEX, bytes_by_type, checkpoint_bytes, index_total, statement
from pipelines.sources.models import QUANT_SIDECAR, ModelRead, parse_object, with_sidecar
from pipelines.sources.no_config import ADAPTER, instead_of_config, refuse_no_config
from pipelines.sources.patience import TOO_MANY, Answer, TooManyRequests, patiently, seconds

DEFAULT = "https://huggingface.co"
_TIMEOUT_S = 20.0
_LOCAL = "or give the path of its config.json as the model"


def read(model_id: str, revision: str | None, *, offline: bool, cache: Path, endpoint: str | None) -> ModelRead:
    """The model at the hub; what was read once at a commit is read from `cache` after.

    Raises:
        SourceError: gated, missing, wrong revision, too many requests, no connection, or offline.
    """
    known = remembered.recall(cache, model_id, revision)
    if known is not None:
        return known
    if offline or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        why = "no hub may be asked (offline)" if offline else "HF_HUB_OFFLINE is set"
        return when_offline(model_id, revision, cache, why)
    endpoint = address(endpoint, "HF_ENDPOINT", DEFAULT, model_id)
    from huggingface_hub import HfApi

    try:
        info = _asked(
            lambda: HfApi(endpoint=endpoint).model_info(
                model_id, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
            )
        )
        sizes = {file.rfilename: file.size for file in info.siblings or []}
        counts = info.safetensors.parameters if info.safetensors is not None else {}
        found = _described(model_id, info.sha or "", sizes, counts, endpoint)
    except SourceError:
        raise
    except Exception as error:
        _explain(model_id, revision, error.cause if isinstance(error, TooManyRequests) else error)
    remembered.remember(cache, found)
    return found


def address(given: str | None, variable: str, default: str, model_id: str) -> str:
    """A hub's address: as given, else the environment's, with or without https://; `default` where that is empty.

    Raises:
        SourceError: it is no address of a host.
    """
    told = (given or os.environ.get(variable, "")).strip().rstrip("/") or default
    full = told if "://" in told else f"https://{told}"
    try:
        parts = urlsplit(full)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise SourceError(
            f"model {model_id} cannot be asked for: {variable} is {shown(told)}, no address of a hub. Write it like "
            f"{default}."
        )
    return full


def when_offline(model_id: str, revision: str | None, cache: Path, why: str) -> ModelRead:
    """The model as last read, where any commit of it will do.

    Raises:
        SourceError: it was not read before, or not at this revision.
    """
    known = remembered.latest(cache, model_id) if revision is None else None
    if known is not None:
        return known
    at = f" at {revision}" if revision else ""
    raise SourceError(
        f"model {model_id}{at} is not in the catalogue, was not read before, and {why}. Go online once, {_LOCAL}."
    )


def _asked(ask: Callable[[], Answer]) -> Answer:
    """The client's answer, asked for again while the hub says 429."""

    def once() -> Answer:
        try:
            return ask()
        except Exception as error:
            response = getattr(_cause(error), "response", None)
            if getattr(response, "status_code", None) == TOO_MANY:
                raise TooManyRequests(error, seconds(response.headers.get("Retry-After"))) from None  # type: ignore[union-attr]
            raise

    return patiently(once)


def _cause(error: Exception) -> Exception:
    """What lies under the client's "not in the local cache either"."""
    from huggingface_hub import errors

    while isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _described(
    model_id: str, sha: str, sizes: dict[str, int | None], counts: dict[str, int], endpoint: str | None
) -> ModelRead:
    if not sha or not sha.isalnum():
        raise SourceError(f"model {model_id}: the hub did not say which commit it answered for. Set `revision`.")
    if "config.json" not in sizes:
        if ADAPTER in sizes:
            refuse_no_config(_document(model_id, sha, ADAPTER, endpoint), f"{ADAPTER} of {model_id}")
        raise SourceError(f"model {model_id} has no config.json at {sha[:12]}: {instead_of_config(sizes)}, {_LOCAL}.")
    config = _document(model_id, sha, "config.json", endpoint)
    refuse_no_config(config, f"config.json of {model_id}")
    if QUANT_SIDECAR in sizes:
        config = with_sidecar(config, _document(model_id, sha, QUANT_SIDECAR, endpoint))
    weights = checkpoint_bytes(sizes)
    total = index_total(_document(model_id, sha, INDEX, endpoint)) if INDEX in sizes else None
    note = statement(sizes, total, bytes_by_type(counts))
    label = "verified" if weights else "estimated"
    return ModelRead(model_id, sha, config, weights, label, f"hub, {model_id} at commit {sha}", note)


def _document(model_id: str, sha: str, name: str, endpoint: str | None) -> dict[str, Any]:
    from huggingface_hub import hf_hub_download

    with tempfile.TemporaryDirectory() as folder:
        file = _asked(
            lambda: hf_hub_download(
                model_id, name, revision=sha, local_dir=folder, endpoint=endpoint, etag_timeout=_TIMEOUT_S
            )
        )
        return parse_object(Path(file).read_bytes(), f"{name} of {model_id}")


def _explain(model_id: str, revision: str | None, error: Exception) -> NoReturn:
    """What the hub's refusal means and what to do, in one line."""
    from huggingface_hub import errors

    chain = _cause(error)
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
        strange = isinstance(chain, KeyError | TypeError | AttributeError | ValueError)
        told = "the answer is not a model hub's" if strange else "no answer from the hub"
        what = (
            f"cannot be asked for: {told} ({type(chain).__name__}: {first}). Check the connection and HF_ENDPOINT, "
            f"work offline with the catalogue's models, {_LOCAL}"
        )
    raise SourceError(f"model {model_id} {what}.") from None
