"""The sensitivity of weighted features in each norm, from all that is known of the coordinates."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from smoothsynth.basis import Feature
from smoothsynth.sensitivity.marks import Marks, change, only_marks
from smoothsynth.sensitivity.values import full_tensor, squares_of_values, values_l1, values_l2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.sensitivity.marks import Weighted

NO_MARKS = Marks()


def linf_sensitivity(features: Sequence[Feature], weights: Sequence[int], marks: Marks = NO_MARKS) -> int:
    """Return  max_r w_r (max phi_r - min phi_r):  w_r for features that are products of marks, 2 w_r for others."""
    groups = marks.groups()
    pairs = zip(features, weights, strict=True)
    return max(weight * (1 if only_marks(feature, groups) else 2) for feature, weight in pairs)


def l1_sensitivity(features: Sequence[Feature], weights: Sequence[float], marks: Marks = NO_MARKS) -> float:
    """Bound  max_{x,x'} sum_r w_r |phi_r(x) - phi_r(x')|  (docs/proofs/sensitivity.md, sections 2, 5 and 11).

    Features of one coordinate: the sum over coordinates of  max_s sum_k w_k (1 - cos k s),
    which is exact. All other features add at most 2 w_r each. The full tensor {0..t-1}^d with equal weights has
    t^(d-1) (t + m_t),  m_t = -min_s sum_{r<t} cos(r s),  which is exact too. Of features of the levels of a
    category those of two levels count, or of one.
    """
    whole = full_tensor(features, weights)
    general = values_l1(features, weights) if whole is None else whole
    return min(general, _marked_l1(tuple(features), tuple(weights), marks)) if marks.binary else general


def l2_sensitivity(features: Sequence[Feature], weights: Sequence[float], marks: Marks = NO_MARKS) -> float:
    """Bound  max_{x,x'} sqrt(sum_r w_r^2 (phi_r(x) - phi_r(x'))^2)  (docs/proofs/sensitivity.md, sections 3, 6 and 11).

    Features of one coordinate: the root of the sum over coordinates of
    max_{u,v} 4 sum_k w_k^2 sin^2(k u) sin^2(k v),  which is exact. All others add at most 4 w_r^2
    under the root, and where all features have degree at most 2 the bound of Theorem 2 is used if smaller. Of features of the
    levels of a category those of two levels count, or of one.
    """
    general = values_l2(features, weights)
    return min(general, _marked_l2(tuple(features), tuple(weights), marks)) if marks.binary else general


# A measurement is asked for its sensitivity many times, and two-way tables have thousands of features.
@functools.lru_cache(maxsize=32)
def _marked_l1(features: tuple[Feature, ...], weights: tuple[float, ...], marks: Marks) -> float:
    values, marked, pooled = _apart(features, weights, marks)
    moved = change(marked, marks.groups(), lambda terms: values_l1(*_features(terms)))
    return (values_l1(*values) + moved + pooled) * (1.0 + 1e-12)


@functools.lru_cache(maxsize=32)
def _marked_l2(features: tuple[Feature, ...], weights: tuple[float, ...], marks: Marks) -> float:
    values, marked, pooled = _apart(features, [w * w for w in weights], marks)
    moved = change(marked, marks.groups(), lambda terms: squares_of_values(*_features(terms)))
    plain = values_l2(values[0], [math.sqrt(w) for w in values[1]])
    return math.sqrt(plain**2 + moved + pooled) * (1.0 + 1e-12)


def _apart(
    features: Sequence[Feature], weights: Sequence[float], marks: Marks
) -> tuple[tuple[list[Feature], list[float]], Weighted, float]:
    """Return features without marks and their weights, single terms with marks, and the weights of pools of marks."""
    groups = marks.groups()
    values: tuple[list[Feature], list[float]] = ([], [])
    marked: Weighted = []
    pools = []
    for feature, weight in zip(features, weights, strict=True):
        if not feature.pooled and any(c in groups and k == 1 for c, k in feature.terms[0]):
            marked.append((feature.terms[0], weight))
        elif feature.pooled and only_marks(feature, groups):
            pools.append(weight)
        else:
            values[0].append(feature)
            values[1].append(weight)
    return values, marked, math.fsum(pools)


def _features(terms: Weighted) -> tuple[list[Feature], list[float]]:
    return [Feature((term,)) for term, _ in terms], [weight for _, weight in terms]
