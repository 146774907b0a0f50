"""ModelScope: the second hub, its envelope, its default branch, and what each refusal says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from pipelines.sources import SourceError, read_model

COMMIT = "7f1b1c0a2d3e4f5061728394a5b6c7d8e9f00112"
CONFIG = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2}


def file(path: str, size: int, revision: str = COMMIT) -> dict[str, Any]:
    return {
        "Name": path,
        "Path": path,
        "Type": "blob",
        "Size": size,
        "Revision": revision,
        "Sha256": "0",
        "IsLFS": False,
    }


LISTED = [
    file("config.json", 728),
    file("model-00001-of-00002.safetensors", 4_000_000_000, "0" * 40),
    file("model-00002-of-00002.safetensors", 1_000_000_000, "0" * 40),
    {"Name": "figures", "Path": "figures", "Type": "tree", "Size": 0},
    file("figures/model.safetensors", 9_000_000_000),
]


class ModelScope(BaseHTTPRequestHandler):
    """The API's answers: an envelope with Code, Message, Data, Success; files raw."""

    asked: ClassVar[list[tuple[str, str | None]]] = []
    crowded: ClassVar[list[int]] = [2]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((self.path, self.headers.get("Authorization")))
        name = url.path.removeprefix("/api/v1/models/")
        repo, _, what = name.partition("/repo")
        if repo == "lab/gated" and self.headers.get("Authorization") != "Bearer sesame":
            return self._json(403, {"Code": 10010205001, "Message": "no permission", "Success": False})
        if repo == "lab/busy" or (repo == "lab/crowded" and self.crowded[0] > 0):
            self.crowded[0] -= 1
            return self._json(429, {"Code": 429, "Message": "too many", "Success": False}, {"Retry-After": "0"})
        if repo == "lab/odd":
            return self._json(200, {"Code": 500, "Message": "busy\nnow", "Data": None, "Success": False})
        if repo == "lab/page":
            return self._raw(200, b"<html>maintenance</html>")
        if repo not in {"lab/plain", "lab/gated", "lab/crowded", "lab/gguf"}:
            return self._json(404, {"Code": 10010205001, "Message": "record not found", "Success": False})
        if query.get("Revision") not in {"master", "v1", COMMIT}:
            return self._json(404, {"Code": 404, "Message": "revision not found", "Success": False})
        if what == "/files":
            assert query["Recursive"] == "true"
            files = [file("model.gguf", 5)] if repo == "lab/gguf" else LISTED
            return self._json(200, {"Code": 200, "Data": {"Files": files}, "Message": "success", "Success": True})
        assert query["FilePath"] == "config.json", "weights are never downloaded"
        return self._raw(200, json.dumps(CONFIG).encode())

    def _json(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self._raw(status, json.dumps(body).encode(), headers)

    def _raw(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the test's output."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ModelScope)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _hub(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELSCOPE_DOMAIN", f"{address}/")
    monkeypatch.delenv("MODELSCOPE_API_TOKEN", raising=False)
    monkeypatch.setattr("pipelines.sources.patience.WAITS_S", (0.0, 0.0, 0.0))


def refusal(folder: Path, spec: str, **how: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read_model(spec, folder=folder, **how)
    message = str(caught.value)
    assert "\n" not in message
    assert not (folder / ".capsheet").exists(), "a refusal leaves nothing behind"
    return message


def test_a_model_is_read_from_its_default_branch_at_its_configs_commit(tmp_path: Path) -> None:
    got = read_model("modelscope:lab/plain", folder=tmp_path)
    assert (got.model_id, got.revision, got.config) == ("modelscope:lab/plain", COMMIT, CONFIG)
    assert (got.checkpoint_bytes, got.label) == (5_000_000_000, "verified")
    assert "Revision=master" in ModelScope.asked[-1][0]


def test_a_pinned_commit_is_asked_for_once_and_read_offline_after(tmp_path: Path) -> None:
    first = read_model("modelscope:lab/plain", COMMIT, folder=tmp_path)
    before = len(ModelScope.asked)
    assert read_model("modelscope:lab/plain", COMMIT, folder=tmp_path) == first
    assert read_model("modelscope:lab/plain", folder=tmp_path, offline=True) == first
    assert len(ModelScope.asked) == before


def test_the_two_hubs_do_not_share_what_they_remember(tmp_path: Path) -> None:
    read_model("modelscope:lab/plain", folder=tmp_path)
    with pytest.raises(SourceError, match="was not read before"):
        read_model("lab/plain", folder=tmp_path, offline=True)


def test_a_token_is_sent_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", "sesame")
    got = read_model("modelscope:lab/gated", folder=tmp_path)
    assert ModelScope.asked[-1][1] == "Bearer sesame"
    assert "sesame" not in repr(got)


def test_a_hub_that_counts_too_many_requests_is_asked_again_and_not_for_ever(tmp_path: Path) -> None:
    ModelScope.crowded[0] = 2
    assert read_model("modelscope:lab/crowded", folder=tmp_path).checkpoint_bytes == 5_000_000_000
    before = len(ModelScope.asked)
    assert "429" in refusal(tmp_path / "other", "modelscope:lab/busy")
    assert len(ModelScope.asked) - before == 4


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("modelscope:lab/gated", ["gated", "licence", "MODELSCOPE_API_TOKEN", "config.json"]),
        ("modelscope:lab/missing", ["not at ModelScope", "MODELSCOPE_API_TOKEN", "config.json"]),
        ("modelscope:lab/odd", ["lists no files", "busy now"]),
        ("modelscope:lab/page", ["not valid JSON"]),
        ("modelscope:lab/gguf", ["no config.json", "base model"]),
        ("modelscope:../x", ["neither a path that exists nor a hub id"]),
        ("magic:lab/plain", ["neither a path that exists nor a hub id", "modelscope:"]),
    ],
)
def test_what_is_refused_is_said_in_one_line_with_what_to_do(tmp_path: Path, spec: str, words: list[str]) -> None:
    message = refusal(tmp_path, spec)
    for word in words:
        assert word in message


def test_a_revision_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "no revision v9" in refusal(tmp_path, "modelscope:lab/plain", revision="v9")


def test_no_connection_and_offline_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELSCOPE_DOMAIN", "http://127.0.0.1:9")
    assert "MODELSCOPE_DOMAIN" in refusal(tmp_path, "modelscope:lab/plain")
    assert "(offline)" in refusal(tmp_path, "modelscope:lab/plain", offline=True)


def test_the_apis_own_listing_is_read(shared: Path, tmp_path: Path) -> None:
    import httpx

    from pipelines.sources.modelscope import _files

    sample = (shared / "data" / "hub" / "modelscope_repo_files.synth.json").read_bytes()
    found = _files(httpx.Response(200, content=sample), "modelscope:Qwen/Qwen3-8B")
    assert set(found) == {"config.json", "model-00001-of-00005.safetensors"}
    assert found["config.json"]["Size"] == 728
