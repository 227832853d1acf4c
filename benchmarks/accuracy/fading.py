"""How fast the error of kernels on two and three columns fades as a table grows: 10^4 to 10^6 rows.

    python -m benchmarks fading [--only clusters product shell] [--rows 10000 100000 1000000] [--quick] [--epsilon 1]
                                [--delta 1e-6] [--rounds 3] [--questions 200] [--peers [opendp-mst ...]] [--output FILE]

Three made-up tables of four columns whose dependence no correlation can tell: six clusters, c = tanh(6 a b) with noise, and
a shell in three of the columns. They are drawn anew in each round. A figure is the mean relative error of Gaussian kernels
whose centres are rows of the table and whose width is half a standard deviation of each column, against all private rows.
A slope is that of log error against log rows by least squares: -1/2 is the sampling error that a bootstrap has, 0 is bias.
Each run is kept in the results file, in place of an earlier one of the same kind; `python -m benchmarks figures fading`
draws docs/images/fading.svg from it. Peers see 32 bins; AIM is given all triples of columns.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.runs import parser, runs, shown
from benchmarks.peers.run import keep
from benchmarks.results import Console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Line = dict[str, object]

RESULTS = Path(__file__).with_name("fading.csv")
KEY = ("table", "rows", "epsilon", "delta", "method", "round")
ERRORS = {"pairs": 2, "triples": 3}
COST = ("seconds", "memory_mb")
SCHEMA = ss.Schema({name: ss.Number(-1, 1) for name in "abcd"})
SIZES = (10_000, 100_000, 1_000_000)
# Of each column's standard deviation.
WIDTH = 0.5


def clusters(rows: int, rng: np.random.Generator) -> Points:
    """Return six clouds of points, at the same places in every table."""
    centres = np.random.default_rng(5).uniform(-0.7, 0.7, (6, 4))
    return centres[rng.integers(0, 6, rows)] + 0.08 * rng.normal(size=(rows, 4))


def product(rows: int, rng: np.random.Generator) -> Points:
    """Return two uniform columns, a third that depends on their product alone, and one by itself."""
    a, b = rng.uniform(-0.9, 0.9, (2, rows))
    return np.column_stack([a, b, 0.8 * np.tanh(6 * a * b) + 0.1 * rng.normal(size=rows), rng.normal(0, 0.3, rows)])


def shell(rows: int, rng: np.random.Generator) -> Points:
    """Return points near a sphere in three columns, and a uniform column."""
    direction = rng.normal(size=(rows, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.column_stack([direction * (0.6 + 0.08 * rng.normal(size=(rows, 1))), rng.uniform(-1, 1, rows)])


TABLES: dict[str, Callable[[int, np.random.Generator], Points]] = {
    "clusters": clusters,
    "product": product,
    "shell": shell,
}


class Kernels:
    """Gaussian kernels on so many columns, answered once on the private rows."""

    def __init__(self, real: Points, *, columns: int, questions: int, rng: np.random.Generator) -> None:
        self._unit = WIDTH * real.std(axis=0)
        chosen = [rng.choice(real.shape[1], columns, replace=False) for _ in range(questions)]
        self._asked = [(c, real[rng.integers(len(real)), c] / self._unit[c]) for c in chosen]
        self._true = self._answers(real)

    def __call__(self, made: Points) -> float:
        """Return the mean relative error of a table."""
        return float(np.mean(np.abs(self._answers(made) / self._true - 1.0)))

    def _answers(self, points: Points) -> Points:
        # Columns first: a kernel then reads two or three runs of memory, not all rows.
        scaled = np.ascontiguousarray((points / self._unit).T)
        return np.array([np.exp(_half_squares(scaled[c], centre)).mean() for c, centre in self._asked])


def _half_squares(columns: Points, centre: Points) -> Points:
    return -0.5 * sum((column - at) ** 2 for column, at in zip(columns, centre, strict=True))


def lines(name: str, rows: int, given: argparse.Namespace, *, delta: float, seed: int) -> Iterator[Line]:
    """Yield the results of all methods on one table."""
    rng = np.random.default_rng([seed, rows])
    real = np.clip(TABLES[name](rows, rng), -1.0, 1.0)
    judges = {label: Kernels(real, columns=k, questions=given.questions, rng=rng) for label, k in ERRORS.items()}
    frame = pd.DataFrame(real, columns=list(SCHEMA.names))
    for run in runs(frame, SCHEMA, given, delta=delta, seed=seed, order=3):
        key = dict(zip(KEY, (name, rows, given.epsilon, delta, run.method, seed), strict=True))
        errors = {label: None if run.points is None else judge(run.points) for label, judge in judges.items()}
        yield {**key, **errors, "seconds": run.seconds, "memory_mb": run.memory_mb, "status": run.status}


def read(path: Path) -> list[Line]:
    """Return the lines of a results file, figures as numbers and None where there is none."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _figure(name, word) for name, word in line.items()} for line in csv.DictReader(file)]


def _figure(name: str, word: str) -> object:
    if name in ("table", "method", "status"):
        return word
    return int(word) if name in ("rows", "round") else float(word) if word else None


def curve(found: Sequence[Line], table: str, method: str, figure: str) -> dict[int, float]:
    """Return the mean of a figure of a method over rounds, by the number of rows; sizes without one are left out."""
    mine = [line for line in found if (line["table"], line["method"]) == (table, method) and line[figure] is not None]
    sizes = sorted({int(line["rows"]) for line in mine})
    return {n: float(np.mean([line[figure] for line in mine if line["rows"] == n])) for n in sizes}


def slope(errors: dict[int, float]) -> float | None:
    """Return the slope of log error against log rows, or None of fewer than two sizes."""
    if len(errors) < 2:
        return None
    return float(np.polyfit(np.log(list(errors)), np.log(list(errors.values())), 1)[0])


def table_of(found: Sequence[Line], *, title: str) -> Table:
    """Return a line for each table and method: errors and cost at each size, and slopes."""
    sizes = sorted({int(line["rows"]) for line in found})
    made = Table("table", "method", *(f"{n:,}: 2 / 3 columns" for n in sizes), "slopes", "seconds", "MB", title=title)
    for name, method in dict.fromkeys((str(line["table"]), str(line["method"])) for line in found):
        curves = [curve(found, name, method, error) for error in ERRORS]
        errors = [" / ".join(shown(one.get(n), ".4f") or "none" for one in curves) for n in sizes]
        cost = [curve(found, name, method, figure) for figure in COST]
        costs = [" / ".join(format(value, ".0f") for value in one.values()) for one in cost]
        made.add_row(name, method, *errors, " / ".join(shown(slope(one), ".2f") for one in curves), *costs)
    return made


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    made = parser(__doc__, rounds=3, delta=(1e-6,))
    made.set_defaults(model_mb=80)
    made.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    made.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    made.add_argument("--quick", action="store_true", help="leave out tables of a million rows")
    made.add_argument("--questions", type=int, default=200, help="kernels on two, and on three columns")
    made.add_argument("--output", type=Path, default=RESULTS, help="results file")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all, keep each result as soon as it is there, print a table for each budget."""
    given, console = parse(arguments), Console(width=150)
    sizes = [n for n in given.rows if not given.quick or n < SIZES[-1]]
    for delta in given.delta:
        cells, found = list(itertools.product(sizes, given.only, range(given.rounds))), []
        for rows, name, seed in track(cells, description=f"delta = {delta:g}", console=console, transient=True):
            for line in lines(name, rows, given, delta=delta, seed=seed):
                keep(line, given.output, key=KEY)
                found.append(line)
        title = f"epsilon = {given.epsilon:g}, delta = {delta:g}, {given.rounds} rounds: mean relative error of kernels"
        console.print(table_of(found, title=title))
