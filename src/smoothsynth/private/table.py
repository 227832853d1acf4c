"""An opaque handle on the private rows, how to get one from whatever holds the data, and how much memory a pass takes.

Everything that can be wrong with a table as a whole is found here, before any budget is spent.

    memory  =  what Python, numpy and Arrow take themselves (BASE)
             + threads x (pages of the file, one or two for each column  +  a batch of rows  +  the buffers of the sums)

The size of the table is not in it.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from smoothsynth.errors import DataError, EngineError, PlanError, SmoothsynthError
from smoothsynth.private.persons import Persons, of_persons, other_rows
from smoothsynth.private.sources import files, frames
from smoothsynth.queries.measurement import MOST_ROWS
from smoothsynth.schema.file import USUAL, read_file_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from smoothsynth.schema import Column, Schema
    from smoothsynth.schema.file import FileFormat


DEFAULT_MEMORY = 2**30
BASE = 200 * 2**20
LEAST = 256 * 2**20
# Arrow writes pages of a megabyte, and holds one as it is in the file, one unpacked and a dictionary.
_PAGES = 5 * 2**19
# A cell as Arrow decodes it, as it hands it over, and once more if some values are missing.
_CELL = 24
_MOST_CELLS, _MOST_ROWS, _FEWEST_ROWS = 3 * 2**20, 2**17, 2**11

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)


def parse_memory(memory: str | int | None) -> int:
    """Return a number of bytes from 512MB, 2 GB, 1.5GiB or a number; None is the default of one GiB."""
    if memory is None:
        return DEFAULT_MEMORY
    found = _SIZE.fullmatch(str(memory))
    size = int(float(found[1]) * _UNITS[(found[2] or "").upper()]) if found and not isinstance(memory, bool) else 0
    if size < LEAST:
        raise PlanError(
            f"memory must be a size such as 512MB or 2GB, and at least {LEAST // 2**20} MiB, most of which Python and Arrow "
            f"take themselves; it is {memory!r:.40}."
        )
    return size


def memory_for_rows(memory: str | int | None) -> int:
    """Return the bytes that are left for rows."""
    return parse_memory(memory) - BASE


def share_memory(memory: str | int | None, *, columns: int, held: int, threads: int) -> tuple[int, int]:
    """Return how many threads may run, at most `threads`, and how many rows each may hold at once.

    `held` is what a thread takes besides, in bytes. At least one thread and a few thousand rows are needed.
    """
    left, rows = memory_for_rows(memory), _MOST_ROWS
    while rows > _FEWEST_ROWS and rows * columns > _MOST_CELLS:
        rows //= 2
    fixed = columns * _PAGES + held
    while rows > _FEWEST_ROWS and fixed + rows * columns * _CELL > left:
        rows //= 2
    return max(1, min(threads, left // (fixed + rows * columns * _CELL))), rows


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

    __slots__ = ("_rows", "_schema", "_source", "_taken", "averaged")

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema, self._rows = source, schema, source.rows
        # Of persons, at most `averaged` rows are averaged; how many all persons have is private.
        self.averaged: int = getattr(source, "averaged", 1)
        self._taken: int | None = getattr(source, "taken", None)
        unit = "rows" if self._taken is None else "persons"
        if not 1 <= self._rows * self.averaged <= MOST_ROWS:
            found, most = f"{self._rows:,} {unit}" if self._rows else f"no {unit}", MOST_ROWS // self.averaged
            raise DataError(f"A table must have between 1 and {most:,} {unit}; this one has {found}.")

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
        """The number of rows, or of persons if the schema names their ids; it is public."""
        return self._rows

    @property
    def _summed(self) -> int:
        """The number of rows that a pass goes through; private if these are rows of persons."""
        return self._rows if self._taken is None else self._taken

    @property
    def telling(self) -> bool:
        """Whether a pass may say how many rows it has done: not of persons, of whom rows are not public."""
        return self._taken is None

    def changed(self) -> DataError:
        """Say that a pass over the table found another number of rows."""
        return changed_rows(self._rows) if self.telling else other_rows()

    def seen_as(self, schema: Schema) -> Table:
        """Return the same rows, their columns described otherwise: as of the same kind, or fewer of them."""
        return Table(self._source, schema)

    def _batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        done = 0
        for batch in self._source.batches(batch_rows):
            done += batch.num_rows
            if done > self._summed:
                break
            yield batch
        if done != self._summed:
            raise self.changed()

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
    if isinstance(error, MemoryError):
        return EngineError(
            "The pass over the rows must have more memory than there is. Ask for fewer tables, or release where there is "
            "more; nothing was charged for this pass."
        )
    if not isinstance(error, SmoothsynthError):
        return DataError(
            "The rows could not be read to their end: Arrow refused them. Write the table again, and open it."
        )
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def open_table(
    data: object, schema: Schema, *, memory: str | int | None = None, rows_per_person: int = 1, key: bytes | None = None
) -> Table:
    """Open a data frame, an Arrow table or stream, or files; it must have the columns of the schema.

    `data` is one path, or several in a list; a path may have * in it. Of a stream that can be read only once, as much is kept
    as `memory` allows. If the schema names a person's id, at most `rows_per_person` rows of each person are taken, by a
    hash with a new random key, or with `key`.
    """
    import pyarrow as pa

    persons = Persons.of(schema, rows_per_person)
    if persons is not None and key is not None:
        persons = replace(persons, key=key)
    try:
        return Table(_source(data, schema, memory, persons), schema)
    except (SmoothsynthError, pa.ArrowException) as error:
        # Frames in which an error arises hold rows; a crash reporter shall not find them.
        failed = in_words(error)
    raise failed


def columns_of(data: object, written: FileFormat = USUAL) -> list[tuple[str, str]]:
    """Return the names of the columns of a table, and what their types hold: a type of the schema, or something in words."""
    paths = data if isinstance(data, (list, tuple)) and data else [data]
    if isinstance(paths[0], (str, os.PathLike)):
        return files.column_kinds(os.fspath(paths[0]), written)
    return frames.column_kinds(data)


def guess_format(data: object) -> FileFormat:
    """Guess how files are written, for a draft; a table in memory is not written at all."""
    paths = data if isinstance(data, (list, tuple)) and data else [data]
    return files.guess_format(os.fspath(paths[0])) if isinstance(paths[0], (str, os.PathLike)) else USUAL


def lost_lines(data: object, written: FileFormat = USUAL) -> tuple[int, int]:
    """Return how many rows of CSV files are missing as a whole, and of how many, for their owner; other tables have none."""
    paths = [data] if isinstance(data, (str, os.PathLike)) else data
    if isinstance(paths, (list, tuple)) and all(isinstance(p, (str, os.PathLike)) for p in paths):
        return files.lost_lines([os.fspath(p) for p in paths], written)
    return 0, 0


def _source(data: object, schema: Schema, memory: str | int | None, persons: Persons | None) -> Source:
    """Open the data; of persons, those of their rows that are taken."""
    written = read_file_format(schema.file)
    if persons is None:
        return _opened(data, schema.columns, memory, None, written=written)
    source = _opened(data, persons.read, memory, persons, written=written)
    if hasattr(source, "taken"):
        return source
    # A query may give its rows in another order whenever it is asked.
    steady = frames.kept_query(source, memory=memory_for_rows(memory))
    return of_persons(steady, persons)


def _opened(
    data: object,
    columns: Mapping[str, Column],
    memory: str | int | None,
    persons: Persons | None,
    *,
    written: FileFormat,
) -> Source:
    paths = [data] if isinstance(data, (str, os.PathLike)) else data
    if isinstance(paths, (list, tuple)) and paths and all(isinstance(p, (str, os.PathLike)) for p in paths):
        return files.open_paths([os.fspath(p) for p in paths], columns, written)
    from smoothsynth.private.engines import frames_of

    cluster = frames_of(data)
    if cluster is not None:
        return cast("Source", cluster.open_frame(data, columns, persons))
    return frames.open_frame(data, columns, memory=memory_for_rows(memory))
