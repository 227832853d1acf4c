"""Waves: two functions of one coordinate that lead it along an arc, three quarters of a circle, in whole numbers.

    angle          -135   -90   -45     0    45    90   135  degrees, at seven places evenly spread from -S to S
    low or high      -h    -S    -h     0     h     S     h
    out or in         h     0    -h    -S    -h     0     h          h = floor(S / sqrt 2)

Between places both are straight lines, rounded towards 0. So the two together never leave the disc of radius S: on that the
sensitivity of their products rests (docs/proofs/sensitivity.md, section 13).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.basis import Feature
from smoothsynth.errors import PlanError
from smoothsynth.lattice import LATTICE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

WAVES = 2
_HALF = math.isqrt(LATTICE * LATTICE // 2)
_PIECES = 6
PLACES = np.array(
    [
        [-_HALF, -LATTICE, -_HALF, 0, _HALF, LATTICE, _HALF],
        [_HALF, 0, -_HALF, -LATTICE, -_HALF, 0, _HALF],
    ],
    dtype=np.float64,
)


def waves_of(lattice: Array) -> Array:
    """Return the waves of lattice values, (coordinates, rows), as (2 x coordinates, rows): those of one next to each other.

    With  (Y + S) 3 = S i + f  it is  trunc((w_i (S - f) + w_{i+1} f) / S):  whole numbers below 2^33, exact in doubles.
    """
    along = (lattice + LATTICE) * (_PIECES / 2.0)
    piece = np.minimum(along // LATTICE, _PIECES - 1.0)
    inside = along - piece * LATTICE
    start = piece.astype(np.intp)
    found = np.empty((len(lattice), WAVES, lattice.shape[1]))
    for number, places in enumerate(PLACES):
        risen = np.diff(places)[start] * inside
        risen /= LATTICE
        risen += places[start]
        np.trunc(risen, out=found[:, number])
    return found.reshape(-1, lattice.shape[1])


def coordinate_of(wave: int) -> int:
    """Say of which coordinate a wave is: those of coordinate c are numbers 2 c and 2 c + 1."""
    return wave // WAVES


def by_coordinates(feature: Feature) -> Feature:
    """Return a feature of waves with factors (coordinate, 1 or 2) in place of (wave, 1)."""
    return Feature(tuple(tuple((wave // WAVES, wave % WAVES + 1) for wave, _ in term) for term in feature.terms))


def check_waves(features: Sequence[Feature]) -> None:
    """Refuse features that are not different waves, or products of two waves of two coordinates."""
    terms = [feature.terms[0] for feature in features]
    allowed = all(
        len(feature.terms) == 1
        and {degree for _, degree in feature.terms[0]} == {1}
        and len({coordinate_of(wave) for wave, _ in feature.terms[0]}) == len(feature.terms[0]) <= 2
        for feature in features
    )
    if not allowed or len(set(terms)) < len(terms):
        raise PlanError(
            "A view of waves needs different features, each a wave or a product of waves of two coordinates."
        )
