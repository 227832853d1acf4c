"""The fit of the study: weights on a grid of Chebyshev nodes that agree with noisy moments in weighted squares.

    minimise  sum_r (W u - b)_r^2 / s_r^2    subject to   u >= 0,  1'u = 1

Alternating directions (Boyd et al. 2011) with u in the squares and a copy v in the simplex. On Chebyshev nodes
W W' is diagonal, so the squares are minimised in closed form, whatever their number:

    u <- q + W' [ (b - W q)_r / (rho s_r^2 + (W W')_r) ],   q = v - y
    v <- the nearest point of the simplex to  u + y,        y <- y + u - v
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.paper.rates.cosine import CosineGrid

    Array = NDArray[np.float64]

# rho relative to the stiffest square. Measured on the cases of the study: 1e-3 needs a tenth of the steps of 1e-1.
_PENALTY = 1e-3
_RELAXATION = 1.6
# The fit is settled when the misfit changes by less than this share from one check to the next.
_CHECK_EVERY = 10
_SETTLED = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class SimplexFit:
    """Weights on the grid, their misfit sum (W u - b)^2 / s^2, and the steps they took."""

    weights: Array
    misfit: float
    steps: int


def fit_on_simplex(target: Array, scale: Array, *, grid: CosineGrid, most_steps: int = 400) -> SimplexFit:
    """Fit weights until the misfit has settled.

    The first entry of `target` and `scale` belongs to the constant feature, whose moment is 1 and has no noise; it is
    held by the simplex. (Stopping as soon as the misfit is what noise would leave, the number of moments, is too soon:
    the low moments, which matter most, may then still be off by many deviations.)
    """
    precision = np.zeros_like(scale)
    precision.flat[1:] = scale.flat[1:] ** -2.0
    lengths = grid.lengths
    rho = _PENALTY * float((precision * lengths).max())
    gain = precision / (rho + precision * lengths)
    weights = np.full((grid.nodes,) * grid.dimensions, 1.0 / grid.nodes**grid.dimensions)
    lag = np.zeros_like(weights)
    level, misfit = 0.0, np.inf
    for step in range(1, most_steps + 1):
        start = weights - lag
        moved = start + grid.transpose(gain * (target - grid.moments(start)))
        moved *= _RELAXATION
        moved += (1.0 - _RELAXATION) * weights
        moved += lag
        weights, level = onto_simplex(moved, level)
        np.subtract(moved, weights, out=lag)
        if step % _CHECK_EVERY == 0 or step == most_steps:
            before, misfit = misfit, float((precision * (grid.moments(weights) - target) ** 2).sum())
            if abs(before - misfit) <= _SETTLED * misfit:
                break
    return SimplexFit(weights, misfit, step)


def onto_simplex(point: Array, guess: float = 0.0) -> tuple[Array, float]:
    """Return the nearest weights u >= 0 with sum 1, and the level with  u = max(point - level, 0).

    Newton's method for  sum max(point - level, 0) = 1, convex and falling in the level: exact after finitely many
    steps, few of them from the level of a nearby point.
    """
    lowest = (float(point.sum()) - 1.0) / point.size
    level = max(guess, lowest)
    while True:
        above = point[point > level]
        if above.size == 0:
            level = lowest
            continue
        better = (float(above.sum()) - 1.0) / above.size
        if abs(better - level) <= 1e-15 + 1e-13 * abs(level):
            return np.maximum(point - better, 0.0), better
        level = better
