"""Two public bounds: what can be wrong with them, and the straight map of the span between them to [-1, 1]."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def bounds_problem(lower: object, upper: object) -> str | None:
    """Say what is wrong with two bounds, in words, or None."""
    problem = _bound_problem("lower", lower) or _bound_problem("upper", upper)
    if problem:
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


def flag_problem(nullable: object) -> str | None:
    """Say what is wrong with `nullable`, or None."""
    return None if isinstance(nullable, bool) else f"nullable must be true or false, not {shown(nullable)}"


def span(lower: object, upper: object) -> tuple[float, float]:
    """Return bounds that were checked as doubles."""
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
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"the {side} bound must be a number, not {shown(value)}"
    if abs(value) > sys.float_info.max or math.isnan(value):
        return f"the {side} bound must be a finite number, not {shown(value)}"
    return None
