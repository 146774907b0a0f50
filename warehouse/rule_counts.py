"""The registry's rules counted by DuckDB over a whole table, for tables too big to be taken out of it.

Belongs here: rules as DuckDB expressions. Does not: the rules themselves (`warehouse.contracts`), or what a broken one
means to whoever asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from duckdb import ColumnExpression, ConstantExpression, FunctionExpression

from warehouse.contracts import Expectation

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows that a rule was asked of, those that break it, and the first few of their values, told apart."""

    rows: int
    broken: int
    examples: tuple[object, ...] = ()


def count_broken(con: duckdb.DuckDBPyConnection, table_name: str, rules: Sequence[Expectation]) -> list[Counted]:
    """How many rows of a table break each rule; all but the key's are counted in one pass.

    As everywhere, a missing value breaks `not_null` alone; a key's rows beyond the first break `unique`.
    """
    rows = con.table(table_name)
    conditions = [_broken(rule) for rule in rules]
    counts = [FunctionExpression("count", ConstantExpression(1))]
    counts += [FunctionExpression("count_if", one) for one in conditions if one is not None]
    total, *broken = rows.aggregate(counts).fetchall()[0]
    left = iter(broken)
    found = []
    for rule, condition in zip(rules, conditions, strict=True):
        if condition is None:
            keys = rows.select(*map(ColumnExpression, rule.arguments["column_list"])).distinct()
            found.append(Counted(total, total - int(keys.count("*").fetchall()[0][0])))
            continue
        count = next(left) or 0  # NULL where no row has a value
        values = rows.filter(condition).select(ColumnExpression(rule.column)).distinct() if count else None
        examples = values.limit(_EXAMPLES).fetchall() if values is not None else []
        found.append(Counted(total, count, tuple(value for (value,) in examples)))
    return found


def _broken(rule: Expectation) -> duckdb.Expression | None:
    """Whether a row breaks a rule; None for a key's, which no row breaks alone."""
    value, said = ColumnExpression(rule.column), rule.arguments
    match rule.kind:
        case "not_null":
            return value.isnull()
        case "finite":
            return ~FunctionExpression("isfinite", value)
        case "in_set":
            return value.isnotin(*map(ConstantExpression, said["value_set"]))
        case "between":
            low, high = said["min_value"], said["max_value"]
            broken = ConstantExpression(False)
            if low is not None:
                broken = value <= low if said["strict_min"] else value < low
            return broken | (value > high) if high is not None else broken
        case _:
            return None
