"""`capsheet doctor`: what is missing, locked, stale or misconfigured, and the command that mends it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from pipelines.commands import show
from pipelines.workspace import FILE_NAME, Place
from warehouse.connection import Warehouse
from warehouse.errors import CapsheetError


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    looked_at: str
    ok: bool
    found: str
    remedy: str = ""


def run(workspace: Path, *, json: bool) -> None:
    """Look at the workspace, its inputs, its warehouse and its workbooks. Exit 1 when something needs mending."""
    findings = list(_look(workspace))
    rows = [asdict(finding) for finding in findings]
    show.as_json(rows) if json else show.as_table(rows, f"workspace {workspace.resolve()}")
    broken = [finding for finding in findings if not finding.ok]
    if broken:
        raise CapsheetError(f"{len(broken)} thing(s) to mend; the first: {broken[0].remedy}")


def contracts(folder: Path, workspace: Path, *, json: bool) -> None:
    """Every public table's contract as a site in `folder`, with what the workspace's warehouse makes of it, if any.

    Raises CapsheetError where the folder cannot be written, and, the site written, where a table breaks its contract.
    """
    import typer

    from pipelines.data_docs import render
    from warehouse.registry import tables

    public = [table for table in tables() if table.public]
    warehouse, share = None, 0.05
    if (workspace / FILE_NAME).exists():
        place = Place(workspace)
        share = place.spec.max_rejected_share
        warehouse = Warehouse(place.warehouse) if place.warehouse.exists() else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        index, validated = render(public, folder, warehouse, share)
    except OSError as error:
        raise CapsheetError(f"{folder}: {error.strerror or error}. Name a folder that can be written.") from None
    if json:
        results = {name: asdict(found) for name, found in validated.items()}
        show.as_json({"data_docs": str(index), "tables": [table.name for table in public], "validated": results})
    else:
        rows = (
            f", {len(validated)} of them validated" if warehouse else ", no rows validated: there is no warehouse here"
        )
        typer.echo(f"contracts of {len(public)} tables{rows}: {index}")
    broken = [name for name, found in validated.items() if found.failed]
    if broken:
        raise CapsheetError(f"{', '.join(broken)}: rows break their contract. See {index}, and mend the source.")


def _look(workspace: Path) -> Iterator[Finding]:
    try:
        place = Place(workspace)
    except CapsheetError as error:
        yield Finding("workspace file", False, str(error), "capsheet init, or mend the line it names")
        return
    yield Finding("workspace file", True, f"{place.file}: {len(place.spec.services)} service(s)")
    for source in sorted({spec.trace.source for spec in place.spec.services}):
        yield from _guarded(f"trace {source}", partial(_trace, place, source))
    if place.spec.executor == "ray":
        there = find_spec("ray") is not None
        remedy = "pip install 'capsheet[ray]', or set executor: local"
        yield Finding("executor ray", there, "installed" if there else "Ray is not installed", remedy)
    free_gib = shutil.disk_usage(place.folder).free / 2**30
    yield Finding("disk", free_gib > 1, f"{free_gib:.1f} GiB free", "free at least 1 GiB")
    yield from _guarded("run lock", lambda: _lock(place))
    yield from _guarded("warehouse", lambda: _warehouse(place))


def _trace(place: Place, source: str) -> Iterator[Finding]:
    from pipelines.sources.locations import find, is_remote

    files = find(source, place.folder)
    there = is_remote(source) or all(Path(file.place).exists() for file in files)
    found = f"{len(files)} file(s)" if there else "missing"
    yield Finding(f"trace {source}", there, found, f"put the trace at {place.folder / source}")


def _guarded(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except CapsheetError as error:
        yield Finding(name, False, str(error), str(error))


def _lock(place: Place) -> Iterator[Finding]:
    from warehouse.lock import single_run

    with single_run(place.lock):
        yield Finding("run lock", True, "no run in progress")


def _warehouse(place: Place) -> Iterator[Finding]:
    if not place.warehouse.exists():
        yield Finding("warehouse", True, "not made yet: the first `capsheet plan` makes it")
        return
    with Warehouse(place.warehouse).reader() as con:
        plans, newest = con.execute("SELECT count(*), max(created_at) FROM plan").fetchall()[0]
        rows = con.execute("SELECT name, sha256 FROM plan_workbook ORDER BY plan_version").fetchall()
    yield Finding("warehouse", True, f"{plans} plan version(s), the newest of {newest or 'never'}")
    import hashlib

    for name, sha256 in rows:
        file = place.plans / name
        if not file.exists():
            yield Finding(f"workbook {name}", False, "missing", "capsheet plan writes it again from the warehouse")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
            yield Finding(f"workbook {name}", True, "differs from what was published: somebody edited this copy")
