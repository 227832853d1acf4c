"""Gaussian copula from clipped second moments; eigenvalue shrinkage.

A symmetric matrix under noise: what many entries say together, what single entries say, and which of the two holds.

Dependence may be spread (a few factors move all columns) or sparse (a few pairs of columns, each on its own). Spread
dependence shows in eigenvalues though no entry stands out, sparse dependence in entries though no eigenvalue does. Both
readings are of the same released matrix, and so is the choice between them: none costs any budget.

How much is believed of what a release of pairs shows: the rest is noise, or was known before.

Dependence from noisy pair moments of standardised, shortened rows.

What was measured is y = (x - m)/u, m and u of the current model, cut to a length. The model is moved until rows that it would
produce, seen the same way, have the measured moments as far as noise lets them be seen: eigenvalues of the
difference are shrunk optimally for symmetric Gaussian noise, means and variances by empirical Bayes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.sampling import correlated, generator, nearest_correlation, place, scores
from smoothsynth.model.scales import FAR, moved, reachable, standard_functions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]


# Either end of the spectrum passes this with a probability of about 0.5 %.
_TRACY_WIDOM = 2.4
# The spectrum of the difference of two large Wishart matrices ends at 2.355 deviations times sqrt(d), and noise of 4 to 60
# columns passes 1.1 deviations more with a probability of 0.2 to 1 % (simulated).
_WISHART_EDGE, _BEYOND_EDGE = 2.355, 1.1
# Noise that is normal, or nearly so in every entry, can be split.
_SPLIT_NOISE = ("discrete gaussian", "wishart", "ball")
# The probability that noise alone makes any entry stand out.
_BY_CHANCE = 0.05
_SPLITS, _SPLIT = 6, 0.5
# What is kept is made no larger than so: if more is lacking, it is not of this kind.
_MOST_SCALED = 1.25


def denoise(matrix: Array, noise: float, *, mechanism: str = "discrete gaussian") -> Array:
    """Return what is left of a matrix with noise of that deviation off the diagonal, by the reading that predicts better.

    Normal noise can be split: with e as large as the noise and independent of it, Y + a e and Y - e/a are independent
    of each other, so what is read from the first may be judged by the second (Oliveira, Lei and Tibshirani 2021).
    """
    if mechanism not in _SPLIT_NOISE or len(matrix) < 3:
        return _as_large(spread(matrix, noise, mechanism), matrix, noise)
    drawing, off = generator(0), ~np.eye(len(matrix), dtype=bool)
    losses = np.zeros(2)
    for _ in range(_SPLITS):
        extra = np.triu(drawing.normal(0.0, noise, matrix.shape), 1)
        extra += extra.T
        seen, other = matrix + _SPLIT * extra, matrix - extra / _SPLIT
        for i, read in enumerate((spread, sparse)):
            losses[i] += np.mean((read(seen, noise * math.hypot(1.0, _SPLIT), mechanism) - other)[off] ** 2)
    read = spread if losses[0] <= losses[1] else sparse
    return _as_large(read(matrix, noise, mechanism), matrix, noise)


def _as_large(kept: Array, matrix: Array, noise: float) -> Array:
    """Scale what is kept to the sum of squares that the matrix has without its noise, never down.

    Shrinking makes each entry nearest to the truth and all of them together too small, and kernels of many columns hang on
    how large they are together: all would err to the same side.
    """
    off = ~np.eye(len(matrix), dtype=bool)
    own = float(np.sum(kept[off] ** 2))
    if own == 0.0:
        return kept
    without_noise = float(np.sum(matrix[off] ** 2)) - noise**2 * int(np.sum(off))
    return np.asarray(kept * min(math.sqrt(max(without_noise / own, 1.0)), _MOST_SCALED))


def spread(matrix: Array, noise: float, mechanism: str = "discrete gaussian") -> Array:
    """Shrink the eigenvalues of a symmetric matrix with noise of deviation s off the diagonal.

    Nothing is kept unless some eigenvalue is beyond what noise alone reaches once in a hundred times (its largest
    eigenvalue is 2 s sqrt(d) + s d^(-1/6) TW, with TW of Tracy and Widom 1996; of Wishart noise more). Then

        l_i -> l_i - 2 s^2 sum_j (l_i - l_j) / ((l_i - l_j)^2 + s^2)

    never beyond 0: the best for eigenvectors as they are, whether few directions carry the signal or all (Bun, Allez,
    Bouchaud and Potters 2016, section IV; the sum is their Hilbert transform, smoothed over the spacing s).
    """
    values, vectors = np.linalg.eigh(matrix)
    d = len(matrix)
    largest = 2.0 * math.sqrt(d) + _TRACY_WIDOM * d ** (-1.0 / 6.0)
    if mechanism == "wishart":
        largest = _WISHART_EDGE * math.sqrt(d) + _BEYOND_EDGE
    if np.abs(values).max() <= noise * largest:
        return np.zeros_like(matrix)
    apart = values[:, None] - values
    shrunk = values - 2.0 * noise**2 * np.sum(apart / (apart**2 + noise**2), axis=1)
    shrunk = np.sign(values) * np.clip(shrunk * np.sign(values), 0.0, np.abs(values))
    kept = np.asarray((vectors * shrunk) @ vectors.T)
    np.fill_diagonal(kept, 0.0)
    return kept


def sparse(matrix: Array, noise: float, mechanism: str = "discrete gaussian") -> Array:
    """Keep the entries that noise alone would not reach anywhere in the matrix, and read the rest as `spread` does."""
    d = len(matrix)
    standing_out = np.abs(matrix) > noise * NormalDist().inv_cdf(1.0 - _BY_CHANCE / (d * (d - 1)))
    np.fill_diagonal(standing_out, val=False)
    return np.where(standing_out, matrix, spread(np.where(standing_out, 0.0, matrix), noise, mechanism))


# Ranks have told the spread of each column already, and without a cut: of what a cut says beyond, half is believed.
_OWN_SQUARES = 0.5

# Standardised rows are cut to length sqrt(s d): shorter rows mean less noise, and less is seen of far ones. So s is as
# large as keeps the noise of a correlation at PAIR_NOISE, within these limits. It is kept at FINE_PAIR_NOISE under pure
# epsilon, where other releases tell means and squares, and where products are two-way tables of levels or missing values.
# But where noise is above ROUGH_NOISE and most of the variance of columns lies outside their middle, rows are expected to
# be short, and are cut shorter still.
LEAST_SHORT, MOST_SHORT, PAIR_NOISE, FINE_PAIR_NOISE = 0.6, 5.0, 0.02, 0.01
LEAST_MIDDLE, ROUGH_NOISE = 0.25, 0.02
# Above this noise of a correlation, rows are seen in roots of deviations: products drown, and errors of wide columns count.
DROWNING_NOISE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """First and second moments of standardised rows, the noise of a pair and of a mean, and of means released before.

    `mechanism` is that of their noise; `pure` if epsilon is.
    """

    means: Array
    squares: Array
    noise: float
    mean_noise: float
    known: Array
    mechanism: str
    pure: bool


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What is to be believed of what was seen: `worth` of each mean, `common` and `own` of squares, from 0 to 1.

    `covariance` is what is believed of the covariance of cut rows, off the diagonal.
    """

    worth: Array
    squares: Array
    seen_squares: Array | None
    expected: Array
    common: float
    own: float
    covariance: Array
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


def unpack(noisy: NoisyMoments, length: float, *, known: Array) -> Seen:
    """Turn moments of the transformation (in units of its length) into those of standardised rows."""
    spread = length**2
    d = len(noisy.measurement.transformation.knots) if noisy.measurement.transformation is not None else 1
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
    measurement = noisy.measurement
    return Seen(means, squares, noise, mean_noise, known, measurement.mechanism, measurement.multiplier is None)


def targets(
    seen: Seen,
    means: Array,
    squares: Array,
    covariance: Array,
    free: Array,
    *,
    expected: Array,
    tied: Array | None = None,
) -> Target:
    """Decide how much of the difference between what was seen and the model is more than noise."""
    d, noise = len(means), seen.noise
    difference = seen.means - means
    known = seen.known**2 / (seen.known**2 + seen.mean_noise**2)
    worth = np.minimum(_shrinkage(difference, seen.mean_noise), known)
    first = means + worth * difference
    difference = np.diag(seen.squares) - squares
    common = float(difference.mean())
    together = common**2 / (common**2 + 2.0 * noise**2 / d)
    own = _OWN_SQUARES * _shrinkage(difference - common, noise * math.sqrt(2.0))
    second = np.maximum(squares + together * common * expected + own * (difference - common), 0.05 * squares)
    rest = (seen.squares - np.outer(seen.means, seen.means) - covariance) * free
    variances = np.maximum(second - first**2, np.maximum(0.05 * squares, 0.7 * noise))
    found = denoise(rest, noise, mechanism=seen.mechanism)
    wanted = found if tied is None else tied + found
    return Target(
        worth,
        second,
        np.diag(seen.squares) if seen.pure else None,
        expected,
        together,
        own,
        wanted,
        wanted / np.sqrt(np.outer(variances, variances)),
    )


def _shrinkage(differences: Array, noise: float) -> float:
    """Return the empirical-Bayes factor t^2/(t^2 + s^2) for a group of noisy differences."""
    signal = max(float(np.mean(differences**2)) - noise**2, 0.0)
    return signal / (signal + noise**2 + 1e-30)


# Rows by which the model sees itself: so many that their own sampling error, 1/sqrt(rows), is half of the noise.
_FEWEST_SIMULATED, MOST_SIMULATED = 3_000, 40_000
_ROUNDS = 8
# All rows of the model may have the same value in a column.
_TINY = 1e-300
# Up to about this noise of a correlation, rows are to have the ones that were believed, whatever their lengths.
_CLEAR = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class CutMoments:
    """Moments of rows through a transformation that cuts them, as released.

    `worth` is what a mean tells beside what was known `before`, from 0 to 1. In units of the cube: `units` are those of the
    transformation, `noise` is that of the means, `before` are the model's means before.
    In units of the transformation: `covariance`, what was `believed` of it off the diagonal, and `pair_noise`, the noise of
    a product, of a `mechanism`. `loose` is the noise of the common scale of all variances, relative to it: rows that
    are cut tell little of it.
    """

    transformation: Transformation
    means: Array
    worth: Array
    units: Array
    noise: Array
    before: Array
    covariance: Array
    believed: Array
    pair_noise: float
    mechanism: str
    loose: float

    def length(self, columns: Marginals) -> float:
        """Return the length to which rows were cut, in standard deviations of the columns."""
        return float(np.mean(self.units / columns.deviations()))

    def missing_means(self, columns: Marginals, rows: Array, weights: Array) -> Array:
        """Return by how much the means of columns are too small, of which these are weighted rows, in units of the cube.

        Cut rows lack `worth` of what was seen; for the rest, columns are to have the means that they had before.
        """
        seen = self.units * (self.means - weights @ self.transformation.of(rows))
        return np.asarray(self.worth * seen + (1.0 - self.worth) * (self.before - columns.means()))

    def wanted(self, columns: Marginals, rows: Array, weights: Array, free: Array) -> Array:
        """Return the covariance that weighted rows of these columns are to have through the transformation, off the diagonal.

        Rows that were chosen by their lengths have another one than was believed of pairs. With q the noise of a
        correlation, 1 / (1 + (q / _CLEAR)^2) of the way back is wanted: where pairs drown, the lengths know better, which
        turned rows would lose. Whatever else stands out of the noise is wanted too.
        """
        _, _, covariance = _moments(self.transformation.of(rows), weights)
        noise = self.pair_noise * self.length(columns) ** 2
        back = covariance + (self.believed - covariance) * free / (1.0 + (noise / _CLEAR) ** 2)
        return back + denoise((self.covariance - back) * free, self.pair_noise, mechanism=self.mechanism)

    def missing_correlation(self, wanted: Array, rows: Array, weights: Array, free: Array) -> Array:
        """Return what weighted rows lack in correlation to have this covariance through the transformation."""
        covariance, scale = self._seen(rows, weights)
        return np.asarray((wanted - covariance) * free / scale)

    def correlation_noise(self, rows: Array, weights: Array) -> Array:
        """Return the noise of each correlation of weighted rows: the less a column varies in cut rows, the more it has."""
        return np.asarray(self.pair_noise / self._seen(rows, weights)[1])

    def _seen(self, rows: Array, weights: Array) -> tuple[Array, Array]:
        """Return the covariance of rows through the transformation, and the product of deviations for each pair."""
        _, squares, covariance = _moments(self.transformation.of(rows), weights)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-3 * squares.mean()))
        return covariance, np.outer(spread, spread)


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """What pairs tell: columns, their correlation, and the moments of cut rows that both were moved to."""

    columns: Marginals
    correlation: Array
    cut: CutMoments


def learn_pairs(columns: Marginals, noisy: NoisyMoments, *, known: Array) -> Dependence:
    """Find columns and a correlation matrix whose rows, seen through the transformation, have the noisy moments.

    `known` is the noise of each mean as it was released before: a better one is not given up for a worse one.
    """
    transformation = noisy.measurement.transformation
    if transformation is None:
        raise ValueError("pairs are measured through a view")
    length = score_length(columns, noisy.measurement, noisy.rows)
    units = score_units(columns, noisy.measurement, noisy.rows)
    seen = unpack(noisy, length, known=known / units)
    simulated = min(max(_FEWEST_SIMULATED, (2.0 / max(seen.noise, 1e-9)) ** 2), MOST_SIMULATED)
    drawn = scores(round(simulated), columns.count, generator=generator(0))
    correlation = np.eye(columns.count)
    functions, first, second = standard_functions(columns)
    start, free = columns, free_pairs(columns)
    rows = transformation.of(place(correlated(drawn, correlation), columns)) * length
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
        rows = transformation.of(place(correlated(drawn, correlation), columns)) * length
        means, squares, covariance = _moments(rows)
    whole = float(np.mean(np.linalg.norm(rows, axis=1) < 0.999 * length))
    loose = math.sqrt(2.0 / columns.count) * seen.noise / max(whole, 0.05)
    units = length * units
    cut = CutMoments(
        transformation,
        seen.means / length,
        target.worth,
        units,
        seen.mean_noise / length * units,
        start.means(),
        (seen.squares - np.outer(seen.means, seen.means)) / length**2,
        target.covariance / length**2,
        seen.noise / length**2,
        seen.mechanism,
        loose,
    )
    return Dependence(columns, correlation, cut)


def free_pairs(columns: Marginals) -> Array:
    """Return 1 for pairs of coordinates whose dependence is to be learned, 0 within one column."""
    free = 1.0 - np.eye(columns.count)
    for together in (*columns.groups.levels, *columns.groups.missing):
        free[np.ix_(together, together)] = 0.0
    return free


def _moments(rows: Array, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """Return the means, mean squares and covariance of rows, weighted or not."""
    if weights is None:
        means, products = rows.mean(axis=0), rows.T @ rows / len(rows)
    else:
        means, products = weights @ rows, (rows * weights[:, None]).T @ rows
    return means, np.diag(products).copy(), products - np.outer(means, means)


def score_length(columns: Marginals, measurement: Measurement, rows: int) -> float:
    """Return the length sqrt(s d) to which standardised rows are cut: from the noise, which is known beforehand.

    A product has noise w in units of the transformation, so a correlation has noise  w s d.
    """
    noise = _pair_noise(columns, measurement, rows)
    middle = max(LEAST_MIDDLE, ROUGH_NOISE / noise, float(columns.middles_of_variance().mean()))
    fine = measurement.multiplier is None or bool(columns.groups.indicators)
    allowed = FINE_PAIR_NOISE if fine else PAIR_NOISE
    return math.sqrt(columns.count * min(MOST_SHORT, max(min(LEAST_SHORT, middle), allowed / noise)))


def score_units(columns: Marginals, measurement: Measurement, rows: int) -> Array:
    """Return the unit u of each coordinate: its deviation s where pairs are seen well, towards the root of it where not.

    Noise is equal in these units, and grows with the length of rows in them:  sum u^2 sum (s/u)^2  over the columns for means
    and products together. It is least for the root. Correlations are seen alike in all columns for u = s. Units are scaled
    so that rows have a mean square of 1 in them.
    """
    noise = _pair_noise(columns, measurement, rows)
    deviations = columns.deviations()
    units = deviations ** (1.0 - 0.5 * noise**2 / (noise**2 + DROWNING_NOISE**2))
    return np.asarray(units * math.sqrt(np.mean((deviations / units) ** 2)))


def _pair_noise(columns: Marginals, measurement: Measurement, rows: int) -> float:
    """Return the noise that a correlation has if rows are cut at the length that they have on average."""
    return float(measurement.deviations(rows).min()) * columns.count
