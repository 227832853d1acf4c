"""How much noise the full tensor of Chebyshev products needs: constants for a true budget.

For weights w_r >= 0 on {0 .. T-1}^d and rows x, x' in the cube

    L1 = max sum_r w_r |phi_r(x) - phi_r(x')|         =  max_z sum_r w_r (1 - phi_r(z))
    L2 = max sqrt(sum_r w_r (phi_r(x) - phi_r(x'))^2)  <=  sqrt(2 max_z sum_r w_r (1 - phi_r(z)))

since |a - b| <= 1 - ab and (a - b)^2 <= 2 - 2ab on [-1, 1], and phi_r(x) phi_r(x') is the mean of phi_r over the same 2^d
points z for every r. Equal weights: the sum is T^d - prod_i D(z_i) with D(z) = sum_{r<T} T_r(z) <= T, so the maximum is
T^(d-1) times that of one column, which `l1_sensitivity` has exactly.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.paper.rates.cosine import CosineGrid
from smoothsynth.queries.bases import tensor
from smoothsynth.queries.sensitivity import l1_sensitivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Nodes per degree of the grid on which a trigonometric sum is maximised; what it can miss is added.
_NODES_PER_DEGREE = 4
_MOST_DEGREES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class GaussianNoise:
    """Degrees below `degrees` in every column, and the standard deviation of each moment's noise (0: the constant)."""

    degrees: int
    deviations: Array


def equal_spread(degrees: int, dimensions: int) -> float:
    """Return max_z sum_r (1 - phi_r(z)) over {0 .. degrees-1}^dimensions: the L1 sensitivity of the sums."""
    if degrees < 2:
        return 0.0
    one_column = l1_sensitivity(tensor(degrees, 1), [1.0] * (degrees - 1))
    return float(degrees ** (dimensions - 1)) * one_column


def spread(weights: Array) -> float:
    """Bound  max_z sum_r w_r (1 - phi_r(z))  from above, with any weights.

    In angles the sum is smooth with vanishing gradient at its maximum; the nearest node is off by at most half a step
    h/2 in each angle, so the grid misses at most  (h/2)^2 / 2 sum_r w_r (r_1 + .. + r_d)^2.
    """
    degrees, total = len(weights), float(weights.sum())
    grid = CosineGrid(degrees, _NODES_PER_DEGREE * degrees, weights.ndim)
    lowest = float(grid.transpose(weights).min())
    missed = (math.pi / grid.nodes) ** 2 / 8.0 * float((weights * _index_sums(degrees, weights.ndim) ** 2).sum())
    return min((total - lowest + missed) * (1.0 + 1e-12), 2.0 * total)


def equal_noise(rows: int, dimensions: int, *, order: int, multiplier: float) -> GaussianNoise:
    """Give every moment the same noise, with as many degrees as pay (`_degrees`)."""
    degrees = _degrees(rows, dimensions, order=order, multiplier=multiplier, power=0.0)
    deviations = np.full(
        (degrees,) * dimensions, multiplier / rows * math.sqrt(2.0 * equal_spread(degrees, dimensions))
    )
    deviations.flat[0] = 0.0
    return GaussianNoise(degrees, deviations)


def degree_weighted_noise(rows: int, dimensions: int, *, order: int, multiplier: float) -> GaussianNoise:
    """Give moment r noise of variance proportional to |r|^K (DESIGN 5.2), with as many degrees as pay.

    One row moves the moments, each divided by |r|^(K/2), by at most L2 of the weights w_r = |r|^-K, so

        s_r = |r|^(K/2) multiplier L2 / n.
    """
    degrees = _degrees(rows, dimensions, order=order, multiplier=multiplier, power=float(order))
    sizes = index_norms(degrees, dimensions)
    weights = sizes ** -float(order)
    weights.flat[0] = 0.0
    deviations = sizes ** (order / 2.0) * (multiplier / rows * math.sqrt(2.0 * spread(weights)))
    deviations.flat[0] = 0.0
    return GaussianNoise(degrees, deviations)


@functools.lru_cache(maxsize=4)
def index_norms(degrees: int, dimensions: int) -> Array:
    """Return |r|, the Euclidean length of every multi-index, with 1 in place of the 0 of the constant."""
    squares = functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64) ** 2] * dimensions)
    sizes = np.sqrt(squares)
    sizes.flat[0] = 1.0
    sizes.setflags(write=False)
    return np.asarray(sizes)


def predicted_noise(degrees: int, *, rows: int, dimensions: int, order: int, multiplier: float, power: float) -> float:
    """Return sqrt(sum |r|^(-2K) s_r^2), s_r^2 = |r|^power (2 multiplier/n)^2 sum |r|^-power: the error due to noise."""
    sizes = index_norms(degrees, dimensions).ravel()[1:]
    needed = float((sizes**-power).sum())
    felt = float((sizes ** (power - 2.0 * order)).sum())
    return 2.0 * multiplier / rows * math.sqrt(needed * felt)


def _degrees(rows: int, dimensions: int, *, order: int, multiplier: float, power: float) -> int:
    """Return the smallest T whose bias T^-K is not above the predicted error due to noise: public facts only."""
    if rows < 1 or dimensions < 1 or order < 1:
        raise PlanError(f"rows, dimensions and order must be at least 1; found {rows}, {dimensions} and {order}.")

    def pays(degrees: int) -> bool:
        noise = predicted_noise(
            degrees, rows=rows, dimensions=dimensions, order=order, multiplier=multiplier, power=power
        )
        return float(degrees) ** -order > noise

    low, high = 1, 2
    while pays(high) and high < _MOST_DEGREES:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return max(2, high)


def _index_sums(degrees: int, dimensions: int) -> Array:
    return functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64)] * dimensions)
