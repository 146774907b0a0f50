"""A warehouse with traces beside it, for tests of what becomes of files and their rows.

Belongs here: making files, reading them in, asking what stands. Does not: any test.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.ingest import Ingested, ingest_source
from pipelines.workspace import TraceSpec
from warehouse.connection import Warehouse

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def lines(day: int, requests: int = 30, first_isl: int = 100) -> str:
    """A file of `requests` of one day of January 2026, one a minute."""
    rows = [f"2026-01-{day:02d} 00:{i % 60:02d}:00.5,{first_isl + i},{10 + i}" for i in range(requests)]
    return "\n".join([HEADER, *rows]) + "\n"


class Store:
    """A workspace's folder with its warehouse, without a workspace file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = Warehouse(folder / "capsheet.duckdb")

    def put(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def ingest(self, source: str, share: float = 0.05, **spec: Any) -> list[Ingested]:
        return ingest_source(self.warehouse, self.folder, TraceSpec(source=source, **spec), share)

    def rows(self, query: str) -> list[dict[str, Any]]:
        with self.warehouse.reader() as con:
            return con.execute(query).pl().to_dicts()

    @property
    def requests(self) -> int:
        return int(self.rows("SELECT count(*) AS n FROM request")[0]["n"])

    def accounted(self) -> None:
        """Rows in = rows kept + rows rejected, file by file, and no key twice."""
        for row in self.rows("SELECT * FROM source_file"):
            assert row["rows_read"] == row["rows_kept"] + row["rows_rejected"], row
            name = row["source_file"].replace("'", "''")
            for table, column in (("request", "rows_kept"), ("rejected_row", "rows_rejected")):
                assert (
                    self.rows(f"SELECT count(*) AS n FROM {table} WHERE source_file = '{name}'")[0]["n"] == row[column]
                )
        doubled = "SELECT source_file, line FROM request GROUP BY ALL HAVING count(*) > 1"
        assert self.rows(doubled) == []


def states(done: list[Ingested]) -> list[str]:
    return [file.state for file in done]
