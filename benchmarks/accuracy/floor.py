"""What a budget can do for wide kernels at best: true rows, moved by the noise in their means alone.

    python -m benchmarks floor [--data DIR] [--only wdbc ctg pks crm] [--rounds 5] [--queries 10000]

All of the budget goes into the means of the columns, and all else about the rows is exact and free. Two mechanisms, the
better of which counts for each width: the cube mechanism on the means (epsilon = 1; it may be used with a delta too), and
the Gaussian mechanism on rows around their true mean, cut to the length that turns out best, which nobody could know. Beside
it: one half of what the paper printed (its PSI tables), and the rows of a bootstrap, which are not private.
A width where the first is above the second cannot be had from a table whose means are measured in one of these ways.
Study code: noise is drawn in floating point.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from benchmarks.accuracy.metrics import SIGMAS
from benchmarks.results import Console
from smoothsynth.accounting.charges import gaussian_multiplier
from smoothsynth.paper.printed import printed_table
from smoothsynth.paper.queries import answers, random_queries, worst_errors
from smoothsynth.paper.reproduction import available, data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Drawn = Callable[[], Points]

EPSILON, DELTAS = 1.0, (0.0, 1e-10)
# Draws of noise in each round: its kernels are hard or easy by chance, and so is the noise.
DRAWS = 3
NAMES = ("wdbc", "ctg", "pks", "crm")
# Shares of rows that are not cut; one of them is the best cut.
WHOLE = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the data sets [SMOOTHSYNTH_DATA or ../shared/data]")
    parser.add_argument("--only", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=10_000)
    given, console = parser.parse_args(), Console(width=110)
    shown = Table(
        title=f"worst relative error of {given.queries:,} kernels, mean of {given.rounds} rounds, epsilon = 1"
    )
    for heading in ("table", "delta", "rows", *(f"width {s}" for s in SIGMAS)):
        shown.add_column(heading)
    for data in available(data_folder(given.data), tuple(given.only))[0]:
        judges = [Widths(data.points, given.queries, np.random.default_rng(seed)) for seed in range(given.rounds)]
        rng = np.random.default_rng(0)
        boot = mean_error(judges, partial(_bootstrap, data.points, rng))
        for delta in DELTAS:
            printed = printed_table("ellipsoid", delta=delta).results[data.name.upper()].relative
            asked = np.array([printed[s] / 2.0 for s in SIGMAS])
            rows = {
                "half of the paper's": asked,
                "means alone": floor(data.points, delta, judges, rng),
                "bootstrap": boot,
            }
            for label, figures in rows.items():
                shown.add_row(data.label, f"{delta:g}", label, *(f"{value:.5f}" for value in figures))
    console.print(shown)


class Widths:
    """The kernels of one round of `make bench NAME=accuracy`, each width answered once on the true rows."""

    def __init__(self, real: Points, queries: int, rng: np.random.Generator) -> None:
        self._families = [random_queries(queries, real.shape[1], sigma=s, generator=rng) for s in SIGMAS]
        self._true = [answers(family, real, precision="single") for family in self._families]

    def __call__(self, rows: Points) -> Points:
        """Return the worst relative error at each width."""
        return np.array(
            [
                worst_errors(true, answers(family, rows, precision="single")).relative
                for family, true in zip(self._families, self._true, strict=True)
            ]
        )


def mean_error(judges: Sequence[Widths], drawn: Drawn) -> Points:
    """Return the mean over rounds, each with kernels of its own, and over a few draws of rows in each."""
    return np.mean([judge(drawn()) for judge in judges for _ in range(DRAWS)], axis=0)


def floor(real: Points, delta: float, judges: Sequence[Widths], rng: np.random.Generator) -> Points:
    """Return, for each width, the error of the better mechanism with all of the budget on means."""
    found = [mean_error(judges, partial(_cube, real, rng))]
    if delta:
        multiplier = gaussian_multiplier(EPSILON, delta)
        found += [mean_error(judges, partial(_gaussian, real, rng, multiplier, share)) for share in WHOLE]
    return np.min(found, axis=0)


def _bootstrap(real: Points, rng: np.random.Generator) -> Points:
    return real[rng.integers(0, len(real), len(real))]


def _cube(real: Points, rng: np.random.Generator) -> Points:
    """Add K-norm noise: uniform in a cube whose size has a Gamma law (Hardt and Talwar 2010). A row moves a mean by 2 / n."""
    n, d = real.shape
    return np.asarray(real + rng.uniform(-1.0, 1.0, d) * rng.gamma(d + 1, 2.0 / (n * EPSILON)))


def _gaussian(real: Points, rng: np.random.Generator, multiplier: float, share: float) -> Points:
    """Take off what the cut takes from the means, and add Gaussian noise for rows of that length."""
    around = real - real.mean(axis=0)
    lengths = np.linalg.norm(around, axis=1)
    longest = float(np.quantile(lengths, share))
    taken = (around * np.maximum(0.0, 1.0 - longest / lengths)[:, None]).mean(axis=0)
    return np.asarray(real - taken + rng.normal(size=real.shape[1]) * 2.0 * longest * multiplier / len(real))
