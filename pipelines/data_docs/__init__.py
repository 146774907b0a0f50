"""The data contracts as a site: every table's rules, and what its rows in the warehouse make of them. HTML, offline.

Belongs here: pages. Does not: the rules and how they are run (`pipelines.contracts`). Great Expectations renders rules
and results; the pages around them are capsheet's own, since those of the library fetch their styles, their scripts and
even the rows of their index from the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.contracts import CheckResult, rules_of, suite_of, suite_result, suite_result_by_sql, validate_requests
from warehouse.registry import Table

if TYPE_CHECKING:
    import duckdb

    from warehouse.connection import Warehouse

BY_SQL = ("request", "rejected_row")
"""Tables as long as the traces are: their rules are counted where the rows are."""
MOST_ROWS = 100_000
"""A table with more rows than this is counted there too."""
_SHOWN = 80
"""A value that breaks a rule is shown up to this length."""


@dataclass(frozen=True, slots=True)
class Validated:
    """What a table's rows made of its rules: `failed` of the `rules` do not hold; `by` says what looked at them."""

    rows: int
    rules: int
    failed: int
    by: str


def render(
    tables: Sequence[Table], folder: Path, warehouse: Warehouse | None = None, max_rejected_share: float = 0.05
) -> tuple[Path, dict[str, Validated]]:
    """Write the site into a folder: a page of rules a table, and with a warehouse one of results for each with rows.

    Returns the index page, and the tables that were validated.

    Raises:
        OSError: the folder cannot be written.
        CapsheetError: the warehouse cannot be read.
    """
    pages = _Pages(folder)
    validated: dict[str, Validated] = {}
    checks: list[CheckResult] = []
    with ExitStack() as opened:
        con = opened.enter_context(warehouse.reader()) if warehouse else None
        for target in tables:
            pages.contract(target, suite_of(target))
            if con is not None and (rows := _height(con, target)):
                validated[target.name] = pages.results(target, rows, con)
        if con is not None:
            named = con.execute(
                "SELECT DISTINCT named_by FROM source_file WHERE kind = 'trace' ORDER BY ALL"
            ).fetchall()
            checks = validate_requests(con, [name for (name,) in named], max_rejected_share)
    return pages.index(tables, validated, checks, str(warehouse.path) if warehouse else ""), validated


def _height(con: duckdb.DuckDBPyConnection, target: Table) -> int:
    return int(con.table(target.name).count("*").fetchall()[0][0])


def _said(value: object) -> str:
    """A value as HTML shows it; the library itself would put it into its page as it is, markup and all."""
    missing = value is None or value != value  # noqa: PLR0124 - NaN, as which pandas has it
    return "NULL" if missing else escape(str(value)[:_SHOWN])


class _Pages:
    """The site's pages, in its folder."""

    def __init__(self, folder: Path) -> None:
        # As `Any`: the library's own types are incomplete, and checking against them takes mypy through all of it.
        views: Any = import_module("great_expectations.render.view")
        renderers: Any = import_module("great_expectations.render.renderer")
        self.folder = folder
        templates = resources.files("pipelines.data_docs")
        self._view = views.DefaultJinjaPageView(custom_views_directory=str(templates))
        self._rules, self._results = renderers.ExpectationSuitePageRenderer(), renderers.ValidationResultsPageRenderer()
        self._made_at = datetime.now(UTC)
        for part in ("expectations", "validations"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            for old in (folder / part).glob("*.html"):
                old.unlink()

    def contract(self, target: Table, suite: Any) -> None:
        """The page of a table's rules."""
        sections = self._rules.render(suite).to_json_dict()["sections"]
        self._write(f"expectations/{target.name}.html", target, sections[1:], {"validated": None})

    def results(self, target: Table, rows: int, con: duckdb.DuckDBPyConnection) -> Validated:
        """The page of what a table's rows make of its rules."""
        if target.name in BY_SQL or rows > MOST_ROWS:
            result, by = suite_result_by_sql(con, target), "SQL"
        else:
            result, by = suite_result(target, con.table(target.name).pl()), "Great Expectations"
        failed = sum(not one.success for one in result.results)
        found = Validated(rows, len(result.results), failed, by)
        for one in result.results:
            values = (one.result or {}).get("partial_unexpected_list") or []
            one.result["partial_unexpected_list"] = [_said(value) for value in values]
        sections = self._results.render(result).to_json_dict()["sections"]
        self._write(f"validations/{target.name}.html", target, sections[1:], {"validated": found})
        return found

    def index(
        self, tables: Iterable[Table], validated: Mapping[str, Validated], checks: Sequence[CheckResult], warehouse: str
    ) -> Path:
        """The page that leads to the others."""
        rules = {target.name: len(rules_of(target)) for target in tables}
        content = self._view.env.get_template("index.html").render(
            tables=tables, rules=rules, validated=validated, checks=checks, warehouse=warehouse, made_at=self._made_at
        )
        (self.folder / "index.html").write_text(content, encoding="utf-8")
        return self.folder / "index.html"

    def _write(self, place: str, target: Table, sections: object, said: Mapping[str, object]) -> None:
        page = self._view.env.get_template("page.html")
        content = page.render(table=target, sections=sections, made_at=self._made_at, **said)
        (self.folder / place).write_text(content, encoding="utf-8")
