"""Reading one small text as a trace, and saying what its one request must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.sources import SourceRead, read_trace


def read(folder: Path, text: str, name: str = "t.jsonl", format: str = "auto", **options: object) -> SourceRead:
    (folder / name).write_text(text, encoding="utf-8")
    got = read_trace(folder / name, name, format, options)
    assert got.rows_read == got.frame.height + got.rejected.height
    return got


def row(folder: Path, value: object, format: str = "auto") -> dict[str, Any]:
    """The one request of a JSON line."""
    got = read(folder, value if isinstance(value, str) else json.dumps(value), format=format)
    assert got.frame.height == 1, got.rejected["reason"].to_list()
    return got.frame.row(0, named=True)


def says(found: dict[str, Any], **expected: object) -> None:
    assert {name: found[name] for name in expected} == expected
