"""Chebyshev moments of weights on a grid, and their transpose, axis by axis.

The nodes of one axis are x_j = cos(pi (j + 1/2) / M), j = 0 .. M-1, so  T_r(x_j) = cos(pi r (j + 1/2) / M)  and

    moments:    b_r = sum_j u_j prod_i T_{r_i}(x_{j_i})          0 <= r_i < T
    transpose:  v_j = sum_r y_r prod_i T_{r_i}(x_{j_i})

On these nodes the features are orthogonal: the moments of the transpose of y are  y_r prod_i (M if r_i = 0 else M/2).
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

# Up to this many nodes an axis is faster as a matrix product than as a Fourier transform.
_LONGEST_MATRIX = 1200


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
        """The sum over the grid of each squared feature: M (degree 0) or M/2 for each axis."""
        one = np.full(self.degrees, self.nodes / 2.0)
        one[0] = self.nodes
        return functools.reduce(np.multiply.outer, [one] * self.dimensions)

    def moments(self, weights: Array) -> Array:
        """Return the moments of weights on the grid."""
        if self.nodes > _LONGEST_MATRIX:
            return _each_axis(weights, functools.partial(_fourier_moments, degrees=self.degrees))
        return along_axes(weights, _matrix(self.degrees, self.nodes))

    def transpose(self, values: Array) -> Array:
        """Return the polynomial with these Chebyshev coefficients at every grid point."""
        if self.nodes > _LONGEST_MATRIX:
            return _each_axis(values, functools.partial(_fourier_transpose, nodes=self.nodes))
        return along_axes(values, _matrix(self.degrees, self.nodes).T)


def along_axes(array: Array, matrix: Array) -> Array:
    """Multiply every axis of the array by the same matrix."""
    for _ in range(array.ndim):
        # The axis worked on comes out last, so after one turn all axes are back in order.
        array = np.dot(array.reshape(len(array), -1).T, matrix.T).reshape(*array.shape[1:], len(matrix))
    return array


def good_length(least: int) -> int:
    """Return the smallest even number with no prime factor above 5 that is at least `least`."""
    size = least + least % 2
    while functools.reduce(_without, (2, 3, 5), size) != 1:
        size += 2
    return size


def _without(number: int, prime: int) -> int:
    while number % prime == 0:
        number //= prime
    return number


@functools.lru_cache(maxsize=8)
def _matrix(degrees: int, nodes: int) -> Array:
    return np.cos(np.pi / nodes * np.outer(np.arange(degrees), np.arange(nodes) + 0.5))


def _each_axis(array: Array, transform: functools.partial[Array]) -> Array:
    for axis in range(array.ndim):
        array = np.moveaxis(transform(np.moveaxis(array, axis, -1)), -1, axis)
    return array


def _fourier_moments(values: Array, *, degrees: int) -> Array:
    """Sum v_j cos(pi r (j + 1/2) / M) over j by one real Fourier transform of length M (Makhoul 1980)."""
    nodes = values.shape[-1]
    folded = np.concatenate([values[..., ::2], values[..., 1::2][..., ::-1]], axis=-1)
    spectrum = np.fft.rfft(folded)[..., :degrees]
    return np.real(spectrum * np.exp(-0.5j * np.pi / nodes * np.arange(degrees)))


def _fourier_transpose(values: Array, *, nodes: int) -> Array:
    """Sum y_r cos(pi r (j + 1/2) / M) over r, the transpose of `_fourier_moments`."""
    degrees = values.shape[-1]
    turned = np.exp(0.5j * np.pi / nodes * np.arange(degrees)) * np.where(np.arange(degrees) > 0, 0.5, 1.0)
    folded = np.fft.irfft(values * turned, nodes) * nodes
    result = np.empty_like(folded)
    half = (nodes + 1) // 2
    result[..., ::2] = folded[..., :half]
    result[..., 1::2] = folded[..., half:][..., ::-1]
    return result
