"""An opaque handle on the private rows, and how to get one from whatever holds the data.

Everything that can be wrong with a table as a whole is found here, before any budget is spent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from smoothsynth.errors import DataError
from smoothsynth.moments import MOST_ROWS
from smoothsynth.private import frames, reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from smoothsynth.schema import Schema


class Source(Protocol):
    """Where rows come from: their number, and batches of the columns of the schema, in its order."""

    @property
    def rows(self) -> int:
        """The number of rows, which is public."""

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows, again at each call, at most `batch_rows` at a time."""


class Table:
    """The private rows. It shows nothing, and cannot be copied, pickled or iterated."""

    __slots__ = ("_rows", "_schema", "_source")

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema, self._rows = source, schema, source.rows
        if not 1 <= self._rows <= MOST_ROWS:
            found = f"{self._rows:,} rows" if self._rows else "no rows"
            raise DataError(f"A table must have between 1 and {MOST_ROWS:,} rows; this one has {found}.")

    __iter__ = None

    def __repr__(self) -> str:
        return "<private table>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("A private table cannot be copied or pickled.")

    @property
    def schema(self) -> Schema:
        """The public description of the columns."""
        return self._schema

    @property
    def rows(self) -> int:
        """The number of rows, which is public."""
        return self._rows

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in self._source.batches(batch_rows):
            done += batch.num_rows
            if done > self._rows:
                break
            yield batch
        if done != self._rows:
            raise DataError(
                f"The table had {self._rows:,} rows when it was opened and has another number now. "
                "Make sure that nothing writes to it, and open it again."
            )


def open_table(data: object, schema: Schema) -> Table:
    """Open a data frame, an Arrow table or stream, or a file; it must have the columns of the schema."""
    if isinstance(data, (str, os.PathLike)):
        return Table(reading.open_path(Path(data), schema.names), schema)
    return Table(frames.open_frame(data, schema.names), schema)
