"""Bounds for features of coordinates of which nothing is known but that they lie in [-1, 1]."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.basis import Feature

# Steps of the grids on which trigonometric sums are maximised. What a grid can miss is bounded by second
# derivatives and added, so the result is an upper bound and not an estimate.
_STEPS_1D = 20_000
_STEPS_2D = 1_500


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
    if any(feature.pooled for feature in features) or len(set(weights)) != 1 or len(set(features)) != len(features):
        return None
    d = 1 + max(c for feature in features for c, _ in feature.terms[0])
    t = 1 + max(k for feature in features for _, k in feature.terms[0])
    if len(features) != t**d - 1:
        return None
    # sum_{r<t} (1 - cos r s) = t - D(s), so its maximum over s is t + m_t.
    one = _largest_l1(tuple((k, 1.0) for k in range(1, t)))
    return float(weights[0]) * t ** (d - 1) * one * (1.0 + 1e-12)


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
