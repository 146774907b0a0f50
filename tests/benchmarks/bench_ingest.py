"""Loading a trace against DuckDB's bare COPY of the same file. Run: python -m tests.benchmarks.bench_ingest [ROWS].

COPY fills a table of the file's own columns, with their types, no more. Two files: times and lengths alone, and one
that says more of a request. Each load runs in a process of its own, whose peak memory is its own; a warehouse with its
tables is made beforehand. On a machine that does other work, the ratio of CPU seconds says more than that of wall time.
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

ROWS = 1_000_000
"""What `make bench` loads; 10,000,000 is the size the budget is stated for."""
FILES = {
    "azure": (
        "times and lengths",
        '"TIMESTAMP" TIMESTAMP NOT NULL, ContextTokens BIGINT NOT NULL, GeneratedTokens BIGINT NOT NULL',
        """strftime(TIMESTAMP '2024-05-12' + to_microseconds(i * 60480), '%Y-%m-%d %H:%M:%S.%f') || '+00:00'
            AS "TIMESTAMP",
        1 + (hash(i) % 7000)::BIGINT AS ContextTokens,
        1 + (hash(i + 7) % 900)::BIGINT AS GeneratedTokens""",
    ),
    "burstgpt": (
        "session, model and latency too",
        '"Timestamp" DOUBLE NOT NULL, "Session ID" VARCHAR, "Elapsed time" DOUBLE, Model VARCHAR, '
        '"Request tokens" BIGINT, "Response tokens" BIGINT, "Total tokens" BIGINT, "Log Type" VARCHAR',
        """i * 0.06 AS "Timestamp",
        's' || hash(i) % 100000 AS "Session ID",
        1 + (hash(i + 3) % 9000) / 1000 AS "Elapsed time",
        CASE WHEN i % 3 = 0 THEN 'GPT-4' ELSE 'ChatGPT' END AS Model,
        1 + (hash(i) % 7000)::BIGINT AS "Request tokens",
        1 + (hash(i + 7) % 900)::BIGINT AS "Response tokens",
        "Request tokens" + "Response tokens" AS "Total tokens",
        'Conversation log' AS "Log Type" """,
    ),
}
"""By format: what its rows say, the columns COPY fills, and how they are made of a row's number i."""


def load(how: str, name: str, folder: Path) -> dict[str, float]:
    """Load a file of the folder; wall and CPU seconds, and this process's peak resident memory in GiB."""
    file, path = folder / f"{name}.csv", folder / f"{name}-{how}.duckdb"
    with Warehouse(folder / f"{name}-ingest.duckdb").writer() as con:
        con.execute("SELECT ?", [1])  # imports what the first parameter of a process costs DuckDB, over a second
    began, cpu = time.perf_counter(), time.process_time()
    if how == "ingest":
        ingest_source(Warehouse(path), folder, TraceSpec(source=file.name), 0.05)
    else:
        with duckdb.connect(path) as con:
            con.execute(f"CREATE TABLE trace ({FILES[name][1]})")
            con.execute(f"COPY trace FROM '{file}' (HEADER)")
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
        "rss_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main(rows: int = ROWS) -> None:
    """Print rows a second, peak memory, and how many times COPY's time a load took."""
    with TemporaryDirectory(prefix="capsheet-bench-") as folder:
        print(f"{rows:,} rows, {os.cpu_count()} CPUs")
        print(f"{'':42}{'wall s':>8}{'CPU s':>8}{'rows/s':>12}{'peak GiB':>10}")
        for name, (told, _, columns) in FILES.items():
            file = Path(folder) / f"{name}.csv"
            with duckdb.connect() as con:
                con.execute(f"COPY (SELECT {columns} FROM range(?) AS t (i)) TO '{file}' (HEADER)", [rows])
            print(f"{told}, {file.stat().st_size / 1e6:,.0f} MB")
            found = {}
            for how, said in (("copy", "  COPY into the file's own columns"), ("ingest", "  capsheet")):
                command = [sys.executable, "-m", "tests.benchmarks.bench_ingest", how, name, folder]
                ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[how] = row = json.loads(ran.stdout)
                speed = f"{row['wall_s']:8.2f}{row['cpu_s']:8.2f}{rows / row['wall_s']:12,.0f}"
                print(f"{said:42}{speed}{row['rss_gib']:10.2f}")
            wall, cpu = (found["ingest"][key] / found["copy"][key] for key in ("wall_s", "cpu_s"))
            print(f"  {wall:.1f} times the wall time, {cpu:.1f} times the CPU time of COPY")
            file.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(load(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
    else:
        main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) == 2 else ROWS)
