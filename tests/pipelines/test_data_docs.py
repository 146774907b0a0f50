"""The data contracts as a site: complete, offline, and honest about rows that break a rule."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.commands.doctor import contracts
from pipelines.data_docs import render
from pipelines.ingest import ingest_source
from pipelines.sources import read_prices
from pipelines.workspace import TraceSpec
from tests.pipelines.conftest import Small
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError
from warehouse.registry import table
from warehouse.write import append

HOSTILE = "<script>alert(1)</script>"
TABLES = [table(name) for name in ("source_file", "rejected_row", "request", "price")]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Prices of the catalogue, a day of 600 requests, and two rows that are none."""
    rows = [f"{144 * i},{100 + i},{50 + i % 300}" for i in range(600)]
    lines = ["arrival_s,isl_tokens,osl_tokens", *rows, "1,-5,7", f"2,{HOSTILE},7"]
    (tmp_path / "trace.csv").write_text("\n".join(lines), encoding="utf-8")
    made = Warehouse(tmp_path / "capsheet.duckdb")
    ingest_source(made, tmp_path, TraceSpec(source="trace.csv"), 0.05)
    with made.writer() as con:
        append(con, table("price"), read_prices({}, "").frame)
    return made


def without_rules(warehouse: Warehouse, name: str, *changes: str) -> None:
    """A table as somebody else might have made it: the same rows, no constraints, and then changed."""
    with warehouse.writer() as con:
        for statement in (f"CREATE TABLE x AS FROM {name}", f"DROP TABLE {name}", f"ALTER TABLE x RENAME TO {name}"):
            con.execute(statement)
        for change in changes:
            con.execute(change)


def is_whole_and_offline(folder: Path) -> None:
    """Every link leads to a page, or a place on one, that is there; nothing is fetched, nothing runs."""
    pages = {page: page.read_text(encoding="utf-8") for page in folder.rglob("*.html")}
    for page, text in pages.items():
        assert not re.search(r"<script|<link|<img|https?:|@import|url\(", text), page
        links = re.findall(r'href="([^"]*)"', text)
        assert links
        for link in links:
            file, _, place = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            assert target in {known.resolve() for known in pages} | set(pages), (page, link)
            assert not place or f'id="{place}"' in text, (page, link)


def test_without_a_warehouse_the_site_holds_the_rules_of_every_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contracts(tmp_path / "docs", tmp_path, json=True)
    said = json.loads(capsys.readouterr().out)
    assert Path(said["data_docs"]) == tmp_path / "docs" / "index.html"
    pages = {page.stem for page in (tmp_path / "docs" / "expectations").glob("*.html")}
    assert pages == set(said["tables"]) >= {"request", "price", "plan_capacity", "workload_bucket"}
    assert said["validated"] == {}
    assert "Rules only" in (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")
    page = (tmp_path / "docs" / "expectations" / "price.html").read_text(encoding="utf-8")
    assert "price of one accelerator for one hour" in page
    assert "values must be finite numbers" in page
    is_whole_and_offline(tmp_path / "docs")


def test_rows_are_held_against_their_rules_small_tables_by_the_library_and_long_ones_by_sql(
    tmp_path: Path, warehouse: Warehouse
) -> None:
    index, validated = render(TABLES, tmp_path / "docs", warehouse)
    assert {name: (found.rows, found.failed, found.by) for name, found in validated.items()} == {
        "source_file": (1, 0, "Great Expectations"),
        "rejected_row": (2, 0, "SQL"),
        "request": (600, 0, "SQL"),
        "price": (read_prices({}, "").frame.height, 0, "Great Expectations"),
    }
    text = index.read_text(encoding="utf-8")
    assert text.count(">all hold<") == 4
    assert "the trace covers a day (trace.csv)" in text
    assert "2 of 602 rows (0.33%); first line 602" in text
    page = (tmp_path / "docs" / "validations" / "request.html").read_text(encoding="utf-8")
    assert f"All {validated['request'].rules} rules hold" in page and "on 600 rows, by SQL" in page
    is_whole_and_offline(tmp_path / "docs")


def broken(warehouse: Warehouse) -> None:
    """Rows of a small and of a long table that break a rule of each kind."""
    first = "price_id = (SELECT min(price_id) FROM price)"
    without_rules(
        warehouse,
        "price",
        f"UPDATE price SET usd_per_gpu_hour = -3, label = '{HOSTILE}' WHERE {first}",
        "UPDATE price SET source = NULL WHERE price_id = (SELECT max(price_id) FROM price)",
    )
    without_rules(
        warehouse,
        "rejected_row",
        "UPDATE rejected_row SET line = -7, reason = NULL",
        "INSERT INTO rejected_row FROM rejected_row",
    )


def test_rows_that_break_a_rule_are_counted_and_shown_as_text(tmp_path: Path, warehouse: Warehouse) -> None:
    broken(warehouse)
    index, validated = render(TABLES, tmp_path / "docs", warehouse)
    failed = {name: found.failed for name, found in validated.items()}
    assert failed == {"source_file": 0, "rejected_row": 3, "request": 0, "price": 3}
    for name, words in (
        ("price", ["-3.0", "NULL", "&lt;script&gt;"]),
        ("rejected_row", ["-7", "NULL", "4 unexpected"]),
    ):
        page = (tmp_path / "docs" / "validations" / f"{name}.html").read_text(encoding="utf-8")
        assert f"3 of {validated[name].rules} rules do not hold" in page
        assert all(word in page for word in words)
    text = index.read_text(encoding="utf-8")
    assert text.count(">3 fail<") == 2 and text.count(">all hold<") == 2
    assert "602 read, 600 kept, 0 rejected" in text, "rows without a reason are lost ones"
    is_whole_and_offline(tmp_path / "docs")


def test_the_command_looks_at_the_workspaces_warehouse_and_fails_where_a_contract_is_broken(
    tmp_path: Path, warehouse: Warehouse, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse.path.rename(small.folder / "capsheet.duckdb")
    contracts(tmp_path / "docs", small.folder, json=False)
    assert "4 of them validated" in capsys.readouterr().out
    broken(Warehouse(small.folder / "capsheet.duckdb"))
    with pytest.raises(CapsheetError, match=r"^rejected_row, price: rows break their contract\. See .*index\.html"):
        contracts(tmp_path / "docs", small.folder, json=False)


def test_a_site_written_again_keeps_no_page_of_what_is_gone(tmp_path: Path, warehouse: Warehouse) -> None:
    render(TABLES, tmp_path / "docs", warehouse)
    with warehouse.writer() as con:
        con.execute("DELETE FROM price")
    render(TABLES, tmp_path / "docs", warehouse)
    left = {page.stem for page in (tmp_path / "docs" / "validations").iterdir()}
    assert left == {"source_file", "rejected_row", "request"}


def test_a_site_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CapsheetError, match="Name a folder"):
        contracts(tmp_path / "taken" / "docs", tmp_path, json=False)
