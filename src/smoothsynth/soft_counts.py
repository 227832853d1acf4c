"""Soft counts: B hat functions of one coordinate, evenly spread, at least 0 and together 1, in whole numbers.

With Y in [-S, S] a lattice value (smoothsynth.lattice),

    p = (Y + S) B - S, kept within [0, 2 S (B - 1)],      i = p // 2S, at most B - 2,      f = (p - 2 S i) // 2

the i-th count (from 0) of the row is  S - f,  the next one is  f,  and all others are 0. So a row adds S to the counts of a
column, whatever their number is, and replacing it moves them by at most 2 S (docs/proofs/sensitivity.md, section 12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.lattice import LATTICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.basis import Feature

    Array = NDArray[np.float64]

FEWEST_COUNTS, MOST_COUNTS = 2, 256


def split(lattice: NDArray[np.int64], counts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each lattice value the first count that it adds to, from 0, and what it adds to the next one."""
    places = np.clip((lattice + LATTICE) * counts - LATTICE, 0, 2 * LATTICE * (counts - 1))
    first = np.minimum(places // (2 * LATTICE), counts - 2)
    return first, (places - 2 * LATTICE * first) // 2


def count_values(coordinate: Array, counts: int) -> Array:
    """Return all counts of points of one coordinate, as (counts, points), in units of a row."""
    first, beyond = split(np.rint(coordinate * LATTICE).astype(np.int64), counts)
    values, rows = np.zeros((counts, len(coordinate))), np.arange(len(coordinate))
    values[first, rows], values[first + 1, rows] = (LATTICE - beyond) / LATTICE, beyond / LATTICE
    return values


def evaluate_counts(features: Sequence[Feature], points: Array, counts: int) -> Array:
    """Return the (points, features) matrix of soft counts; a factor (c, j) is the j-th count of coordinate c."""
    known: dict[int, Array] = {}
    result = np.empty((len(points), len(features)))
    for column, feature in enumerate(features):
        ((coordinate, number),) = feature.terms[0]
        if coordinate not in known:
            known[coordinate] = count_values(points[:, coordinate], counts)
        result[:, column] = known[coordinate][number - 1]
    return result


def check_counts(features: Sequence[Feature], counts: int) -> None:
    """Refuse features that are not different soft counts of single coordinates."""
    terms = [feature.terms[0] for feature in features]
    single = all(len(feature.terms) == 1 and len(feature.terms[0]) == 1 for feature in features)
    if not single or max(term[0][1] for term in terms) > counts or len(set(terms)) < len(terms):
        raise PlanError(f"A view of {counts} soft counts needs different features, each one count of one coordinate.")
