"""Tables of soft cells of many rows, quickly: sums of products of what lies beyond the first cells, several in a double.

With u = 2^b the unit of a factor, a row that is in cell i with the weight u - f and in the next one with f adds to a table
of two columns

    (u - f)(u - g)  to (i, j),    f (u - g)  to (i + 1, j),    (u - f) g  to (i, j + 1),    f g  to (i + 1, j + 1).

All of them follow from the sums of 1, f, g and f g over the rows with the same first cells (i, j). In a table of k columns
there are 2^k such sums. Over fewer than 2^16 rows, that of a product of m factors is below 2^(m b + 16), so that several
stand side by side in the 53 bits of a double without touching, and one pass of `bincount` adds them all.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]
    # What is beyond may be given in doubles.
    Splits = Sequence[tuple[Wholes, Wholes | Array]]
    Word = tuple[tuple[tuple[int, ...], int, int], ...]

# Bits of a whole number in a double, and of the number of rows that are summed up at once.
_DOUBLE, _ROWS = 53, 16
# Rows of which all that is needed at once stays in the cache of a core.
PIECE = 2**15
# Columns of a table.
MOST_ORDER = 3


class Room:
    """Arrays that one thread works in: to ask the machine for new ones takes longer than to fill them."""

    __slots__ = ("found", "part", "place", "products", "weights")

    def __init__(self, largest: int, rows: int = PIECE) -> None:
        self.place, self.found, self.part = (np.empty(size, dtype=np.int64) for size in (rows, largest, largest))
        self.products, self.weights = np.empty((2**MOST_ORDER, rows)), np.empty((2, rows))


class Tabulation:
    """A table of soft cells over the rows that were added so far, in whole numbers of 2^bits to each column."""

    __slots__ = ("_cells", "_size", "_sums", "_unit", "_words")

    def __init__(self, cells: Sequence[int], bits: int, soft: Sequence[bool]) -> None:
        self._cells, self._unit, self._size = tuple(cells), 1 << bits, math.prod(cells)
        self._words = _words(tuple(axis for axis, one in enumerate(soft) if one), bits)
        self._sums = {factors: np.zeros(self._size, dtype=np.int64) for word in self._words for factors, _, _ in word}

    def add(self, split: Splits, room: Room) -> None:
        """Add at most `PIECE` rows: of each column the first cells, and what lies beyond them in columns that are soft."""
        place, rows = room.place[: len(split[0][0])], len(split[0][0])
        np.copyto(place, split[0][0])
        for (first, _), count in zip(split[1:], self._cells[1:], strict=True):
            np.multiply(place, count, out=place)
            np.add(place, first, out=place)
        if len(self._sums) == 1:
            # No column is soft: rows are counted.
            self._sums[()] += np.bincount(place, minlength=self._size)
            return
        products = self._products(split, room.products[:, :rows])
        for word in self._words:
            weights, part = room.weights[:, :rows]
            np.copyto(weights, products[word[0][0]])
            for factors, shift, _ in word[1:]:
                np.add(weights, np.multiply(products[factors], float(1 << shift), out=part), out=weights)
            summed: Array = np.bincount(place, weights=weights, minlength=self._size)  # type: ignore[assignment]
            self._take_apart(summed, word, room)

    def _products(self, split: Splits, into: Array) -> dict[tuple[int, ...], Wholes | Array | float]:
        products: dict[tuple[int, ...], Wholes | Array | float] = {(): 1.0}
        for factors, out in zip(sorted(self._sums, key=len)[1:], into, strict=False):
            beyond = split[factors[-1]][1]
            one = len(factors) == 1
            products[factors] = beyond if one else np.multiply(products[factors[:-1]], beyond, out=out)
        return products

    def _take_apart(self, summed: Array, word: Word, room: Room) -> None:
        """Add the sums that stand side by side."""
        found, part = room.found[: self._size], room.part[: self._size]
        np.copyto(found, summed, casting="unsafe")
        for factors, shift, width in word:
            np.right_shift(found, shift, out=part)
            np.bitwise_and(part, (1 << width) - 1, out=part)
            np.add(self._sums[factors], part, out=self._sums[factors])

    def total(self) -> Wholes:
        """Return the sums of all cells, an array with an axis for every column."""
        sums = {factors: one.reshape(self._cells) for factors, one in self._sums.items()}
        for axis in range(len(self._cells)):
            sums = {
                factors: self._spread(one, sums.get((axis, *factors)), axis)
                for factors, one in sums.items()
                if axis not in factors
            }
        return sums[()]

    def _spread(self, weight: Wholes, beyond: Wholes | None, axis: int) -> Wholes:
        """Return what is in the cells of an axis, of sums by first cells and of the same times what is beyond them."""
        if beyond is None:
            return weight * self._unit
        # Nothing is beyond the last cell.
        into = np.roll(beyond, 1, axis=axis)
        return weight * self._unit - beyond + into


def tabulate(split: Splits, cells: Sequence[int], bits: int) -> Wholes:
    """Return the sum over rows of a table in whole numbers: first cells and what is beyond them, column by column."""
    rows = len(split[0][0])
    table = Tabulation(cells, bits, [bool(beyond.any()) for _, beyond in split])
    room = Room(math.prod(cells), min(rows, PIECE))
    for start in range(0, rows, PIECE):
        table.add([(first[start : start + PIECE], beyond[start : start + PIECE]) for first, beyond in split], room)
    return table.total()


@functools.cache
def _words(soft: tuple[int, ...], bits: int) -> tuple[Word, ...]:
    """Put the sums of products into as few doubles as the first that has room for each gives; the widest come first."""
    all_factors = itertools.chain.from_iterable(itertools.combinations(soft, m) for m in range(len(soft), -1, -1))
    words: list[list[tuple[tuple[int, ...], int, int]]] = []
    for factors in all_factors:
        width = len(factors) * bits + _ROWS
        room = (word for word in words if sum(one[2] for one in word) + width <= _DOUBLE)
        word = next(room, None)
        if word is None:
            words.append(word := [])
        word.append((factors, sum(one[2] for one in word), width))
    return tuple(tuple(word) for word in words)
