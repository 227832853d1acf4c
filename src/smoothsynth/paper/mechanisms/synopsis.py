"""The synopsis of Wang, Fan, Zhang and Wang (2013): answers from noisy Chebyshev moments, no table.

For study, on public or synthetic data: floating-point noise, not for release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev

from smoothsynth.errors import BudgetError, DataError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]

MOST_DIMENSIONS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Synopsis:
    """The noisy moments of the full tensor {0..t-1}^d, with the Laplace scale of every moment but b_0 = 1."""

    moments: NDArray[np.float64]  # shape (t,) * d
    scale: float

    def answer(self, function: Function, *, nodes: int | None = None) -> float:
        """Answer the query of a smooth function given at rows of [-1, 1]^d.

        q_f ~ sum_r c_r b_r,   c_r the Chebyshev coefficients of f
        """
        degrees, dimensions = self.moments.shape[0], self.moments.ndim
        coefficients = chebyshev_coefficients(function, dimensions, degrees=degrees, nodes=nodes)
        return float((coefficients * self.moments).sum())


def synopsis(points: ArrayLike, *, degrees: int, epsilon: float, generator: np.random.Generator) -> Synopsis:
    """Measure all products of degrees 0..t-1 per column, epsilon-private for replaced rows.

        b_r = mean of prod_i T_{r_i}(x_i) + Lap(S / (n eps)),   S = t^(d-1) (t + m_t)

    S is the exact L1 sensitivity of the sums (`tensor_sensitivity`), where the paper uses t^d.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= MOST_DIMENSIONS or len(rows) == 0:
        raise DataError(
            f"points must have shape (rows, d) with at least one row and d from 1 to {MOST_DIMENSIONS}; "
            f"found {rows.shape}. The full tensor is for few columns."
        )
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"epsilon must be positive and finite; found {epsilon}. Give another budget.")
    count, dimensions = rows.shape
    scale = tensor_sensitivity(degrees, dimensions) / (count * epsilon)
    moments = _tensor_moments(np.clip(rows, -1.0, 1.0), degrees)
    moments += generator.laplace(0.0, scale, moments.shape) if scale > 0 else 0.0
    moments[(0,) * dimensions] = 1.0
    return Synopsis(moments, scale)


def tensor_sensitivity(degrees: int, dimensions: int) -> float:
    """Return the L1 sensitivity of the sums of all t^d - 1 products, for replaced rows.

        max_z sum_r (1 - phi_r(z)) = t^d - min_z prod_i D(z_i) = t^(d-1) (t + m_t)
        D(s) = sum_{r < t} cos(r s), with largest value t and smallest value -m_t

    The first step is Theorem 1 of the sensitivity proof (|a - b| <= 1 - ab and the product formula).
    """
    if degrees < 1 or dimensions < 1:
        raise PlanError(f"degrees and dimensions must be at least 1; found {degrees} and {dimensions}. Correct them.")
    if degrees == 1:
        return 0.0
    series = np.ones(degrees)
    stationary = chebyshev.chebroots(chebyshev.chebder(series)) if degrees > 2 else np.zeros(0)
    real = stationary[np.abs(np.imag(stationary)) < 1e-9].real
    lowest = float(chebyshev.chebval(np.append(np.clip(real, -1.0, 1.0), [-1.0, 1.0]), series).min())
    return float(degrees ** (dimensions - 1)) * (degrees - lowest)


def chebyshev_coefficients(
    function: Function, dimensions: int, *, degrees: int, nodes: int | None = None
) -> NDArray[np.float64]:
    """Return c_r for r in {0..t-1}^d by Gauss-Chebyshev quadrature with Q >= t nodes per column.

    c_r = prod_i (2 - [r_i = 0])/Q  sum_k f(x_k) prod_i T_{r_i}(x_{k_i}),   x_k = cos(pi (k + 1/2)/Q)
    """
    count = max(64, 2 * degrees) if nodes is None else nodes
    if count < degrees or not 1 <= dimensions <= MOST_DIMENSIONS:
        raise PlanError(
            f"nodes must be at least degrees and dimensions at most {MOST_DIMENSIONS}; "
            f"found {count}, {degrees} and {dimensions}. Take more nodes or fewer columns."
        )
    angles = math.pi * (np.arange(count) + 0.5) / count
    mesh = np.meshgrid(*[np.cos(angles)] * dimensions, indexing="ij")
    rows = np.stack([coordinate.ravel() for coordinate in mesh], axis=1)
    table = np.asarray(function(rows), dtype=np.float64).reshape((count,) * dimensions)
    transform = np.cos(np.outer(np.arange(degrees), angles)) * (2.0 / count)
    transform[0] /= 2.0
    for _ in range(dimensions):
        # Contracting the first axis puts its degree last, so d turns restore the order.
        table = np.tensordot(table, transform, axes=([0], [1]))
    return table


def _tensor_moments(rows: NDArray[np.float64], degrees: int) -> NDArray[np.float64]:
    count, dimensions = rows.shape
    products = np.ones((count, 1))
    for column in range(dimensions):
        factors = chebyshev.chebvander(rows[:, column], degrees - 1)
        products = (products[:, :, None] * factors[:, None, :]).reshape(count, -1)
    result: NDArray[np.float64] = products.mean(axis=0).reshape((degrees,) * dimensions)
    return result
