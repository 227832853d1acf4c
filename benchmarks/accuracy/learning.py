"""What can be learnt from synthetic rows: models trained on them and tested on real rows that were held out.

    python -m benchmarks learning [--only adult bank] [--epsilon 1] [--delta 0 1e-6] [--rounds 3]
                                  [--peers [opendp-mst ...]] [--data DIR]

A fifth of the rows, by a fixed seed, is held out; the others are the private table, released under its public schema
(adult.toml, bank.toml). Figures:
  boosting, logistic   area under the ROC curve on the rows held out (scikit-learn: HistGradientBoostingClassifier and
                       LogisticRegression, with their defaults but for the number of iterations)
  coefficients         |b - b'| / |b'| in L2, b' those of the private rows; numbers and levels are in units of their
                       deviation, so that rare levels, whose coefficients nobody can tell, weigh little
  signs                share of coefficients beyond 0.1 in b' (odds by a tenth) whose sign is right
  subgroups            mean error of the share of the target's positive level, by level of each category with 30 rows or more
  two-way              mean over pairs of columns of half the L1 distance of tables, numbers cut above their true deciles:
                       where most rows are 0, a table that has 1 instead is wrong in all of them
The private rows themselves and a bootstrap of them are beside ours, neither of them private. scikit-learn must be there
(`pip install "smoothsynth[sklearn]"`, or the group bench).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.mixed_judge import LEAST_GROUP, MEASURES, MixedJudge, fields
from benchmarks.accuracy.mixed_tables import unit_points
from benchmarks.accuracy.runs import Run, mean, parser, runs, shown, there
from benchmarks.results import Console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Truth = NDArray[np.bool_]

# The target and its positive level, as the pages of the data say.
TARGETS = {"adult": ("income", ">50K"), "bank": ("y", "yes")}
FIGURES = ("boosting", "logistic", "coefficients", "signs", "subgroups", "two-way")
HELD_OUT, SPLIT_SEED = 0.2, 0
DECILES = tuple(np.linspace(0.1, 0.9, 9))
LEAST_COEFFICIENT = 0.1
REAL = "real rows (not private)"


@dataclass(frozen=True, slots=True)
class Task:
    """A table of which one category is predicted: its schema, its target, and rows as points of the cube."""

    schema: ss.Schema
    target: str
    positive: str
    real: Points
    test: Points

    def truth(self, points: Points) -> Truth:
        """Say which rows have the positive level."""
        place = self.schema.coordinates_of(self.target)
        levels = self.schema.columns[self.target].levels
        return np.asarray(points[:, place.start + levels.index(self.positive)] > 0.5)

    def columns(self, points: Points) -> tuple[Points, list[bool]]:
        """Return a column for each but the target, categories as codes, and which of them are categories."""
        others = [f for f, name in zip(fields(self.schema), self.schema.names, strict=True) if name != self.target]
        made = [_codes(points, f.levels) if f.value is None else _values(points, f.value, f.missing) for f in others]
        return np.column_stack(made), [f.value is None for f in others]

    def design(self, points: Points) -> Points:
        """Return coordinates of the cube but the target's, in deviations of the private rows; constant ones as 0."""
        place, spread = self.schema.coordinates_of(self.target), self.real.std(axis=0)
        scaled = points / np.where(spread > 1e-9, spread, np.inf)
        return np.delete(scaled, np.arange(place.start, place.stop), axis=1)


def _codes(points: Points, levels: tuple[int, ...]) -> Points:
    marks = points[:, levels]
    return np.where(marks.max(axis=1) > 0.5, marks.argmax(axis=1), np.nan)


def _values(points: Points, value: int, missing: int | None) -> Points:
    return points[:, value] if missing is None else np.where(points[:, missing] > 0.5, np.nan, points[:, value])


class Judge:
    """Models and shares of one task, on any rows."""

    def __init__(self, task: Task) -> None:
        self._task, self._tables = task, MixedJudge(task.schema, task.real, seed=0, quantiles=DECILES)
        self._coefficients = self._logistic(task.real)[1]

    def __call__(self, made: Points) -> list[float | None]:
        """Return the figures in the order of FIGURES."""
        area, coefficients = self._logistic(made)
        error = np.linalg.norm(coefficients - self._coefficients) / np.linalg.norm(self._coefficients)
        large = np.abs(self._coefficients) > LEAST_COEFFICIENT
        signs = np.mean(np.sign(coefficients[large]) == np.sign(self._coefficients[large]))
        two_way = self._tables(made)[MEASURES.index("pairs")]
        return [self._boosting(made), area, float(error), float(signs), subgroup_error(self._task, made), two_way]

    def _boosting(self, made: Points) -> float:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score

        truth, (rows, categories) = self._task.truth(made), self._task.columns(made)
        if truth.all() or not truth.any():
            return 0.5
        model = HistGradientBoostingClassifier(categorical_features=categories, random_state=0).fit(rows, truth)
        test = self._task.test
        return float(roc_auc_score(self._task.truth(test), model.predict_proba(self._task.columns(test)[0])[:, 1]))

    def _logistic(self, made: Points) -> tuple[float, Points]:
        """Return the area under the curve and the coefficients."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score

        truth, rows, test = self._task.truth(made), self._task.design(made), self._task.test
        if truth.all() or not truth.any():
            return 0.5, np.zeros(rows.shape[1])
        model = LogisticRegression(max_iter=2_000).fit(rows, truth)
        area = roc_auc_score(self._task.truth(test), model.decision_function(self._task.design(test)))
        return float(area), model.coef_[0]


def subgroup_error(task: Task, made: Points) -> float:
    """Return the mean error of the share of the positive level among rows of a level; of none, the share of all is taken."""
    real, own, found = task.truth(task.real), task.truth(made), []
    for name, column in task.schema.columns.items():
        if isinstance(column, ss.Category) and name != task.target:
            place = task.schema.coordinates_of(name)
            for level in range(place.start, place.stop):
                inside, other = task.real[:, level] > 0.5, made[:, level] > 0.5
                if inside.sum() >= LEAST_GROUP:
                    found.append(abs(real[inside].mean() - own[other if other.any() else slice(None)].mean()))
    return float(np.mean(found))


def split(rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of the private rows and of those held out, the same in every run."""
    order = np.random.default_rng(SPLIT_SEED).permutation(rows)
    held = int(HELD_OUT * rows)
    return np.sort(order[held:]), np.sort(order[:held])


def read(folder: Path, name: str) -> tuple[pd.DataFrame, Task]:
    """Return the private rows of a table, and the task."""
    schema = ss.Schema.load(folder / f"{name}.toml")
    table = pd.read_csv(folder / f"{name}.csv.gz")[list(schema.names)]
    private, held = (table.iloc[places].reset_index(drop=True) for places in split(len(table)))
    return private, Task(schema, *TARGETS[name], unit_points(private, schema), unit_points(held, schema))


def judged(
    private: pd.DataFrame, task: Task, given: argparse.Namespace, *, delta: float
) -> Iterator[tuple[Run, list[float | None]]]:
    """Yield every run of every round with its figures; the private rows once."""
    judge = Judge(task)
    yield Run(REAL, task.real), judge(task.real)
    for seed in range(given.rounds):
        for run in runs(private, task.schema, given, delta=delta, seed=seed):
            yield run, [None] * len(FIGURES) if run.points is None else judge(run.points)


def table_of(found: Sequence[tuple[Run, list[float | None]]], *, title: str) -> Table:
    """Return a line for each method: means over rounds, processor seconds and peak memory."""
    made = Table("method", *FIGURES, "seconds", "MB", title=title)
    for method in dict.fromkeys(run.method for run, _ in found):
        mine = [(run, figures) for run, figures in found if run.method == method]
        means = [mean([figures[i] for _, figures in mine]) for i in range(len(FIGURES))]
        cost = [mean([run.seconds for run, _ in mine]), mean([run.memory_mb for run, _ in mine])]
        name = method if means[0] is not None else f"{method}: {mine[-1][0].status}"
        made.add_row(name, *(shown(value, ".3f") for value in means), shown(cost[0], ".1f"), shown(cost[1], ".0f"))
    return made


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    made = parser(__doc__, rounds=3, delta=(0.0, 1e-6))
    made.add_argument("--only", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    made.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each data set and budget."""
    given, console = parse(arguments), Console(width=150)
    if find_spec("sklearn") is None:
        sys.exit('Models need scikit-learn: pip install "smoothsynth[sklearn]".')
    folder, names = there(given.data, given.only)
    for name in names:
        private, task = read(folder, name)
        for delta in track(given.delta, description=name, console=console, transient=True):
            title = (
                f"{name}, {len(private):,} rows, epsilon = {given.epsilon:g}, delta = {delta:g}, {given.rounds} rounds"
            )
            console.print(table_of(list(judged(private, task, given, delta=delta)), title=title))
