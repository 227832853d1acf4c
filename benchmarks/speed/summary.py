"""One page on speed: each figure beside what the same machine needs at least in the same run, and the bar.

    python -m benchmarks speed [--gigabytes 2]

Keep the machine quiet. Passes are held against its own matrix multiply and a bare read of the same file, fits against the
linear program of SciPy and ours, whole releases against their own passes over the rows.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from benchmarks.results import Console
from benchmarks.speed import engines, fit, moments, releases, start

if TYPE_CHECKING:
    from collections.abc import Iterator

Line = tuple[str, str, str, str, str]


def main() -> None:
    """Run all, and print each line as soon as it is there, then the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the Parquet file for the memory figure")
    given = parser.parse_args()
    table = Table(title="Speed: ratios within one run", title_justify="left")
    for heading in ("what", "figure", "held against", "ratio", "bar"):
        table.add_column(heading)
    for line in (*passes(given.gigabytes), *reading(), *fits(), *whole(), *starting()):
        table.add_row(*line)
    Console(width=150).print(table)


def passes(gigabytes: float) -> Iterator[Line]:
    """Measure the pass over rows in memory against the machine's own matrix multiply, and its memory."""
    two, three = (moments.pass_against_multiply(degree=d, rounds=10 if d == 2 else 3) for d in (2, 3))
    memory = moments.peak_memory(gigabytes=gigabytes, row_group=2**17)
    rate = f"{two['million rows per second']:.1f} million rows/s"
    yield "moments of degree 2, d = 20, 10^6 rows", rate, "dgemm, all threads", f"{two['all threads']:.2f}", "3"
    yield "   one thread", "", "dgemm, one thread", f"{two['one thread']:.2f}", ""
    yield "moments of degree 3 (R = 1770)", "", "that dgemm", f"{three['all threads']:.1f}", ""
    peak = f"{memory['peak'] / 1e6:.0f} MB"
    yield f"peak memory, Parquet of {memory['file'] / 1e9:.1f} GB", peak, "", "", "500 MB"


def reading() -> Iterator[Line]:
    """Measure the pass of pairs over Parquet files against reading them and doing nothing."""
    with tempfile.TemporaryDirectory() as folder:
        whole_numbers = _write_whole_numbers(Path(folder) / "int16.parquet")
        doubles = engines.write_doubles(Path(folder) / "doubles.parquet")
        for kind, files in (("doubles", doubles), ("int16", whole_numbers)):
            ratio, seconds, processor, least = engines.against_reading(files)
            rate = f"{1e-6 / seconds:.1f} million rows/s"
            yield f"pairs, d = 20, Parquet of {kind}", rate, "a bare read", f"{ratio:.2f}", "1.5"
            yield "   one thread, processor time", "", "a bare read", f"{processor:.2f}", ""
            yield "", "", "that, and one dgemm of its doubles", f"{least:.2f}", ""


def _write_whole_numbers(path: Path, rows: int = 10**6) -> list[str]:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    columns = {name: rng.normal(0, 1000, rows).astype(np.int16) for name in engines.schema().names}
    parquet.write_table(pa.table(columns), path, row_group_size=engines.GROUP)
    return [str(path)]


def fits() -> Iterator[Line]:
    """Measure the linear program against SciPy's, the maximum-entropy fit against our linear program."""
    program, entropy = fit.linear_program_ratio(), fit.maximum_entropy_ratio()
    yield "LP, R = 70, C = 10^4: times faster", "", "scipy linprog", f"{program['times_faster']}", "at least 5"
    yield "maximum entropy, R = 230, C = 10^4: times faster", "", "that LP", f"{entropy['times_faster']}", "at least 1"


def whole() -> Iterator[Line]:
    """Measure whole releases against their own passes."""
    for what, figure, own, ratio, bar in releases.lines():
        yield f"release, {what}" if own else what, figure, f"its passes, {own}" if own else "", ratio, bar


def starting() -> Iterator[Line]:
    """Measure the import, the help and the size."""
    for what, figure, bar in start.lines():
        yield what, figure, "", "", bar


if __name__ == "__main__":
    main()
