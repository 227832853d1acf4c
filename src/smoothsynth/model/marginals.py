"""One density per coordinate on a grid; exponential tilting.

One density for each coordinate, on a public grid, and the flattest one that agrees with noisy moments.

For each coordinate on its own, with base density p0 and functions F_k,

    minimise  KL(p || p0) + sum_k (E_p F_k - b_k)^2 / (2 s_k^2),      p ~ p0 exp(lambda . F)

by Newton's method on the dual, all coordinates at once. Every density keeps some mass wherever its base has some.

Densities of independent columns from moments that are sums over columns: the flattest that agree with them.

Over densities p = prod_i p_i on the cube, with flat base measures mu_i,

    minimise  kappa KL(p || mu) + sum_r (E_p phi_r - b_r)^2 / (2 s_r^2)

for features phi_r that are means of single-coordinate terms (pooled ones too), each term weighted by the share of rows in
which its value is there. The solution is
p_i(x) ~ exp(sum_k theta_ik T_k(x)) with theta = A lambda, and lambda minimises the convex dual

    sum_i log int exp(theta_i . T) dmu_i  -  lambda . b  +  kappa sum_r s_r^2 lambda_r^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.fit.entropy_dual import MarginalDuals
from smoothsynth.fit.newton import minimise_marginals
from smoothsynth.model.constraints import Limits
from smoothsynth.queries.bases import chebyshev
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


# Half of the grid is even, half is denser towards the bounds, where many columns pile up.
_EVEN = 257
_CROWDED = 256
# No level and no indicator is ever thought impossible, and none certain.
LEAST_SHARE = 1e-4
# Before anything is known, a tenth of a column that may have missing values is missing.
FLAT_MISSING = 0.1
# Half of the width of a cell that may hold a single value.
_NARROW = 5e-5
# Half of the width of the cell of a single value that many rows share: a point, for all that is computed with it.
POINT = 1e-9
# Less than this beside its spikes is no density of its own.
_REST = 1e-6
# The middle of a column leaves out so much at each end; that of a normal one has 0.63 of its variance.
_OUTSIDE, _NORMAL_MIDDLE = 0.05, 0.63


@dataclass(frozen=True, slots=True)
class Groups:
    """Coordinates that belong together: the levels of each category, and a value with the indicator that it is missing.

    `whole` says for each category whether every row has one of its levels. An indicator and a level are 0 or 1.
    """

    levels: tuple[tuple[int, ...], ...] = ()
    whole: tuple[bool, ...] = ()
    missing: tuple[tuple[int, int], ...] = ()

    @property
    def indicators(self) -> tuple[int, ...]:
        """All coordinates that are 0 or 1."""
        return (*(c for group in self.levels for c in group), *(indicator for _, indicator in self.missing))


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """Masses on cells, one line for each coordinate; lines with fewer cells are filled up with empty ones.

    `places` are the centres of the cells, `edges` their ends. In an `exact` line the places are the only values.
    `groups` say which lines are not values of their own but levels of categories, or tell that a value is missing.
    `limits` are the linear constraints that rows keep, None without any, and `schema` has those that swaps of values must
    keep. `spiked` are cells of single values that many rows share,
    None if there are none.
    """

    places: Array
    edges: Array
    base: Array
    masses: Array
    exact: NDArray[np.bool_]
    groups: Groups = field(default_factory=Groups)
    converged: bool = True
    steps: int = 0
    limits: Limits | None = None
    spiked: NDArray[np.bool_] | None = None
    schema: Schema | None = None

    @property
    def count(self) -> int:
        """How many coordinates there are."""
        return len(self.masses)

    def means(self) -> Array:
        """Return the mean of each coordinate."""
        return np.einsum("dg,dg->d", self.masses, self.places)

    def deviations(self) -> Array:
        """Return the standard deviation of each coordinate, never quite zero."""
        squares = np.einsum("dg,dg->d", self.masses, self.places**2)
        return np.sqrt(np.maximum(squares - self.means() ** 2, 1e-6))

    def middles_of_variance(self) -> Array:
        """Return the variance of the middle nine tenths of each coordinate, as a share of all, over that of a normal one.

        Small where the variance hangs on long tails, or on what was left flat because nothing is known of it. 1 for
        indicators.
        """
        cumulated = np.cumsum(self.masses, axis=1)
        inside = (cumulated > _OUTSIDE) & (cumulated - self.masses < 1.0 - _OUTSIDE)
        middle = np.where(inside, self.masses, 0.0) / np.sum(self.masses, axis=1, where=inside, keepdims=True)
        means = np.einsum("dg,dg->d", middle, self.places)
        squares = np.einsum("dg,dg->d", middle, self.places**2)
        found = (squares - means**2) / (_NORMAL_MIDDLE * self.deviations() ** 2)
        found[list(self.groups.indicators)] = 1.0
        return np.asarray(found)

    def mixed(self, share: float) -> Marginals:
        """Return the densities with a share of the base mixed in: no place is impossible, and spikes keep what they hold."""
        kept = np.zeros(self.masses.shape) if self.spiked is None else np.where(self.spiked, self.masses, 0.0)
        base = self.base if self.spiked is None else np.where(self.spiked, 0.0, self.base)
        # Spikes that hold all rows may have a share of more than 1 in the last digit.
        left = np.maximum(1.0 - kept.sum(axis=1, keepdims=True), 0.0)
        rest = left / np.maximum(base.sum(axis=1, keepdims=True), 1e-300)
        return replace(self, masses=(1.0 - share) * self.masses + share * (kept + rest * base))

    def with_cells_at(self, places: Mapping[int, Array]) -> Marginals:
        """Return the same densities on a finer grid: with a narrow cell at each of these places of some lines."""
        return self._cut({c: [(place, _NARROW) for place in some] for c, some in places.items()})

    def with_points(self, places: Mapping[int, Array]) -> Marginals:
        """Return the same densities with a cell for each of these single values, in lines that are not exact."""
        new = {c: [p for p in some if not self._is_point(c, p)] for c, some in places.items() if not self.exact[c]}
        return self._cut({c: [(place, POINT) for place in some] for c, some in new.items() if some})

    def _is_point(self, line: int, place: float) -> bool:
        return bool(np.any((self.places[line] == place) & (np.diff(self.edges[line]) <= 2.0 * POINT)))

    def _cut(self, places: Mapping[int, Sequence[tuple[float, float]]]) -> Marginals:
        if not places:
            return self
        lines = []
        for c in range(self.count):
            used = np.count_nonzero(self.base[c])
            line = _Line(self.places[c, :used], self.edges[c, : used + 1], self.base[c, :used], self.masses[c, :used])
            lines.append(line.cut_at(places[c]) if c in places else line)
        cells, edges, base, masses = _filled_up(lines)
        spiked = None
        if self.spiked is not None:
            spiked = np.zeros(cells.shape, dtype=bool)
            for c in range(self.count):
                spiked[c] = np.isin(cells[c], self.places[c][self.spiked[c]]) & (base[c] > 0.0)
        return replace(self, places=cells, edges=edges, base=base, masses=masses, spiked=spiked)

    def without_spikes(self) -> Marginals:
        """Return the densities of values that are no spikes; of lines with nothing else, as they are."""
        if self.spiked is None:
            return self
        rest = np.where(self.spiked, 0.0, self.masses)
        left = rest.sum(axis=1, keepdims=True)
        return replace(self, masses=np.where(left > _REST, rest / np.maximum(left, _REST), self.masses))

    def middles(self) -> Array:
        """Return the distribution function at the middle of each cell."""
        return np.cumsum(self.masses, axis=1) - self.masses / 2.0

    def probabilities(self, coordinate: int, values: Array) -> Array:
        """Return the distribution function of one coordinate; at a value of an exact line, halfway up its step."""
        if self.exact[coordinate]:
            used = self.base[coordinate] > 0.0
            return np.interp(values, self.places[coordinate][used], self.middles()[coordinate][used])
        return np.interp(values, self.edges[coordinate], self._cumulated(coordinate))

    def quantiles(self, coordinate: int, levels: Array) -> Array:
        """Return quantiles of one coordinate, evenly spread inside a cell."""
        if self.exact[coordinate]:
            cell = np.searchsorted(self._cumulated(coordinate)[1:-1], levels, side="right")
            return self.places[coordinate][cell]
        cumulated, edges = self._cumulated(coordinate), self.edges[coordinate]
        found = np.interp(levels, cumulated, edges)
        points = (np.diff(edges) <= 2.0 * POINT) & (self.base[coordinate] > 0.0)
        if points.any():
            cell = np.clip(np.searchsorted(cumulated, levels, side="right") - 1, 0, len(points) - 1)
            found = np.where(points[cell], self.places[coordinate][cell], found)
        return found

    def share(self, coordinate: int) -> float:
        """Return the probability that an indicator is 1."""
        return float(self.masses[coordinate, 1])

    def with_shares(self, shares: Mapping[int, float]) -> Marginals:
        """Return the columns with other probabilities of some indicators, none 0 or 1; levels of a category add up."""
        chosen = {
            indicator: float(np.clip(share, LEAST_SHARE, 1.0 - LEAST_SHARE)) for indicator, share in shares.items()
        }
        for group, whole in zip(self.groups.levels, self.groups.whole, strict=True):
            total = sum(chosen.get(c, self.share(c)) for c in group)
            if whole or total > 1.0 - LEAST_SHARE:
                most = 1.0 if whole else 1.0 - LEAST_SHARE
                chosen.update({c: chosen.get(c, self.share(c)) * most / total for c in group})
        masses = self.masses.copy()
        for indicator, share in chosen.items():
            masses[indicator, 0], masses[indicator, 1] = 1.0 - share, share
        return replace(self, masses=masses)

    def _cumulated(self, coordinate: int) -> Array:
        total = np.concatenate([[0.0], np.cumsum(self.masses[coordinate])])
        return total / total[-1]


def flat_marginals(schema: Schema) -> Marginals:
    """Return flat densities on the cells of each coordinate: the values it can take, or a fine grid."""
    fine = _fine_grid()
    lines = list(_lines(schema, fine))
    exact = np.array([len(line.places) < len(fine) for line in lines])
    groups = Groups(schema.exclusive, schema.whole, schema.missing)
    limits = None if schema.rules is None else Limits(schema)
    ruled = schema if schema.constraints else None
    return Marginals(*_filled_up(lines), exact, groups, limits=limits, schema=ruled)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The cells of one coordinate."""

    places: Array
    edges: Array
    base: Array
    masses: Array

    def cut_at(self, places: Sequence[tuple[float, float]]) -> _Line:
        """Cut a narrow cell out at each place that lies within: places, and half of the width of each cell."""
        ends = np.array([end for place, half in places for end in (place - half, place + half)])
        inside = ends[(ends > self.edges[0]) & (ends < self.edges[-1])]
        edges = np.unique(np.concatenate([self.edges, inside]))
        middles = (edges[1:] + edges[:-1]) / 2.0
        cell = np.clip(np.searchsorted(self.edges, middles) - 1, 0, len(self.base) - 1)
        parts = np.diff(edges) / np.diff(self.edges)[cell]
        found = np.where(parts == 1.0, self.places[cell], middles)
        for place, half in places:
            if half == POINT:
                found[min(max(int(np.searchsorted(edges, place, side="right")) - 1, 0), len(found) - 1)] = place
        return _Line(found, edges, self.base[cell] * parts, self.masses[cell] * parts)


def _filled_up(lines: Sequence[_Line]) -> tuple[Array, Array, Array, Array]:
    """Return places, edges, base and masses of all lines, shorter ones filled up with empty cells at the upper bound."""
    width = max(len(line.places) for line in lines)
    places, edges = np.ones((len(lines), width)), np.ones((len(lines), width + 1))
    base, masses = np.zeros((len(lines), width)), np.zeros((len(lines), width))
    for number, line in enumerate(lines):
        used = len(line.places)
        places[number, :used], edges[number, : used + 1] = line.places, line.edges
        base[number, :used], masses[number, :used] = line.base, line.masses
    return places, edges, base, masses


def _lines(schema: Schema, fine: Array) -> Iterator[_Line]:
    for column in schema.columns.values():
        for role in column.roles:
            if not isinstance(column, Category) and role == "value":
                yield _value_line(column.levels(len(fine) - 1), fine)
            else:
                share = 1.0 / column.dimensions if role == "level" else FLAT_MISSING
                base = np.array([1.0 - share, share])
                yield _Line(np.array([0.0, 1.0]), np.array([-1.0, 0.5, 1.0]), base, base)


def _value_line(levels: Array | None, fine: Array) -> _Line:
    places = fine if levels is None else levels
    edges = np.concatenate([[-1.0], (places[1:] + places[:-1]) / 2.0, [1.0]])
    # A value of a column that has few counts once; a cell of the fine grid counts by its width.
    base = np.diff(edges) / 2.0 if levels is None else np.full(len(places), 1.0 / len(places))
    return _Line(places, edges, base, base)


def tilt(columns: Marginals, functions: Array, values: Array, scale: Array) -> Marginals:
    """Tilt densities until the means of the functions agree with `values`.

    functions: (coordinates, functions, cells); values and scale: (coordinates, functions).
    """
    duals = MarginalDuals(functions, values, _logs(columns.masses), scale**2)
    return _with_minimum(columns, duals, tolerance=1e-9)


def first_functions(columns: Marginals) -> Array:
    """Return T_1 and T_2 at all cells, (coordinates, 2, cells)."""
    return np.stack([columns.places, 2.0 * columns.places**2 - 1.0], axis=1)


def _fine_grid() -> Array:
    crowded = np.cos((2.0 * np.arange(_CROWDED) + 0.5) * np.pi / (2 * _CROWDED))
    return np.unique(np.concatenate([np.linspace(-1.0, 1.0, _EVEN), crowded]))


def separable(feature: Feature) -> bool:
    """Whether each term of a feature is a function of a single coordinate."""
    return all(len(term) == 1 for term in feature.terms)


def fit_independent(
    columns: Marginals, features: Sequence[Feature], values: Array, scale: Array, *, there: Array, flatness: float = 1.0
) -> Marginals:
    """Solve the dual above; the features must be separable.

    `there` is the share of rows that have a value, for each coordinate: the part of a moment that is due to its density.
    """
    degree = max(feature.degree for feature in features)
    bases = np.stack([chebyshev(places[:, None], degree)[1:, 0] for places in columns.places])
    links = _links(features, columns.count, degree) * there[:, None, None]
    duals = MarginalDuals(bases, values[None], _logs(columns.base), flatness * scale[None] ** 2, links)
    return _with_minimum(columns, duals, tolerance=1e-10)


def _with_minimum(columns: Marginals, duals: MarginalDuals, *, tolerance: float) -> Marginals:
    masses, converged, steps = minimise_marginals(duals, tolerance=tolerance)
    return replace(columns, masses=masses, converged=columns.converged and converged, steps=columns.steps + steps)


def _logs(masses: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(masses)


def _links(features: Sequence[Feature], coordinates: int, degree: int) -> Array:
    """Return A as (coordinates, degrees, features): how much of T_k(x_i) is in each feature."""
    links = np.zeros((coordinates, degree, len(features)))
    for r, feature in enumerate(features):
        for ((coordinate, k),) in feature.terms:
            links[coordinate, k - 1, r] += 1.0 / len(feature.terms)
    return links
