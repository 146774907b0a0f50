"""Users' SQL: one read-only statement, nothing but the warehouse, and a mistake answered in one helpful line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.warehouse.rows import publish_one
from warehouse.connection import Warehouse
from warehouse.errors import QueryRefused, WarehouseMissing
from warehouse.query import run_named, run_query


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- a comment\nFROM plan;",
        "WITH p AS (SELECT * FROM plan) SELECT count(*) FROM p",
        "DESCRIBE plan",
        "SHOW TABLES",
        "SUMMARIZE plan",
        "EXPLAIN SELECT * FROM plan",
        "PIVOT plan ON workspace IN ('a') USING sum(gpus_total)",
    ],
)
def test_questions_are_answered(empty: Warehouse, text: str) -> None:
    assert run_query(empty, text).width > 0


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("DELETE FROM plan", "only SELECT runs here, not DELETE"),
        ("WITH x AS (SELECT 1) INSERT INTO plan FROM x", "not INSERT"),
        ("CREATE TEMP TABLE t (n INTEGER)", "not CREATE"),
        ("SET threads = 1", "not SET"),
        ("ATTACH 'x.duckdb'", "not ATTACH"),
        ("COPY plan TO 'x.csv'", "not COPY"),
        ("LOAD httpfs", "not LOAD"),
        ("INSTALL httpfs", "not LOAD"),
        ("PRAGMA enable_profiling", "not "),
        ("CALL pragma_version()", "not CALL"),
        ("SELECT 1; DROP TABLE plan", "one statement at a time; this holds 2"),
        ("PIVOT plan ON workspace", "PIVOT must name its values"),
        ("  ", "the query is empty"),
        ("-- nothing", "the query is empty"),
        ("EXPLAIN ANALYZE DELETE FROM plan", "read-only"),
    ],
)
def test_anything_that_is_not_a_question_is_refused(empty: Warehouse, text: str, answer: str) -> None:
    before = empty.path.read_bytes()
    with pytest.raises(QueryRefused, match=answer):
        run_query(empty, text)
    assert empty.path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('{file}')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "SELECT getenv('HOME')",
        "SELECT * FROM text",
    ],
)
def test_neither_files_nor_network_nor_environment_nor_python_can_be_read(
    empty: Warehouse, tmp_path: Path, text: str
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(QueryRefused):
        run_query(empty, text.format(file=secret))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT * FROM plam", "Table with name plam does not exist!; did you mean table plan"),
        ("SELECT usd_per_mont FROM plan", "did you mean plan.usd_per_month"),
        ("SELECT p.gpu_total FROM plan p", "did you mean plan.gpus_total"),
        ("SELECT zzzzzz FROM plan", "SHOW TABLES lists the tables"),
        ("SELECT $version", "Values were not provided for the following prepared statement parameters: version"),
        ("SELECT 'a'::INTEGER", "Could not convert string 'a' to INT32"),
    ],
)
def test_a_mistake_is_answered_in_one_line_with_close_names(empty: Warehouse, text: str, answer: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        run_query(empty, text)
    assert answer in str(caught.value)
    assert "\n" not in str(caught.value)


def test_answers_come_in_types_a_reader_expects(empty: Warehouse) -> None:
    text = "SELECT sum(n) AS total, avg(n) AS mean, 1.25 AS price, count(*) AS n, 2 ** 99 AS vast FROM range(5) t(n)"
    assert run_query(empty, text).row(0, named=True) == {
        "total": 10,
        "mean": 2.0,
        "price": 1.25,
        "n": 5,
        "vast": 2.0**99,
    }
    wide = "SELECT 170141183460469231731687303715884105727::HUGEINT AS wide, INTERVAL 90 MINUTE AS span"
    assert run_query(empty, wide)["span"].to_list() == [timedelta(minutes=90)]


def test_a_value_is_bound_and_never_becomes_sql(drafted: Warehouse, tmp_path: Path) -> None:
    publish_one(drafted, tmp_path, workspace="it's; DROP TABLE plan")
    text = "SELECT workspace FROM plan WHERE workspace = $name"
    assert run_query(drafted, text, {"name": "it's; DROP TABLE plan"}).height == 1
    assert run_query(drafted, text, {"name": "' OR 1=1 --"}).height == 0


def test_a_question_needs_a_warehouse(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseMissing):
        run_query(warehouse, "SELECT 1")


@pytest.mark.parametrize(
    ("name", "params", "answer"),
    [
        ("plan_histori", {}, "no query is called 'plan_histori'; did you mean plan_history"),
        ("../plan_history", {}, "no query is called"),
        ("plan_history", {"versoin": 1}, "has no parameter versoin; it takes: none"),
        ("capacity", {"version": "two"}, "version is 'two', not INTEGER"),
    ],
)
def test_a_named_query_that_is_asked_wrongly_says_how(
    empty: Warehouse, name: str, params: dict[str, object], answer: str
) -> None:
    with pytest.raises(QueryRefused, match=answer):
        run_named(empty, name, params)
