"""A small workspace that plans in seconds, and the command line run as a user runs it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.stores import Store
from warehouse.connection import Warehouse

SERVICE = """\
  - name: chat
    model: meta-llama/Llama-3.1-8B-Instruct
    slo: {ttft_p99_ms: 2000, tpot_p99_ms: 60, attainment: 0.99}
    trace: {source: trace.csv, window_minutes: 10, demand_factor: 8}
    candidates:
      accelerators: [H100-SXM, L40S]
      precisions: [bf16]
      engines: [{name: vllm, version: 0.19.0}]
    headroom: {traffic_factor: 1.2, failure_replicas: 1}
"""


def azure_lines(requests: int = 1500, seed: int = 7) -> list[str]:
    """A synthetic trace in Azure's 2023 layout: header and one line a request, at about 2.5 requests a second."""
    rng = np.random.default_rng(seed)
    start = datetime(2026, 3, 2, 9)  # noqa: DTZ001 - the format carries no zone
    seconds = np.cumsum(rng.exponential(0.4, requests))
    isl = np.clip(rng.lognormal(6.2, 0.9, requests), 8, 6000).astype(int)
    osl = np.clip(rng.lognormal(4.8, 0.7, requests), 2, 900).astype(int)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for second, i, o in zip(seconds, isl, osl, strict=True):
        lines.append(f"{(start + timedelta(seconds=float(second))).strftime('%Y-%m-%d %H:%M:%S.%f')}0,{i},{o}")
    return lines


@dataclass
class Small:
    """A workspace in a folder, with the pieces a test changes."""

    folder: Path
    service: str = SERVICE
    head: str = "workspace: small\n"
    tail: str = "offline: true\n"
    lines: list[str] = field(default_factory=azure_lines)

    def write(self) -> Small:
        """Put workspace and trace on disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "capsheet.yaml").write_text(f"{self.head}services:\n{self.service}{self.tail}", encoding="utf-8")
        (self.folder / "trace.csv").write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        return self

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What the warehouse answers."""
        with Warehouse(self.folder / "capsheet.duckdb").reader() as con:
            return con.execute(query).pl().to_dicts()

    def workbooks(self) -> list[str]:
        """Names of the published workbooks."""
        return sorted(path.name for path in (self.folder / "plans").glob("*"))


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "small").write()


@pytest.fixture(scope="session")
def planned_once(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A workspace with one published version; copied for each test that starts from one."""
    from pipelines.commands.plan import run

    small = Small(tmp_path_factory.mktemp("planned") / "small").write()
    run(small.folder, json=True)
    return small


@pytest.fixture
def published(planned_once: Small, tmp_path: Path) -> Small:
    """A copy of the workspace with version 1, for the test to change."""
    folder = tmp_path / "published"
    shutil.copytree(planned_once.folder, folder)
    return Small(folder)


Capsheet = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def capsheet() -> Capsheet:
    """Run `capsheet ...` in a process of its own."""

    def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)

    return run


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with its tables, copied for each test: making them takes a second."""
    store = Store(tmp_path_factory.mktemp("empty"))
    with store.warehouse.writer():
        pass
    return store.warehouse.path


@pytest.fixture
def store(tmp_path: Path, empty_warehouse: Path) -> Store:
    shutil.copy(empty_warehouse, tmp_path)
    return Store(tmp_path)
