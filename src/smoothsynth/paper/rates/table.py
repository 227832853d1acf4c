"""The public table on which the rates are measured: rough at every scale, so that no mechanism is lucky.

Each row is one of
    1/10   the corner (1, .., 1): a bound, where clipped values gather
    1/10   one point inside, off every grid
    4/10   columns independent, each of the singular law below
    4/10   all columns equal, of that law

The law of theta = arccos x is a mixture of Riesz products  prod_i (1 + cos(3^i q theta)),  q = 1, 2, 4, 5, 7. Its
Chebyshev moments do not tend to 0, so moments up to a degree say nothing of those above: what a mechanism leaves
unmeasured shows as an error of the size that the theorems allow. (A few points alone would not do: weights that are
not negative find them from a few moments.) Angles are whole multiples of a step, which makes the moments exact.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.paper.rates.cosine import CosineGrid
from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

STEPS = 2**20
_BATCH = 4096
_LOWEST = (1, 2, 4, 5, 7)
_INSIDE = int(0.3819660113 * STEPS)


@dataclass(frozen=True, slots=True, eq=False)
class StudyTable:
    """Rows as whole angles: column i of a row is cos(pi (angle_i + 1/2) / STEPS)."""

    angles: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.angles)

    @property
    def dimensions(self) -> int:
        """The number of columns."""
        return int(self.angles.shape[1])

    @property
    def points(self) -> Array:
        """The rows as points of the cube."""
        points: Array = np.cos(np.pi / STEPS * (self.angles + 0.5))
        return points

    def moments(self, degrees: int) -> Array:
        """Return the mean over rows of every product of T_0 .. T_{degrees-1}, one axis for each column."""
        if self.dimensions == 1:
            counts = np.bincount(self.angles[:, 0], minlength=STEPS)
            return CosineGrid(degrees, STEPS, 1).moments(counts / self.rows)
        total = np.zeros((degrees,) * self.dimensions)
        points = self.points
        for first in range(0, self.rows, _BATCH):
            table = chebyshev(points[first : first + _BATCH], degrees - 1)
            total += _product_sums([np.ascontiguousarray(table[:, i]) for i in range(self.dimensions)])
        return total / self.rows


def draw_table(rows: int, dimensions: int, *, generator: np.random.Generator) -> StudyTable:
    """Draw independent rows of the law above."""
    angles = np.searchsorted(_law(), generator.random((rows, dimensions)))
    kind = generator.random(rows)
    angles[kind < 0.6] = angles[kind < 0.6, :1]
    angles[kind < 0.2] = _INSIDE
    angles[kind < 0.1] = 0
    return StudyTable(angles)


def _product_sums(factors: list[Array]) -> Array:
    """Sum the products of one row of each of two or more factors over their last axis, for all combinations."""
    first, *others = factors
    if len(others) == 1:
        product: Array = np.dot(first, others[0].T)
        return product
    return np.stack([_product_sums([row * others[0], *others[1:]]) for row in first])


@functools.lru_cache(maxsize=1)
def _law() -> Array:
    """Return the cumulative law of the angle, without its last entry, which is 1."""
    theta = np.pi / STEPS * (np.arange(STEPS) + 0.5)
    density = np.zeros(STEPS)
    for lowest in _LOWEST:
        product = np.ones(STEPS)
        frequency = lowest
        # Up to a frequency with 16 steps a wave, so that the sums over steps are those of the waves.
        while frequency < STEPS / 16:
            product *= 1.0 + np.cos(frequency * theta)
            frequency *= 3
        density += product / product.sum()
    cumulative: Array = np.cumsum(density / density.sum())[:-1]
    return cumulative
