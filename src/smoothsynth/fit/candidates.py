"""Candidate points and base measure; ellipsoid.

Points that may become rows, with the base measure that a fit departs from; built from public facts only.

Candidates from an ellipsoid around the noisy mean, spanned by released directions (the paper, section 3.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_GRID_POINTS = 2_000_000


@dataclass(frozen=True, slots=True)
class Candidates:
    """Unit rows that weights can be put on, their base measure u0, and where they came from."""

    points: NDArray[np.float64]
    base: NDArray[np.float64]
    origin: str

    def __post_init__(self) -> None:
        points = np.array(self.points, dtype=np.float64)
        base = np.array(self.base, dtype=np.float64)
        if points.ndim != 2 or base.shape != points.shape[:1] or 0 in points.shape:
            raise PlanError(
                f"candidates must be a (count, dimensions) array with one base weight each, neither of them 0; found "
                f"points of shape {points.shape} and a base of shape {base.shape}: pass one base weight per point"
            )
        # Negated, so that NaN is refused too.
        if not np.abs(points).max() <= 1.0:
            raise PlanError(
                "candidates must lie in [-1, 1] in every column; found one outside: scale them by the schema's bounds"
            )
        if not (base.min() > 0.0 and abs(base.sum() - 1.0) <= 1e-9):
            raise PlanError(
                "the base measure of the candidates must be positive and sum to 1; found one that is not: "
                "drop candidates of weight 0 and divide the rest by their sum"
            )
        points.setflags(write=False)
        base.setflags(write=False)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "base", base)


def hypercube(count: int, dimensions: int, *, generator: np.random.Generator) -> Candidates:  # noqa: TID251
    """Draw points uniformly from [-1, 1]^d: the "hypercube" of the paper's appendix, not rounded to its grid."""
    _refuse_empty(count, dimensions, what="count")
    points = generator.uniform(-1.0, 1.0, (count, dimensions))
    return Candidates(points, np.full(count, 1.0 / count), "hypercube")


def grid(levels: int, dimensions: int) -> Candidates:
    """Return the paper's full grid {a_k}^d, the last column running fastest.

    a_k = (2k + 1 - N) / N,   k = 0 .. N-1      (Algorithm 1, notations)
    """
    _refuse_empty(levels, dimensions, what="levels")
    count = levels**dimensions
    if count > MOST_GRID_POINTS:
        raise PlanError(
            f"a grid as candidates must have at most {MOST_GRID_POINTS} points; found {levels}^{dimensions}: lower the "
            f"levels, draw hypercube candidates instead, or use the fit on the grid that never lists its points"
        )
    axes = np.meshgrid(*[grid_axis(levels)] * dimensions, indexing="ij")
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    return Candidates(points, np.full(count, 1.0 / count), "grid")


def grid_axis(levels: int) -> NDArray[np.float64]:
    """Return the values a_k = (2k + 1 - N) / N that one column takes on the paper's grid."""
    return (2.0 * np.arange(levels) + 1.0 - levels) / levels


def _refuse_empty(count: int, dimensions: int, *, what: str) -> None:
    if count < 1 or dimensions < 1:
        raise PlanError(
            f"candidates need {what} >= 1 and dimensions >= 1; found {what}={count} and dimensions={dimensions}: "
            f"ask for at least one candidate and one column"
        )


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
