"""Spark and Dask on two local processes against the local engine, on the same files, in one run.

    python -m benchmarks clusters [--rows 4000000] [--rounds 3]

The rate of an engine over that of the local engine, each by its best round, taken in turns, for three passes of a release;
what the cluster takes to hand the rows of its own frame to Python, where they are counted and no more; and apart from all
rows, the seconds from nothing to the sums of a table of ten, and of one more such pass. Files are removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.results import Console
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import term_feature, total_degree
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation, knot_places
from smoothsynth.schema import Number, Schema

COLUMNS, FILES, HATS, RANKS = 20, 8, 8, 32
SCHEMA = Schema({f"c{i}": Number(-3.0, 4.5) for i in range(COLUMNS)})
TARGETS = {"Spark, files": ">= 0.6", "Dask, files": ">= 0.6", "Spark, its frame": ">= 0.3", "Dask, its frame": ">= 0.3"}


def passes():
    """Return the features and the transformation of each pass: pairs, tables of two columns, ranks of single columns."""
    bent = np.tile(np.tanh(2 * knot_places()), (COLUMNS, 1))
    family = SoftTables(tuple(TableColumn(c, HATS) for c in range(COLUMNS)), 2)
    tables = tuple(itertools.combinations(range(COLUMNS), 2))
    ranks = [term_feature((c, j)) for c in range(COLUMNS) for j in range(1, RANKS + 1)]
    return {
        "degree 2": (total_degree(2, COLUMNS), None),
        "soft tables": (family.cells(tables), Transformation.from_values(bent, family)),
        "rank histograms": (ranks, Transformation.from_values(bent, RankHistogram(RANKS))),
    }


def main() -> None:
    """Print all ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as clusters:
        folder, small = Path(place) / "rows", Path(place) / "small"
        write(folder, rows=given.rows, files=FILES)
        write(small, rows=10, files=1)
        lines, jobs = [], {"local": (LocalEngine(), folder), "local, one thread": (LocalEngine(threads=1), folder)}
        floors = {}
        for name, start in (("Spark", start_spark), ("Dask", start_dask)):
            began = time.perf_counter()
            engine, frame, count = start(clusters, Path(place))
            few, features = open_table(small, SCHEMA), passes()["degree 2"][0]
            lines.append(
                (f"{name}: from nothing to the first sums", f"{seconds_of(engine, few, features, began):.1f} s")
            )
            again = min(seconds_of(engine, few, features) for _ in range(5))
            lines.append((f"{name}: a pass over ten rows", f"{again:.2f} s"))
            own = frame(folder)
            jobs |= {f"{name}, files": (engine, folder), f"{name}, its frame": (engine, own)}
            floors[f"{name}, rows of its frame counted"] = partial(count, own)
        lines += ratios(given.rows, jobs, floors, rounds=given.rounds)
    shown = Table(
        title=f"{given.rows:,} rows x {COLUMNS} in {FILES} files, {os.cpu_count()} cores, rates over the local"
    )
    for heading in ("what", *passes(), "target"):
        shown.add_column(heading)
    for line in lines:
        shown.add_row(*line)
    Console(width=120).print(shown)


def seconds_of(engine, table, features, began=None):
    """Return the seconds that one pass takes, or since something began."""
    began = time.perf_counter() if began is None else began
    engine.sums(table, features)
    return time.perf_counter() - began


def ratios(rows, jobs, floors, *, rounds):
    """Return the rates over that of the local engine, after a check that all sums are equal."""
    tables = {name: open_table(data, SCHEMA) for name, (_, data) in jobs.items()}
    found = {name: [] for name in (*jobs, *floors)}
    for features, transformation in passes().values():
        best, sums = dict.fromkeys(found, float("inf")), set()
        for _ in range(rounds):
            for name, (engine, _) in jobs.items():
                began = time.perf_counter()
                sums.add(engine.sums(tables[name], features, transformation=transformation).unseal())
                best[name] = min(best[name], time.perf_counter() - began)
            for name, count in floors.items():
                began = time.perf_counter()
                assert count() == rows
                best[name] = min(best[name], time.perf_counter() - began)
        assert len(sums) == 1, "every engine returns the same integers"
        for name, seconds in best.items():
            found[name].append(f"{best['local'] / seconds:.2f}")
        found["local"][-1] = f"{rows / best['local'] / 1e6:.2f} million rows/s"
    return [(name, *each, TARGETS.get(name, "")) for name, each in found.items()]


def write(folder, *, rows, files):
    """Write normal numbers into so many Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(files):
        part = {name: rng.normal(size=rows // files) for name in SCHEMA.names}
        parquet.write_table(pa.table(part), folder / f"{i}.parquet", use_dictionary=False, row_group_size=2**17)


def start_spark(clusters, place):
    """Start a Spark cluster with two executor processes; return its engine, and how it reads a folder."""
    import pyspark
    from pyspark.sql import SparkSession

    from smoothsynth.private.engines.spark import SparkEngine

    # A local cluster works in a folder of its home: this one is removed with everything else.
    home = place / "spark"
    home.mkdir()
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    os.environ |= {"SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(place / "local")}
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.executor.memory", "768m")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    session = builder.getOrCreate()
    clusters.callback(session.stop)
    return SparkEngine(session), lambda folder: session.read.parquet(str(folder)), count_spark


def count_spark(frame):
    """Hand all rows to the Python of the executors, and count them there."""
    import pyarrow as pa

    def counted(batches):
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    return sum(row.rows for row in frame.mapInArrow(counted, "rows long").collect())


def start_dask(clusters, place):
    """Start a Dask cluster with two worker processes; return its engine, and how it reads a folder."""
    from dask import dataframe
    from distributed import Client, LocalCluster

    from smoothsynth.private.engines.dask import DaskEngine

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(place))
    client = clusters.enter_context(Client(clusters.enter_context(cluster)))
    return DaskEngine(client), lambda folder: dataframe.read_parquet(str(folder)), count_dask


def count_dask(frame):
    """Make all partitions, and count their rows there."""
    return int(frame.map_partitions(len).compute().sum())
