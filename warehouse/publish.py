"""Publishing a plan version: its rows and its workbook in one transaction, then the file beside the warehouse.

Belongs here: the transaction, the workbook file, and finishing what an interrupted run left. Not here: what the rows
hold (`pipelines`) and what the workbook shows (`reports`).

Invariants, cited by the tests:
P1  A version is whole: every row, its header and its workbook's bytes, or nothing.
P2  A version never changes: its tables are only ever inserted into.
P3  The file is a copy of the bytes in `plan_workbook`. A run killed between the commit and the file is rolled forward
    by `settle_workbooks`; a file somebody edited is left alone and reported.
P4  Nothing is left behind: a half-written file carries the workbook's own name with `.part`, so the next run takes it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import duckdb

from warehouse.connection import Warehouse, transaction
from warehouse.ddl import identifier
from warehouse.errors import CapsheetError, PublishRefused
from warehouse.registry import table, tables

BuildWorkbook = Callable[[duckdb.DuckDBPyConnection, int, datetime], tuple[str, bytes]]
"""Makes the workbook of a version: from an open connection in which the version's rows already stand, the version
and its time of publishing (UTC), to the file's name and bytes. It reads; it must not write, commit or close."""

MANDATORY = ("plan_assumption", "plan_workload", "workload_bucket", "plan_candidate", "plan_check")
"""Versioned tables without a row of which a plan says nothing. The others may be empty: no candidate may fit."""

_SET_HERE = ("plan_version", "created_at", "previous_version", "workbook", "workbook_sha256")


@dataclass(frozen=True, slots=True)
class Published:
    """A version that is out: its number, its workbook's path, and the SHA-256 of the workbook's bytes."""

    version: int
    path: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Settled:
    """What `settle_workbooks` did: the files it wrote, and those that differ from what was published."""

    written: tuple[Path, ...]
    edited: tuple[Path, ...]


def header_columns() -> tuple[str, ...]:
    """The columns of `plan` the caller gives; publishing itself sets the rest."""
    return tuple(column.name for column in table("plan").columns if column.name not in _SET_HERE)


def publish(warehouse: Warehouse, header: Mapping[str, Any], build_workbook: BuildWorkbook, out_dir: Path) -> Published:
    """Publish the drafts as the next plan version, and write its workbook to `out_dir`.

    `header` holds `header_columns()`. Raises PublishRefused, with nothing published, when a mandatory draft is empty,
    the header is incomplete, a row breaks a constraint, or `out_dir` already has a file of the workbook's name; and
    whatever `build_workbook` raises. Raises CapsheetError when the version is out but its file could not be written.
    """
    wanted = set(header_columns())
    if set(header) != wanted:
        wrong = ", ".join(sorted(wanted.symmetric_difference(header)))
        raise PublishRefused(f"plan header: missing or not of the table `plan`: {wrong}")
    out_dir.mkdir(parents=True, exist_ok=True)
    with warehouse.writer() as con:
        try:
            with transaction(con):
                version, name, content = _insert_version(con, header, build_workbook, out_dir)
        except duckdb.ConstraintException as error:
            raise PublishRefused(f"the plan was not published: {' '.join(str(error).split())}") from error
    path = out_dir / name
    try:
        _deliver(path, content)
    except OSError as error:
        raise CapsheetError(
            f"plan version {version} is published, but {path} could not be written ({error.strerror}); "
            "mend that, and the next `capsheet plan` writes it from the warehouse"
        ) from error
    return Published(version, path, _sha256(content))


def settle_workbooks(warehouse: Warehouse, out_dir: Path) -> Settled:
    """Write every published workbook whose file is missing; report, and never touch, one whose file differs.

    Does nothing while there is no warehouse. Raises what `Warehouse.reader` raises otherwise.
    """
    written, edited = [], []
    if not warehouse.path.exists():
        return Settled((), ())
    with warehouse.reader() as con:
        rows = con.execute("SELECT plan_version, name, sha256 FROM plan_workbook ORDER BY plan_version").fetchall()
        for version, name, sha256 in rows:
            path = out_dir / _file_name(name)
            if not path.exists():
                found = con.execute("SELECT content FROM plan_workbook WHERE plan_version = ?", [version]).fetchall()
                out_dir.mkdir(parents=True, exist_ok=True)
                _deliver(path, found[0][0])
                written.append(path)
            elif _sha256(path.read_bytes()) != sha256:
                edited.append(path)
    return Settled(tuple(written), tuple(edited))


def _insert_version(
    con: duckdb.DuckDBPyConnection, header: Mapping[str, Any], build_workbook: BuildWorkbook, out_dir: Path
) -> tuple[int, str, bytes]:
    previous = con.execute("SELECT max(plan_version) FROM plan").fetchall()[0][0]
    version = (previous or 0) + 1
    created_at = datetime.now(UTC).replace(microsecond=0)
    for target in tables():
        if target.versioned:
            _copy_draft(con, target.name, version)
    name, content = build_workbook(con, version, created_at)
    path = out_dir / _file_name(name)
    if path.exists():
        raise PublishRefused(f"{path} exists already and is not plan version {version}; move it away and run again")
    sha256 = _sha256(content)
    own = {
        "plan_version": version,
        "created_at": created_at.replace(tzinfo=None),
        "previous_version": previous,
        "workbook": name,
        "workbook_sha256": sha256,
    }
    _insert(con, "plan", {**header, **own})
    _insert(con, "plan_workbook", {"plan_version": version, "name": name, "sha256": sha256, "content": content})
    return version, name, content


def _copy_draft(con: duckdb.DuckDBPyConnection, name: str, version: int) -> None:
    draft = identifier(f"draft_{name}")
    if name in MANDATORY and not con.execute(f"SELECT 1 FROM {draft} LIMIT 1").fetchall():  # noqa: S608
        raise PublishRefused(
            f"the plan was not published: draft_{name} has no rows, so an earlier step did not run; "
            "run `capsheet plan` from the start"
        )
    con.execute(
        f"INSERT INTO {identifier(name)} BY NAME SELECT ?::INTEGER AS plan_version, * FROM {draft}",  # noqa: S608
        [version],
    )


def _insert(con: duckdb.DuckDBPyConnection, name: str, row: Mapping[str, Any]) -> None:
    columns = ", ".join(identifier(table(name).column(key).name) for key in row)
    marks = ", ".join("?" for _ in row)
    con.execute(f"INSERT INTO {identifier(name)} ({columns}) VALUES ({marks})", list(row.values()))  # noqa: S608


def _file_name(name: str) -> str:
    """The name if it is that of a file and not a way out of the folder."""
    if not name or PurePath(name).name != name or name.startswith(".") or "\\" in name or "\0" in name:
        raise PublishRefused(f"{name!r} is not the name of a workbook file")
    return name


def _deliver(path: Path, content: bytes) -> None:
    """Write the whole file or leave none: a part file, flushed to the disk, then moved into place."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
