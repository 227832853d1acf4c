"""The spread of every column, looked at once more when everything has been released.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import first_moments, missing_share
from smoothsynth.model.row_norms import believed, cosines, length_weights
from smoothsynth.model.row_norms import mean_square as row_squares
from smoothsynth.model.sampling import place
from smoothsynth.model.scales import mean_square, reachable, retarget, standard_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


_ROUNDS = 2
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
    for _ in range(_ROUNDS):
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
