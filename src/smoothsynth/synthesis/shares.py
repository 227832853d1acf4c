"""Categories and missing values: shares of levels and marks from their noisy moments, and moments where a value is there.

A level or a mark is 0 or 1, so its moment is its share. A missing value is the centre of its range, so with p the share
that is missing a moment of the coordinate is  b = (1 - p) E[phi | there] + p phi(centre).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# Where almost everything seems to be missing, noise would be blown up beyond all use.
_MOST_MISSING = 0.9
# So many deviations below 1 is not noise: some cells are no level.
_BEYOND_NOISE = 4.0


def learn_shares(columns: Columns, released: Sequence[NoisyMoments]) -> Columns:
    """Set the shares of all levels and marks to their moments; levels add up to at most 1.

    Where they tell that some cells are no level of a category, rows may have none of it from then on.
    """
    groups = columns.groups
    lacking = unmatched_shares(groups.levels, released)
    whole = tuple(own and not share for own, share in zip(groups.whole, lacking, strict=True))
    columns = replace(columns, groups=replace(groups, whole=whole))
    return _with_nearest(columns, {mark: share for mark, (share, _) in measured_shares(columns, released).items()})


def unmatched_shares(groups: Sequence[tuple[int, ...]], released: Sequence[NoisyMoments]) -> tuple[float, ...]:
    """Return, for the levels of each category, the share of rows that have none: 0 where noise explains what is left of 1."""
    known = _shares_of([c for group in groups for c in group], released)

    def lacking(group: tuple[int, ...]) -> float:
        if not all(c in known for c in group):
            return 0.0
        left = 1.0 - sum(known[c][0] for c in group)
        return min(left, 1.0) if left > _BEYOND_NOISE * math.hypot(*(known[c][1] for c in group)) else 0.0

    return tuple(map(lacking, groups))


def measured_shares(columns: Columns, released: Sequence[NoisyMoments]) -> dict[int, tuple[float, float]]:
    """Return the share of each level and mark that was released, weighted by 1/noise^2, and its noise."""
    return _shares_of(columns.groups.marks, released)


def _shares_of(marks: Sequence[int], released: Sequence[NoisyMoments]) -> dict[int, tuple[float, float]]:
    sums = {mark: np.zeros(2) for mark in marks}
    for noisy in released:
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
            term = feature.terms[0]
            if len(feature.terms) == 1 and len(term) == 1 and term[0][0] in sums:
                sums[term[0][0]] += np.array([value, 1.0]) / deviation**2
    return {mark: (float(b / a), float(a**-0.5)) for mark, (b, a) in sums.items() if a > 0.0}


def hold_shares(columns: Columns, released: Sequence[NoisyMoments], *, cut_noise: Array) -> Columns:
    """Weigh shares as they were released against what rows that were cut to a length made of them.

    The latter have less noise where there are few rows, but an error of their own: what a cut takes of a level depends on
    which rows are long. With s the noise of a share p as released, c that of cut rows, v = p (1 - p), and e^2 the slope of

        difference^2 - s^2 - c^2   on   v,   at least 0,   over all levels and marks, weighted by 1 / (s^2 + c^2)^2,

    shares of cut rows are taken to have the variance  c^2 + e^2 v.
    """
    known = measured_shares(columns, released)
    if not known:
        return columns
    marks = list(known)
    values, noise = np.array(list(known.values())).T
    now, spread = columns.means()[marks], columns.deviations()[marks]
    chance = noise**2 + cut_noise[marks] ** 2
    slope = spread**2 / chance**2
    error = max(float(slope @ ((now - values) ** 2 - chance) / (slope @ spread**2)), 0.0)
    own = cut_noise[marks] ** 2 + error * spread**2
    between = (values * own + now * noise**2) / (own + noise**2)
    return _with_nearest(columns, dict(zip(marks, between.tolist(), strict=True)))


def _with_nearest(columns: Columns, found: Mapping[int, float]) -> Columns:
    """Set shares, those of the levels of a category to the nearest that can be."""
    shares = dict(found)
    for group, whole in zip(columns.groups.levels, columns.groups.whole, strict=True):
        if all(c in shares for c in group):
            shares.update(zip(group, _nearest_shares(np.array([shares[c] for c in group]), whole=whole), strict=True))
    return columns.with_shares(shares)


def missing_share(columns: Columns, coordinate: int) -> float:
    """Return the share of missing values of a coordinate, 0 if none can be missing."""
    shares = [columns.share(mark) for value, mark in columns.groups.missing if value == coordinate]
    return min(shares[0], _MOST_MISSING) if shares else 0.0


def where_there(value: float, deviation: float, *, missing: float, centre: float) -> tuple[float, float]:
    """Return E[phi | there] and its noise from the moment of all rows; `centre` is phi of a missing value."""
    return (value - missing * centre) / (1.0 - missing), deviation / (1.0 - missing)


def _nearest_shares(values: Array, *, whole: bool) -> Array:
    """Return the nearest shares that are not negative and add up to 1, or to at most 1 (Duchi et al. 2008)."""
    if not whole and np.maximum(values, 0.0).sum() <= 1.0:
        return np.maximum(values, 0.0)
    falling = np.sort(values)[::-1]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - levels[np.flatnonzero(falling > levels)[-1]], 0.0))
