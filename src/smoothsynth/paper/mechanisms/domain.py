"""A finite domain: the grid of cell centres that stands in for the cube [-1, 1]^d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import DataError, PlanError
from smoothsynth.fit.candidates import grid

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MOST_CELLS = 1_000_000


@dataclass(frozen=True, slots=True)
class Grid:
    """The points a_k = (2k + 1 - N)/N, k = 0..N-1, in each of d coordinates (Algorithm 1, notations)."""

    levels: int
    dimensions: int

    def __post_init__(self) -> None:
        if self.levels < 1 or self.dimensions < 1:
            raise PlanError(
                f"levels and dimensions must be at least 1; found {self.levels} and {self.dimensions}. "
                "Correct the grid."
            )
        if self.levels**self.dimensions > MOST_CELLS:
            raise PlanError(
                f"a grid may have at most {MOST_CELLS:,} points; {self.levels}^{self.dimensions} is more. "
                "Take fewer levels or columns."
            )

    @property
    def size(self) -> int:
        """The number of points N^d."""
        return int(self.levels**self.dimensions)

    def points(self) -> NDArray[np.float64]:
        """Return all points, shape (N^d, d), the last coordinate fastest."""
        return grid(self.levels, self.dimensions).points

    def cells(self, points: ArrayLike) -> NDArray[np.int64]:
        """Return the number of the nearest grid point of each row (ties go up, for every row alike)."""
        rows = np.asarray(points, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            raise DataError(
                f"points must have shape (rows, {self.dimensions}); found {rows.shape}. Pass these columns."
            )
        levels = np.floor((np.clip(rows, -1.0, 1.0) + 1.0) * self.levels / 2.0).astype(np.int64)
        levels = np.minimum(levels, self.levels - 1)
        strides = self.levels ** np.arange(self.dimensions - 1, -1, -1, dtype=np.int64)
        result: NDArray[np.int64] = levels @ strides
        return result

    def histogram(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return the share of rows at each grid point, shape (N^d,)."""
        cells = self.cells(points)
        return np.bincount(cells, minlength=self.size) / len(cells)
