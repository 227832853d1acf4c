"""Conjugate gradients: a rough solution of a large positive definite system from products alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def solve_conjugate_gradient(
    product: Callable[[Array], Array],
    right: Array,
    *,
    diagonal: Array,
    tolerance: float,
    max_products: int = 500,
    stop: Callable[[int, Array], bool] | None = None,
) -> Array:
    """Solve H x = right until r'D^-1 r <= tolerance^2 right'D^-1 right, where r = right - H x and D is the diagonal of H.

    It starts from 0, so even cut short it ends with right.x > 0: a direction of descent where `right` is minus the
    gradient. `stop` is told the number of products and x after each, and ends the search where it returns True.
    Hestenes and Stiefel, J. Res. NBS 49 (1952).
    """
    solution = np.zeros_like(right)
    rest = right.copy()
    ahead = rest / diagonal
    energy = float(rest @ ahead)
    wanted = tolerance**2 * energy
    for products in range(1, max_products + 1):
        bent = product(ahead)
        curvature = float(ahead @ bent)
        if not curvature > 0.0:
            break
        length = energy / curvature
        solution += length * ahead
        rest -= length * bent
        preconditioned = rest / diagonal
        before, energy = energy, float(rest @ preconditioned)
        if energy <= wanted or (stop is not None and stop(products, solution)):
            break
        ahead = preconditioned + energy / before * ahead
    return solution
