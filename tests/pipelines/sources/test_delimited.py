"""Delimited text: numbers read at once say what the same cells say as text, and a header is no row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.sources import SourceError, SourceRead, delimited, files, read_trace
from tests.pipelines.sources.examples import EXAMPLES, write

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
CELL = st.one_of(
    st.integers(-5, 2**70).map(str),
    st.floats(allow_nan=True).map(repr),
    st.text("0123456789.eE+-_ \tnaifx", max_size=7),
    st.sampled_from(["", "12.0", "007", "+5", "5.", ".5", "1e3", "1E+2", " 12 ", "inf", "NaN", "0x10", "1_000", "12a"]),
)
TIME = st.sampled_from(["2024-05-12 00:00:01", " 2024-05-12 00:00:02.5+00:00 ", "2024-05-12", "", "x"])


@contextmanager
def by_text() -> Iterator[None]:
    """Every block is read as text, whatever it holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files.Block, "is_simple", False)
        yield


def both(path: Path, name: str = "auto", **options: object) -> tuple[SourceRead | str, SourceRead | str]:
    """A trace as it is read, and as it is read by text alone; the message where it is refused."""

    def read() -> SourceRead | str:
        try:
            return read_trace(path, path.name, name, options)
        except SourceError as error:
            return str(error)

    quick = read()
    with by_text():
        return quick, read()


def assert_same(quick: SourceRead | str, slow: SourceRead | str) -> None:
    if isinstance(quick, str) or isinstance(slow, str):
        assert quick == slow
        return
    assert quick.frame.equals(slow.frame)
    assert quick.rejected.equals(slow.rejected)
    assert quick.detail == slow.detail


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(TIME, CELL, CELL), min_size=1, max_size=4), ending=st.sampled_from(["", "\n", "\r\n"]))
@example(rows=[("2024-05-12 00:00:01", "12", "007"), ("2024-05-12 00:00:01", "12.0", "1e3")], ending="\n")
@example(rows=[("2024-05-12 00:00:01", "12", "9007199254740993")], ending="\n")
def test_numbers_read_at_once_are_those_their_text_says(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]], ending: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    path.write_text("\n".join([HEADER, *map(",".join, rows)]) + ending, encoding="utf-8", newline="")
    assert_same(*both(path))


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_reads_the_same_by_numbers_and_by_text(tmp_path: Path, name: str) -> None:
    found = EXAMPLES[name]
    assert_same(*both(write(tmp_path, found), name, **found.options))


@pytest.mark.parametrize(
    "name",
    [
        "azure2023_conv.csv",
        "azure2024_code_1week.sample.csv",
        "azure2025_lmm_multimodal.sample.csv",
        "burstgpt_v1_6col.sample.csv",
        "burstgpt_v2.sample.csv",
    ],
)
def test_published_traces_read_the_same_by_numbers_and_by_text(shared: Path, name: str) -> None:
    quick, slow = both(shared / "data" / "traces" / name)
    assert isinstance(quick, SourceRead)
    assert_same(quick, slow)


def test_cells_that_are_numbers_to_every_reading_come_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("at,tokens,id\n1,5,007\n2,6,\n", encoding="utf-8")
    bound = {"at": "at", "tokens": "tokens", "id": "id"}
    (found,) = delimited.cells(files.open_source(path, "t.csv"), bound, {"at", "tokens"})
    assert found.rows.rows() == [(2, 1.0, 5.0, "007"), (3, 2.0, 6.0, "")]
    assert found.by_text is not None
    assert found.by_text().rows.rows() == [(2, "1,5,007", "1", "5", "007"), (3, "2,6,", "2", "6", "")]


def test_blank_lines_above_the_header_count_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    path.write_text(f"\n \n{HEADER}\n2024-05-12 00:00:01,5,many\n2024-05-12 00:00:02,5,6\n", encoding="utf-8")
    got = read_trace(path, "late.csv")
    assert got.frame["line"].to_list() == [5]
    assert got.rejected["line"].to_list() == [4]


def test_a_block_with_a_broken_row_keeps_its_other_rows_and_the_text_of_that_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"{HEADER}\n2024-05-12 00:00:01,5,007\n2024-05-12 00:00:02,-05,6\n", encoding="utf-8")
    got = read_trace(path, "t.csv")
    assert got.frame.select("line", "osl_tokens").rows() == [(2, 7)]
    assert got.rejected.select("line", "reason", "raw").rows() == [
        (3, "ContextTokens '-05' is not above zero", "2024-05-12 00:00:02,-05,6")
    ]
