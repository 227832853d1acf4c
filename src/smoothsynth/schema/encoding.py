"""Any column, and its coordinates of the cube: from cells to points, back, and to the nearest point a row can take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.category import Category
from smoothsynth.schema.date import Date, Datetime
from smoothsynth.schema.number import Boolean, Integer, Number
from smoothsynth.schema.valued import plain, to_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


# Columns with a value between two bounds.
Measure = Number | Integer | Boolean | Date | Datetime
Column = Measure | Category
# Coordinates that differ by less are the same but for rounding.
_ROUNDING = 2.0**-40
KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Integer, Category, Boolean, Date, Datetime)}


def labels(name: str, column: Column) -> tuple[str, ...]:
    """Return one label for each coordinate."""
    if isinstance(column, Category):
        return tuple(f"{name} = {level}" for level in column.cube.levels)
    return (name, f"{name} is missing") if column.nullable else (name,)


def to_points(column: Column, values: Any) -> Array:
    """Return the coordinates of cells, (cells, coordinates)."""
    if isinstance(column, Category):
        return column.at(column.codes(values))
    numbers = plain(values, column.kind)
    unit = to_unit(numbers, column)
    return np.stack([unit, np.isnan(numbers)], axis=1) if column.nullable else unit[:, None]


def as_numbers(column: Column, values: Any) -> NDArray[Any]:
    """Return cells as numbers: places among all levels of a category (-1: none), else values (NaN: missing)."""
    return column.level_codes(values) if isinstance(column, Category) else plain(values, column.kind)


def numbers_at(
    column: Column, points: Array, *, step: float | None = None, exact: Sequence[float] = ()
) -> NDArray[Any]:
    """Return what `as_numbers` makes of the cells of these coordinates."""
    if isinstance(column, Category):
        return column.pick(points)
    return as_numbers(column, from_points(column, points, step=step, exact=exact))


def from_points(
    column: Column,
    points: Array,
    *,
    step: float | None = None,
    exact: Sequence[float] = (),
    levels: NDArray[np.int32] | None = None,
) -> NDArray[Any] | pa.Array:
    """Return cells in the column's own units from their coordinates.

    Numbers are whole multiples of a step, if given; those that rounding alone tells from an `exact` one are that one.
    `levels` are the places of levels drawn within the nodes that coordinates tell, for a category that has tiers.
    """
    if isinstance(column, Category):
        if column.hierarchy is None:
            return column.of(column.pick(points))
        if levels is None:
            raise TypeError("levels below the nodes in the cube are drawn by smoothsynth.model.levels")
        return column.of(levels)
    values: NDArray[Any] = column.from_unit(points[:, 0])
    if step is not None and isinstance(column, Number):
        lower, upper = column.bounds
        values = np.clip(np.rint(values / step), np.ceil(lower / step), np.floor(upper / step)) * step
    for number, unit in zip(exact, to_unit(np.array(exact, dtype=np.float64), column), strict=True):
        values = np.where(np.abs(points[:, 0] - unit) <= _ROUNDING, number, values)
    if not column.nullable:
        return values
    import pyarrow as pa

    return pa.array(values, mask=points[:, 1] >= 0.5)


def nearest(column: Column, points: Array) -> Array:
    """Move coordinates to the nearest ones that a row can take."""
    if isinstance(column, Category):
        return column.at(column.pick(points))
    unit = column.snap(points[:, 0])
    if not column.nullable:
        return unit[:, None]
    missing = points[:, 1] >= 0.5
    return np.stack([np.where(missing, 0.0, unit), missing], axis=1)


def outside(column: Column, cells: pa.ChunkedArray) -> int:
    """Count the cells that no row of a release can have: missing where none may be, beyond the bounds, of no level."""
    from pyarrow import compute

    absent = 0 if column.nullable else int(cells.null_count)
    present = compute.drop_null(cells)
    if isinstance(column, Category):
        known = set(column.levels)
        found = compute.value_counts(present)
        pairs = zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)
        return absent + sum(times for level, times in pairs if level not in known)
    numbers, (lower, upper) = plain(present, column.kind), column.bounds
    # Counted so that NaN is outside.
    return absent + len(numbers) - int(np.count_nonzero((numbers >= lower) & (numbers <= upper)))
