"""64 candidates x 12 rates on the sample workspace, the whole command. Run: python -m tests.benchmarks.bench_sweep."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.bench_replay import RESULTS, ROOT

GRID = {
    "gpu": "H100-SXM,H200-SXM,L40S,B200-SXM",
    "tp": "1,2",
    "precision": "bf16,fp8",
    "max-num-seqs": "64,128,256,512",
    "rates": "1:64:12",
}


def command(*arguments: str) -> str:
    """What `capsheet ...` prints, in a process of its own; its progress bar shows on this terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> None:
    """Print what the sweep cost and add it to results.json."""
    with tempfile.TemporaryDirectory() as folder:
        command("init", folder)
        rows = Path(folder) / "rows.csv"
        options = [part for name, value in GRID.items() for part in (f"--{name}", value)]
        before, start_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command("sweep", "--workspace", folder, "--service", "chat", *options, "--out", str(rows))
        wall_s, after = time.perf_counter() - start_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        cells = len(rows.read_text().splitlines()) - 1
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"64 candidates x 12 rates on the sample's busiest hour, {cells} replays, the whole command:")
    print(f"{wall_s:.1f} s on {os.cpu_count()} CPUs, {cpu_s:.1f} CPU s")
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    figures = {"sweep_64x12_wall_s": wall_s, "sweep_64x12_cpu_s": cpu_s, "sweep_64x12_replays": cells}
    RESULTS.write_text(json.dumps({**known, **figures}, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
