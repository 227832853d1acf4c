"""Columns that constraints tie together, in rows of the cube: their values in own units and in whole steps, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Category
from smoothsynth.schema.valued import from_unit, to_unit
from smoothsynth.synthesis.half_spaces import Polytope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from smoothsynth.schema import Measure, Schema
    from smoothsynth.schema.integer_points import Block

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Wholes = NDArray[np.int64]

_LEAST_SPREAD = 1e-3
# To find the slope of a transform.
_NEAR = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Tied:
    """A block, its columns, the coordinates of their values and those of their marks, None where none can be missing."""

    block: Block
    columns: tuple[Measure, ...]
    coordinates: tuple[int, ...]
    marks: tuple[int | None, ...]

    def there(self, rows: Array) -> NDArray[np.bool_]:
        """Say which values are there, (rows, columns)."""
        full = np.ones(len(rows), dtype=bool)
        return np.stack([full if mark is None else rows[:, mark] < 0.5 for mark in self.marks], axis=1)

    def patterns(self, rows: Array) -> Iterator[tuple[tuple[bool, ...], Indices]]:
        """Yield which relations are about rows that have all their columns, and those rows."""
        uses, left = self.block.factors != 0, np.arange(len(rows))
        if all(mark is None for mark in self.marks):
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
    marks = dict(schema.missing)
    return tuple(_tied(schema, block, marks) for block in (schema.rules.blocks if schema.rules is not None else ()))


def _tied(schema: Schema, block: Block, marks: dict[int, int]) -> Tied:
    columns = tuple(c for c in (schema.columns[name] for name in block.names) if not isinstance(c, Category))
    places = tuple(schema.coordinates_of(name).start for name in block.names)
    return Tied(block, columns, places, tuple(marks.get(place) for place in places))


def _slope(unit: Array, column: Measure) -> Array:
    if column.map is None:
        lower, upper = column.bounds
        return np.full(len(unit), upper / 2 - lower / 2)
    low, high = np.maximum(unit - _NEAR, -1.0), np.minimum(unit + _NEAR, 1.0)
    return np.asarray((from_unit(high, column) - from_unit(low, column)) / (high - low))
