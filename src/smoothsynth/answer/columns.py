"""The columns that an average uses: points of the cube as values in their own units, and where all of them have one.

    mean over the rows where every column has a value  =  E[f there] / E[there],     there = 1 in such rows, else 0

A missing number is the mark 1 beside a value at the centre; a missing level is a row with no level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema import Category
from smoothsynth.schema.valued import from_unit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Used:
    """Some columns of a schema, in its order; of those in `only_missing` it is only asked whether they have a value.

    A category is given as the places of its levels if `coded`, else as the levels themselves.
    """

    schema: Schema
    names: tuple[str, ...]
    only_missing: frozenset[str] = frozenset()
    coded: bool = False

    @classmethod
    def of(
        cls, schema: Schema, names: Iterable[str], *, only_missing: Collection[str] = (), coded: bool = False
    ) -> Used:
        """Look the columns up; a column that does not exist is refused."""
        ordered = sorted(dict.fromkeys(names), key=lambda name: int(schema.coordinates_of(name).start))
        return cls(schema, tuple(ordered), frozenset(only_missing), coded)

    @property
    def partial(self) -> bool:
        """Whether rows may be left out since a column has no value there."""
        return any(may_lack(self.schema.columns[name]) for name in self._needed)

    @property
    def _needed(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.only_missing)

    def coordinates(self, name: str) -> tuple[int, ...]:
        """Return the coordinates of a column."""
        place = self.schema.coordinates_of(name)
        return tuple(range(place.start, place.stop))

    def at(self, points: Array) -> dict[str, NDArray[Any]]:
        """Return points of the cube in units of the columns, whole numbers not rounded: a line through them stays smooth."""
        return {name: self._values(name, points[:, self.coordinates(name)]) for name in self.names}

    def there(self, points: Array) -> Array:
        """Return 1 for points where every column has a value, else 0."""
        found = np.ones(len(points))
        for name in self._needed:
            found *= has_value(self.schema.columns[name], points[:, self.coordinates(name)])
        return found

    def of_table(self, table: pa.Table) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the columns of rows in their own units, and which rows have a value in every column."""
        found, there = {}, np.ones(table.num_rows, dtype=bool)
        for name in self.names:
            cells = table[name].combine_chunks()
            absent = np.asarray(cells.is_null())
            found[name] = self._cells(name, cells, absent)
            if name not in self.only_missing:
                there &= ~absent
        return found, there

    def _values(self, name: str, own: Array) -> NDArray[Any]:
        column = self.schema.columns[name]
        if name in self.only_missing:
            return np.where(has_value(column, own) > 0.5, 1.0, np.nan)
        if not isinstance(column, Category):
            return np.asarray(from_unit(own[:, 0], column), dtype=np.float64)
        return self._levels(column, own.argmax(axis=1))

    def _cells(self, name: str, cells: Any, absent: NDArray[np.bool_]) -> NDArray[Any]:
        column = self.schema.columns[name]
        if name in self.only_missing:
            return np.where(absent, np.nan, 1.0)
        if isinstance(column, Category):
            return self._levels(column, np.maximum(column.codes(cells), 0))
        # What stands in the place of a missing number is never averaged, but a function is called with it.
        numbers = np.asarray(cells.to_numpy(zero_copy_only=False))
        return np.where(absent, sum(column.bounds) / 2.0, numbers).astype(np.float64)

    def _levels(self, column: Category, codes: NDArray[Any]) -> NDArray[Any]:
        return codes.astype(np.float64) if self.coded else np.array(list(column.levels))[codes]


def may_lack(column: Any) -> bool:
    """Whether a private row may have no value in a column: it is nullable, or a category without a level for all else."""
    return bool(column.nullable or (isinstance(column, Category) and column.other is None))


def has_value(column: Any, own: Array) -> Array:
    """Return 1 where a column has a value, else 0, from its own coordinates."""
    if isinstance(column, Category):
        return np.asarray(own.sum(axis=1))
    return np.asarray(1.0 - own[:, 1]) if column.nullable else np.ones(len(own))
