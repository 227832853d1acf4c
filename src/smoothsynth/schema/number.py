"""Columns of numbers, of integers and of truth values.

Columns of numbers between two public bounds.

Columns of true and false.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.errors import arguments_in_words
from smoothsynth.schema import valued
from smoothsynth.schema.transform import NAMES, open_transform_problem, transform_of, transform_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema.transform import Transform


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Number:
    """A column of real numbers between two public bounds; values outside are clipped.

    A bound that nobody knows is "private": the release finds it, at a cost that the plan shows.
    `transform` gives crowded values more room: "log", "asinh" (of value / `scale`) or "rank-to-public-quantiles", with the
    `quantiles` of a code book or an earlier publication. With `nullable`, missing cells are measured as such.
    `decimal` is the decimal sign of numbers in text, "," or ".", and `null_values` are cells that mean a missing one.
    """

    lower: float | str | None = None
    upper: float | str | None = None
    _: KW_ONLY
    transform: str | None = None
    quantiles: Sequence[float] | None = None
    nullable: bool = False
    scale: float | None = None
    description: str | None = None
    unit: str | None = None
    decimal: str | None = None
    null_values: Sequence[str | float] = ()

    kind = "number"

    def __post_init__(self) -> None:
        valued.tidy_options(self)

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return valued.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return valued.roles(self)

    @property
    def bounds(self) -> tuple[float, float]:
        """The two bounds as doubles."""
        return valued.span(self.lower, self.upper)

    @property
    def map(self) -> Transform | None:
        """The transform, if there is one."""
        if self.transform is None:
            return None
        lower, upper = self.bounds
        return transform_of(self.transform, lower=lower, upper=upper, scale=self.scale, quantiles=self.quantiles)

    def problem(self) -> str | None:
        """Say what is wrong with the facts, in words, or None."""
        found = valued.bounds_problem(self.lower, self.upper) or valued.shared_problem(self)
        if found:
            return found
        if valued.PRIVATE in (self.lower, self.upper):
            return valued.search_problem(self.lower, self.upper, self.kind) or open_transform_problem(
                self.transform, lower=self.lower, scale=self.scale, quantiles=self.quantiles
            )
        lower, upper = self.bounds
        return transform_problem(self.transform, lower=lower, upper=upper, scale=self.scale, quantiles=self.quantiles)

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return valued.facts(self, self.lower, self.upper)

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map values to the cube, x = (v - centre) / half width; a missing value goes to the centre."""
        return valued.to_unit(valued.plain(values, self.kind), self)

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map a coordinate back to the column's own units, inside the bounds.

        A multiple of 2^-16 stands for all that is measured as the same, and so for 0 if that is among it.
        """
        values, (lower, upper) = valued.from_unit(unit, self), self.bounds
        if not lower < 0.0 < upper:
            return values
        steps = np.asarray(unit) * 2.0**16
        zero = np.rint(valued.to_unit(np.zeros(1), self)[0] * 2.0**16)
        inside = abs(zero) < 2.0**16
        return np.where(steps == zero, 0.0, values) if inside else values

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to the nearest one that the column can take."""
        return np.clip(unit, -1.0, 1.0)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates that the column can take if there are at most `most`; a number has more."""
        return None

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.float64()


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Integer:
    """A column of whole numbers between two public bounds, or "private" ones; values outside are clipped."""

    lower: int | str | None = None
    upper: int | str | None = None
    _: KW_ONLY
    transform: str | None = None
    nullable: bool = False
    scale: float | None = None
    description: str | None = None
    unit: str | None = None
    decimal: str | None = None
    null_values: Sequence[str | float] = ()

    kind = "integer"

    def __post_init__(self) -> None:
        valued.tidy_options(self)

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return valued.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return valued.roles(self)

    @property
    def bounds(self) -> tuple[float, float]:
        """The two bounds as doubles."""
        return valued.span(self.lower, self.upper)

    @property
    def map(self) -> Transform | None:
        """The transform, if there is one."""
        if self.transform is None:
            return None
        lower, upper = self.bounds
        return transform_of(self.transform, lower=lower, upper=upper, scale=self.scale, quantiles=None)

    def problem(self) -> str | None:
        """Say what is wrong with the facts, in words, or None."""
        found = valued.bounds_problem(self.lower, self.upper) or valued.shared_problem(self)
        if found:
            return found
        known = [b for b in (self.lower, self.upper) if isinstance(b, (int, float))]
        if not all(float(b).is_integer() for b in known):
            return f"lower={self.lower} and upper={self.upper} must be whole numbers for type integer"
        if not all(-(2**53) <= b <= 2**53 for b in known):
            return "whole numbers beyond 2^53 cannot be told apart: use type number"
        if len(known) < 2:
            return valued.search_problem(self.lower, self.upper, self.kind) or open_transform_problem(
                self.transform, lower=self.lower, scale=self.scale, known=NAMES[:2]
            )
        lower, upper = self.bounds
        return transform_problem(self.transform, lower=lower, upper=upper, scale=self.scale, known=NAMES[:2])

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        lower, upper = (b if b == valued.PRIVATE else int(b or 0) for b in (self.lower, self.upper))
        return valued.facts(self, lower, upper)

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map values to the cube, as for a number."""
        return valued.to_unit(valued.plain(values, self.kind), self)

    def from_unit(self, unit: NDArray[np.float64]) -> NDArray[np.int64]:
        """Map a coordinate back to the nearest whole number inside the bounds."""
        return valued.whole_from_unit(unit, self).astype(np.int64)

    def snap(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Move a coordinate to that of the nearest whole number."""
        return valued.to_unit(valued.whole_from_unit(unit, self), self)

    def levels(self, most: int) -> NDArray[np.float64] | None:
        """Return the coordinates of the whole numbers between the bounds if there are at most `most`."""
        return valued.whole_levels(self, most)

    def arrow_type(self) -> pa.DataType:
        """Return the type of the column in a release."""
        import pyarrow as pa

        return pa.int64()


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Boolean:
    """A column of true and false: one coordinate, -1 for false and +1 for true."""

    _: KW_ONLY
    nullable: bool = False
    description: str | None = None
    null_values: Sequence[str | float] = ()

    kind = "boolean"
    lower, upper = 0, 1
    bounds = (0.0, 1.0)
    map = None

    def __post_init__(self) -> None:
        valued.tidy_options(self)

    @property
    def dimensions(self) -> int:
        """The number of coordinates: the value, and whether it is missing."""
        return valued.dimensions(self)

    @property
    def roles(self) -> tuple[str, ...]:
        """What each coordinate is."""
        return valued.roles(self)

    def problem(self) -> str | None:
        """Say what is wrong with the facts, in words, or None."""
        return valued.shared_problem(self)

    def facts(self) -> dict[str, Any]:
        """Return what a schema file says of this column."""
        return {"type": self.kind, **valued.shared_facts(self)}

    def to_unit(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Map false to -1 and true to +1; what is neither counts as false, or, if nullable, goes to the centre."""
        return valued.to_unit(valued.plain(values, self.kind), self)

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
