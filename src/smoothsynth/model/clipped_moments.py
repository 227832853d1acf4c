"""What clipped rows tell of columns and correlations, and how it is held.

Moments of rows that were seen cut to a length, held once the lengths of rows are known.

How much a cut takes from the mean of a column depends on which rows are long. When pairs are learned, the model's rows
have the lengths that correlations give them; rows that are chosen to have the released lengths are cut otherwise, and
their correlations differ too. So columns are moved once more, until chosen rows have the means that were seen, and
correlations as far as what chosen rows lack is more than noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.copula import free_pairs
from smoothsynth.model.row_norms import believed, length_weights
from smoothsynth.model.sampling import correlated, nearest_correlation, place, scores
from smoothsynth.model.sampling import generator as seeded
from smoothsynth.model.scales import mean_square, scaled, shifted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
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


def hold_cut_moments(
    columns: Marginals, correlation: Array, lengths: NoisyMoments, cut: CutMoments, *, known: Known
) -> tuple[Marginals, Array]:
    """Move columns and correlations until rows that have the released lengths have the moments of cut rows that were seen.

    The mean length of rows was right before, and is made so again.
    """
    values = [c for c in range(columns.count) if c not in columns.groups.indicators]
    wanted, free = mean_square(columns, values), free_pairs(columns)
    drawn = _simulated(columns, correlation)
    rows = place(drawn, columns)
    believable, pairs = believed(rows, lengths), None
    for _ in range(_ROUNDS):
        weights = length_weights(rows, lengths, believable)
        rows = place(drawn, columns, weights=weights)
        pairs = cut.wanted(columns, rows, weights, free) if pairs is None else pairs
        lacking = cut.missing_correlation(pairs, rows, weights, free)
        columns = shifted(columns, _STEP * cut.missing_means(columns, rows, weights))
        correlation = nearest_correlation(correlation + _STEP * lacking)
        drawn = _simulated(columns, correlation)
        rows = place(drawn, columns, weights=weights)
    return scaled(columns, lambda now: wanted - mean_square(now, values), known), correlation


def _simulated(columns: Marginals, correlation: Array) -> Array:
    """Draw scores of rows by which the model sees itself."""
    count = _SIMULATED if columns.limits is None else _SIMULATED_IN_LIMITS
    return correlated(scores(count, columns.count, generator=seeded(5)), correlation)


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
