"""Passes over the rows with the local engine, as ratios within one run, and what large tables cost.

    python -m benchmarks engines [--rows 100000000] [--folder DIR]

Absolute times say little of a shared machine, so everything is compared with what the same machine does without us in the
same minute: its own matrix multiply, or reading the same file and doing nothing. The best of several turns counts.
The files are made here, of whole numbers of about 12 bits in row groups of 2^17 rows, and removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.results import Console
from benchmarks.speed.moments import best_times, pass_against_multiply
from smoothsynth._runtime import one_thread
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RowNorms
from smoothsynth.queries.transformation import Transformation, knot_places
from smoothsynth.schema import Number, Schema

COLUMNS = 20
GROUP = 2**17
FILE_ROWS = 10_000_000
BYTES_OF_A_ROW = 40
LIMIT = "1GB"
# Columns, degree, rows.
SHAPES = (
    (5, 2, 10**6),
    (20, 2, 10**6),
    (50, 2, 4 * 10**5),
    (100, 2, 2 * 10**5),
    (200, 2, 10**5),
    (10, 3, 4 * 10**5),
    (20, 3, 2 * 10**5),
    (40, 3, 4 * 10**4),
)

_SCRIPT = """
import json, re, sys, time
from pathlib import Path
from benchmarks.speed.engines import passes, schema
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table

files, turns, wanted, limit = json.loads(sys.argv[1])
table, seconds = open_table(files, schema()), {}
for name in wanted:
    features, transformation = passes()[name]
    for _ in range(turns):
        started = time.perf_counter()
        LocalEngine(memory=limit).sums(table, features, transformation=transformation)
        seconds[name] = min(time.perf_counter() - started, seconds.get(name, 1e9))
peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"rows": table.rows, "seconds": seconds, "peak": peak}))
"""


def schema(columns=COLUMNS):
    return Schema({f"c{i}": Number(-3000, 4500) for i in range(columns)})


def passes(columns=COLUMNS):
    """Return the passes of a release (means, ranks of single columns, scores, lengths), plain pairs, and degree 3."""
    bent = np.tile(np.tanh(2 * knot_places()), (columns, 1))
    return {
        "pairs": (total_degree(2, columns), None),
        "means and squares": ([term_feature((c, k)) for k in (1, 2) for c in range(columns)], None),
        "ranks": (
            [term_feature((c, k)) for k in range(1, 13) for c in range(columns)],
            Transformation.from_values(bent),
        ),
        "scores": (total_degree(2, columns), Transformation.from_values(bent, ClippedSecondMoments(1.0))),
        "lengths": ([term_feature((0, k)) for k in range(1, 5)], Transformation.from_values(bent[:1], RowNorms())),
        "degree 3": (total_degree(3, columns), None),
    }


RELEASE = ("means and squares", "ranks", "scores", "lengths")


def rows_in_memory(columns, rows):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    return pa.table({f"c{i}": rng.normal(0, 1000, rows) for i in range(columns)})


def from_memory(turns=7, rows=1_000_000):
    """Return seconds of each pass over rows in memory, all passes taken in turns."""
    table = open_table(rows_in_memory(COLUMNS, rows), schema())
    actions = {
        name: lambda features=features, transformation=transformation: LocalEngine().sums(
            table, features, transformation=transformation
        )
        for name, (features, transformation) in passes().items()
    }
    return best_times(actions, turns)


def by_shape(shapes, turns=3):
    """Return nanoseconds for a row, for each number of columns and degree."""
    found = {}
    for columns, degree, rows in shapes:
        table, features = open_table(rows_in_memory(columns, rows), schema(columns)), total_degree(degree, columns)
        (seconds,) = best_times({"pass": partial(LocalEngine().sums, table, features)}, turns).values()
        found[columns, degree] = (len(features), seconds / rows * 1e9)
    return found


def write_files(folder, rows):
    """Write Parquet files of FILE_ROWS rows, as pyarrow does by default: one is made, the others are copies of it."""
    import pyarrow as pa
    from pyarrow import parquet

    free = shutil.disk_usage(folder).free
    if free < 2 * rows * BYTES_OF_A_ROW:
        raise SystemExit(f"{2 * rows * BYTES_OF_A_ROW / 1e9:.0f} GB of disk are needed; {free / 1e9:.0f} are free.")
    names = [f"c{i}" for i in range(COLUMNS)]
    pool = np.random.default_rng(0).normal(0, 1000, (COLUMNS, 2 * GROUP)).astype(np.int16)
    kinds = pa.schema([(name, pa.int16()) for name in names])
    sizes = sorted({10**5, 10**6, min(rows, FILE_ROWS)})
    for size in sizes:
        with parquet.ParquetWriter(folder / f"{size}.parquet", kinds) as writer:
            for number, start in enumerate(range(0, size, GROUP)):
                many = min(GROUP, size - start)
                # Another part of the pool for each column and row group.
                begins = [(7919 * (number + 1) * (i + 1)) % GROUP for i in range(COLUMNS)]
                columns = [pool[i, begin : begin + many] for i, begin in enumerate(begins)]
                writer.write_table(pa.table(columns, schema=kinds), row_group_size=GROUP)
    largest = folder / f"{sizes[-1]}.parquet"
    copies = [largest]
    for i in range(1, rows // sizes[-1]):
        copies.append(folder / f"copy-{i}.parquet")
        shutil.copy(largest, copies[-1])
    return {**{size: [str(folder / f"{size}.parquet")] for size in sizes}, rows: [str(path) for path in copies]}


def in_a_process(files, *, turns, wanted, limit=LIMIT):
    """Return rows, seconds of each pass and peak memory of a process that does nothing else."""
    asked = json.dumps([files, turns, wanted, limit])
    done = subprocess.run([sys.executable, "-c", _SCRIPT, asked], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def read_and_do_nothing(files, *, threads=True):
    from pyarrow import parquet

    names = list(schema().names)
    for path in files:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18) as file:
            for _ in file.iter_batches(batch_size=2**17, columns=names, use_threads=threads):
                pass


def read_and_multiply(files):
    """Do what any pass of pairs must at least: read a file, turn its cells into doubles, and multiply them, [1, x]' x."""
    from pyarrow import parquet

    tall, total = np.ones((COLUMNS + 1, 2**12)), np.zeros((COLUMNS + 1, COLUMNS))
    for path in files:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18) as file:
            for batch in file.iter_batches(batch_size=2**12, columns=list(schema().names), use_threads=False):
                many = batch.num_rows
                for own, column in zip(tall[1:], batch.columns, strict=True):
                    own[:many] = column.to_numpy()
                total += np.dot(tall[:, :many], tall[1:, :many].T)
    return total


def against_reading(files, turns=7):
    """Return the time of the pair pass over that of reading the file, in all threads, and seconds a row.

    Then its processor time in one thread over that of reading the file, and of reading it and one matrix multiply.
    """
    table, (features, transformation) = open_table(files, schema()), passes()["pairs"]
    times = best_times(
        {
            "read": lambda: read_and_do_nothing(files),
            "pass": lambda: LocalEngine().sums(table, features, transformation=transformation),
        },
        turns,
    )
    with one_thread():
        one = least_processor_time(
            {
                "read": lambda: read_and_do_nothing(files, threads=False),
                "multiply": lambda: read_and_multiply(files),
                "pass": lambda: LocalEngine(threads=1).sums(table, features, transformation=transformation),
            },
            turns,
        )
    over = [one["pass"] / one[name] for name in ("read", "multiply")]
    return times["pass"] / times["read"], times["pass"] / table.rows, *over


def least_processor_time(actions, turns):
    """Return the least processor time of each action: others on the same machine disturb it less."""
    return best_times(actions, turns, clock=time.process_time)


def processor_time_over_multiply(turns=9, rows=500_000):
    """Return the processor time of the pair pass over that of one dgemm  [1, x]' x,  each in one thread."""
    data = rows_in_memory(COLUMNS, rows)
    tall = np.stack([np.ones(rows), *(column.to_numpy() for column in data.columns)])
    table, (features, transformation) = open_table(data, schema()), passes()["pairs"]
    with one_thread():
        least = least_processor_time(
            {
                "multiply": lambda: np.dot(tall, tall[1:].T),
                "pass": lambda: LocalEngine(threads=1).sums(table, features, transformation=transformation),
            },
            turns,
        )
    return least["pass"] / least["multiply"]


def write_doubles(path, rows=10**6):
    """Write doubles with three decimals, as pyarrow does by default."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    columns = {name: np.round(rng.normal(0, 1000, rows), 3) for name in schema().names}
    parquet.write_table(pa.table(columns), path, row_group_size=GROUP)
    return [str(path)]


def exponent(rows, seconds):
    """Fit  log seconds = a + exponent log rows."""
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def memory_ratios(show):
    two = pass_against_multiply(degree=2, rounds=15)
    show("pairs, d = 20, from memory, over dgemm of the same shape", f"{two['all threads']:.2f} times", "< 2 times")
    show("   one thread against one thread", f"{two['one thread']:.2f} times", "")
    show("   the same, in processor time", f"{processor_time_over_multiply():.2f} times", "")
    show("   rows per second", f"{two['million rows per second']:.1f} million", "")
    times = from_memory()
    each = (times["degree 3"] / 1770) / (times["pairs"] / 230)
    show("degree 3 (R = 1770), for each feature, over pairs (R = 230)", f"{each:.2f} times", "< 3 times")
    for name in RELEASE:
        show(f"the pass for {name}, over pairs", f"{times[name] / times['pairs']:.2f} times", "")
    for (columns, degree), (count, cost) in by_shape(SHAPES).items():
        show(f"d = {columns}, degree {degree}: R = {count:,}", f"{cost:.0f} ns a row, {cost / count:.2f} a feature", "")


def file_ratios(show, rows, folder):
    started = time.perf_counter()
    files = write_files(folder, rows)
    size = sum(Path(path).stat().st_size for path in files[rows])
    show(
        f"written: {rows:,} rows x {COLUMNS}, Parquet", f"{size / 1e9:.2f} GB", f"{time.perf_counter() - started:.0f} s"
    )
    for kind, paths in {"doubles": write_doubles(folder / "doubles.parquet"), "int16": files[10**6]}.items():
        ratio, seconds, processor, least = against_reading(paths)
        show(f"pairs from Parquet ({kind}), over reading it and doing nothing", f"{ratio:.2f} times", "< 1.5 times")
        show("   the same, in processor time of one thread", f"{processor:.2f} times", "")
        show("   over reading it and one dgemm of its doubles", f"{least:.2f} times", "")
        show("   rows per second", f"{1e-6 / seconds:.1f} million", "")
    found = {}
    for count, paths in sorted(files.items()):
        wanted = ["pairs"] if count == rows and rows > FILE_ROWS else ["pairs", *RELEASE]
        found[count] = in_a_process(paths, turns=max(1, min(9, 10**7 // count)), wanted=wanted)
        each = {name: f"{taken / count * 1e9:.0f}" for name, taken in found[count]["seconds"].items()}
        show(f"{count:,} rows, ns a row: {each}", f"peak {found[count]['peak'] / 1e6:.0f} MB", "< 1000 MB")
    counts = sorted(found)
    seconds = [found[count]["seconds"]["pairs"] for count in counts]
    show(
        f"exponent of the cost from {counts[0]:,} to {counts[-1]:,} rows",
        f"{exponent(counts, seconds):.3f}",
        "0.95 to 1.05",
    )
    show("10^9 rows, pairs, by extrapolation", f"{in_words(_extrapolated(counts, seconds))}", "")
    three = [count for count in counts if "ranks" in found[count]["seconds"]]
    whole = [sum(found[count]["seconds"][name] for name in RELEASE) for count in three]
    show(f"10^9 rows, the four passes of a release, from {len(three)} sizes", in_words(_extrapolated(three, whole)), "")


def _extrapolated(counts, seconds):
    """Extend the straight line through the largest two sizes: small tables pay for the start as well."""
    (a, b), (s, t) = counts[-2:], seconds[-2:]
    return s + (t - s) / (b - a) * (10**9 - a)


def in_words(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def main() -> None:
    """Print all figures, each beside its target."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=10**8, help="rows of the largest table, a multiple of ten million")
    parser.add_argument("--folder", help="where the files are made and removed [default: the temporary folder]")
    parser.add_argument("--only", choices=["memory", "files"])
    given = parser.parse_args()
    if given.rows < 10**7 or math.remainder(given.rows, FILE_ROWS):
        parser.error("--rows must be a multiple of 10000000")
    table = Table(title="The local engine: ratios within one run", title_justify="left")
    for heading in ("what", "figure", "target"):
        table.add_column(heading)

    def show(*line):
        print(*line, sep=" | ", file=sys.stderr, flush=True)
        table.add_row(*line)

    if given.only != "files":
        memory_ratios(show)
    if given.only != "memory":
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            file_ratios(show, given.rows, Path(folder))
    Console(width=150).print(table)
