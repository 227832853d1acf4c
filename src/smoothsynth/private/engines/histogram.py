"""Sums by counting lattice values or levels.

Sums of features of single columns: it is enough to count how often each value of the lattice occurs.

    sum over rows of t_k(X)  =  sum over v = -S..S of  (rows with X = v) t_k(v)

One pass with one count per cell, whatever the degrees, and whatever way the transformation bends each coordinate by itself.
Soft counts (smoothsynth.queries.bases) are made of these counts too.

Sums of levels: it is enough to count how often each place among the levels of a column occurs. Histograms of the tiers of a
column of many levels (smoothsynth.queries.level_histograms) are made of one such count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.private.engines.blocks import Block, BlockTransformation, aligned, rising, rounded
from smoothsynth.queries.bases import LATTICE, Chebyshev, HatBasis, HatCosines, cosine_map, split
from smoothsynth.queries.families import MarginalMoments
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.private.engines.blocks import AnyScale
    from smoothsynth.queries.bases import Feature, Term
    from smoothsynth.queries.level_histograms import LevelHistograms
    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Column, Schema


# Rows that are scaled at once, columns whose sums are, and columns whose counts take at most 64 megabytes.
_PIECE, _GROUP, _MOST_COLUMNS = 2**13, 32, 128
# Its counts, and to which soft counts the lattice values add.
COUNTS_OF_A_COLUMN = 12 * (2 * LATTICE + 1)
COUNTS_AT_THE_END = 3 * _GROUP * 8 * (2 * LATTICE + 1)


def only_counts(features: Iterable[Feature], transformation: Transformation | None, columns: int) -> bool:
    """Whether the features are better counted: all of single columns, of high degree or bent one by one; or soft counts."""
    family = MarginalMoments() if transformation is None else transformation.family
    if isinstance(family.basis, (HatBasis, HatCosines)):
        return True
    if columns > _MOST_COLUMNS or not (family.own_coordinates and family.alone):
        return False
    terms = [term for feature in features for term in feature.terms]
    return all(len(term) == 1 for term in terms) and (
        transformation is not None or any(term[0][1] > 2 for term in terms)
    )


class HatSplits:
    """To which soft counts the lattice values of each column add, for all threads that sum them. Public."""

    def __init__(self, transformation: Transformation | None) -> None:
        self.transformation = transformation
        self._known: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]] = {}

    def of(self, coordinate: int, counts: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the first count of each lattice value, from 0, and what it adds to the next one, in units of S."""
        if coordinate not in self._known:
            first, beyond = split(_seen(self.transformation, coordinate).astype(np.int64), counts)
            self._known[coordinate] = first.astype(np.int32), beyond.astype(np.float32)
        return self._known[coordinate]


def _seen(transformation: Transformation | None, coordinate: int) -> NDArray[np.float64]:
    """Return as what each lattice value is seen."""
    seen = np.arange(-LATTICE, LATTICE + 1, dtype=np.float64)[None]
    if transformation is not None:
        BlockTransformation(transformation, [coordinate], seen.shape[1]).at(seen, seen)
    return seen[0]


class Counts:
    """How often each lattice value of each column occurred in the rows added so far. One thread only."""

    __slots__ = ("_coordinates", "_counts", "_pieces", "_places", "_splits", "_view")

    def __init__(self, coordinates: Sequence[int], scales: Sequence[AnyScale], splits: HatSplits) -> None:
        self._coordinates, self._splits, self._view = tuple(coordinates), splits, splits.transformation
        # At most 2^30 rows.
        self._counts = np.zeros((len(scales), 2 * LATTICE + 1), dtype=np.uint32)
        room = aligned(1, 1, _PIECE)
        self._pieces = [Block(room, [scale]) for scale in scales]
        self._places = np.empty(_PIECE, dtype=np.intp)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Count the rows given as one array for each column."""
        for piece, column, counts in zip(self._pieces, columns, self._counts, strict=True):
            start = 0
            while start < rows:
                piece.filled = 0
                size = piece.fill([column], start, rows)
                self._count(piece, counts, size)
                start += size

    def _count(self, piece: Block, counts: NDArray[np.uint32], size: int) -> None:
        piece.to_lattice()
        values = piece.lattice[0, 0, :size]
        if np.isnan(np.sum(values)):
            piece.place_missing()
        np.add(values, LATTICE, out=values)
        places = self._places[:size]
        np.copyto(places, values, casting="unsafe")
        np.add.at(counts, places, np.uint32(1))

    def sums(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Return the sum of each term over all rows: of X, t_k and soft counts in units of S, of X^2 for T_2.

        Those of cosines of soft counts are in units of S^2.
        """
        wanted = set(terms)
        degrees = {term[0][1] for term in wanted}
        basis = Chebyshev() if self._view is None else self._view.family.basis
        if isinstance(basis, (HatBasis, HatCosines)):
            found = dict(self._by_count(basis))
            return {term: found[term] for term in wanted}
        found = {}
        for start in range(0, len(self._coordinates), _GROUP):
            coordinates = self._coordinates[start : start + _GROUP]
            often = self._often(start, coordinates)
            for number, totals in _by_degree(often, degrees):
                found.update({((c, number),): int(t) for c, t in zip(coordinates, totals, strict=True)})
        return {term: found[term] for term in wanted}

    def _often(self, start: int, coordinates: Sequence[int]) -> NDArray[np.float64]:
        """Return how often each lattice value is seen, through the transformation, for some columns."""
        counts = self._counts[start : start + len(coordinates)]
        if self._view is None:
            return counts.astype(np.float64)
        often = np.empty(counts.shape)
        for coordinate, column, out in zip(coordinates, counts, often, strict=True):
            places = (_seen(self._view, coordinate) + LATTICE).astype(np.intp)
            out[:] = np.bincount(places, weights=column, minlength=len(out))
        return often

    def _by_count(self, basis: HatBasis | HatCosines) -> Iterator[tuple[Term, int]]:
        """Yield the sums of the soft counts, in units of S: below 2^30 rows times 2^16, exact in doubles.

        Or those of their cosines, in units of S^2: whole numbers of at most 2^62.
        """
        cells = basis.cells
        # Where memory is given back at once, as on workers of Dask, arrays that are made anew take longer than all else.
        first, weights = np.empty(2 * LATTICE + 1, dtype=np.intp), np.empty(2 * LATTICE + 1)
        for coordinate, often in zip(self._coordinates, self._counts, strict=True):
            firsts, beyond = self._splits.of(coordinate, cells)
            np.copyto(first, firsts)
            np.copyto(weights, often)
            totals = LATTICE * np.bincount(first, weights, cells)
            over = np.bincount(first, np.multiply(weights, beyond, out=weights), cells)
            # Nothing is beyond the last.
            totals += np.roll(over, 1) - over
            if isinstance(basis, HatCosines):
                totals = cosine_map(cells) @ totals.astype(np.int64)
            yield from ((((coordinate, number),), int(total)) for number, total in enumerate(totals, start=1))


def _by_degree(often: NDArray[np.float64], degrees: set[int]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the sums of X, X^2 and t_k over the values of the lattice that occur, each as often as it does."""
    there = np.flatnonzero(often.any(axis=0))
    often, x = often[:, there], there - LATTICE
    # Fewer than 2^30 rows times 2^16 stay below 2^53; times 2^32 they need whole numbers.
    yield 1, np.dot(often, x.astype(np.float64))
    yield 2, np.dot(often.astype(np.int64), x * x)
    room, single = np.empty((4, 1, len(x))), (1,) * max(degrees)
    for degree, values in rising(x.astype(np.float64)[None], single, room) if len(single) > 2 else ():
        if degree > 2 and degree in degrees:
            yield degree, np.dot(often, rounded(values, np.empty_like(values))[0])


def only_levels(features: Iterable[Feature], transformation: Transformation | None, columns: Iterable[Column]) -> bool:
    """Whether the features are just levels of categories or intervals, each by itself."""
    plain = all(len(term) == 1 and term[0][1] == 1 for feature in features for term in feature.terms)
    return transformation is None and plain and all(isinstance(column, (Category, Intervals)) for column in columns)


class Tallies:
    """How often each place among the levels of each column occurred in the rows added so far. One thread only."""

    __slots__ = ("_columns", "_owners", "_tallies")

    def __init__(
        self, coordinates: Sequence[int], owners: Sequence[tuple[str, int]], columns: dict[str, Column]
    ) -> None:
        names = [name for name, _ in owners]
        # One array is given for each coordinate: the first of a column is that of all its levels.
        self._columns = {names.index(name): name for name in columns}
        self._owners = dict(zip(coordinates, owners, strict=True))
        self._tallies = {name: np.zeros(column.dimensions + 1, dtype=np.int64) for name, column in columns.items()}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Count the rows given as places among the levels, -1 for none."""
        for position, name in self._columns.items():
            tally = self._tallies[name]
            tally += np.bincount(columns[position][:rows].astype(np.intp) + 1, minlength=len(tally))

    def sums(self, terms: Iterable[Term]) -> dict[Term, int]:
        """Return the sum of each level over all rows, in units of S."""
        found = {}
        for term in terms:
            name, place = self._owners[term[0][0]]
            found[term] = int(self._tallies[name][place + 1]) * LATTICE
        return found


class LevelSums:
    """How often each level of columns of many levels occurred in the rows added so far. One thread only."""

    __slots__ = ("_histograms", "_tallies", "names")

    def __init__(self, schema: Schema, family: LevelHistograms) -> None:
        columns = sorted({h.column for h in family.histograms})
        self.names = tuple(schema.names[c] for c in columns)
        self._histograms = [(columns.index(h.column), h.hierarchy(schema).places[h.tier]) for h in family.histograms]
        levels = {number: len(places) for number, places in self._histograms}
        self._tallies = [np.zeros(levels[number] + 1, dtype=np.int64) for number in range(len(columns))]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Count the rows given as places among all levels, -1 for none."""
        for tally, codes in zip(self._tallies, columns, strict=True):
            np.add(tally, np.bincount(codes[:rows].astype(np.intp) + 1, minlength=len(tally)), out=tally)

    def totals(self) -> list[int]:
        """Return how many rows lie in each node of each histogram, and then in none, in units of S^2."""
        found: list[int] = []
        for number, places in self._histograms:
            none, own = self._tallies[number][0], self._tallies[number][1:]
            # Doubles are exact up to 2^30 rows.
            nodes = np.bincount(places, weights=own).astype(np.int64)
            found += [int(count) * LATTICE * LATTICE for count in (*nodes, none)]
        return found
