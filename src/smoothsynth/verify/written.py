"""Write the rows again, and compare the files: nothing may be in them beside the rows.

Other versions of Arrow may write other bytes for the same rows. Then the values are compared, and a warning says so.
"""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, Any

from smoothsynth.loading.files import plain_file
from smoothsynth.loading.rows import written_by
from smoothsynth.release import CSV_FILE, ROWS_FILE, sha256, write_csv, write_rows
from smoothsynth.verify.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow

    from smoothsynth.verify.evidence import Evidence


class Digest(io.RawIOBase):
    """A file that keeps the SHA-256 and the size of what is written, and nothing else."""

    def __init__(self) -> None:
        self._hash, self.size = hashlib.sha256(), 0

    def writable(self) -> bool:
        """Say that it can be written."""
        return True

    def write(self, data: Any) -> int:
        """Take some bytes."""
        self._hash.update(data)
        self.size += memoryview(data).nbytes
        return memoryview(data).nbytes

    @property
    def hexadecimal(self) -> str:
        """The SHA-256 of all that was written."""
        return self._hash.hexdigest()


def check_parquet(evidence: Evidence) -> list[Check]:
    """Write the rows as Parquet again and compare; its footer was checked before it was read."""
    if _again(evidence.table, write_rows).hexadecimal == sha256(evidence.folder / ROWS_FILE):
        return [Check("parquet", "passed", f"{ROWS_FILE}, written again from its rows, is the same byte for byte.")]
    words = f"{ROWS_FILE} is not, byte for byte, what Arrow {_version()} writes for its rows"
    by = written_by(evidence.folder / ROWS_FILE)
    if by.rpartition(" ")[2] == _version():
        return [Check("parquet", "failed", f"{words}, although it says that this version wrote it.")]
    beside = "what else may be in it was not compared. Take the rows from `ss.load`, not from the file"
    return [Check("parquet", "warning", f"{words}. It says that {by} wrote it: {beside}.")]


def check_csv(evidence: Evidence) -> list[Check]:
    """Hold synthetic.csv, if the release has one, against what the rows give; by values, if another Arrow wrote it."""
    if CSV_FILE not in evidence.facts["sha256"]:
        return []
    path, again = plain_file(evidence.folder, CSV_FILE), _again(evidence.table, write_csv)
    if sha256(path) == again.hexadecimal:
        words = f"{CSV_FILE} holds the same {evidence.table.num_rows:,} rows as {ROWS_FILE}, and nothing else."
        return [Check("csv", "passed", words)]
    other = written_by(evidence.folder / ROWS_FILE).rpartition(" ")[2] != _version()
    if other and path.stat().st_size < 2 * again.size and _same_values(evidence):
        words = f"{CSV_FILE} holds the rows of {ROWS_FILE}, but not byte for byte as Arrow {_version()} writes them."
        return [Check("csv", "warning", words)]
    return [Check("csv", "failed", f"{CSV_FILE} is not what the rows of {ROWS_FILE} give.")]


def _again(table: pyarrow.Table, write: Callable[[pyarrow.Table, Any], None]) -> Digest:
    digest = Digest()
    write(table, digest)
    return digest


def _same_values(evidence: Evidence) -> bool:
    from pyarrow import csv

    types = {name: column.arrow_type() for name, column in evidence.schema.columns.items()}
    # An empty cell is a missing one; any other text may be a level.
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])
    lines = csv.ParseOptions(ignore_empty_lines=len(types) == 1)
    with (evidence.folder / CSV_FILE).open("rb") as file:
        read = csv.read_csv(file, parse_options=lines, convert_options=options)
    return read.column_names == list(types) and bool(read.combine_chunks().equals(evidence.table.combine_chunks()))


def _version() -> str:
    import pyarrow

    return str(pyarrow.__version__)
