"""Whole releases: time and memory of each in a process of its own, beside its passes over the rows.

    python -m benchmarks releases [--growth] [--largest 1000000]

Tables are made here: numbers with five common factors, and categories cut from such numbers; (1, 1e-6) unless said. With
--growth, time and memory against rows, columns and levels, with the exponents; `python -m benchmarks figures growth` draws
them as recorded by --record growth. A table of 10^8 rows takes 4 GB of disk while it is there. Keep the machine quiet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.progress import track
from rich.table import Table

from benchmarks.results import Console

DELTA = 1e-6
# Name, rows, columns of numbers, of categories, levels of these, delta, most seconds.
CASES = (
    ("10^6 x 20 doubles", 10**6, 20, 0, 0, DELTA, 20.0),
    ("20,000 x 40", 20_000, 40, 0, 0, DELTA, 5.0),
    ("30,000 x 14, mixed", 30_000, 6, 8, 8, DELTA, 8.0),
    ("569 x 30, pure epsilon", 569, 30, 0, 0, 0.0, 0.5),
)
MOST_MEMORY, MOST_OUTSIDE, MOST_PLAN = 1000, 2.0, 0.05
# What grows, and what stays as it is.
FIXED = {
    "rows": "Five columns of numbers",
    "columns": "10,000 rows of numbers",
    "levels": "20,000 rows, two of six columns categories",
}
GROWTH = {
    "rows": [(rows, 5, 0, 0) for power in range(4, 8) for rows in (10**power, 3 * 10**power)] + [(10**8, 5, 0, 0)],
    "columns": [(10_000, columns, 0, 0) for columns in (5, 10, 20, 50, 100, 200)],
    "levels": [(20_000, 4, 2, levels) for levels in (10, 30, 100, 300, 1000)],
}

_SCRIPT = """
import json, re, sys, time
from pathlib import Path

import smoothsynth as ss
from smoothsynth.private.engines.local import LocalEngine

file, columns, levels, delta = json.loads(sys.argv[1])
kinds = {name: ss.Category([str(k) for k in range(levels)]) if name[0] == "k" else ss.Number(-4.0, 4.0) for name in columns}
passes, plain = [], LocalEngine.sums

def timed(self, *given, **named):
    started = time.perf_counter()
    try:
        return plain(self, *given, **named)
    finally:
        passes.append(time.perf_counter() - started)

LocalEngine.sums = timed
schema, found = ss.Schema(kinds), {}
started, processor = time.perf_counter(), time.process_time()
release = ss.release(file, schema=schema, epsilon=1.0, delta=delta)
found["seconds"], found["processor"] = time.perf_counter() - started, time.process_time() - processor
found["passes"], found["count"] = sum(passes), len(passes)
found["peak"] = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1e3
print(json.dumps(found))
"""

_PLAN = """
import time
import smoothsynth as ss
ss.plan(ss.Schema({"a": ss.Number(0, 1)}), rows=1000, epsilon=1.0, delta=1e-6)
schema, best = ss.Schema({f"c{i}": ss.Number(0, 1) for i in range(100)}), 1e9
for turn in range(5):
    started = time.process_time()
    ss.plan(schema, rows=20_000 + turn, epsilon=1.0, delta=1e-6)
    best = min(best, time.process_time() - started)
print(best)
"""


def main() -> None:
    """Print a line for each release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--growth", action="store_true", help="time and memory against rows, columns and levels")
    parser.add_argument("--largest", type=int, default=10**6, help="rows of the largest table of --growth [1000000]")
    given = parser.parse_args()
    if given.growth:
        grow(given.largest)
        return
    table = Table(title="Whole releases", title_justify="left")
    for heading in ("what", "figure", "of which passes", "the rest over passes", "bar"):
        table.add_column(heading)
    for line in lines():
        table.add_row(*line)
    Console(width=150).print(table)


def lines() -> list[tuple[str, str, str, str, str]]:
    """Measure every case, and a plan."""
    found = []
    for name, rows, numbers, categories, levels, delta, most in CASES:
        one = release(rows, numbers, categories, levels, delta)
        rest = (one["seconds"] - one["passes"]) / one["passes"]
        figure = f"{one['seconds']:.1f} s, {one['processor']:.1f} s of processor time"
        found.append((name, figure, f"{one['passes']:.1f} s", f"{rest:.1f}", f"{most:g} s"))
        if rows == 10**6:
            found.append(("   peak memory", f"{one['peak']:.0f} MB", "", "", f"{MOST_MEMORY} MB"))
    done = subprocess.run([sys.executable, "-c", _PLAN], check=True, capture_output=True, text=True)
    found.append(("plan of 100 columns", f"{float(done.stdout) * 1e3:.0f} ms", "", "", f"{MOST_PLAN * 1e3:.0f} ms"))
    return found


def release(rows: int, numbers: int, categories: int, levels: int, delta: float = DELTA) -> dict[str, float]:
    """Return what a release of a made-up table takes in a process that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.parquet"
        names = write(file, rows, numbers, categories, levels)
        asked = json.dumps([str(file), names, levels, delta])
        done = subprocess.run([sys.executable, "-c", _SCRIPT, asked], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def write(file: Path, rows: int, numbers: int, categories: int, levels: int, part: int = 10**5) -> list[str]:
    """Write a made-up table in parts; return the names of its columns, those of categories with a k."""
    import pyarrow as pa
    from pyarrow import parquet

    names = [f"c{i}" for i in range(numbers)] + [f"k{i}" for i in range(categories)]
    mixing = np.random.default_rng(1).normal(size=(5, len(names))) / 5**0.5
    schema = pa.schema([(name, pa.string() if name[0] == "k" else pa.float64()) for name in names])
    with parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, rows, part):
            generator, many = np.random.default_rng([2, start]), min(part, rows - start)
            cells = generator.normal(size=(many, 5)) @ mixing + 0.5 * generator.normal(size=(many, len(names)))
            columns = [
                pa.array(_levels(column, levels)) if name[0] == "k" else pa.array(np.clip(column, -4.0, 4.0))
                for name, column in zip(names, cells.T, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema))
    return names


def _levels(column, levels):
    """Cut numbers into levels, the first of which are the most frequent."""
    places = np.minimum(np.abs(column) / 2.0, 0.999) * levels
    return places.astype(np.int64).astype(str)


def grow(largest: int) -> None:
    """Measure along each axis, and print a table for each."""
    for axis, shapes in GROWTH.items():
        found: list[dict[str, float]] = []
        for rows, numbers, categories, levels in track(shapes, description=axis, transient=True):
            if rows <= largest:
                size = {"rows": rows, "columns": numbers, "levels": levels}[axis]
                found.append({"size": size, **release(rows, numbers, categories, levels)})
        shown = Table(title=f"{FIXED[axis]}: seconds grow with the power {exponent(found):.2f} over the upper half")
        for heading in (axis, "seconds", "of which passes", "processor time", "MB"):
            shown.add_column(heading)
        for one in found:
            times = (f"{one[name]:.1f}" for name in ("seconds", "passes", "processor"))
            shown.add_row(f"{one['size']:,.0f}", *times, f"{one['peak']:.0f}")
        Console(width=150).print(shown)


def exponent(found: list[dict[str, float]]) -> float:
    """Return the slope of logarithms over the larger half of the sizes; small tables pay for the start."""
    upper = found[len(found) // 2 :] if len(found) > 3 else found
    sizes, values = (np.log([line[key] for line in upper]) for key in ("size", "seconds"))
    return float(np.polyfit(sizes, values, 1)[0])
