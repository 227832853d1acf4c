"""Batches become blocks of lattice points, transformed as a transformation says.

From the columns of a batch to whole numbers on the lattice, in blocks that stay in the cache of a core.

A block is chunks x coordinates x width doubles: in chunks, because products of matrices with about a thousand columns
are the fastest, and of several, because few large operations let several threads of Python run side by side.

The values t_k of Chebyshev polynomials on the lattice: t_k = rint(S T_k(X / S)), kept within [-S, S].

A transformation of rows (smoothsynth.queries.transformation), in whole blocks: the same whole numbers, faster.

With X' = X + S + 2 (S + 128) i for coordinate i, the piece of the chain that X lies on is number  X' >> 8  of all
pieces of all coordinates, and on it the bent value is a straight line in X':

    y = floor(rise X' + start)      rise = (knot_{j+1} - knot_j) / 256,   start = knot_j - 256 j' rise

with j' the number of the piece. All of it is exact in doubles: |rise| <= 2^9 with 8 bits after the point, X' < 2^17 (d + 1).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.transformation import KNOTS, PIECE
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.valued import has_two_values, to_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Column, Measure


# Vector instructions load 8 doubles from an address that is a multiple of 64 bytes twice as fast as from another.
_VECTOR = 8
_BUFFER = 2**10
_MISSING_OK: Any = {"invalid": "ignore", "over": "ignore", "under": "ignore"}


def aligned(*shape: int) -> NDArray[np.float64]:
    """Return zeros that begin where vector instructions like it best."""
    size = int(np.prod(shape))
    raw = np.zeros(size + _VECTOR)
    start = -(raw.ctypes.data // raw.itemsize) % _VECTOR
    return raw[start : start + size].reshape(shape)


@contextlib.contextmanager
def quick_arithmetic() -> Iterator[None]:
    """Let numpy work on chunks in place, and be silent on missing and infinite values.

    With larger buffers numpy copies a short row together with the number it is divided by, which takes longer
    than the division.
    """
    with np.errstate(**_MISSING_OK):
        before = np.setbufsize(_BUFFER)
        try:
            yield
        finally:
            np.setbufsize(before)


class Scale:
    """From a column's own units to (value - centre), to be divided by `width`, clipped and rounded to the lattice."""

    def __init__(self, column: Measure) -> None:
        self._column = column
        lower, upper = column.bounds
        half = upper / 2 - lower / 2
        # Where the bounds land on -S and S, clipping the quotient is the same as clipping the value first:
        # rounded arithmetic is monotone. Dividing by half/S instead of half only moves an exponent.
        ends = np.rint(to_unit(np.array([lower, upper]), column) * LATTICE)
        straight = column.map is None and not has_two_values(column)
        self._quick = straight and bool(ends[0] == -LATTICE and ends[1] == LATTICE) and half > 2.0**-900
        self._centre = lower / 2 + upper / 2
        self.width = half / LATTICE if self._quick else 1.0

    def centre(self, values: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write what is to be divided by `width`."""
        if not self._quick:
            np.multiply(to_unit(values.astype(np.float64), self._column), LATTICE, out=out)
        elif values.dtype == np.float64:
            np.subtract(values, self._centre, out=out)
        else:
            np.copyto(out, values)
            np.subtract(out, self._centre, out=out)
        if self._column.nullable:
            # A missing value in a block means that its products are computed twice: too often where many are missing.
            np.copyto(out, 0.0, where=np.isnan(out))


class LevelScale:
    """From places among the levels of a category to 1 for one of the levels, 0 for all others."""

    width = 1.0 / LATTICE

    def __init__(self, level: int) -> None:
        self._level = level

    def centre(self, values: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write 0 or 1."""
        np.equal(values, self._level, out=out)


class MissingScale:
    """From a column's own units to 1 where there is no value, 0 where there is one."""

    width = 1.0 / LATTICE

    def centre(self, values: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write 0 or 1."""
        np.isnan(values, out=out)


AnyScale = Scale | LevelScale | MissingScale


def scale_of(column: Column, place: int) -> AnyScale:
    """Return the way to one coordinate of a column."""
    if isinstance(column, (Category, Intervals)):
        return LevelScale(place)
    return MissingScale() if place else Scale(column)


class Block:
    """Rows that wait for their sums: (chunks, coordinates, width) of what is to become the lattice.

    `lattice` may be part of a larger array, so that it need not be copied.
    """

    __slots__ = ("_scales", "_widths", "filled", "lattice", "rows")

    def __init__(self, lattice: NDArray[np.float64], scales: Sequence[AnyScale]) -> None:
        self.lattice, self._scales, self.filled = lattice, scales, 0
        self.rows = lattice.shape[0] * lattice.shape[2]
        self._widths = np.array([[scale.width] for scale in scales])

    def fill(self, columns: Sequence[NDArray[Any]], start: int, rows: int) -> int:
        """Take rows from `start` on, as many as there are and fit here; return how many."""
        width = self.lattice.shape[2]
        chunk, offset = divmod(self.filled, width)
        whole = min((rows - start) // width, len(self.lattice) - chunk)
        if offset == 0 and whole:
            size, shape = whole * width, (whole, width)
            targets = self.lattice[chunk : chunk + whole].swapaxes(0, 1)
        else:
            size = min(rows - start, width - offset)
            shape, targets = (1, size), self.lattice[chunk : chunk + 1, :, offset : offset + size].swapaxes(0, 1)
        for scale, column, target in zip(self._scales, columns, targets, strict=True):
            scale.centre(column[start : start + size].reshape(shape), target)
        self.filled += size
        return size

    def to_lattice(self) -> None:
        """Divide, clip and round; a missing value stays NaN."""
        x = self.lattice
        self.blank(x)
        np.divide(x, self._widths, out=x)
        np.clip(x, -LATTICE, LATTICE, out=x)
        np.rint(x, out=x)

    def place_missing(self) -> None:
        """Move missing values to the centre."""
        np.copyto(self.lattice, 0.0, where=np.isnan(self.lattice))

    def blank(self, values: NDArray[np.float64]) -> None:
        """Set to zero, in an array of the same chunks and width, what lies beyond the rows that were filled in."""
        chunk, offset = divmod(self.filled, values.shape[2])
        if chunk < len(values):
            values[chunk, :, offset:] = 0.0
            values[chunk + 1 :] = 0.0


def rising(
    x: NDArray[np.float64], reach: Sequence[int], turns: NDArray[np.float64]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield k and  S T_k = (2 X / S) S T_{k-1} - S T_{k-2}  for k = 2, 3, ..., not yet rounded.

    Coordinates are the last axis but one of x; reach[k - 1] of them have degree k. `turns` is room for four arrays.
    """
    twice, *rooms = turns
    np.multiply(x[..., : reach[1], :], 2.0 / LATTICE, out=twice)
    before, last = np.full((reach[1], 1), float(LATTICE)), x
    for degree, count in enumerate(reach[1:], start=2):
        new = np.multiply(twice[..., :count, :], last[..., :count, :], out=rooms[degree % 3][..., :count, :])
        new -= before[..., :count, :]
        yield degree, new
        before, last = last, new


def rounded(values: NDArray[np.float64], out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest whole numbers, kept within [-S, S]."""
    return np.clip(np.rint(values, out=out), -LATTICE, LATTICE, out=out)


_SHIFT = PIECE.bit_length() - 1


class BlockTransformation:
    """A transformation, ready for chunks of lattice values of some coordinates (coordinates x width). One thread only."""

    __slots__ = ("_family", "_held", "_made", "_offsets", "_pieces", "_rises", "_starts")

    def __init__(self, transformation: Transformation, coordinates: Sequence[int], width: int) -> None:
        self._family = transformation.family
        # Of families that make several coordinates of each: the numbers of those that are wanted.
        self._made: list[int] | None = None
        many = transformation.family.coordinates(1)
        if many > 1:
            read = transformation.family.read(coordinates, len(transformation.knots))
            self._made = [many * read.index(c // many) + c % many for c in coordinates]
            coordinates = read
        knots = transformation.knots[list(coordinates)].astype(np.float64)
        # The last knot has a piece of its own, of one point.
        rises = np.diff(knots, axis=1, append=knots[:, -1:]) / PIECE
        numbers = np.arange(rises.size, dtype=np.float64).reshape(rises.shape)
        self._rises, self._starts = rises.ravel(), (knots - PIECE * numbers * rises).ravel()
        self._offsets = (LATTICE + KNOTS * PIECE * np.arange(len(knots), dtype=np.float64))[:, None]
        self._held, self._pieces = np.empty((len(knots), width)), np.empty((len(knots), width), dtype=np.intp)

    def at(self, lattice: NDArray[np.float64], seen: NDArray[np.float64]) -> None:
        """Write a chunk of lattice values as it is seen; they may be the same array if the coordinates are the row's own."""
        if self._made is not None:
            self._bend(lattice)
            np.take(self._family.after(lattice), self._made, axis=0, out=seen)
            return
        if not self._family.own_coordinates:
            seen[:] = self._family.before(lattice)
        self._bend(seen)
        self._family.after(seen)

    def _bend(self, x: NDArray[np.float64]) -> None:
        np.add(x, self._offsets, out=x)
        np.copyto(self._pieces, x, casting="unsafe")
        np.right_shift(self._pieces, _SHIFT, out=self._pieces)
        # With mode="raise", numpy would fill a copy first.
        np.multiply(x, np.take(self._rises, self._pieces, out=self._held, mode="clip"), out=x)
        np.add(x, np.take(self._starts, self._pieces, out=self._held, mode="clip"), out=x)
        np.floor(x, out=x)
