"""Dependence from noisy pair moments of standardised, shortened rows.

What was measured is y = (x - m)/s of the current model, cut to a length. The model is moved until rows that it would
produce, seen the same way, have the measured moments as far as noise lets them be seen: eigenvalues of the
difference are shrunk optimally for symmetric Gaussian noise, means and variances by empirical Bayes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.columns import Columns, tilt
from smoothsynth.synthesis.denoising import denoise
from smoothsynth.synthesis.looks import score_length, score_units
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.sample import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.view import View

    Array = NDArray[np.float64]

# Rows by which the model sees itself: so many that their own sampling error, 1/sqrt(rows), is half of the noise.
_FEWEST_SIMULATED, MOST_SIMULATED = 3_000, 40_000
_ROUNDS = 8
_FAR = 5.0
_LEAST_EIGENVALUE = 0.02
# How far into the range of a column its mean may move, and the least variance, both of standardised values.
_WITHIN, _LEAST_VARIANCE = 0.9, 0.0625
# Ranks have told the spread of each column already, and without a cut: of what a cut says beyond, half is believed.
_OWN_SQUARES = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """First and second moments of standardised rows, the noise of a pair and of a mean, and of means released before."""

    means: Array
    squares: Array
    noise: float
    mean_noise: float
    known: Array
    gaussian: bool


@dataclass(frozen=True, slots=True, eq=False)
class CutMoments:
    """Moments of rows through a view that cuts them, as released.

    `worth` is what a mean tells beside what was known `before`, from 0 to 1. In units of the cube: `units` are those of the
    view, `noise` is that of the means, `before` are the model's means before.
    In units of the view: `covariance` and `pair_noise`, the noise of a product; it is Gaussian or not. `loose` is the noise
    of the common scale of all variances, relative to it: rows that are cut tell little of it.
    """

    view: View
    means: Array
    worth: Array
    units: Array
    noise: Array
    before: Array
    covariance: Array
    pair_noise: float
    gaussian: bool
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

    def missing_correlation(self, rows: Array, weights: Array, free: Array) -> Array:
        """Return what weighted rows lack in correlation through the view, as far as it is more than noise."""
        _, squares, covariance = _moments(self.view.of(rows), weights)
        found = denoise((self.covariance - covariance) * free, self.pair_noise, gaussian=self.gaussian)
        variances = np.maximum(np.diag(covariance), 1e-3 * squares.mean())
        return np.asarray(found * free / np.sqrt(np.outer(variances, variances)))


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
    seen = _unpack(noisy, length, known=known / units)
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
    target = _targets(seen, means, squares, covariance, free, expected=expected, tied=tied)
    before = second
    for _ in range(_ROUNDS):
        lacking = target.worth * (seen.means - means) + (1.0 - target.worth) * (start.means() - columns.means()) / units
        first = first + 0.8 * lacking * units / start.deviations()
        short = target.lacking_squares(squares, known=(before - second) * expected)
        second = np.clip(second * np.clip(1.0 + short / squares, 0.6, 1.6) ** 0.7, 0.01, _FAR**2)
        variances = np.maximum(np.diag(covariance), 1e-12)
        change = target.correlation - covariance / np.sqrt(np.outer(variances, variances))
        correlation = nearest_correlation(correlation + change * free)
        first, second = reachable(start, functions, first, second)
        columns = _moved(start, functions, first, second)
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
        seen.noise / length**2,
        seen.gaussian,
        loose,
    )
    return Dependence(columns, correlation, cut)


def shifted(columns: Columns, by: Array) -> Columns:
    """Move the means of columns, and the shares of levels and marks; variances stay."""
    functions, first, second = standard_functions(columns)
    moved = first + by / columns.deviations()
    return _moved(columns, functions, *reachable(columns, functions, moved, second - first**2 + moved**2))


def reachable(columns: Columns, functions: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Keep means of y inside its range and variances from vanishing: no noise may put a whole column on one value."""
    possible = columns.base > 0.0
    low = np.where(possible, functions[:, 0], np.inf).min(axis=1)
    high = np.where(possible, functions[:, 0], -np.inf).max(axis=1)
    first = np.clip(first, _WITHIN * low, _WITHIN * high)
    return first, np.maximum(second, first**2 + _LEAST_VARIANCE)


def free_pairs(columns: Columns) -> Array:
    """Return 1 for pairs of coordinates whose dependence is to be learned, 0 within a category or a value and its mark."""
    free = 1.0 - np.eye(columns.count)
    for together in (*columns.groups.levels, *columns.groups.missing):
        free[np.ix_(together, together)] = 0.0
    return free


def _moved(columns: Columns, functions: Array, first: Array, second: Array) -> Columns:
    """Move columns until standardised values, and levels and marks, have these means."""
    means, deviations = columns.means(), columns.deviations()
    shares = {c: float(means[c] + first[c] * deviations[c]) for c in columns.groups.marks}
    return retarget(columns, functions, first, second).with_shares(shares)


def nearest_correlation(matrix: Array) -> Array:
    """Lift eigenvalues to a small floor and scale the diagonal to 1."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    lifted = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    spread = np.sqrt(np.diag(lifted))
    return np.asarray(lifted / np.outer(spread, spread))


def shrinkage(differences: Array, noise: float) -> float:
    """Return the empirical-Bayes factor t^2/(t^2 + s^2) for a group of noisy differences."""
    signal = max(float(np.mean(differences**2)) - noise**2, 0.0)
    return signal / (signal + noise**2 + 1e-30)


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    """What is to be believed of what was seen: `worth` of each mean, `common` and `own` of squares, from 0 to 1."""

    worth: Array
    squares: Array
    seen_squares: Array | None
    expected: Array
    common: float
    own: float
    correlation: Array

    def lacking_squares(self, squares: Array, *, known: Array) -> Array:
        """Return by how much the squares of cut rows are too small; `known` is by how much those of whole rows are.

        Under pure epsilon what is not believed of cut rows is left to the ranks, which tell more of it. With a delta it is
        left to cut rows as they would be without dependence.
        """
        if self.seen_squares is None:
            return self.squares - squares
        short = self.seen_squares - squares
        together, before = short.mean() * self.expected, known.mean() * self.expected
        common = self.common * together + (1.0 - self.common) * before
        return np.asarray(common + self.own * (short - together) + (1.0 - self.own) * (known - before))


def _targets(
    seen: Seen,
    means: Array,
    squares: Array,
    covariance: Array,
    free: Array,
    *,
    expected: Array,
    tied: Array | None = None,
) -> _Target:
    """Decide how much of the difference between what was seen and the model is more than noise."""
    d, noise = len(means), seen.noise
    difference = seen.means - means
    known = seen.known**2 / (seen.known**2 + seen.mean_noise**2)
    worth = np.minimum(shrinkage(difference, seen.mean_noise), known)
    first = means + worth * difference
    difference = np.diag(seen.squares) - squares
    common = float(difference.mean())
    together = common**2 / (common**2 + 2.0 * noise**2 / d)
    own = _OWN_SQUARES * shrinkage(difference - common, noise * math.sqrt(2.0))
    second = np.maximum(squares + together * common * expected + own * (difference - common), 0.05 * squares)
    rest = (seen.squares - np.outer(seen.means, seen.means) - covariance) * free
    variances = np.maximum(second - first**2, np.maximum(0.05 * squares, 0.7 * noise))
    found = denoise(rest, noise, gaussian=seen.gaussian)
    wanted = found if tied is None else tied + found
    return _Target(
        worth,
        second,
        None if seen.gaussian else np.diag(seen.squares),
        expected,
        together,
        own,
        wanted / np.sqrt(np.outer(variances, variances)),
    )


def _unpack(noisy: NoisyMoments, length: float, *, known: Array) -> Seen:
    """Turn moments of the view (in units of its length) into those of standardised rows."""
    spread = length**2
    d = len(noisy.measurement.view.knots) if noisy.measurement.view is not None else 1
    means, squares = np.zeros(d), np.zeros((d, d))
    noise = mean_noise = 0.0
    for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
        term = feature.terms[0]
        if feature.degree == 1:
            means[term[0][0]], mean_noise = value * math.sqrt(spread), deviation * math.sqrt(spread)
        elif len(term) == 1:
            squares[term[0][0], term[0][0]] = (value + 1.0) / 2.0 * spread
        else:
            (i, _), (j, _) = term
            squares[i, j] = squares[j, i] = value * spread
            noise = deviation * spread
    return Seen(means, squares, noise, mean_noise, known, noisy.measurement.multiplier is not None)


def _moments(rows: Array, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the means, mean squares and covariance of rows, weighted or not."""
    if weights is None:
        means, products = rows.mean(axis=0), rows.T @ rows / len(rows)
    else:
        means, products = weights @ rows, (rows * weights[:, None]).T @ rows
    return means, np.diag(products).copy(), products - np.outer(means, means)


def standard_functions(columns: Columns) -> tuple[Array, Array, Array]:
    """Return y and y^2 on the cells, y the standardised and clipped value, with their means."""
    y = (columns.places - columns.means()[:, None]) / columns.deviations()[:, None]
    y = np.clip(y, -_FAR, _FAR)
    functions = np.stack([y, y**2], axis=1)
    means = np.einsum("dqg,dg->dq", functions, columns.masses)
    return functions, means[:, 0], means[:, 1]


def retarget(columns: Columns, functions: Array, first: Array, second: Array) -> Columns:
    """Tilt columns softly so that y and y^2 have the given means; levels of categories and marks stay as they are."""
    marks = list(columns.groups.marks)
    second = np.maximum(second, first**2 + 0.02 * np.maximum(second, 1e-3))
    values = np.stack([first, second], axis=1)
    tilted = tilt(columns, functions, values, np.broadcast_to(np.array([0.003, 0.01]), values.shape))
    if not marks:
        return tilted
    masses = tilted.masses.copy()
    masses[marks] = columns.masses[marks]
    return replace(tilted, masses=masses)
