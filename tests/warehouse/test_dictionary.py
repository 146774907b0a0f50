"""The data dictionary says what the registry says."""

from __future__ import annotations

from tests.conftest import ROOT
from warehouse.dictionary import data_dictionary
from warehouse.registry import tables


def test_the_committed_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "data-dictionary.md").read_text(encoding="utf-8")
    assert page == data_dictionary(), "python -m warehouse.dictionary > docs/data-dictionary.md"


def test_every_public_column_is_on_the_page_under_its_table() -> None:
    sections = {part.split("\n", 1)[0]: part for part in data_dictionary().split("\n## ")[1:]}
    assert set(sections) == {table.name for table in tables() if table.public}
    for name, text in sections.items():
        [table] = [table for table in tables() if table.name == name]
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == [column.name for column in table.columns]
        assert all(row.count(" | ") == 5 for row in rows)
