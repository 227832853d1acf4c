"""The lattice, and the integer bases on it: Chebyshev polynomials and hat functions.

The lattice of whole numbers on which rows are measured.

Products of Chebyshev polynomials: index sets, features and their values.

A *term* is a product  prod_i T_{k_i}(x_i)  over a few coordinates, written as a tuple of
(coordinate, degree) pairs with rising coordinates and degrees >= 1. A *feature* is a term, or the
mean of several terms (a *pooled* feature). T_k(x) = cos(k arccos x), so every feature lies in [-1, 1].

Soft counts: B hat functions of one coordinate, evenly spread, at least 0 and together 1, in whole numbers.

With Y in [-S, S] a lattice value (smoothsynth.queries.bases),

    p = (Y + S) B - S, kept within [0, 2 S (B - 1)],      i = p // 2S, at most B - 2,      f = (p - 2 S i) // 2

the i-th count (from 0) of the row is  S - f,  the next one is  f,  and all others are 0. So a row adds S to the counts of a
column, whatever their number is, and replacing it moves them by at most 2 S (docs/proofs/sensitivity.md, section 12).

Cosines of soft counts: a public linear map of them. With n_j the counts, from 0, in units of S, the k-th of B - 1 is

    sum over j of  rint(S cos(pi k (2 j + 1) / 2 B))  n_j,      a whole number in [-S^2, S^2] for each row

Chebyshev moments of weights on a grid of Chebyshev nodes, and their transpose, axis by axis. The nodes of one axis are
x_j = cos(pi (j + 1/2) / M), j = 0 .. M-1, so  T_r(x_j) = cos(pi r (j + 1/2) / M)  and

    moments:    b_r = sum_j u_j prod_i T_{r_i}(x_{j_i})          0 <= r_i < T
    transpose:  v_j = sum_r y_r prod_i T_{r_i}(x_{j_i})

On these nodes the features are orthogonal: the moments of the transpose of y are  y_r prod_i (M if r_i = 0 else M/2).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


# S: a coordinate in [-1, 1] is rounded once to a whole multiple of 1/S.
LATTICE = 2**16


Term = tuple[tuple[int, int], ...]

# More features than this cannot be measured or fitted with the memory of one machine.
MOST_FEATURES = 1_000_000
_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class Feature:
    """The mean of one or more terms: phi(x) = (1/p) sum over terms of prod_i T_{k_i}(x_i)."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms or not all(self.terms):
            raise PlanError("A feature needs at least one term, and a term at least one factor.")
        for term in self.terms:
            before = -1
            for coordinate, degree in term:
                if coordinate <= before or degree < 1:
                    raise PlanError(f"A term has rising coordinates and degrees of at least 1; {term} has not.")
                before = coordinate

    @property
    def degree(self) -> int:
        """The total degree |r|, the largest over the terms."""
        return max([sum([degree for _, degree in term]) for term in self.terms])

    @property
    def pooled(self) -> bool:
        """Whether this is a mean over several terms."""
        return len(self.terms) > 1

    def label(self, coordinates: Sequence[str]) -> str:
        """Name the feature in words, for plans and receipts."""
        words = "*".join(coordinates[c] if k == 1 else f"T{k}({coordinates[c]})" for c, k in self.terms[0])
        return f"mean of {len(self.terms)} terms like {words}" if self.pooled else words


def term_feature(*factors: tuple[int, int]) -> Feature:
    """Make a feature of a single term."""
    return Feature((tuple(factors),))


def graded_terms(dimensions: int) -> Iterator[Term]:
    """List all terms but the constant, lower total degree first.

    Within a degree, terms follow the lexicographic order of their sorted coordinates with repetition:
    for d = 3, degree 2:  T2(x0), x0 x1, x0 x2, T2(x1), x1 x2, T2(x2).  This order never changes.
    """
    for degree in itertools.count(1):
        for coordinates in itertools.combinations_with_replacement(range(dimensions), degree):
            yield tuple(sorted(Counter(coordinates).items()))


@functools.lru_cache(maxsize=16)
def lowest(count: int, dimensions: int) -> tuple[Feature, ...]:
    """Return the `count` lowest features in graded order (the paper's R functions, lower degrees first)."""
    _check_count(count)
    return tuple(Feature((term,)) for term in itertools.islice(graded_terms(dimensions), count))


def total_degree(degree: int, dimensions: int) -> tuple[Feature, ...]:
    """Return all features of total degree 1 to `degree`, in graded order."""
    return lowest(math.comb(dimensions + degree, degree) - 1, dimensions)


def tensor(size: int, dimensions: int) -> tuple[Feature, ...]:
    """Return the full tensor {0..size-1}^d without the constant, in graded order (Algorithm 1, step 7)."""
    if size < 1 or dimensions < 1:
        raise PlanError(f"A tensor basis needs size and dimensions of at least 1, not {size} and {dimensions}.")
    _check_count(size**dimensions)
    indices = itertools.product(range(size), repeat=dimensions)
    terms = [tuple((c, k) for c, k in enumerate(index) if k) for index in indices]
    return tuple(Feature((term,)) for term in sorted(filter(None, terms), key=_graded_key))


def pooled(degree: int, coordinates: Sequence[int]) -> Feature:
    """Return the mean over the given coordinates of T_degree, one feature for all of them."""
    return Feature(tuple(((c, degree),) for c in coordinates))


def evaluate(features: Sequence[Feature], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the (points, features) matrix of feature values at points of the cube."""
    table = _up_to_their_degrees(features, points)
    result = np.empty((points.shape[0], len(features)))
    # Some columns at a time: one by one, each of their values would be a line of the cache by itself.
    for start in range(0, len(features), _TOGETHER):
        part = [_mean_of_terms(table, feature) for feature in features[start : start + _TOGETHER]]
        result[:, start : start + len(part)] = np.stack(part, axis=1)
    return result


def _up_to_their_degrees(features: Sequence[Feature], points: Array) -> dict[int, Array]:
    """Return T_0, T_1, .. of each coordinate as far as features need them: of hundreds of levels, nothing but themselves."""
    degrees: dict[int, int] = {}
    for feature in features:
        for term in feature.terms:
            for c, k in term:
                degrees[c] = max(k, degrees.get(c, 1))
    return {c: chebyshev(points[:, [c]], degree)[:, 0] for c, degree in degrees.items()}


def _mean_of_terms(table: Mapping[int, Array], feature: Feature) -> Array:
    if not feature.pooled:
        return _product(table, feature.terms[0])
    return np.asarray(sum(_product(table, term) for term in feature.terms) / len(feature.terms))


def chebyshev(points: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """Return T_0..T_degree at the points, as (degree + 1, coordinates, points), by the recurrence.

    T_{k+1}(x) = 2 x T_k(x) - T_{k-1}(x); no arccos, which is inaccurate near the bounds.
    """
    x = np.ascontiguousarray(points.T)
    table = np.empty((degree + 1, *x.shape))
    table[0] = 1.0
    if degree:
        table[1] = x
    for k in range(2, degree + 1):
        np.multiply(x, table[k - 1], out=table[k])
        table[k] *= 2.0
        table[k] -= table[k - 2]
    return np.clip(table, -1.0, 1.0, out=table)


def _product(table: Mapping[int, Array], term: Term) -> Array:
    (coordinate, degree), *rest = term
    values = table[coordinate][degree]
    for coordinate, degree in rest:
        values = values * table[coordinate][degree]
    return values


def _graded_key(term: Term) -> tuple[int, list[int]]:
    coordinates = [c for c, k in term for _ in range(k)]
    return len(coordinates), coordinates


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_FEATURES:
        raise PlanError(
            f"{count:,} features are asked for; between 1 and {MOST_FEATURES:,} can be measured. "
            "Take fewer columns or a lower degree."
        )


FEWEST_CELLS, MOST_CELLS = 2, 256


def split(lattice: NDArray[np.int64], counts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each lattice value the first count that it adds to, from 0, and what it adds to the next one."""
    places = np.clip((lattice + LATTICE) * counts - LATTICE, 0, 2 * LATTICE * (counts - 1))
    first = np.minimum(places // (2 * LATTICE), counts - 2)
    return first, (places - 2 * LATTICE * first) // 2


def count_values(coordinate: Array, counts: int) -> Array:
    """Return all counts of points of one coordinate, as (counts, points), in units of a row."""
    first, beyond = split(np.rint(coordinate * LATTICE).astype(np.int64), counts)
    values, rows = np.zeros((counts, len(coordinate))), np.arange(len(coordinate))
    values[first, rows], values[first + 1, rows] = (LATTICE - beyond) / LATTICE, beyond / LATTICE
    return values


@functools.lru_cache(maxsize=32)
def cosine_map(counts: int) -> NDArray[np.int64]:
    """Return what each soft count (a column) adds to each cosine (a row), and in the last row to the last count, times S."""
    made = np.zeros((counts, counts), dtype=np.int64)
    degrees, middles = np.arange(1, counts)[:, None], 2 * np.arange(counts) + 1
    made[:-1] = np.rint(LATTICE * np.cos(math.pi / (2 * counts) * (degrees * middles)))
    made[-1, -1] = LATTICE
    made.setflags(write=False)
    return made


def evaluate_hats(features: Sequence[Feature], points: Array, counts: int) -> Array:
    """Return the (points, features) matrix of soft counts; a factor (c, j) is the j-th count of coordinate c."""
    known: dict[int, Array] = {}
    result = np.empty((len(points), len(features)))
    for column, feature in enumerate(features):
        ((coordinate, number),) = feature.terms[0]
        if coordinate not in known:
            known[coordinate] = count_values(points[:, coordinate], counts)
        result[:, column] = known[coordinate][number - 1]
    return result


def check_hats(features: Sequence[Feature], counts: int) -> None:
    """Refuse features that are not different soft counts of single coordinates."""
    terms = [feature.terms[0] for feature in features]
    single = all(len(feature.terms) == 1 and len(feature.terms[0]) == 1 for feature in features)
    if not single or max(term[0][1] for term in terms) > counts or len(set(terms)) < len(terms):
        raise PlanError(f"A view of {counts} soft counts needs different features, each one count of one coordinate.")


class Factors(Protocol):
    """The factors of features at some points."""

    def of(self, coordinate: int, number: int) -> Array:
        """Return factor `number` of one coordinate."""


def feature_values(feature: Feature, factors: Factors) -> Array:
    """Return one feature at the points of its factors: the mean of its terms, each a product."""
    terms = (functools.reduce(np.multiply, [factors.of(c, k) for c, k in term]) for term in feature.terms)
    return np.asarray(sum(terms) / len(feature.terms))


class Basis(Protocol):
    """Functions of what is seen of a row, whose products are features."""

    @property
    def name(self) -> str:
        """What the page calls it."""

    def evaluate(self, features: Sequence[Feature], seen: Array) -> Array:
        """Return the (points, features) matrix of features at points as they are seen."""

    def factors(self, seen: Array) -> Factors:
        """Return the factors of features at points as they are seen, each computed once it is asked for."""


@dataclass(frozen=True, slots=True)
class Chebyshev:
    """Factor (c, k) is T_k of coordinate c."""

    name: ClassVar[str] = "chebyshev"

    def evaluate(self, features: Sequence[Feature], seen: Array) -> Array:
        """Return the (points, features) matrix of features at points as they are seen."""
        return evaluate(features, seen)

    def factors(self, seen: Array) -> Factors:
        """Return the factors of features at points as they are seen."""
        return _ChebyshevFactors(seen)


@dataclass(frozen=True, slots=True)
class HatCosines:
    """Factor (c, k) is the k-th cosine made of so many hat functions as `cells`; factor (c, cells) the last of these."""

    name: ClassVar[str] = "hat cosines"
    cells: int

    def evaluate(self, features: Sequence[Feature], seen: Array) -> Array:
        """Return the (points, features) matrix of features at points as they are seen."""
        factors = self.factors(seen)
        return np.stack([factors.of(*feature.terms[0][0]) for feature in features], axis=1)

    def factors(self, seen: Array) -> Factors:
        """Return the factors of features at points as they are seen."""
        return _HatFactors(seen, self.cells, cosine_map(self.cells) / LATTICE)


@dataclass(frozen=True, slots=True)
class HatBasis:
    """Factor (c, j) is the j-th of the hat functions (linear B-splines) of coordinate c, as many as `cells`."""

    name: ClassVar[str] = "hat"
    cells: int

    def evaluate(self, features: Sequence[Feature], seen: Array) -> Array:
        """Return the (points, features) matrix of features at points as they are seen."""
        return evaluate_hats(features, seen, self.cells)

    def factors(self, seen: Array) -> Factors:
        """Return the factors of features at points as they are seen."""
        return _HatFactors(seen, self.cells)


class _ChebyshevFactors:
    """T_0, T_1, ... of each coordinate of some points, by the recurrence, as far as they were asked for."""

    def __init__(self, points: Array) -> None:
        self._points = np.ascontiguousarray(points.T)
        self._known: dict[int, list[Array]] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return T_k of one coordinate:  T_{k+1} = 2 x T_k - T_{k-1}."""
        x = self._points[coordinate]
        known = self._known.setdefault(coordinate, [np.ones_like(x), x])
        while len(known) <= number:
            known.append(2.0 * x * known[-1] - known[-2])
        return known[number]


class _HatFactors:
    """The hat functions of each coordinate of some points, as far as they were asked for."""

    def __init__(self, points: Array, cells: int, matrix: Array | None = None) -> None:
        self._points, self._cells, self._matrix = points, cells, matrix
        self._known: dict[int, Array] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one hat function of one coordinate."""
        if coordinate not in self._known:
            values = count_values(self._points[:, coordinate], self._cells)
            self._known[coordinate] = values if self._matrix is None else self._matrix @ values
        return self._known[coordinate][number - 1]


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
