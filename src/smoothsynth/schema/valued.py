"""What every valued column shares: bounds, a coordinate in [-1, 1], and whether it is missing.

Two public bounds: what can be wrong with them, and the straight map of the span between them to [-1, 1].

What all columns with a value share: one coordinate in [-1, 1], and, if nullable, a second one for what is missing.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema import reading
from smoothsynth.schema.about import text_problem, tidy
from smoothsynth.schema.cells import numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.schema.transform import Transform


# Written instead of a bound, or of the levels of a category, that a release shall find and pay for.
PRIVATE = "private"
# What a column is, in plain words.
_TEXTS = ("description", "unit")
_LISTS = ("levels", "quantiles", "date_format", "null_values")
# Powers of two between which numbers, whole numbers, days and seconds are looked for.
POWERS = {"number": (-128, 128), "integer": (0, 53), "date": (0, 22), "datetime": (0, 38)}


def bounds_problem(lower: object, upper: object) -> str | None:
    """Say what is wrong with two bounds, in words, or None."""
    problem = _bound_problem("lower", lower) or _bound_problem("upper", upper)
    if problem or PRIVATE in (lower, upper):
        return problem
    low, high = span(lower, upper)
    if low == high:
        return f"lower and upper are both {lower!r}; a column that cannot vary needs no privacy: leave it out"
    if low > high:
        return f"lower={lower!r} is larger than upper={upper!r}; swap them"
    if too_close(low, high):
        return f"lower={lower!r} and upper={upper!r} are too close together to be told apart"
    return None


def too_close(low: float, high: float) -> bool:
    """Whether doubles cannot tell apart the values between two bounds."""
    return high / 2 - low / 2 <= abs(low / 2 + high / 2) * 2**-40


def search_problem(lower: object, upper: object, kind: str) -> str | None:
    """Say why no private bound can be looked for beside a public one, which `lower` or `upper` may be, in numbers."""
    most = 2.0 ** (POWERS[kind][1] - 1)
    if any(bound != PRIVATE and abs(bound) > most for bound in (lower, upper)):  # type: ignore[arg-type]
        return f"beside a bound beyond {most:.3g} no private one can be found: give both"
    return None


def shared_problem(column: Any) -> str | None:
    """Say what is wrong with what columns of all types have: `nullable`, how cells are read, texts; or None."""
    if not isinstance(column.nullable, bool):
        return f"nullable must be true or false, not {shown(column.nullable)}"
    texts = (text_problem(name, getattr(column, name, None)) for name in _TEXTS)
    return reading.problem(column) or next(filter(None, texts), None)


def tidy_options(column: Any) -> None:
    """Give the texts of a column single spaces, and make tuples of its lists."""
    for name in _LISTS:
        if isinstance(getattr(column, name, None), list):
            object.__setattr__(column, name, tuple(getattr(column, name)))
    for name in _TEXTS:
        if getattr(column, name, None) is not None:
            object.__setattr__(column, name, tidy(getattr(column, name)))


def shared_facts(column: Any) -> dict[str, Any]:
    """Return what a schema file says of what every column has: what is missing, how cells are read, texts."""
    texts = {name: text for name in _TEXTS if (text := getattr(column, name, None)) is not None}
    return {**({"nullable": True} if column.nullable else {}), **reading.facts(column), **texts}


def span(lower: object, upper: object) -> tuple[float, float]:
    """Return bounds that were checked as doubles."""
    if PRIVATE in (lower, upper):
        raise SchemaError(
            "Bounds that are private are known only after a release has found them: its schema has them (release.schema)."
        )
    return float(lower), float(upper)  # type: ignore[arg-type]


def shown(value: object) -> str:
    """Return a short form of a value from a schema file; Python refuses to write whole numbers of many digits."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        return "one of thousands of digits"


def scale_to_unit(values: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
    """Map [lower, upper] to [-1, 1]; values outside are clipped, and a missing value (NaN) goes to the centre.

    A total map per row, so nothing about a single value can surface as an error.
    """
    # Halves first: upper - lower may overflow.
    unit = (np.clip(values, lower, upper) - (lower / 2 + upper / 2)) / (upper / 2 - lower / 2)
    return np.clip(np.nan_to_num(unit, copy=False, nan=0.0), -1.0, 1.0)


def scale_from_unit(unit: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
    """Map [-1, 1] to [lower, upper]."""
    return np.clip(unit * (upper / 2 - lower / 2) + (upper / 2 + lower / 2), lower, upper)


def _bound_problem(side: str, value: object) -> str | None:
    if value is None:
        return f"the {side} bound is missing; write {side} = ... in its section"
    if value == PRIVATE:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f'the {side} bound must be a number, or "{PRIVATE}" to be found and paid for, not {shown(value)}'
    if abs(value) > sys.float_info.max or math.isnan(value):
        return f"the {side} bound must be a finite number, not {shown(value)}"
    return None


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
    return {**found, **shared_facts(column)}


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
        return scale_to_unit(numbers, lower, upper)
    with np.errstate(invalid="ignore"):
        return scale_to_unit(transform.up(np.clip(numbers, lower, upper)), *_ends(transform, lower, upper))


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
        return scale_from_unit(unit, lower, upper)
    # The last bits before the largest double may round up to infinity, which is clipped.
    with np.errstate(over="ignore"):
        values = np.clip(transform.down(scale_from_unit(unit, *_ends(transform, lower, upper))), lower, upper)
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
