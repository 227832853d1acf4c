"""What clipped rows tell of columns, correlations and spreads, and how it is held.

Moments of rows that were seen cut to a length, held once the lengths of rows are known.

How much a cut takes from the mean of a column depends on which rows are long. When pairs are learned, the model's rows
have the lengths that correlations give them; rows that are chosen to have the released lengths are cut otherwise, and
their correlations differ too. So columns are moved once more, until chosen rows have the means that were seen, and
correlations as far as what chosen rows lack is more than noise.

Still, where rows form clusters, a cut moves means in ways that no such model tells. Means that were released first, uncut,
are noisier but have no such error. Where the two differ by more than noise can explain, the rest is an error of the cut.

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

from smoothsynth.model.copula import free_pairs
from smoothsynth.model.marginal_moments import UNKNOWN, first_moments, measured_means, missing_share
from smoothsynth.model.row_norms import believed, cosines, length_weights
from smoothsynth.model.row_norms import mean_square as row_squares
from smoothsynth.model.sampling import generator as seeded
from smoothsynth.model.sampling import nearest_correlation, place
from smoothsynth.model.scales import mean_square, reachable, retarget, scaled, shifted, standard_functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
    from smoothsynth.model.row_norms import Stretch
    from smoothsynth.model.scales import Known
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


# So many rows of a table tell what is lacking in it.
_MOST_LOOKED_AT = 200_000
# Rows that must keep constraints take longer to place.
_SIMULATED, _SIMULATED_IN_LIMITS = 6000, 2000
_ROUNDS, _STEP = 4, 0.8
# Below this, no correlation is worth turning rows for.
_LITTLE = 0.0005
# There are many pairs with levels: what one of them lacks is believed beyond so many times its noise.
_DOUBT = 2.0
# How many deviations a mean square of differences may be larger by chance.
_BEYOND_CHANCE = 2.5


def hold_cut_moments(
    columns: Marginals, correlation: Array, lengths: NoisyMoments, stretch: Stretch, cut: CutMoments, *, known: Known
) -> tuple[Marginals, Array]:
    """Move columns and correlations until rows that have the released lengths have the moments of cut rows that were seen.

    The mean length of rows was right before, and is made so again.
    """
    values = [c for c in range(columns.count) if c not in columns.groups.indicators]
    wanted, free = mean_square(columns, values), free_pairs(columns)
    drawn = simulated(columns, correlation, stretch)
    rows = place(drawn, columns)
    believable, pairs = believed(rows, lengths), None
    for _ in range(_ROUNDS):
        weights = length_weights(rows, lengths, believable)
        rows = place(drawn, columns, weights=weights)
        pairs = cut.wanted(columns, rows, weights, free) if pairs is None else pairs
        lacking = cut.missing_correlation(pairs, rows, weights, free)
        columns = shifted(columns, _STEP * cut.missing_means(columns, rows, weights))
        correlation = nearest_correlation(correlation + _STEP * lacking)
        drawn = simulated(columns, correlation, stretch)
        rows = place(drawn, columns, weights=weights)
    return scaled(columns, lambda now: wanted - mean_square(now, values), known), correlation


def simulated(columns: Marginals, correlation: Array, stretch: Stretch) -> Array:
    """Draw scores of rows by which the model sees itself."""
    count = _SIMULATED if columns.limits is None else _SIMULATED_IN_LIMITS
    return stretch.drawn(count, columns, correlation, generator=seeded(5))


def hold_pairs(chosen: Array, columns: Marginals, cut: CutMoments) -> Array:
    """Turn chosen scores until the rows placed by them have the pair moments that were seen, as far as noise let them be.

    Where both lengths and pairs are known well, and rows form clusters, no correlation of the scores to choose from gives
    the chosen ones the right one. What is lacking is found on the table itself, so that no chance remains in it.
    """
    if len(chosen) <= 2 * columns.count:
        return chosen
    seen = chosen[:: -(-len(chosen) // _MOST_LOOKED_AT)]
    if len(seen) < len(chosen):
        of_chance = 1.0 / (cut.length(columns) ** 2 * math.sqrt(len(seen)))
        cut = replace(cut, pair_noise=math.hypot(cut.pair_noise, of_chance))
    flat, free, turned, found = np.full(len(seen), 1.0 / len(seen)), free_pairs(columns), np.eye(columns.count), []
    rows = place(seen, columns)
    pairs = cut.wanted(columns, rows, flat, free)
    for step in range(_ROUNDS):
        rows = place(seen @ turned, columns) if step else rows
        lacking = cut.missing_correlation(pairs, rows, flat, free)
        found.append((float(np.sum(lacking**2)), turned))
        if np.abs(lacking).max() < _LITTLE:
            break
        now = turned.T @ np.cov(seen.T) @ turned
        spread = np.sqrt(np.diag(now))
        try:
            own = np.linalg.cholesky(now / np.outer(spread, spread))
        except np.linalg.LinAlgError:
            break
        wanted = np.linalg.cholesky(nearest_correlation(own @ own.T + _STEP * lacking))
        turned = turned @ (np.linalg.solve(own.T, wanted.T) * spread / spread[:, None])
    return np.asarray(chosen @ min(found, key=lambda one: one[0])[1])


def lacking_pairs(rows: Array, columns: Marginals, cut: CutMoments) -> tuple[Array, Array]:
    """Return what rows lack in correlation of what was seen of pairs, and its noise: what no copula could give them.

    Where three columns crowd on one value each in the same rows, their correlations may be none of three normal scores.
    What is below the noise of a correlation is left as it is, or below twice that where a level of a category is one of the
    two; and all pairs with an indicator of missing values, whose places rows do not exchange.
    """
    seen, free = rows[:: -(-len(rows) // _MOST_LOOKED_AT)], free_pairs(columns)
    holes, levels = (
        [indicator for _, indicator in columns.groups.missing],
        [c for group in columns.groups.levels for c in group],
    )
    free[holes] = free[:, holes] = 0.0
    flat = np.full(len(seen), 1.0 / len(seen))
    lacking = cut.missing_correlation(cut.wanted(columns, seen, flat, free), seen, flat, free)
    noise = cut.correlation_noise(seen, flat)
    doubt = np.ones(columns.count)
    doubt[levels] = _DOUBT
    return np.where(np.abs(lacking) > noise * np.maximum.outer(doubt, doubt), lacking, 0.0), noise


def pairs_distance(rows: Array, columns: Marginals, cut: CutMoments) -> float:
    """Return the sum of squares of what rows lack of released correlations, over that of their noise."""
    seen, free = rows[:: -(-len(rows) // _MOST_LOOKED_AT)], free_pairs(columns)
    flat = np.full(len(seen), 1.0 / len(seen))
    lacking = cut.missing_correlation(cut.covariance, seen, flat, free) / cut.correlation_noise(seen, flat)
    return float(np.sum(np.triu(lacking, 1) ** 2))


def hold_whole_means(columns: Marginals, low: Sequence[NoisyMoments], cut: CutMoments) -> Marginals:
    """Go back towards the means before the cut where it brought errors of its own, beyond noise and chance.

    The first release, which was not cut, tells the mean square of the errors: t^2 of the means before, b^2 of those now. If
    b^2 is larger than noise, and than t^2, by more than chance, t^2/(t^2 + b^2) of the way between them is kept.
    """
    released, noise = measured_means(columns, low)
    lines = noise < UNKNOWN
    if not lines.any():
        return columns
    chance = _BEYOND_CHANCE * math.sqrt(2.0 / lines.sum()) * float(np.mean((noise**2 + cut.noise**2)[lines]))

    def error(means: Array) -> float:
        return max(float(np.mean((means - released)[lines] ** 2 - noise[lines] ** 2)), 0.0)

    now, before = error(columns.means()), error(cut.before)
    if now <= chance + max(float(np.mean(cut.noise[lines] ** 2)), before):
        return columns
    back = now / (now + before) * (cut.before - columns.means())
    return shifted(columns, np.where(lines, back, 0.0))


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
