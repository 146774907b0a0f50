"""The registry as DDL: CREATE TABLE with its constraints, and a comment on every table and column.

Belongs here: the text of the statements. Not here: running them or numbering them (`warehouse.migrate`).
"""

from __future__ import annotations

from collections.abc import Iterator

from warehouse.registry import Column, Table, tables

_BULK = ("request_file", "request_plain", "request_full", "rejected_row")


def indexed(table: Table) -> bool:
    """Whether the warehouse itself keeps the table's key unique, with a primary key.

    DuckDB never gives back the space of rows deleted under an index, so a table that is replaced whole on every run
    would grow by its size each time. Bulk tables and drafts carry no index; `warehouse.write` keeps their keys unique.
    """
    return table.name not in _BULK and not table.name.startswith("draft_")


def stored_tables() -> Iterator[Table]:
    """Every table and view that stands in the warehouse, in reading order.

    A versioned table is followed by its draft, a view preceded by its parts.
    """
    for table in tables():
        yield from table.parts
        yield table
        if table.versioned:
            yield table.draft


def identifier(name: str) -> str:
    """A quoted SQL identifier; only names of the registry are ever passed here."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted SQL string."""
    return "'" + text.replace("'", "''") + "'"


def described(column: Column) -> str:
    """A column's meaning with its unit in brackets: `time to first token [ms]`."""
    return f"{column.meaning} [{column.unit}]" if column.unit else column.meaning


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _conditions(column: Column) -> list[str]:
    """What a value must satisfy; NULL passes each of these, as SQL has it, and is ruled by NOT NULL alone."""
    name = identifier(column.name)
    conditions = []
    if column.type == "DOUBLE":
        conditions.append(f"isfinite({name})")
    if column.positive:
        conditions.append(f"{name} > 0")
    if column.minimum is not None:
        conditions.append(f"{name} >= {_number(column.minimum)}")
    if column.maximum is not None:
        conditions.append(f"{name} <= {_number(column.maximum)}")
    if column.allowed and column.type != "ENUM":
        conditions.append(f"{name} IN ({', '.join(literal(value) for value in column.allowed)})")
    return conditions


def sql_type(column: Column) -> str:
    """A column's type as DuckDB writes it."""
    if column.type != "ENUM":
        return column.type
    return f"ENUM({', '.join(literal(word) for word in column.allowed)})"


def create_statements(table: Table) -> list[str]:
    """The statements that make `table`, comments included; a view's parts must stand."""
    target = identifier(table.name)
    if table.parts:
        return [f"CREATE VIEW {target} AS\n{_union(table)}", *comment_statements(table)]
    lines = []
    for column in table.columns:
        parts = [f"  {identifier(column.name)} {sql_type(column)}"]
        if not column.nullable:
            parts.append("NOT NULL")
        conditions = _conditions(column)
        if conditions:
            parts.append(f"CHECK ({' AND '.join(conditions)})")
        lines.append(" ".join(parts))
    if indexed(table):
        lines.append(f"  PRIMARY KEY ({', '.join(identifier(key) for key in table.key)})")
    return [f"CREATE TABLE {target} (\n" + ",\n".join(lines) + "\n)", *comment_statements(table)]


def _union(table: Table) -> str:
    """The query of a view over its parts."""
    names, *parts = table.parts
    [number] = names.key
    selects = []
    for part in parts:
        own = {column.name: column for column in part.columns}
        columns = []
        for column in table.columns:
            name = identifier(column.name)
            if column.name not in own:
                from_names = any(column.name == other.name for other in names.columns)
                columns.append(f"{identifier(names.name)}.{name}" if from_names else f"NULL::{column.type} AS {name}")
            else:
                cast = "" if own[column.name].type == column.type else f"::{column.type} AS {name}"
                columns.append(f"{identifier(part.name)}.{name}{cast}")
        joined = f"JOIN {identifier(names.name)} USING ({identifier(number)})"
        selects.append(f"SELECT\n  {(',' + chr(10) + '  ').join(columns)}\nFROM {identifier(part.name)} {joined}")
    return "\nUNION ALL\n".join(selects)


def comment_statements(table: Table) -> list[str]:
    """COMMENT ON for the table or view (what a row is) and each column (meaning and unit)."""
    target = identifier(table.name)
    return [
        f"COMMENT ON {'VIEW' if table.parts else 'TABLE'} {target} IS {literal(table.row)}",
        *(
            f"COMMENT ON COLUMN {target}.{identifier(column.name)} IS {literal(described(column))}"
            for column in table.columns
        ),
    ]


def ddl() -> str:
    """Every table of the registry, drafts included, as one SQL script."""
    blocks = (";\n".join(create_statements(table)) + ";\n" for table in stored_tables())
    return "\n".join(blocks)
