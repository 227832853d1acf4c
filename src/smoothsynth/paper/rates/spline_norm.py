"""How far two distributions on [-1, 1]^d are apart for K-smooth queries, by splines of all scales.

    |mu| = sum_{l=0..L} 2^(-l K) sum_j |integral of N_{l,j} dmu|,     N_{l,j} the B-splines of degree K, 2^l cells an axis

is exactly the dual norm of the class  { sum_{l,j} c_{l,j} N_{l,j} :  |c_{l,j}| <= 2^(-l K) }.  With constants that depend
on d and K only, that class contains the K-smooth queries down to the width of the finest cell (a smooth function is
its spline approximations' differences from scale to scale, of size 2^(-l K)), and is contained in L + 1 times them
(each scale has bounded derivatives of order K). So slopes in n are those of the dual norm of the smooth class.
DeVore and Popov, Interpolation of Besov spaces, 1988. Sums over squares, as in a Sobolev norm, would not do: for
2K <= d they are infinite for every table.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.paper.rates.cosine import along_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SplineNorm:
    """The norm for queries of smoothness `order`, with 2^levels cells on each axis at the finest scale."""

    order: int
    levels: int

    def of_rows(self, points: Array) -> Array:
        """Return the mean over rows of every finest spline."""
        cells = 2**self.levels
        size = cells + self.order
        columns = [_splines(column, degree=self.order, cells=cells) for column in points.T]
        total = np.zeros(size ** len(columns))
        for offsets in itertools.product(range(self.order + 1), repeat=len(columns)):
            place = np.zeros(len(points), dtype=np.int64)
            value = np.ones(len(points))
            for (first, values), offset in zip(columns, offsets, strict=True):
                place = place * size + first + offset
                value *= values[offset]
            total += np.bincount(place, weights=value, minlength=len(total))
        return total.reshape((size,) * len(columns)) / len(points)

    def of_grid(self, weights: Array, axis: Array) -> Array:
        """Return the integral of every finest spline against weights on the grid axis x .. x axis."""
        cells = 2**self.levels
        first, values = _splines(axis, degree=self.order, cells=cells)
        matrix = np.zeros((cells + self.order, len(axis)))
        for offset, value in enumerate(values):
            matrix[first + offset, np.arange(len(axis))] += value
        return along_axes(weights, matrix)

    def __call__(self, integrals: Array) -> float:
        """Return the norm of a signed measure from its integrals against the finest splines."""
        total = 0.0
        for level in range(self.levels, -1, -1):
            total += 2.0 ** (-level * self.order) * float(np.abs(integrals).sum())
            if level:
                integrals = _coarser(integrals, self.order)
        return total


def _splines(points: Array, *, degree: int, cells: int) -> tuple[NDArray[np.int64], Sequence[Array]]:
    """Return the number of the first B-spline that is not 0 at each point, and the values of it and the next ones.

    N_0 is the indicator of [0, 1);  N_q(x) = (x N_{q-1}(x) + (q + 1 - x) N_{q-1}(x - 1)) / q.  Spline a is N(x - a + degree)
    with x counted in cells from the lower bound, so splines a .. a + degree cover cell a.
    """
    position = (points + 1.0) * (cells / 2.0)
    first = np.minimum(position.astype(np.int64), cells - 1)
    inside = position - first
    values = [np.ones_like(inside)]
    for q in range(1, degree + 1):
        nothing = np.zeros_like(inside)
        lower, upper = [nothing, *values], [*values, nothing]
        shifts = [inside + (q - a) for a in range(q + 1)]
        values = [(x * lo + (q + 1 - x) * up) / q for x, lo, up in zip(shifts, lower, upper, strict=True)]
    return first, values


def _coarser(integrals: Array, degree: int) -> Array:
    """Return the integrals at the next coarser scale:  N(x) = 2^-p sum_k binom(p+1, k) N(2x - k),  p the degree."""
    for axis in range(integrals.ndim):
        finer = np.moveaxis(integrals, axis, 0)
        # Splines that do not reach into the cube have no integral.
        padded = np.pad(finer, [(degree, degree), *[(0, 0)] * (finer.ndim - 1)])
        last = len(finer) + degree
        parts = [math.comb(degree + 1, k) / 2.0**degree * padded[k : k + last : 2] for k in range(degree + 2)]
        integrals = np.moveaxis(np.sum(parts, axis=0), 0, axis)
    return integrals
