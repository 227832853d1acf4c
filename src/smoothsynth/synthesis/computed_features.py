"""Features of candidates in bounded memory: listed where that is small, else computed from the points when needed.

A matrix of 10^5 candidates and 5,000 features would take 4 GB. Up to 1,000 features and MOST_LISTED bytes it is listed.
Beyond, single terms of degree at most 2 are quadratic forms (quadratic_features.py), and the others are listed while
MOST_LISTED bytes last, or else evaluated block by block in every product (evaluated_features.py). So the features take
at most MOST_LISTED bytes beside a few copies of the points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.synthesis.entropy_dual import Listed
from smoothsynth.synthesis.evaluated_features import Evaluated
from smoothsynth.synthesis.quadratic_features import Quadratic, is_quadratic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.synthesis.entropy_dual import CandidateFeatures

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]

MOST_LISTED = 2**28
# Up to so many features Newton's method forms their Hessian, for which a list is best; beyond, products decide.
_FORMED = 1000
# A listed or evaluated entry of W costs about so many multiplications inside a quadratic form.
_DEAR_ENTRY = 16


def computed_features(
    groups: Sequence[tuple[Sequence[Feature], Array]], *, first: int | None = None
) -> CandidateFeatures:
    """Return the features of candidates: of each group in turn, at the points as that group sees them.

    `first` is how many of them, in this order, to take; None for all.
    """
    groups = _leading(groups, first)
    if not groups:
        raise PlanError("there must be one feature at least; found none: pass the features of a measurement")
    count, rows = sum(len(features) for features, _ in groups), len(groups[0][1])
    if count <= _FORMED and 8 * count * rows <= MOST_LISTED:
        return _list(groups, np.empty((rows, count)))
    parts: list[CandidateFeatures] = []
    places: list[Indices] = []
    start, room = 0, MOST_LISTED
    for features, points in groups:
        for chosen, quadratic in _split(features, dimensions=points.shape[1]):
            part = _part([features[r] for r in chosen], points, quadratic=quadratic, room=room)
            room -= part.matrix.nbytes if isinstance(part, Listed) else 0
            parts.append(part)
            places.append(start + chosen)
        start += len(features)
    return parts[0] if len(parts) == 1 else Stacked(tuple(parts), tuple(places))


def _leading(
    groups: Sequence[tuple[Sequence[Feature], Array]], first: int | None
) -> list[tuple[Sequence[Feature], Array]]:
    starts = itertools.accumulate((len(features) for features, _ in groups), initial=0)
    cut = [
        (features if first is None else features[: max(0, first - start)], points)
        for start, (features, points) in zip(starts, groups, strict=False)
    ]
    return [group for group in cut if group[0]]


def _list(groups: Sequence[tuple[Sequence[Feature], Array]], matrix: Array) -> Listed:
    start = 0
    for features, points in groups:
        Evaluated.of(features, points).fill(matrix[:, start : start + len(features)])
        start += len(features)
    return Listed(matrix)


def _split(features: Sequence[Feature], *, dimensions: int) -> list[tuple[Indices, bool]]:
    """Tell the features that are better taken as quadratic forms, of d^2 coefficients together, from the others."""
    quadratic = np.array([is_quadratic(feature) for feature in features])
    if _DEAR_ENTRY * np.count_nonzero(quadratic) < dimensions**2:
        return [(np.arange(len(features)), False)]
    return [(np.flatnonzero(quadratic == flag), flag) for flag in (True, False) if flag in quadratic]


def _part(features: Sequence[Feature], points: Array, *, quadratic: bool, room: int) -> CandidateFeatures:
    if quadratic:
        return Quadratic.of(features, points)
    evaluated = Evaluated.of(features, points)
    count, moments = evaluated.shape
    return Listed(evaluated.fill(np.empty((count, moments)))) if 8 * count * moments <= room else evaluated


@dataclass(frozen=True, slots=True)
class Stacked:
    """Features side by side; `places` says which columns of W each part fills."""

    parts: tuple[CandidateFeatures, ...]
    places: tuple[Indices, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of candidates and of features."""
        return self.parts[0].shape[0], sum(map(len, self.places))

    @property
    def work(self) -> float:
        """What a product with the Hessian takes, in multiplications: each part forward and back."""
        return 2.0 * sum(part.work for part in self.parts)

    def only(self, kept: Indices) -> Stacked:
        """Return the features of some candidates."""
        return Stacked(tuple(part.only(kept) for part in self.parts), self.places)

    def values(self, kept: Indices) -> Array:
        """Return the features of some candidates, one row each."""
        values = np.empty((len(kept), self.shape[1]))
        for part, place in zip(self.parts, self.places, strict=True):
            values[:, place] = part.values(kept)
        return values

    def forward(self, multipliers: Array) -> Array:
        """Return W l, the sum over the parts."""
        scores = np.zeros(self.shape[0])
        for part, place in zip(self.parts, self.places, strict=True):
            scores += part.forward(multipliers[place])
        return scores

    def adjoint(self, weights: Array) -> Array:
        """Return W'u."""
        return self._gather([part.adjoint(weights) for part in self.parts])

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v: the scores of v over all parts, and back."""
        return self.adjoint(weights * self.forward(vector))

    def gram_diagonal(self, weights: Array) -> Array:
        """Return sum_k u_k W_kr^2 for every feature r."""
        return self._gather([part.gram_diagonal(weights) for part in self.parts])

    def _gather(self, pieces: Sequence[Array]) -> Array:
        whole = np.empty(self.shape[1])
        for piece, place in zip(pieces, self.places, strict=True):
            whole[place] = piece
        return whole
