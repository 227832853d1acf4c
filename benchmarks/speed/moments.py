"""The moment pass against the machine's own matrix multiply, and its peak memory over a Parquet file.

    python -m benchmarks moments [--gigabytes 0.5]

Times are best of several runs, taken in turns, and reported as ratios: absolute times say little of a
shared machine. Peak memory is that of a process that does nothing else. Temporary files are removed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothsynth._runtime import one_thread
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree
from smoothsynth.schema import Number, Schema

_SCRIPT = """
import json, re, resource, sys, time
from pathlib import Path
from smoothsynth.queries.bases import total_degree
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.schema import Number, Schema

path, columns, degree = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
table = open_table(path, Schema({f"c{i}": Number(-3.0, 4.5) for i in range(columns)}))

def peak():
    # The resource counter of Linux begins at what the parent process had; that of /proc does not.
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\\s*(\\d+)", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

before = peak()
start = time.perf_counter()
LocalEngine().sums(table, total_degree(degree, columns))
seconds = time.perf_counter() - start
print(json.dumps({"rows": table.rows, "seconds": seconds, "peak": peak(), "before": before}))
"""


def _schema(columns):
    return Schema({f"c{i}": Number(-3.0, 4.5) for i in range(columns)})


def best_times(actions, rounds, *, clock=time.perf_counter):
    """Return the best time of each action, all of them taken in turns."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            start = clock()
            action()
            best[name] = min(best[name], clock() - start)
    return best


def pass_against_multiply(*, columns=20, rows=1_000_000, degree=2, rounds=10):
    """Return the time of the pass over the time of one dgemm of the same numbers, for one and all threads.

    The product is [1, x]' x over all rows, in doubles: what degree 2 needs at least.
    """
    import pyarrow as pa

    rng = np.random.default_rng(0)
    values = rng.normal(size=(columns, rows))
    table = open_table(pa.table({f"c{i}": values[i] for i in range(columns)}), _schema(columns))
    features = total_degree(degree, columns)
    tall = np.concatenate([np.ones((1, rows)), values])

    def multiply():
        with one_thread():
            np.dot(tall, tall[1:].T)

    times = best_times(
        {
            "multiply, one thread": multiply,
            "multiply, all threads": lambda: np.dot(tall, tall[1:].T),
            "pass, one thread": lambda: LocalEngine(threads=1).sums(table, features),
            "pass, all threads": lambda: LocalEngine().sums(table, features),
        },
        rounds,
    )
    own = {name: times[f"multiply, {name}"] for name in ("one thread", "all threads")}
    return {
        "one thread": times["pass, one thread"] / own["one thread"],
        "all threads": times["pass, all threads"] / min(own.values()),
        "million rows per second": rows / times["pass, all threads"] / 1e6,
    }


def peak_memory(*, gigabytes=0.5, columns=20, degree=2, row_group=None):
    """Return the peak memory, in bytes, of a pass over a Parquet file of that size in its own process.

    `row_group` is the number of rows in a row group; None puts the whole file in one, the worst case.
    """
    rows = int(gigabytes * 1e9 / (8 * columns))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        _write_parquet(path, columns=columns, rows=rows, row_group=row_group or rows)
        command = [sys.executable, "-c", _SCRIPT, str(path), str(columns), str(degree)]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return {**json.loads(shown), "file": path.stat().st_size}


def _write_parquet(path, *, columns, rows, row_group):
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"c{i}" for i in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    rng = np.random.default_rng(0)
    with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for start in range(0, rows, row_group):
            size = min(row_group, rows - start)
            group = pa.table([rng.normal(size=size) for _ in names], schema=schema)
            writer.write_table(group, row_group_size=row_group)
    assert parquet.read_metadata(path).num_row_groups == -(-rows // row_group)


def main():
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.5, help="size of the Parquet file")
    given = parser.parse_args()
    for degree in (2, 3):
        ratios = pass_against_multiply(degree=degree, rounds=10 if degree == 2 else 3)
        print(f"pass of degree {degree}, 20 columns, 10^6 rows, over one matrix multiply: ", ratios)
    for row_group in (2**17, None):
        found = peak_memory(gigabytes=given.gigabytes, row_group=row_group)
        print(f"Parquet in row groups of {row_group or 'all rows'}: ", found)
