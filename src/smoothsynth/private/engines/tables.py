"""Sums of tables of soft cells (smoothsynth.queries.soft_tables): in which cells each row is, and how often that occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.private.engines.blocks import Block, aligned, scale_of
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.soft_tables import Cells, SoftTables, tabulate
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.transformation import Transformation
    from smoothsynth.schema import Column, Schema

    Split = tuple[NDArray[np.int64], NDArray[np.int64]]

# Rows whose cells are found at once: they should stay in the cache of a core.
_PIECE = 2**13


class TableSums:
    """Sums of tables over the rows that were added so far. One thread only."""

    __slots__ = ("_cells", "_readers", "_totals", "_unit", "names")

    def __init__(self, schema: Schema, features: Cells, transformation: Transformation) -> None:
        family = transformation.family
        if not isinstance(family, SoftTables):
            raise TypeError("Tables are seen as soft cells.")
        used = sorted({c for table in features.tables for c in table})
        owners = [schema.owners[family.columns[c].coordinates[0]][0] for c in used]
        self.names = tuple(owners)
        self._readers = {
            c: _Reader(schema.columns[name], transformation, family, c) for c, name in zip(used, owners, strict=True)
        }
        self._cells, self._unit = features, float(1 << family.bits)
        self._totals = {table: np.zeros(features.shape(table), dtype=np.int64) for table in features.tables}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add_columns(self, columns: Sequence[NDArray[Any]], rows: int) -> None:
        """Add rows, given as one array for each name."""
        for start in range(0, rows, _PIECE):
            stop = min(rows, start + _PIECE)
            split = {
                c: reader.split(column[start:stop])
                for (c, reader), column in zip(self._readers.items(), columns, strict=True)
            }
            for table, total in self._totals.items():
                # At most 2^13 rows of 2^16 each: exact in doubles.
                found = tabulate([split[c] for c in table], self._cells.shape(table), self._unit)
                np.add(total, found.astype(np.int64), out=total)

    def totals(self) -> list[int]:
        """Return the sum of each cell over all rows, in units of S^2."""
        return [
            total * (LATTICE * LATTICE // round(self._unit) ** len(table))
            for table, sums in self._totals.items()
            for total in sums.ravel().tolist()
        ]


class _Reader:
    """Where the cells of one column are."""

    __slots__ = ("_bits", "_block", "_column", "_own", "_transformation")

    def __init__(self, column: Column, transformation: Transformation, family: SoftTables, number: int) -> None:
        self._column, self._transformation = column, transformation
        self._own, self._bits = family.columns[number], family.bits
        level = isinstance(column, (Category, Intervals))
        self._block = None if level else Block(aligned(1, 1, _PIECE), [scale_of(column, 0)])

    def split(self, values: NDArray[Any]) -> Split:
        """Return the first cell of each value, and what it adds to the next one."""
        if self._block is None:
            places = values.astype(np.int64)
            return np.where(places < 0, len(self._own.levels), places), np.zeros(len(places), dtype=np.int64)
        plain = self._lattice(self._block, values)
        value = self._own.value
        if value is None:
            raise AssertionError("a column of numbers has a value")
        bent = self._transformation.bend(value, plain).astype(np.int64)
        first, beyond = self._own.split(bent, plain.astype(np.int64), self._bits)
        if self._own.levels:
            missing = np.isnan(values)
            first[missing], beyond[missing] = self._own.cells - 1, 0
        return first, beyond

    @staticmethod
    def _lattice(block: Block, values: NDArray[Any]) -> NDArray[np.float64]:
        block.filled = 0
        block.fill([values], 0, len(values))
        block.to_lattice()
        plain = block.lattice[0, 0, : len(values)]
        if np.isnan(np.sum(plain)):
            block.place_missing()
        return plain
