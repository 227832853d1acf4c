"""The rows of a release folder, read back, and how much may be read.

Read synthetic.parquet: its footer first, then, if that is the footer of a release, the rows.

How large the files of a release can be: what is larger is refused before it is read or hashed.

Text in a CSV file that a spreadsheet takes for a formula.

Values are never changed for it: a level must be read back as the same level. What can be done is to say so, to whoever
publishes the file. A negative number is no formula, nor is a sign alone, which statistical tables use for "nothing".
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import ReleaseError
from smoothsynth.pipeline.metadata import METADATA_FILES
from smoothsynth.pipeline.plan import MOST_COORDINATES
from smoothsynth.pipeline.release import CSV_FILE, MOMENTS_FILE, PRIOR_FILE, REPORT_FILE, ROWS_FILE
from smoothsynth.schema import Category
from smoothsynth.schema.encoding import outside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow

    from smoothsynth.schema import Column, Schema


_WRITER = re.compile(r"parquet-cpp-arrow version \d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)
_MAGIC, _TAIL = 4, 8
# What all checks take at their peak, in copies of the rows and their coordinates (about 6.6 were seen with 4 million rows).
_COPIES = 7
# The memory of a machine, if it cannot be asked.
_UNKNOWN_MEMORY = 8 * 2**30


def read_rows(path: Path, schema: Schema, count: int) -> pyarrow.Table:
    """Read the rows of a file that has `count` of them, the columns and types of the schema, and nothing else."""
    import pyarrow
    from pyarrow import parquet

    _check_memory(schema, count)
    with path.open("rb") as file:
        try:
            rows = parquet.ParquetFile(file)
            _check_footer(rows, schema, count)
            _check_nothing_else(rows, size=path.stat().st_size, tail=_tail(file))
            table = rows.read()
            table.validate(full=True)
        except (pyarrow.ArrowException, OSError, ValueError, EOFError) as error:
            raise ReleaseError(f"{ROWS_FILE} cannot be read as Parquet.") from error
    if table.num_rows != count:
        raise ReleaseError(f"{ROWS_FILE} has other rows than it says.")
    return pyarrow.table(table.columns, names=list(schema.names))


def read_prior(path: Path, schema: Schema, count: int) -> pyarrow.Table:
    """Read the public rows that a model began with, each a row that the schema can have."""
    try:
        table = read_rows(path, schema, count)
    except ReleaseError as error:
        raise ReleaseError(str(error).replace(ROWS_FILE, PRIOR_FILE)) from error
    if any(map(outside, schema.columns.values(), table.columns)):
        raise ReleaseError(f"{PRIOR_FILE} must have a value that its column can take in every cell, and has not.")
    return table


def written_by(path: Path) -> str:
    """Return which software a Parquet file says that it was written by."""
    from pyarrow import parquet

    return str(parquet.read_metadata(path).created_by)


def _check_memory(schema: Schema, count: int) -> None:
    """Refuse more rows than fit into memory, before anything of that size is made."""
    cells = [
        8 if not isinstance(c, Category) else 4 + max(len(str(level)) for level in c.levels)
        for c in schema.columns.values()
    ]
    needed, there = _COPIES * count * (sum(cells) + 8 * schema.dimensions), memory()
    if needed > there:
        raise ReleaseError(
            f"The receipt says {count:,} synthetic rows. To check them takes about {needed / 2**30:.1f} GiB; this "
            f"machine has {there / 2**30:.1f} GiB. Read the release on a larger one, if you trust it."
        )


def memory() -> int:
    """Return the memory of the machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY


def _check_footer(rows: Any, schema: Schema, count: int) -> None:
    """Hold names, types and the number of rows in the footer against the receipt.

    To ask for a column that contradicts its schema ends the process, deep in Arrow; to read it is an error only. So the
    first row of each group is read before.
    """
    wanted = [(name, column.arrow_type()) for name, column in schema.columns.items()]
    if list(zip(rows.schema_arrow.names, rows.schema_arrow.types, strict=True)) != wanted:
        raise ReleaseError(f"{ROWS_FILE} must have the {len(wanted)} columns and types of the schema, and has not.")
    if rows.metadata.num_rows != count:
        raise ReleaseError(f"{ROWS_FILE} has {rows.metadata.num_rows:,} rows; the receipt says {count:,}.")
    flat = [rows.metadata.schema.column(j) for j in range(rows.metadata.num_columns)]
    if len(flat) != len(wanted) or any((c.max_definition_level, c.max_repetition_level) != (1, 0) for c in flat):
        raise ReleaseError(f"{ROWS_FILE} must have one cell of each column in a row, as Arrow writes it, and has not.")
    groups = [rows.metadata.row_group(i) for i in range(rows.metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != count or any(group.num_rows < 1 for group in groups):
        raise ReleaseError(f"{ROWS_FILE} has other rows than it says.")
    for i in range(len(groups)):
        next(rows.iter_batches(batch_size=1, row_groups=[i], use_threads=False), None)
    cells = [(group.num_columns, *(chunk.num_values for chunk in _columns(group))) for group in groups]
    if cells != [(len(wanted), *[group.num_rows] * len(wanted)) for group in groups]:
        raise ReleaseError(f"{ROWS_FILE} has other rows than it says.")


def _check_nothing_else(rows: Any, *, size: int, tail: int) -> None:
    """Refuse metadata that the writer does not write, and bytes that belong to no column."""
    metadata, schema = rows.metadata, rows.schema_arrow
    noted = {*(metadata.metadata or {})} - {b"ARROW:schema"}
    noted |= {key for one in (schema, *schema) for key in (one.metadata or {})}
    if noted or any(getattr(chunk, "metadata", None) or chunk.file_path for chunk in _chunks(metadata)):
        raise ReleaseError(f"{ROWS_FILE} has metadata beside its rows, which a release has not.")
    if not _WRITER.fullmatch(str(metadata.created_by)):
        raise ReleaseError(f"{ROWS_FILE} must say that Arrow wrote it, and which version; it says something else.")
    end = _MAGIC
    for chunk in _chunks(metadata):
        starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
        if min(start for start in starts if start is not None) != end:
            raise ReleaseError(f"{ROWS_FILE} has bytes that belong to no column.")
        end += chunk.total_compressed_size
    if end + metadata.serialized_size + _TAIL != size or tail != metadata.serialized_size:
        raise ReleaseError(f"{ROWS_FILE} has bytes that belong to no column.")


def _chunks(metadata: Any) -> Iterator[Any]:
    """Go through the columns of all row groups in the order in which they are written."""
    for i in range(metadata.num_row_groups):
        yield from _columns(metadata.row_group(i))


def _columns(group: Any) -> Iterator[Any]:
    return (group.column(j) for j in range(group.num_columns))


def _tail(file: Any) -> int:
    """Return the length of the footer, which stands before the last four bytes."""
    file.seek(-_TAIL, os.SEEK_END)
    return int.from_bytes(file.read(4), "little")


_MIB = 2**20
# A page has at most some 3 MB of data (report.contents) and its texts.
_MOST_PAGE, MOST_MOMENTS, MOST_RECEIPT = 32 * _MIB, 256 * _MIB, 16 * _MIB
# Letters of a number, a date or an instant in a CSV file; and bytes about a column in each group of a Parquet file.
_CELL, _ABOUT = 32, 8192
_GROUP = 2**20


def check_sizes(folder: Path, schema: Schema, count: int, *, prior_rows: int = 0) -> None:
    """Refuse a folder with a file that is larger than one of `count` rows of this schema can be."""
    if schema.dimensions > MOST_COORDINATES:
        raise ReleaseError(
            f"A release has at most {MOST_COORDINATES:,} coordinates; this one has {schema.dimensions:,}."
        )
    largest = _largest(schema, count) | {PRIOR_FILE: _largest(schema, prior_rows)[ROWS_FILE]}
    for name, most in largest.items():
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
    texts = dict.fromkeys(METADATA_FILES, _MOST_PAGE)
    return {**texts, REPORT_FILE: _MOST_PAGE, MOMENTS_FILE: MOST_MOMENTS, **bounded}


def _longest(column: object) -> int:
    """Return the bytes of the longest value of a column, as text."""
    if not isinstance(column, Category):
        return _CELL
    return max(_CELL, *(len(str(level).encode("utf-8", "surrogatepass")) for level in column.levels))


_BEGINS = re.compile(r"[=+\-@\t\r]")
_HARMLESS = re.compile(r"[+-]?|[+-](\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?\s*%?")


def is_formula(text: str) -> bool:
    """Say whether a spreadsheet that opens a cell with this text may compute something."""
    return bool(_BEGINS.match(text)) and not _HARMLESS.fullmatch(text)


def columns_with_formulas(schema: Schema) -> list[str]:
    """Return the columns with a name, a level or another text that a spreadsheet takes for a formula."""
    return [name for name, column in schema.columns.items() if any(map(is_formula, _texts(name, column)))]


def _texts(name: str, column: Column) -> list[str]:
    """Return all texts about a column in CSV files: its name and levels, and what the codebook says."""
    levels = [level for level in column.levels if isinstance(level, str)] if isinstance(column, Category) else []
    return [name, *levels, column.description or "", getattr(column, "unit", None) or ""]
