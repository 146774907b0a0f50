"""`capsheet ingest trace`: one source alone, what was detected, every row accounted for; stored only in a workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pipelines.cli import app
from tests.pipelines.sources.examples import EXAMPLES, write
from warehouse.connection import Warehouse


def ingest(*words: str) -> Result:
    return CliRunner().invoke(app, ["ingest", "trace", *words])


def account(*words: str) -> dict[str, Any]:
    found = ingest(*words, "--json")
    assert found.exit_code == 0, found.output
    return dict(json.loads(found.stdout))


def options_of(name: str) -> list[str]:
    words = []
    for option, value in EXAMPLES[name].options.items():
        if isinstance(value, dict):
            words += [word for pair in value.items() for word in ("--column", "=".join(pair))]
        else:
            words += ["--option", f"{option}={value}"]
    return words


@pytest.mark.parametrize("name", EXAMPLES)
def test_outside_a_workspace_a_source_is_looked_at_and_nothing_is_kept(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, EXAMPLES[name])
    found = account(str(path), "-w", str(tmp_path), *options_of(name))
    assert found["stored_in"] is None
    assert found["rows_read"] == found["rows_kept"] + found["rows_rejected"] == 2
    file = found["files"][0]
    assert (file["format"], file["state"]) == (name, "read, not stored")
    assert file["detected"]
    assert sum(file["outcomes"].values()) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_rejected_rows_are_counted_and_the_first_ones_shown_with_line_and_reason(tmp_path: Path) -> None:
    example = EXAMPLES["azure"]
    path = write(tmp_path, example, example.text.encode() + b"2026-08-03 09:00:02,many,1\n")
    found = account(str(path), "-w", str(tmp_path))
    assert (found["rows_read"], found["rows_kept"], found["rows_rejected"]) == (3, 2, 1)
    assert found["files"][0]["rejected"] == [{"line": 4, "reason": "ContextTokens 'many' is not a whole number"}]
    page = ingest(str(path), "-w", str(tmp_path)).output
    assert "3 in = 2 kept + 1 rejected" in page
    assert "ContextTokens 'many' is not a whole number" in page


def test_in_a_workspace_a_source_is_stored_once_however_often_it_is_read(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["init", str(tmp_path)]).exit_code == 0
    path = write(tmp_path, EXAMPLES["litellm"])
    first, again = (account(str(path), "-w", str(tmp_path)) for _ in range(2))
    assert (first["files"][0]["state"], again["files"][0]["state"]) == ("read", "unchanged")
    strip = {"state"}
    assert {k: v for k, v in first["files"][0].items() if k not in strip} == {
        k: v for k, v in again["files"][0].items() if k not in strip
    }
    with Warehouse(tmp_path / "capsheet.duckdb").reader() as con:
        rows = con.execute("SELECT source_file, count(*) FROM request GROUP BY ALL").fetchall()
    assert rows == [("t.csv", 2)]


def test_a_source_that_the_workspace_names_is_read_as_the_workspace_says(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["init", str(tmp_path)]).exit_code == 0
    example = EXAMPLES["mapped"]
    write(tmp_path, example)
    file = tmp_path / "capsheet.yaml"
    columns = json.dumps(example.options["columns"])
    declared = f"source: t.csv\n      options: {{time_unit: ms, columns: {columns}}}"
    file.write_text(file.read_text().replace("source: inputs/chat_trace.parquet", declared, 1))
    found = account(str(tmp_path / "t.csv"), "-w", str(tmp_path))
    assert (found["source"], found["files"][0]["format"]) == ("t.csv", "mapped")
    assert "arrival_s in ms from 1970-01-01T00:00:00Z" in found["files"][0]["detected"]
    assert found["files"][0]["mean_rps"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.csv"], "is not there"),
        (["t.csv", "--format", "azuer"], "no trace format is called 'azuer'"),
        (["t.csv", "--option", "spread"], "'spread' is not NAME=VALUE"),
        (["t.csv", "--option", "spread=often"], "option spread is 'often'"),
        (["t.csv", "--column", "isl_tokens=gone"], "has no column 'gone'"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    write(tmp_path, EXAMPLES["azure"])
    monkeypatch.chdir(tmp_path)
    found = ingest(*words)
    assert found.exit_code == 1
    assert message in str(found.exception)
    assert "\n" not in str(found.exception)
