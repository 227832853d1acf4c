"""Accuracy of a release beside the paper's printed figures and the baselines (make bench-accuracy)."""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.baselines import BASELINES
from benchmarks.metrics import SIGMAS, Judge
from smoothsynth.paper.datasets import DataSet, available, data_folder
from smoothsynth.paper.printed_tables import printed_table

# What issue-level targets ask of method="auto" at pure epsilon = 1: worst relative error by kernel width.
COLUMNS = [f"rel_{s}" for s in SIGMAS] + ["narrow", "ridge", "polynomial", "w1", "corr"]


def run(data: DataSet, *, epsilon: float, delta: float, rounds: int, queries: int) -> list[dict[str, object]]:
    """Score our release and the baselines on one data set; each round has its own queries and noise."""
    scores: dict[str, list[dict[str, float]]] = defaultdict(list)
    seconds: dict[str, list[float]] = defaultdict(list)
    for round_number in track(range(rounds), description=data.name, transient=True):
        judge = Judge(data.points, queries=queries, seed=round_number)
        started = time.perf_counter()
        release = ss.release(data.path, schema=data.schema, epsilon=epsilon, delta=delta, seed=round_number)
        seconds["smoothsynth"].append(time.perf_counter() - started)
        scores["smoothsynth"].append(judge(release.unit_rows()).as_row())
        rng = np.random.default_rng(round_number)
        for name, baseline in BASELINES.items():
            scores[name].append(judge(baseline(data.points, rng)).as_row())
    return [
        {
            "data": data.name,
            "epsilon": epsilon,
            "delta": delta,
            "method": name,
            "rounds": rounds,
            "queries": queries,
            "seconds": float(np.mean(seconds[name])) if name in seconds else None,
            **{key: float(np.mean([row[key] for row in rows])) for key in rows[0]},
        }
        for name, rows in scores.items()
    ]


def show(console: Console, data: DataSet, results: list[dict[str, object]], *, delta: float) -> None:
    """Print one data set's table, the paper's printed line first."""
    budget = f"epsilon = {results[0]['epsilon']:g}, delta = {delta:g}"
    table = Table(title=f"{data.label}: n = {len(data.points)}, d = {data.points.shape[1]}, {budget}")
    table.add_column("method")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    printed = printed_table("ellipsoid", delta=1e-10 if delta else 0.0).results.get(data.name.upper())
    if printed is not None:
        cells = [f"{printed.relative[s]:.4f}" for s in SIGMAS]
        table.add_row("paper, as printed (not private)", *cells, *[""] * (len(COLUMNS) - len(cells)))
    for result in results:
        table.add_row(str(result["method"]), *(f"{result[c]:.4f}" for c in COLUMNS))
    console.print(table)


def main() -> None:
    """Parse, run, print, write a CSV file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="*", help="names of data sets")
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0])
    parser.add_argument("--delta", type=float, nargs="*", default=[0.0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="2 rounds, 1,000 queries, the four small data sets")
    parser.add_argument("--output", type=Path, help="also write the figures to this CSV file")
    given = parser.parse_args()
    names = tuple(given.only or ("wdbc", "ctg", "pks", "crm"))
    rounds, queries = (2, 1000) if given.quick else (given.rounds, given.queries)
    console, rows = Console(width=180), []
    found, missing = available(data_folder(given.data), names)
    for name in missing:
        console.print(f"skipped: {name} is not in {data_folder(given.data)}")
    for data in found:
        for epsilon in given.epsilon:
            for delta in given.delta:
                results = run(data, epsilon=epsilon, delta=delta, rounds=rounds, queries=queries)
                show(console, data, results, delta=delta)
                rows += results
    console.print(f"{rounds} rounds, {queries:,} queries per width; rel_s: worst relative error at kernel width s.")
    if given.output and rows:
        with given.output.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
