"""Bounds for waves and their products (docs/proofs/sensitivity.md, section 13).

The two waves of a coordinate are a point of the unit disc. Levels of a category, of which at most one is 1 in a row, are
together a point of the unit ball. Of d such points the squared move of all products of two, weighted by p, and of all their
coordinates, weighted by c, is convex in each, so it is largest on spheres. There, with a_i the cosine of the angle by which
point i is moved, and s their sum,

    p^2 sum_{i<j} 2 (1 - a_i a_j) + c^2 sum 2 (1 - a_i)
        =  p^2 (d (d - 1) - s^2 + sum a_i^2) + 2 c^2 (d - s)  <=  (p d + c^2/p)^2
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
    """Bound the L2 sensitivity by  p d + c^2/p,  or by  2 c sqrt(d)  without products; p and c are the largest weights.

    `groups` has the category of each mark whose measured waves are 0 where the mark is 0, as `Marks.groups`.
    """
    largest = {1: 0.0, 2: 0.0}
    for feature, weight in zip(features, weights, strict=True):
        largest[feature.degree] = max(largest[feature.degree], weight)
    used = {coordinate_of(wave) for feature in features for wave, _ in feature.terms[0]}
    d = len(used - set(groups)) + len({groups[c] for c in used & set(groups)})
    c, p = largest[1], largest[2]
    return (p * d + c * c / p if p else 2.0 * c * math.sqrt(d)) * (1.0 + 1e-12)
