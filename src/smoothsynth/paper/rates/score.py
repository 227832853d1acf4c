"""The error of fitted weights on a table: the dual norm of the smooth class, by the means that fit the dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.fit.candidates import grid_axis
from smoothsynth.paper.rates.dual_norm import smooth_distance
from smoothsynth.paper.rates.mechanisms import Weights
from smoothsynth.paper.rates.spline_norm import SplineNorm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.paper.rates.table import StudyTable

    Array = NDArray[np.float64]

# 2^levels cells on each axis at the finest scale: finer than every grid that is scored, and 1 or 2 million cells in all.
_LEVELS = {2: 10, 3: 7}


class Score(Protocol):
    """The error of weights on one table for queries of one smoothness."""

    def __call__(self, fitted: Weights) -> float:
        """Return the largest error over the class, or what stands for it."""
        ...


def score_for(table: StudyTable, order: int) -> Score:
    """Return the score of the dimension of the table."""
    if table.dimensions == 1:
        return _Line(np.sort(table.points[:, 0]), order)
    norm = SplineNorm(order, _LEVELS[table.dimensions])
    return _Splines(norm, norm.of_rows(table.points))


def measured_in(dimensions: int, order: int) -> str:
    """Say in which norm errors are measured."""
    if dimensions == 1:
        return "dual norm: Wasserstein-1" if order == 1 else f"dual norm, within a factor {order}"
    return "dual norm of splines"


def flat_weights(dimensions: int) -> Weights:
    """Return equal weights on a grid: what can be said without any data."""
    levels = 64
    return Weights(np.full((levels,) * dimensions, float(levels) ** -dimensions), grid_axis(levels))


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One column: the distance of `dual_norm`, from the sorted rows."""

    points: Array
    order: int

    def __call__(self, fitted: Weights) -> float:
        rank = np.argsort(fitted.axis)
        masses = np.concatenate([np.full(len(self.points), 1.0 / len(self.points)), -fitted.weights[rank]])
        return smooth_distance(np.concatenate([self.points, fitted.axis[rank]]), masses, order=self.order)


@dataclass(frozen=True, slots=True, eq=False)
class _Splines:
    """Several columns: the norm of `spline_norm`, from the rows' means of the finest splines."""

    norm: SplineNorm
    means: Array

    def __call__(self, fitted: Weights) -> float:
        return self.norm(self.means - self.norm.of_grid(fitted.weights, fitted.axis))
