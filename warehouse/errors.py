"""The exceptions a user may meet from the warehouse, each a message that needs no traceback.

Belongs here: `CapsheetError`, which the command line prints as it stands, and the warehouse's own kinds of it.
Not here: errors of a workspace file, a source or an estimate; those rooms subclass `CapsheetError` beside their code.
"""

# ruff: noqa: N818  (the names say what happened, which reads better in a message than "...Error")
from __future__ import annotations


class CapsheetError(Exception):
    """A message for the user: what went wrong, where, and what to do about it."""


class WarehouseMissing(CapsheetError):
    """There is no warehouse file yet."""


class WarehouseLocked(CapsheetError):
    """Another process has the warehouse open; `pid` is it, where DuckDB names one."""

    def __init__(self, message: str, pid: int | None = None) -> None:
        super().__init__(message)
        self.pid = pid


class WarehouseUnreadable(CapsheetError):
    """The file is no DuckDB database, is cut short, or may not be opened."""


class WarehouseOutdated(CapsheetError):
    """The warehouse's tables are not those this capsheet works with: older, newer, or of another build."""


class WriteRefused(CapsheetError):
    """A frame that does not fit its table, or a table that may not be rewritten."""


class PublishRefused(CapsheetError):
    """A plan version that may not be published as it stands; nothing was written."""


class QueryRefused(CapsheetError):
    """A user's query that is not one read-only statement, or that DuckDB could not run."""


class RunInProgress(CapsheetError):
    """Another run is writing in this workspace: its process id and the UTC time it began, as it wrote them."""

    def __init__(self, message: str, pid: int | None, since: str | None) -> None:
        super().__init__(message)
        self.pid = pid
        self.since = since
