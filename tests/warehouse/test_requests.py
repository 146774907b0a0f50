"""Requests of a file: in the narrowest part that holds what it says, the same through the view, gone with the file."""

from __future__ import annotations

import polars as pl
import pytest

from tests.warehouse.rows import valid_rows
from warehouse.connection import Warehouse, transaction
from warehouse.errors import WriteRefused
from warehouse.requests import REQUEST, make_place, note_span, remove_requests, stream_requests

PLAIN = ["line", "arrival_at", "isl_tokens", "osl_tokens", "outcome", "replayable", "censored"]


def load(warehouse: Warehouse, rows: pl.DataFrame, columns: list[str]) -> str:
    """Load a file's rows, in two frames; the table they stand in."""
    with warehouse.writer() as con, transaction(con):
        place = make_place(con, rows["source_file"][0], columns)
        stream_requests(con, place, iter([rows.head(2), rows.slice(2)]))
        note_span(con, place)
    return place.part.name


def stored(warehouse: Warehouse) -> pl.DataFrame:
    with warehouse.reader() as con:
        return con.execute("SELECT * FROM request ORDER BY source_file, line").pl()


def test_the_view_has_the_rows_of_both_parts_as_they_were_given(empty: Warehouse) -> None:
    full = valid_rows(REQUEST, 5, source_file="full.csv")
    plain = valid_rows(REQUEST, 5, source_file="plain.csv")
    plain = plain.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in plain.schema.items() if name not in ("source_file", *PLAIN)
    )
    assert load(empty, full, full.columns) == "request_full"
    assert load(empty, plain, PLAIN) == "request_plain"
    assert stored(empty).equals(pl.concat([full, plain]))


def test_a_file_of_one_more_column_has_its_rows_in_the_wider_part(empty: Warehouse) -> None:
    rows = valid_rows(REQUEST, 3, source_file="a.csv").select("source_file", *PLAIN, "tenant")
    assert load(empty, rows, rows.columns) == "request_full"
    assert stored(empty)["tenant"].to_list() == rows["tenant"].to_list()


def test_a_value_in_a_column_that_was_not_announced_is_refused_not_lost(empty: Warehouse) -> None:
    rows = valid_rows(REQUEST, 3, source_file="a.csv")
    with pytest.raises(WriteRefused, match="request_plain has no column"):
        load(empty, rows, PLAIN)
    assert stored(empty).is_empty()


def test_rows_of_a_file_take_the_place_of_those_that_stood_and_others_stay(empty: Warehouse) -> None:
    other = valid_rows(REQUEST, 4, source_file="it's.csv")
    load(empty, other, other.columns)
    for count, columns in ((3, PLAIN), (2, PLAIN)):
        load(empty, valid_rows(REQUEST, count, source_file="a.csv").select("source_file", *PLAIN), columns)
        found = stored(empty).group_by("source_file").len().sort("source_file").rows()
        assert found == [("a.csv", count), ("it's.csv", 4)]
    with empty.writer() as con:
        remove_requests(con, "it's.csv")
        assert con.execute("SELECT source_file FROM request_file").fetchall() == [("a.csv",)]
    assert stored(empty)["source_file"].unique().to_list() == ["a.csv"]


def test_the_span_of_a_file_is_that_of_its_arrivals(empty: Warehouse) -> None:
    rows = valid_rows(REQUEST, 4, source_file="a.csv")
    load(empty, rows, rows.columns)
    with empty.reader() as con:
        found = con.execute("SELECT first_at, last_at FROM request_file").fetchall()
    assert found == [(rows["arrival_at"].min(), rows["arrival_at"].max())]


def test_a_word_outside_its_enumeration_is_refused(empty: Warehouse) -> None:
    rows = valid_rows(REQUEST, 2, source_file="a.csv").with_columns(outcome=pl.lit("perhaps"))
    with pytest.raises(WriteRefused, match="outcome"):
        load(empty, rows, rows.columns)
