"""Loading a trace against DuckDB's bare COPY of the same file. Run: python -m tests.benchmarks.bench_ingest [ROWS].

Each load runs in a process of its own, whose peak memory is its own; a warehouse with its tables is made beforehand.
COPY is timed twice: into a table of the file's three columns, and into the columns of `request`, which is what loading
a trace has to fill.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from pipelines.ingest import ingest_source
from pipelines.workspace import TraceSpec
from warehouse.connection import Warehouse
from warehouse.ddl import create_statements
from warehouse.registry import table

ROWS = 1_000_000
"""What `make bench` loads; 10,000,000 is the size the budget is stated for."""
FILE = """
COPY (
    SELECT
        strftime(TIMESTAMP '2024-05-12' + to_microseconds(i * 60480), '%Y-%m-%d %H:%M:%S.%f') || '+00:00'
            AS "TIMESTAMP",
        1 + (hash(i) % 7000)::BIGINT AS ContextTokens,
        1 + (hash(i + 7) % 900)::BIGINT AS GeneratedTokens
    FROM range($rows) AS t (i)
) TO '{file}' (HEADER)
"""
BARE = """
CREATE TABLE trace (
    "TIMESTAMP" TIMESTAMP NOT NULL, ContextTokens BIGINT NOT NULL, GeneratedTokens BIGINT NOT NULL
)
"""
FILLED = {"source_file": "'trace.csv'", "line": "1", "outcome": "'unknown'", "replayable": "true"}
"""What COPY puts into columns of `request` that the file does not have and that may not be empty."""


def load(how: str, folder: Path) -> dict[str, float]:
    """Load the folder's trace.csv; wall and CPU seconds, and this process's peak resident memory in GiB."""
    file = folder / "trace.csv"
    path = folder / f"{how}.duckdb"
    with Warehouse(folder / "ingest.duckdb").writer() as con:
        con.execute("SELECT ?", [1])  # imports what the first parameter of a process costs DuckDB, over a second
    began, cpu = time.perf_counter(), time.process_time()
    if how == "ingest":
        ingest_source(Warehouse(path), folder, TraceSpec(source="trace.csv"), 0.05)
    else:
        with duckdb.connect(path) as con:
            con.execute(BARE if how == "bare" else _request())
            into = "trace" if how == "bare" else "request (arrival_at, isl_tokens, osl_tokens)"
            con.execute(f"COPY {into} FROM '{file}' (HEADER)")
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _request() -> str:
    ddl = create_statements(table("request"))[0]
    for column, value in FILLED.items():
        kind = table("request").column(column).type
        ddl = ddl.replace(f'"{column}" {kind} NOT NULL', f'"{column}" {kind} NOT NULL DEFAULT {value}')
    return ddl


def main(rows: int = ROWS) -> None:
    """Print rows a second, peak memory, and how many times COPY's time the load took."""
    with TemporaryDirectory(prefix="capsheet-bench-") as name:
        folder = Path(name)
        with duckdb.connect() as con:
            con.execute(FILE.format(file=folder / "trace.csv"), {"rows": rows})
        size_mb = (folder / "trace.csv").stat().st_size / 1e6
        print(f"{rows:,} rows, {size_mb:,.0f} MB of CSV, {os.cpu_count()} CPUs")
        print(f"{'':34}{'wall s':>8}{'CPU s':>8}{'rows/s':>12}{'peak GiB':>10}")
        found = {}
        for how, said in (
            ("bare", "COPY into the file's three columns"),
            ("full", "COPY into the columns of request"),
            ("ingest", "capsheet"),
        ):
            ran = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.bench_ingest", how, name],
                check=True,
                capture_output=True,
                text=True,
            )
            found[how] = row = json.loads(ran.stdout)
            speed = f"{row['wall_s']:8.2f}{row['cpu_s']:8.2f}{rows / row['wall_s']:12,.0f}"
            print(f"{said:34}{speed}{row['rss_gib']:10.2f}")
        for how, said in (("full", "request"), ("bare", "three columns")):
            ratio = found["ingest"]["wall_s"] / found[how]["wall_s"]
            print(f"capsheet takes {ratio:.1f} times a bare COPY into {said}, {found['ingest']['rss_gib']:.2f} GiB")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(load(sys.argv[1], Path(sys.argv[2]))))
    else:
        main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) == 2 else ROWS)
