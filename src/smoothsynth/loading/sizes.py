"""How large the files of a release can be: what is larger is refused before it is read or hashed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError
from smoothsynth.loading.rows import memory
from smoothsynth.plan import MOST_COORDINATES
from smoothsynth.release import CSV_FILE, MOMENTS_FILE, REPORT_FILE, ROWS_FILE
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from pathlib import Path

    from smoothsynth.schema import Schema

_MIB = 2**20
# A page has at most some 3 MB of data (report.contents) and its texts.
_MOST_PAGE, MOST_MOMENTS, MOST_RECEIPT = 32 * _MIB, 256 * _MIB, 16 * _MIB
# Letters of a number, a date or an instant in a CSV file; and bytes about a column in each group of a Parquet file.
_CELL, _ABOUT = 32, 8192
_GROUP = 2**20


def check_sizes(folder: Path, schema: Schema, count: int) -> None:
    """Refuse a folder with a file that is larger than one of `count` rows of this schema can be."""
    if schema.dimensions > MOST_COORDINATES:
        raise ReleaseError(
            f"A release has at most {MOST_COORDINATES:,} coordinates; this one has {schema.dimensions:,}."
        )
    for name, most in _largest(schema, count).items():
        path = folder / name
        if path.is_file() and path.stat().st_size > most:
            raise ReleaseError(
                f"{name} has {path.stat().st_size:,} bytes; that of {count:,} rows of this schema has at most {most:,}. "
                "It is not read."
            )


def _largest(schema: Schema, count: int) -> dict[str, int]:
    # Two bytes for quotes and one for the comma; a quote within a text is written twice.
    cells = [3 + 2 * _longest(column) for column in schema.columns.values()]
    heads = [3 + 2 * len(name.encode()) for name in schema.names]
    groups = count // _GROUP + 1
    about = groups * sum(_ABOUT + 8 * (cell + head) for cell, head in zip(cells, heads, strict=True))
    rows = {ROWS_FILE: count * sum(cells) + about, CSV_FILE: count * sum(cells) + sum(heads)}
    # Beside rows that fit into memory, their file does.
    bounded = {name: min(most + _MIB, memory()) for name, most in rows.items()}
    return {REPORT_FILE: _MOST_PAGE, MOMENTS_FILE: MOST_MOMENTS, **bounded}


def _longest(column: object) -> int:
    """Return the bytes of the longest value of a column, as text."""
    if not isinstance(column, Category):
        return _CELL
    return max(_CELL, *(len(str(level).encode("utf-8", "surrogatepass")) for level in column.levels))
