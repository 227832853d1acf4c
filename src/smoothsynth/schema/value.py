"""What all columns with a value share: one coordinate in [-1, 1], and, if nullable, a second one for what is missing."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smoothsynth.schema import bounds
from smoothsynth.schema.cells import numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.schema.transform import Transform

# Facts beyond the bounds, written only where they say something.
_OPTIONS = ("transform", "scale", "quantiles")


class Valued(Protocol):
    """A column with a value between two bounds."""

    @property
    def kind(self) -> str:
        """The name of the type."""

    @property
    def nullable(self) -> bool:
        """Whether missing cells are measured as such."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds as numbers."""

    @property
    def map(self) -> Transform | None:
        """The transform, if there is one."""


def dimensions(column: Valued) -> int:
    """Return the number of coordinates."""
    return 2 if column.nullable else 1


def roles(column: Valued) -> tuple[str, ...]:
    """Return what each coordinate is."""
    return ("value", "missing") if column.nullable else ("value",)


def facts(column: Valued, lower: object, upper: object) -> dict[str, Any]:
    """Return what a schema file says of a column."""
    found: dict[str, Any] = {"type": column.kind, "lower": lower, "upper": upper}
    for name in _OPTIONS:
        option = getattr(column, name, None)
        if option is not None:
            found[name] = list(option) if isinstance(option, tuple) else option
    if column.nullable:
        found["nullable"] = True
    return found


def plain(values: Any, kind: str) -> NDArray[np.float64]:
    """Return cells of any array library as doubles, with NaN for what cannot be read as the type."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu" and kind != "boolean":
        return values.astype(np.float64, copy=False)
    return numbers_of(values, kind)


def to_unit(numbers: NDArray[np.float64], column: Valued) -> NDArray[np.float64]:
    """Map numbers to [-1, 1]; NaN goes to 0, or to the lower one of two values if it is not counted as missing.

    A column of two values has no others: a row between them would contradict all that is concluded from that.
    """
    if has_two_values(column):
        middle = sum(column.bounds) / 2.0
        return np.where(np.isnan(numbers) & column.nullable, 0.0, np.where(numbers > middle, 1.0, -1.0))
    lower, upper = column.bounds
    transform = column.map
    if transform is None:
        return bounds.to_unit(numbers, lower, upper)
    with np.errstate(invalid="ignore"):
        return bounds.to_unit(transform.up(np.clip(numbers, lower, upper)), *_ends(transform, lower, upper))


def has_two_values(column: Valued) -> bool:
    """Whether a column has two values, false and true or two whole numbers, and so no place between its bounds."""
    lower, upper = column.bounds
    return column.kind != "number" and upper - lower == 1.0


@functools.lru_cache(maxsize=256)
def _ends(transform: Transform, lower: float, upper: float) -> tuple[float, float]:
    low, high = transform.up(np.array([lower, upper])).tolist()
    return low, high


def from_unit(unit: NDArray[np.float64], column: Valued) -> NDArray[np.float64]:
    """Map [-1, 1] back to numbers between the bounds; the ends go to the bounds themselves."""
    lower, upper = column.bounds
    transform = column.map
    if transform is None:
        return bounds.from_unit(unit, lower, upper)
    # The last bits before the largest double may round up to infinity, which is clipped.
    with np.errstate(over="ignore"):
        values = np.clip(transform.down(bounds.from_unit(unit, *_ends(transform, lower, upper))), lower, upper)
    return np.where(unit <= -1.0, lower, np.where(unit >= 1.0, upper, values))


def whole_from_unit(unit: NDArray[np.float64], column: Valued) -> NDArray[np.float64]:
    """Map [-1, 1] to the nearest whole numbers between the bounds."""
    return np.clip(np.rint(from_unit(unit, column)), *column.bounds)


def whole_levels(column: Valued, most: int) -> NDArray[np.float64] | None:
    """Return the coordinates of the whole numbers between the bounds if there are at most `most`."""
    lower, upper = column.bounds
    if upper - lower + 1 > most:
        return None
    return to_unit(np.arange(lower, upper + 1), column)
