"""Features of any degree, evaluated block by block whenever a product needs them.

T_0 .. T_K of every coordinate make a table, one row each and one column per candidate of the block. Row f of `factors`
names the f-th factor of every term there (row 0, all ones, where a term has fewer), so the terms are

    table[factors_1] * table[factors_2] * ...        and those from starts_r to starts_{r+1} have feature r as their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]

# A block of terms stays in the cache.
_BLOCK_ENTRIES = 2**18


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The points, the highest degree K of a factor, and where the factors and the terms of each feature are."""

    points: Array
    degree: int
    factors: Indices
    starts: Indices

    @classmethod
    def of(cls, features: Sequence[Feature], points: NDArray[np.floating]) -> Evaluated:
        """Describe features of points of the cube."""
        terms = [term for feature in features for term in feature.terms]
        factors = np.zeros((max(map(len, terms)), len(terms)), dtype=np.intp)
        for column, term in enumerate(terms):
            for row, (coordinate, degree) in enumerate(term):
                factors[row, column] = degree * points.shape[1] + coordinate
        sizes = [len(feature.terms) for feature in features]
        starts = np.cumsum([0, *sizes[:-1]]).astype(np.intp)
        degree = max(degree for term in terms for _, degree in term)
        return cls(np.asarray(points, dtype=np.float64), degree, factors, starts)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        return len(self.points), len(self.starts)

    @property
    def work(self) -> float:
        """What a product with the Hessian takes, in multiplications: an evaluation, which is far dearer than its use."""
        return 40.0 * self.factors.size * len(self.points)

    def only(self, kept: Indices) -> Evaluated:
        """Return the features of some candidates."""
        return Evaluated(self.points[kept], self.degree, self.factors, self.starts)

    def values(self, kept: Indices) -> Array:
        """Return the features of some candidates, one row each."""
        return self._columns(self.points[kept]).T

    def fill(self, matrix: Array) -> Array:
        """Write all features into a matrix, one row per candidate, and return it."""
        for part, columns in self._blocks():
            matrix[part] = columns.T
        return matrix

    def forward(self, multipliers: Array) -> Array:
        """Return W l."""
        return np.concatenate([np.dot(multipliers, columns) for _, columns in self._blocks()])

    def adjoint(self, weights: Array) -> Array:
        """Return W'u."""
        total = np.zeros(len(self.starts))
        for part, columns in self._blocks():
            total += np.dot(columns, weights[part])
        return total

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v, evaluating the features once."""
        total = np.zeros(len(self.starts))
        for part, columns in self._blocks():
            total += np.dot(columns, weights[part] * np.dot(vector, columns))
        return total

    def gram_diagonal(self, weights: Array) -> Array:
        """Return sum_k u_k W_kr^2 for every feature r."""
        total = np.zeros(len(self.starts))
        for part, columns in self._blocks():
            total += np.dot(columns * columns, weights[part])
        return total

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield the features block by block, one column per candidate."""
        size = max(64, _BLOCK_ENTRIES // self.factors.shape[1])
        for first in range(0, len(self.points), size):
            part = slice(first, first + size)
            yield part, self._columns(self.points[part])

    def _columns(self, points: Array) -> Array:
        table = chebyshev(points, self.degree).reshape(-1, len(points))
        first, *others = self.factors
        terms: Array = table[first]
        for rows in others:
            terms *= table[rows]
        if len(self.starts) == terms.shape[0]:
            return terms
        means: Array = np.add.reduceat(terms, self.starts, axis=0)
        means /= np.diff(self.starts, append=terms.shape[0])[:, None]
        return means
