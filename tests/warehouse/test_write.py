"""Writing: a repeated run leaves no duplicate, columns go by name, and nothing is rounded, guessed or half done."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.warehouse.rows import valid_rows
from warehouse import ddl, write
from warehouse.connection import Warehouse, scratch
from warehouse.ddl import create_statements, indexed, stored_tables
from warehouse.errors import WriteRefused
from warehouse.frames import conform, polars_schema
from warehouse.registry import Table, table, tables
from warehouse.write import Replacement, append, replace_rows, replace_together

REQUEST = replace(table("request"), name="asked", parts=())
"""A table without an index, of every type."""
REPLACEABLE = [
    t for t in stored_tables() if not t.versioned and not t.parts and t.name not in ("plan", "plan_workbook")
]


@pytest.fixture(autouse=True)
def _without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ddl, write):
        monkeypatch.setattr(module, "indexed", lambda of: of.name != REQUEST.name and indexed(of))


@pytest.fixture
def empty(empty: Warehouse) -> Warehouse:
    """A warehouse with every table, that one too, and no row."""
    with empty.writer() as con:
        for statement in create_statements(REQUEST):
            con.execute(statement)
    return empty


def _requests(count: int, source: str) -> pl.DataFrame:
    return valid_rows(REQUEST, count, source_file=source)


@pytest.mark.parametrize("of", REPLACEABLE, ids=lambda t: t.name)
def test_writing_the_same_rows_twice_leaves_them_once(empty: Warehouse, of: Table) -> None:
    frame = valid_rows(of, 4)
    with empty.writer() as con:
        for _ in range(2):
            assert replace_rows(con, of, frame, "all") == 4
        stored = con.execute(f'SELECT * FROM "{of.name}"').pl()
    assert stored.select(frame.columns).cast(dict(frame.schema)).sort(of.key).equals(frame.sort(of.key))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a.csv", "b.csv", "it's.csv"]), st.integers(0, 5)), max_size=12))
def test_whatever_the_order_of_runs_each_source_holds_its_last_rows(runs: list[tuple[str, int]]) -> None:
    with scratch() as con:
        for statement in create_statements(REQUEST):
            con.execute(statement)
        for source, count in runs:
            replace_rows(con, REQUEST, _requests(count, source), {"source_file": source})
        found = con.execute("SELECT source_file, count(*) FROM asked GROUP BY ALL").fetchall()
    assert dict(found) == {source: count for source, count in dict(runs).items() if count}


def test_columns_go_by_name_and_an_absent_optional_one_is_null(empty: Warehouse) -> None:
    frame = _requests(2, "a.csv").select(
        "osl_tokens", "isl_tokens", "replayable", "line", "outcome", "arrival_at", "source_file"
    )
    with empty.writer() as con:
        replace_rows(con, REQUEST, frame, {"source_file": "a.csv"})
        rows = con.execute("SELECT isl_tokens, osl_tokens, ttft_ms FROM asked ORDER BY line").fetchall()
    assert rows == [(isl, osl, None) for isl, osl in frame.select("isl_tokens", "osl_tokens").iter_rows()]


def test_an_absent_mandatory_column_or_an_unknown_one_is_refused_by_name(empty: Warehouse) -> None:
    with empty.writer() as con:
        with pytest.raises(WriteRefused, match="needs a value in outcome"):
            replace_rows(con, REQUEST, _requests(2, "a").drop("outcome"), "all")
        with pytest.raises(WriteRefused, match="asked has no column colour"):
            replace_rows(con, REQUEST, _requests(2, "a").with_columns(colour=pl.lit("red")), "all")


def test_a_frame_without_rows_empties_its_scope(empty: Warehouse) -> None:
    with empty.writer() as con:
        replace_rows(con, REQUEST, _requests(2, "a"), "all")
        replace_rows(con, REQUEST, pl.DataFrame(), "all")
        assert con.execute("SELECT count(*) FROM asked").fetchall() == [(0,)]


def test_rows_that_share_a_key_are_refused_whether_the_table_has_an_index_or_not(empty: Warehouse) -> None:
    request = valid_rows(REQUEST, 2, source_file="a.csv", line=7)
    price = valid_rows(table("price"), 2, price_id="one")
    with empty.writer() as con:
        with pytest.raises(WriteRefused, match=r"more than one row has source_file 'a\.csv', line 7"):
            replace_rows(con, REQUEST, request, "all")
        with pytest.raises(WriteRefused, match="more than one row has price_id 'one'"):
            replace_rows(con, table("price"), price, "all")


def test_a_table_without_an_index_is_replaced_by_its_key_only(empty: Warehouse) -> None:
    with empty.writer() as con, pytest.raises(WriteRefused, match="by a part of its key: source_file, line"):
        replace_rows(con, REQUEST, valid_rows(REQUEST, 2, tenant="a"), {"tenant": "a"})


@pytest.mark.parametrize("name", ["request_full", "rejected_row", "draft_workload_window"])
def test_writing_the_same_rows_again_and_again_leaves_no_dead_ones_in_the_file(empty: Warehouse, name: str) -> None:
    [of] = [table for table in stored_tables() if table.name == name]
    stored = "SELECT sum(count) FROM pragma_storage_info(?) WHERE column_path = '[0]'"  # rows, dead ones too
    for _ in range(3):
        with empty.writer() as con:
            replace_rows(con, of, valid_rows(of, 3000), "all")
    with empty.reader() as con:
        assert con.execute(stored, [name]).fetchall() == [(3000,)]


def test_a_row_outside_the_scope_it_replaces_is_refused(empty: Warehouse) -> None:
    with empty.writer() as con, pytest.raises(WriteRefused, match=r"2 rows are not of source_file = 'a.csv'"):
        replace_rows(con, REQUEST, _requests(2, "b.csv"), {"source_file": "a.csv"})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("isl_tokens", -1),
        ("outcome", None),
        ("outcome", "perhaps"),
        ("ttft_ms", -1.0),
        ("ttft_ms", float("nan")),
        ("ttft_ms", float("inf")),
    ],
)
def test_a_value_the_registry_forbids_fails_in_the_warehouse_too_and_changes_nothing(
    empty: Warehouse, column: str, value: object
) -> None:
    good = _requests(2, "a.csv")
    bad = good.with_columns(pl.lit(value, dtype=good.schema[column]).alias(column))
    with empty.writer() as con:
        replace_rows(con, REQUEST, good, "all")
        with pytest.raises(WriteRefused, match="asked"):
            replace_rows(con, REQUEST, bad, "all")
        assert con.execute("SELECT count(*) FROM asked").fetchall() == [(2,)]


def test_several_tables_change_together_or_not_at_all(empty: Warehouse) -> None:
    requests = Replacement(REQUEST, _requests(3, "a.csv"), "all")
    twice = valid_rows(table("rejected_row"), 2, source_file="a.csv", line=7, reason="same key")
    with empty.writer() as con:
        with pytest.raises(WriteRefused, match="rejected_row"):
            replace_together(con, requests, Replacement(table("rejected_row"), twice, "all"))
        assert con.execute("SELECT count(*) FROM asked").fetchall() == [(0,)]
        assert replace_together(con, requests, Replacement(table("rejected_row"), twice.head(1), "all")) == 4


@pytest.mark.parametrize(
    "of", [t for t in tables() if t.versioned or t.name in ("plan", "plan_workbook")], ids=lambda t: t.name
)
def test_published_tables_cannot_be_rewritten(empty: Warehouse, of: Table) -> None:
    with empty.writer() as con, pytest.raises(WriteRefused, match="never change"):
        replace_rows(con, of, valid_rows(of, 1), "all")


def test_a_zoned_time_is_stored_as_utc(empty: Warehouse) -> None:
    noon_in_tokyo = datetime(2026, 1, 5, 12, tzinfo=timezone(timedelta(hours=9)))
    frame = _requests(1, "a").drop("arrival_at").with_columns(arrival_at=pl.lit(noon_in_tokyo.astimezone(UTC)))
    frame = frame.with_columns(pl.col("arrival_at").dt.convert_time_zone("Asia/Tokyo"))
    with empty.writer() as con:
        replace_rows(con, REQUEST, frame, "all")
        found = con.execute("SELECT arrival_at::VARCHAR FROM asked").fetchall()
    assert found == [("2026-01-05 03:00:00",)]


@pytest.mark.parametrize(
    ("column", "values"),
    [("isl_tokens", [1.5]), ("isl_tokens", ["12"]), ("prefix_block_tokens", [2**40]), ("outcome", [1])],
    ids=["a fraction", "text", "too wide", "a number for text"],
)
def test_a_value_its_column_cannot_hold_exactly_is_refused_not_rounded(column: str, values: list[object]) -> None:
    frame = _requests(1, "a").drop(column).with_columns(pl.Series(column, values))
    with pytest.raises(WriteRefused, match=rf"asked\.{column}"):
        conform(REQUEST, frame)


def test_conforming_keeps_the_tables_order_and_types() -> None:
    frame = _requests(3, "a").with_columns(pl.col("isl_tokens").cast(pl.UInt16), session_id=pl.lit(None))
    fitted = conform(REQUEST, frame.select(reversed(frame.columns)))
    assert dict(fitted.schema) == polars_schema(REQUEST)
    assert fitted["isl_tokens"].to_list() == frame["isl_tokens"].to_list()


def test_an_appended_frame_of_nothing_is_nothing(empty: Warehouse) -> None:
    with empty.writer() as con:
        append(con, REQUEST, _requests(0, "a"))
        assert con.execute("SELECT count(*) FROM asked").fetchall() == [(0,)]
