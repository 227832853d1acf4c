"""Tables in Arrow IPC files (also called Feather) and streams, mapped into memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from smoothsynth.private.stored import Field, Stamp, arrow, check_fields, check_stamp, each, read_fields, stamp
from smoothsynth.private.validation import validated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.schema import Column

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
