"""Products of Chebyshev polynomials: index sets, features and their values.

A *term* is a product  prod_i T_{k_i}(x_i)  over a few coordinates, written as a tuple of
(coordinate, degree) pairs with rising coordinates and degrees >= 1. A *feature* is a term, or the
mean of several terms (a *pooled* feature). T_k(x) = cos(k arccos x), so every feature lies in [-1, 1].
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

Term = tuple[tuple[int, int], ...]

# More features than this cannot be measured or fitted with the memory of one machine.
MOST_FEATURES = 1_000_000


@dataclass(frozen=True, slots=True)
class Feature:
    """The mean of one or more terms: phi(x) = (1/p) sum over terms of prod_i T_{k_i}(x_i)."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms or not all(self.terms):
            raise PlanError("A feature needs at least one term, and a term at least one factor.")
        for term in self.terms:
            coordinates = [coordinate for coordinate, _ in term]
            if sorted(set(coordinates)) != coordinates or min(degree for _, degree in term) < 1:
                raise PlanError(f"A term has rising coordinates and degrees of at least 1; {term} has not.")

    @property
    def degree(self) -> int:
        """The total degree |r|, the largest over the terms."""
        return max(sum(degree for _, degree in term) for term in self.terms)

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
    table = chebyshev(points, max((f.degree for f in features), default=1))
    result = np.empty((points.shape[0], len(features)))
    for column, feature in enumerate(features):
        values = sum(_product(table, term) for term in feature.terms)
        result[:, column] = values / len(feature.terms)
    return result


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


def _product(table: NDArray[np.float64], term: Term) -> NDArray[np.float64]:
    (coordinate, degree), *rest = term
    values = table[degree, coordinate]
    for coordinate, degree in rest:
        values = values * table[degree, coordinate]
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
