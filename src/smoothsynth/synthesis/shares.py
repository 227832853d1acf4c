"""Categories and missing values: shares of levels and marks from their noisy moments, and moments where a value is there.

A level or a mark is 0 or 1, so its moment is its share. A missing value is the centre of its range, so with p the share
that is missing a moment of the coordinate is  b = (1 - p) E[phi | there] + p phi(centre).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# Where almost everything seems to be missing, noise would be blown up beyond all use.
_MOST_MISSING = 0.9


def learn_shares(columns: Columns, released: Sequence[NoisyMoments]) -> Columns:
    """Set the shares of all levels and marks to their moments, weighted by 1/noise^2; levels add up to at most 1."""
    marks = set(columns.groups.marks)
    sums = {mark: np.zeros(2) for mark in marks}
    for noisy in released:
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
            term = feature.terms[0]
            if len(feature.terms) == 1 and len(term) == 1 and term[0][0] in marks:
                sums[term[0][0]] += np.array([value, 1.0]) / deviation**2
    shares = {mark: float(total[0] / total[1]) for mark, total in sums.items() if total[1] > 0.0}
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
