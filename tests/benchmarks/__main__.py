"""`make bench`: every benchmark in turn, each printing its table; figures are gathered in results.json, unversioned."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run the benchmarks by name."""
    for file in sorted(Path(__file__).parent.glob("bench_*.py")):
        print(f"\n{file.stem}")
        import_module(f"tests.benchmarks.{file.stem}").main()


main()
