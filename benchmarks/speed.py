"""Speed as ratios within one run (make bench-speed)."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from benchmarks import bench_fit, bench_moments


def main() -> None:
    """Run every ratio and print it beside what is asked of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parquet-gigabytes", type=float, default=2.0, help="size of the file for the memory figure")
    given = parser.parse_args()
    table = Table(title="Ratios within one run")
    for heading in ("what", "figure", "asked for"):
        table.add_column(heading)
    for line in _lines(given.parquet_gigabytes):
        table.add_row(*line)
    Console(width=150).print(table)


def _lines(gigabytes: float) -> list[tuple[str, str, str]]:
    return [*bench_moments.lines(gigabytes), *bench_fit.lines()]


if __name__ == "__main__":
    main()
