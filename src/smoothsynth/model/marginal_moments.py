"""Marginals from means and second moments, shares of levels, and public moments.

Categories and missing values: shares of levels and indicators from their noisy moments, and moments where a value is there.

A level or an indicator is 0 or 1, so its moment is its share. A missing value is the centre of its range, so with p the share
that is missing a moment of the coordinate is  b = (1 - p) E[phi | there] + p phi(centre).  Where missing values were measured
to add nothing, the last is not there.

Columns from their first moments: the flattest densities that agree, where columns resemble each other as far as they do.

Far below the noise of one column lies that of their average. So first one common tilt of the flat densities is fitted to
the averages over the columns, and each column is then moved away from that only as far as its own moments demand: where noise
is large, columns are thought alike; where it is small, the common start is forgotten (empirical Bayes).

Public moments in the model: columns are tilted until they have them, in place of what was measured with noise.

Cells that are no level of a category whose synthetic rows always have one.

Such a row has 0 at all levels. While the model learns it is one without a level, as in a nullable category: taken for a row
with some level, it would be longer than what was measured, and other columns would be narrowed to make up for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.model.marginals import fit_independent, separable, tilt
from smoothsynth.model.sampling import systematic
from smoothsynth.queries.bases import pooled
from smoothsynth.schema import Category, Schema
from smoothsynth.schema.valued import from_unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Measure
    from smoothsynth.schema.constraints import PublicMoment

    Array = NDArray[np.float64]


# Where almost everything seems to be missing, noise would be blown up beyond all use.
_MOST_MISSING = 0.9
# So many deviations below 1 is not noise: some cells are no level.
_BEYOND_NOISE = 4.0


def learn_shares(columns: Marginals, released: Sequence[NoisyMoments]) -> Marginals:
    """Set the shares of all levels and indicators to their moments; levels add up to at most 1.

    Where they tell that some cells are no level of a category, rows may have none of it from then on.
    """
    groups = columns.groups
    lacking = unmatched_shares(groups.levels, released)
    whole = tuple(own and not share for own, share in zip(groups.whole, lacking, strict=True))
    columns = replace(columns, groups=replace(groups, whole=whole))
    return _with_nearest(
        columns, {indicator: share for indicator, (share, _) in measured_shares(columns, released).items()}
    )


def unmatched_shares(groups: Sequence[tuple[int, ...]], released: Sequence[NoisyMoments]) -> tuple[float, ...]:
    """Return, for the levels of each category, the share of rows that have none: 0 where noise explains what is left of 1."""
    known = _shares_of([c for group in groups for c in group], released)

    def lacking(group: tuple[int, ...]) -> float:
        if not all(c in known for c in group):
            return 0.0
        left = 1.0 - sum(known[c][0] for c in group)
        return min(left, 1.0) if left > _BEYOND_NOISE * math.hypot(*(known[c][1] for c in group)) else 0.0

    return tuple(map(lacking, groups))


def measured_shares(columns: Marginals, released: Sequence[NoisyMoments]) -> dict[int, tuple[float, float]]:
    """Return the share of each level and indicator that was released, weighted by 1/noise^2, and its noise."""
    return _shares_of(columns.groups.indicators, released)


def _shares_of(indicators: Sequence[int], released: Sequence[NoisyMoments]) -> dict[int, tuple[float, float]]:
    sums = {indicator: np.zeros(2) for indicator in indicators}
    for noisy in released:
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
            term = feature.terms[0]
            if len(feature.terms) == 1 and len(term) == 1 and term[0][0] in sums:
                sums[term[0][0]] += np.array([value, 1.0]) / deviation**2
    return {indicator: (float(b / a), float(a**-0.5)) for indicator, (b, a) in sums.items() if a > 0.0}


def hold_shares(columns: Marginals, released: Sequence[NoisyMoments], *, cut_noise: Array) -> Marginals:
    """Weigh shares as they were released against what rows that were cut to a length made of them.

    The latter have less noise where there are few rows, but an error of their own: what a cut takes of a level depends on
    which rows are long. With s the noise of a share p as released, c that of cut rows, v = p (1 - p), and e^2 the slope of

        difference^2 - s^2 - c^2   on   v,   at least 0,   over all levels and indicators, weighted by 1 / (s^2 + c^2)^2,

    shares of cut rows are taken to have the variance  c^2 + e^2 v.
    """
    known = measured_shares(columns, released)
    if not known:
        return columns
    indicators = list(known)
    values, noise = np.array(list(known.values())).T
    now, spread = columns.means()[indicators], columns.deviations()[indicators]
    chance = noise**2 + cut_noise[indicators] ** 2
    slope = spread**2 / chance**2
    error = max(float(slope @ ((now - values) ** 2 - chance) / (slope @ spread**2)), 0.0)
    own = cut_noise[indicators] ** 2 + error * spread**2
    between = (values * own + now * noise**2) / (own + noise**2)
    return _with_nearest(columns, dict(zip(indicators, between.tolist(), strict=True)))


def _with_nearest(columns: Marginals, found: Mapping[int, float]) -> Marginals:
    """Set shares, those of the levels of a category to the nearest that can be."""
    shares = dict(found)
    for group, whole in zip(columns.groups.levels, columns.groups.whole, strict=True):
        if all(c in shares for c in group):
            shares.update(zip(group, _nearest_shares(np.array([shares[c] for c in group]), whole=whole), strict=True))
    return columns.with_shares(shares)


def missing_share(columns: Marginals, coordinate: int) -> float:
    """Return the share of missing values of a coordinate, 0 if none can be missing."""
    shares = [columns.share(indicator) for value, indicator in columns.groups.missing if value == coordinate]
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

    def fit(self, columns: Marginals, *, flatness: float) -> Marginals:
        """Tilt densities until they have the moments."""
        return fit_independent(
            columns, self.features, self.values, self.deviations, there=self.there, flatness=flatness
        )

    def without_averages(self) -> _Low:
        """Return the moments with the noise that is left of single ones once the averages, 1/d of them, are used."""
        d = len(self.columns)
        own = np.array([not feature.pooled for feature in self.features])
        return replace(self, deviations=np.where(own, self.deviations * math.sqrt(d / (d - 1.0)), self.deviations))


def learn_low(columns: Marginals, low: Sequence[NoisyMoments]) -> Marginals:
    """Fit columns to all low moments that are sums over columns; levels and indicators have their moments as shares."""
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
    shares = {indicator: columns.share(indicator) for indicator in columns.groups.indicators}
    return replace(fitted, base=columns.base).with_shares(shares)


def _low_of(columns: Marginals, low: Sequence[NoisyMoments]) -> _Low | None:
    missing = np.array([missing_share(columns, c) for c in range(columns.count)])
    parts = [
        (
            feature,
            value - _centre(noisy, feature) * float(np.mean([missing[t[0][0]] for t in feature.terms])),
            deviation,
        )
        for noisy in low
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        if separable(feature) and feature.terms[0][0][0] not in columns.groups.indicators
    ]
    if not parts:
        return None
    features, values, deviations = zip(*parts, strict=True)
    return _Low(features, np.array(values), np.array(deviations), 1.0 - missing)


def _centre(noisy: NoisyMoments, feature: Feature) -> float:
    """Return what a missing value adds:  T_k(0), or nothing."""
    apart = feature.terms[0][0][0] in dict(noisy.measurement.missing)
    return 0.0 if apart else math.cos(feature.degree * math.pi / 2.0)


def first_moments(columns: Marginals, low: Sequence[NoisyMoments]) -> tuple[Array, Array]:
    """Return T_1 and T_2 of each column of values as first released, and their noise, (coordinates, 2).

    The noise of indicators, and of what was not released for single columns, is boundless.
    """
    moments, deviations = np.zeros((columns.count, 2)), np.full((columns.count, 2), UNKNOWN)
    for noisy in low[:1]:
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
            coordinate, degree = feature.terms[0][0]
            single = separable(feature) and not feature.pooled and degree <= 2
            if single and coordinate not in columns.groups.indicators:
                missing = missing_share(columns, coordinate)
                found = where_there(value, deviation, missing=missing, centre=_centre(noisy, feature))
                moments[coordinate, degree - 1], deviations[coordinate, degree - 1] = found
    return moments, deviations


def measured_means(columns: Marginals, low: Sequence[NoisyMoments]) -> tuple[Array, Array]:
    """Return the means of values as first released, with their noise."""
    moments, deviations = first_moments(columns, low)
    return moments[:, 0], deviations[:, 0]


def measured_square(columns: Marginals, low: Sequence[NoisyMoments]) -> tuple[float, float]:
    """Return the mean of x^2 = (T_2 + 1)/2 over all columns of numbers, as first released, 0 where missing; and its noise."""
    found = _low_of(columns, low)
    if found is None or max(feature.degree for feature in found.features) < 2:
        return 0.0, UNKNOWN
    averages, there = found.averages(), float(np.mean(found.there[list(found.columns)]))
    return (float(averages.values[-1]) + there) / 2.0, float(averages.deviations[-1]) / 2.0


def pooled_mean_square(columns: Marginals, low: Sequence[NoisyMoments]) -> tuple[float, float]:
    """Return the mean square of a row, from the pooled T_2 = 2 t - 1 of values and the shares of indicators; and noise."""
    released = [noisy for noisy in low if noisy.features[0].pooled]
    if not released:
        raise PlanError("Lengths under pure epsilon need a pooled second moment, measured before.")
    share = len(released[0].features[0].terms) / columns.count
    indicators = sum(columns.share(indicator) for indicator in columns.groups.indicators) / columns.count
    found = share * (float(released[0].values[0]) + 1.0) / 2.0 + indicators
    return float(np.clip(found, 0.0, 1.0)), share * float(released[0].deviations[0]) / 2.0


# A public moment is held within this, in half ranges; what is not public is not held.
_EXACT, _UNKNOWN, _MOST = 1e-4, 1e3, 0.9999
# Weights of candidates match public moments within this; their rows are moved the rest of the way.
_FITTED = 1e-3


def hold_public(columns: Marginals, private_rows: int) -> Marginals:
    """Tell columns how many private rows there are, and hold the moments that are public; without constraints, nothing.

    The tilted density is the nearest to what was learned, in KL, of those with the moments.
    """
    if columns.limits is None:
        return columns
    limits = replace(columns.limits, private_rows=private_rows)
    columns = replace(columns, limits=limits)
    if not limits.moments:
        return columns
    functions, values = np.zeros((columns.count, 2, columns.places.shape[1])), np.zeros((columns.count, 2))
    scale = np.full((columns.count, 2), _UNKNOWN)
    for moment in limits.moments:
        c, k = limits.schema.coordinates_of(moment.column).start, moment.power - 1
        functions[c, k], values[c, k] = _standard(moment, limits.measure(moment.column), columns, c, private_rows)
        scale[c, k] = _EXACT
    indicators = {indicator: columns.share(indicator) for indicator in columns.groups.indicators}
    return tilt(columns, functions, values, scale).with_shares(indicators)


def _standard(
    moment: PublicMoment, column: Measure, columns: Marginals, coordinate: int, private_rows: int
) -> tuple[Array, float]:
    """Return x or x^2 on the cells of a column, and its known mean, both in half ranges from the middle."""
    own = from_unit(columns.places[coordinate], column) ** moment.power
    known = moment.mean(private_rows, missing=missing_share(columns, coordinate))
    centre, half = own.min() / 2.0 + own.max() / 2.0, own.max() / 2.0 - own.min() / 2.0
    # A density has no mean at the very end of its range.
    return (own - centre) / half, float(np.clip((known - centre) / half, -_MOST, _MOST))


def public_values(schema: Schema, noisy: NoisyMoments) -> tuple[Array, Array]:
    """Return moments and their noise with those replaced that are public: x, and T_2 if both moments are.

    Only of columns without a transform and without missing cells: the moments of others are not those of the cube.
    """
    values, deviations = noisy.values.copy(), noisy.deviations.copy()
    if schema.rules is None or noisy.measurement.transformation is not None:
        return values, deviations
    for place, feature in enumerate(noisy.features):
        (coordinate, degree), *rest = feature.terms[0]
        column = schema.columns[schema.owners[coordinate][0]]
        if (
            len(feature.terms) > 1
            or rest
            or degree > 2
            or isinstance(column, Category)
            or column.map
            or column.nullable
        ):
            continue
        known = {
            moment.power: moment.mean(noisy.rows)
            for moment in schema.rules.moments
            if moment.column == schema.owners[coordinate][0]
        }
        if 1 in known and (degree == 1 or 2 in known):
            low, high = column.bounds
            centre, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
            square = (known.get(2, 0.0) - 2.0 * centre * known[1] + centre**2) / half**2
            values[place] = (known[1] - centre) / half if degree == 1 else 2.0 * square - 1.0
            deviations[place] = min(deviations[place], _FITTED)
    return values, deviations


def unmatched(schema: Schema, moments: Sequence[NoisyMoments]) -> dict[str, float]:
    """Return the share of cells that are no level, for each category that can have such rows only unawares.

    Post-processing of released shares; a category is left out where noise explains what they leave of 1.
    """
    names = [name for name, column in schema.columns.items() if isinstance(column, Category)]
    uncut = [noisy for noisy in moments if noisy.measurement.of_columns]
    found = zip(names, schema.whole, unmatched_shares(schema.exclusive, uncut), strict=True)
    return {name: share for name, whole, share in found if whole and share}


def opened(schema: Schema, moments: Sequence[NoisyMoments]) -> Schema:
    """Return the schema with those categories nullable that have cells which are no level."""
    lacking = unmatched(schema, moments)
    if not lacking:
        return schema
    columns = {
        name: replace(column, nullable=True) if name in lacking and isinstance(column, Category) else column
        for name, column in schema.columns.items()
    }
    return replace(schema, columns=columns)


def with_levels(schema: Schema, points: Array, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Give rows without a level one of them, as often as other rows have it, and whatever else the row has."""
    for group, whole in zip(schema.exclusive, schema.whole, strict=True):
        own = points[:, group[0] : group[-1] + 1]
        bare = np.flatnonzero(own.max(axis=1) < 0.5)
        if whole and len(bare):
            often = np.bincount(np.delete(own, bare, axis=0).argmax(axis=1), minlength=len(group)).astype(np.float64)
            chosen = systematic(often if often.any() else often + 1.0, len(bare), generator=generator)
            points = points.copy()
            points[bare, group[0] : group[-1] + 1] = np.eye(len(group))[chosen]
    return points
