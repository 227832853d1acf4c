"""Projection of model rows onto constraints.

The nearest points of a polytope, for many rows at once.

    minimise  sum_i ((x_i - w_i)/s_i)^2   subject to   a_j.x <= b_j,   e_j.x = f_j,   lower <= x <= upper

by Hildreth's method: the relations in turn, each with its multiplier, which never becomes negative (Hildreth, Naval
Research Logistics Quarterly 4, 1957; for half-spaces it is the method of Dykstra). Every row has its own s.

Columns that constraints tie together, in rows of the cube: their values in own units and in whole steps, and back.

Constraints in the model: rows that keep them and still have the densities of their columns.

`place` gives every column its density, whatever the others are; rows that were moved to keep the constraints have other
densities. Both in turn (rows moved, their ranks replaced by quantiles, moved again) end at rows with both, if there are any:
alternating projections. Rows that break an inequality are mirrored at it, so that they do not pile up on its border.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Category
from smoothsynth.schema.valued import from_unit, to_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from smoothsynth.schema import Measure, Schema
    from smoothsynth.schema.constraints import PublicMoment
    from smoothsynth.schema.integer_points import Block

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Wholes = NDArray[np.int64]


# Rows are moved to the border to the last digit where they are published, roughly while the model learns.
_MOST_ROUNDS, _FEW_ROUNDS = 200, 12
_CLOSE, _ROUGH = 1e-7, 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Polytope:
    """Relations  factors x <= bounds  (= where equal), (relations, columns), and bounds of the columns."""

    factors: Array
    bounds: Array
    equal: NDArray[np.bool_]
    lower: Array
    upper: Array

    def nearest(self, wanted: Array, scale: Array) -> Array:
        """Return the nearest point to each row of `wanted`, distances in units of `scale`, (rows, columns)."""
        bounds = np.broadcast_to(self.bounds, (len(wanted), len(self.bounds)))
        return self._hildreth(wanted, scale, bounds, rounds=_MOST_ROUNDS, tolerance=_CLOSE)

    def mirrored(self, wanted: Array, scale: Array) -> Array:
        """Return points about as far inside of each inequality as rows were outside, as nearly as that can be."""
        excess = np.where(self.equal, 0.0, np.maximum(wanted @ self.factors.T - self.bounds, 0.0))
        return self._hildreth(wanted, scale, self.bounds - excess, rounds=_FEW_ROUNDS, tolerance=_ROUGH)

    def _hildreth(self, wanted: Array, scale: Array, bounds: Array, *, rounds: int, tolerance: float) -> Array:
        found = np.clip(wanted, self.lower, self.upper)
        allowed = tolerance * (np.abs(self.factors) @ (self.upper - self.lower))
        live = np.flatnonzero(self._broken(found, bounds, allowed))
        # Only rows that break something are ever touched; those that no longer do are put back.
        x, square, edges = wanted[live], scale[live] ** 2, bounds[live]
        weights = [square @ factors**2 for factors in self.factors]
        multipliers, pulls = np.zeros((len(live), len(self.bounds))), np.zeros_like(x)
        for _ in range(rounds):
            if not len(live):
                break
            for j, factors in enumerate(self.factors):
                change = (x @ factors - edges[:, j]) / weights[j]
                if not self.equal[j]:
                    change = np.maximum(change, -multipliers[:, j])
                    multipliers[:, j] += change
                x -= change[:, None] * (square * factors)
            # Bounds are relations too: one multiplier for both, negative at the lower one.
            x += pulls
            kept = np.minimum(np.maximum(x, self.lower), self.upper)
            pulls, x = x - kept, kept
            found[live] = x
            still = np.flatnonzero(self._broken(x, edges, allowed))
            if len(still) < 0.8 * len(live):
                live, x, square, edges, pulls = live[still], x[still], square[still], edges[still], pulls[still]
                multipliers, weights = multipliers[still], [weight[still] for weight in weights]
        return found

    def _broken(self, points: Array, bounds: Array, allowed: Array) -> NDArray[np.bool_]:
        excess = points @ self.factors.T - bounds
        if self.equal.any():
            excess[:, self.equal] = np.abs(excess[:, self.equal])
        return np.asarray((excess > allowed).any(axis=1))


_LEAST_SPREAD = 1e-3
# To find the slope of a transform.
_NEAR = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """A block, its columns, the coordinates of their values and those of their indicators, None where none can be missing."""

    block: Block
    columns: tuple[Measure, ...]
    coordinates: tuple[int, ...]
    indicators: tuple[int | None, ...]

    def there(self, rows: Array) -> NDArray[np.bool_]:
        """Say which values are there, (rows, columns)."""
        full = np.ones(len(rows), dtype=bool)
        return np.stack(
            [full if indicator is None else rows[:, indicator] < 0.5 for indicator in self.indicators], axis=1
        )

    def patterns(self, rows: Array) -> Iterator[tuple[tuple[bool, ...], Indices]]:
        """Yield which relations are about rows that have all their columns, and those rows."""
        uses, left = self.block.factors != 0, np.arange(len(rows))
        if all(indicator is None for indicator in self.indicators):
            yield (True,) * len(uses), left
            return
        there = self.there(rows)
        while len(left):
            first = there[left[0]]
            same = np.all(there[left] == first, axis=1)
            yield tuple(bool(first[used].all()) for used in uses), left[same]
            left = left[~same]

    def own_units(self, rows: Array) -> Array:
        """Return the values of rows in their columns' own units."""
        pairs = zip(self.columns, self.coordinates, strict=True)
        return np.stack([from_unit(rows[:, c], column) for column, c in pairs], axis=1)

    def scales(self, rows: Array) -> Array:
        """Return the deviation of each column in own units, where a transform bends it, at each row."""
        spreads = [max(float(rows[:, c].std()), _LEAST_SPREAD) for c in self.coordinates]
        lines = [
            _slope(rows[:, c], column) * spread
            for c, column, spread in zip(self.coordinates, self.columns, spreads, strict=True)
        ]
        return np.stack(lines, axis=1)

    def polytope(self, active: tuple[bool, ...]) -> Polytope:
        """Return what the active relations, and the bounds, say of values in own units."""
        block, chosen = self.block, np.array(active, dtype=bool)
        relations = [r for r, a in zip(block.relations, active, strict=True) if a]
        factors = [[dict(r.coefficients).get(name, 0) for name in block.names] for r in relations]
        return Polytope(
            np.array(factors, dtype=np.float64).reshape(int(chosen.sum()), len(block.names)),
            np.array([float(r.bound) for r in relations]),
            np.array([r.equal for r in relations], dtype=bool),
            block.lower * block.steps,
            block.upper * block.steps,
        )

    def moved(self, rows: Array, own: Array, move: Callable[[Polytope, Array, Array], Array]) -> Array:
        """Return values in own units after a move, such as `Polytope.nearest`, to where the relations hold."""
        scale, found = self.scales(rows), own.copy()
        for active, which in self.patterns(rows):
            if any(active):
                found[which] = move(self.polytope(active), own[which], scale[which])
        return found

    def write(self, rows: Array, own: Array, changed: Array) -> float:
        """Put changed values into the rows they belong to, where they are there; return the mean change in deviations."""
        there, total = self.there(rows), 0.0
        for place, (column, c) in enumerate(zip(self.columns, self.coordinates, strict=True)):
            which = np.flatnonzero(there[:, place] & (changed[:, place] != own[:, place]))
            unit = to_unit(changed[which, place], column)
            spread = max(float(rows[:, c].std()), _LEAST_SPREAD)
            total += float(np.abs(unit - rows[which, c]).sum()) / (spread * max(len(rows), 1))
            rows[which, c] = unit
        return total / len(self.columns)


def tied_columns(schema: Schema) -> tuple[Tied, ...]:
    """Return the blocks of a schema with the coordinates of their columns."""
    indicators = dict(schema.missing)
    return tuple(
        _tied(schema, block, indicators) for block in (schema.rules.blocks if schema.rules is not None else ())
    )


def _tied(schema: Schema, block: Block, indicators: dict[int, int]) -> Tied:
    columns = tuple(c for c in (schema.columns[name] for name in block.names) if not isinstance(c, Category))
    places = tuple(schema.coordinates_of(name).start for name in block.names)
    return Tied(block, columns, places, tuple(indicators.get(place) for place in places))


def _slope(unit: Array, column: Measure) -> Array:
    if column.map is None:
        lower, upper = column.bounds
        return np.full(len(unit), upper / 2 - lower / 2)
    low, high = np.maximum(unit - _NEAR, -1.0), np.minimum(unit + _NEAR, 1.0)
    return np.asarray((from_unit(high, column) - from_unit(low, column)) / (high - low))


# Times that densities are restored after rows were moved, unless they were moved by less than this, in deviations.
_RESTORED, _SMALL = 6, 0.002


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The constraints of a schema as the model sees them, and the number of private rows, once something is learned."""

    schema: Schema
    private_rows: int | None = None

    @property
    def moments(self) -> tuple[PublicMoment, ...]:
        """The public moments."""
        return () if self.schema.rules is None else self.schema.rules.moments

    def binds(self, coordinate: int) -> bool:
        """Whether equalities bind the values of the column with this coordinate to those of others."""
        rules, name = self.schema.rules, self.schema.owners[coordinate][0]
        return rules is not None and any(relation.equal and name in relation.names for relation in rules.relations)

    def measure(self, name: str) -> Measure:
        """Return a column that constraints are about."""
        column = self.schema.columns[name]
        if isinstance(column, Category):
            raise TypeError("constraints are not about categories")
        return column

    def settle(self, rows: Array, restored: Callable[[Array, int], Array]) -> Array:
        """Return rows of the cube that keep the relations, as near to the densities of their columns as they can be.

        `restored` gives a coordinate of moved rows its density again, by their ranks.
        """
        rows = rows.copy()
        for tied in tied_columns(self.schema):
            for left in reversed(range(_RESTORED + 1 if tied.block.relations else 0)):
                own = tied.own_units(rows)
                change = tied.write(rows, own, tied.moved(rows, own, Polytope.mirrored))
                if not left or change < _SMALL:
                    break
                for coordinate in tied.coordinates:
                    rows[:, coordinate] = restored(rows, coordinate)
        return rows
