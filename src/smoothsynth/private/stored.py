"""What all files of rows share: they stay as they were, and no error of Arrow leaves this room.

Arrow's own errors quote rows and cells. None of them is passed on, neither as a message nor as the cause or
the context of another error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from smoothsynth.errors import DataError
from smoothsynth.private.columns import check_names, check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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
