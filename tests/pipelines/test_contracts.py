"""Checks between sources and estimates: the registry's rules on small tables, facts of a whole trace on the big one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from pipelines.contracts import CheckResult, validate, validate_requests
from pipelines.sources import read_catalog_table, read_prices
from tests.conftest import ROOT
from warehouse.connection import scratch
from warehouse.migrate import migrate
from warehouse.registry import table
from warehouse.requests import make_place, stream_requests
from warehouse.write import append


def at(*parts: int) -> datetime:
    """A moment in UTC, as the warehouse keeps it: without a zone."""
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001


@pytest.fixture
def prices() -> pl.DataFrame:
    return read_prices({}, "").frame


def failed(results: list[CheckResult]) -> dict[str, str]:
    assert len({result.check_name for result in results}) == len(results), "a check name is a key"
    for result in results:
        assert result.observed
        assert result.expected
        assert result.passed == (result.remedy is None)
    return {result.check_name: result.observed for result in results if not result.passed}


@pytest.mark.parametrize("name", ["accelerators", "prices"])
def test_the_shipped_catalogue_keeps_every_contract(name: str) -> None:
    read = read_catalog_table(name)
    assert failed(validate({"accelerators": "accelerator", "prices": "price"}[name], read.frame)) == {}


def row(number: int) -> pl.Expr:
    return pl.int_range(pl.len()) == number


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (
            pl.when(row(1)).then(-1.0).otherwise("usd_per_gpu_hour").alias("usd_per_gpu_hour"),
            "values are in range",
            "usd_per_gpu_hour: 1 rows (-1.0)",
        ),
        (
            pl.when(row(1)).then(0.0).otherwise("usd_per_gpu_hour").alias("usd_per_gpu_hour"),
            "values are in range",
            "usd_per_gpu_hour: 1 rows (0.0)",
        ),
        (
            pl.when(row(1)).then(float("nan")).otherwise("usd_per_gpu_hour").alias("usd_per_gpu_hour"),
            "numbers are finite",
            "usd_per_gpu_hour: 1 rows",
        ),
        (
            pl.when(row(1)).then(pl.lit("guessed")).otherwise("label").alias("label"),
            "values are of the allowed ones",
            "label: 1 rows (guessed)",
        ),
        (pl.when(~row(1)).then("source").alias("source"), "required values are there", "source: 1 rows"),
        (pl.col("price_id").first().alias("price_id"), "the key is unique", "price_id: 21 rows"),
    ],
)
def test_a_broken_row_stops_the_run_and_is_named(prices: pl.DataFrame, spoil: pl.Expr, check: str, words: str) -> None:
    results = validate("price", prices.with_columns(spoil))
    assert words in failed(results)[check]
    assert {result.severity for result in results} == {"stops"}


def test_an_absent_value_where_none_is_needed_passes(prices: pl.DataFrame) -> None:
    assert failed(validate("price", prices.with_columns(region=pl.lit(None, pl.String)))) == {}


def test_a_table_of_another_shape_or_without_rows_is_said_before_any_suite_runs(prices: pl.DataFrame) -> None:
    assert "source is missing" in failed(validate("price", prices.drop("source")))["columns are those of the registry"]
    assert failed(validate("price", prices.clear())) == {"there are rows": "0 rows"}
    empty = pl.DataFrame(schema={c.name: pl.String for c in table("observation").columns})
    assert "there are rows" not in failed(validate("observation", empty))


def test_great_expectations_loads_only_where_a_suite_runs_and_leaves_home_alone(tmp_path: Path) -> None:
    code = (
        "import sys; import pipelines.contracts as c; from pipelines.sources import read_prices;"
        "assert 'great_expectations' not in sys.modules and 'pandas' not in sys.modules;"
        "c.validate('price', read_prices({}, '').frame); print('great_expectations' in sys.modules)"
    )
    env = {**os.environ, "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with scratch() as connection:
        migrate(connection, Path("scratch"))
        yield connection


def trace(con: duckdb.DuckDBPyConnection, count: int = 600, **columns: object) -> None:
    """A day of `count` requests in `t.csv`; columns replace the defaults."""
    start = at(2026, 1, 5)
    data: dict[str, object] = {
        "source_file": "t.csv",
        "line": range(2, count + 2),
        "arrival_at": [start + timedelta(seconds=i * 86_400 / count) for i in range(count)],
        "isl_tokens": [100 + i for i in range(count)],
        "osl_tokens": [50 + i % 300 for i in range(count)],
        "outcome": "ok",
        "replayable": True,
    }
    rows = pl.DataFrame(data | columns)
    stream_requests(con, make_place(con, "t.csv", rows.columns), iter([rows]))
    source(con, rows_read=count)


def source(con: duckdb.DuckDBPyConnection, rows_read: int) -> None:
    con.execute("DELETE FROM source_file")
    con.execute(
        "INSERT INTO source_file BY NAME SELECT 't.csv' source_file, 't.csv' named_by, 'trace' kind, 'azure' format,"
        " '' sha256,"
        " 1 size_bytes, ? rows_read, 0 rows_kept, 0 rows_rejected, now()::TIMESTAMP loaded_at",
        [rows_read],
    )


def reject(con: duckdb.DuckDBPyConnection, count: int, reason: str, first_line: int = 10_000) -> None:
    rows = {"source_file": "t.csv", "line": range(first_line, first_line + count), "reason": reason, "raw": "x"}
    append(con, table("rejected_row"), pl.DataFrame(rows))


def test_a_sound_day_passes_every_check(con: duckdb.DuckDBPyConnection) -> None:
    trace(con)
    results = validate_requests(con, ["t.csv"])
    assert failed(results) == {}
    assert len(results) >= 10


def test_broken_rows_are_counted_with_the_first_reason_and_too_many_stop(con: duckdb.DuckDBPyConnection) -> None:
    trace(con)
    reject(con, 6, "isl_tokens is missing")
    source(con, 606)
    found = failed(validate_requests(con, ["t.csv"], 0.05))
    assert found == {"no row is broken (t.csv)": "6 of 606 rows (0.99%); first line 10000: isl_tokens is missing"}
    reject(con, 400, "isl_tokens is missing", 20_000)
    source(con, 1_006)
    stopping = [r.check_name for r in validate_requests(con, ["t.csv"], 0.05) if not r.passed and r.severity == "stops"]
    assert stopping == ["broken rows are few (t.csv)"]


def test_failed_requests_are_told_apart_from_broken_rows(con: duckdb.DuckDBPyConnection) -> None:
    usual = [i >= 300 for i in range(600)]
    trace(con, outcome=["ok" if ok else "failed" for ok in usual], replayable=usual)
    reject(con, 2, "not a request: span GET")
    source(con, 602)
    found = failed(validate_requests(con, ["t.csv"], 0.0))
    assert found == {"no request failed (t.csv)": "300 failed or refused requests"}


@pytest.mark.parametrize(
    ("outcome", "check"),
    [
        ("cancelled", "no request was cancelled"),
        ("cache_hit", "an engine answered every request"),
        ("ok", "every request's lengths are known"),
    ],
)
def test_requests_a_plan_does_not_count_are_told(con: duckdb.DuckDBPyConnection, outcome: str, check: str) -> None:
    trace(con, outcome=[outcome, *["ok"] * 599], replayable=[False, *[True] * 599])
    assert list(failed(validate_requests(con, ["t.csv"]))) == [f"{check} (t.csv)"]


def test_a_lost_row_stops_the_run(con: duckdb.DuckDBPyConnection) -> None:
    trace(con)
    source(con, 601)
    assert failed(validate_requests(con, ["t.csv"])) == {"no row is lost (t.csv)": "601 read, 600 kept, 0 rejected"}


def test_a_trace_that_was_never_read_stops_the_run(con: duckdb.DuckDBPyConnection) -> None:
    assert failed(validate_requests(con, ["t.csv"])) == {"requests were kept (t.csv)": "0 requests"}


@pytest.mark.parametrize(
    ("columns", "check", "severity"),
    [
        (
            {"arrival_at": [at(2026, 1, 5, 0, i // 60, i % 60) for i in range(600)]},
            "the trace covers a day",
            "warns",
        ),
        (
            {
                "arrival_at": [
                    at(2020, 1, 1),
                    *(at(2026, 1, 5) + timedelta(minutes=3 * i) for i in range(599)),
                ]
            },
            "the time span is believable",
            "stops",
        ),
        (
            {"arrival_at": [at(2026, 1, 5 + (i % 2), 0, i // 60) for i in range(600)]},
            "rows were in order of arrival",
            "informs",
        ),
        (
            {"arrival_at": [at(2026, 1, 5) + timedelta(minutes=24 * (i // 10)) for i in range(600)]},
            "arrivals lie on no grid",
            "warns",
        ),
        ({"osl_tokens": [min(i + 1, 300) for i in range(600)]}, "output lengths are not capped", "warns"),
        ({"isl_tokens": [min(i + 1, 500) for i in range(600)]}, "input lengths are not capped", "warns"),
    ],
)
def test_what_is_odd_about_a_trace_is_said(
    con: duckdb.DuckDBPyConnection, columns: dict[str, object], check: str, severity: str
) -> None:
    trace(con, **columns)
    found = {r.check_name: r.severity for r in validate_requests(con, ["t.csv"]) if not r.passed}
    assert found[f"{check} (t.csv)"] == severity


def test_a_source_name_is_a_value_never_sql(con: duckdb.DuckDBPyConnection) -> None:
    hostile = "t.csv'; DROP TABLE request; --"
    assert f"requests were kept ({hostile})" in failed(validate_requests(con, [hostile]))
    assert con.execute("SELECT count(*) FROM request").fetchone() == (0,)
