"""Scales of columns: held by squares, and their posterior given all that was measured.

Move means and variances of marginals.

Columns moved to other means and variances, in units of their own deviations.

The mean square of a row's values: one number on which every wide kernel depends, and all in the same direction.

The spread of every column, looked at once more when everything has been released.

Four releases tell of it: mean squares, ranks, squares of rows that were cut to a length, lengths of rows. Each is learned
when it comes, and moves what those before have told. At the end the model's rows are compared with all of them at once, but
for the ranks, which made the shapes. With theta_j the logarithm of the factor by which column j should be wider, A the
information that the releases together have of theta and g their slope,

    theta  =  (A + P^-1)^-1 g,       P = own^2 I + common^2 1 1^T

where columns may be off by `own` each and by `common` all together. How far that is, is not known beforehand: all pairs of a
grid are taken, each as likely as it makes what was released (empirical Bayes). So columns move where the releases agree that
they are wrong, and stay where it is noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import UNKNOWN, first_moments, measured_means, measured_square, missing_share
from smoothsynth.model.marginals import tilt
from smoothsynth.model.row_norms import believed, cosines, length_weights
from smoothsynth.model.row_norms import mean_square as row_squares
from smoothsynth.model.sampling import place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


# Values further off than this, in deviations, count as being there.
FAR = 5.0
# How far into the range of a column its mean may move, and the least variance, both of standardised values.
_WITHIN, _LEAST_VARIANCE = 0.9, 0.0625


def shifted(columns: Marginals, by: Array) -> Marginals:
    """Move the means of columns, and the shares of levels and indicators; variances stay."""
    functions, first, second = standard_functions(columns)
    wanted = first + by / columns.deviations()
    return moved(columns, functions, *reachable(columns, functions, wanted, second - first**2 + wanted**2))


def standard_functions(columns: Marginals) -> tuple[Array, Array, Array]:
    """Return y and y^2 on the cells, y the standardised and clipped value, with their means."""
    y = (columns.places - columns.means()[:, None]) / columns.deviations()[:, None]
    y = np.clip(y, -FAR, FAR)
    functions = np.stack([y, y**2], axis=1)
    means = np.einsum("dqg,dg->dq", functions, columns.masses)
    return functions, means[:, 0], means[:, 1]


def reachable(columns: Marginals, functions: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Keep means of y inside its range and variances from vanishing: no noise may put a whole column on one value."""
    possible = columns.base > 0.0
    low = np.where(possible, functions[:, 0], np.inf).min(axis=1)
    high = np.where(possible, functions[:, 0], -np.inf).max(axis=1)
    first = np.clip(first, _WITHIN * low, _WITHIN * high)
    return first, np.maximum(second, first**2 + _LEAST_VARIANCE)


def moved(columns: Marginals, functions: Array, first: Array, second: Array) -> Marginals:
    """Move columns until standardised values, and levels and indicators, have these means."""
    means, deviations = columns.means(), columns.deviations()
    shares = {c: float(means[c] + first[c] * deviations[c]) for c in columns.groups.indicators}
    return retarget(columns, functions, first, second).with_shares(shares)


def retarget(columns: Marginals, functions: Array, first: Array, second: Array) -> Marginals:
    """Tilt columns softly so that y and y^2 have the given means; levels of categories and indicators stay as they are."""
    indicators = list(columns.groups.indicators)
    second = np.maximum(second, first**2 + 0.02 * np.maximum(second, 1e-3))
    values = np.stack([first, second], axis=1)
    tilted = tilt(columns, functions, values, np.broadcast_to(np.array([0.003, 0.01]), values.shape))
    if not indicators:
        return tilted
    masses = tilted.masses.copy()
    masses[indicators] = columns.masses[indicators]
    return replace(tilted, masses=masses)


_ROUNDS = 5
# Below this share of what is to be learned nothing is done.
_LITTLE = 0.01
# By such a share all variances together may be wrong beside noise, after rows were cut, and where they never were measured.
_CUT_SCALE, _UNSEEN_SCALE = 0.3, 0.5
# Ranks, uncut, tell spreads too: no more than so many times their noise.
_RANKS_SCALE = 3.0
# Means of cut rows have an error of about their noise beside it (decision 0008).
_CUT_BIAS, _IN_COMMON = 1.4, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """How well it is known, before the mean square is, what it consists of: means (their noise), and the common scale."""

    means: Array
    scale: float
    of_ranks: float = math.inf

    def of_means(self, means: Array) -> float:
        """Return the error of the mean of m_i^2: that of each mean by itself, and a half that all may have in common."""
        each = np.where(self.means < UNKNOWN, np.abs(means) * self.means, 0.0)
        return 2.0 * math.hypot(math.sqrt(float(np.sum(each**2))) / len(each), _IN_COMMON * float(np.mean(each)))

    def shares(self, means: Array, spread: float, doubt: float) -> tuple[float, float, float]:
        """Share what is missing of a mean square between the means, the scale of variances, and its own noise."""
        of_means, of_scale = self.of_means(means) ** 2, (self.scale * spread) ** 2
        doubted = doubt**2 / max(of_means + of_scale + doubt**2, 1e-300)
        narrow = min(of_scale, (self.of_ranks * spread) ** 2)
        moved = of_means / max(of_means + narrow, 1e-300)
        return (1.0 - doubted) * moved, (1.0 - doubted) * (1.0 - moved), doubted


def known_so_far(
    columns: Marginals, low: Sequence[NoisyMoments], cut: CutMoments | None, rank_noise: float = math.inf
) -> Known:
    """Return what the first release, ranks and, if there was one, a release of cut rows tell."""
    _, first = measured_means(columns, low)
    of_ranks = _RANKS_SCALE * rank_noise
    if cut is None:
        return Known(first, _UNSEEN_SCALE, of_ranks)
    means = 1.0 / np.hypot(1.0 / first, 1.0 / (_CUT_BIAS * cut.noise))
    return Known(np.where(first < UNKNOWN, means, UNKNOWN), math.hypot(_CUT_SCALE, cut.loose), of_ranks)


def hold_square(
    columns: Marginals, low: Sequence[NoisyMoments], cut: CutMoments, rank_noise: float = math.inf
) -> Marginals:
    """Move all columns to the mean square that was released first, as far as it is known better than by cut rows."""
    lines = [c for c in range(columns.count) if c not in columns.groups.indicators]
    released, noise = measured_square(columns, low)
    if not lines:
        return columns

    apart = released - mean_square(columns, lines)
    # A gap that noise does not explain is an error of the pairs: rows that are cut to a length tell little of their scale.
    own = max((cut.loose * float(np.mean(columns.deviations()[lines] ** 2))) ** 2, apart**2 - noise**2)
    worth = own / (own + noise**2)
    if worth < _LITTLE:
        return columns
    wanted = mean_square(columns, lines) + worth * apart
    known = known_so_far(columns, low, cut, rank_noise)
    return scaled(columns, lambda now: wanted - mean_square(now, lines), known)


def mean_square(columns: Marginals, lines: Sequence[int]) -> float:
    """Return the mean of x^2 over these columns, 0 where a value is missing."""
    squares = np.einsum("dg,dg->d", columns.masses, columns.places**2)
    return float(np.mean([(1.0 - missing_share(columns, c)) * squares[c] for c in lines]))


def scaled(columns: Marginals, missing: Callable[[Marginals], float], known: Known, *, doubt: float = 0.0) -> Marginals:
    """Move all columns together until nothing is missing of the mean square: their means, and their variances.

    A mean square t = mean of (m_i^2 + v_i) may be off because the means are, because all variances are, by a share of
    them, or because of its own noise, the `doubt`. What is missing is shared by the squares of the three; the last part
    stays missing. Means m_i with noise s_i move by m_i s_i^2 times a common factor.
    """
    functions, first, second = standard_functions(columns)
    deviations, means = columns.deviations(), columns.means()
    spread = float(np.mean(deviations**2))
    ways = np.where(known.means < UNKNOWN, means * known.means**2, 0.0)
    shares = known.shares(means, spread, doubt)
    ways *= columns.count / max(2.0 * float(ways @ means), 1e-300)
    start, factor, moved, gap = columns, 1.0, 0.0, missing(columns)
    doubted = shares[2] * gap
    for _ in range(_ROUNDS):
        believed = (gap - doubted) / max(shares[0] + shares[1], 1e-300)
        factor = float(np.clip(factor * (1.0 + shares[1] * believed / spread), 0.3, 3.0))
        moved += shares[0] * believed
        there, _ = reachable(start, functions, first + moved * ways / deviations, second)
        columns = retarget(start, functions, there, (second - first**2) * factor + there**2)
        gap = missing(columns)
    return columns


_POSTERIOR_ROUNDS = 2
# By which share deviations may be off, before anything is compared.
_OFF = np.concatenate([[0.0], np.geomspace(0.002, 0.5, 9)])
# Where columns have no more than the first of their variance in their middle, cut rows cannot tell the common scale, which
# hangs on tails: it stays as it is, within this part of the noise with which lengths told it. From the second on they can.
_TAILS, _NO_TAILS, _STAYS = 0.7, 0.95, 0.1
# Squares of cut rows may be wrong by such a share because the model's rows depend on each other in another way.
_BENT = 0.02
# No deviation changes by more than this factor at once.
_MOST = 1.6


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The information of releases about theta, and its slope where columns are now."""

    information: Array
    slope: Array

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.information + other.information, self.slope + other.slope)

    def estimate(self, start: Array) -> Array:
        """Return theta, averaged over what may be off; `start` is where columns are now."""
        values, vectors = np.linalg.eigh(self.information)
        values = np.maximum(values, 0.0)
        g, ones = vectors.T @ (self.slope + self.information @ start), vectors.T @ np.ones(len(start))
        likely, found = [], []
        for own in _OFF**2:
            kept = 1.0 / (1.0 + own * values)
            left, together = float(np.sum(ones * g * kept)), float(np.sum(ones**2 * values * kept))
            alone = float(np.sum(np.log(kept) + own * g**2 * kept)) / 2.0
            for common in _OFF**2:
                scale = common / (1.0 + common * together)
                likely.append(alone - math.log1p(common * together) / 2.0 + scale * left**2 / 2.0)
                rest = (g - values * ones * scale * left) * kept
                found.append(own * rest + common * ones * float(ones @ rest))
        weights = np.exp(np.array(likely) - max(likely))
        return np.asarray(vectors @ (weights @ np.array(found) / weights.sum()))


def settle_spreads(
    columns: Marginals,
    drawn: Array,
    low: Sequence[NoisyMoments],
    cut: CutMoments,
    lengths: NoisyMoments,
    *,
    square: float = math.inf,
) -> Marginals:
    """Scale columns around their means by what all releases together tell; `drawn` are scores of the model's rows.

    `square` is the noise of the mean square of rows where it was released by itself.
    """
    lines = [c for c in range(columns.count) if c not in columns.groups.indicators]
    if not lines:
        return columns
    start = np.log(columns.deviations()[lines])
    middle = float(columns.middles_of_variance()[lines].mean())
    told = float(np.clip((middle - _TAILS) / (_NO_TAILS - _TAILS), 0.0, 1.0))
    believable = believed(place(drawn, columns), lengths)
    wanted = mean_square(columns, lines)
    for _ in range(_POSTERIOR_ROUNDS):
        weights = length_weights(place(drawn, columns), lengths, believable)
        rows = place(drawn, columns, weights=weights)
        off = _Rows(columns, rows, weights, lines)
        evidence = (
            off.of_squares(low) + off.of_cut_squares(cut, told) + off.of_mean_square(wanted, lengths, square, told)
        )
        now = np.log(columns.deviations()[lines]) - start
        columns = widened(columns, lines, np.exp(evidence.estimate(now) - now))
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Weighted rows of the model, and what they tell about each release."""

    columns: Marginals
    rows: Array
    weights: Array
    lines: list[int]

    def moving(self) -> Array:
        """Return by how much each value moves with theta: its distance from the mean, 0 where it is missing."""
        moving = self.rows - self.columns.means()
        for value, indicator in self.columns.groups.missing:
            moving[self.rows[:, indicator] > 0.0, value] = 0.0
        return moving[:, self.lines]

    def of_squares(self, low: Sequence[NoisyMoments]) -> Evidence:
        """Compare T_2 of each column as first released:  d T_2 / d theta = 4 v,  v the variance."""
        released, noise = (found[self.lines, 1] for found in first_moments(self.columns, low))
        places, masses = self.columns.places[self.lines], self.columns.masses[self.lines]
        missing = released - np.einsum("dg,dg->d", masses, 2.0 * places**2 - 1.0)
        slopes = 4.0 * self.columns.deviations()[self.lines] ** 2 / noise
        return Evidence(np.diag(slopes**2), slopes * missing / noise)

    def of_cut_squares(self, cut: CutMoments, told: float) -> Evidence:
        """Compare squares of cut rows z, whose common scale they tell as far as `told`.

        With y the row before the cut, y' how it moves and |y| its length, 1 or more where it is cut,

            d z_k^2 / d theta_j  =  2 y_j y'_j (1_{j = k} - z_k^2 1_cut) / max(|y|, 1)^2
        """
        seen = (np.diag(cut.covariance) + cut.means**2)[self.lines]
        y = cut.transformation.unclipped(self.rows)
        length = np.maximum(np.linalg.norm(y, axis=1), 1.0)
        by = 2.0 * y[:, self.lines] * (self.moving() / cut.units[self.lines]) * (self.weights / length**2)[:, None]
        squares = (y[:, self.lines] / length[:, None]) ** 2
        slopes = np.diag(by.sum(axis=0)) - (squares * (length > 1.0)[:, None]).T @ by
        means = self.weights @ squares
        own, common = (_BENT * means) ** 2, _BENT**2 + (1.0 - told) ** 2
        noise = np.diag(2.0 * cut.pair_noise**2 + own) + common * np.outer(means, means)
        weighted = np.linalg.solve(noise, slopes)
        return Evidence(slopes.T @ weighted, weighted.T @ (seen - means))

    def of_mean_square(self, wanted: float, noisy: NoisyMoments, square: float, told: float) -> Evidence:
        """Compare the mean square of all values with the one that is wanted:  d t / d theta_j = 2 v_j there_j / d.

        Its noise is that of the mean length of rows after the noisy cosines: what these tell of it, by regression.
        """
        lengths = row_squares(self.rows)
        seen = cosines(lengths, noisy)
        around, own = seen - self.weights @ seen, lengths - self.weights @ lengths
        weighted = around * self.weights[:, None]
        slopes = np.linalg.solve(weighted.T @ around + np.diag(noisy.deviations**2), weighted.T @ own)
        noise = 1.0 / math.hypot(1.0 / square, 1.0 / (float(np.linalg.norm(slopes * noisy.deviations)) + 1e-9))
        noise *= (told + _STAYS * (1.0 - told)) * self.columns.count / len(self.lines)
        there = 1.0 - np.array([missing_share(self.columns, c) for c in self.lines])
        towards = 2.0 * self.columns.deviations()[self.lines] ** 2 * there / len(self.lines) / noise
        missing = (wanted - mean_square(self.columns, self.lines)) / noise
        return Evidence(np.outer(towards, towards), towards * missing)


def widened(columns: Marginals, lines: list[int], by: Array) -> Marginals:
    """Scale columns of values around their means."""
    functions, first, second = standard_functions(columns)
    factors = np.ones(columns.count)
    factors[lines] = np.clip(by, 1.0 / _MOST, _MOST) ** 2
    return retarget(columns, functions, *reachable(columns, functions, first, (second - first**2) * factors + first**2))
