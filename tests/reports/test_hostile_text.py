"""Nothing that comes from outside becomes a formula, breaks the file or is lost."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.text import CELL_LIMIT, cell_text, header_text, looks_like_formula, slug
from reports.workbook import build_workbook
from tests.reports import reading
from tests.reports import sample_plan as sample
from tests.reports.sample_plan import CREATED_AT, frame, sample_plan

WICKED = (
    "=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")', "#N/A", "#REF!",
    "1e5", "TRUE", "_x0041_", "a\x00b\x0bc\x1f", "\ud800", "\ufffe", "</t></is></c>", "&amp;&lt;", "*", "?", ">5",
    "x" * 40_000, "a\r\nb", " lead", "Capacity!$A$1", "&P&N", "",
)  # fmt: skip
text = st.one_of(st.sampled_from(WICKED), st.text(max_size=60))


@pytest.fixture(scope="module")
def plain_formulas() -> set[tuple[str, str]]:
    """Where formulas stand when the text is harmless."""
    return set(reading.formulas(build_workbook(_plan_saying("harmless"), CREATED_AT)))


def _plan_saying(words: str) -> Any:
    """The sample plan with the words wherever text from outside may stand."""

    def everywhere(table: str, rows: list[dict[str, Any]], *columns: str) -> Any:
        return frame(table, [dict(row, **dict.fromkeys(columns, words)) for row in rows])

    def renamed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [dict(row, service=words) if row["service"] == "chat" else row for row in rows]

    counts, rejected = sample.rejected()
    candidates = renamed(sample.candidate_rows())
    headroom = renamed(sample.headroom_rows())
    return sample_plan(
        previous=None,
        assumptions=everywhere("plan_assumption", sample.assumption_rows(), "source", "comment", "unit"),
        workload=everywhere("plan_workload", renamed(sample.workload_rows()), "source", "name"),
        windows=frame("workload_window", renamed(sample.window_rows())),
        buckets=frame("workload_bucket", renamed(sample.bucket_rows())),
        candidates=everywhere("plan_candidate", candidates, "reason", "model_id", "engine_version", "binding"),
        memory=everywhere("plan_memory", sample.memory_rows(candidates), "source", "note"),
        capacity=everywhere("plan_capacity", sample.capacity_rows(candidates), "binding"),
        headroom=everywhere("plan_headroom", headroom, "basis", "source"),
        cost=everywhere("plan_cost", sample.cost_rows(headroom), "source"),
        checks=everywhere("plan_check", sample.check_rows(), "check_name", "scope", "observed", "expected", "remedy"),
        errors=everywhere("prediction_error", renamed(sample.error_rows()), "bucket", "note"),
        observations=everywhere("observation", sample.observation_rows(), "source", "source_file", "model_id"),
        numbers=everywhere("plan_number", sample.number_rows(), "number", "inputs_json", "formula"),
        rejected_counts=counts.with_columns(source_file=pl.lit(words)),
        rejected_rows=everywhere("rejected_row", rejected.to_dicts(), "raw", "source_file", "reason"),
    )


def _surrogate_free(words: str) -> str:
    """What a frame can hold: Arrow strings are UTF-8."""
    return words.encode("utf-8", "replace").decode()


@given(words=text)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_text_from_outside_adds_no_formula_and_the_file_stays_whole(
    words: str, plain_formulas: set[tuple[str, str]]
) -> None:
    content = build_workbook(_plan_saying(_surrogate_free(words)), CREATED_AT)
    assert set(reading.formulas(content)) == plain_formulas
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                ElementTree.fromstring(archive.read(name))


@pytest.mark.parametrize(
    "words", [w for w in WICKED if w.isprintable() and w and len(w) < 100 and not w.startswith("_x")]
)
def test_hostile_words_stand_in_their_cell_as_they_were(words: str) -> None:
    book = reading.opened(build_workbook(_plan_saying(_surrogate_free(words)), CREATED_AT))
    cell = reading.find(book, "Checks", _surrogate_free(words))
    assert cell.data_type == "s"
    assert bool(cell.quotePrefix) == looks_like_formula(words)


@given(st.text())
def test_cell_text_is_legal_xml_and_fits_a_cell(words: str) -> None:
    safe = cell_text(words)
    assert len(safe) <= CELL_LIMIT
    assert "\r" not in safe
    ElementTree.fromstring(f"<t>{safe.replace('&', '&amp;').replace('<', '&lt;')}</t>".encode())


@given(
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=200).filter(lambda t: "_x" not in t)
)
def test_plain_text_is_left_alone(words: str) -> None:
    assert cell_text(words) == words


def test_a_text_too_long_for_a_cell_says_that_it_was_cut() -> None:
    assert cell_text("y" * 40_000).endswith("[cut]")


def test_an_escape_lookalike_is_not_decoded_into_a_character() -> None:
    assert cell_text("_x0041_") == "_x005F_x0041_"


@given(st.text())
def test_a_slug_is_a_safe_name_whatever_it_is_made_of(words: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}", slug(words))


@given(st.text())
def test_a_page_header_holds_no_code(words: str) -> None:
    assert "&" not in header_text(words).replace("&&", "")
