"""A view of rows (smoothsynth.queries.transformation), in whole blocks: the same whole numbers, faster.

With X' = X + S + 2 (S + 128) i for coordinate i, the piece of the chain that X lies on is number  X' >> 8  of all
pieces of all coordinates, and on it the bent value is a straight line in X':

    y = floor(rise X' + start)      rise = (knot_{j+1} - knot_j) / 256,   start = knot_j - 256 j' rise

with j' the number of the piece. All of it is exact in doubles: |rise| <= 2^9 with 8 bits after the point, X' < 2^17 (d + 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import LATTICE, WAVES, coordinate_of, waves_of
from smoothsynth.queries.transformation import KNOTS, PIECE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.transformation import View

_SHIFT = PIECE.bit_length() - 1


def read_for(view: View | None, coordinates: Sequence[int]) -> list[int]:
    """Return the coordinates of a row that those which are seen through a view, if there is one, are made of."""
    if view is None or not view.waves:
        return list(coordinates)
    return sorted({coordinate_of(c) for c in coordinates})


class Look:
    """A view, ready for chunks of lattice values of some coordinates (coordinates x width). One thread only."""

    __slots__ = ("_held", "_offsets", "_pieces", "_rises", "_starts", "_view", "_waves")

    def __init__(self, view: View, coordinates: Sequence[int], width: int) -> None:
        self._view = view
        if view.waves:
            read = read_for(view, coordinates)
            self._waves = [WAVES * read.index(coordinate_of(c)) + c % WAVES for c in coordinates]
            coordinates = read
        knots = view.knots[list(coordinates)].astype(np.float64)
        # The last knot has a piece of its own, of one point.
        rises = np.diff(knots, axis=1, append=knots[:, -1:]) / PIECE
        numbers = np.arange(rises.size, dtype=np.float64).reshape(rises.shape)
        self._rises, self._starts = rises.ravel(), (knots - PIECE * numbers * rises).ravel()
        self._offsets = (LATTICE + KNOTS * PIECE * np.arange(len(knots), dtype=np.float64))[:, None]
        self._held, self._pieces = np.empty((len(knots), width)), np.empty((len(knots), width), dtype=np.intp)

    def at(self, lattice: NDArray[np.float64], seen: NDArray[np.float64]) -> None:
        """Write a chunk of lattice values as it is seen; they may be the same array, but for lengths and waves."""
        if self._view.waves:
            self._bend(lattice)
            np.take(waves_of(lattice), self._waves, axis=0, out=seen)
            return
        if self._view.pooled:
            seen[0] = self._view.pool(lattice)
        self._bend(seen)
        self._view.shorten(seen)

    def _bend(self, x: NDArray[np.float64]) -> None:
        np.add(x, self._offsets, out=x)
        np.copyto(self._pieces, x, casting="unsafe")
        np.right_shift(self._pieces, _SHIFT, out=self._pieces)
        # With mode="raise", numpy would fill a copy first.
        np.multiply(x, np.take(self._rises, self._pieces, out=self._held, mode="clip"), out=x)
        np.add(x, np.take(self._starts, self._pieces, out=self._held, mode="clip"), out=x)
        np.floor(x, out=x)
