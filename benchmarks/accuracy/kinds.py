"""Accuracy on made-up tables of eight kinds, beside private histograms and a private Gaussian.

    python -m benchmarks kinds [--only normal clusters ...] [--sizes 2000x6 20000x6 800x20 4000x20]
                               [--epsilon 1] [--delta 0 1e-6] [--rounds 3] [--queries 300] [--peers opendp-mst opendp-aim]

The data sets of the paper are four; a method may suit them by chance. These tables are drawn anew in each round. Every
figure is our error over that of the better of three baselines (baselines.py), measure by measure: no single
baseline has to be good at all of them. With --peers, the mechanisms of benchmarks/peers are among those it is compared with,
which see numbers as 32 bins. Below 1 is better; in brackets, our error over that of a bootstrap of the table,
which is not private: the error that n rows have by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.progress import track

import smoothsynth as ss
from benchmarks.accuracy.ratios import Shown, parser, ratios, scores
from benchmarks.results import Console

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Points = NDArray[np.float64]


def normal(z: Points, rng: np.random.Generator) -> Points:
    """Return normal columns, two factors behind them."""
    return 0.25 * z + rng.uniform(-0.4, 0.4, z.shape[1])


def clusters(z: Points, rng: np.random.Generator) -> Points:
    """Return three clouds of points."""
    rows, columns = z.shape
    return rng.uniform(-0.7, 0.7, (3, columns))[rng.integers(0, 3, rows)] + 0.12 * rng.normal(size=z.shape)


def ring(z: Points, rng: np.random.Generator) -> Points:
    """Return a circle in two of the columns."""
    angle, made = rng.uniform(0, 2 * np.pi, len(z)), 0.1 * z
    made[:, 0] += 0.6 * np.cos(angle)
    made[:, 1] += 0.6 * np.sin(angle)
    return made


def curve(z: Points, rng: np.random.Generator) -> Points:
    """Return polynomials of one number with noise: columns that depend on each other and hardly correlate."""
    angle = np.arccos(rng.uniform(-1, 1, (len(z), 1)))
    return 0.15 * z + 0.7 * np.cos((1 + np.arange(z.shape[1]) % 4) * angle)


def skew(z: Points, _rng: np.random.Generator) -> Points:
    """Return log-normal columns, crowded at the lower bound."""
    return -1 + 0.08 * np.exp(0.8 * z)


def spread(z: Points, _rng: np.random.Generator) -> Points:
    """Return columns one of which decides how widely another is spread."""
    made = 0.2 * z
    made[:, 1] *= np.exp(3 * made[:, 0])
    return made


def zeros(z: Points, _rng: np.random.Generator) -> Points:
    """Return columns that are mostly one value."""
    return np.maximum(z - 0.5, 0.0) * 0.4 - 0.8


def heavy(z: Points, rng: np.random.Generator) -> Points:
    """Return Student's t with three degrees of freedom: a few rows are far out in all columns."""
    return 0.08 * z * np.sqrt(3 / rng.chisquare(3, (len(z), 1)))


KINDS: dict[str, Callable[[Points, np.random.Generator], Points]] = {
    one.__name__: one for one in (normal, clusters, ring, curve, skew, spread, zeros, heavy)
}


def table_of(kind: str, rows: int, columns: int, *, seed: int) -> Points:
    """Draw a table of a kind, clipped to the cube."""
    rng = np.random.default_rng([seed, rows, columns])
    loadings = rng.normal(size=(columns, 2))
    covariance = loadings @ loadings.T + 0.5 * np.eye(columns)
    spreads = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(covariance / np.outer(spreads, spreads))
    return np.clip(KINDS[kind](rng.normal(size=(rows, columns)) @ root.T, rng), -1.0, 1.0)


def errors(kind: str, rows: int, columns: int, given: argparse.Namespace, *, delta: float) -> tuple[Points, Points]:
    """Return our mean errors over those of the best of the others, and of a bootstrap; each round draws a new table."""
    schema = ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})
    found = []
    for seed in range(given.rounds):
        real = table_of(kind, rows, columns, seed=seed)
        frame = pd.DataFrame(real, columns=list(schema.names))
        found.append(scores(frame, real, schema, given, delta=delta, seed=seed))
    return ratios(found)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    given = parser(__doc__, rounds=3, queries=300)
    given.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    given.add_argument("--sizes", nargs="+", default=["2000x6", "20000x6", "800x20", "4000x20"], help="rows x columns")
    return given.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all and print a table for each budget."""
    given, console = parse(arguments), Console(width=150)
    for delta in given.delta:
        shown = Shown(given, delta=delta)
        cells = [(kind, *map(int, size.split("x"))) for size in given.sizes for kind in given.only]
        for kind, rows, columns in track(cells, description=f"delta = {delta:g}", console=console, transient=True):
            shown.add(kind, rows, columns, *errors(kind, rows, columns, given, delta=delta))
        console.print(shown.ended())
