"""Users' SQL, read only: one SELECT over the warehouse, typed by hand or kept by name in `sql/queries/`.

Belongs here: what may run, its parameters, and what a mistake in it means. Not here: the queries themselves.

A named query opens with comments: the first is its title, and each `-- param NAME TYPE: meaning` declares a `$NAME`
of it; a `?` after the type makes it optional, NULL when it is not given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import duckdb
import polars as pl

from warehouse.connection import Warehouse
from warehouse.ddl import stored_tables
from warehouse.errors import QueryRefused

_PARAM = re.compile(r"-- param (\w+) (INTEGER|DOUBLE|VARCHAR)(\??): (.+)")
_TYPES = {"INTEGER": int, "DOUBLE": float, "VARCHAR": str}
_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_UNKNOWN = (
    re.compile(r"Table with name (\S+) does not exist"),
    re.compile(r'Referenced column "([^"]+)" not found'),
    re.compile(r'does not have a column named "([^"]+)"'),
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A `$name` of a named query; an optional one is NULL when it is not given."""

    name: str
    type: str
    optional: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One file of `sql/queries/`: its name without the suffix, its first comment, its parameters and its text."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    text: str


def named_queries() -> dict[str, NamedQuery]:
    """Every named query by name, in alphabetical order."""
    folder = resources.files("sql") / "queries"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {
        name: _parsed(name, file.read_text(encoding="utf-8"))
        for file in files
        for name in (file.name.removesuffix(".sql"),)
    }


def run_named(warehouse: Warehouse, name: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Run the query called `name`; parameters may be text, as a command line has them.

    Raises QueryRefused on an unknown name, an unknown or missing parameter, or a value that is not of its type.
    """
    queries = named_queries()
    if name not in queries:
        close = difflib.get_close_matches(name, queries, n=3)
        raise QueryRefused(f"no query is called {name!r}; {_suggestion(close or list(queries))}")
    query = queries[name]
    given = dict(params or {})
    values = {
        parameter.name: _value(query, parameter, given.pop(parameter.name, None)) for parameter in query.parameters
    }
    if given:
        known = ", ".join(parameter.name for parameter in query.parameters) or "none"
        raise QueryRefused(f"query {name} has no parameter {', '.join(given)}; it takes: {known}")
    return run_query(warehouse, query.text, values)


def run_query(warehouse: Warehouse, text: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Run one read-only statement; `$name` in it takes its value from `params`.

    Whole numbers wider than 64 bits (sums of BIGINT) come as Int64 where they fit, decimals as Float64. Raises
    QueryRefused when it is not one SELECT, when DuckDB cannot run it, and what `Warehouse.reader` raises.
    """
    with warehouse.reader() as con:
        try:
            con.execute("SET lock_configuration = true")
            statement = _single_read(con.extract_statements(text), text)
            # Without parameters none are passed: binding the first one costs DuckDB an import of pandas, over a second.
            return _frame(con.execute(statement, dict(params)) if params else con.execute(statement))
        except duckdb.Error as error:
            raise QueryRefused(_explained(error)) from error


def _single_read(statements: list[duckdb.Statement], text: str) -> duckdb.Statement:
    if not statements:
        raise QueryRefused("the query is empty; ask something like: SELECT * FROM plan")
    kinds = [statement.type for statement in statements]
    if kinds == [duckdb.StatementType.CREATE, duckdb.StatementType.SELECT] and "pivot" in text.lower():
        raise QueryRefused("PIVOT must name its values here: PIVOT ... ON column IN ('a', 'b') ...")
    if len(statements) > 1:
        raise QueryRefused(f"one statement at a time; this holds {len(statements)}")
    if kinds[0] not in _READS:
        raise QueryRefused(f"only SELECT runs here, not {kinds[0].name}; the warehouse changes through capsheet alone")
    return statements[0]


def _frame(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    if any(str(column[1]) == "INTERVAL" for column in con.description or ()):
        # Polars takes no interval from Arrow; Python's timedelta it does.
        names = [column[0] for column in con.description or ()]
        return pl.DataFrame(con.fetchall(), schema=names, orient="row", infer_schema_length=None)
    frame = con.pl()
    return frame.with_columns(_plain(frame[name]) for name, kind in frame.schema.items() if kind == pl.Decimal)


def _plain(series: pl.Series) -> pl.Series:
    """A decimal as the number a reader expects: whole where it is declared whole and fits in 64 bits."""
    whole = isinstance(series.dtype, pl.Decimal) and series.dtype.scale == 0
    if whole:
        narrow = series.cast(pl.Int64, strict=False)
        if narrow.null_count() == series.null_count():
            return narrow
    return series.cast(pl.Float64)


def _parsed(name: str, text: str) -> NamedQuery:
    comments = [line for line in text.splitlines() if line.startswith("--")]
    parameters = []
    for line in comments:
        found = _PARAM.fullmatch(line)
        if found:
            parameters.append(Parameter(found[1], found[2], bool(found[3]), found[4]))
    return NamedQuery(name, comments[0].removeprefix("--").strip(), tuple(parameters), text)


def _value(query: NamedQuery, parameter: Parameter, given: Any) -> Any:
    if given is None:
        if parameter.optional:
            return None
        raise QueryRefused(f"query {query.name} needs {parameter.name}: {parameter.meaning}")
    try:
        return _TYPES[parameter.type](given)
    except (TypeError, ValueError):
        raise QueryRefused(f"query {query.name}: {parameter.name} is {given!r}, not {parameter.type}") from None


def _explained(error: duckdb.Error) -> str:
    """DuckDB's message on one line, without the echo of the query, and the names that are close to an unknown one."""
    message = re.sub(r"\s*LINE \d+:.*", "", str(error), flags=re.DOTALL)
    message = re.sub(r"\s*(Did you mean|Candidate bindings|Candidate functions).*", "", message, flags=re.DOTALL)
    line = " ".join(message.split())
    for pattern in _UNKNOWN:
        found = pattern.search(line)
        if found:
            close = _close_names(found[1])
            return f"{line}; {_suggestion(close)}" if close else f"{line}; SHOW TABLES lists the tables"
    return line


def _close_names(unknown: str) -> list[str]:
    """Public tables and columns spelt like `unknown`, the columns with the tables that have them."""
    known: dict[str, list[str]] = {}
    for table in stored_tables():
        if table.public:
            known.setdefault(table.name, []).append(f"table {table.name}")
            for column in table.columns:
                known.setdefault(column.name, []).append(f"{table.name}.{column.name}")
    close = difflib.get_close_matches(unknown.lower(), known, n=3, cutoff=0.6)
    return [place for name in close for place in known[name]][:4]


def _suggestion(names: list[str]) -> str:
    return f"did you mean {', '.join(names)}?"
