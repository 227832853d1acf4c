"""Conjugate gradients: a rough solution of a large positive definite system from products alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def solve_conjugate_gradient(
    product: Callable[[Array], Array], right: Array, *, diagonal: Array, tolerance: float, max_products: int = 200
) -> Array:
    """Solve H x = right until |H x - right| <= tolerance * |right|, preconditioned by the diagonal of H.

    It starts from 0, so even cut short it ends with right.x > 0: a direction of descent where `right` is minus the
    gradient. Hestenes and Stiefel, J. Res. NBS 49 (1952).
    """
    solution = np.zeros_like(right)
    rest = right.copy()
    wanted = tolerance * float(np.linalg.norm(right))
    ahead = rest / diagonal
    energy = float(rest @ ahead)
    for _ in range(max_products):
        bent = product(ahead)
        curvature = float(ahead @ bent)
        if not curvature > 0.0:
            break
        length = energy / curvature
        solution += length * ahead
        rest -= length * bent
        if np.linalg.norm(rest) <= wanted:
            break
        preconditioned = rest / diagonal
        before, energy = energy, float(rest @ preconditioned)
        ahead = preconditioned + energy / before * ahead
    return solution
