"""Worst-case (distribution-free) intervals: they hold for every table.

For a function of one column, from the noise and the size of the approximation error:

    private mean of f  =  c . bhat - c . (bhat - b) + private mean of g,   g = f - c . phi,   min g <= its mean <= max g

for every choice of c (docs/proofs/answers.md); nothing is assumed of the private rows but that they keep to their bounds.
A category is a column like another: its features are its levels, and a function of it is a sum of them.

For the mean of a function of one column over the rows where it has a value:

The mean t of f over those rows solves  E h_t = 0,  h_t = (f - t) included,  and h_t is a function of the column in all rows:
with weights  c_t = a - t b  its mean lies between

    low(t), high(t)  =  c_t . bhat  +  (min, max) of (h_t - c_t . phi)  -,+  q sqrt(c_t' N c_t)

low is concave in t and high convex. So {t: low(t) > 0} is an interval from the least possible t on, {t: high(t) < 0} one up
to the largest, and what is left between them holds the mean (Fieller 1954; docs/proofs/answers.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.columns import NODES, may_lack
from smoothsynth.answer.evidence import features_of, single_features
from smoothsynth.answer.model_interval import heavy_quantile
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.soft_tables import SoftTables
from smoothsynth.schema import Boolean, Category

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.evidence import Evidence

    Array = NDArray[np.float64]
    OfPoints = Callable[[Array], Array]


# Places at which a column of numbers is looked at, the values themselves if it has no more.
GRID = 1025
# How much a missing value counts among the states of a column when weights are chosen.
_MISSING_SHARE = 0.2
# The price of noise against approximation error, tried in turn.
PRICES = (1e-4, 1e-2, 1.0, 1e2, 1e4)


@dataclass(frozen=True, slots=True)
class WorstCase:
    """An interval, and the half widths that noise and approximation error take in it.

    It is `settled` if the function was measured, as every function of a category was: then there is nothing to estimate.
    """

    centre: float
    noise: float
    unseen: float
    settled: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The measured features of a column alone: values at its states, noise variances, released means.

    `shares` say how much each state counts when weights are chosen; `weighted` and `gram` are made of them once.
    """

    matrix: Array
    variances: Array
    released: Array
    shares: Array
    weighted: Array
    gram: Array

    @classmethod
    def of(cls, found: Iterable[tuple[Array, float, float]], shares: Array) -> Features:
        """Collect them; where nothing was measured there is one feature that is 0 everywhere."""
        known = list(found) or [(np.zeros(len(shares)), 1.0, 0.0)]
        values, variances, released = zip(*known, strict=True)
        matrix = np.stack(values, axis=1)
        centred = matrix - shares @ matrix
        weighted = shares[:, None] * centred
        return cls(matrix, np.array(variances), np.array(released), shares, weighted, weighted.T @ centred)


def worst_case(evidence: Evidence, column: int, function: Callable[[Array], Array], *, confidence: float) -> WorstCase:
    """Return the narrowest interval found for the mean of a function (given at unit places) of one coordinate."""
    name, _ = evidence.release.schema.owners[column]
    places = states(evidence.release.schema.columns[name], single_values(evidence, name))[:, 0]
    shares = np.full(len(places), 1.0 / len(places))
    found = Features.of(single_features(evidence.rounds, column, places), shares)
    return narrowest(function(places), found, confidence=confidence)


def worst_case_of_column(
    evidence: Evidence, name: str, function: Callable[[Array], Array], *, confidence: float
) -> WorstCase:
    """Return the narrowest interval found for the mean of a function, given at points of the cube, of one column."""
    values = function(state_points(evidence, name))
    found = narrowest(values, column_features(evidence, name), confidence=confidence)
    return replace(found, settled=settled(evidence, name, values))


def states(column: Any, singles: Sequence[int] = ()) -> Array:
    """Return the coordinates that a row can have in a column, (states, coordinates): all, or many places of numbers.

    The last one is that of a missing value, if there can be one. `singles` are lattice values that have a cell of their own.
    """
    if isinstance(column, Category):
        levels = np.eye(column.dimensions)
        return np.vstack([levels, np.zeros(len(levels))]) if may_lack(column) else levels
    known = column.levels(GRID)
    places = _tried(singles) if known is None else np.asarray(known)
    if not column.nullable:
        return places[:, None]
    return np.vstack([np.column_stack([places, np.zeros(len(places))]), [[0.0, 1.0]]])


def _tried(singles: Sequence[int]) -> Array:
    """Return a fine grid, the nodes of the test of smoothness, single values and the places next to them.

    A function that passes that test may be steep at a bound, where its nodes are close. A cell of a single value has a share
    there and none beside it.
    """
    nodes = np.cos(np.pi * np.arange(1, NODES) / NODES)
    beside = np.clip([value + step for value in singles for step in (-1, 0, 1)], -LATTICE, LATTICE) / LATTICE
    return np.concatenate([np.linspace(-1.0, 1.0, GRID), nodes, beside])


def single_values(evidence: Evidence, name: str) -> list[int]:
    """Return the lattice values of a column of numbers that have cells of their own in a table."""
    place = evidence.release.schema.coordinates_of(name).start
    seen = [known.noisy.measurement.transformation for known in evidence.rounds]
    families = [one.family for one in seen if one is not None and isinstance(one.family, SoftTables)]
    return sorted({atom for one in families for own in one.columns if own.value == place for atom in own.atoms})


def settled(evidence: Evidence, name: str, values: Array) -> bool:
    """Whether values at the states of a column depend on measured levels, or on the missingness indicator, alone."""
    column = evidence.release.schema.columns[name]
    if isinstance(column, Category):
        return True
    # Of numbers, and of truth values without missing ones, the narrower interval is taken, as on the page.
    return bool(column.nullable and (isinstance(column, Boolean) or np.ptp(values[:-1]) == 0.0))


def state_points(evidence: Evidence, name: str) -> Array:
    """Return the states of a column as points of the cube, 0 in all other coordinates."""
    schema = evidence.release.schema
    own = states(schema.columns[name], single_values(evidence, name))
    points = np.zeros((len(own), schema.dimensions))
    points[:, schema.coordinates_of(name)] = own
    return points


def column_features(evidence: Evidence, name: str) -> Features:
    """Return what was measured of a column alone, at its states; found once."""
    place = evidence.release.schema.coordinates_of(name)
    key = ("features", (place.start, place.stop))
    if key not in evidence.kept:
        column = evidence.release.schema.columns[name]
        own = states(column, single_values(evidence, name))
        shares = np.full(len(own), 1.0 / len(own))
        if may_lack(column):
            shares = np.append(np.full(len(own) - 1, (1.0 - _MISSING_SHARE) / (len(own) - 1)), _MISSING_SHARE)
        found = features_of(evidence.rounds, range(place.start, place.stop), own)
        evidence.kept[key] = Features.of(found, shares)
    known: Features = evidence.kept[key]
    return known


def narrowest(values: Array, found: Features, *, confidence: float) -> WorstCase:
    """Return the narrowest interval over the prices of noise; which one it is does not depend on released numbers."""
    return min(
        (_interval(values, found, price=price, confidence=confidence) for price in PRICES),
        key=lambda one: one.noise + one.unseen,
    )


def weigh(values: Array, found: Features, *, price: float) -> Array:
    """Return the weights c that minimise  mean (values - c . phi)^2 + price c' N c,  both centred; linear in the values."""
    gram = found.gram + price * np.diag(found.variances)
    return np.asarray(np.linalg.solve(gram, found.weighted.T @ (values - found.shares @ values)))


def _interval(values: Array, found: Features, *, price: float, confidence: float) -> WorstCase:
    weights = weigh(values, found, price=price)
    rest = values - found.matrix @ weights
    noise = heavy_quantile(confidence) * float(np.sqrt(weights**2 @ found.variances))
    middle, unseen = (rest.max() + rest.min()) / 2.0, (rest.max() - rest.min()) / 2.0
    return WorstCase(float(middle + weights @ found.released), noise, float(unseen))


_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Ratio:
    """An interval, and the half widths that noise and approximation error take in it; `settled` as in `WorstCase`."""

    low: float
    high: float
    noise: float
    unseen: float
    settled: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The weights  a - t b,  and everything that the ends are made of."""

    values: Array
    included: Array
    found: Features
    upper: Array
    lower: Array
    quantile: float

    def parts(self, t: float) -> tuple[float, float, float, float]:
        """Return the ends at t, the half widths of noise and of the approximation error."""
        weights = self.upper - t * self.lower
        rest = (self.values - t) * self.included - self.found.matrix @ weights
        noise = self.quantile * float(np.sqrt(weights**2 @ self.found.variances))
        known, least, most = float(weights @ self.found.released), float(rest.min()), float(rest.max())
        return known + least - noise, known + most + noise, noise, (most - least) / 2.0


def worst_case_ratio(
    evidence: Evidence, name: str, function: OfPoints, included: OfPoints, *, confidence: float
) -> Ratio | None:
    """Return the interval for a function of one column, given at points of the cube; None if no value can be there."""
    points = state_points(evidence, name)
    values, mask = function(points), included(points)
    if not np.any(mask > 0.0):
        return None
    least, most = float(values[mask > 0.0].min()), float(values[mask > 0.0].max())
    found = column_features(evidence, name)
    quantile = heavy_quantile(confidence)
    lines = []
    for price in PRICES:
        upper, lower = (weigh(v, found, price=price) for v in (values * mask, mask))
        lines.append(_Line(values, mask, found, upper, lower, quantile))
    # Chosen at a public place: a choice that knew the released numbers would spoil the confidence.
    line = min(lines, key=lambda one: sum(one.parts((least + most) / 2.0)[2:]))
    low = _crossing(lambda t: line.parts(t)[0] > 0.0, least, most)
    high = -_crossing(lambda t: line.parts(-t)[1] < 0.0, -most, -least)
    low, high = min(low, high), max(low, high)
    _, _, noise, unseen = line.parts((low + high) / 2.0)
    share = noise / (noise + unseen) if noise + unseen > 0.0 else 0.0
    half = (high - low) / 2.0
    return Ratio(low, high, share * half, (1.0 - share) * half, settled(evidence, name, values))


def _crossing(holds: Callable[[float], bool], start: float, end: float) -> float:
    """Return the last place, from the start on, up to which a condition holds: the start itself if not even there."""
    if not holds(start):
        return start
    if holds(end):
        return end
    for _ in range(_HALVINGS):
        middle = (start + end) / 2.0
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start
