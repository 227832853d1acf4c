"""Feature matrices in bounded memory.

Features of any degree, evaluated block by block whenever a product needs them.

T_0 .. T_K of every coordinate make a table, one row each and one column per candidate of the block. Row f of `factors`
names the f-th factor of every term there (row 0, all ones, where a term has fewer), so the terms are

    table[factors_1] * table[factors_2] * ...        and those from starts_r to starts_{r+1} have feature r as their mean.

Features of degree at most 2, known by the points alone: the matrix of their values never exists.

With z = (1, x), every such feature is  phi_r(x) = c_r z_i z_j + k_r :  x_i = z_0 z_i,  x_i x_j = z_i z_j  and
T_2(x_i) = 2 z_i z_i - 1. So, for the points Z = (1, X) of the candidates,

    W l  = rowsum((Z A) * Z) + k.l,       A_ij = sum of c_r l_r over the features r at (i, j)
    W'u  = c_r G_ij + k_r 1'u,            G = Z' diag(u) Z

and every product takes C d^2 multiplications and the memory of the points, whatever the number of features.

Features of candidates in bounded memory: listed where that is small, else computed from the points when needed.

A matrix of 10^5 candidates and 5,000 features would take 4 GB. Up to 1,000 features and MOST_LISTED bytes it is listed.
Beyond, single terms of degree at most 2 are quadratic forms (quadratic_features.py), and the others are listed while
MOST_LISTED bytes last, or else evaluated block by block in every product (evaluated_features.py). So the features take
at most MOST_LISTED bytes beside a few copies of the points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._runtime import one_thread
from smoothsynth.errors import PlanError
from smoothsynth.fit.entropy_dual import Listed
from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.fit.entropy_dual import CandidateFeatures
    from smoothsynth.queries.bases import Feature, Term

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Floats = NDArray[np.floating]


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


# A block of points and its products stay in the cache of one core, where more threads would only wait.


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


MOST_LISTED = 2**28
# Up to so many features Newton's method forms their Hessian, for which a list is best; beyond, products decide.
_FORMED = 1000
# A listed or evaluated entry of W costs about so many multiplications inside a quadratic form.
_DEAR_ENTRY = 16


def computed_features(
    groups: Sequence[tuple[Sequence[Feature], Array]], *, first: int | None = None
) -> CandidateFeatures:
    """Return the features of candidates: of each group in turn, at the points as that group sees them.

    `first` is how many of them, in this order, to take; None for all.
    """
    groups = _leading(groups, first)
    if not groups:
        raise PlanError("there must be one feature at least; found none: pass the features of a measurement")
    count, rows = sum(len(features) for features, _ in groups), len(groups[0][1])
    if count <= _FORMED and 8 * count * rows <= MOST_LISTED:
        return _list(groups, np.empty((rows, count)))
    parts: list[CandidateFeatures] = []
    places: list[Indices] = []
    start, room = 0, MOST_LISTED
    for features, points in groups:
        for chosen, quadratic in _split(features, dimensions=points.shape[1]):
            part = _part([features[r] for r in chosen], points, quadratic=quadratic, room=room)
            room -= part.matrix.nbytes if isinstance(part, Listed) else 0
            parts.append(part)
            places.append(start + chosen)
        start += len(features)
    return parts[0] if len(parts) == 1 else Stacked(tuple(parts), tuple(places))


def _leading(
    groups: Sequence[tuple[Sequence[Feature], Array]], first: int | None
) -> list[tuple[Sequence[Feature], Array]]:
    starts = itertools.accumulate((len(features) for features, _ in groups), initial=0)
    cut = [
        (features if first is None else features[: max(0, first - start)], points)
        for start, (features, points) in zip(starts, groups, strict=False)
    ]
    return [group for group in cut if group[0]]


def _list(groups: Sequence[tuple[Sequence[Feature], Array]], matrix: Array) -> Listed:
    start = 0
    for features, points in groups:
        Evaluated.of(features, points).fill(matrix[:, start : start + len(features)])
        start += len(features)
    return Listed(matrix)


def _split(features: Sequence[Feature], *, dimensions: int) -> list[tuple[Indices, bool]]:
    """Tell the features that are better taken as quadratic forms, of d^2 coefficients together, from the others."""
    quadratic = np.array([is_quadratic(feature) for feature in features])
    if _DEAR_ENTRY * np.count_nonzero(quadratic) < dimensions**2:
        return [(np.arange(len(features)), False)]
    return [(np.flatnonzero(quadratic == flag), flag) for flag in (True, False) if flag in quadratic]


def _part(features: Sequence[Feature], points: Array, *, quadratic: bool, room: int) -> CandidateFeatures:
    if quadratic:
        return Quadratic.of(features, points)
    evaluated = Evaluated.of(features, points)
    count, moments = evaluated.shape
    return Listed(evaluated.fill(np.empty((count, moments)))) if 8 * count * moments <= room else evaluated


@dataclass(frozen=True, slots=True)
class Stacked:
    """Features side by side; `places` says which columns of W each part fills."""

    parts: tuple[CandidateFeatures, ...]
    places: tuple[Indices, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        return self.parts[0].shape[0], sum(map(len, self.places))

    @property
    def work(self) -> float:
        """What a product with the Hessian takes, in multiplications: each part forward and back."""
        return 2.0 * sum(part.work for part in self.parts)

    def only(self, kept: Indices) -> Stacked:
        """Return the features of some candidates."""
        return Stacked(tuple(part.only(kept) for part in self.parts), self.places)

    def values(self, kept: Indices) -> Array:
        """Return the features of some candidates, one row each."""
        values = np.empty((len(kept), self.shape[1]))
        for part, place in zip(self.parts, self.places, strict=True):
            values[:, place] = part.values(kept)
        return values

    def forward(self, multipliers: Array) -> Array:
        """Return W l, the sum over the parts."""
        scores = np.zeros(self.shape[0])
        for part, place in zip(self.parts, self.places, strict=True):
            scores += part.forward(multipliers[place])
        return scores

    def adjoint(self, weights: Array) -> Array:
        """Return W'u."""
        return self._gather([part.adjoint(weights) for part in self.parts])

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v: the scores of v over all parts, and back."""
        return self.adjoint(weights * self.forward(vector))

    def gram_diagonal(self, weights: Array) -> Array:
        """Return sum_k u_k W_kr^2 for every feature r."""
        return self._gather([part.gram_diagonal(weights) for part in self.parts])

    def _gather(self, pieces: Sequence[Array]) -> Array:
        whole = np.empty(self.shape[1])
        for piece, place in zip(pieces, self.places, strict=True):
            whole[place] = piece
        return whole
