"""Tables in Parquet files, read in bounded memory: each thread decodes its own row groups, a few pages at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from smoothsynth.private.stored import Stamp, arrow, check_fields, check_stamp, each, read_fields, stamp
from smoothsynth.private.validation import validated
from smoothsynth.schema.cells import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.schema import Column

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
