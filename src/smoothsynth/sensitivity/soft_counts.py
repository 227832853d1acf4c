"""Bounds for soft counts: those of a coordinate are at least 0 and together 1 (docs/proofs/sensitivity.md, section 12).

A convex function of a row's counts is largest at a corner, where one of them is 1. So of each coordinate two counts:

    L1 = sum over coordinates of the two largest w,      L2^2 = sum over coordinates of the two largest w^2

which is attained by two rows in the middle of those counts. Of a coordinate with one measured count that one moves by w.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smoothsynth.basis import Feature


def soft_counts_l1(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Return the L1 sensitivity of weighted soft counts."""
    return math.fsum(_two_largest(features, weights)) * (1.0 + 1e-12)


def soft_counts_l2(features: Sequence[Feature], weights: Sequence[float]) -> float:
    """Return the L2 sensitivity of weighted soft counts."""
    return math.sqrt(math.fsum(_two_largest(features, [w * w for w in weights]))) * (1.0 + 1e-12)


def _two_largest(features: Sequence[Feature], weights: Iterable[float]) -> list[float]:
    columns: dict[int, list[float]] = defaultdict(list)
    for feature, weight in zip(features, weights, strict=True):
        ((coordinate, _),) = feature.terms[0]
        columns[coordinate].append(weight)
    return [weight for column in columns.values() for weight in sorted(column)[-2:]]
