"""An interval that holds for every table: for a function of one column, from the noise and the size of what is unseen.

    private mean of f  =  c . bhat - c . (bhat - b) + private mean of g,   g = f - c . phi,   min g <= its mean <= max g

for every choice of c (docs/proofs/answers.md); nothing is assumed of the private rows but that they keep to their bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.answer.interval import heavy_quantile
from smoothsynth.answer.knowledge import single_features
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.answer.knowledge import Knowledge

    Array = NDArray[np.float64]

# Places at which a function of one column is looked at, the values themselves if a column has no more.
GRID = 1025
# How dear noise is against what is left unseen, tried in turn.
_PRICES = (1e-4, 1e-2, 1.0, 1e2, 1e4)


@dataclass(frozen=True, slots=True)
class Bounded:
    """An interval, and the half widths that noise and the unseen rest take in it."""

    centre: float
    noise: float
    unseen: float


def bounded(knowledge: Knowledge, column: int, function: Callable[[Array], Array], *, confidence: float) -> Bounded:
    """Return the narrowest interval found for the mean of a function (given at unit places) of one column."""
    places = unit_places(knowledge, column)
    values = function(places)
    found = list(single_features(knowledge.stages, column, places))
    matrix = np.stack([v for v, _, _ in found] or [np.zeros(len(places))], axis=1)
    variances = np.array([variance for _, variance, _ in found] or [1.0])
    released = np.array([value for _, _, value in found] or [0.0])
    return min(
        (_interval(values, matrix, variances, released, price=price, confidence=confidence) for price in _PRICES),
        key=lambda one: one.noise + one.unseen,
    )


def unit_places(knowledge: Knowledge, column: int) -> Array:
    """Return the values that a column can take, or a fine grid of them, in units of the cube."""
    name, _ = knowledge.release.schema.owners[column]
    described = knowledge.release.schema.columns[name]
    levels = None if isinstance(described, Category) else described.levels(GRID)
    return np.linspace(-1.0, 1.0, GRID) if levels is None else levels


def _interval(
    values: Array, matrix: Array, variances: Array, released: Array, *, price: float, confidence: float
) -> Bounded:
    means = matrix.mean(axis=0)
    centred = matrix - means
    gram = centred.T @ centred / len(values) + price * np.diag(variances)
    weights = np.linalg.solve(gram, centred.T @ (values - values.mean()) / len(values))
    rest = values - matrix @ weights
    noise = heavy_quantile(confidence) * float(np.sqrt(weights**2 @ variances))
    middle, unseen = (rest.max() + rest.min()) / 2.0, (rest.max() - rest.min()) / 2.0
    return Bounded(float(middle + weights @ released), noise, float(unseen))
