"""Write the page and the files again, and compare them byte by byte.

Draw the page again from receipt, moments and rows, and compare it with the one in the folder.

The page is a function of these and of the version of the software, up to the last digits of figures, which depend on the
processor. Its texts and its script hold none of those.

Write the rows again, and compare the files: nothing may be in them beside the rows.

Other versions of Arrow may write other bytes for the same rows. Then the values are compared, and a warning says so.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth._runtime import VERSION
from smoothsynth.pipeline.documents import plain_file
from smoothsynth.pipeline.metadata import METADATA_FILES, metadata
from smoothsynth.pipeline.readme import README_FILE
from smoothsynth.pipeline.release import CSV_FILE, REPORT_FILE, ROWS_FILE, as_script_data, sha256, write_csv, write_rows
from smoothsynth.pipeline.stored_rows import written_by
from smoothsynth.verification.check import Check, verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow

    from smoothsynth.verification.folder import Evidence


_NEAR, _TINY = 1e-6, 1e-12
# Figures of other last digits may be longer or shorter.
_LONGER = 2.0
_DATA = re.compile(r'(?<=<script type="application/json" id="release-data">)([^<]*)(?=</script>)')
# All that is computed in floating point, by its place in the data; the rest, rows above all, is exact on any machine.
_FIGURES = frozenset(
    {"columns.low", "columns.high", "columns.width", "correlations", "noise",
     "stored.value", "stored.low", "stored.high", "stored.noise", "stored.fit", "stored.unseen", "stored.sampling",
     "answering.settings.joint", "answering.settings.rest"}
)  # fmt: skip
_ARRAYS = frozenset(
    {"answering.test", "answering.variances", "answering.released", "answering.residuals", "answering.rounds.factors",
     "answering.pair_scales"}
)  # fmt: skip
# Differences of figures of order one: their rounding is not relative to what is left.
_DIFFERENCES = frozenset(
    {
        "correlations",
        "stored.low",
        "stored.noise",
        "stored.fit",
        "stored.unseen",
        "answering.test",
        "answering.residuals",
    }
)
# Written to five digits.
_SHORT = frozenset({"correlations", "noise"})


def check_page(evidence: Evidence) -> list[Check]:
    """Draw the page again; any difference is a failure, but that of last digits, as on another kind of machine."""
    if REPORT_FILE not in evidence.facts["sha256"]:
        return [Check("page", "note", f"There is no {REPORT_FILE} in this release.")]
    path = plain_file(evidence.folder, REPORT_FILE)
    if not evidence.stated.receipt.ours:
        words = f"{REPORT_FILE} was drawn by another version; this one ({VERSION}) cannot compare it. Do not open it."
        return [Check("page", "warning", words)]
    again = evidence.release().page(evidence.folder).encode("utf-8")
    page = path.read_bytes() if path.stat().st_size <= _LONGER * len(again) else b""
    if page == again:
        words = f"{REPORT_FILE}, drawn again from receipt, moments and rows, is the same byte for byte."
        return [Check("page", "passed", words)]
    if _near(page, again.decode("utf-8")):
        words = (
            f"{REPORT_FILE}, drawn again, differs in the last digits of figures, as it may on another kind of machine."
        )
        return [Check("page", "warning", words)]
    return [Check("page", "failed", f"{REPORT_FILE} is not the page that receipt, moments and rows give.")]


def _near(kept: bytes, again: str) -> bool:
    """Whether two pages have the same texts and script, and computed figures that differ by one part in a million."""
    try:
        texts = [_DATA.split(text) for text in (kept.decode("utf-8"), again)]
        if [len(parts) for parts in texts] != [3, 3] or texts[0][::2] != texts[1][::2]:
            return False
        stated, drawn = (json.loads(parts[1]) for parts in texts)
        # Each value has one text only.
        return as_script_data(stated) == texts[0][1] and _alike(stated, drawn, kind=drawn["answering"]["test_encoding"])
    except (ValueError, RecursionError):
        return False


def _alike(one: Any, other: Any, place: str = "", *, kind: str) -> bool:
    """Whether values are equal, but for computed figures; `kind` is how the page has its test rows."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        inner = (_alike(one[key], other[key], f"{place}.{key}".lstrip("."), kind=kind) for key in other if key in one)
        return list(one) == list(other) and all(inner)
    if isinstance(one, list):
        return len(one) == len(other) and all(_alike(a, b, place, kind=kind) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and place in _FIGURES:
        return (place not in _SHORT or float(f"{one:.5g}") == one) and _close(one, other, place)
    if isinstance(one, str) and place in _ARRAYS:
        return one == other or _alike_arrays(one, other, place, kind if place == "answering.test" else "float64")
    return bool(one == other)


def _alike_arrays(one: str, other: str, place: str, kind: str) -> bool:
    kept, drawn = (base64.b64decode(text, validate=True) for text in (one, other))
    if len(kept) != len(drawn) or base64.b64encode(kept).decode("ascii") != one:
        return False
    dtype = np.dtype(kind).newbyteorder("<")
    return _close(np.frombuffer(kept, dtype), np.frombuffer(drawn, dtype), place)


def _close(one: Any, other: Any, place: str) -> bool:
    slack = _TINY if place in _DIFFERENCES else 0.0
    return bool(np.isclose(one, other, rtol=_NEAR, atol=slack).all())


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


def check_metadata(evidence: Evidence) -> list[Check]:
    """Write the files that describe the release again from the receipt; any difference is a failure."""
    named = set(evidence.facts["sha256"])
    if not named & METADATA_FILES:
        return [Check("metadata", "note", f"There is no {README_FILE}, and no other file that describes this release.")]
    if not evidence.stated.receipt.ours:
        words = (
            f"{README_FILE} and the catalogue files are of another version; this one ({VERSION}) cannot compare them."
        )
        return [Check("metadata", "warning", words)]
    again = metadata(evidence.stated.receipt, evidence.folder, named - METADATA_FILES)
    problems = [f"{name} must be there, beside the others." for name in sorted(set(again) - named)]
    problems += [f"{name} must not be there." for name in sorted((named & METADATA_FILES) - set(again))]
    for name in sorted(named & set(again)):
        if plain_file(evidence.folder, name).read_bytes() != again[name].encode("utf-8"):
            problems.append(f"{name} is not what the receipt gives.")
    words = f"{', '.join(sorted(again))}, written again from the receipt, are the same byte for byte."
    return verdict("metadata", problems, words)


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
