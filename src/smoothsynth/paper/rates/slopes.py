"""From measured errors to fitted slopes: error ~ constant * n^-slope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# An error above this share of what is reached without any data says nothing about a rate.
SATURATED = 2.0 / 3.0
_FEWEST_SIZES = 3


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The mean error of one mechanism at one n, d and K, over rounds of noise on one table."""

    dimensions: int
    order: int
    mechanism: str
    rows: int
    degrees: int
    nodes: int
    rounds: int
    error: float
    deviation: float
    without_data: float
    seconds: float

    @property
    def saturated(self) -> bool:
        """Whether the error is so near to that of equal weights, without any data, that it cannot show a rate."""
        return self.error > SATURATED * self.without_data


@dataclass(frozen=True, slots=True)
class RateSlope:
    """The slope fitted to the points of one mechanism at one d and K, beside the exponent of its theorem."""

    dimensions: int
    order: int
    mechanism: str
    budget: str
    measure: str
    theory: float
    slope: float
    standard_error: float
    sizes: int
    smallest: int
    largest: int
    last_error: float


def fit_slope(rows: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Fit  log error = c - slope log n  by least squares; return the slope and its standard error.

    The standard error is that of the residuals, so it holds the scatter of the noise and the bend of the curve. Both are
    NaN for fewer than three sizes.
    """
    if len(rows) < _FEWEST_SIZES:
        return math.nan, math.nan
    x, y = np.log(np.asarray(rows, dtype=np.float64)), np.log(np.asarray(errors, dtype=np.float64))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    rest = y - y.mean() - slope * x
    return -slope, math.sqrt(float(rest @ rest) / (len(x) - 2) / float(x @ x))


def slope_of(points: Sequence[RatePoint], *, budget: str, measure: str, theory: float) -> RateSlope:
    """Fit the slope of one mechanism at one d and K over the sizes that are not saturated."""
    used = [p for p in points if not p.saturated]
    slope, standard_error = fit_slope([p.rows for p in used], [p.error for p in used])
    return RateSlope(
        dimensions=points[0].dimensions,
        order=points[0].order,
        mechanism=points[0].mechanism,
        budget=budget,
        measure=measure,
        theory=theory,
        slope=slope,
        standard_error=standard_error,
        sizes=len(used),
        smallest=min((p.rows for p in used), default=0),
        largest=max((p.rows for p in used), default=0),
        last_error=points[-1].error,
    )
