"""ModelScope's hub: a model's config and the sizes of its weight files, at the commit of its config.

Belongs here: its REST API (envelope Code, Message, Data, Success; default branch `master`) and what its refusals mean.
Does not: Hugging Face (`hub`), what was read before (`remembered`). One look-up is the list of files and config.json.
A ModelScope file carries the commit that last changed it; the config's is the revision a model is pinned to, and no
weight file is asked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx

from pipelines.sources import remembered
from pipelines.sources.base import SourceError
from pipelines.sources.checkpoint import INDEX, checkpoint_bytes, index_total, statement
from pipelines.sources.hub import address, when_offline
from pipelines.sources.models import QUANT_SIDECAR, ModelRead, parse_object, with_sidecar
from pipelines.sources.no_config import ADAPTER, instead_of_config, refuse_no_config
from pipelines.sources.patience import TOO_MANY, TooManyRequests, patiently, seconds

DOMAIN = "www.modelscope.cn"
TOKEN = "MODELSCOPE_API_TOKEN"
DEFAULT_BRANCH = "master"
_TIMEOUT_S = 20.0
_DOCUMENT_BYTES = 64 * 2**20
_LOCAL = "or give the path of its config.json as the model"


def read(name: str, revision: str | None, *, offline: bool, cache: Path, endpoint: str | None) -> ModelRead:
    """The model at ModelScope; what was read once at a commit is read from `cache` after.

    Raises:
        SourceError: gated, missing, wrong revision, too many requests, no connection, or offline.
    """
    model_id = f"modelscope:{name}"
    known = remembered.recall(cache, model_id, revision)
    if known is not None:
        return known
    if offline:
        return when_offline(model_id, revision, cache, "no hub may be asked (offline)")
    token = os.environ.get(TOKEN, "")
    headers = {"User-Agent": "capsheet", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        with httpx.Client(
            base_url=address(endpoint, "MODELSCOPE_DOMAIN", DOMAIN, model_id),
            headers=headers,
            timeout=_TIMEOUT_S,
            follow_redirects=True,
        ) as client:
            found = _described(client, name, revision)
    except TooManyRequests:
        raise SourceError(
            f"model {model_id} cannot be asked for now: the hub counts too many requests (429). Wait, set {TOKEN}, "
            f"{_LOCAL}."
        ) from None
    except httpx.HTTPError as error:
        first = (str(error).splitlines() or [""])[0][:120]
        raise SourceError(
            f"model {model_id} cannot be asked for: no answer from the hub ({type(error).__name__}: {first}). Check "
            f"the connection and MODELSCOPE_DOMAIN, {_LOCAL}."
        ) from None
    remembered.remember(cache, found)
    return found


def _described(client: httpx.Client, name: str, revision: str | None) -> ModelRead:
    model_id = f"modelscope:{name}"
    branch = revision or DEFAULT_BRANCH
    answer = _get(client, name, "repo/files", {"Revision": branch, "Recursive": "true"}, revision)
    files = _files(answer, model_id)

    def document(path: str) -> dict[str, Any]:
        content = _get(client, name, "repo", {"Revision": branch, "FilePath": path}, revision).content
        return parse_object(content, f"{path} of {model_id}")

    config_file = files.get("config.json")
    if config_file is None:
        if ADAPTER in files:
            refuse_no_config(document(ADAPTER), f"{ADAPTER} of {model_id}")
        raise SourceError(f"model {model_id} has no config.json at {branch}: {instead_of_config(files)}, {_LOCAL}.")
    commit = str(config_file.get("Revision") or branch)
    config = document("config.json")
    refuse_no_config(config, f"config.json of {model_id}")
    if QUANT_SIDECAR in files:
        config = with_sidecar(config, document(QUANT_SIDECAR))
    sizes = {path: file["Size"] for path, file in files.items()}
    weights = checkpoint_bytes(sizes)
    note = statement(sizes, index_total(document(INDEX)) if INDEX in files else None)
    pinned = revision if remembered.is_commit(revision) else commit
    label = "verified" if weights else "estimated"
    return ModelRead(
        model_id, str(pinned), config, weights, label, f"ModelScope, {name} at {branch}, config of {commit}", note
    )


def _files(answer: httpx.Response, model_id: str) -> dict[str, dict[str, Any]]:
    """The repository's files by path; folders left out.

    Raises:
        SourceError: the answer is not the API's.
    """
    envelope = parse_object(answer.content, f"the hub's answer for {model_id}")
    data = envelope.get("Data")
    listed = data.get("Files") if isinstance(data, dict) else None
    if envelope.get("Success") is False or not isinstance(listed, list):
        said = " ".join(str(envelope.get("Message", "")).split())[:120]
        raise SourceError(f"model {model_id} cannot be read: the hub lists no files ({said}). Try later, {_LOCAL}.")
    found: dict[str, dict[str, Any]] = {}
    for file in listed:
        if isinstance(file, dict) and file.get("Type") != "tree" and isinstance(file.get("Path"), str):
            size = file.get("Size")
            whole = isinstance(size, int) and not isinstance(size, bool) and size >= 0
            found[file["Path"]] = {**file, "Size": size if whole else None}
    return found


def _get(client: httpx.Client, name: str, what: str, query: dict[str, str], revision: str | None) -> httpx.Response:
    """One GET, patient with 429, its refusals explained.

    Raises:
        SourceError: refused; TooManyRequests: still 429 after the last try; httpx.HTTPError: no answer.
    """
    model_id = f"modelscope:{name}"

    def once() -> httpx.Response:
        answer = client.get(f"/api/v1/models/{name}/{what}", params=query)
        if answer.status_code == TOO_MANY:
            cause = httpx.HTTPStatusError("429", request=answer.request, response=answer)
            raise TooManyRequests(cause, seconds(answer.headers.get("Retry-After")))
        return answer

    answer = patiently(once)
    status = answer.status_code
    if status in (401, 403):
        raise SourceError(
            f"model {model_id} is gated or private. Accept its licence at ModelScope and set {TOKEN} to a token that "
            f"may read it, {_LOCAL}."
        )
    if status == 404 and revision is not None:
        raise SourceError(f"model {model_id} is not at ModelScope, or has no revision {revision}. Mend either.")
    if status == 404:
        raise SourceError(
            f"model {model_id} is not at ModelScope, or is private. Mend the id; for a private model set {TOKEN}, "
            f"{_LOCAL}."
        )
    if status != 200:
        raise SourceError(f"model {model_id} cannot be asked for: the hub answered {status}. Try later, {_LOCAL}.")
    if len(answer.content) > _DOCUMENT_BYTES:
        raise SourceError(
            f"model {model_id}: the hub's answer is {len(answer.content):,} bytes long. Try later, {_LOCAL}."
        )
    return answer
