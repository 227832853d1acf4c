"""Bounds for soft counts: those of a coordinate are at least 0 and together 1 (docs/proofs/sensitivity.md, section 12).

A convex function of a row's counts is largest at a corner, where one of them is 1. So of each coordinate two counts:

    L1 = sum over coordinates of the two largest w,      L2^2 = sum over coordinates of the two largest w^2

which is attained by two rows in the middle of those counts. Of a coordinate with one measured count that one moves by w.
Counts of a mark that are all 0 where the mark is 0 move only if it is 1 in one of two rows. So the levels of a category are
together like one coordinate, each of them with its largest w.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.basis import Feature


def soft_counts_l1(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Return the L1 sensitivity of weighted soft counts; `groups` has the category of each mark, as `Marks.groups`."""
    return math.fsum(_two_largest(features, weights, groups)) * (1.0 + 1e-12)


def soft_counts_l2(features: Sequence[Feature], weights: Sequence[float], groups: Mapping[int, int]) -> float:
    """Return the L2 sensitivity of weighted soft counts; `groups` has the category of each mark, as `Marks.groups`."""
    return math.sqrt(math.fsum(_two_largest(features, [w * w for w in weights], groups))) * (1.0 + 1e-12)


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
