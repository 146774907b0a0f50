"""Fixtures every room's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of measured cases and real inputs beside the checkout; a clone without it skips, with this reason."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no measured cases: {folder} is not there (they are kept beside the checkout, not in it)")
    return folder
