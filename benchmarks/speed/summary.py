"""Speed as ratios within one run: passes over the rows, fits, the import; and the size installed."""

from __future__ import annotations

import argparse

from rich.table import Table

from benchmarks.results import Console
from benchmarks.speed import fit, moments, start


def main() -> None:
    """Run every ratio and print it beside the target of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the Parquet file for the memory figure")
    given = parser.parse_args()
    table = Table(title="Ratios within one run", title_justify="left")
    for heading in ("what", "figure", "target"):
        table.add_column(heading)
    for line in [*passes(given.gigabytes), *fits(), *start.lines()]:
        table.add_row(*line)
    Console(width=150).print(table)


def passes(gigabytes: float) -> list[tuple[str, str, str]]:
    """Measure the pass over the rows, against the machine's own matrix multiply, and its memory."""
    two, three = (moments.pass_against_multiply(degree=d, rounds=10 if d == 2 else 3) for d in (2, 3))
    memory = moments.peak_memory(gigabytes=gigabytes, row_group=2**17)
    return [
        ("moments of degree 2, d = 20, 10^6 rows, over dgemm", f"{two['all threads']:.2f} times", "< 3 times"),
        ("   the same, one thread against one thread", f"{two['one thread']:.2f} times", ""),
        ("   rows per second", f"{two['million rows per second']:.1f} million", ""),
        ("moments of degree 3 (R = 1770), over that dgemm", f"{three['all threads']:.1f} times", ""),
        (f"peak memory, Parquet of {memory['file'] / 1e9:.1f} GB", f"{memory['peak'] / 1e6:.0f} MB", "< 500 MB"),
    ]


def fits() -> list[tuple[str, str, str]]:
    """Measure the linear program against SciPy's, the maximum-entropy fit against our linear program."""
    program, entropy = fit.linear_program_ratio(), fit.maximum_entropy_ratio()
    return [
        ("LP, R = 70, C = 10^4, against scipy linprog", f"{program['times_faster']} times faster", "> 5 times"),
        ("   difference of the optima", f"{program['optimum_difference']:.1e}", "0"),
        ("maximum entropy, R = 230, C = 10^4, against that LP", f"{entropy['times_faster']} times faster", ">= 1"),
    ]
