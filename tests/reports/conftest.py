"""Fixtures of the workbook's tests: the sample plan's bytes, and LibreOffice as a second opinion on every formula."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reports.workbook import build_workbook
from tests.reports.sample_plan import CREATED_AT, sample_plan

Recalculate = Callable[[bytes], bytes]

_ALWAYS_RECALCULATE = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load">
<prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"""


@pytest.fixture(scope="session")
def sample_bytes() -> bytes:
    """The sample plan's workbook."""
    return build_workbook(sample_plan(), CREATED_AT)


@pytest.fixture(scope="session")
def soffice() -> str:
    """The LibreOffice command, or a skip where it is not installed."""
    command = shutil.which("soffice")
    if command is None:
        pytest.skip("no soffice: install libreoffice-calc to have every formula recalculated by a second program")
    return command


@pytest.fixture(scope="session")
def recalculate(soffice: str, tmp_path_factory: pytest.TempPathFactory) -> Recalculate:
    """A function that has LibreOffice load a workbook, compute every formula anew, and save it."""
    home = tmp_path_factory.mktemp("soffice")
    (home / "profile" / "user").mkdir(parents=True)
    (home / "profile" / "user" / "registrymodifications.xcu").write_text(_ALWAYS_RECALCULATE)

    def run(content: bytes) -> bytes:
        source, target = home / "in" / "book.xlsx", home / "out"
        source.parent.mkdir(exist_ok=True)
        source.write_bytes(content)
        profile = f"-env:UserInstallation={(home / 'profile').as_uri()}"
        command = [soffice, "--headless", profile, "--convert-to", "xlsx", "--outdir", str(target), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=180)
        return Path(target / "book.xlsx").read_bytes()

    return run
