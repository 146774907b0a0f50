"""Row contracts: which rows a table takes, why not the others, and that the warehouse agrees with the verdict."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.warehouse.rows import valid_rows
from warehouse.connection import scratch
from warehouse.contracts import ContractError, expectations, violations
from warehouse.ddl import create_statements, stored_tables
from warehouse.frames import polars_schema
from warehouse.registry import Column, Table, table
from warehouse.tables.sources import OUTCOMES
from warehouse.write import append

REQUEST = table("request")
THING = Table(
    "thing",
    "a thing with a column of every kind",
    (
        Column("name", "VARCHAR", "its name"),
        Column("kind", "VARCHAR", "its kind", allowed=("good", "bad")),
        Column("count", "BIGINT", "how many", positive=True, maximum=1000),
        Column("small", "INTEGER", "how few", nullable=True, minimum=-3),
        Column("share", "DOUBLE", "its share", nullable=True, minimum=0, maximum=1),
        Column("flag", "BOOLEAN", "whether", nullable=True),
    ),
    key=("name",),
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.sampled_from([None, "a", "b", "c; d"]),
    "kind": st.sampled_from([None, "good", "bad", "ugly"]),
    "count": st.sampled_from([None, -1, 0, 1, 1000, 1001]),
    "small": st.sampled_from([None, -4, -3, 0]),
    "share": st.sampled_from([None, -0.1, 0.0, 1.0, 1.1, math.nan, math.inf, -math.inf]),
    "flag": st.sampled_from([None, True, False]),
}


def _reason(column: str, value: object) -> str:
    """The reason one bad value in an otherwise good request is rejected for; empty when it is not."""
    frame = valid_rows(REQUEST, 1).drop(column).with_columns(pl.Series(column, [value]))
    _, rejected = violations(REQUEST, frame)
    return "" if rejected.is_empty() else str(rejected["reason"][0])


@pytest.mark.parametrize("of", list(stored_tables()), ids=lambda t: t.name)
def test_valid_rows_of_every_table_are_kept_as_they_are(of: Table) -> None:
    frame = valid_rows(of, 5)
    lined = frame if "line" in frame.columns else frame.with_row_index("line", offset=2)
    kept, rejected = violations(of, lined)
    assert kept.equals(frame)
    assert rejected.is_empty()


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("osl_tokens", -1, "osl_tokens is -1, must be at least 0"),
        ("prefix_block_tokens", 0, "prefix_block_tokens is 0, must be above 0"),
        ("osl_tokens", "-3", "osl_tokens is '-3', must be at least 0"),
        ("osl_tokens", 100_000_001, "osl_tokens is 100000001, must be at most 100,000,000"),
        ("osl_tokens", 1.5, "osl_tokens is 1.5, not a whole number"),
        ("osl_tokens", math.nan, "osl_tokens is NaN, not a whole number"),
        ("osl_tokens", 1e300, "osl_tokens is 1e+300, not a whole number"),
        ("osl_tokens", "12 tokens", "osl_tokens is '12 tokens', not a whole number"),
        ("osl_tokens", "9" * 30, f"osl_tokens is '{'9' * 30}', too large for BIGINT"),
        ("arrival_at", None, "arrival_at is missing"),
        ("arrival_at", "", "arrival_at is missing"),
        ("osl_tokens", True, "osl_tokens is true, not a whole number"),
        ("ttft_ms", -0.5, "ttft_ms is -0.5, must be at least 0"),
        ("ttft_ms", math.nan, "ttft_ms is NaN, not a finite number"),
        ("ttft_ms", "inf", "ttft_ms is 'inf', not a finite number"),
        ("ttft_ms", "fast", "ttft_ms is 'fast', not a number"),
        ("outcome", "great", "outcome is 'great', not one of ok, failed, rejected, cancelled, cache_hit, unknown"),
        ("arrival_at", "yesterday", "arrival_at is 'yesterday', not a time"),
        ("arrival_at", "2024-13-01 00:00:00", "arrival_at is '2024-13-01 00:00:00', not a time"),
        ("prefix_hashes", "1,2", "prefix_hashes is '1,2', not a list of whole numbers"),
        ("tenant", 7, "tenant is 7, not text"),
        (
            "outcome",
            "x" * 90,
            f"outcome is '{'x' * 40}', not one of ok, failed, rejected, cancelled, cache_hit, unknown",
        ),
    ],
)
def test_a_bad_value_is_named_with_what_it_should_be(column: str, value: object, reason: str) -> None:
    assert _reason(column, value) == reason


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("osl_tokens", "12", 12),
        ("osl_tokens", " 12.0 ", 12),
        ("osl_tokens", 12.0, 12),
        ("ttft_ms", "1.5e2", 150.0),
        ("ttft_ms", 3, 3.0),
        ("ttft_ms", "", None),
        ("arrival_at", "2023-11-16 18:15:46.6805900", datetime(2023, 11, 16, 18, 15, 46, 680590)),  # noqa: DTZ001
        ("arrival_at", "2024-05-10T00:00:00Z", datetime(2024, 5, 10)),  # noqa: DTZ001
        ("arrival_at", "2024-05-10 09:00:00+09:00", datetime(2024, 5, 10)),  # noqa: DTZ001
    ],
)
def test_text_that_says_exactly_a_value_is_taken_for_it(column: str, value: object, stored: object) -> None:
    frame = valid_rows(REQUEST, 1).drop(column).with_columns(pl.Series(column, [value]))
    kept, rejected = violations(REQUEST, frame)
    assert rejected.is_empty()
    assert kept[column].to_list() == [stored]
    assert dict(kept.schema) == polars_schema(REQUEST)


def test_every_fault_of_a_row_is_told_in_one_reason_on_its_line() -> None:
    frame = valid_rows(REQUEST, 3, line=[11, 12, 13]).with_columns(
        isl_tokens=pl.Series([5, -1, 5]), outcome=pl.Series(["ok", "great", "ok"])
    )
    kept, rejected = violations(REQUEST, frame)
    assert kept["line"].to_list() == [11, 13]
    assert rejected.rows() == [
        (12, f"isl_tokens is -1, must be at least 0; outcome is 'great', not one of {', '.join(OUTCOMES)}")
    ]


def test_of_rows_with_one_key_the_first_sound_one_is_kept() -> None:
    rows = {
        "line": [2, 3, 4, 5],
        "name": ["a", "a", "b", "a"],
        "kind": ["ugly", "good", "good", "bad"],
        "count": [1, 2, 3, 4],
    }
    kept, rejected = violations(THING, pl.DataFrame(rows))
    assert kept["count"].to_list() == [2, 3]
    assert rejected.rows() == [(2, "kind is 'ugly', not one of good, bad"), (5, "same name as line 3")]


def test_columns_that_are_missing_or_unknown_stop_the_whole_frame() -> None:
    with pytest.raises(ContractError, match="missing outcome; unknown colour"):
        violations(REQUEST, valid_rows(REQUEST, 1).rename({"outcome": "colour"}))
    with pytest.raises(ContractError, match="which line"):
        violations(THING, valid_rows(THING, 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries(_VALUES), max_size=8))
def test_no_row_is_lost_and_the_warehouse_takes_exactly_what_was_kept(rows: list[dict[str, Any]]) -> None:
    frame = pl.DataFrame(rows, schema=polars_schema(THING)).with_row_index("line", offset=2)
    kept, rejected = violations(THING, frame)
    assert kept.height + rejected.height == frame.height
    assert rejected["reason"].null_count() == 0
    with scratch() as con:
        for statement in create_statements(THING):
            con.execute(statement)
        append(con, THING, kept)
        for line in rejected["line"]:
            row = frame.filter(pl.col("line") == line).drop("line")
            assert _refused(con, row), f"the warehouse would have taken line {line}: {row.to_dicts()}"


def _refused(con: Any, row: pl.DataFrame) -> bool:
    try:
        append(con, THING, row)
    except Exception as error:
        return "Constraint" in str(error)
    return False


def test_the_same_rules_are_listed_for_other_tools() -> None:
    rules = {(rule.column, rule.kind): dict(rule.arguments) for rule in expectations(THING)}
    assert rules["count", "between"] == {"min_value": 0, "max_value": 1000, "strict_min": True}
    assert rules["small", "between"] == {"min_value": -3, "max_value": None, "strict_min": False}
    assert rules["kind", "in_set"] == {"value_set": ["good", "bad"]}
    assert rules["name", "unique"] == {"column_list": ["name"]}
    assert rules["share", "finite"] == {}
    assert ("name", "not_null") in rules
    assert ("small", "not_null") not in rules
    assert [rule.column for rule in expectations(THING) if rule.kind == "of_type"] == [c.name for c in THING.columns]
