"""Damage Arrow and Parquet files, and say of each what became of it: the child process of benchmarks/robustness/fuzz.py.

    python -m benchmarks.robustness.fuzz_files {arrow,parquet} SEED START STOP

Input i depends on the seed and on i alone. Each gets one line: accepted, refused, or what was raised. Arrow reads such
files in C++, where damage that nobody notices ends the process; whoever started this one then sees where.
"""

from __future__ import annotations

import datetime
import io
import resource
import signal
import sys
import tempfile
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import smoothsynth as ss
from benchmarks.robustness.fuzz import SENTINEL, Count, damaged_bytes, use_table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 60
MOST_MEMORY, MOST_SECONDS = 4 * 2**30, 60
WORDS = ["x", "y", None, f"secret {SENTINEL}"] * (ROWS // 4)
NUMBERS = [
    b"\xff\xff\xff\x7f",
    b"\xff" * 4,
    b"\0\0\0\x80",
    b"\xff" * 7 + b"\x7f",
    b"\xff" * 8,
    b"\0" * 7 + b"\x10",
    b"\0" * 8,
]
LEVELS = ss.Category(["x", "y"], nullable=True)
SCHEMA = ss.Schema({
    "age": ss.Number(0, 120), "visits": ss.Integer(0, 20, nullable=True), "city": LEVELS, "long": LEVELS, "kind": LEVELS,
    "view": LEVELS, "smokes": ss.Boolean(), "born": ss.Date("1900-01-01", "2020-01-01"), "cost": ss.Number(0, 10),
    "seen": ss.Datetime("2000-01-01T00:00:00", "2020-01-01T00:00:00"), "group": ss.Integer(0, 9), "none": ss.Number(0, 1),
})  # fmt: skip


def rows(*, transformations: bool) -> pa.Table:
    """Return a table with a column of every layout that can be read."""
    texts = pa.array(WORDS)
    return pa.table({
        "age": [float(SENTINEL)] * ROWS, "visits": pa.array([None, 1, 2] * (ROWS // 3), pa.int32()), "city": texts,
        "long": pa.array(WORDS, pa.large_string()), "kind": texts.dictionary_encode(),
        "view": pa.array(WORDS, pa.string_view()) if transformations and hasattr(pa, "string_view") else texts,
        "smokes": [True, False, None] * (ROWS // 3), "born": [datetime.date(1950, 1, 1)] * ROWS,
        "cost": pa.array([Decimal("1.25")] * ROWS, pa.decimal128(10, 2)),
        "seen": pa.array([datetime.datetime(2010, 1, 1), None] * (ROWS // 2), pa.timestamp("us")),
        "group": pa.array([1, 2] * (ROWS // 2)).dictionary_encode(), "none": pa.nulls(ROWS),
    })  # fmt: skip


def arrow_files() -> Iterator[bytes]:
    """Write the table as Arrow files and streams, as they are and compressed."""
    table = rows(transformations=True)
    for new, kind in product((pa.ipc.new_file, pa.ipc.new_stream), (None, "lz4", "zstd")):
        out = io.BytesIO()
        with new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=kind)) as writer:
            writer.write_table(table, max_chunksize=40)
        yield out.getvalue()


def parquet_files() -> Iterator[bytes]:
    """Write the table as Parquet files with several codecs and encodings."""
    delta = {"visits": "DELTA_BINARY_PACKED", "city": "DELTA_BYTE_ARRAY", "long": "DELTA_LENGTH_BYTE_ARRAY"}
    ways = (
        {},
        {"data_page_version": "2.0"},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": delta},
    )
    for codec, way in product(("none", "snappy", "zstd"), ways):
        out = io.BytesIO()
        parquet.write_table(rows(transformations=False), out, compression=codec, row_group_size=40, **way)
        yield out.getvalue()


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Change bytes, cut or splice them, or put a number in the place of another that no writer would write."""
    if rng.random() < 0.5:
        return damaged_bytes(whole, rng)
    data = bytearray(whole)
    for _ in range(int(rng.integers(1, 4))):
        at, other = (int(place) for place in rng.integers(0, len(data), 2))
        content = NUMBERS[int(rng.integers(0, len(NUMBERS)))] if rng.random() < 0.5 else data[other : other + 40]
        data[at - at % 4 : at - at % 4 + len(content)] = content
    return bytes(data)


def main(kind: str, seed: int, start: int, stop: int) -> None:
    """Go through some inputs; one that takes too long or too much memory ends this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wholes = list(arrow_files() if kind == "arrow" else parquet_files())
    with tempfile.TemporaryDirectory(prefix="smoothsynth-fuzz-") as place:
        path = Path(place) / f"people.{kind}"
        for number in range(start, stop):
            rng = np.random.default_rng([seed, number])
            path.write_bytes(damaged(wholes[int(rng.integers(0, len(wholes)))], rng))
            signal.alarm(MOST_SECONDS)
            count = Count(kind)
            count.tally(lambda: use_table(path, SCHEMA))
            print(
                "accepted" if count.accepted else "refused" if count.refused else next(iter(count.unhandled)),
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
