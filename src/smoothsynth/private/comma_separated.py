"""Tables in CSV files: UTF-8, commas, a first line of names; cells are read as text (private/columns.py).

The file is gone through twice: once when it is opened, to count its rows and to find every line that
cannot be read before any budget is spent, and once for the sums.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import DataError
from smoothsynth.private.columns import kind_of
from smoothsynth.private.stored import Stamp, check_stamp
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.schema import Column

_BLOCK = 2**21
# As Arrow and pandas read them.
_MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA",
            "NULL", "NaN", "n/a", "nan", "null")  # fmt: skip
_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
# What Arrow says of a bad file, each up to the point where it begins to quote the file.
_BAD_TEXT = re.compile(r"In CSV column #\d+: (Row #\d+: )?CSV conversion error to \w+: invalid UTF8 data")
_BAD_LINE = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected \d+ columns, got \d+")
_EMPTY = re.compile(r"(CSV parse error: )?Empty CSV file")
_TOO_LONG = re.compile(r"straddling object straddles two block boundaries")


@dataclass(frozen=True, slots=True, repr=False)
class CsvSource:
    """Rows of a CSV file."""

    path: Path
    names: tuple[str, ...]
    rows: int
    stamp: Stamp | None = None
    missing: tuple[str, ...] = ("",)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with cells as text."""
        return chain.from_iterable(self.parts(batch_rows, 1))

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts of the text, which different threads can read."""
        check_stamp(self.path, self.stamp)
        for text in _read(self.path, self.names, self.missing):
            yield [text.slice(start, batch_rows) for start in range(0, text.num_rows, batch_rows)]
        check_stamp(self.path, self.stamp)


def missing_words(columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the cells that mean a missing one: the usual words, but none that is a level of a category."""
    levels = {text for column in columns.values() if isinstance(column, Category) for text in column.texts}
    return tuple(word for word in _MISSING if word not in levels)


def column_names(path: Path) -> list[str]:
    """Return the names in the first line."""
    return [name for name, _ in guess_kinds(path)]


def guess_kinds(path: Path) -> list[tuple[str, str]]:
    """Return the names in the first line, and what the first rows seem to hold."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith(_OTHER_ENCODINGS):
        raise DataError(_not_utf8(path))
    import pyarrow as pa

    problem, fields = "", []
    try:
        # Names are decoded when they are looked at.
        fields = [(field.name, field.type) for field in _open(path).schema]
    except UnicodeDecodeError:
        problem = _not_utf8(path)
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        problem = _problem(path, str(error))
    if problem:
        raise DataError(problem)
    return [(name, kind_of(type_)) for name, type_ in fields]


def count_rows(path: Path, names: Sequence[str]) -> int:
    """Return the number of rows, after a look at every line and every cell."""
    return sum(batch.num_rows for batch in _read(path, names))


def _read(path: Path, names: Sequence[str], missing: Sequence[str] = ("",)) -> Iterator[pa.RecordBatch]:
    """Yield batches of the named columns as text; an error of Arrow's quotes the file, and is not chained."""
    import pyarrow as pa

    problem, reader = "", None
    while not problem:
        try:
            reader = reader or _open(path, names, missing)
            batch = next(reader, None)
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            problem = _problem(path, str(error))
        else:
            if batch is None:
                return
            yield batch
    raise DataError(problem)


def _open(path: Path, names: Sequence[str] | None = None, missing: Sequence[str] = ("",)) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    convert = csv.ConvertOptions()
    if names is not None:
        unique = list(dict.fromkeys(names))
        convert = csv.ConvertOptions(
            include_columns=unique,
            column_types=dict.fromkeys(unique, pa.string()),
            strings_can_be_null=True,
            null_values=list(missing),
        )
    # Threads would lose the number of a bad line.
    read = csv.ReadOptions(block_size=_BLOCK, use_threads=False)
    parse = csv.ParseOptions(newlines_in_values=True)
    return csv.open_csv(path, read_options=read, parse_options=parse, convert_options=convert)


def _problem(path: Path, message: str) -> str:
    if _BAD_TEXT.match(message):
        return _not_utf8(path)
    if _EMPTY.match(message):
        return f"{path} must have a line of column names and at least one row, and has not. Write it again."
    if _TOO_LONG.match(message):
        return f"{path} has a line longer than {_BLOCK:,} bytes. Check that its quotes are closed."
    line = _BAD_LINE.match(message)
    if line:
        where = f"line {line[1]} (of those that are not empty)" if line[1] else "one line"
        return f"Every line of {path} must have as many cells as the first; {where} has not. Correct that line."
    return f"{path} must be a whole CSV file and cannot be read as one: it is cut short or damaged. Write it again."


def _not_utf8(path: Path) -> str:
    return f"{path} must be text in UTF-8 and is not. Save it again with that encoding."
