"""Bounds for waves and their products (docs/proofs/sensitivity.md, section 13).

The two waves of a coordinate are a point of the unit disc. Levels of a category, of which at most one is 1 in a row, are
together a point of the unit ball. Of d such points the squared move of all products of two, weighted by p, and of all their
coordinates, weighted by c, is convex in each, so it is largest on spheres. There, with a_i the cosine of the angle by which
point i is moved, and s their sum,

    p^2 sum_{i<j} 2 (1 - a_i a_j) + c^2 sum 2 (1 - a_i)
        =  p^2 (d (d - 1) - s^2 + sum a_i^2) + 2 c^2 (d - s)  <=  (p d + c^2/p)^2

No term of the first line is larger than 4, so of k pairs it is at most  4 p^2 k + 4 c^2 d  too: less where pairs are few.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.waves import coordinate_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.basis import Feature


def waves_l1(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Bound the L1 sensitivity by  |w|_2 L2(1),  L2(1) that of the same features without weights (Cauchy and Schwarz)."""
    return math.hypot(*weights) * waves_l2(features, [1.0] * len(features), groups)


def waves_l2(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Bound the L2 sensitivity by the smaller of  p d + c^2/p  and  2 sqrt(p^2 k + c^2 d);  p and c are the largest weights.

    d counts the columns that occur, k the pairs of them. `groups` has the category of each mark whose measured waves are 0
    where the mark is 0, as `Marks.groups`.
    """
    largest = {1: 0.0, 2: 0.0}
    for feature, weight in zip(features, weights, strict=True):
        largest[feature.degree] = max(largest[feature.degree], weight)
    # Categories are numbered apart from coordinates.
    columns = [
        frozenset((c in groups, groups.get(c, c)) for c in (coordinate_of(wave) for wave, _ in feature.terms[0]))
        for feature in features
    ]
    d = len(frozenset().union(*columns))
    k = len({pair for pair, feature in zip(columns, features, strict=True) if feature.degree == 2})
    c, p = largest[1], largest[2]
    few = 2.0 * math.sqrt(p * p * k + c * c * d)
    return (min(few, p * d + c * c / p) if p else few) * (1.0 + 1e-12)
