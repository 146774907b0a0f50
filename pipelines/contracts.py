"""Whether what was read may be planned with: Great Expectations on the small tables, SQL on the big one.

Belongs here: suites made from the column registry, checks of whole traces, both as `CheckResult`. Does not: the rules
themselves (`warehouse.contracts`), or what a failure does to a run (`pipelines.assets.checks`). Great Expectations has
no DuckDB or Polars engine and takes seconds to import: it is imported where a suite runs, and given pandas frames.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from pipelines.sources.base import NOT_A_REQUEST
from pipelines.sources.outcome import NEAR, is_cap
from warehouse.contracts import Expectation, expectations
from warehouse.frames import polars_schema
from warehouse.registry import Table, table
from warehouse.rule_counts import count_broken

if TYPE_CHECKING:
    import duckdb

MAY_BE_EMPTY = ("observation", "step_profile")
"""Tables a plan can do without."""

LONGEST_SPAN_DAYS = 400.0
_UNPLANNED: tuple[tuple[str, str, str, Literal["warns", "informs"]], ...] = (
    ("no request failed", "failed", "failed or refused requests", "informs"),
    ("no request was cancelled", "cancelled", "cancelled requests", "informs"),
    ("an engine answered every request", "cache_hits", "answers from a cache in front of the engine", "informs"),
    ("every request's lengths are known", "unmeasured", "requests of unknown length", "warns"),
)
"""Requests that a plan does not (wholly) count: check, fact, what they are, how much it matters."""

_LARGEST = 1.7976931348623157e308
_PARTS: dict[str, str] = {
    "not_null": "required values are there",
    "finite": "numbers are finite",
    "between": "values are in range",
    "in_set": "values are of the allowed ones",
    "unique": "the key is unique",
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: what was looked at, whether it held, and what to do when it did not. A row of `plan_check`."""

    check_name: str
    scope: str
    passed: bool
    observed: str
    expected: str
    severity: Literal["stops", "warns", "informs"]
    remedy: str | None = None


def validate(table_name: str, frame: pl.DataFrame) -> list[CheckResult]:
    """A small table against its suite: the registry's expectations, run by Great Expectations, one result a kind.

    `frame` has the table's columns. Everything here stops a run: a row that breaks the contract of its own table got
    past its reader, which is a fault of capsheet or of a hand-edited warehouse.
    """
    target = table(table_name)
    results = [_shape(target, frame), _rows(target, frame)]
    if frame.is_empty() or not results[0].passed:
        return results
    outcomes = _run_suite(target, frame)
    for kind, name in _PARTS.items():
        found = [(rule, outcome) for rule, outcome in outcomes if rule.kind == kind]
        failed = [_told(rule, outcome) for rule, outcome in found if not outcome.success]
        results.append(
            CheckResult(
                name,
                table_name,
                not failed,
                "; ".join(failed[:5]) if failed else f"{len(found)} expectations hold",
                f"{len(found)} expectations on {frame.height:,} rows",
                "stops",
                f"Mend the source of {table_name} and run again." if failed else None,
            )
        )
    return results


def _shape(target: Table, frame: pl.DataFrame) -> CheckResult:
    wanted = polars_schema(target)
    wrong = [
        f"{name} is {frame.schema[name]}" if name in frame.columns else f"{name} is missing"
        for name, dtype in wanted.items()
        if frame.schema.get(name) != dtype
    ]
    wrong += [f"{name} is unknown" for name in frame.columns if name not in wanted]
    return CheckResult(
        "columns are those of the registry",
        target.name,
        not wrong,
        "; ".join(wrong[:5]) or f"{len(wanted)} columns",
        f"{len(wanted)} columns with their types",
        "stops",
        "Run `capsheet doctor`: the warehouse is of another version." if wrong else None,
    )


def _rows(target: Table, frame: pl.DataFrame) -> CheckResult:
    needed = target.name not in MAY_BE_EMPTY
    passed = frame.height > 0 or not needed
    remedy = None if passed else f"Name a source of {target.name} in the workspace."
    expected = "at least 1 row" if needed else "any number of rows"
    return CheckResult("there are rows", target.name, passed, f"{frame.height:,} rows", expected, "stops", remedy)


@cache
def _context() -> Any:
    """One ephemeral Great Expectations context a process: nothing on disk, nothing sent, no progress bars."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    gx: Any = import_module("great_expectations")
    types: Any = import_module("great_expectations.data_context.types.base")
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(enable=False)
    context.variables.progress_bars = types.ProgressBarsConfig(globally=False)
    return context


def rules_of(target: Table) -> list[Expectation]:
    """Those of the registry's rules for a table that Great Expectations states; types the table keeps by itself."""
    return [rule for rule in expectations(target) if rule.kind in _PARTS]


def suite_of(target: Table) -> Any:
    """The suite of a table's rules; `meta` numbers each."""
    # As `Any`: the library's own types are incomplete, and checking against them takes mypy through all of it.
    gx: Any = import_module("great_expectations")
    gxe: Any = import_module("great_expectations.expectations")

    def stated(place: int, rule: Expectation) -> Any:
        # Results come back in another order; the place in the suite says which rule each belongs to.
        meta = {"rule": place}
        match rule.kind:
            case "not_null":
                return gxe.ExpectColumnValuesToNotBeNull(column=rule.column, meta=meta)
            case "between":
                return gxe.ExpectColumnValuesToBeBetween(column=rule.column, meta=meta, **rule.arguments)
            case "finite":
                bounds = {"min_value": -_LARGEST, "max_value": _LARGEST}
                said = "values must be finite numbers."
                return gxe.ExpectColumnValuesToBeBetween(column=rule.column, meta=meta, description=said, **bounds)
            case "in_set":
                return gxe.ExpectColumnValuesToBeInSet(column=rule.column, meta=meta, **rule.arguments)
            case _:
                columns = rule.arguments["column_list"]
                if len(columns) == 1:
                    return gxe.ExpectColumnValuesToBeUnique(column=columns[0], meta=meta)
                return gxe.ExpectCompoundColumnsToBeUnique(column_list=columns, meta=meta)

    _context()
    stating = [stated(place, rule) for place, rule in enumerate(rules_of(target))]
    return gx.ExpectationSuite(name=target.name, expectations=stating)


def suite_result(target: Table, frame: pl.DataFrame) -> Any:
    """A small table's rows against its suite, by Great Expectations; its results stand in the suite's order."""
    source = _context().data_sources.add_or_update_pandas(target.name)
    batch = source.add_dataframe_asset(target.name).add_batch_definition_whole_dataframe(target.name)
    # pandas cannot tell NaN from NULL; as an infinity, NaN fails the finite rule instead of passing as absent.
    floats = pl.selectors.float().fill_nan(float("inf"))
    data = frame.with_columns(floats).to_pandas()
    outcome = batch.get_batch({"dataframe": data}).validate(suite_of(target), result_format="BASIC")
    outcome.results.sort(key=lambda result: result.expectation_config.meta["rule"])
    return outcome


def suite_result_by_sql(con: duckdb.DuckDBPyConnection, target: Table) -> Any:
    """A big table's rows against its suite, counted by DuckDB where they are: the same kind of result."""
    results: Any = import_module("great_expectations.core.expectation_validation_result")
    counts = count_broken(con, target.name, rules_of(target))
    found = [
        results.ExpectationValidationResult(
            success=counted.broken == 0,
            expectation_config=expectation.configuration,
            result={
                "element_count": counted.rows,
                "unexpected_count": counted.broken,
                "unexpected_percent": 100 * counted.broken / counted.rows if counted.rows else 0.0,
                "partial_unexpected_list": list(counted.examples),
            },
        )
        for expectation, counted in zip(suite_of(target).expectations, counts, strict=True)
    ]
    held = sum(one.success for one in found)
    return results.ExpectationSuiteValidationResult(
        success=held == len(found),
        results=found,
        suite_name=target.name,
        statistics={
            "evaluated_expectations": len(found),
            "successful_expectations": held,
            "unsuccessful_expectations": len(found) - held,
            "success_percent": 100 * held / len(found),
        },
        meta={},
    )


def _run_suite(target: Table, frame: pl.DataFrame) -> list[tuple[Expectation, Any]]:
    return list(zip(rules_of(target), suite_result(target, frame).results, strict=True))


def _told(rule: Expectation, outcome: Any) -> str:
    result = outcome.result or {}
    examples = ", ".join(str(value)[:40] for value in result.get("partial_unexpected_list", [])[:3])
    count = result.get("unexpected_count")
    return f"{rule.column}: {count if count is not None else 'some'} rows" + (f" ({examples})" if examples else "")


def validate_requests(
    con: duckdb.DuckDBPyConnection, sources: Sequence[str], max_rejected_share: float = 0.05
) -> list[CheckResult]:
    """Each trace in `request`: counted, in range, in time; by SQL aggregates, so that its size does not matter."""
    query = (resources.files("sql") / "checks" / "trace_facts.sql").read_text(encoding="utf-8")
    results = []
    for source in sources:
        facts = con.execute(query, {"source": source, "aside": NOT_A_REQUEST, "near": NEAR}).pl().row(0, named=True)
        results += _trace(source, facts, max_rejected_share)
    return results


def _trace(source: str, facts: dict[str, Any], max_rejected_share: float) -> list[CheckResult]:
    kept, usable, read = facts["kept"], facts["replayable"], facts["rows_read"]
    broken, aside = facts["broken"], facts["aside"]
    results: list[CheckResult] = []

    def check(
        name: str,
        passed: bool,
        observed: str,
        expected: str,
        severity: Literal["stops", "warns", "informs"],
        remedy: str,
    ) -> None:
        told = None if passed else remedy
        results.append(CheckResult(f"{name} ({source})", "request", passed, observed, expected, severity, told))

    remedy = "Name a trace with usable rows."
    check("requests were kept", usable > 0, f"{usable:,} requests", "at least 1", "stops", remedy)
    accounted = kept + broken + aside == read
    observed = f"{read:,} read, {kept:,} kept, {broken + aside:,} rejected"
    check("no row is lost", accounted, observed, "read = kept + rejected", "stops", "Ingest the trace again.")
    share = broken / read if read else 0.0
    first = f"; first {facts['first_reason']}" if broken else ""
    observed = f"{broken:,} of {read:,} rows ({share:.2%}){first}"
    remedy = "See `select * from rejected_row`; mend the trace."
    check(
        "broken rows are few",
        share <= max_rejected_share,
        observed,
        f"at most {max_rejected_share:.2%}",
        "stops",
        remedy,
    )
    check("no row is broken", broken == 0, observed, "0", "warns", remedy)
    remedy = "They are not planned for; a plan for all demand needs a demand_factor above 1."
    for name, key, what, severity in _UNPLANNED:
        count = facts[key]
        if count:
            check(name, False, f"{count:,} {what}", "0", severity, remedy)
    if not usable:
        return results
    span_h = (facts["last_at"] - facts["first_at"]).total_seconds() / 3600
    observed = f"{facts['first_at']:%Y-%m-%d %H:%M:%S} to {facts['last_at']:%Y-%m-%d %H:%M:%S} UTC, {span_h:,.1f} h"
    believable = span_h <= LONGEST_SPAN_DAYS * 24
    remedy = "A time far from the others is a fault of the trace: remove that row."
    check("the time span is believable", believable, observed, f"at most {LONGEST_SPAN_DAYS:g} days", "stops", remedy)
    remedy = "The daily peak may be missing: use a trace of whole days, or raise headroom.traffic_factor."
    check("the trace covers a day", span_h >= 23.5, observed, "at least 23.5 h", "warns", remedy)
    back = facts["steps_back"]
    remedy = "Rows were sorted by arrival; a clock reset would look the same."
    check("rows were in order of arrival", back == 0, f"{back:,} steps back in time", "0", "informs", remedy)
    grid = kept >= 20 and facts["times"] * 2 < kept
    observed = f"{facts['times']:,} distinct times for {kept:,} requests"
    remedy = (
        "Replayed as it is, a grid is a train of bursts: set `spread: uniform` on this trace if its clock was coarse."
    )
    check("arrivals lie on no grid", not grid, observed, "at least one time for two requests", "warns", remedy)
    most = table("request").column("isl_tokens").maximum or 0
    low, high = min(facts["isl_min"], facts["osl_min"]), max(facts["isl_max"], facts["osl_max"])
    observed = (
        f"ISL {facts['isl_min']:,} to {facts['isl_max']:,}, OSL {facts['osl_min']:,} to {facts['osl_max']:,} tokens"
    )
    remedy = "Check the trace's unit: lengths are tokens."
    check("lengths are in range", low >= 1 and high <= most, observed, f"1 to {most:,.0f} tokens", "stops", remedy)
    for name, key in (("input", "isl"), ("output", "osl")):
        at_max, longest = facts[f"{key}_at_max"], facts[f"{key}_max"]
        capped = facts[f"{key}_min"] < longest and is_cap(usable, longest, at_max, facts[f"{key}_near_max"])
        observed = f"{at_max:,} requests ({at_max / usable:.2%}) have the longest, {longest:,} tokens"
        remedy = f"Longer {name}s were cut off before this trace was written: allow for them in demand."
        check(f"{name} lengths are not capped", not capped, observed, "like those just below", "warns", remedy)
    return results
