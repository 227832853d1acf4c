"""Candidates from an ellipsoid around the noisy mean, spanned by released directions (the paper, section 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.candidates import Candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray


def ellipsoid(
    centre: NDArray[np.float64],
    directions: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    *,
    count: int,
    generator: np.random.Generator,  # noqa: TID251
) -> Candidates:
    """Draw points uniformly from the ellipsoid with covariance diag(eigenvalues), and clip them to the cube.

    A uniform draw from a k-dimensional ellipsoid with radii a_s has covariance a_s^2/(k+2), so the radii
    are sqrt((k+2) lambda_s) (the paper takes sqrt(lambda_s), which is too narrow by sqrt(k+2)).
    """
    rank = len(eigenvalues)
    ball = generator.standard_normal((count, rank))
    ball *= generator.random((count, 1)) ** (1.0 / rank) / np.linalg.norm(ball, axis=1, keepdims=True)
    points = centre + (ball * np.sqrt((rank + 2) * eigenvalues)) @ directions.T
    return Candidates(np.clip(points, -1.0, 1.0), np.full(count, 1.0 / count), "ellipsoid")
