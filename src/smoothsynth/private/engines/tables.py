"""Sums of tables of soft cells (smoothsynth.queries.soft_tables): in which cells each row is, and how often that occurs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.private.engines.blocks import Block, BlockTransformation, aligned, scale_of
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.soft_tables import Cells, SoftTables
from smoothsynth.queries.tabulation import PIECE, Room, Tabulation
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Column, Schema

    Split = tuple[NDArray[np.int64], NDArray[np.float64]]
    Known = tuple[NDArray[np.int32], NDArray[np.float32]]


class CellSplits:
    """To which cells the lattice values of each column add, for all threads that sum the same tables. Public."""

    def __init__(self, transformation: Transformation) -> None:
        if not isinstance(transformation.family, SoftTables):
            raise TypeError("Tables are seen as soft cells.")
        # Its bent values are those of any family that sees coordinates one by one.
        self._bent = replace(transformation, family=RankHistogram())
        self.family = transformation.family
        self._rows: Counter[int] = Counter()
        self._known: dict[int, Known] = {}

    def known(self, number: int, rows: int) -> Known | None:
        """Return the splits of all lattice values, once half as many rows as those were asked for."""
        self._rows[number] += rows
        if number not in self._known and self._rows[number] > LATTICE:
            firsts, beyonds = self.of(number, np.arange(-LATTICE, LATTICE + 1))
            # Small numbers, so that more of them stay in the cache of a core; nothing beyond is above 2^16.
            self._known[number] = firsts.astype(np.int32), beyonds.astype(np.float32)
        return self._known.get(number)

    def of(self, number: int, plain: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first cells of lattice values, and what they add to the next ones."""
        column = self.family.columns[number]
        if column.value is None:
            raise AssertionError("a column of numbers has a value")
        bent = plain.astype(np.float64)[None]
        BlockTransformation(self._bent, [column.value], len(plain)).at(bent, bent)
        return column.split(bent[0].astype(np.int64), plain, self.family.bits)


class TableSums:
    """Sums of tables over the rows that were added so far. One thread only."""

    __slots__ = ("_readers", "_room", "_tables", "_unit", "names")

    def __init__(self, schema: Schema, features: Cells, splits: CellSplits) -> None:
        family = splits.family
        used = sorted({c for table in features.tables for c in table})
        owners = [schema.owners[family.columns[c].coordinates[0]][0] for c in used]
        self.names = tuple(owners)
        lattice, room = aligned(1, 1, PIECE), (np.empty(PIECE, dtype=np.int32), np.empty(PIECE, dtype=np.float32))
        self._readers = {
            c: _Reader(schema.columns[name], splits, c, lattice, room) for c, name in zip(used, owners, strict=True)
        }
        self._unit = 1 << family.bits
        soft = [column.value is not None for column in family.columns]
        self._tables = {
            table: Tabulation(features.shape(table), family.bits, [soft[c] for c in table]) for table in features.tables
        }
        self._room = Room(max(map(features.size, features.tables), default=0))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows, given as one array for each name."""
        for start in range(0, rows, PIECE):
            stop = min(rows, start + PIECE)
            split = {
                c: reader.split(column[start:stop])
                for (c, reader), column in zip(self._readers.items(), columns, strict=True)
            }
            for table, sums in self._tables.items():
                sums.add([split[c] for c in table], self._room)

    def totals(self) -> list[int]:
        """Return the sum of each cell over all rows, in units of S^2."""
        return [
            total * (LATTICE * LATTICE // self._unit ** len(table))
            for table, sums in self._tables.items()
            for total in sums.total().ravel().tolist()
        ]


class _Reader:
    """Where the cells of one column are."""

    __slots__ = ("_beyond", "_block", "_first", "_number", "_own", "_room", "_splits")

    def __init__(
        self,
        column: Column,
        splits: CellSplits,
        number: int,
        lattice: NDArray[np.float64],
        room: Known,
    ) -> None:
        self._splits, self._number, self._own, self._room = splits, number, splits.family.columns[number], room
        level = isinstance(column, (Category, Intervals))
        self._block = None if level else Block(lattice, [scale_of(column, 0)])
        self._first, self._beyond = np.empty(PIECE, dtype=np.int64), np.empty(0 if level else PIECE)

    def split(self, values: NDArray[Any]) -> Split:
        """Return the first cell of each value, and what it adds to the next one, in arrays that the next call fills."""
        first, beyond = self._first[: len(values)], self._beyond[: len(values)]
        if self._block is None:
            np.copyto(first, values, casting="unsafe")
            np.copyto(first, len(self._own.levels), where=first < 0)
            return first, beyond
        self._look_up(self._plain(self._block, values), first, beyond)
        if self._own.levels:
            missing = np.isnan(values)
            np.copyto(first, self._own.cells - 1, where=missing)
            np.copyto(beyond, 0.0, where=missing)
        return first, beyond

    def _plain(self, block: Block, values: NDArray[Any]) -> NDArray[np.float64]:
        block.filled = 0
        block.fill([values], 0, len(values))
        block.to_lattice()
        plain = block.lattice[0, 0, : len(values)]
        if np.isnan(np.sum(plain)):
            block.place_missing()
        return plain

    def _look_up(self, plain: NDArray[np.float64], first: NDArray[np.int64], beyond: NDArray[np.float64]) -> None:
        """Write the split of lattice values."""
        known = self._splits.known(self._number, len(plain))
        if known is None:
            first[:], beyond[:] = self._splits.of(self._number, plain.astype(np.int64))
            return
        np.copyto(first, plain, casting="unsafe")
        np.add(first, LATTICE, out=first)
        firsts, beyonds = (room[: len(plain)] for room in self._room)
        np.copyto(beyond, known[1].take(first, out=beyonds, mode="clip"))
        np.copyto(first, known[0].take(first, out=firsts, mode="clip"))
