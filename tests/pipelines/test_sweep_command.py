"""`capsheet sweep`: the grid a user asks for, whole, in a table, as JSON and in a file."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipelines.commands.bar import progress_bar
from pipelines.commands.sweep import rates_of, run, variants_of
from pipelines.progress import report
from tests.pipelines.conftest import Capsheet, Small
from warehouse.errors import CapsheetError


def test_every_combination_at_every_rate_and_what_does_not_fit_is_named(tmp_path: Path, capsheet: Capsheet) -> None:
    small, out = Small(tmp_path / "w").write(), tmp_path / "rows.csv"
    options = ("--gpu", "H100-SXM", "--tp", "1,3", "--max-num-seqs", "4,256", "--rates", "1,8,400")
    done = capsheet("sweep", "-w", small.folder, *options, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    few, many = (f"H100-SXM / TP1 / bf16 / vllm@0.19.0 / max_num_seqs={n}" for n in (4, 256))
    rows = {(row["candidate_id"], row["arrival_rps"]): row for row in said["rows"]}
    assert set(rows) == {(name, rate) for name in (few, many) for rate in (1.0, 8.0, 400.0)}
    assert rows[few, 400.0]["queue_limit"] == "max_num_seqs" and not rows[many, 400.0]["feasible"]
    assert rows[many, 8.0]["feasible"] and rows[many, 8.0]["attainment"] >= 0.99
    assert rows[few, 8.0]["ttft_p99_ms"] > rows[many, 8.0]["ttft_p99_ms"]
    best = said["candidates"][0]
    assert best["candidate_id"] == many and best["kept_rps"] == 8.0 and not best["saturated"]
    assert [one["candidate_id"] for one in said["left_out"]] == [
        few.replace("TP1", "TP3"),
        many.replace("TP1", "TP3"),
    ]
    assert all("3" in one["reason"] for one in said["left_out"])
    with out.open(newline="") as lines:
        written = list(csv.DictReader(lines))
    assert [(row["candidate_id"], float(row["arrival_rps"])) for row in written] == list(rows)
    assert [float(row["attainment"]) for row in written] == [row["attainment"] for row in said["rows"]]


def test_people_get_a_table_with_rates_chosen_about_the_bounds(tmp_path: Path, capsheet: Capsheet) -> None:
    small = Small(tmp_path / "w").write()
    done = capsheet("sweep", "-w", small.folder, "--executor", "local")
    assert done.returncode == 0, done.stderr
    assert "2 candidates x 12 rates" in done.stdout
    assert "H100-SXM / TP1 / bf16 / vllm@0.19.0" in done.stdout and "##" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"service": "nobody"}, "no service is called 'nobody'. Name one with --service: chat"),
        ({"rates": "4:1:3"}, "FROM:TO:HOW_MANY"),
        ({"gpu": "H100-SXM,H100-SXM"}, "accelerators: H100-SXM stands twice"),
        ({"gpu": "abacus"}, "no accelerator 'abacus'"),
        ({"gpu": "H100-SXM", "tp": "3"}, "no candidate can be replayed. H100-SXM / TP3"),
        ({"gpu": "L4"}, "no price is known for L4"),
        ({"max_num_seqs": "0"}, "max_num_seqs: Input should be greater"),
        ({"out": Path("/nowhere/rows.csv")}, "/nowhere/rows.csv cannot be written"),
    ],
)
def test_a_grid_nobody_can_replay_is_one_clear_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    small = Small(tmp_path / "w").write()
    names = ("gpu", "tp", "precision", "max_num_seqs", "max_num_batched_tokens")
    variants = variants_of(*(options.pop(name, "") for name in names))
    asked = {"service": "", "rates": "1", "executor": None, "out": None, "json": True, **options}
    with pytest.raises(CapsheetError, match=re.escape(message)):
        run(small.folder, variants=variants, **asked)


def test_a_list_that_is_none_is_refused(capsheet: Capsheet) -> None:
    done = capsheet("sweep", "--tp", "two")
    assert (done.returncode, done.stderr) == (1, "capsheet: --tp 'two': write whole numbers, as 1,2,4.\n")


def test_rates_are_a_list_or_a_range_on_a_log_scale() -> None:
    assert rates_of("4,1,2.5,4") == [1.0, 2.5, 4.0]
    assert rates_of("1:64:7") == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    assert rates_of("3:3:1") == [3.0]
    for wrong in ("", "0,1", "1:2", "1:inf:3", "1:2:0", "nan"):
        with pytest.raises(CapsheetError):
            rates_of(wrong)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_somebody_at_a_terminal_sees_a_bar_and_a_machine_nothing(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar(quiet=quiet):
        for done in range(1, 4):
            report("replays", done, 3)
    assert ("replays" in terminal.getvalue() and "3/3" in terminal.getvalue()) != quiet
