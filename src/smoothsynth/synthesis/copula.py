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
from smoothsynth.synthesis.looks import score_length
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.sample import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments

    Array = NDArray[np.float64]

_SIMULATED = 3000
_ROUNDS = 8
_FAR = 5.0
_LEAST_EIGENVALUE = 0.02
# Either end of the spectrum passes this with a probability of about 0.5 %.
_TRACY_WIDOM = 2.4


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """First and second moments of standardised rows, with the noise of a pair and how much less that of a mean is."""

    means: Array
    squares: Array
    noise: float
    mean_noise: float


def learn_pairs(columns: Columns, noisy: NoisyMoments) -> tuple[Columns, Array]:
    """Return columns and a correlation matrix whose rows, seen through the view, have the noisy moments."""
    view = noisy.measurement.view
    if view is None:
        raise ValueError("pairs are measured through a view")
    seen = _unpack(noisy)
    drawn = scores(_SIMULATED, columns.count, generator=generator(0))
    correlation = np.eye(columns.count)
    functions, first, second = standard_functions(columns)
    length, free = score_length(noisy.measurement, noisy.rows), _free_pairs(columns)
    start, target = columns, None
    for step in range(_ROUNDS + 1):
        if step:
            columns = _moved(start, functions, first, second)
        rows = view.of(place(correlated(drawn, correlation), columns)) * length
        means, squares, covariance = _moments(rows)
        if target is None:
            target = _targets(seen, means, squares, covariance, free)
        if step == _ROUNDS:
            break
        first = first + 0.8 * (target.means - means)
        second = np.clip(second * np.clip(target.squares / squares, 0.6, 1.6) ** 0.7, 0.01, _FAR**2)
        variances = np.maximum(np.diag(covariance), 1e-12)
        change = target.correlation - covariance / np.sqrt(np.outer(variances, variances))
        correlation = nearest_correlation(correlation + change * free)
    return columns, correlation


def _free_pairs(columns: Columns) -> Array:
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


def denoise(matrix: Array, noise: float) -> Array:
    """Shrink the eigenvalues of a symmetric matrix with Gaussian noise of that deviation s off the diagonal.

    Nothing is kept unless some eigenvalue is beyond what noise alone reaches once in a hundred times (its largest
    eigenvalue is 2 s sqrt(d) + s d^(-1/6) TW, with TW of Tracy and Widom 1996). Then

        l_i -> l_i - 2 s^2 sum_j (l_i - l_j) / ((l_i - l_j)^2 + s^2)

    never beyond 0: the best for eigenvectors as they are, whether few directions carry the signal or all (Bun, Allez,
    Bouchaud and Potters 2016, section IV; the sum is their Hilbert transform, smoothed over the spacing s).
    """
    values, vectors = np.linalg.eigh(matrix)
    d = len(matrix)
    if np.abs(values).max() <= noise * (2.0 * math.sqrt(d) + _TRACY_WIDOM * d ** (-1.0 / 6.0)):
        return np.zeros_like(matrix)
    apart = values[:, None] - values
    shrunk = values - 2.0 * noise**2 * np.sum(apart / (apart**2 + noise**2), axis=1)
    shrunk = np.sign(values) * np.clip(shrunk * np.sign(values), 0.0, np.abs(values))
    kept = np.asarray((vectors * shrunk) @ vectors.T)
    np.fill_diagonal(kept, 0.0)
    return kept


def shrinkage(differences: Array, noise: float) -> float:
    """Return the empirical-Bayes factor t^2/(t^2 + s^2) for a group of noisy differences."""
    signal = max(float(np.mean(differences**2)) - noise**2, 0.0)
    return signal / (signal + noise**2 + 1e-30)


@dataclass(frozen=True, slots=True, eq=False)
class _Target:
    means: Array
    squares: Array
    correlation: Array


def _targets(seen: Seen, means: Array, squares: Array, covariance: Array, free: Array) -> _Target:
    """Decide how much of the difference between what was seen and the model is more than noise."""
    d, noise = len(means), seen.noise
    difference = seen.means - means
    first = means + shrinkage(difference, seen.mean_noise) * difference
    difference = np.diag(seen.squares) - squares
    common = float(difference.mean())
    pooled = common**3 / (common**2 + 2.0 * noise**2 / d)
    own = shrinkage(difference - common, noise * math.sqrt(2.0)) * (difference - common)
    second = np.maximum(squares + pooled + own, 0.05 * squares)
    rest = (seen.squares - np.outer(seen.means, seen.means) - covariance) * free
    variances = np.maximum(second - first**2, np.maximum(0.05 * squares, 0.7 * noise))
    return _Target(first, second, denoise(rest, noise) / np.sqrt(np.outer(variances, variances)))


def _unpack(noisy: NoisyMoments) -> Seen:
    """Turn moments of the view (in units of its length) into those of standardised rows."""
    spread = score_length(noisy.measurement, noisy.rows) ** 2
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
    return Seen(means, squares, noise, mean_noise)


def _moments(rows: Array) -> tuple[Array, Array, Array]:
    means = rows.mean(axis=0)
    squares = np.mean(rows**2, axis=0)
    return means, squares, rows.T @ rows / len(rows) - np.outer(means, means)


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
