"""Columns from their first moments: the flattest densities that agree, where columns resemble each other as far as they do.

Far below the noise of one column lies that of their average. So first one common tilt of the flat densities is fitted to
the averages over the columns, and each column is then moved away from that only as far as its own moments demand: where noise
is large, columns are thought alike; where it is small, the common start is forgotten (empirical Bayes).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import pooled
from smoothsynth.synthesis.independent import fit_independent, separable
from smoothsynth.synthesis.shares import learn_shares, missing_share, where_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# The weight of flatness against agreement where only a pooled second moment is known. At 1, the textbook value,
# every narrow column is pulled towards the common width, all in the same direction.
_POOLED_FLATNESS = 0.1
# The noise of what was not measured.
UNKNOWN = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class _Low:
    """Moments that are sums over columns of numbers, with their noise.

    What missing values add is taken out, T_k(0) = cos(k pi / 2) for each: a moment is the mean over its terms of
    `there` times the mean of T_k where a value is there, with `there` the share of such rows of a coordinate.
    """

    features: tuple[Feature, ...]
    values: Array
    deviations: Array
    there: Array

    @property
    def pooled(self) -> bool:
        """Whether nothing but means is known of single columns."""
        return any(feature.pooled for feature in self.features) or max(f.degree for f in self.features) == 1

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({term[0][0] for feature in self.features for term in feature.terms}))

    def averages(self) -> _Low:
        """Return the average over all columns of the moments of each degree, with its much smaller noise."""
        degrees = np.array([feature.degree for feature in self.features])
        of = [degrees == degree for degree in np.unique(degrees)]
        return _Low(
            tuple(pooled(int(degree), self.columns) for degree in np.unique(degrees)),
            np.array([self.values[chosen].mean() for chosen in of]),
            np.array([math.sqrt(np.sum(self.deviations[chosen] ** 2)) / np.sum(chosen) for chosen in of]),
            self.there,
        )

    def fit(self, columns: Columns, *, flatness: float) -> Columns:
        """Tilt densities until they have the moments."""
        return fit_independent(
            columns, self.features, self.values, self.deviations, there=self.there, flatness=flatness
        )

    def without_averages(self) -> _Low:
        """Return the moments with the noise that is left of single ones once the averages, 1/d of them, are used."""
        d = len(self.columns)
        own = np.array([not feature.pooled for feature in self.features])
        return replace(self, deviations=np.where(own, self.deviations * math.sqrt(d / (d - 1.0)), self.deviations))


def learn_low(columns: Columns, low: Sequence[NoisyMoments]) -> Columns:
    """Fit columns to all low moments that are sums over columns; levels and marks have their moments as shares."""
    columns = learn_shares(replace(columns, masses=columns.base, converged=True, steps=0), low)
    found = _low_of(columns, low)
    if found is None:
        return columns
    start = columns
    if len(found.columns) > 1:
        # One tilt for all columns: the flatness of all together counts as that of one.
        common = found.averages().fit(columns, flatness=1.0 / len(found.columns))
        start, found = replace(common, base=common.masses), found.without_averages()
    fitted = found.fit(start, flatness=_POOLED_FLATNESS if found.pooled else 1.0)
    shares = {mark: columns.share(mark) for mark in columns.groups.marks}
    return replace(fitted, base=columns.base).with_shares(shares)


def _low_of(columns: Columns, low: Sequence[NoisyMoments]) -> _Low | None:
    missing = np.array([missing_share(columns, c) for c in range(columns.count)])
    parts = [
        (feature, value - _centre(feature) * float(np.mean([missing[term[0][0]] for term in feature.terms])), deviation)
        for noisy in low
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        if separable(feature) and feature.terms[0][0][0] not in columns.groups.marks
    ]
    if not parts:
        return None
    features, values, deviations = zip(*parts, strict=True)
    return _Low(features, np.array(values), np.array(deviations), 1.0 - missing)


def _centre(feature: Feature) -> float:
    """Return T_k(0), what a missing value adds."""
    return math.cos(feature.degree * math.pi / 2.0)


def first_moments(columns: Columns, low: Sequence[NoisyMoments]) -> tuple[Array, Array]:
    """Return T_1 and T_2 of each column of values as first released, and their noise, (coordinates, 2).

    The noise of marks, and of what was not released for single columns, is boundless.
    """
    moments, deviations = np.zeros((columns.count, 2)), np.full((columns.count, 2), UNKNOWN)
    for noisy in low[:1]:
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
            coordinate, degree = feature.terms[0][0]
            single = separable(feature) and not feature.pooled and degree <= 2
            if single and coordinate not in columns.groups.marks:
                missing = missing_share(columns, coordinate)
                found = where_there(value, deviation, missing=missing, centre=_centre(feature))
                moments[coordinate, degree - 1], deviations[coordinate, degree - 1] = found
    return moments, deviations


def measured_means(columns: Columns, low: Sequence[NoisyMoments]) -> tuple[Array, Array]:
    """Return the means of values as first released, with their noise."""
    moments, deviations = first_moments(columns, low)
    return moments[:, 0], deviations[:, 0]


def measured_square(columns: Columns, low: Sequence[NoisyMoments]) -> tuple[float, float]:
    """Return the mean of x^2 = (T_2 + 1)/2 over all columns of numbers, as first released, 0 where missing; and its noise."""
    found = _low_of(columns, low)
    if found is None or max(feature.degree for feature in found.features) < 2:
        return 0.0, UNKNOWN
    averages, there = found.averages(), float(np.mean(found.there[list(found.columns)]))
    return (float(averages.values[-1]) + there) / 2.0, float(averages.deviations[-1]) / 2.0


def pooled_mean_square(columns: Columns, low: Sequence[NoisyMoments]) -> tuple[float, float]:
    """Return the mean square of a row, from the pooled T_2 = 2 t - 1 of values and the shares of marks, and its noise."""
    released = [noisy for noisy in low if noisy.features[0].pooled]
    if not released:
        raise PlanError("Lengths under pure epsilon need a pooled second moment, measured before.")
    share = len(released[0].features[0].terms) / columns.count
    marks = sum(columns.share(mark) for mark in columns.groups.marks) / columns.count
    found = share * (float(released[0].values[0]) + 1.0) / 2.0 + marks
    return float(np.clip(found, 0.0, 1.0)), share * float(released[0].deviations[0]) / 2.0
