"""Missing values that add nothing to the features of their column: a public linear map of sums (proof: section 16).

With m the indicator, 1 in rows without a value, and phi(centre) what such a row would add, features of a value are

    phi' = phi - phi(centre) m,      0 where the value is missing;   their sums  B' = B - phi(centre) B_m

in whole numbers. So two rows move features of the value, or what one row makes of these and the indicator, never all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.sensitivity import NO_INDICATORS, Indicators
from smoothsynth.queries.soft_tables import Cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Factors, Feature
    from smoothsynth.queries.measurement import Measurement


# An indicator is 0 or 1; of points in between, which are no rows, a value counts as there below this.
_THERE = 0.5


def values_there(missing: Iterable[tuple[int, int]], points: NDArray[np.float64]) -> dict[int, NDArray[np.bool_]]:
    """Return at which points values are there, by their coordinates."""
    return {value: points[:, indicator] < _THERE for value, indicator in missing}


class ThereFactors:
    """Factors of features, 0 at points where the value that they are of is missing."""

    def __init__(self, factors: Factors, there: Mapping[int, NDArray[np.bool_]]) -> None:
        self._factors, self._there = factors, there

    def of(self, coordinate: int, number: int) -> NDArray[np.float64]:
        """Return one factor of one coordinate."""
        found = self._factors.of(coordinate, number)
        return found * self._there[coordinate] if coordinate in self._there else found


def check_missing(measurement: Measurement) -> None:
    """Refuse values and indicators for which it is not known, in whole numbers, what a missing value would add."""
    family, features = measurement.family, measurement.features
    exact = isinstance(family, RankHistogram) and family.exact
    alone = not isinstance(features, Cells) and all(len(f.terms) == len(f.terms[0]) == 1 for f in features)
    if not alone or not (exact or (measurement.transformation is None and max(f.degree for f in features) <= 2)):
        raise PlanError(
            "Missing values add nothing to moments of degree 1 and 2, and to soft counts, of single columns."
        )
    indicators = {indicator for _, indicator in measurement.missing}
    free = set(measurement.binary) - {c for group in measurement.exclusive for c in group}
    once = len({c for pair in measurement.missing for c in pair}) == 2 * len(measurement.missing)
    own = [f for f in features if f.terms[0][0][0] in indicators]
    if not once or not indicators <= free or len(own) != len(indicators) or not _are_indicators(own, measurement):
        raise PlanError("Whether a value is missing must be measured itself, once, beside the features of the value.")


def _are_indicators(features: Sequence[Feature], measurement: Measurement) -> bool:
    """Whether features of indicators, each of another one, are these: 0 where one is 0, and 1 where it is 1."""
    own = [feature.terms[0][0][0] for feature in features]
    ends = np.zeros((2, _lines(measurement)))
    ends[1, own] = 1.0
    values = measurement.family.basis.evaluate(features, measurement.seen(ends))
    return len(set(own)) == len(own) and bool(np.all(values == [[0.0], [1.0]]))


def _lines(measurement: Measurement) -> int:
    """Return how many coordinates a row has, at least."""
    if measurement.transformation is not None:
        return len(measurement.transformation.knots)
    return 1 + max(feature.terms[0][0][0] for feature in measurement.features)


def without_missing(sums: Sequence[int], measurement: Measurement) -> list[int]:
    """Return sums of features to which rows without a value add nothing, given those to which they add phi(centre).

    B_m / S^2 is a whole number of rows, also in units of parts of a person.
    """
    indicators, unit = dict(measurement.missing), LATTICE * LATTICE
    coordinates = [feature.terms[0][0][0] for feature in measurement.features]
    places = {coordinate: place for place, coordinate in enumerate(coordinates)}
    seen = measurement.seen(np.zeros((1, _lines(measurement))))
    centre = measurement.family.basis.evaluate(measurement.features, seen)[0].tolist()
    found = list(sums)
    for place, coordinate in enumerate(coordinates):
        if coordinate in indicators:
            found[place] -= int(centre[place] * unit) * (sums[places[indicators[coordinate]]] // unit)
    return found


def missing_sensitivity(
    features: Sequence[Feature],
    weights: Sequence[int],
    indicators: Indicators,
    missing: Iterable[tuple[int, int]],
    *,
    power: int,
    bound: Callable[[Sequence[Feature], Sequence[int], Indicators], float],
    size: Callable[[Sequence[Feature], Sequence[int], int], float],
) -> float:
    """Bound the sensitivity where missing values add nothing to features of their coordinate, which are single factors.

    Of a value and its indicator two rows move the features of the value, if both have one, or what one row makes of these
    and the indicator:  max(change, size + w^p),  the sum over such columns, and what others move (section 16).
    """
    value_of = {indicator: value for value, indicator in missing}
    values: dict[int, list[tuple[Feature, int]]] = {value: [] for value in value_of.values()}
    beside = dict.fromkeys(values, 0.0)
    others: list[tuple[Feature, int]] = []
    for feature, weight in zip(features, weights, strict=True):
        coordinate = feature.terms[0][0][0]
        if coordinate in value_of:
            beside[value_of[coordinate]] += float(weight) ** power
        else:
            values.get(coordinate, others).append((feature, weight))
    moved = [bound(*_unzipped(others), indicators) ** power] if others else []
    for value, own in values.items():
        change = bound(*_unzipped(own), NO_INDICATORS) ** power if own else 0.0
        moved.append(max(change, (size(*_unzipped(own), power) if own else 0.0) + beside[value]))
    return math.fsum(moved) ** (1.0 / power) * (1.0 + 1e-12)


def _unzipped(pairs: Sequence[tuple[Feature, int]]) -> tuple[list[Feature], list[int]]:
    return [feature for feature, _ in pairs], [weight for _, weight in pairs]
