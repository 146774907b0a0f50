"""A model is found in a file, the catalogue or a hub; and when it is not, the message says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import pytest

from pipelines.sources import SourceError, read_model
from pipelines.sources.checkpoint import bytes_by_type, checkpoint_bytes, statement
from pipelines.sources.hub import address
from tests.conftest import ROOT

SHA = "b968826d9c46dd6066d109eabc6255188de91218"
CONFIG = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2}
SIDECAR = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": None}}


class Hub(BaseHTTPRequestHandler):
    """The hub's answers as its API gives them: model info with blobs, and files by resolve."""

    asked: ClassVar[list[str]] = []
    refusals_left: ClassVar[dict[str, int]] = {"lab/crowded": 2}
    counts: ClassVar[dict[str, dict[str, int]]] = {
        "lab/indexed": {"BF16": 2_500_000_000},
        "lab/mismatched": {"U8": 9_000_000_000},
    }
    repos: ClassVar[dict[str, dict[str, bytes]]] = {
        "lab/plain": {"config.json": json.dumps(CONFIG).encode()},
        "lab/packed": {
            "config.json": json.dumps(CONFIG).encode(),
            "hf_quant_config.json": json.dumps(SIDECAR).encode(),
        },
        "lab/crowded": {"config.json": json.dumps(CONFIG).encode()},
        "lab/indexed": {
            "config.json": json.dumps(CONFIG).encode(),
            "model.safetensors.index.json": b'{"metadata": {"total_size": 4999990000}, "weight_map": {}}',
        },
        "lab/mismatched": {
            "config.json": json.dumps(CONFIG).encode(),
            "model.safetensors.index.json": b'{"metadata": {"total_size": 4000000000}, "weight_map": {}}',
        },
        "lab/broken": {"config.json": b"{\n  not json"},
        "lab/gguf": {"model.gguf": b"x"},
        "lab/lora": {"adapter_config.json": b'{"peft_type": "LORA", "base_model_name_or_path": "lab/base"}'},
    }
    weights: ClassVar[list[tuple[str, int]]] = [
        ("model-00001-of-00002.safetensors", 4_000_000_000),
        ("model-00002-of-00002.safetensors", 1_000_000_000),
        ("consolidated.safetensors", 5_000_000_000),
        ("original/consolidated.00.pth", 5_000_000_000),
    ]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.asked.append(f"{self.command} {path}")
        if path.startswith("/api/models/"):
            return self._info(path.removeprefix("/api/models/"))
        repo, _, rest = path.strip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        content = self.repos.get(repo, {}).get(name)
        if content is None or revision != SHA:
            return self._answer(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
        etag = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        return self._answer(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": SHA})

    def _info(self, rest: str) -> None:
        repo, _, revision = rest.partition("/revision/")
        if repo == "lab/gated":
            text = "Access to model lab/gated is restricted. You must have access to it and be authenticated."
            return self._error(401, text, "GatedRepo")
        if repo == "lab/forbidden":
            return self._error(403, "You are not in the authorized list.", "GatedRepo")
        if repo == "lab/busy":
            return self._error(429, "We had to rate limit you.", None)
        if self.refusals_left.get(repo, 0):
            self.refusals_left[repo] -= 1
            return self._error(429, "We had to rate limit you.", None)
        strange = {"lab/portal": b"<html>Log in</html>", "lab/void": b"{}", "lab/list": b"[]"}
        if repo in strange:
            return self._answer(200, strange[repo], {"Content-Type": "text/html"})
        if repo == "lab/down":
            return self._error(503, "Service unavailable", None)
        if repo not in self.repos:
            return self._error(401, "Invalid username or password.", "RepoNotFound")
        if revision not in ("", "main", SHA):
            return self._error(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        files = [{"rfilename": name, "size": len(body), "blobId": "0"} for name, body in self.repos[repo].items()]
        files += [
            {"rfilename": n, "size": s, "blobId": "0", "lfs": {"sha256": "0", "size": s, "pointerSize": 135}}
            for n, s in self.weights
        ]
        info: dict[str, Any] = {
            "_id": "0",
            "id": repo,
            "modelId": repo,
            "sha": SHA,
            "gated": False,
            "private": False,
            "siblings": files,
        }
        if repo in self.counts:
            info["safetensors"] = {"parameters": self.counts[repo], "total": sum(self.counts[repo].values())}
        return self._answer(200, json.dumps(info).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, text: str, code: str | None) -> None:
        headers = {"Content-Type": "application/json", "X-Error-Message": text}
        self._answer(status, json.dumps({"error": text}).encode(), headers | ({"X-Error-Code": code} if code else {}))

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the test's output."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pipelines.sources.patience.WAITS_S", (0.0, 0.0, 0.0))


def refusal(folder: Path, spec: str, **how: Any) -> str:
    with pytest.raises(SourceError) as caught:
        read_model(spec, folder=folder, **how)
    message = str(caught.value)
    assert "\n" not in message
    assert spec[:40] in message or repr(spec)[1:20] in message
    return message


def test_a_hub_model_is_pinned_to_its_commit_with_the_bytes_of_its_weights(hub: str, tmp_path: Path) -> None:
    got = read_model("lab/plain", folder=tmp_path, endpoint=hub)
    assert (got.model_id, got.revision, got.config) == ("lab/plain", SHA, CONFIG)
    assert (got.checkpoint_bytes, got.label) == (5_000_000_000, "verified")
    assert SHA in got.source
    assert not any("safetensors" in asked or ".pth" in asked for asked in Hub.asked), "weights are never downloaded"


def test_the_hub_may_be_named_before_the_id(hub: str, tmp_path: Path) -> None:
    named = read_model("hf:lab/plain", folder=tmp_path, endpoint=hub)
    assert named == read_model("lab/plain", folder=tmp_path, endpoint=hub)


def test_a_hub_that_counts_too_many_requests_is_asked_again(hub: str, tmp_path: Path) -> None:
    assert read_model("lab/crowded", folder=tmp_path, endpoint=hub).checkpoint_bytes == 5_000_000_000
    assert Hub.refusals_left["lab/crowded"] == 0


def test_patience_ends(hub: str, tmp_path: Path) -> None:
    before = len(Hub.asked)
    assert "429" in refusal(tmp_path, "lab/busy", endpoint=hub)
    assert len(Hub.asked) - before == 4


def test_files_index_and_types_that_agree_say_how_the_weights_are_stored(hub: str, tmp_path: Path) -> None:
    got = read_model("lab/indexed", folder=tmp_path, endpoint=hub)
    assert got.weights_note == "files tie with the index's total_size; stored as BF16 100.0%"
    assert got.weights_note in got.as_source().detail


def test_a_mismatch_is_reported_and_the_files_decide(hub: str, tmp_path: Path) -> None:
    got = read_model("lab/mismatched", folder=tmp_path, endpoint=hub)
    assert got.checkpoint_bytes == 5_000_000_000
    assert "files are +25.0% from the index's total_size of 4,000,000,000 B" in got.weights_note
    assert "packed or logical, so not used" in got.weights_note


def test_a_commit_read_once_is_not_asked_for_again(hub: str, tmp_path: Path) -> None:
    first = read_model("lab/plain", SHA, folder=tmp_path, endpoint=hub)
    before = len(Hub.asked)
    assert read_model("lab/plain", SHA, folder=tmp_path, endpoint=hub) == first
    assert read_model("lab/plain", folder=tmp_path, offline=True) == first
    assert len(Hub.asked) == before


def test_a_remembered_model_that_is_damaged_is_read_anew(hub: str, tmp_path: Path) -> None:
    first = read_model("lab/plain", SHA, folder=tmp_path, endpoint=hub)
    (file,) = (tmp_path / ".capsheet" / "models").iterdir()
    file.write_text("{")
    assert read_model("lab/plain", SHA, folder=tmp_path, endpoint=hub) == first


def test_a_quantisation_sidecar_is_read_with_the_config(hub: str, tmp_path: Path) -> None:
    got = read_model("lab/packed", folder=tmp_path, endpoint=hub)
    assert got.config["quantization_config"]["quant_algo"] == "FP8"
    assert got.config["quantization_config"]["quant_method"] == "modelopt"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("lab/gated", ["gated", "licence", "HF_TOKEN", "config.json"]),
        ("lab/forbidden", ["gated", "HF_TOKEN"]),
        ("lab/missing", ["not at the hub", "private or gated", "HF_TOKEN", "config.json"]),
        ("lab/busy", ["429", "Wait"]),
        ("lab/down", ["503", "Try later"]),
        ("lab/broken", ["line 2", "not valid JSON"]),
        ("lab/gguf", ["no config.json", "GGUF", "base model"]),
        ("lab/lora", ["adapter", "base model", "'lab/base'"]),
        ("lab/portal", ["not a model hub's", "HF_ENDPOINT"]),
        ("lab/void", ["not a model hub's", "HF_ENDPOINT"]),
        ("lab/list", ["not a model hub's", "HF_ENDPOINT"]),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_line_with_what_to_do(
    hub: str, tmp_path: Path, spec: str, words: list[str]
) -> None:
    message = refusal(tmp_path, spec, endpoint=hub)
    for word in words:
        assert word in message
    assert not (tmp_path / ".capsheet").exists(), "a refusal leaves nothing behind"


def test_a_revision_that_is_not_there_is_named(hub: str, tmp_path: Path) -> None:
    assert "has no revision v9" in refusal(tmp_path, "lab/plain", revision="v9", endpoint=hub)


def test_no_connection_and_offline_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(tmp_path, "lab/plain", endpoint="http://127.0.0.1:9")
    assert "no answer from the hub" in message
    assert "HF_ENDPOINT" in message
    assert "(offline)" in refusal(tmp_path, "lab/plain", offline=True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set" in refusal(tmp_path, "lab/plain")


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ("", "https://huggingface.co"),
        (" ", "https://huggingface.co"),
        ("hf-mirror.com", "https://hf-mirror.com"),
        ("https://hf-mirror.com/", "https://hf-mirror.com"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("localhost:8080", "https://localhost:8080"),
    ],
)
def test_a_hubs_address_is_taken_as_people_write_it(monkeypatch: pytest.MonkeyPatch, told: str, asked: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", told)
    assert address(None, "HF_ENDPOINT", "https://huggingface.co", "lab/plain") == asked


@pytest.mark.parametrize(
    ("spec", "variable"), [("lab/plain", "HF_ENDPOINT"), ("modelscope:lab/m", "MODELSCOPE_DOMAIN")]
)
@pytest.mark.parametrize("told", ["ftp://x", "http://[::1", "http://host:port", "file:///etc/passwd"])
def test_an_address_that_is_none_is_said_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, variable: str, told: str
) -> None:
    monkeypatch.setenv(variable, told)
    assert f"{variable} is '{told}', no address" in refusal(tmp_path, spec)


def test_a_mirror_named_in_the_environment_is_asked(hub: str, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipelines.sources import read_model;"
        "print(read_model('lab/plain', folder=Path(sys.argv[1])).checkpoint_bytes)"
    )
    env = {**os.environ, "HF_ENDPOINT": f"{hub}/", "HF_HOME": str(tmp_path / "hf")}
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "5000000000", ran.stderr


@pytest.mark.parametrize(
    "spec",
    [
        "../../etc/passwd/x",
        "a/b/c",
        "org/na me",
        "org/name\n",
        "org--name/x",
        "=cmd|' /C calc'!A0",
        "org/..",
        "-rf/x",
        "'; DROP TABLE model; --",
        "org/name?x=1",
        "x" * 200,
    ],
)
def test_a_hostile_model_id_is_neither_a_path_nor_a_request(hub: str, tmp_path: Path, spec: str) -> None:
    before = len(Hub.asked)
    refusal(tmp_path, spec, endpoint=hub)
    assert len(Hub.asked) == before


@pytest.mark.parametrize("revision", ["../main", "a b", "v1;x", "", "-x"])
def test_a_hostile_revision_is_refused_before_anything_is_asked(hub: str, tmp_path: Path, revision: str) -> None:
    before = len(Hub.asked)
    assert "revision" in refusal(tmp_path, "lab/plain", revision=revision, endpoint=hub)
    assert len(Hub.asked) == before


def test_a_local_folder_gives_config_sidecar_and_weight_bytes(tmp_path: Path) -> None:
    model = tmp_path / "models" / "mine"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    (model / "hf_quant_config.json").write_text(json.dumps(SIDECAR))
    (model / "model-00001-of-00001.safetensors").write_bytes(b"x" * 1234)
    for spec in ("models/mine", "./models/mine/config.json", str(model)):
        got = read_model(spec, folder=tmp_path, offline=True)
        assert (got.revision, got.checkpoint_bytes, got.label) == ("local", 1234, "verified")
        assert got.config["quantization_config"]["quant_algo"] == "FP8"


def test_local_safetensors_headers_tell_bytes_by_type(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    header = {
        "__metadata__": {"format": "pt"},
        "experts": {"dtype": "F8_E4M3", "shape": [7000, 1000], "data_offsets": [0, 7_000_000]},
        "norm": {"dtype": "BF16", "shape": [1_500_000], "data_offsets": [7_000_000, 10_000_000]},
    }
    text = json.dumps(header).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 10_000_000)
    got = read_model("config.json", folder=tmp_path, offline=True)
    assert got.weights_note == "stored as F8_E4M3 70.0%, BF16 30.0%"
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 20000000}}')
    assert "files are -50.0%" in read_model("config.json", folder=tmp_path, offline=True).weights_note


def test_counts_by_type_are_bytes_only_where_every_type_is_known(shared: Path) -> None:
    quoted = json.loads((shared / "data" / "hub" / "hf_safetensors_by_dtype.quoted.json").read_text())
    v3 = bytes_by_type(quoted["deepseek-ai/DeepSeek-V3"]["parameters"])
    assert v3 is not None
    assert sum(v3.values()) == 688_574_839_360
    assert "stored as F8_E4M3 98.8%" in statement({"model.safetensors": 688_580_000_000}, None, v3)
    packed = bytes_by_type(quoted["openai/gpt-oss-120b"]["parameters"])
    assert "so not used" in statement({"model.safetensors": 65_248_815_744}, None, packed)
    assert bytes_by_type({"BF16": 1, "Q4_0": 5}) is None
    assert bytes_by_type({"BF16": -1}) is None
    assert statement({}, 5) == ""


def test_a_config_alone_leaves_the_weight_bytes_unknown_not_zero(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    got = read_model("config.json", folder=tmp_path)
    assert (got.checkpoint_bytes, got.label) == (None, "estimated")
    source = got.as_source()
    assert (source.rows_read, source.frame.height, source.rejected.height) == (1, 1, 0)
    assert "weight bytes unknown" in source.detail


def test_weights_kept_twice_in_a_repository_count_once() -> None:
    gb = 10**9
    twice = {"model.safetensors": 10 * gb, "consolidated.safetensors": 10 * gb, "pytorch_model.bin": 10 * gb}
    assert checkpoint_bytes(twice) == 10 * gb
    assert checkpoint_bytes({"consolidated.safetensors": 7 * gb, "tokenizer.json": 3}) == 7 * gb
    assert (
        checkpoint_bytes({"pytorch_model-1.bin": 4 * gb, "pytorch_model-2.bin": 5 * gb, "optimizer.bin": 9}) == 9 * gb
    )
    assert checkpoint_bytes({"original/model.safetensors": 10 * gb, "config.json": 1}) is None


@pytest.mark.parametrize(
    "page",
    ["https://huggingface.co/lab/plain", "https://huggingface.co/lab/plain/", "http://hf-mirror.com/lab/plain",
     "https://huggingface.co/lab/plain/tree/main", "https://huggingface.co/lab/plain/blob/main/config.json"],
)  # fmt: skip
def test_the_address_of_a_models_page_names_the_model(hub: str, tmp_path: Path, page: str) -> None:
    assert read_model(page, folder=tmp_path, endpoint=hub).model_id == "lab/plain"
