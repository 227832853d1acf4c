"""Spark and Dask on two local processes against the local engine, on the same files, in one run.

    python -m benchmarks clusters [--rows 6000000] [--rounds 5]

The rate of an engine over that of the local engine, each by its best round, taken in turns; and what a cluster costs
before its first row: the seconds from nothing to the sums of a table of ten rows. Files are removed afterwards.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.results import Console
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import total_degree
from smoothsynth.schema import Number, Schema

COLUMNS, FILES = 20, 8
SCHEMA = Schema({f"c{i}": Number(-3.0, 4.5) for i in range(COLUMNS)})
FEATURES = total_degree(2, COLUMNS)


def main() -> None:
    """Print all ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as clusters:
        folder, small = Path(place) / "rows", Path(place) / "small"
        write(folder, rows=given.rows, files=FILES)
        write(small, rows=10, files=1)
        engines, lines = {}, []
        for name, start in (("Spark", start_spark), ("Dask", start_dask)):
            began = time.perf_counter()
            engines[name], frame = start(clusters, Path(place))
            engines[name].sums(open_table(small, SCHEMA), FEATURES)
            lines.append((f"{name}: from nothing to the first sums", f"{time.perf_counter() - began:.1f} s", "< 20 s"))
            engines[f"{name}, its own frame"] = (engines[name], frame(folder))
        lines += ratios(folder, engines, rounds=given.rounds)
    shown = Table(
        title=f"{given.rows:,} rows x {COLUMNS} in {FILES} files, {os.cpu_count()} cores", title_justify="left"
    )
    for heading in ("what", "figure", "target"):
        shown.add_column(heading)
    for line in lines:
        shown.add_row(*line)
    Console(width=120).print(shown)


def ratios(folder, engines, *, rounds):
    """Return the rate of each engine over that of the local one, after a check that all sums are equal."""
    files = open_table(folder, SCHEMA)
    jobs = {"local": (LocalEngine(), files), "local, one thread": (LocalEngine(threads=1), files)}
    for name, engine in engines.items():
        jobs[name] = (engine[0], open_table(engine[1], SCHEMA)) if isinstance(engine, tuple) else (engine, files)
    best, sums = dict.fromkeys(jobs, float("inf")), set()
    for _ in range(rounds):
        for name, (engine, table) in jobs.items():
            began = time.perf_counter()
            sums.add(engine.sums(table, FEATURES).unseal())
            best[name] = min(best[name], time.perf_counter() - began)
    assert len(sums) == 1, "every engine returns the same integers"
    targets = {"Spark": ">= 0.6"}
    rate = [("the local engine", f"{files.rows / best['local'] / 1e6:.1f} million rows/s", "")]
    return rate + [
        (f"{name}, rate over that", f"{best['local'] / best[name]:.2f}", targets.get(name, ""))
        for name in jobs
        if name != "local"
    ]


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
    return SparkEngine(session), lambda folder: session.read.parquet(str(folder))


def start_dask(clusters, place):
    """Start a Dask cluster with two worker processes; return its engine, and how it reads a folder."""
    from dask import dataframe
    from distributed import Client, LocalCluster

    from smoothsynth.private.engines.dask import DaskEngine

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(place))
    client = clusters.enter_context(Client(clusters.enter_context(cluster)))
    return DaskEngine(client), lambda folder: dataframe.read_parquet(str(folder))
