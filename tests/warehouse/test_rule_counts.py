"""Counted by SQL where the rows are, or by Great Expectations on a frame: a rule finds the same rows broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import duckdb
import polars as pl
import pytest

from pipelines.contracts import rules_of, suite_result
from pipelines.sources import read_prices
from warehouse.connection import scratch
from warehouse.registry import table
from warehouse.rule_counts import count_broken

PRICE = table("price")


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with scratch() as connection:
        yield connection


def first(count: int, value: object, name: str) -> pl.Expr:
    """The column with a value in its first rows."""
    return pl.when(pl.int_range(pl.len()) < count).then(pl.lit(value)).otherwise(name).alias(name)


SPOILT = {
    "sound": [],
    "missing": [first(2, None, "source"), first(3, None, "label")],
    "not finite": [first(2, float("nan"), "usd_per_gpu_hour")],
    "infinite": [first(1, float("inf"), "usd_per_gpu_hour")],
    "out of range": [first(4, 0.0, "usd_per_gpu_hour")],
    "another word": [first(5, "guessed", "label")],
    "one key twice": [first(2, "x", "price_id")],
    "nothing at all": [pl.lit(None, pl.String).alias("region"), pl.lit(None, pl.Float64).alias("usd_per_gpu_hour")],
}


@pytest.mark.parametrize("kind", SPOILT)
def test_both_find_the_same_rules_broken_and_as_often(con: duckdb.DuckDBPyConnection, kind: str) -> None:
    frame = read_prices({}, "").frame.with_columns(SPOILT[kind])
    con.register("frame", frame)
    con.execute("CREATE TABLE price AS FROM frame")
    rules = rules_of(PRICE)
    counted = count_broken(con, "price", rules)
    for rule, ours, theirs in zip(rules, counted, suite_result(PRICE, frame).results, strict=True):
        assert (ours.broken == 0) == theirs.success, rule
        if rule.kind != "unique":  # of which the library counts the first one too
            assert ours.broken == theirs.result["unexpected_count"], rule
        assert ours.rows == frame.height
    assert (kind == "sound") == all(found.broken == 0 for found in counted)


def test_examples_are_told_apart_and_few(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE price AS SELECT 'p' || i AS price_id, 'l' || i % 2 AS label FROM range(100) AS r(i)")
    rules = [rule for rule in rules_of(PRICE) if (rule.column, rule.kind) == ("label", "in_set")]
    (found,) = count_broken(con, "price", rules)
    assert replace(found, examples=()).broken == 100
    assert sorted(map(str, found.examples)) == ["l0", "l1"]


def test_a_key_of_several_columns_is_counted_beyond_its_first_row(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE request AS SELECT 'f' AS source_file, i % 90 AS line FROM range(100) AS r(i)")
    rules = [rule for rule in rules_of(table("request")) if rule.kind == "unique"]
    assert [found.broken for found in count_broken(con, "request", rules)] == [10]
