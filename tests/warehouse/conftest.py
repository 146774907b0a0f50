"""The warehouses tests start from: none yet, empty, and one with two published plan versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.warehouse.rows import fill_drafts
from warehouse.connection import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A warehouse file that does not exist yet, and no patience with locks."""
    return Warehouse(tmp_path / "capsheet.duckdb", wait_s=0)


@pytest.fixture(scope="session")
def _templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One empty warehouse and one with drafts, made once and copied for each test: migrations take a moment."""
    folder = tmp_path_factory.mktemp("templates")
    empty = Warehouse(folder / "empty.duckdb")
    with empty.writer():
        pass
    shutil.copy(empty.path, folder / "drafted.duckdb")
    fill_drafts(Warehouse(folder / "drafted.duckdb"))
    return folder


@pytest.fixture
def empty(warehouse: Warehouse, _templates: Path) -> Warehouse:
    """A warehouse with every table and no row."""
    shutil.copy(_templates / "empty.duckdb", warehouse.path)
    return warehouse


@pytest.fixture
def drafted(warehouse: Warehouse, _templates: Path) -> Warehouse:
    """A warehouse whose drafts are ready to be published."""
    shutil.copy(_templates / "drafted.duckdb", warehouse.path)
    return warehouse
