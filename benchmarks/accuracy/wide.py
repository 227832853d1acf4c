"""Wide tables in which a few pairs of columns stand out, and what it brings to find them (docs/notes/0018).

    python -m benchmarks wide [--only ring curve spread clusters normal dsads] [--size 20000x100] [--epsilon 1]
                              [--delta 1e-6] [--rounds 2] [--data DIR]

Ten pairs of columns of a kind (kinds.py) among normal columns with two factors behind them; "normal" has none, and
DSADS is a real table, the stand-in of the paper's size for PAM. Each table is released as planned, with pairs chosen by noisy
maxima, and at the same budget without them (selected_pairs=0), noise drawn afresh. Figures are the error with over the error
without: kernels of width 0.25 and 0.5 on the ten pairs whose products of waves are farthest from those of a Gaussian copula
with the same columns and correlations (none of the releases has a say in that), on fifty, on any two columns, and the
measures of all other benchmarks. In brackets: how many of the ten were found.
"""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.table import Table

import smoothsynth as ss
from benchmarks.accuracy.kinds import table_of
from benchmarks.accuracy.metrics import Judge
from benchmarks.accuracy.ratios import MEASURES
from benchmarks.results import Console
from smoothsynth.answer.evidence import gaussian_copula_rows
from smoothsynth.paper.reproduction import available, data_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Pairs = list[tuple[int, int]]

STRANGE, WORST, KERNELS = 10, 50, 300
KINDS = ("ring", "curve", "spread", "clusters", "normal")
WIDTHS = (0.25, 0.5)


def strange_table(kind: str, rows: int, columns: int, *, seed: int) -> Points:
    """Return normal columns, the first twenty of which are ten pairs of a kind."""
    table = table_of("normal", rows, columns, seed=seed)
    for number in range(0 if kind == "normal" else STRANGE):
        # Curves and clusters are those of the first two of four columns.
        drawn = table_of(kind, rows, 4, seed=1000 * seed + number)
        table[:, 2 * number : 2 * number + 2] = drawn[:, :2]
    return table


class Asked:
    """Kernels on pairs of columns, answered once on the real rows."""

    def __init__(self, real: Points, pairs: Pairs, rng: np.random.Generator) -> None:
        chosen = [pairs[int(number)] for number in rng.integers(len(pairs), size=KERNELS)]
        self._kernels = [(list(pair), rng.uniform(-1, 1, 2), float(rng.choice(WIDTHS))) for pair in chosen]
        self._true = self._answers(real)

    def _answers(self, rows: Points) -> Points:
        squares = [(np.sum((rows[:, pair] - centre) ** 2, axis=1), width) for pair, centre, width in self._kernels]
        return np.array([np.mean(np.exp(-square / (2 * width**2))) for square, width in squares])

    def error(self, rows: Points) -> float:
        """Return the mean absolute error."""
        return float(np.mean(np.abs(self._answers(rows) - self._true)))


def released(
    real: Points, schema: ss.Schema, given: argparse.Namespace, *, chosen: int | None, seed: int
) -> ss.Release:
    """Release a table of the cube."""
    frame = pd.DataFrame(real, columns=list(schema.names))
    budget = {"epsilon": given.epsilon, "delta": given.delta}
    return ss.release(frame, schema=schema, seed=seed, method=ss.methods.Adaptive(selected_pairs=chosen), **budget)


def compared(real: Points, given: argparse.Namespace, *, seed: int) -> tuple[Points, int]:
    """Return the errors with over those without chosen pairs, and how many of the ten strangest were chosen."""
    columns = real.shape[1]
    schema = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})
    found, plain = (released(real, schema, given, chosen=chosen, seed=seed) for chosen in (None, 0))
    measured = [noisy for noisy in found.moments if noisy.measurement.choice is not None]
    pairs = {tuple(wave // 2 for wave, _ in feature.terms[0]) for noisy in measured for feature in noisy.features}
    if not measured:
        raise SystemExit(f"At this size and budget no pairs are chosen: {real.shape[0]:,} x {columns}.")
    everything = list(itertools.combinations(range(columns), 2))
    rows = {name: one.unit_rows() for name, one in (("with", found), ("without", plain))}
    seen = [measured[0].measurement.transformation.of(table) for table in (real, gaussian_copula_rows(real))]
    gap = (seen[0].T @ seen[0] - seen[1].T @ seen[1]) / len(real)
    strange = sorted(everything, key=lambda p: -np.linalg.norm(gap[2 * p[0] : 2 * p[0] + 2, 2 * p[1] : 2 * p[1] + 2]))
    rng, judge = np.random.default_rng(seed), Judge(real, queries=300, seed=seed)
    asked = [Asked(real, some, rng) for some in (strange[:STRANGE], strange[:WORST], everything)]
    errors = {}
    for name, table in rows.items():
        scores = judge(table).as_row()
        errors[name] = np.array([*(one.error(table) for one in asked), *(scores[m] for m in MEASURES)])
    return errors["with"] / errors["without"], len(pairs & set(strange[:STRANGE]))


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[*KINDS, "dsads"], choices=[*KINDS, "dsads"])
    parser.add_argument("--size", default="20000x100", help="rows x columns of the made-up tables")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    given, console = parser.parse_args(), Console(width=150)
    n, d = map(int, given.size.split("x"))
    shown = Table(
        title=f"error with chosen pairs over that without, epsilon = {given.epsilon:g}, delta = {given.delta:g}"
    )
    for heading in ("table", "ten pairs", "fifty pairs", "any pair", *MEASURES.values()):
        shown.add_column(heading)
    for kind in given.only:
        ratios = []
        for seed in range(given.rounds):
            if kind == "dsads":
                real = available(data_folder(given.data), ("pam_sub_dsads",))[0][0].points
            else:
                real = strange_table(kind, n, d, seed=seed)
            ratios.append(compared(real, given, seed=seed))
        mean = np.exp(np.mean(np.log([ratio for ratio, _ in ratios]), axis=0))
        hits = ", ".join(str(hit) for _, hit in ratios)
        shown.add_row(f"{kind} {real.shape[0]:,} x {real.shape[1]} ({hits})", *(f"{one:.2f}" for one in mean))
    console.print(shown)
