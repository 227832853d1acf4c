"""How the sums of many terms become few matrix products.

Each term is a prefix times a last factor, and its sum over rows is one entry of  P F'  with P the prefixes
and F the factors (functions x rows). Prefixes that continue the same shorter prefix are computed
together, and share a product as long as that is faster than two:

    x_i            1 . x_i                 T_2(x_i)     x_i . x_i   (2 x^2 - 1 afterwards)
    x_i x_j        x_i . x_j               T_k(x_i)     1 . t_k(x_i)
    x_i x_j x_k    rint(x_i x_j / S) . x_k,  and so on
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.measurement import MOST_DEGREE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature, Term

Rows = Union[slice, "NDArray[np.intp]"]
Prefix = tuple[int, ...]

# Prefixes that are held at once for each level.
_TOGETHER = 64
# What a product costs beyond its entries, counted in entries; and the entries up to which OpenBLAS, for a thousand rows, does
# without copies of its arguments and is twice as fast.
_CALL, _FAST = 40, 976


@dataclass(frozen=True, slots=True)
class Factors:
    """The rows of F: a row of ones, the coordinates in use, then blocks t_k of their first few, by degree.

    Coordinates with higher degrees come first, so that each block belongs to the first coordinates.
    """

    coordinates: tuple[int, ...]
    reach: tuple[int, ...]
    starts: dict[int, int]
    count: int


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product: prefixes `left` of the step times factors `right`, into the totals at `start`."""

    left: Rows
    right: Rows
    shape: tuple[int, int]
    start: int


@dataclass(frozen=True, slots=True)
class Step:
    """Prefixes that continue row `parent` of the level below by `factors`, and what they are multiplied by.

    On level 0 the prefixes are the factors themselves.
    """

    level: int
    parent: int
    factors: Rows
    size: int
    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps for a set of features, and where in the totals each of their terms is found."""

    factors: Factors
    steps: tuple[Step, ...]
    size: int
    places: dict[Term, int]

    @property
    def widths(self) -> tuple[int, ...]:
        """The most prefixes held on each level above the first."""
        widest: dict[int, int] = defaultdict(int)
        for step in self.steps:
            widest[step.level] = max(widest[step.level], step.size)
        return tuple(widest[level] for level in range(1, max(widest) + 1))


def recipe(features: Sequence[Feature], dimensions: int) -> Recipe:
    """Plan the matrix products for some features of a table with so many coordinates."""
    terms = list(dict.fromkeys(term for feature in features for term in feature.terms))
    if not terms:
        raise PlanError("At least one feature is needed.")
    if max(term[-1][0] for term in terms) >= dimensions or min(term[0][0] for term in terms) < 0:
        raise PlanError(f"A feature names a coordinate that the schema, with {dimensions}, does not have.")
    if max(feature.degree for feature in features) > MOST_DEGREE:
        raise PlanError(f"The total degree of a feature can be at most {MOST_DEGREE}. Take lower degrees.")
    factors = _factors(terms)
    position = {c: i for i, c in enumerate(factors.coordinates)}
    split = {term: _split(term, position, factors.starts) for term in terms}
    lasts: dict[Prefix, set[int]] = defaultdict(set)
    for prefix, last in split.values():
        lasts[prefix].add(last)
    steps, found, size = _steps(lasts)
    places = {term: found[prefix, last] for term, (prefix, last) in split.items()}
    return Recipe(factors, tuple(steps), size, places)


def _factors(terms: Iterable[Term]) -> Factors:
    highest: dict[int, int] = defaultdict(lambda: 1)
    stored = set()
    for term in terms:
        for coordinate, degree in term:
            # T_2 alone comes from the square of x.
            needed = 1 if len(term) == 1 and degree == 2 else degree
            highest[coordinate] = max(highest[coordinate], needed)
            stored.add(needed)
    coordinates = tuple(sorted(highest, key=lambda c: (-highest[c], c)))
    reach = tuple(sum(highest[c] >= k for c in coordinates) for k in range(1, max(highest.values()) + 1))
    starts, count = {1: 1}, 1 + reach[0]
    for degree in sorted(stored - {1}):
        starts[degree] = count
        count += reach[degree - 1]
    return Factors(coordinates, reach, starts, count)


def _split(term: Term, position: dict[int, int], starts: dict[int, int]) -> tuple[Prefix, int]:
    if len(term) == 1 and term[0][1] == 2:
        row = 1 + position[term[0][0]]
        return (row,), row
    rows = [starts[k] + position[c] for c, k in term]
    if len(rows) == 1:
        return (0,), rows[0]
    # A product of two is exact and does not depend on their order.
    return ((min(rows),), max(rows)) if len(rows) == 2 else (tuple(rows[:-1]), rows[-1])


def _steps(lasts: dict[Prefix, set[int]]) -> tuple[list[Step], dict[tuple[Prefix, int], int], int]:
    """Order the steps so that each finds its parent where the last step one level below has left it."""
    longer = _continuations(lasts)
    steps: list[Step] = []
    places: dict[tuple[Prefix, int], int] = {}
    size = 0
    waiting: list[tuple[Prefix, int, list[int]]] = [((), 0, longer[()])]
    while waiting:
        stem, parent, ends = waiting.pop()
        groups = _groups({end: lasts.get((*stem, end), set()) for end in ends})
        order = [end for lefts, _ in groups for end in lefts]
        products = []
        for lefts, rights in (group for group in groups if group[1]):
            shape = (len(lefts), len(rights))
            left = lefts if not stem else [order.index(end) for end in lefts]
            products.append(Product(_rows(left), _rows(rights), shape, size))
            entries = enumerate(itertools.product(lefts, rights), start=size)
            places.update({((*stem, end), last): place for place, (end, last) in entries})
            size += math.prod(shape)
        steps.append(Step(len(stem), parent, _rows(order), len(order), tuple(products)))
        for i, end in enumerate(order):
            children = longer.get((*stem, end), [])
            parts = [children[k : k + _TOGETHER] for k in range(0, len(children), _TOGETHER)]
            waiting += [((*stem, end), i if stem else end, part) for part in parts]
    return steps, places, size


def _continuations(lasts: Iterable[Prefix]) -> dict[Prefix, list[int]]:
    """Return, for each prefix, the factors that continue it to a longer one, rising."""
    known: dict[Prefix, set[int]] = defaultdict(set)
    for prefix in lasts:
        for length in range(len(prefix), 0, -1):
            known[prefix[: length - 1]].add(prefix[length - 1])
    return {prefix: sorted(ends) for prefix, ends in known.items()}


def _groups(lasts: dict[int, set[int]]) -> list[tuple[list[int], list[int]]]:
    """Put rows together as long as one product costs less than two, and is of a size that is multiplied fast."""
    groups: list[tuple[list[int], set[int]]] = []
    for end in sorted(lasts, key=lambda e: (sorted(lasts[e])[:1], e)):
        new = lasts[end]
        if groups and _worth_joining(*groups[-1], new):
            groups[-1][0].append(end)
            groups[-1][1].update(new)
        else:
            groups.append(([end], set(new)))
    return [(lefts, sorted(rights)) for lefts, rights in groups]


def _worth_joining(lefts: list[int], rights: set[int], new: set[int]) -> bool:
    together = (len(lefts) + 1) * len(rights | new)
    apart = len(lefts) * len(rights) + len(new)
    # Without any product, prefixes only wait for longer ones: all of them can wait together.
    small = together <= _FAST or len(rights) > _FAST // 4
    return not (rights or new) or (bool(rights and new) and small and together <= apart + _CALL)


def _rows(rows: list[int]) -> Rows:
    if rows == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return np.array(rows, dtype=np.intp)
