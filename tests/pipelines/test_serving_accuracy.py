"""`capsheet accuracy` on serving measurements: distinct points, corrections scored on what they never saw."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.commands.accuracy import run
from pipelines.planning.measurements import read_measurements
from pipelines.planning.serving import read_cases
from pipelines.planning.serving.correction import correct, draw
from pipelines.planning.serving.errors import errors, per_row, report
from pipelines.planning.serving.predictions import (
    REPEATED,
    SATURATED,
    Point,
    Predicted,
    Value,
    points,
    predict_rows,
)
from tests.pipelines.serving_rows import CATALOG, CLOSED, FOLDERS, MIXED, OPEN, file_of, read, sweep
from warehouse.errors import CapsheetError

CLIENTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)


def answer(capsys: pytest.CaptureFixture[str], file: Path, **options: Any) -> dict[str, Any]:
    run(file, models=None, out=options.get("out"), json=True, correct=options.get("correct"))
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def points_of(rows: list[dict[str, str]]) -> list[Point]:
    return points(predict_rows(read_cases(rows, FOLDERS, CATALOG), CATALOG.profile))[0]


def known(predicted: float, measured: float, low: float | None = None, high: float | None = None) -> Point:
    row = read(CLOSED)
    assert row.case is not None
    return Point(row, row.case, {"tpot": Value(predicted, low, high)}, {"tpot": measured}, (2,))


def test_the_answer_counts_every_row_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*sweep(CLOSED, 4, 8, 16), {**CLOSED, "model": "no/ne"}, {**CLOSED, "concurrency": "x"}]
    said = answer(capsys, file_of(tmp_path, *rows))
    assert said["kind"] == "closed loop"
    assert said["rows"] == 5 and said["predicted"] == 3 and sum(said["skipped"].values()) == 2
    assert set(said["metrics"]) == {"tpot", "ttft", "e2e", "ttft_p99", "throughput"}
    assert said["metrics"]["tpot"]["n"] == 3 and said["metrics"]["e2e"]["n"] == 0
    assert set(said["metrics"]["tpot"]) >= {"median_ape", "p90_ape", "coverage_p10_p90", "n"}
    assert set(said["by"]) == {"engine", "gpu", "model_kind", "mode", "combination"}
    assert said["by"]["mode"]["aggregated"]["tpot"]["n"] == 3


def test_errors_are_relative_to_what_was_measured() -> None:
    said = errors([known(11, 10), known(8, 10), known(15, 10)])["tpot"]
    assert said["median_ape"] == pytest.approx(0.2)
    assert said["p90_ape"] == pytest.approx(0.5)
    assert said["coverage_p10_p90"] is None and said["n"] == 3


def test_coverage_is_the_share_of_points_inside_their_interval() -> None:
    said = errors([known(10, 10, 9, 11), known(10, 12, 9, 11), known(10, 9, 9, 11), known(10, 1, 9, 11)])["tpot"]
    assert said["coverage_p10_p90"] == 0.5


def test_repeats_are_one_point_at_the_median_of_what_differs() -> None:
    rows = [
        {**CLOSED, "id": name, "tpot_ms": tpot} for name, tpot in zip("abcd", ("10", "10", "14", "12"), strict=True)
    ]
    predicted = predict_rows(read_cases(rows, FOLDERS, CATALOG), CATALOG.profile)
    found, left_out = points(predicted)
    assert len(found) == 1 and found[0].measured["tpot"] == 12  # 10 twice is one measurement in two exports
    assert list(left_out.values()) == [REPEATED] * 3
    assert report("closed loop", predicted, None, 0)["left_out_of_errors"] == {REPEATED: 3}


def test_one_measurement_under_two_names_is_one_point() -> None:
    deep = {**CLOSED, "gpu": "b200_sxm", "tp_size": "8", "moe_tp_size": "8", "engine": "sglang"}
    rows = [{**deep, "model": f"deepseek-ai/DeepSeek-{name}"} for name in ("R1", "V3")]
    assert len(points_of(rows)) == 1


def test_saturated_clients_are_predicted_alike_and_not_counted() -> None:
    calm, waiting = (
        predict_rows(read_cases([{**CLOSED, "ttft_ms": ttft}], FOLDERS, CATALOG), CATALOG.profile)[0]
        for ttft in ("150", "25000")
    )
    assert calm.values == waiting.values
    assert points([waiting]) == ([], {2: SATURATED})


@settings(max_examples=40, deadline=None)
@given(figures=st.lists(st.tuples(st.floats(1, 9e3), st.floats(1, 500)), min_size=10, max_size=10))
def test_no_measurement_moves_a_prediction(figures: list[tuple[float, float]]) -> None:
    rows = sweep(CLOSED, *CLIENTS)
    moved = [
        {**row, "ttft_ms": str(ttft), "tpot_ms": str(tpot)} for row, (ttft, tpot) in zip(rows, figures, strict=True)
    ]
    before, after = (predict_rows(read_cases(some, FOLDERS, CATALOG), CATALOG.profile) for some in (rows, moved))
    assert [one.values for one in before] == [one.values for one in after]


def test_a_correction_is_scored_on_points_it_never_saw() -> None:
    found = points_of(sweep(CLOSED, *CLIENTS))
    done = correct(found, 0.3)
    assert len(done.used) == 3 and len(done.scored) == 7
    assert not {point.row.line for point in done.used} & {point.row.line for point in done.scored}
    assert errors(done.scored)["tpot"]["median_ape"] < errors(done.uncorrected)["tpot"]["median_ape"]


def test_what_a_scored_point_measured_never_reaches_its_correction() -> None:
    found = points_of(sweep(CLOSED, *CLIENTS))
    done = correct(found, 0.3)
    lines = {point.row.line for point in done.scored}
    moved = [
        Point(p.row, p.case, p.predicted, {"tpot": 1.0, "ttft": 1.0} if p.row.line in lines else p.measured, p.lines)
        for p in found
    ]
    assert [p.predicted for p in correct(moved, 0.3).scored] == [p.predicted for p in done.scored]


def test_no_combination_corrects_another() -> None:
    here, there = sweep(CLOSED, *CLIENTS), sweep({**CLOSED, "gpu": "h200_sxm"}, *CLIENTS)
    alone = {p.row.cells["gpu"] + p.row.cells["concurrency"]: p.predicted for p in correct(points_of(here), 0.3).scored}
    wild = [{**row, "tpot_ms": "900"} for row in there]
    both = correct(points_of([*here, *wild]), 0.3).scored
    assert {
        p.row.cells["gpu"] + p.row.cells["concurrency"]: p.predicted for p in both if p.row.cells["gpu"] == "h100_sxm"
    } == alone


def test_a_rate_at_which_requests_queue_corrects_no_rate_below() -> None:
    rates = ("1", "2", "4", "5", "6", "8", "10")
    rows = [{**OPEN, "experiment": rate, "stage": "2", "request_rate_rps": rate} for rate in rates]
    found = points_of(rows)
    steady = [
        Point(p.row, p.case, p.predicted, {m: 1.1 * v.value for m, v in p.predicted.items()}, p.lines) for p in found
    ]
    used = {point.row.line for point in correct(steady, 0.5).used}
    last = max(used)
    queued = [
        Point(p.row, p.case, p.predicted, {m: 40 * v for m, v in p.measured.items()}, p.lines)
        if p.row.line == last
        else p
        for p in steady
    ]
    for point in correct(queued, 0.5).scored:
        assert point.predicted["e2e"].value == pytest.approx(point.measured["e2e"], rel=0.03)


def test_the_draw_is_seeded_and_spans_the_sweep() -> None:
    found = points_of(sweep(CLOSED, *CLIENTS))
    first, again = (draw(found, 0.3, "a")[0] for _ in range(2))
    assert first == again
    assert len({tuple(p.row.line for p in draw(found, 0.3, str(seed))[0]) for seed in range(9)}) > 1
    lines = [point.row.line for point in first]
    assert lines[0] <= 4 and lines[-1] >= 8  # one in each third of ten points


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0.01, 0.99), n=st.integers(2, 10))
def test_any_share_leaves_something_to_use_and_to_score(share: float, n: int) -> None:
    known_points, rest = draw(ALL[:n], share, "s")
    assert known_points and rest and len(known_points) + len(rest) == n


ALL = points_of(sweep(CLOSED, *CLIENTS))


def test_a_point_alone_in_its_combination_is_neither_used_nor_scored() -> None:
    done = correct(points_of([*sweep(CLOSED, 4, 8), {**CLOSED, "gpu": "h200_sxm"}]), 0.3)
    assert (len(done.used), len(done.scored), len(done.alone)) == (1, 1, 1)


def test_the_corrected_answer_says_what_was_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answer(capsys, file_of(tmp_path, *sweep(CLOSED, *CLIENTS)), correct=0.3)
    assert said["correction"] | {} == {
        "share": 0.3, "combinations": 1, "points_used": 3, "points_scored": 7, "points_alone_in_their_combination": 0
    }  # fmt: skip
    assert said["metrics"]["tpot"]["n"] == said["before_correction"]["tpot"]["n"] == 7
    assert said["predicted"] == 10


def test_the_record_of_each_row_says_what_was_read_and_how_it_was_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*sweep(CLOSED, *CLIENTS), {**CLOSED, "ttft_ms": "20000"}, {**CLOSED, "model": "=cmd|x"}]
    out = tmp_path / "out.csv"
    answer(capsys, file_of(tmp_path, *rows), out=out, correct=0.3)
    with out.open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert [record["line"] for record in records] == [str(n) for n in range(2, 14)]
    uses = [record["in_errors"] for record in records]
    assert uses.count("scored") == 7 and uses.count("used for the correction") == 3
    assert SATURATED in records[-2]["in_errors"] and records[-2]["predicted_tpot_ms"]
    assert records[-1]["skipped"] and not records[-1]["predicted_tpot_ms"]
    assert not any(cell.startswith("=") for record in records for cell in record.values())
    assert records[0]["layout"] == "tp 4 dp 1 ep 1 pp 1 workers 1" and "10 prompts a client" in records[0]["assumed"]
    scored = records[uses.index("scored")]
    told = float(scored["predicted_tpot_ms"]) / float(scored["measured_tpot_ms"]) - 1
    assert float(scored["error_tpot"]) == pytest.approx(told)


@pytest.mark.parametrize("cells", [OPEN, MIXED])
def test_runs_at_a_rate_are_predicted_with_all_their_latencies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cells: dict[str, str]
) -> None:
    said = answer(capsys, file_of(tmp_path, cells))
    assert said["predicted"] == 1, said["skipped"]
    assert {metric for metric, found in said["metrics"].items() if found["n"]} == {"tpot", "ttft", "e2e", "ttft_p99"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<!DOCTYPE html><html></html>",
        b"model,gpu,engine,concurrency,isl,osl\n1,2,3,4,5,6\n",
        ",".join(CLOSED).encode() + b"\n",
        ",".join(CLOSED).encode("utf-16"),
        b'model,gpu,engine,concurrency,isl,osl,ttft_ms\n"unclosed,1\n',
        b"model,gpu,engine,concurrency,isl,osl,ttft_ms\n\xff\xfe,1,2,3,4,5,6\n",
        b"\x00\x01\x02",
    ],
)
def test_a_file_of_no_known_kind_is_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    with pytest.raises(CapsheetError) as failure:
        run(file, models=None, out=None, json=True)
    assert "\n" not in str(failure.value) and "bad.csv" in str(failure.value)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_spreadsheets_semicolons_or_tabs_are_commas(tmp_path: Path, delimiter: str) -> None:
    file = file_of(tmp_path, *sweep(CLOSED, 4, 8))
    plain = read_measurements(file)
    file.write_text("\ufeff" + file.read_text(encoding="utf-8").replace(",", delimiter), encoding="utf-8")
    assert read_measurements(file) == plain


def test_cells_too_many_or_too_few_lose_no_row(tmp_path: Path) -> None:
    file = tmp_path / "ragged.csv"
    cells = list(CLOSED.values())
    lines = [list(CLOSED), cells, cells[:4], [*cells, "more", "and more"]]
    file.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
    rows = read_cases(read_measurements(file).rows, FOLDERS, CATALOG, "closed loop")
    assert [row.case is not None for row in rows] == [True, False, True]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.dictionaries(
            st.sampled_from(
                ["concurrency", "isl", "osl", "tp_size", "batch_size", "ttft_ms", "tpot_ms", "gpu", "model"]
            ),
            st.one_of(st.text(max_size=8), st.sampled_from(["1", "7", "1e4", "nan", "0", "-3", "gb200", "=1+1"])),
            max_size=3,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_a_file_holds_every_row_has_a_record_and_counts_once(rows: list[dict[str, str]]) -> None:
    predicted = predict_rows(read_cases([{**CLOSED, **row} for row in rows], FOLDERS, CATALOG), CATALOG.profile)
    corrected = correct(points(predicted)[0], 0.3)
    said = report("closed loop", predicted, corrected, 0.3)
    assert said["predicted"] + sum(said["skipped"].values()) == said["rows"] == len(rows)
    used = len(corrected.used) + len(corrected.scored) + len(corrected.alone)
    assert used + sum(said["left_out_of_errors"].values()) == said["predicted"]
    assert len(per_row(predicted, corrected)) == len(rows)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.3, 30.0, float("nan")])
def test_a_share_that_is_none_is_refused(tmp_path: Path, share: float) -> None:
    with pytest.raises(CapsheetError, match="--correct"):
        run(file_of(tmp_path, CLOSED), models=None, out=None, json=True, correct=share)


def test_a_row_that_cannot_be_predicted_keeps_the_reason() -> None:
    one = predict_rows([read(CLOSED, model="no/ne")], CATALOG.profile)[0]
    assert one == Predicted(one.row, {}, one.row.skipped) and one.skipped


def test_people_read_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(file_of(tmp_path, *sweep(CLOSED, *CLIENTS)), models=None, out=None, json=False, correct=0.3)
    told = capsys.readouterr().out
    assert "10 of 10 rows predicted" in told and "by model kind" in told and "before" in told
