"""Other designs of method="auto" beside the one that is built in (docs/notes/0005).

    python -m benchmarks designs [--data DIR] [--only wdbc ctg] [--designs 30] [--rounds 4] [--rows 60000] [--lengths]

Draws designs at random (shares of low moments, ranks and lengths, the weight of the means, degrees of ranks, the length
to which rows are cut) and prints, for each, the geometric mean over data sets and measures of its error over that of
the built-in design. `--rows` pretends that the data sets are so much larger, `--lengths` tries lengths only. Study code:
noise is drawn in floating point, so that thousands of releases can be made.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.accuracy.metrics import Judge
from smoothsynth.methods import adaptive as auto
from smoothsynth.methods import adaptive_rounds as gaussian
from smoothsynth.methods.layout import FOCUSES, Focus
from smoothsynth.model import copula as looks
from smoothsynth.model.synthesis import rows_of_model
from smoothsynth.paper.reproduction import DataSet, available, data_folder
from smoothsynth.pipeline.plan import plan
from smoothsynth.pipeline.rounds import Rounds
from smoothsynth.queries.measurement import NoisyMoments

EPSILON, DELTA = 1.0, 1e-10
MEASURES = ("rel_2", "rel_4", "narrow", "ridge", "polynomial", "w1", "corr")
MOST_ROWS = 6_000


@dataclass(frozen=True, slots=True)
class Trial:
    """A design: shares, the fewest and most degrees of ranks, and the least and most squared length over d."""

    focus: Focus
    degrees: tuple[int, int] = (gaussian.FEWEST_RANK_DEGREES, gaussian.MOST_RANK_DEGREES)
    lengths: tuple[float, float] = (looks.LEAST_SHORT, looks.MOST_SHORT)

    def in_words(self) -> str:
        """Say what the design is."""
        f = self.focus
        shares = f"low {f.low:g} ranks {f.ranks:g} pairs {f.pairs:.2f} lengths {f.lengths:g} means {f.mean_weight:g}"
        cut = f"cut at {self.lengths[0]:g} to {self.lengths[1]:g} d"
        return f"{shares}; degrees {self.degrees[0]} to {self.degrees[1]}; {cut}"


BUILT_IN = Trial(FOCUSES["balanced"])


def errors(data: DataSet, judges: list[Judge], trial: Trial, rows: int) -> np.ndarray:
    """Return the mean errors of releases by one design."""
    found = []
    with (
        mock.patch.dict(auto.FOCUSES, balanced=trial.focus),
        mock.patch.multiple(gaussian, FEWEST_RANK_DEGREES=trial.degrees[0], MOST_RANK_DEGREES=trial.degrees[1]),
        mock.patch.multiple(looks, LEAST_SHORT=trial.lengths[0], MOST_SHORT=trial.lengths[1]),
    ):
        for seed, judge in enumerate(judges):
            scores = judge(_release(data, rows, seed)).as_row()
            found.append([scores[name] for name in MEASURES])
    return np.mean(found, axis=0)


def _release(data: DataSet, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(1000 + seed)
    planned = plan(data.schema, rows, epsilon=EPSILON, delta=DELTA, synthetic_rows=min(rows, MOST_ROWS))
    rounds = Rounds.planned(planned)
    while (seen := rounds.next) is not None:
        values = seen.evaluate(data.points).mean(axis=0)
        values += seen.deviations(rows) * rng.standard_normal(len(values))
        integers = np.rint(values * rows * np.array(seen.weights, dtype=float))
        rounds = rounds.after(NoisyMoments(seen, rows, tuple(map(int, integers))))
    return rows_of_model(data.schema, rounds.model, planned.synthetic_rows, seed=seed).points


def random_trial(rng: np.random.Generator) -> Trial:
    """Draw a design."""
    low, ranks, lengths = (
        rng.choice([0.05, 0.08, 0.12, 0.2]),
        rng.choice([0.05, 0.1, 0.2, 0.3]),
        rng.choice([0.05, 0.1, 0.2]),
    )
    focus = replace(
        BUILT_IN.focus,
        low=float(low),
        ranks=float(ranks),
        lengths=float(lengths),
        pairs=float(1 - low - ranks - lengths),
        mean_weight=float(rng.choice([0.3, 0.5, 0.75, 1.0])),
    )
    degrees = int(rng.choice([4, 6, 12, 16]))
    cut = float(rng.choice([0.4, 0.6, 0.8]))
    return Trial(focus, (degrees, max(degrees, BUILT_IN.degrees[1])), (cut, BUILT_IN.lengths[1]))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="+", default=["wdbc", "ctg", "pks", "crm"], help="names of data sets")
    parser.add_argument("--designs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rows", type=int, help="pretend that every data set has so many rows [as many as it has]")
    parser.add_argument("--lengths", action="store_true", help="try lengths to which rows are cut, nothing else")
    given, rng = parser.parse_args(), np.random.default_rng(0)
    found, _ = available(data_folder(given.data), tuple(given.only))
    cuts = [Trial(BUILT_IN.focus, lengths=(cut, cut)) for cut in (0.6, 1.2, 2.4, 5.0)]
    trials = cuts if given.lengths else [random_trial(rng) for _ in range(given.designs)]
    shown = Table(title=f"error over that of the built-in design, epsilon = {EPSILON:g}, delta = {DELTA:g}")
    for heading in ("design", "all", *(data.name for data in found), *MEASURES):
        shown.add_column(heading)
    judges = {data.name: [Judge.of(data, queries=given.queries, seed=s) for s in range(given.rounds)] for data in found}
    rows = {data.name: given.rows or len(data.points) for data in found}
    base = np.array([errors(data, judges[data.name], BUILT_IN, rows[data.name]) for data in found])
    for trial in trials:
        logs = np.log(np.array([errors(d, judges[d.name], trial, rows[d.name]) for d in found]) / base)
        figures = [logs.mean(), *logs.mean(axis=1), *logs.mean(axis=0)]
        shown.add_row(trial.in_words(), *(f"{np.exp(value):.2f}" for value in figures))
    Console(width=220).print(shown)
