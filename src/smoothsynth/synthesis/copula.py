"""Dependence from noisy pair moments of standardised, shortened rows.

What was measured is y = (x - m)/u, m and u of the current model, cut to a length. The model is moved until rows that it would
produce, seen the same way, have the measured moments as far as noise lets them be seen: eigenvalues of the
difference are shrunk optimally for symmetric Gaussian noise, means and variances by empirical Bayes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.believed_pairs import targets, unpack
from smoothsynth.synthesis.denoising import denoise
from smoothsynth.synthesis.looks import score_length, score_units
from smoothsynth.synthesis.moving import FAR, moved, reachable, standard_functions
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.sample import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import View
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# Rows by which the model sees itself: so many that their own sampling error, 1/sqrt(rows), is half of the noise.
_FEWEST_SIMULATED, MOST_SIMULATED = 3_000, 40_000
_ROUNDS = 8
_LEAST_EIGENVALUE = 0.02
# All rows of the model may have the same value in a column.
_TINY = 1e-300
# Up to about this noise of a correlation, rows are to have the ones that were believed, whatever their lengths.
_CLEAR = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class CutMoments:
    """Moments of rows through a view that cuts them, as released.

    `worth` is what a mean tells beside what was known `before`, from 0 to 1. In units of the cube: `units` are those of the
    view, `noise` is that of the means, `before` are the model's means before.
    In units of the view: `covariance`, what was `believed` of it off the diagonal, and `pair_noise`, the noise of a product;
    it is `normal` or not. `loose` is the noise of the common scale of all variances, relative to it: rows that are cut tell
    little of it.
    """

    view: View
    means: Array
    worth: Array
    units: Array
    noise: Array
    before: Array
    covariance: Array
    believed: Array
    pair_noise: float
    normal: bool
    loose: float

    def length(self, columns: Columns) -> float:
        """Return the length to which rows were cut, in standard deviations of the columns."""
        return float(np.mean(self.units / columns.deviations()))

    def missing_means(self, columns: Columns, rows: Array, weights: Array) -> Array:
        """Return by how much the means of columns are too small, of which these are weighted rows, in units of the cube.

        Cut rows lack `worth` of what was seen; for the rest, columns are to have the means that they had before.
        """
        seen = self.units * (self.means - weights @ self.view.of(rows))
        return np.asarray(self.worth * seen + (1.0 - self.worth) * (self.before - columns.means()))

    def wanted(self, columns: Columns, rows: Array, weights: Array, free: Array) -> Array:
        """Return the covariance that weighted rows of these columns are to have through the view, off the diagonal.

        Rows that were chosen by their lengths have another one than was believed of pairs. With q the noise of a
        correlation, 1 / (1 + (q / _CLEAR)^2) of the way back is wanted: where pairs drown, the lengths know better, which
        turned rows would lose. Whatever else stands out of the noise is wanted too.
        """
        _, _, covariance = _moments(self.view.of(rows), weights)
        noise = self.pair_noise * self.length(columns) ** 2
        back = covariance + (self.believed - covariance) * free / (1.0 + (noise / _CLEAR) ** 2)
        return back + denoise((self.covariance - back) * free, self.pair_noise, normal=self.normal)

    def missing_correlation(self, wanted: Array, rows: Array, weights: Array, free: Array) -> Array:
        """Return what weighted rows lack in correlation to have this covariance through the view."""
        _, squares, covariance = _moments(self.view.of(rows), weights)
        variances = np.maximum(np.diag(covariance), 1e-3 * squares.mean())
        return np.asarray((wanted - covariance) * free / np.sqrt(np.outer(variances, variances)))


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """What pairs tell: columns, their correlation, and the moments of cut rows that both were moved to."""

    columns: Columns
    correlation: Array
    cut: CutMoments


def learn_pairs(columns: Columns, noisy: NoisyMoments, *, known: Array) -> Dependence:
    """Find columns and a correlation matrix whose rows, seen through the view, have the noisy moments.

    `known` is the noise of each mean as it was released before: a better one is not given up for a worse one.
    """
    view = noisy.measurement.view
    if view is None:
        raise ValueError("pairs are measured through a view")
    length = score_length(columns, noisy.measurement, noisy.rows)
    units = score_units(columns, noisy.measurement, noisy.rows)
    seen = unpack(noisy, length, known=known / units)
    simulated = min(max(_FEWEST_SIMULATED, (2.0 / max(seen.noise, 1e-9)) ** 2), MOST_SIMULATED)
    drawn = scores(round(simulated), columns.count, generator=generator(0))
    correlation = np.eye(columns.count)
    functions, first, second = standard_functions(columns)
    start, free = columns, free_pairs(columns)
    rows = view.of(place(correlated(drawn, correlation), columns)) * length
    means, squares, covariance = _moments(rows)
    # Independent scores give uncorrelated rows, but for constraints, which tie columns by themselves.
    tied = covariance * free if columns.limits is not None else None
    expected = (columns.deviations() / units) ** 2
    target = targets(seen, means, squares, covariance, free, expected=expected, tied=tied)
    before = second
    for _ in range(_ROUNDS):
        lacking = target.worth * (seen.means - means) + (1.0 - target.worth) * (start.means() - columns.means()) / units
        first = first + 0.8 * lacking * units / start.deviations()
        short = target.lacking_squares(squares, known=(before - second) * expected)
        second = np.clip(second * np.clip(1.0 + short / np.maximum(squares, _TINY), 0.6, 1.6) ** 0.7, 0.01, FAR**2)
        variances = np.maximum(np.diag(covariance), 1e-12)
        change = target.correlation - covariance / np.sqrt(np.outer(variances, variances))
        correlation = nearest_correlation(correlation + change * free)
        first, second = reachable(start, functions, first, second)
        columns = moved(start, functions, first, second)
        rows = view.of(place(correlated(drawn, correlation), columns)) * length
        means, squares, covariance = _moments(rows)
    whole = float(np.mean(np.linalg.norm(rows, axis=1) < 0.999 * length))
    loose = math.sqrt(2.0 / columns.count) * seen.noise / max(whole, 0.05)
    units = length * units
    cut = CutMoments(
        view,
        seen.means / length,
        target.worth,
        units,
        seen.mean_noise / length * units,
        start.means(),
        (seen.squares - np.outer(seen.means, seen.means)) / length**2,
        target.covariance / length**2,
        seen.noise / length**2,
        seen.normal,
        loose,
    )
    return Dependence(columns, correlation, cut)


def free_pairs(columns: Columns) -> Array:
    """Return 1 for pairs of coordinates whose dependence is to be learned, 0 within a category or a value and its mark."""
    free = 1.0 - np.eye(columns.count)
    for together in (*columns.groups.levels, *columns.groups.missing):
        free[np.ix_(together, together)] = 0.0
    return free


def nearest_correlation(matrix: Array) -> Array:
    """Lift eigenvalues to a small floor and scale the diagonal to 1."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    lifted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(lifted))
    return np.asarray(lifted / np.outer(spread, spread))


def _moments(rows: Array, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the means, mean squares and covariance of rows, weighted or not."""
    if weights is None:
        means, products = rows.mean(axis=0), rows.T @ rows / len(rows)
    else:
        means, products = weights @ rows, (rows * weights[:, None]).T @ rows
    return means, np.diag(products).copy(), products - np.outer(means, means)
