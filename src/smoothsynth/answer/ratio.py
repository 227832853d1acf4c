"""An interval that holds for every table, for the mean of a function of one column over the rows where it has a value.

The mean t of f over those rows solves  E h_t = 0,  h_t = (f - t) there,  and h_t is a function of the column in all rows:
with weights  c_t = a - t b  its mean lies between

    low(t), high(t)  =  c_t . bhat  +  (min, max) of (h_t - c_t . phi)  -,+  q sqrt(c_t' N c_t)

low is concave in t and high convex. So {t: low(t) > 0} is an interval from the least possible t on, {t: high(t) < 0} one up
to the largest, and what is left between them holds the mean (Fieller 1954; docs/proofs/answers.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.bounded import PRICES, column_features, settled, state_points, weigh
from smoothsynth.answer.interval import heavy_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.answer.bounded import Features
    from smoothsynth.answer.knowledge import Knowledge

    Array = NDArray[np.float64]
    OfPoints = Callable[[Array], Array]

_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Ratio:
    """An interval, and the half widths that noise and the unseen rest take in it; `settled` as in `Bounded`."""

    low: float
    high: float
    noise: float
    unseen: float
    settled: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """The weights  a - t b,  and everything that the ends are made of."""

    values: Array
    there: Array
    found: Features
    upper: Array
    lower: Array
    quantile: float

    def parts(self, t: float) -> tuple[float, float, float, float]:
        """Return the ends at t, the half width of noise and that of what is unseen."""
        weights = self.upper - t * self.lower
        rest = (self.values - t) * self.there - self.found.matrix @ weights
        noise = self.quantile * float(np.sqrt(weights**2 @ self.found.variances))
        known, least, most = float(weights @ self.found.released), float(rest.min()), float(rest.max())
        return known + least - noise, known + most + noise, noise, (most - least) / 2.0


def bounded_ratio(
    knowledge: Knowledge, name: str, function: OfPoints, there: OfPoints, *, confidence: float
) -> Ratio | None:
    """Return the interval for a function of one column, given at points of the cube; None if no value can be there."""
    points = state_points(knowledge, name)
    values, mask = function(points), there(points)
    if not np.any(mask > 0.0):
        return None
    least, most = float(values[mask > 0.0].min()), float(values[mask > 0.0].max())
    found = column_features(knowledge, name)
    quantile = heavy_quantile(confidence)
    lines = []
    for price in PRICES:
        upper, lower = (weigh(v, found, price=price) for v in (values * mask, mask))
        lines.append(_Line(values, mask, found, upper, lower, quantile))
    # Chosen at a public place: a choice that knew the released numbers would spoil the confidence.
    line = min(lines, key=lambda one: sum(one.parts((least + most) / 2.0)[2:]))
    low = _crossing(lambda t: line.parts(t)[0] > 0.0, least, most)
    high = -_crossing(lambda t: line.parts(-t)[1] < 0.0, -most, -least)
    low, high = min(low, high), max(low, high)
    _, _, noise, unseen = line.parts((low + high) / 2.0)
    share = noise / (noise + unseen) if noise + unseen > 0.0 else 0.0
    half = (high - low) / 2.0
    return Ratio(low, high, share * half, (1.0 - share) * half, settled(knowledge, name, values))


def _crossing(holds: Callable[[float], bool], start: float, end: float) -> float:
    """Return the last place, from the start on, up to which a condition holds: the start itself if not even there."""
    if not holds(start):
        return start
    if holds(end):
        return end
    for _ in range(_HALVINGS):
        middle = (start + end) / 2.0
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start
