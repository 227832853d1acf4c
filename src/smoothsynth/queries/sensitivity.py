"""How much one person changes a vector of sums: one function for each theorem of docs/proofs/sensitivity.md.

Bounds for features of coordinates of which nothing is known but that they lie in [-1, 1].

Bounds for features of coordinates that are 0 or 1: levels of categories, and indicators of what is missing.

A feature  x_l psi  of a level l is 0 in rows of other levels. So of all features of the levels of one category a replaced row
moves those of one level, by what psi can move, or those of two, by what psi can be (docs/proofs/sensitivity.md, section 11):

    change(F) = change of the features without an indicator  +  sum over categories of
                max( max_l change(F_l),  the two largest size(F_l) )
    size(F)   = sum of w^p of the features without an indicator  +  sum over categories of  max_l size(F_l)

with F_l the features  psi  of level l, and p = 1 or 2.

The sensitivity of weighted features in each norm, from all that is known of the coordinates.

Bounds for rows that a transformation keeps short.

Bounds for soft counts: those of a coordinate are at least 0 and together 1 (docs/proofs/sensitivity.md, section 12).

A convex function of a row's counts is largest at a corner, where one of them is 1. So of each coordinate two counts:

    L1 = sum over coordinates of the two largest w,      L2^2 = sum over coordinates of the two largest w^2

which is attained by two rows in the middle of those counts. Of a coordinate with one measured count that one moves by w.
Counts of an indicator that are all 0 where the indicator is 0 move only if it is 1 in one of two rows. So the levels of a
category are together like one coordinate, each of them with its largest w.

Bounds for cosines of soft counts, a public linear map of them (section 15): largest at two corners too, which are tried.

How far one row can move the sums of weighted features.

All bounds are for tables of the same size that differ in one row (replace-one), for the *sums* over
rows, with features scaled by weights w_r >= 0. The derivations are in docs/proofs/sensitivity.md.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import columns_of_products
from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE, CosineGrid, Feature, cosine_map, total_degree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Term

    Weighted = list[tuple[Term, float]]
    Plain = Callable[[Weighted], float]
    Array = NDArray[np.float64]


# Steps of the grids on which trigonometric sums are maximised. What a grid can miss is bounded by second
# derivatives and added, so the result is an upper bound and not an estimate.
_STEPS_1D = 20_000
_STEPS_2D = 1_500
# Nodes of the grid of several angles: so many for each degree at least, and so many in all.
_NODES_PER_DEGREE, _MOST_NODES = 4, 2**21


def values_l1(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Return the general bound in L1: features of single coordinates exactly, 2 w for others."""
    columns, others = _split(features, weights)
    alone = sum(_largest_l1(tuple(sorted(column.items()))) for column in columns.values())
    return alone + 2.0 * math.fsum(others)


def values_l2(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Return the smaller of the general bound in L2 and that of Theorem 2."""
    general = math.sqrt(squares_of_values(features, [w * w for w in weights]))
    return min(general, _second_degree_l2(features, weights))


def squares_of_values(features: Sequence[Feature], squares: Sequence[float]) -> float:
    """Bound the square of the L2 norm, given squares of weights: features of single coordinates exactly, 4 w^2 for others."""
    columns, others = _split(features, squares)
    alone = sum(_largest_l2(tuple(sorted(column.items()))) for column in columns.values())
    return alone + 4.0 * math.fsum(others)


def full_tensor(features: Sequence[Feature], weights: Sequence[float]) -> float | None:
    """Return the exact L1 sensitivity of a full tensor with equal weights, or None for other sets."""
    sides = _sides(features) if len(set(weights)) == 1 else None
    if sides is None:
        return None
    t, d = sides
    # sum_{r<t} (1 - cos r s) = t - D(s), so its maximum over s is t + m_t.
    one = _largest_l1(tuple((k, 1.0) for k in range(1, t)))
    return float(weights[0]) * t ** (d - 1) * one * (1.0 + 1e-12)


def weighted_tensor(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Bound  max_z sum_r w_r (1 - phi_r(z))  for a full tensor of several columns; infinity for other sets."""
    t, d = _sides(features) or (0, 0)
    if d < 2 or (_NODES_PER_DEGREE * t) ** d > _MOST_NODES:
        return math.inf
    table = np.zeros((t,) * d)
    for feature, weight in zip(features, weights, strict=True):
        degrees = dict(feature.terms[0])
        table[tuple(degrees.get(c, 0) for c in range(d))] = weight
    return spread(table, nodes=max(_NODES_PER_DEGREE * t, int(_MOST_NODES ** (1.0 / d))))


def spread(weights: Array, *, nodes: int | None = None) -> float:
    """Bound  max_z sum_r w_r (1 - phi_r(z))  over {0 .. T-1}^d from above (docs/proofs/minimax.md).

    In angles the sum is smooth with vanishing gradient at its maximum; the nearest node is off by at most half a step
    h/2 in each angle, so the grid misses at most  (h/2)^2 / 2 sum_r w_r (r_1 + .. + r_d)^2.
    """
    degrees, total = len(weights), float(weights.sum() - weights.flat[0])
    grid = CosineGrid(degrees, nodes or _NODES_PER_DEGREE * degrees, weights.ndim)
    lowest = float(grid.transpose(weights).min() - weights.flat[0])
    sums = functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64)] * weights.ndim)
    missed = (math.pi / grid.nodes) ** 2 / 8.0 * float((weights * sums**2).sum())
    return min((total - lowest + missed) * (1.0 + 1e-12), 2.0 * total)


def _sides(features: Sequence[Feature]) -> tuple[int, int] | None:
    """Return t and d if the features are the full tensor {0..t-1}^d without the constant."""
    if any(feature.pooled for feature in features) or len(set(features)) != len(features):
        return None
    d = 1 + max(c for feature in features for c, _ in feature.terms[0])
    t = 1 + max(k for feature in features for _, k in feature.terms[0])
    return (t, d) if len(features) == t**d - 1 else None


def _split(features: Sequence[Feature], weights: Sequence[float]) -> tuple[dict[int, dict[int, float]], list[float]]:
    columns: dict[int, dict[int, float]] = {}
    others: list[float] = []
    for feature, weight in zip(features, weights, strict=True):
        if feature.pooled or len(feature.terms[0]) > 1:
            others.append(weight)
        else:
            ((coordinate, degree),) = feature.terms[0]
            column = columns.setdefault(coordinate, {})
            column[degree] = column.get(degree, 0.0) + weight
    return columns, others


def largest_by_kind(features: Sequence[Feature], weights: Sequence[float]) -> dict[tuple[int, int], float] | None:
    """Return the largest weight of x_i (1, 1), T_2(x_i) (1, 2) and x_i x_j (2, 2); None if there are others."""
    largest = {(1, 1): 0.0, (1, 2): 0.0, (2, 2): 0.0}
    for feature, weight in zip(features, weights, strict=True):
        kind = (len(feature.terms[0]), feature.degree)
        if feature.pooled or kind not in largest:
            return None
        largest[kind] = max(largest[kind], weight)
    return largest if len(features) == len(set(features)) else None


@functools.lru_cache(maxsize=256)
def _largest_l1(weights: tuple[tuple[int, float], ...]) -> float:
    """Bound  max_s sum_k w_k (1 - cos k s)  from above."""
    degrees = np.array([k for k, _ in weights], dtype=np.float64)
    w = np.array([weight for _, weight in weights])
    step = math.pi / _STEPS_1D
    s = np.arange(_STEPS_1D + 1) * step
    highest = float(np.max(w @ (1.0 - np.cos(np.outer(degrees, s)))))
    # The nearest grid point is within step/2 of the maximum, where the first derivative vanishes.
    missed = step**2 / 8.0 * float(w @ degrees**2)
    return min((highest + missed) * (1.0 + 1e-12), 2.0 * float(w.sum()))


@functools.lru_cache(maxsize=256)
def _largest_l2(weights: tuple[tuple[int, float], ...]) -> float:
    """Bound  max_{u,v} 4 sum_k w_k sin^2(k u) sin^2(k v)  from above; here w_k is already squared."""
    degrees = np.array([k for k, _ in weights], dtype=np.float64)
    w = np.array([weight for _, weight in weights])
    step = math.pi / 2.0 / _STEPS_2D
    squares = np.sin(np.outer(np.arange(_STEPS_2D + 1) * step, degrees)) ** 2
    highest = 4.0 * float(np.max((squares * w) @ squares.T))
    # |g_uu|, |g_vv| <= 8 sum w k^2 and |g_uv| <= 4 sum w k^2; both offsets are at most step/2.
    missed = 3.0 * step**2 * float(w @ degrees**2)
    return min((highest + missed) * (1.0 + 1e-12), 4.0 * float(w.sum()))


def _second_degree_l2(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Bound all of  c x_i, v T_2(x_i), x_i x_j  together by  d + c^2  (Theorem 2), or return infinity.

    With the largest weight p of a pair as unit, c and v the largest of their kinds, and d the number of
    coordinates:  L2 <= p max(D, sqrt(D^2 - D d + d^2/2 + (4 v^2 - 1/2) d)),  D = d + c^2,  for 4 v^2 >= 1/2.
    """
    largest = largest_by_kind(features, weights)
    if largest is None or largest[2, 2] == 0.0:
        return math.inf
    unit, d = largest[2, 2], len({c for feature in features for c, _ in feature.terms[0]})
    c, v = largest[1, 1] / unit, max(largest[1, 2] / unit, math.sqrt(0.125))
    total = d + c * c
    at_most = max(total**2, total**2 - total * d + d * d / 2.0 + (4.0 * v * v - 0.5) * d)
    return unit * math.sqrt(at_most) * (1.0 + 1e-12)


@dataclass(frozen=True, slots=True)
class Indicators:
    """What is public about some coordinates: `binary` ones are 0 or 1, and at most one of each `exclusive` group is 1."""

    binary: tuple[int, ...] = ()
    exclusive: tuple[tuple[int, ...], ...] = ()

    def groups(self) -> dict[int, int]:
        """Return the number of its group for each binary coordinate; one that is in none is a group of its own."""
        together = {c: number for number, group in enumerate(self.exclusive) for c in group}
        return {c: together.get(c, len(self.exclusive) + c) for c in self.binary}


def only_indicators(feature: Feature, groups: Mapping[int, int]) -> bool:
    """Whether a feature lies in [0, 1]: all of its factors are indicators."""
    return all(c in groups and k == 1 for term in feature.terms for c, k in term)


def change(terms: Weighted, groups: Mapping[int, int], plain: Plain) -> float:
    """Bound  max_{x,x'} sum w^p |phi(x) - phi(x')|^p  over rows; `plain` does so for terms without an indicator."""
    without, categories = _sorted_out(terms, groups)
    total = plain([(term, weight) for term, weight in without if term])
    for levels in categories:
        sizes = sorted((size(rest, groups) for rest in levels), reverse=True)
        total += max(sum(sizes[:2]), *(change(rest, groups, plain) for rest in levels))
    return total


def size(terms: Weighted, groups: Mapping[int, int]) -> float:
    """Bound  max_x sum w^p |phi(x)|^p  over rows."""
    without, categories = _sorted_out(terms, groups)
    return sum(weight for _, weight in without) + sum(
        max(size(rest, groups) for rest in levels) for levels in categories
    )


def _sorted_out(terms: Weighted, groups: Mapping[int, int]) -> tuple[Weighted, Iterable[list[Weighted]]]:
    """Return the terms without an indicator; and for each category, for each level, what is left of its terms.

    A term belongs to the category of its first indicator only.
    """
    without: Weighted = []
    found: dict[int, dict[int, Weighted]] = defaultdict(lambda: defaultdict(list))
    for term, weight in terms:
        indicator = next((c for c, k in term if c in groups and k == 1), None)
        if indicator is None:
            without.append((term, weight))
        else:
            rest = tuple(factor for factor in term if factor[0] != indicator)
            found[groups[indicator]][indicator].append((rest, weight))
    return without, [list(levels.values()) for levels in found.values()]


NO_INDICATORS = Indicators()


def linf_sensitivity(
    features: Sequence[Feature], weights: Sequence[int], indicators: Indicators = NO_INDICATORS
) -> int:
    """Return  max_r w_r (max phi_r - min phi_r):  w_r for features that are products of indicators, 2 w_r for others."""
    groups = indicators.groups()
    pairs = zip(features, weights, strict=True)
    return max(weight * (1 if only_indicators(feature, groups) else 2) for feature, weight in pairs)


def l1_sensitivity(
    features: Sequence[Feature], weights: Sequence[float], indicators: Indicators = NO_INDICATORS
) -> float:
    """Bound  max_{x,x'} sum_r w_r |phi_r(x) - phi_r(x')|  (docs/proofs/sensitivity.md, sections 2, 5 and 11).

    Features of one coordinate: the sum over coordinates of  max_s sum_k w_k (1 - cos k s),
    which is exact. All other features add at most 2 w_r each. The full tensor {0..t-1}^d with equal weights has
    t^(d-1) (t + m_t),  m_t = -min_s sum_{r<t} cos(r s),  which is exact too, and with any weights `weighted_tensor`. Of
    features of the levels of a category those of two levels count, or of one.
    """
    whole = full_tensor(features, weights)
    if whole is None:
        whole = min(values_l1(features, weights), weighted_tensor(features, weights))
    return min(whole, _marked_l1(tuple(features), tuple(weights), indicators)) if indicators.binary else whole


def l2_sensitivity(
    features: Sequence[Feature], weights: Sequence[float], indicators: Indicators = NO_INDICATORS
) -> float:
    """Bound  max_{x,x'} sqrt(sum_r w_r^2 (phi_r(x) - phi_r(x'))^2)  (docs/proofs/sensitivity.md, sections 3, 6 and 11).

    Features of one coordinate: the root of the sum over coordinates of
    max_{u,v} 4 sum_k w_k^2 sin^2(k u) sin^2(k v),  which is exact. All others add at most 4 w_r^2
    under the root, and where all features have degree at most 2 the bound of Theorem 2 is used if smaller; of a full tensor
    `weighted_tensor`. Of features of the levels of a category those of two levels count, or of one.
    """
    tensor = math.sqrt(2.0 * weighted_tensor(features, [w * w for w in weights]))
    general = min(values_l2(features, weights), tensor)
    return min(general, _marked_l2(tuple(features), tuple(weights), indicators)) if indicators.binary else general


# A measurement is asked for its sensitivity many times, and two-way tables have thousands of features.
@functools.lru_cache(maxsize=32)
def _marked_l1(features: tuple[Feature, ...], weights: tuple[float, ...], indicators: Indicators) -> float:
    values, marked, pooled = _apart(features, weights, indicators)
    moved = change(marked, indicators.groups(), lambda terms: values_l1(*_features(terms)))
    return (values_l1(*values) + moved + pooled) * (1.0 + 1e-12)


@functools.lru_cache(maxsize=32)
def _marked_l2(features: tuple[Feature, ...], weights: tuple[float, ...], indicators: Indicators) -> float:
    values, marked, pooled = _apart(features, [w * w for w in weights], indicators)
    moved = change(marked, indicators.groups(), lambda terms: squares_of_values(*_features(terms)))
    plain = values_l2(values[0], [math.sqrt(w) for w in values[1]])
    return math.sqrt(plain**2 + moved + pooled) * (1.0 + 1e-12)


def _apart(
    features: Sequence[Feature], weights: Sequence[float], indicators: Indicators
) -> tuple[tuple[list[Feature], list[float]], Weighted, float]:
    """Return features without indicators and their weights, single terms with indicators, and weights of their pools."""
    groups = indicators.groups()
    values: tuple[list[Feature], list[float]] = ([], [])
    marked: Weighted = []
    pools = []
    for feature, weight in zip(features, weights, strict=True):
        if not feature.pooled and any(c in groups and k == 1 for c, k in feature.terms[0]):
            marked.append((feature.terms[0], weight))
        elif feature.pooled and only_indicators(feature, groups):
            pools.append(weight)
        else:
            values[0].append(feature)
            values[1].append(weight)
    return values, marked, math.fsum(pools)


def _features(terms: Weighted) -> tuple[list[Feature], list[float]]:
    return [Feature((term,)) for term, _ in terms], [weight for _, weight in terms]


def clipped_l2(features: Sequence[Feature], weights: Sequence[float], *, radius: float) -> float:
    """Bound the L2 sensitivity for rows of length at most `radius` (docs/proofs/sensitivity.md, section 9).

    Features c y_i, v T_2(y_i) with 4 v^2 <= p^2/2, and p y_i y_j:  p radius^2 + c^2/p.  Infinity for others.
    """
    largest = largest_by_kind(features, weights)
    if largest is None or largest[2, 2] == 0.0:
        return math.inf
    pair, c, v = largest[2, 2], largest[1, 1], largest[1, 2]
    if 4.0 * v * v > pair * pair / 2.0:
        return math.inf
    return (pair * radius * radius + c * c / pair) * (1.0 + 1e-9)


def clipped_nuclear(features: Sequence[Feature], weights: Sequence[int], *, radius: float, together: int) -> int:
    """Bound how far `together` rows of length at most `radius` move `matrix_of` the floors of all sums, in nuclear norm.

    Features c y_i, v T_2(y_i) and p y_i y_j:  2 (p radius^2 + c^2/p) + 2 radius^2 |p - 2 sqrt(2) v|  for each row, and the
    floors of d (d+3)/2 sums:  sqrt(d+1)  times the Frobenius norm of their matrix (docs/proofs/wishart-mechanism.md).
    """
    d = 1 + max(c for feature in features for c, _ in feature.terms[0])
    kinds = {(len(f.terms[0]), f.degree): weight for f, weight in zip(features, weights, strict=True)}
    if tuple(features) != total_degree(2, d) or list(weights) != [kinds[len(f.terms[0]), f.degree] for f in features]:
        raise PlanError("Wishart noise is for all means, squares and products of columns, each kind with one weight.")
    c, square = kinds[1, 1], min(radius * radius, d)
    diagonal = math.sqrt(8.0) * kinds[1, 2]
    p = kinds.get((2, 2), diagonal)
    row = 2.0 * (p * square + c * c / p + square * abs(p - diagonal))
    floors = math.sqrt(2.0 * len(features) * (d + 1))
    return math.ceil((row * together + floors) * (1.0 + 2e-9))


def matrix_of(sums: Array) -> Array:
    """Return the symmetric matrices of which lines of means, squares and products are the upper triangle.

    The first entry, which is known, is 0; diagonals are multiplied by sqrt(2), so T_2 of weight p / (2 sqrt 2) is p y_i^2.
    """
    lines = columns_of_products(sums.shape[-1]) + 1
    i, j = (part[1:] for part in np.triu_indices(lines))
    found = np.zeros((*sums.shape[:-1], lines, lines))
    found[..., i, j] = sums * np.where(i == j, math.sqrt(2.0), 1.0)
    return found + np.swapaxes(np.triu(found, 1), -1, -2)


def length_of(moves: Array, norm: str) -> Array:
    """Return how long each line of moves is, in the norm of a charge."""
    if norm == "nuclear":
        return np.abs(np.linalg.eigvalsh(matrix_of(moves))).sum(axis=-1)
    return np.asarray(np.linalg.norm(moves, ord={"linf": np.inf, "l1": 1, "l2": 2}[norm], axis=-1))


def clipped_l1(features: Sequence[Feature], weights: Sequence[float], *, radius: float) -> float:
    """Bound the L1 sensitivity for rows of length at most `radius` (docs/proofs/sensitivity.md, section 10).

    By Cauchy and Schwarz  sum w |phi - phi'| <= sqrt(sum (w/u)^2) L2(u)  for all weights u, here those of section 9:

        sqrt(sum_means w^2/c^2 + sum_squares 8 w^2 + sum_pairs w^2) (radius^2 + c^2),   the least over c
    """
    largest = largest_by_kind(features, weights)
    if largest is None or largest[2, 2] == 0.0:
        return math.inf
    means = others = 0.0
    for feature, weight in zip(features, weights, strict=True):
        if feature.degree == 1:
            means += weight * weight
        else:
            others += weight * weight * (8.0 if len(feature.terms[0]) == 1 else 1.0)
    square = radius * radius
    tried = [square * 2.0 ** (-step / 4.0) for step in range(-8, 60)] if means else [0.0]
    return min(math.sqrt(means / c + others if means else others) * (square + c) for c in tried) * (1.0 + 1e-9)


def hat_l1(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Return the L1 sensitivity of weighted soft counts; `groups` has the category of each indicator."""
    return math.fsum(_two_largest(features, weights, groups)) * (1.0 + 1e-12)


def hat_l2(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Return the L2 sensitivity of weighted soft counts; `groups` has the category of each indicator."""
    return math.sqrt(math.fsum(_two_largest(features, [w * w for w in weights], groups))) * (1.0 + 1e-12)


def hat_cosines_size(features: Sequence[Feature], weights: Sequence[float], *, counts: int, power: int) -> float:
    """Return the most that a row makes of cosines of the soft counts of one coordinate:  max sum |w phi|^p."""
    own = sorted((feature.terms[0][0][1], weight) for feature, weight in zip(features, weights, strict=True))
    return _between_counts(tuple(own), counts, power)[1]


def hat_cosines_l1(
    features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int], *, counts: int
) -> float:
    """Return the L1 sensitivity of weighted cosines of so many soft counts; `groups` has the category of each indicator."""
    return _of_counts(features, weights, groups, counts=counts, power=1) * (1.0 + 1e-12)


def hat_cosines_l2(
    features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int], *, counts: int
) -> float:
    """Return the L2 sensitivity of weighted cosines of so many soft counts; `groups` has the category of each indicator."""
    return math.sqrt(_of_counts(features, weights, groups, counts=counts, power=2)) * (1.0 + 1e-12)


def _of_counts(
    features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int], *, counts: int, power: int
) -> float:
    """Bound  max sum |w phi(x) - w phi(x')|^p,  p the power: of each value between two counts, of a category two levels."""
    columns: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for feature, weight in zip(features, weights, strict=True):
        ((coordinate, number),) = feature.terms[0]
        columns[coordinate].append((number, weight))
    levels: dict[int, list[float]] = defaultdict(list)
    moved = []
    for coordinate, own in columns.items():
        apart, largest = _between_counts(tuple(sorted(own)), counts, power)
        if coordinate in groups:
            levels[groups[coordinate]].append(largest)
        else:
            moved.append(apart)
    return math.fsum(moved + [size for category in levels.values() for size in sorted(category)[-2:]])


@functools.lru_cache(maxsize=256)
def _between_counts(own: tuple[tuple[int, float], ...], counts: int, power: int) -> tuple[float, float]:
    """Return the most that a row moves from one count to another, and the most that it adds to a single one."""
    numbers = np.array([number for number, _ in own]) - 1
    adds = np.array([weight for _, weight in own])[:, None] * (cosine_map(counts)[numbers] / LATTICE)
    apart = max(float((np.abs(adds - one[:, None]) ** power).sum(axis=0).max()) for one in adds.T)
    return apart, float((np.abs(adds) ** power).sum(axis=0).max())


def _two_largest(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> list[float]:
    values: dict[int, list[float]] = defaultdict(list)
    levels: dict[int, dict[int, float]] = defaultdict(dict)
    for feature, weight in zip(features, weights, strict=True):
        ((coordinate, _),) = feature.terms[0]
        if coordinate in groups:
            category = levels[groups[coordinate]]
            category[coordinate] = max(weight, category.get(coordinate, 0.0))
        else:
            values[coordinate].append(weight)
    apart = [*values.values(), *(list(category.values()) for category in levels.values())]
    return [weight for column in apart for weight in sorted(column)[-2:]]
