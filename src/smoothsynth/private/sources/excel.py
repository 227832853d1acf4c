"""Sheets of Excel and OpenDocument files: the first row has the names, every cell is read by itself, as text.

A row without anything in it is a row of missing cells, as in other files: whether somebody's cells are empty must not
change the number of rows. After the last cell of a sheet nobody can tell how many such rows there are, so none counts there.
A number that is written as a day or a span of time and is far beyond both cannot be converted: all cells of its row are
missing. A sheet is held in memory as a whole.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import DataError
from smoothsynth.private.sources.cells import check_names
from smoothsynth.private.sources.csv import missing_words
from smoothsynth.private.sources.foreign import STOPPED
from smoothsynth.private.sources.frames import ArrowSource
from smoothsynth.schema.cells import arrow_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from smoothsynth.schema import Column

    Rows = list[list[Any]]


def open_file(path: Path, columns: Mapping[str, Column], sheet: str | None) -> ArrowSource:
    """Return the source of rows for a sheet: the one with this name, or the first."""
    import pyarrow as pa

    names, rows = _read(path, sheet)
    check_names(tuple(columns), names, where=str(path))
    missing = frozenset(missing_words(columns))
    cells = {
        name: arrow_of([_cell(row[names.index(name)], missing) for row in rows], column)
        for name, column in columns.items()
    }
    return ArrowSource(pa.Table.from_pydict(cells))


def names_of(path: Path, sheet: str | None) -> list[str]:
    """Return the names in the first row."""
    return _read(path, sheet)[0]


def _read(path: Path, sheet: str | None) -> tuple[list[str], Rows]:
    found = _sheet(path, sheet)
    filled = [place for place, row in enumerate(found) if any(cell not in ("", None) for cell in row)]
    rows = found[filled[0] : filled[-1] + 1] if filled else []
    if not rows:
        raise DataError(
            f"{path} must have a row of column names and at least one more, and has not. Name another sheet."
        )
    return [str(name).strip() for name in rows[0]], rows[1:]


def _sheet(path: Path, sheet: str | None) -> Rows:
    """Return all rows of a sheet; a foreign error may quote cells, and is replaced and not chained."""
    try:
        calamine = importlib.import_module("python_calamine")
    except ImportError:
        raise DataError(f"{path} can be read once there is python-calamine: pip install 'smoothsynth[excel]'") from None
    found: Rows | None = None
    known: list[str] | None = None
    try:
        with calamine.CalamineWorkbook.from_path(path) as book:
            known = list(book.sheet_names)
            if sheet is None or sheet in known:
                found = _rows(book.get_sheet_by_name(known[0] if sheet is None else sheet))
    except STOPPED:
        raise
    except BaseException:
        known = None
    if known is None:
        raise DataError(f"{path} must be a whole Excel or OpenDocument file, and cannot be read as one. Save it again.")
    if found is None:
        raise DataError(
            f"{path} must have the sheet {sheet!r:.80} and has not. Name one of its sheets in [file] of the schema."
        )
    return found


def _rows(sheet: Any) -> Rows:
    """Return all rows of a sheet; of one with a cell that cannot be converted, all cells are missing."""
    if sheet.end is None:
        return []
    (last, width), cells, found = sheet.end, sheet.iter_rows(), []
    for _ in range(last + 1):
        try:
            found.append(next(cells))
        except StopIteration:
            break
        except (*STOPPED, MemoryError):
            raise
        except BaseException:
            # No empty cells: such a row counts at the end of a sheet too.
            found.append([math.nan] * (width + 1))
    return found


def _cell(value: Any, missing: frozenset[str]) -> Any:
    """Return a cell; one that is empty or a usual word for nothing is missing."""
    return None if isinstance(value, str) and (not value.strip() or value.strip() in missing) else value
