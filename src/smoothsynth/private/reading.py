"""Tables in files, read in bounded memory: Parquet (also a folder of it), Arrow IPC and CSV.

Arrow's own errors quote rows and cells. None of them leaves this module, neither as a message nor as the
cause or the context of another error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from smoothsynth.errors import DataError
from smoothsynth.private import comma_separated
from smoothsynth.private.columns import check_names, check_types, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from smoothsynth.private.table import Source

T = TypeVar("T")

SUFFIXES = ".csv, .csv.gz, .parquet, .arrow or .feather"
# Without a buffer size Arrow holds whole column chunks of a row group, and with pre_buffer the whole file.
_PARQUET_BUFFER = 2**18


def open_path(path: Path, names: tuple[str, ...]) -> Source:
    """Return the source of rows for a file or a folder; it must have the columns that are named."""
    kind = _kind(path)
    if kind == "csv":
        found = comma_separated.column_names(path)
        check_names(names, found, where=str(path))
        return comma_separated.CsvSource(path, names, comma_separated.count_rows(path, found))
    if kind == "ipc":
        rows = _arrow(path, lambda: _count_ipc(path, names))
        return IpcSource(path, names, rows)
    files = _parquet_files(path)
    return ParquetSource(files, names, sum(_count_parquet(file, names) for file in files))


def column_kinds(path: str | Path) -> list[tuple[str, str]]:
    """Return the names of the columns of a file, and what they hold: number, integer, or another in words.

    The types of a CSV file are guessed from its first rows.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "csv":
        return comma_separated.guess_kinds(path)
    if kind == "ipc":
        schema = _arrow(path, lambda: _open_ipc(path).schema)
    else:
        first = _parquet_files(path)[0]
        schema = _arrow(first, lambda: _open_parquet(first).schema_arrow)
    return [(field.name, kind_of(field.type)) for field in schema]


@dataclass(frozen=True, slots=True, repr=False)
class ParquetSource:
    """Rows of one or more Parquet files."""

    files: tuple[Path, ...]
    names: tuple[str, ...]
    rows: int

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows; a few pages of each column are held."""
        for path in self.files:
            file = _arrow(path, partial(_open_parquet, path))
            with file:
                parts = _arrow(path, partial(file.iter_batches, batch_size=batch_rows, columns=list(self.names)))
                yield from _each(path, (batch.select(list(self.names)) for batch in parts))


@dataclass(frozen=True, slots=True, repr=False)
class IpcSource:
    """Rows of an Arrow IPC file (also called Feather), mapped into memory."""

    path: Path
    names: tuple[str, ...]
    rows: int

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, without a copy if the file is not compressed."""
        reader = _arrow(self.path, lambda: _open_ipc(self.path, self.names))
        parts = (reader.get_batch(i).select(list(self.names)) for i in range(reader.num_record_batches))
        for chosen in _each(self.path, parts):
            yield from (chosen.slice(start, batch_rows) for start in range(0, chosen.num_rows, batch_rows))


def _kind(path: Path) -> str:
    """Say how a path is to be read: csv, ipc or parquet (a folder is parquet)."""
    problem = _refusal(path)
    if problem:
        raise DataError(f"{path} cannot be read: {problem}. Check the path, and that you may read it.")
    if path.is_dir():
        return "parquet"
    suffix = path.name.lower()
    if suffix.endswith((".csv", ".csv.gz")):
        return "csv"
    if suffix.endswith((".arrow", ".feather")):
        return "ipc"
    if suffix.endswith(".parquet"):
        return "parquet"
    raise DataError(f"{path} must end in {SUFFIXES}, or be a folder of .parquet files. Convert it first.")


def _refusal(path: Path) -> str | None:
    try:
        if not path.is_dir():
            path.open("rb").close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "it is not a path"
    return None


def _parquet_files(path: Path) -> tuple[Path, ...]:
    if not path.is_dir():
        return (path,)
    # Names that begin with a dot or an underscore are the bookkeeping of other tools.
    inside = [p for p in path.rglob("*.parquet") if p.is_file() and p.name[0] not in "._"]
    if not inside:
        raise DataError(f"The folder {path} must hold .parquet files and holds none. Name the file itself.")
    return tuple(sorted(inside))


def _open_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PARQUET_BUFFER)


def _count_parquet(path: Path, names: Sequence[str]) -> int:
    with _arrow(path, lambda: _open_parquet(path)) as file:
        schema = _arrow(path, lambda: file.schema_arrow)
        _check_schema(schema, names, path)
        return int(file.metadata.num_rows)


def _open_ipc(path: Path, names: Sequence[str] | None = None) -> Any:
    import pyarrow as pa

    mapped = pa.memory_map(str(path))
    if names is None:
        return pa.ipc.open_file(mapped)
    everything = pa.ipc.open_file(mapped).schema
    chosen = [everything.get_field_index(name) for name in names]
    return pa.ipc.open_file(mapped, options=pa.ipc.IpcReadOptions(included_fields=chosen))


def _count_ipc(path: Path, names: Sequence[str]) -> int:
    _check_schema(_open_ipc(path).schema, names, path)
    reader = _open_ipc(path, names)
    return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _check_schema(schema: pa.Schema, names: Sequence[str], path: Path) -> None:
    check_names(names, schema.names, where=str(path))
    check_types(names, [schema.field(name).type for name in names], where=str(path))


def _each(path: Path, parts: Iterator[T]) -> Iterator[T]:
    """Go through parts of a file; an error of Arrow becomes one of ours."""
    end = object()
    while True:
        part = _arrow(path, lambda: next(parts, end))
        if part is end:
            return
        yield part  # type: ignore[misc]


def _arrow(path: Path, action: Callable[[], T]) -> T:
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
