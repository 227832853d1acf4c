"""Bounds for rows that a view keeps short."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.sensitivity.values import largest_by_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.basis import Feature


def short_rows_l2(features: Sequence[Feature], weights: Sequence[float], *, radius: float) -> float:
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


def short_rows_l1(features: Sequence[Feature], weights: Sequence[float], *, radius: float) -> float:
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
