"""Columns of true and false."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema import bounds, value

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Boolean:
    """A column of true and false: one coordinate, -1 for false and +1 for true."""

    _: KW_ONLY
    nullable: bool = False

    kind = "boolean"
    lower, upper = 0, 1
    bounds = (0.0, 1.0)
    map = None

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return value.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return value.roles(self)

    def problem(self) -> str | None:
        """Say what is wrong with the facts, in words, or None."""
        return bounds.flag_problem(self.nullable)

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return {"type": self.kind, **({"nullable": True} if self.nullable else {})}

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map false to -1 and true to +1; what is neither counts as false, or, if nullable, goes to the centre."""
        return value.to_unit(value.plain(values, self.kind), self)

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Map a coordinate to the nearer of false and true."""
        return np.asarray(unit > 0.0)

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to the nearer of -1 and +1."""
        return np.where(unit > 0.0, 1.0, -1.0)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the two coordinates."""
        return np.array([-1.0, 1.0]) if most >= 2 else None

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.bool_()
