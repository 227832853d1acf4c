"""Chebyshev moments of weights on a grid, and their transpose, axis by axis.

The nodes of one axis are x_j = cos(pi (j + 1/2) / M), j = 0 .. M-1, so  T_r(x_j) = cos(pi r (j + 1/2) / M)  and

    moments:    b_r = sum_j u_j prod_i T_{r_i}(x_{j_i})          0 <= r_i < T
    transpose:  v_j = sum_r y_r prod_i T_{r_i}(x_{j_i})

On these nodes the features are orthogonal: the moments of the transpose of y are  y_r prod_i (M if r_i = 0 else M/2).
Short axes are matrix products, long ones a Fourier transform (Makhoul 1980).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Up to this many nodes an axis is faster as a matrix product.
_LONGEST_MATRIX = 1100


@dataclass(frozen=True, slots=True)
class CosineGrid:
    """All products of T_0 .. T_{degrees-1} on the Chebyshev nodes of [-1, 1]^dimensions, `nodes` on each axis."""

    degrees: int
    nodes: int
    dimensions: int

    def __post_init__(self) -> None:
        if self.degrees < 1 or self.dimensions < 1 or self.nodes < 2 * self.degrees:
            raise PlanError(
                f"a cosine grid needs degrees and dimensions of at least 1 and two nodes per degree; found "
                f"{self.degrees}, {self.dimensions} and {self.nodes} nodes: take more nodes"
            )

    @property
    def axis(self) -> Array:
        """The nodes of one axis, from near 1 down to near -1."""
        return np.cos(np.pi * (np.arange(self.nodes) + 0.5) / self.nodes)

    @property
    def lengths(self) -> Array:
        """The sum over the nodes of each squared feature: M or M/2 for each axis."""
        one = np.full(self.degrees, self.nodes / 2.0)
        one[0] = self.nodes
        return functools.reduce(np.multiply.outer, [one] * self.dimensions)

    def moments(self, weights: Array) -> Array:
        """Return the moments of weights on the grid."""
        return self._along_axes(weights, _moments_by_fourier, matrix=lambda m: m)

    def transpose(self, values: Array) -> Array:
        """Return the polynomial with these coefficients at every grid point."""
        return self._along_axes(values, _transpose_by_fourier, matrix=lambda m: m.T)

    def _along_axes(self, array: Array, fourier: object, *, matrix: object) -> Array:
        raise NotImplementedError
