"""Tables of soft cells: the sums over rows of products of hat functions of one, two or three columns.

A column of numbers has `hats` hat functions of its position, a level for each of a few single values (`atoms`) and, if cells
may be missing, one for those; a category has its levels and one cell for cells that are none of them. So every row weighs 1
in each column, spread over at most two neighbouring cells. With Y in [-S, S] the bent lattice value of a number, and 2^b the
unit of a factor (b = 16, 8, 5 bits in tables of one, two, three columns),

    p = floor((Y + S)(hats - 1) 2^b / 2S + 1/2),      i = p // 2^b, at most hats - 2,      f = p - 2^b i

cell i has the weight 2^b - f, the next one f. The entries of one row in one table are whole numbers of at least 0 with a
fixed sum: replacing the row moves a table by at most sqrt(2) of it in length and by at most 2 in all, whatever its columns
and cells are (docs/proofs/sensitivity.md, section 13).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE, Feature
from smoothsynth.queries.families import Block, QueryFamily
from smoothsynth.queries.tabulation import MOST_ORDER, tabulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Factors
    from smoothsynth.queries.sensitivity import Indicators
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]
    Sets = tuple[tuple[int, ...], ...]


# Bits of a factor, by the number of columns of a table: with them a product has 16 bits or 15.
BITS = {1: 16, 2: 8, 3: 5}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The cells of one column: hat functions of coordinate `value`, its `atoms` (lattice values), and `levels`.

    `levels` are coordinates that are 0 or 1: that of missing cells for numbers, those of the levels for categories.
    A category has no `value`, and a last cell for none of its levels.
    """

    value: int | None
    hats: int = 0
    atoms: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        there = () if self.value is None else (self.value,)
        whole = all(type(one) is int for one in (self.hats, *there, *self.atoms, *self.levels))
        if not whole or not (self.hats >= 2 if there else self.hats == len(self.atoms) == 0):
            raise PlanError("A column of a table has at least two hat functions of a value, or none and no value.")
        if len(set(self.atoms)) < len(self.atoms) or (self.atoms and max(map(abs, self.atoms)) > LATTICE):
            raise PlanError(f"Single values of a column of a table are different whole numbers within {LATTICE:,}.")

    @property
    def cells(self) -> int:
        """How many cells the column has."""
        return self.hats + len(self.atoms) + len(self.levels) + (self.value is None)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """The coordinates of a row that its cells depend on."""
        return self.levels if self.value is None else (self.value, *self.levels)

    def split(self, bent: Wholes, plain: Wholes, bits: int) -> tuple[Wholes, Wholes]:
        """Return the first cell that each number adds to, and what it adds to the next one, in units of 2^-bits."""
        unit = 1 << bits
        places = ((bent + LATTICE) * ((self.hats - 1) * unit) + LATTICE) // (2 * LATTICE)
        first = np.minimum(places // unit, self.hats - 2)
        beyond = places - first * unit
        for number, atom in enumerate(self.atoms):
            at = plain == atom
            first[at], beyond[at] = self.hats + number, 0
        return first, beyond


@dataclass(frozen=True, slots=True)
class SoftTables(QueryFamily):
    """Tables of soft cells, each of `order` columns."""

    name: ClassVar[str] = "soft tables"
    own_coordinates: ClassVar[bool] = False
    alone: ClassVar[bool] = False
    columns: tuple[TableColumn, ...] = ()
    order: int = 2

    def __post_init__(self) -> None:
        if self.order not in BITS or not self.columns:
            raise PlanError(f"Tables are of 1 to {MOST_ORDER} columns.")
        used = [c for column in self.columns for c in column.coordinates]
        if len(set(used)) < len(used):
            raise PlanError("Columns of tables have no coordinate in common.")

    @property
    def exact(self) -> bool:
        """Whether the lattice values of features are what they stand for."""
        return True

    @property
    def shares(self) -> bool:
        """Whether moments are shares of the rows, from 0 to 1."""
        return True

    @property
    def starts(self) -> tuple[int, ...]:
        """The number of the first cell of each column among the cells of all, and the number of all."""
        return tuple(itertools.accumulate((column.cells for column in self.columns), initial=0))

    @property
    def bits(self) -> int:
        """The bits of one factor."""
        return BITS[self.order]

    def coordinates(self, dimensions: int) -> int:
        """Return how many coordinates are seen of rows with so many: the cells of all columns."""
        return self.starts[-1]

    def read(self, seen: Sequence[int], dimensions: int) -> list[int]:
        """Return the coordinates of a row that those which are seen are made of."""
        owners = np.searchsorted(self.starts, seen, side="right") - 1
        return sorted({c for owner in set(owners.tolist()) for c in self.columns[owner].coordinates})

    def cells(self, tables: Sets) -> Cells:
        """Return the features of some tables: one for each of their cells."""
        return Cells(tuple(column.cells for column in self.columns), tables)

    def split(self, transformation: Transformation, column: int, points: Array) -> tuple[Wholes, Wholes]:
        """Return the first cells of a column, and what is beyond them, of points of the cube."""
        one = self.columns[column]
        levels = _on_the_lattice(points[:, list(one.levels)])
        if one.value is None:
            first = np.where(levels.max(axis=1) > LATTICE // 2, levels.argmax(axis=1), len(one.levels))
            return first.astype(np.int64), np.zeros(len(points), dtype=np.int64)
        plain = _on_the_lattice(points[:, one.value])
        bent = transformation.bend(one.value, plain.astype(np.float64)).astype(np.int64)
        first, beyond = one.split(bent, plain, self.bits)
        if one.levels:
            missing = levels[:, 0] > LATTICE // 2
            first[missing], beyond[missing] = one.cells - 1, 0
        return first, beyond

    def hats_of(self, transformation: Transformation, points: Array) -> Array:
        """Return the weight of every cell of every column at points of the cube, (points, cells)."""
        found, unit = np.zeros((len(points), self.starts[-1])), 1 << self.bits
        rows = np.arange(len(points))
        for column, start in enumerate(self.starts[:-1]):
            first, beyond = self.split(transformation, column, points)
            found[rows, start + first] += (unit - beyond) / unit
            # Nothing is beyond the last cell.
            found[rows, np.minimum(start + first + 1, self.starts[column + 1] - 1)] += beyond / unit
        return found

    def tables_of(self, transformation: Transformation, points: Array, tables: Sets) -> list[Array]:
        """Return the mean over points of some tables, each an array with an axis for every column."""
        factors = self.factors(transformation, points)
        return [factors.table(table) for table in tables]

    def blocks(self, features: Sequence[Feature], dimensions: int) -> Iterator[tuple[Block, ...]]:
        """Yield each table; one of three columns also as those of two: the weights of a column add up to 1."""
        for table, where in _cells(features).places():
            places = np.arange(where.start, where.stop).reshape([self.columns[c].cells for c in table])
            sizes = range(self.order, min(self.order, 2) - 1, -1)
            axes = [kept for size in sizes for kept in itertools.combinations(range(self.order), size)]
            yield tuple(self._block(table, kept, places) for kept in axes)

    def _block(self, table: tuple[int, ...], kept: tuple[int, ...], places: Wholes) -> Block:
        columns = tuple(table[axis] for axis in kept)
        read = frozenset(c for column in columns for c in self.columns[column].coordinates)
        features = self.cells((columns,))
        return Block(read, features, np.moveaxis(places, kept, range(len(kept))).reshape(len(features), -1))

    def factors(self, transformation: Transformation, points: Array) -> CellFactors:
        """Return the weights of cells at points of the cube, column by column as they are asked for."""
        return CellFactors(self, transformation, points)

    def means(self, factors: Factors, block: Block) -> Array:
        """Return the mean of a table over the points of some factors."""
        if not isinstance(factors, CellFactors):
            raise TypeError("tables are made of weights of cells")
        return factors.table(_cells(block.features).tables[0]).ravel()

    def check(self, features: Sequence[Feature], lines: int) -> None:
        """Refuse features that are not all cells of different tables of this order."""
        right = isinstance(features, Cells) and features.counts == tuple(column.cells for column in self.columns)
        if not right or any(len(table) != self.order for table in features.tables):  # type: ignore[attr-defined]
            raise PlanError(f"Tables of soft cells are measured whole, each of {self.order} columns.")
        if any(c >= lines for column in self.columns for c in column.coordinates):
            raise PlanError("Tables name coordinates that a row does not have.")

    def indicators(
        self,
        transformation: Transformation,
        features: Sequence[Feature],
        binary: Sequence[int],
        exclusive: tuple[tuple[int, ...], ...],
    ) -> Indicators:
        """Return that nothing of indicators is needed: the bound holds for whatever a row is."""
        from smoothsynth.queries.sensitivity import Indicators

        return Indicators()

    def linf(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> int:
        """Bound how far one row moves the sums, in the largest of them."""
        return max(weights)

    def l1(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in their sum: 2 for each table."""
        return 2.0 * max(weights) * _tables(features)

    def l2(self, features: Sequence[Feature], weights: Sequence[int], indicators: Indicators) -> float:
        """Bound how far one row moves the sums, in length: sqrt(2) for each table, and tables at right angles."""
        return math.sqrt(2.0 * _tables(features)) * max(weights)

    def facts(self) -> dict[str, Any]:
        """Return what moments.json says of the family beside the knots of its transformation."""
        columns = [
            {"value": one.value, "hats": one.hats, "atoms": list(one.atoms), "levels": list(one.levels)}
            for one in self.columns
        ]
        return {"radius": None, "pooled": False, "order": self.order, "columns": columns}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> SoftTables:
        """Read what `facts` wrote."""
        columns = tuple(
            TableColumn(one["value"], one["hats"], tuple(one["atoms"]), tuple(one["levels"]))
            for one in facts["columns"]
        )
        return cls(columns, facts["order"])


class Cells(Sequence[Feature]):
    """The cells of some tables, as features: products of the soft cells of columns that have `counts` of them."""

    __slots__ = ("_starts", "counts", "tables")

    def __init__(self, counts: tuple[int, ...], tables: Sets) -> None:
        self.counts, self.tables = counts, tables
        sizes = self._sizes()
        if sizes is None or len(set(tables)) < len(tables):
            raise PlanError("Tables are of different sets of columns, each in rising order.")
        self._starts = tuple(itertools.accumulate(sizes, initial=0))

    def _sizes(self) -> list[int] | None:
        """Return how many cells each table has; None if one is no rising set of the columns."""
        sizes = []
        for table in self.tables:
            size, before = 1, -1
            for c in table:
                if not before < c < len(self.counts):
                    return None
                size, before = size * self.counts[c], c
            if not table:
                return None
            sizes.append(size)
        return sizes

    def size(self, table: tuple[int, ...]) -> int:
        """Return how many cells one table has."""
        return math.prod(self.counts[c] for c in table)

    def shape(self, table: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many cells the columns of one table have."""
        return tuple(self.counts[c] for c in table)

    def places(self) -> Iterator[tuple[tuple[int, ...], slice]]:
        """Yield each table and where its cells are."""
        for table, start, stop in zip(self.tables, self._starts, self._starts[1:], strict=False):
            yield table, slice(start, stop)

    def only(self, tables: Sequence[tuple[int, ...]]) -> Cells:
        """Return the cells of some of the tables."""
        return Cells(self.counts, tuple(tables))

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, place: int) -> Feature: ...
    @overload
    def __getitem__(self, place: slice) -> list[Feature]: ...
    def __getitem__(self, place: int | slice) -> Feature | list[Feature]:
        if isinstance(place, slice):
            return [self._feature(one) for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        return self._feature(place % len(self))

    def _feature(self, place: int) -> Feature:
        number = int(np.searchsorted(self._starts, place, side="right")) - 1
        table = self.tables[number]
        cells = np.unravel_index(place - self._starts[number], self.shape(table))
        firsts = tuple(itertools.accumulate(self.counts, initial=0))
        return Feature((tuple((firsts[c] + int(cell), 1) for c, cell in zip(table, cells, strict=True)),))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cells):
            return NotImplemented
        return (self.counts, self.tables) == (other.counts, other.tables)

    def __hash__(self) -> int:
        return hash((self.counts, self.tables))


class CellFactors:
    """The weights of the soft cells of columns at some points, each column split when it is first asked for."""

    def __init__(self, family: SoftTables, transformation: Transformation, points: Array) -> None:
        self._family, self._transformation, self._points = family, transformation, points
        self._known: dict[int, tuple[Wholes, Wholes]] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return the weight of one cell, numbered among those of all columns."""
        column = bisect.bisect_right(self._family.starts, coordinate) - 1
        first, beyond = self.split(column)
        cell, unit = coordinate - self._family.starts[column], 1 << self._family.bits
        return np.asarray(np.where(first == cell, unit - beyond, np.where(first + 1 == cell, beyond, 0)) / unit)

    def table(self, table: tuple[int, ...]) -> Array:
        """Return the mean of a table, an array with an axis for every column."""
        bits, cells = self._family.bits, [self._family.columns[c].cells for c in table]
        total = tabulate([self.split(c) for c in table], cells, bits)
        return total / float(len(self._points) << (bits * len(table)))

    def split(self, column: int) -> tuple[Wholes, Wholes]:
        """Return the first cells of a column, and what is beyond them."""
        if column not in self._known:
            self._known[column] = self._family.split(self._transformation, column, self._points)
        return self._known[column]


def _on_the_lattice(points: Array) -> Wholes:
    return np.rint(points * LATTICE).astype(np.int64)


def _tables(features: Sequence[Feature]) -> int:
    return len(_cells(features).tables)


def _cells(features: Sequence[Feature]) -> Cells:
    if not isinstance(features, Cells):
        raise PlanError("Tables of soft cells are measured whole.")
    return features
