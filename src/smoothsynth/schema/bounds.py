"""Two public bounds: what can be wrong with them, and the straight map of the span between them to [-1, 1]."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SchemaError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Written instead of a bound, or of the levels of a category, that a release shall find and pay for.
PRIVATE = "private"
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


def flag_problem(nullable: object) -> str | None:
    """Say what is wrong with `nullable`, or None."""
    return None if isinstance(nullable, bool) else f"nullable must be true or false, not {shown(nullable)}"


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


def to_unit(values: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
    """Map [lower, upper] to [-1, 1]; values outside are clipped, and a missing value (NaN) goes to the centre.

    A total map per row, so nothing about a single value can surface as an error.
    """
    # Halves first: upper - lower may overflow.
    unit = (np.clip(values, lower, upper) - (lower / 2 + upper / 2)) / (upper / 2 - lower / 2)
    return np.clip(np.nan_to_num(unit, copy=False, nan=0.0), -1.0, 1.0)


def from_unit(unit: NDArray[np.float64], lower: float, upper: float) -> NDArray[np.float64]:
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
