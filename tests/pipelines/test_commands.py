"""The smaller commands, and what all of them share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.commands import show
from pipelines.commands.doctor import run as doctor
from tests.pipelines.conftest import Capsheet, Small
from warehouse.errors import CapsheetError

HEAVY = {
    "dagster",
    "duckdb",
    "great_expectations",
    "numba",
    "numpy",
    "openpyxl",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
}


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, pipelines.cli; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_help_names_every_command(capsheet: Capsheet) -> None:
    done = capsheet("--help")
    assert done.returncode == 0
    for command in ("init", "plan", "sweep", "history", "explain", "sql", "ui", "doctor"):
        assert command in done.stdout


def test_wrong_usage_is_exit_2(capsheet: Capsheet) -> None:
    assert capsheet("plan", "--no-such-option").returncode == 2
    assert capsheet("no-such-command").returncode == 2
    assert capsheet("explain", "zero").returncode == 2


def test_init_makes_a_workspace_once(tmp_path: Path, capsheet: Capsheet) -> None:
    first = capsheet("init", tmp_path / "w", "--json")
    assert first.returncode == 0, first.stderr
    assert all(Path(name).is_file() for name in json.loads(first.stdout)["files"])
    again = capsheet("init", tmp_path / "w")
    assert again.returncode == 1
    assert "already there" in again.stderr


@pytest.mark.parametrize("command", [["plan"], ["history"], ["sql", "select 1"], ["explain", "1"], ["ui"], ["sweep"]])
def test_without_a_workspace_each_command_says_how_to_make_one(
    tmp_path: Path, capsheet: Capsheet, command: list[str]
) -> None:
    done = capsheet(*command, "--workspace", tmp_path)
    assert done.returncode == 1
    assert "capsheet init" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_doctor_finds_nothing_wrong_with_a_planned_workspace(published: Small, capsheet: Capsheet) -> None:
    done = capsheet("doctor", "--workspace", published.folder, "--json")
    assert done.returncode == 0, done.stderr
    assert all(finding["ok"] for finding in json.loads(done.stdout))


@pytest.mark.parametrize("there", [True, False])
def test_doctor_looks_for_ray_where_the_workspace_names_it(
    there: bool, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.tail += "executor: ray\n"
    small.write()
    monkeypatch.setattr("pipelines.commands.doctor.find_spec", lambda _: object() if there else None)
    if there:
        doctor(small.folder, json=True)
    else:
        with pytest.raises(CapsheetError, match=r"capsheet\[ray\]"):
            doctor(small.folder, json=True)


def test_doctor_names_what_is_missing_and_what_mends_it(published: Small, capsheet: Capsheet) -> None:
    (published.folder / "trace.csv").unlink()
    next((published.folder / "plans").iterdir()).unlink()
    done = capsheet("doctor", "--workspace", published.folder, "--json")
    assert done.returncode == 1
    broken = [finding["looked_at"] for finding in json.loads(done.stdout) if not finding["ok"]]
    assert "trace trace.csv" in broken and any(name.startswith("workbook") for name in broken)


def test_explain_shows_a_figure_down_to_its_inputs(published: Small, capsheet: Capsheet) -> None:
    done = capsheet("explain", 1, "chat.gpus_total", "--workspace", published.folder, "--json")
    said = json.loads(done.stdout)
    assert said["value"] == said["inputs"]["replicas_total"] * said["inputs"]["gpus_per_replica"]
    assert said["label"] == "estimated" and said["unit"] == "GPUs"
    wrong = capsheet("explain", 1, "chat.gpu_total", "--workspace", published.folder)
    assert wrong.returncode == 1 and "chat.gpus_total" in wrong.stderr


def test_every_published_number_has_unit_label_formula_and_source(published: Small) -> None:
    rows = published.rows("SELECT * FROM plan_number")
    assert len(rows) > 20
    for row in rows:
        assert row["label"] and row["formula"] and row["source"], row["number"]
        json.loads(row["inputs_json"])


def test_history_and_named_queries_answer(published: Small, capsheet: Capsheet) -> None:
    assert json.loads(capsheet("history", "--workspace", published.folder, "--json").stdout)[0]["plan_version"] == 1
    listed = json.loads(capsheet("sql", "--list", "--json").stdout)
    assert len(listed) >= 10
    for query in listed:
        if not query["takes"]:
            done = capsheet("sql", query["name"], "--workspace", published.folder, "--json")
            assert done.returncode == 0, (query["name"], done.stderr)


@pytest.mark.parametrize(
    "query", ["drop table plan", "select * from plann", "select", "copy plan to '/tmp/x'", "no_such"]
)
def test_sql_that_may_not_or_cannot_run_is_one_line(published: Small, capsheet: Capsheet, query: str) -> None:
    done = capsheet("sql", query, "--workspace", published.folder)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1


def test_json_has_no_nan_and_keeps_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_json([{"a": float("nan"), "b": float("inf"), "c": "=1+1 [bold]", "d": b"xyz"}])
    assert json.loads(capsys.readouterr().out) == [{"a": None, "b": None, "c": "=1+1 [bold]", "d": "3 bytes"}]


def test_a_table_shows_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    show.as_table([{"reason": "[red]x[/red] [/oops]", "n": 1_234_567}])
    out = capsys.readouterr().out
    assert "[red]x[/red] [/oops]" in out
