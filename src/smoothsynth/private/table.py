"""An opaque handle on the private rows, and how to get one from whatever holds the data.

Everything that can be wrong with a table as a whole is found here, before any budget is spent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from smoothsynth.errors import DataError, SmoothsynthError
from smoothsynth.private import frames, reading
from smoothsynth.private.memory import room
from smoothsynth.queries.measurement import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from smoothsynth.schema import Column, Schema


class Source(Protocol):
    """Where rows come from: their number, and batches of the columns of the schema, in its order."""

    @property
    def rows(self) -> int:
        """The number of rows, which is public."""

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield all rows, again at each call, at most `batch_rows` at a time."""


class DivisibleSource(Source, Protocol):
    """A source with parts that different threads can read at once."""

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts, one thread at a time; each may then be gone through by any thread."""


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

    def seen_as(self, schema: Schema) -> Table:
        """Return the same rows, their columns described otherwise: as of the same kind, or fewer of them."""
        return Table(self._source, schema)

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in self._source.batches(batch_rows):
            done += batch.num_rows
            if done > self._rows:
                break
            yield batch
        if done != self._rows:
            raise changed_rows(self._rows)

    def _parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield all rows in parts that different threads may go through; whoever does must count the rows."""
        source = self._source
        if hasattr(source, "parts"):
            return cast("DivisibleSource", source).parts(batch_rows, readers)
        return ((batch,) for batch in source.batches(batch_rows))


def changed_rows(rows: int) -> DataError:
    """Say that a pass over the table found another number of rows."""
    return DataError(
        f"The table had {rows:,} rows when it was opened and has another number now. "
        "Make sure that nothing writes to it, and open it again."
    )


def in_words(error: Exception) -> SmoothsynthError:
    """Return an error of a pass over rows without the frames it came from, which hold rows.

    An error of Arrow may quote a cell: it becomes a fixed sentence.
    """
    if not isinstance(error, SmoothsynthError):
        return DataError(
            "The rows could not be read to their end: Arrow refused them. Write the table again, and open it."
        )
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def open_table(data: object, schema: Schema, *, memory: str | int | None = None) -> Table:
    """Open a data frame, an Arrow table or stream, or files; it must have the columns of the schema.

    `data` is one path, or several in a list; a path may have * in it. Of a stream that can be read only once, as much is kept
    as `memory` allows.
    """
    try:
        return Table(_source(data, schema.columns, memory), schema)
    except SmoothsynthError as error:
        # Frames in which an error arises hold rows; a crash reporter shall not find them.
        raise error.with_traceback(None) from None


def _source(data: object, columns: Mapping[str, Column], memory: str | int | None) -> Source:
    paths = [data] if isinstance(data, (str, os.PathLike)) else data
    if isinstance(paths, (list, tuple)) and paths and all(isinstance(p, (str, os.PathLike)) for p in paths):
        return reading.open_paths([os.fspath(p) for p in paths], columns)
    from smoothsynth.private.engines.choose import frames_of

    cluster = frames_of(data)
    if cluster is not None:
        return cast("Source", cluster.open_frame(data, columns))
    return frames.open_frame(data, columns, memory=room(memory))
