"""Sums of tables of soft cells (smoothsynth.queries.soft_tables): in which cells each row is, and how often that occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.private.engines.blocks import Block, aligned, scale_of
from smoothsynth.queries.bases import LATTICE
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


class TableSums:
    """Sums of tables over the rows that were added so far. One thread only."""

    __slots__ = ("_readers", "_room", "_tables", "_unit", "names")

    def __init__(self, schema: Schema, features: Cells, transformation: Transformation) -> None:
        family = transformation.family
        if not isinstance(family, SoftTables):
            raise TypeError("Tables are seen as soft cells.")
        used = sorted({c for table in features.tables for c in table})
        owners = [schema.owners[family.columns[c].coordinates[0]][0] for c in used]
        self.names = tuple(owners)
        lattice = aligned(1, 1, PIECE)
        self._readers = {
            c: _Reader(schema.columns[name], transformation, family, c, lattice)
            for c, name in zip(used, owners, strict=True)
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

    __slots__ = ("_beyond", "_bits", "_block", "_first", "_known", "_own", "_rows", "_transformation")

    def __init__(
        self,
        column: Column,
        transformation: Transformation,
        family: SoftTables,
        number: int,
        lattice: NDArray[np.float64],
    ) -> None:
        self._transformation = transformation
        self._own, self._bits = family.columns[number], family.bits
        level = isinstance(column, (Category, Intervals))
        self._block = None if level else Block(lattice, [scale_of(column, 0)])
        self._first, self._beyond = np.empty(PIECE, dtype=np.int64), np.empty(0 if level else PIECE)
        self._rows = 0
        self._known: tuple[NDArray[np.int32], NDArray[np.float32]] | None = None

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
        """Write the split of lattice values; once there were half as many rows as those, the split of all is kept."""
        self._rows += len(plain)
        if self._known is None and self._rows > LATTICE:
            firsts, beyonds = self._compute(np.arange(-LATTICE, LATTICE + 1))
            # Small numbers, so that more of them stay in the cache of a core; nothing beyond is above 2^16.
            self._known = firsts.astype(np.int32), beyonds.astype(np.float32)
        if self._known is None:
            first[:], beyond[:] = self._compute(plain.astype(np.int64))
            return
        np.copyto(first, plain, casting="unsafe")
        np.add(first, LATTICE, out=first)
        np.copyto(beyond, self._known[1].take(first, mode="clip"))
        np.copyto(first, self._known[0].take(first, mode="clip"))

    def _compute(self, plain: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._own.value is None:
            raise AssertionError("a column of numbers has a value")
        bent = self._transformation.bend(self._own.value, plain.astype(np.float64)).astype(np.int64)
        return self._own.split(bent, plain, self._bits)
