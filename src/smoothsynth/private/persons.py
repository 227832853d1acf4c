"""Persons with several rows: which rows of a person are taken, and what each of them weighs.

    person      rows whose cells in the column of ids have one text (as of levels: 7, 7.0 and "7"; not 07); a row without an
                id is nobody's, and left out
    taken       the first `most` rows of a person in the order of BLAKE2b(key; id, cells), all if there are fewer; copies of a
                row stand at places of their own, so that every row of a person is as likely to be taken
    weight      1/k of each, where k are taken; in the sums, whole numbers of 1/lcm(1, ..., most)

The key is drawn when a table is opened and kept nowhere. What is taken of a person depends on the key and on the rows of
that person alone, neither on other persons nor on where rows stand; rows with the same cells are interchangeable. So a
person moves the sums as one row would (docs/proofs/persons.md). Ids are held as digests only, while a table is opened.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.sources.cells import numbers, read_cells
from smoothsynth.schema import Category
from smoothsynth.schema.category import labelled
from smoothsynth.schema.reading import prepared
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.private.table import Source
    from smoothsynth.schema import Column, Schema

    Ids = NDArray[np.int64]


# The column that says how many rows are taken of the person whose row it is; no column of a schema has no name.
TAKEN = ""
_BATCH_ROWS = 2**16


@dataclass(frozen=True, slots=True, repr=False)
class Persons:
    """Where ids stand, what cells of a row count, how many rows are taken at most, and the key of the order."""

    column: str
    columns: Mapping[str, Column]
    most: int
    key: bytes = field(default_factory=lambda: os.urandom(32))

    @classmethod
    def of(cls, schema: Schema, most: int) -> Persons | None:
        """Return the persons of a schema, with a new key; None if it names no id."""
        return None if schema.person is None else cls(schema.person, dict(schema.columns), most)

    @property
    def read(self) -> dict[str, Column]:
        """What is read of a table: the columns of the schema, and ids as the texts of a category."""
        return {**self.columns, self.column: Category(PRIVATE)}

    def digests(self, batch: pa.RecordBatch) -> tuple[Ids, Ids]:
        """Return the digest of the id of each row, 0 without one, in two halves; and where the row comes in the order."""
        rows = np.empty((batch.num_rows, 2 + len(self.columns)), dtype="<i8")
        rows[:, :2] = self._texts(batch.column(self.column), 16)
        for place, (name, column) in enumerate(self.columns.items(), start=2):
            rows[:, place] = self._cells(batch.column(name), column)
        width, whole = rows.shape[1] * 8, rows.tobytes()
        order = b"".join(self._digest(whole[at : at + width], 8) for at in range(0, len(whole), width))
        return rows[:, :2], np.frombuffer(order, dtype="<i8")

    def digests_of(self, batches: Callable[[], Iterable[pa.RecordBatch]]) -> tuple[Ids, Ids]:
        """Return the digests of all batches, on a machine of a cluster: no error there may quote a row in its logs."""
        found = None
        with contextlib.suppress(Exception):
            found = [self.digests(batch) for batch in batches()]
        if found is None:
            raise DataError("A part of the table must be readable on the machine of the cluster that was given it.")
        return _joined(found)

    def _digest(self, text: bytes, size: int) -> bytes:
        return blake2b(text, digest_size=size, key=self.key).digest()

    def _cells(self, array: pa.Array, column: Column) -> Ids:
        """Return cells as whole numbers, the same for cells that no sum tells apart."""
        if isinstance(column, Category):
            return self._texts(prepared(array, column), 8)[:, 0]
        found = read_cells(array, column).astype(np.float64) + 0.0
        found[np.isnan(found)] = np.nan
        return found.view(np.int64)

    def _texts(self, array: pa.Array, size: int) -> Ids:
        texts, places = labelled(array)
        known = [self._digest(text.encode("utf-8", "replace"), size) if text else bytes(size) for text in texts]
        # The last one is for cells without a text, whose place is -1.
        digests = np.frombuffer(b"".join([*known, bytes(size)]), dtype="<i8")
        return digests.reshape(-1, size // 8)[places]


def _joined(parts: Sequence[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    """Put the digests of batches, of which there may be none, one after the other."""
    ids, order = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    return np.concatenate(ids + [one for one, _ in parts]), np.concatenate(order + [one for _, one in parts])


def weight_unit(most: int) -> int:
    """Return lcm(1, ..., most), of which the weight 1/k of a row is a whole number of parts."""
    return math.lcm(*range(1, most + 1))


def take(ids: Ids, order: Ids, most: int) -> NDArray[np.uint8]:
    """Return for each row how many rows are taken of its person, 0 if it is not one of them."""
    rows = np.column_stack([ids, order])
    places = np.lexsort(rows.T[::-1])
    order = order.copy()
    order[places] = spread(rows[places, 2], _alike(rows[places])[0])
    places = np.lexsort((order, ids[:, 1], ids[:, 0]))
    known = ids[places]
    before, sizes = _alike(known)
    counts = np.minimum(sizes, most)
    counts[(before >= most) | ~known.any(axis=1)] = 0
    taken = np.zeros(len(known), dtype=np.uint8)
    taken[places] = counts
    return taken


def _alike(rows: Ids) -> tuple[Ids, Ids]:
    """Return, of sorted rows, how many equal ones stand before each, and how many there are."""
    starts = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])[: len(rows)])
    sizes = np.diff(np.append(starts, len(rows)))
    return np.arange(len(rows)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def spread(order: Ids, copy: Ids) -> Ids:
    """Return another place for every copy of a row, none before the others by intent (SplitMix64: Steele and others 2014)."""
    mixed = order.astype(np.uint64) + (copy.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31))).view(np.int64)


def count_persons(times: Mapping[int, int]) -> int:
    """Return how many persons there are, from how many rows are taken where k are taken of a person."""
    return sum(rows // taken for taken, rows in times.items())


@dataclass(frozen=True, slots=True, repr=False)
class PersonSource:
    """The taken rows of a source; `rows` is the number of persons, which is public, `taken` that of rows, which is not."""

    source: Source
    names: tuple[str, ...]
    counts: NDArray[np.uint8]
    averaged: int

    @property
    def rows(self) -> int:
        """The number of persons."""
        taken, times = np.unique(self.counts[self.counts > 0], return_counts=True)
        return count_persons(dict(zip(taken.tolist(), times.tolist(), strict=True)))

    @property
    def taken(self) -> int:
        """The number of rows that are taken: private."""
        return int(np.count_nonzero(self.counts))

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are taken, without ids, each with how many are taken of its person."""
        import pyarrow as pa

        done = 0
        for batch in self.source.batches(batch_rows):
            counts = self.counts[done : done + batch.num_rows]
            done += batch.num_rows
            if len(counts) < batch.num_rows:
                break
            kept = batch.select(list(self.names)).append_column(TAKEN, pa.array(counts))
            yield kept.filter(pa.array(counts > 0))
        if done != len(self.counts):
            raise other_rows()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


def other_rows() -> DataError:
    """Say that a pass over the rows of persons found other ones; how many there are is private."""
    return DataError(
        "The rows of persons must be the same at every pass, and there are more or fewer now than when the table was "
        "opened. Make sure that nothing writes to it, and open it again."
    )


def of_persons(source: Source, persons: Persons) -> PersonSource:
    """Go through a source once to find whose rows are taken; each later pass must give the rows in the same order."""
    ids, order = _joined([persons.digests(batch) for batch in source.batches(_BATCH_ROWS)])
    counts = take(ids, order, persons.most)
    return PersonSource(source, tuple(persons.columns), counts, persons.most)


class PersonSums:
    """Sums over the averages of persons: those of k rows each are summed by themselves. One thread only."""

    __slots__ = ("_averaged", "_features", "_start", "_sums")

    def __init__(self, start: Any, features: Sequence[Any], averaged: int) -> None:
        self._start, self._features, self._averaged = start, features, averaged
        self._sums: dict[int, Any] = {}

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Sums of private rows cannot be copied or pickled.")

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch that says how many are taken of each person."""
        import pyarrow as pa

        taken = numbers(batch.column(TAKEN))
        for count in np.unique(taken).tolist():
            if not 1 <= count <= self._averaged:
                raise AssertionError("only rows that are taken are summed")
            sums = self._sums.get(count) or self._sums.setdefault(count, self._start())
            sums.add(batch.filter(pa.array(taken == count)))

    def totals(self) -> list[int]:
        """Return the sum of each feature over the averages of persons, in units of S^2 / lcm(1, ..., most)."""
        unit, found = weight_unit(self._averaged), [0] * len(self._features)
        for count, sums in self._sums.items():
            found = [all_ + unit // count * own for all_, own in zip(found, sums.totals(), strict=True)]
        return found
