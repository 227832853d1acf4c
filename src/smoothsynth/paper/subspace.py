"""Algorithm 2 and its ellipsoid as printed: NOT PRIVATE AS PRINTED.

The noise is scaled by the largest entry of X, which is right for one changed entry of A and not for one
changed row; the eigenvalues and the centre come from the un-noised table. For reproducing the paper only.
Source: Jin et al., Algorithm 2, Corollary 3.5 and Theorem 3.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.paper.printed import NOT_PRIVATE, subspace_noise_scale

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """The ellipsoid {centre + sum_s z_s sqrt(lambda_s) x_s, |z| <= 1} (not private as printed)."""

    centre: Array
    directions: Array  # (dimensions, rank), orthonormal columns
    eigenvalues: Array
    privacy: str = field(default=NOT_PRIVATE, init=False)

    def draw(self, count: int, *, generator: np.random.Generator) -> Array:
        """Draw points uniformly and clip them to the cube (the paper does not say what it does outside)."""
        rank = len(self.eigenvalues)
        ball = generator.standard_normal((count, rank))
        ball *= generator.random((count, 1)) ** (1.0 / rank) / np.linalg.norm(ball, axis=1, keepdims=True)
        points = self.centre + (ball * np.sqrt(self.eigenvalues)) @ self.directions.T
        clipped: Array = np.clip(points, -1.0, 1.0)
        return clipped


def printed_ellipsoid(
    points: Array,
    *,
    rank: int,
    iterations: int,
    epsilon: float,
    delta: float = 0.0,
    generator: np.random.Generator,
) -> Ellipsoid:
    """Run private subspace iteration as printed (not private as printed).

        A = D'D/n - mean mean',   X_0 = GS(N(0,1)^(d x k))
        X_l = GS(A X_{l-1} + |X_{l-1}|_inf G_l),   lambda_s = sqrt(x_s' A^2 x_s)

    G is Gaussian for delta > 0 and Laplace for delta = 0, with the printed scale. It is d x k: the
    n x k of step 4 does not fit. |X|_inf is its largest entry (Hardt 2013).
    """
    rows, dimensions = points.shape
    if not 1 <= rank <= dimensions or iterations < 1:
        raise PlanError(
            f"rank must be from 1 to {dimensions} and iterations at least 1; found {rank} and {iterations}. "
            "Correct them."
        )
    scale = subspace_noise_scale(rows, dimensions, rank=rank, iterations=iterations, epsilon=epsilon, delta=delta)
    draw = generator.normal if delta > 0.0 else generator.laplace
    centre = points.mean(axis=0)
    covariance = points.T @ points / rows - np.outer(centre, centre)
    basis = _orthonormal(generator.standard_normal((dimensions, rank)))
    for _ in range(iterations):
        noise = draw(0.0, scale, (dimensions, rank))
        basis = _orthonormal(covariance @ basis + np.abs(basis).max() * noise)
    eigenvalues = np.linalg.norm(covariance @ basis, axis=0)
    return Ellipsoid(centre, basis, eigenvalues)


def _orthonormal(matrix: Array) -> Array:
    """Gram-Schmidt by QR, with the signs of Gram-Schmidt (a positive diagonal of R)."""
    q, r = np.linalg.qr(matrix)
    signs = np.where(np.diag(r) < 0.0, -1.0, 1.0)
    result: Array = q * signs
    return result
