"""Neighbouring tables on which a mechanism is at its worst: corners, the centre, outliers, missing values."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Number, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import Measurement

    Array = NDArray[np.float64]

# -1/4 is where 1 + T_1 + T_2 is lowest.
_LEVELS = (-1.0, -0.5, -0.25, 0.0, 0.5, 1.0)
# Nearly the same for the row that replaces it, but one lattice step off, and at the centre, where T_2 is flat, some
# more: otherwise the two sums could agree in their low bits, and nothing could leak there.
_STEP = 2.0**-16
EDGE = 1.0 - _STEP
_OTHER_LEVELS = (-EDGE, -0.5 + _STEP, -0.25 + _STEP, 2.0**-7, 0.5 - _STEP, EDGE)
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two tables of columns c0, c1, ... within [-1, 1] that differ in one row or a few; NaN is a missing value."""

    words: str
    tables: tuple[Array, Array]

    @property
    def schema(self) -> Schema:
        """The public schema of both tables."""
        return Schema({f"c{i}": Number(-1.0, 1.0) for i in range(self.tables[0].shape[1])})

    def arrow(self, side: int) -> pa.Table:
        """Return one of the two tables; a missing value is null."""
        import pyarrow as pa

        rows = self.tables[side]
        return pa.table({f"c{i}": pa.array(column, mask=np.isnan(column)) for i, column in enumerate(rows.T)})

    def unit(self, side: int) -> Array:
        """Return the unit rows of one of the two tables."""
        return self.schema.to_unit({f"c{i}": column.copy() for i, column in enumerate(self.tables[side].T)})


def pair(
    row: tuple[float, ...], other: tuple[float, ...], *, rows: int = 3, changed: int = 1, stay: float = 0.5
) -> Pair:
    """Replace `changed` rows of a table by others; all coordinates of the rows that stay are `stay`."""
    kept = np.full((rows - changed, len(row)), stay)
    first, second = (np.concatenate([kept, np.tile(r, (changed, 1))]) for r in (row, other))
    several = f", {changed} rows" if changed > 1 else ""
    return Pair(f"{_words(row)} / {_words(other)}{several}", (first, second))


def worst_pair(measurement: Measurement, dimensions: int, *, rows: int = 3) -> Pair:
    """Replace the row that moves the sums furthest in the norm of the mechanism, of 6^d rows on a grid."""
    grids = [np.array(list(itertools.product(levels, repeat=dimensions))) for levels in (_LEVELS, _OTHER_LEVELS)]
    values = [measurement.evaluate(grid) * np.array(measurement.weights, dtype=np.float64) for grid in grids]
    apart = values[0][:, None] - values[1][None]
    order = {"linf": np.inf, "l1": 1, "l2": 2}[measurement.charge().norm]
    # Of pairs equally far apart, up to rounding, the one whose sums all move is told apart best.
    moves = np.round(np.linalg.norm(apart, order, axis=2)) + 1e-6 * np.abs(apart).sum(axis=2)
    one, other = np.unravel_index(int(np.argmax(moves)), moves.shape)
    return pair(tuple(grids[0][one]), tuple(grids[1][other]), rows=rows, changed=measurement.rows_per_person)


def _words(row: tuple[float, ...]) -> str:
    shown = ", ".join("missing" if np.isnan(x) else f"{x:.2g}" for x in row[:_MOST_SHOWN])
    return f"({shown}{', ...' if len(row) > _MOST_SHOWN else ''})"
