"""The asset graph: offline, grouped, described, with row counts and a weekly schedule."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.pipelines.conftest import Small

ASSETS = """{ assetNodes { assetKey { path } groupName description
  assetMaterializations(limit: 1) { metadataEntries { label ... on IntMetadataEntry { intValue } } } } }"""
SCHEDULES = """{ repositoriesOrError { ... on RepositoryConnection { nodes { schedules { name cronSchedule } } } } }"""


@pytest.fixture(scope="module")
def address(planned_once: Small, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`capsheet ui` on a planned workspace."""
    folder = tmp_path_factory.mktemp("ui") / "workspace"
    shutil.copytree(planned_once.folder, folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "pipelines", "ui", "--workspace", str(folder), "--port", str(port)]
    log = (folder / "ui.log").open("w")
    server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        give_up = time.monotonic() + 120
        while True:
            # The server answers before it has loaded the assets.
            try:
                if ask(f"http://127.0.0.1:{port}", ASSETS)["assetNodes"]:
                    break
            except (httpx.HTTPError, ValueError):
                pass
            assert time.monotonic() < give_up and server.poll() is None, (folder / "ui.log").read_text()
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        log.close()


def ask(address: str, query: str) -> dict[str, object]:
    answer: dict[str, object] = httpx.post(f"{address}/graphql", json={"query": query}, timeout=60).json()
    assert "errors" not in answer, answer
    return answer["data"]  # type: ignore[return-value]


def test_every_asset_is_grouped_described_and_counted(address: str) -> None:
    nodes = {node["assetKey"]["path"][0]: node for node in ask(address, ASSETS)["assetNodes"]}  # type: ignore[attr-defined]
    assert {node["groupName"] for node in nodes.values()} == {"sources", "estimates", "publication"}
    for name, node in nodes.items():
        assert node["description"], name
        if name == "request_day":
            assert not node["assetMaterializations"], "a plan reads what the days have not brought in, in one go"
            continue
        entries = node["assetMaterializations"][0]["metadataEntries"]
        counts = [entry["intValue"] for entry in entries if entry["label"] == "dagster/row_count"]
        assert counts and counts[0] >= 0, name


def test_a_weekly_plan_and_a_daily_ingest_are_scheduled(address: str) -> None:
    found = ask(address, SCHEDULES)["repositoriesOrError"]["nodes"]  # type: ignore[index]
    schedules = [schedule for node in found for schedule in node["schedules"]]
    found_schedules = sorted((s["name"], s["cronSchedule"]) for s in schedules)
    assert found_schedules == [("daily_ingest", "0 1 * * *"), ("weekly_plan", "0 6 * * 1")]


def test_the_graph_opens_in_a_browser_without_a_network(address: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={tmp_path}", "--virtual-time-budget=30000", "--dump-dom", f"{address}/asset-groups",
        ],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    for group in ("sources", "estimates", "publication"):
        assert group in done.stdout
    assert "Error loading" not in done.stdout
