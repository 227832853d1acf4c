"""Columns from noisy cosines or soft counts of the ranks in them: what all have in common, and what each has of its own.

Of B soft counts there are B - 1 cosines, each of them drawn straight from the middle of one count to that of the next:

    b_k = sum over j of  cos(pi k (j - 1/2) / B)  n_j,       n_j = (1 + 2 sum over k of  cos(pi k (j - 1/2) / B) b_k) / B

Either was measured. Where counts were, the noise of a cosine is sqrt(B / 2) times that of a count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.marginal_moments import UNKNOWN, first_moments, learn_shares, missing_share, where_there
from smoothsynth.model.marginals import first_functions, tilt
from smoothsynth.model.scales import WITHIN
from smoothsynth.model.spikes import spike_functions
from smoothsynth.queries.bases import LATTICE, HatBasis, cosine_map, count_values
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.transformation import knot_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.model.spikes import Spike
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]


# Cosines are matched within so many times their noise, at most this: a few of them cannot tell the shape of a density.
LOOSE, _MOST_LOOSE = 3.0, 0.3
# First moments, which ranks were seen through, are held within so many times their noise.
_LOOSE_FIRST = 9.0
# A soft count that holds so many times its share of a column may hold a single value.
_CROWDED = 5.0
# A flat share is kept of every column, for what noise may hide: this part of the noise of the first cosine, at most so much.
_HIDDEN, _MOST_FLAT = 0.25, 0.03
# Cosines of ranks that are so many times their noise away from what they were said to be are not there by noise.
_BEYOND_NOISE = 6.0


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What was measured of columns before tables, and how uncertain it is left, as (coordinates, functions).

    Of cosines of ranks also what columns had of them when they were learned, and the noise they were measured with.
    """

    ranks: NoisyMoments
    spikes: Sequence[Spike]
    doubt: Array
    learned: Array
    noise: Array


def learn_ranks(
    columns: Marginals, noisy: NoisyMoments, low: Sequence[NoisyMoments], spikes: Sequence[Spike] = ()
) -> tuple[Marginals, Known | None]:
    """Tilt columns to noisy cosines or soft counts of their own distribution functions, shrunk by what they are worth.

    Means and mean squares released before are held loosely: cosines of ranks tell little of tails and of values far off.
    Under pure epsilon the means, measured better than ranks, are held within their noise. Beside the columns it returns
    what is known of them now; nothing if none is a number.
    """
    columns = learn_shares(columns, (*low, noisy))
    lines = [c for c in range(columns.count) if c not in columns.groups.indicators]
    if not lines:
        return columns, None
    values, deviations = _released(columns, noisy)
    transformation, family = noisy.measurement.transformation, noisy.measurement.family
    if transformation is None or not isinstance(family, RankHistogram):
        raise ValueError("ranks are measured through a view")
    if family.cells is not None:
        cosines = _cosines(family.cells, measured=family.cosines)
        counts = (1.0 + 2.0 * values @ cosines) / family.cells if family.cosines else values
        columns = columns.with_cells_at(
            {c: _crowded(transformation, c, counts[c]) for c in lines if not columns.exact[c]}
        )
        if not family.cosines:
            values, deviations = values @ cosines.T, np.sqrt(deviations**2 @ cosines.T**2)
    functions, measured = known_functions(columns, noisy, spikes), deviations.copy()
    start = columns.mixed(min(_MOST_FLAT, _HIDDEN * float(deviations[lines, 0].mean())))
    own = np.einsum("dqg,dg->dq", functions[:, : values.shape[1]], start.masses)
    doubt = np.full(deviations.shape, UNKNOWN)
    apart, doubt[lines], deviations[lines] = _common_and_own((values - own)[lines], deviations[lines])
    values[lines] = own[lines] + apart
    moments, noise = first_moments(columns, low)
    doubt = np.hstack([doubt, noise])
    trust = 1.0 if noisy.measurement.multiplier is None else _LOOSE_FIRST
    values, deviations = np.hstack([values, moments]), np.hstack([deviations, trust * noise])
    if spikes:
        _, held, closely = spike_functions(columns, spikes)
        values, deviations = np.hstack([values, held]), np.hstack([deviations, LOOSE * closely])
        doubt = np.hstack([doubt, closely])
    shares = {indicator: columns.share(indicator) for indicator in columns.groups.indicators}
    found = tilt(start, functions, values, deviations).with_shares(shares)
    learned = np.einsum("dqg,dg->dq", functions[:, : measured.shape[1]], found.masses)
    return found, Known(noisy, spikes, doubt, learned, measured)


def hold_ranks(columns: Marginals, known: Known) -> Marginals:
    """Tilt columns back to the ranks that they were learned to have, if they are further from these than noise explains.

    No others, and means and deviations stay. Pairs and lengths of rows move columns by their standardised values alone: if
    bounds are far beyond the values, a few rows far off are most of a deviation, and all others would be moved for these.
    """
    ranks = _rank_functions(columns, known.ranks)
    off = np.abs(np.einsum("dqg,dg->dq", ranks, columns.masses) - known.learned) > _BEYOND_NOISE * known.noise
    moved = off.any(axis=1, keepdims=True)
    if not moved.any():
        return columns
    away = (columns.places - columns.means()[:, None]) / columns.deviations()[:, None]
    values = np.hstack([known.learned, np.broadcast_to([0.0, 1.0], (columns.count, 2))])
    scale = np.hstack([known.noise, np.broadcast_to(WITHIN, (columns.count, 2))])
    functions = np.concatenate([ranks, np.stack([away, away**2], axis=1)], axis=1)
    tilted = tilt(columns, functions, values, np.where(moved, scale, UNKNOWN))
    return replace(tilted, masses=np.where(moved, tilted.masses, columns.masses))


def known_functions(columns: Marginals, noisy: NoisyMoments, spikes: Sequence[Spike]) -> Array:
    """Return what is measured of each column before tables, on its cells: cosines of its ranks, T_1 and T_2, and spikes."""
    found = [_rank_functions(columns, noisy), first_functions(columns)]
    return np.concatenate([*found, spike_functions(columns, spikes)[0]] if spikes else found, axis=1)


def _rank_functions(columns: Marginals, noisy: NoisyMoments) -> Array:
    """Return the cosines of ranks, or those of the soft counts, on the cells of each line."""
    transformation, family = noisy.measurement.transformation, noisy.measurement.family
    if transformation is None or not isinstance(family, RankHistogram):
        raise ValueError("ranks are measured through a view")
    indicators = columns.groups.indicators
    ranks = _seen_ranks(columns, transformation, [c for c in range(columns.count) if c not in indicators])
    if family.cells is None:
        degree = max(feature.degree for feature in noisy.features if feature.terms[0][0][0] not in indicators)
        return np.asarray(np.cos(np.pi * ranks[:, None, :] * np.arange(1, degree + 1)[:, None]))
    cosines = _cosines(family.cells, measured=family.cosines)
    return np.stack([cosines @ count_values(2.0 * line - 1.0, family.cells) for line in ranks])


def _cosines(counts: int, *, measured: bool) -> Array:
    """Return what each soft count adds to each cosine; where cosines were measured, as they were."""
    if measured:
        return cosine_map(counts)[:-1] / LATTICE
    degrees = np.arange(1, counts + 1)
    return np.asarray(np.cos(np.pi * degrees[:-1, None] * (degrees - 0.5) / counts))


def _seen_ranks(columns: Marginals, transformation: Transformation, lines: Sequence[int]) -> Array:
    """Return the rank, from 0 to 1, at which the transformation sees each cell of each line."""
    cosines = isinstance(transformation.family, RankHistogram) and transformation.family.cells is None
    ranks = np.zeros(columns.places.shape)
    for c in lines:
        seen = transformation.bend(c, np.rint(columns.places[c] * LATTICE)) / LATTICE
        ranks[c] = np.arccos(np.clip(seen, -1.0, 1.0)) / np.pi if cosines else (seen + 1.0) / 2.0
    return ranks


def _crowded(transformation: Transformation, coordinate: int, shares: Array) -> Array:
    """Return the places where soft counts have their peaks that hold many times their share of a coordinate.

    Between two peaks counts are straight lines, so cells on both sides can make up what a single value in between counts.
    Near a peak they cannot: if rows crowd on such a value and noise is small, everything else would be bent to make up for
    what lacks. So there is to be a cell at the peak itself.
    """
    peaks = (2.0 * np.arange(len(shares)) + 1.0) / len(shares) - 1.0
    return np.interp(peaks[shares * len(shares) > _CROWDED], transformation.of_knots(coordinate), knot_places())


def rank_noise(noisy: NoisyMoments | None) -> float:
    """Return the noise of the first cosine of ranks, measured or made of soft counts; boundless if there is none."""
    if noisy is None:
        return math.inf
    basis = noisy.measurement.family.basis
    if isinstance(basis, HatBasis):
        return float(np.min(noisy.deviations)) * math.sqrt(basis.cells / 2.0)
    return float(np.min(noisy.deviations[[feature.degree == 1 for feature in noisy.features]]))


def _common_and_own(values: Array, deviations: Array) -> tuple[Array, Array, Array]:
    """Shrink the mean over columns of each degree towards 0, and what columns have of their own towards that mean.

    Also return how uncertain both are left, and within what they are to be matched.

    With c the mean over d columns, s the noise and t^2 = variance between columns minus s^2,

        b  ->  c^3 / (c^2 + s^2/d)  +  t^2 / (t^2 + s^2) (b - c)
    """
    noise = np.mean(deviations**2, axis=0)
    common = values.mean(axis=0)
    own = np.maximum(values.var(axis=0) - noise, 1e-6)
    worth = own / (own + noise)
    shrunk = common**3 / (common**2 + noise / len(values)) + worth * (values - common)
    within = np.minimum(LOOSE**2 * noise, _MOST_LOOSE**2)
    left = np.broadcast_to(worth * noise, values.shape)
    return shrunk, np.sqrt(left), np.sqrt(left + within)


def _released(columns: Marginals, noisy: NoisyMoments) -> tuple[Array, Array]:
    """Return cosines or counts of ranks where values are there, and their noise, (coordinates, number)."""
    indicators = columns.groups.indicators
    degree = max(feature.degree for feature in noisy.features if feature.terms[0][0][0] not in indicators)
    values, deviations = np.zeros((columns.count, degree)), np.full((columns.count, degree), UNKNOWN)
    empty = np.zeros((1, columns.count))
    empty[:, [indicator for _, indicator in columns.groups.missing]] = 1.0
    seen = noisy.measurement.evaluate(empty)[0]
    for feature, value, deviation, centre in zip(noisy.features, noisy.values, noisy.deviations, seen, strict=True):
        ((coordinate, k),) = feature.terms[0]
        if coordinate not in indicators:
            missing = missing_share(columns, coordinate)
            found = where_there(value, deviation, missing=missing, centre=float(centre))
            values[coordinate, k - 1], deviations[coordinate, k - 1] = found
    return values, deviations
