"""Parquet and Arrow files.

What all files of rows share: they stay as they were, and no error of Arrow leaves this room.

Arrow's own errors quote rows and cells. None of them is passed on, neither as a message nor as the cause or
the context of another error.

Tables in Parquet files, read in bounded memory: each thread decodes its own row groups, a few pages at a time.

Tables in Arrow IPC files (also called Feather) and streams, mapped into memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from smoothsynth.errors import DataError
from smoothsynth.private.sources.cells import check_names, check_types
from smoothsynth.private.sources.validation import validated
from smoothsynth.schema.cells import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.schema import Column


T = TypeVar("T")

# The size of a file and the time of its last change, in nanoseconds.
Stamp = tuple[int, int]
Field = tuple[str, "pa.DataType"]


def stamp(path: Path) -> Stamp | None:
    """Return what changes when a file is written to; None if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def check_stamp(path: Path, before: Stamp | None) -> None:
    """Refuse a file that was written to since it was opened: every pass must see the same rows."""
    if before is not None and stamp(path) != before:
        raise DataError(
            f"{path} must stay as it was when it was opened, and has been written to or removed since. "
            "Make sure that nothing writes to it, and start again."
        )


def read_fields(path: Path, schema: Callable[[], pa.Schema]) -> list[Field]:
    """Return the names and types of the columns of a file; names are decoded here, which may fail."""
    return arrow(path, lambda: [(field.name, field.type) for field in schema()])


def check_fields(fields: list[Field], columns: Mapping[str, Column], path: Path) -> None:
    """Refuse a file without these columns, or in which one of them does not hold what the schema says."""
    check_names(tuple(columns), [name for name, _ in fields], where=str(path))
    types = dict(fields)
    check_types(columns, [types[name] for name in columns], where=str(path))


def each(path: Path, parts: Iterator[T]) -> Iterator[T]:
    """Go through parts of a file; an error of Arrow becomes one of ours."""
    end = object()
    while True:
        part = arrow(path, lambda: next(parts, end))
        if part is end:
            return
        yield part  # type: ignore[misc]


def arrow(path: Path, action: Callable[[], T]) -> T:
    """Do something with a file; an error of Arrow, which may quote values, is replaced and not chained."""
    import pyarrow as pa

    try:
        return action()
    except (pa.ArrowException, OSError, ValueError, EOFError, KeyError):
        pass
    raise DataError(
        f"{path} must be a whole file of the kind its name says, and cannot be read as one: it is cut short, "
        "damaged or of another kind. Write it again."
    )


# Without a buffer size Arrow holds whole column chunks of a row group, and with pre_buffer the whole file.
_BUFFER = 2**18


@dataclass(frozen=True, slots=True, repr=False)
class ParquetSource:
    """Rows of one or more Parquet files."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    rows: int
    groups: int = 0
    stamps: tuple[Stamp | None, ...] = ()

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order; the columns of a batch are decoded side by side."""
        for path, before in self._stamped():
            yield from _read(path, before, self.names, batch_rows)

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that can be read by different threads: runs of row groups, of at least a batch each."""
        if self.groups < 2 * readers:
            yield from ((batch,) for batch in self.batches(batch_rows))
            return
        for path, before in self._stamped():
            check_stamp(path, before)
            metadata = arrow(path, partial(_metadata, path))
            sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
            for run in _runs(sizes, batch_rows):
                yield _read(path, before, self.names, batch_rows, metadata=metadata, groups=run)

    def _stamped(self) -> Iterable[tuple[Path, Stamp | None]]:
        return zip(self.files, self.stamps or (None,) * len(self.files), strict=True)


def open_files(files: Sequence[Path], columns: Mapping[str, Column]) -> ParquetSource:
    """Return the source of rows for Parquet files; each must have these columns."""
    rows, groups, stamps = 0, 0, []
    for path in files:
        stamps.append(stamp(path))
        with arrow(path, partial(open_parquet, path)) as file:
            check_fields(read_fields(path, partial(_schema, file)), columns, path)
            rows, groups = rows + int(file.metadata.num_rows), groups + int(file.metadata.num_row_groups)
    return ParquetSource(tuple(files), tuple(columns), rows, groups, tuple(stamps))


def open_parquet(path: Path, metadata: Any = None, coded: Sequence[str] = ()) -> Any:
    """Open a Parquet file such that little of it is held; checksums are looked at where there are any."""
    from pyarrow import parquet

    return parquet.ParquetFile(
        path,
        metadata=metadata,
        read_dictionary=list(coded),
        pre_buffer=False,
        buffer_size=_BUFFER,
        page_checksum_verification=True,
    )


def _open_columns(path: Path, metadata: Any, names: Sequence[str]) -> Any:
    """Open a file so that no cell of these columns can fail to be read.

    Arrow casts a dictionary to the width of its places that Arrow's own schema in the file asks for, and a cast fails where
    a text is no UTF-8. So where it would, that schema is left out: the columns have the types of Parquet then.
    """
    import pyarrow as pa

    file = open_parquet(path, metadata)
    types = {name: file.schema_arrow.field(name).type for name in names}
    coded = [name for name, type_ in types.items() if pa.types.is_dictionary(type_) and is_text(type_.value_type)]
    if all(types[name].index_type == pa.int32() for name in coded):
        return file
    return open_parquet(path, _without_arrow_schema(file.metadata), coded)


def _without_arrow_schema(metadata: Any) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    footer = pa.BufferOutputStream()
    metadata.write_metadata_file(footer)
    # The key, after its length, becomes one that means nothing to Arrow.
    return parquet.read_metadata(
        pa.BufferReader(footer.getvalue().to_pybytes().replace(b"\x0cARROW:schema", b"\x0cunused:types"))
    )


def _read(
    path: Path,
    before: Stamp | None,
    names: tuple[str, ...],
    batch_rows: int,
    *,
    metadata: Any = None,
    groups: list[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups, in this thread alone; of all, in several."""
    check_stamp(path, before)
    with arrow(path, partial(_open_columns, path, metadata, names)) as file:
        chosen = list(names)
        read = partial(file.iter_batches, batch_size=batch_rows, columns=chosen, row_groups=groups)
        parts = arrow(path, partial(read, use_threads=groups is None))
        yield from each(path, (validated(batch.select(chosen)) for batch in parts))
    check_stamp(path, before)


def _metadata(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_metadata(path)


def _schema(file: Any) -> pa.Schema:
    return file.schema_arrow


def _runs(sizes: Sequence[int], least: int) -> Iterator[list[int]]:
    """Cut the row groups of a file into runs of neighbours with at least so many rows."""
    run: list[int] = []
    for group in range(len(sizes)):
        run.append(group)
        if sum(sizes[i] for i in run) >= least:
            yield run
            run = []
    if run:
        yield run


_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True, repr=False)
class IpcSource:
    """Rows of an Arrow IPC file or stream."""

    path: Path
    names: tuple[str, ...]
    rows: int
    stamp: Stamp | None = None

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, without a copy if the file is not compressed."""
        check_stamp(self.path, self.stamp)
        found = arrow(self.path, partial(_batches, self.path, self.names))
        for batch in each(self.path, (validated(batch.select(list(self.names))) for batch in found)):
            yield from (batch.slice(start, batch_rows) for start in range(0, batch.num_rows, batch_rows))
        check_stamp(self.path, self.stamp)

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that can be summed by different threads."""
        return ((batch,) for batch in self.batches(batch_rows))


def open_file(path: Path, columns: Mapping[str, Column]) -> IpcSource:
    """Return the source of rows for an IPC file or stream."""
    before = stamp(path)
    check_fields(fields(path), columns, path)
    names = tuple(columns)
    rows = arrow(path, lambda: sum(batch.num_rows for batch in _batches(path, names)))
    return IpcSource(path, names, rows, before)


def fields(path: Path) -> list[Field]:
    """Return the names and types of the columns."""
    return read_fields(path, lambda: _open(path).schema)


def _batches(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    everything = _open(path).schema
    chosen = [everything.get_field_index(name) for name in names]
    reader = _open(path, options=pa.ipc.IpcReadOptions(included_fields=chosen))
    if hasattr(reader, "num_record_batches"):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def _open(path: Path, **options: Any) -> Any:
    """Open a file by how it begins: a stream has no mark, and may have the name of a file."""
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    marked = mapped.read(len(_MAGIC)) == _MAGIC
    mapped.seek(0)
    return pa.ipc.open_file(mapped, **options) if marked else pa.ipc.open_stream(mapped, **options)
