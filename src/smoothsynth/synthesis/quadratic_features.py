"""Features of degree at most 2, known by the points alone: the matrix of their values never exists.

With z = (1, x), every such feature is  phi_r(x) = c_r z_i z_j + k_r :  x_i = z_0 z_i,  x_i x_j = z_i z_j  and
T_2(x_i) = 2 z_i z_i - 1. So, for the points Z = (1, X) of the candidates,

    W l  = rowsum((Z A) * Z) + k.l,       A_ij = sum of c_r l_r over the features r at (i, j)
    W'u  = c_r G_ij + k_r 1'u,            G = Z' diag(u) Z

and every product takes C d^2 multiplications and the memory of the points, whatever the number of features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature, Term

    Array = NDArray[np.float64]
    Floats = NDArray[np.floating]
    Indices = NDArray[np.intp]

# A block of points and its products stay in the cache of one core, where more threads would only wait.
_BLOCK_ENTRIES = 2**18


def is_quadratic(feature: Feature) -> bool:
    """Whether a feature is a single term of degree at most 2."""
    return feature.degree <= 2 and not feature.pooled


@dataclass(frozen=True, slots=True)
class Quadratic:
    """Z in double and in single precision; for every feature its place (i, j) in a flat matrix, c and k."""

    points: Array
    rough: NDArray[np.float32]
    place: Indices
    factor: Array
    constant: Array

    @classmethod
    def of(cls, features: Sequence[Feature], points: Floats) -> Quadratic:
        """Describe quadratic features of points of the cube."""
        ones = np.concatenate([np.ones((len(points), 1)), points], axis=1)
        pairs = np.array([_pair(feature.terms[0]) for feature in features], dtype=np.intp)
        square = (pairs[:, 0] == pairs[:, 1]).astype(np.float64)
        place = pairs[:, 0] * ones.shape[1] + pairs[:, 1]
        return cls(ones, ones.astype(np.float32), place, 1.0 + square, -square)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        return len(self.points), len(self.place)

    @property
    def work(self) -> float:
        """What a product with the Hessian takes, in multiplications: 2 C d^2 in single precision, half as dear."""
        return float(self.points.size * self.points.shape[1])

    def only(self, kept: Indices) -> Quadratic:
        """Return the features of some candidates."""
        return Quadratic(self.points[kept], self.rough[kept], self.place, self.factor, self.constant)

    def values(self, kept: Indices) -> Array:
        """Return the features of some candidates, one row each."""
        columns = np.ascontiguousarray(self.points[kept].T)
        left, right = np.divmod(self.place, len(columns))
        values = columns[left]
        values *= columns[right]
        values *= self.factor[:, None]
        values += self.constant[:, None]
        return values.T

    def forward(self, multipliers: Array) -> Array:
        """Return W l."""
        form = self._form(multipliers)
        with one_thread():
            scores = np.concatenate([_quadratic_form(block, form) for _, block in _blocks(self.points)])
        return scores + float(self.constant @ multipliers)

    def adjoint(self, weights: Array) -> Array:
        """Return W'u."""
        return self.factor * self._second(self.points, weights) + self.constant * float(weights.sum())

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v in one pass over the points, accurate to single precision."""
        size = float(np.abs(vector).max()) or 1.0
        form, constant = self._form(vector / size).astype(np.float32), float(self.constant @ vector) / size
        total, mass = np.zeros(form.shape), 0.0
        with one_thread():
            for part, block in _blocks(self.rough):
                bent = weights[part] * (_quadratic_form(block, form) + constant)
                total += np.dot(block.T, block * bent.astype(np.float32)[:, None])
                mass += float(bent.sum())
        return size * (self.factor * total.ravel()[self.place] + self.constant * mass)

    def gram_diagonal(self, weights: Array) -> Array:
        """Return sum_k u_k phi_r(x_k)^2, which is c^2 z_i^2 z_j^2 + 2 c k z_i z_j + k^2 under the sum."""
        fourth = self.factor**2 * self._second(self.points**2, weights)
        cross = 2.0 * self.factor * self.constant * self._second(self.points, weights)
        return fourth + cross + self.constant**2 * float(weights.sum())

    def _form(self, multipliers: Array) -> Array:
        width = self.points.shape[1]
        form = np.bincount(self.place, self.factor * multipliers, minlength=width * width)
        return form.astype(np.float64, copy=False).reshape(width, width)

    def _second(self, points: Array, weights: Array) -> Array:
        """Return sum_k u_k z_i z_j at the place of every feature."""
        total = np.zeros((points.shape[1], points.shape[1]))
        with one_thread():
            for part, block in _blocks(points):
                total += np.dot(block.T, block * weights[part, None])
        return total.ravel()[self.place]


def _pair(term: Term) -> tuple[int, int]:
    """Return the two columns of Z whose product the term is, up to a factor and a constant."""
    (first, degree), *rest = term
    if rest:
        return first + 1, rest[0][0] + 1
    return (first + 1 if degree == 2 else 0), first + 1


def _quadratic_form(block: Floats, form: Floats) -> Floats:
    scores: Floats = np.einsum("ij,ij->i", np.dot(block, form), block)
    return scores


def _blocks(points: Floats) -> Iterator[tuple[slice, Floats]]:
    size = max(256, _BLOCK_ENTRIES // points.shape[1])
    for first in range(0, len(points), size):
        part = slice(first, first + size)
        yield part, points[part]
