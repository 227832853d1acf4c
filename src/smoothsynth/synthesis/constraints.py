"""Constraints in the model: rows that keep them and still have the densities of their columns.

`place` gives every column its density, whatever the others are; rows that were moved to keep the constraints have other
densities. Both in turn (rows moved, their ranks replaced by quantiles, moved again) end at rows with both, if there are any:
alternating projections. Rows that break an inequality are mirrored at it, so that they do not pile up on its border.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.schema import Category
from smoothsynth.synthesis.half_spaces import Polytope
from smoothsynth.synthesis.tied import tied_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from smoothsynth.schema import Measure, Schema
    from smoothsynth.schema.constraints import PublicMoment

    Array = NDArray[np.float64]

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
