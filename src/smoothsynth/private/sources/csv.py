r"""CSV files, read line by line.

Lines of a CSV file: a line is a row, and its cells depend on that line alone.

    line      ends with \\n, before which a \\r is no part of it; a file whose lines end with \\r alone is refused
    cell      ends with a comma; if it begins with a quote, commas count only after the next quote that is not doubled
    quote     that is not closed in its line is closed by the end of the line; any other is a character like all others
    row       of a line with another number of cells than names, or with more than LONGEST bytes: all cells are missing
    blank     lines are no rows, but in a file of one column they are rows with a missing cell

A line break within quotes ends the row too: else one quote that nobody closed would change the rows of all others.

Tables in CSV files: UTF-8 and commas, or what the schema says; a first line of names; cells are read as text
(private/sources/cells.py).

The file is gone through twice: once when it is opened, to count its rows before any budget is spent, and once for the
sums. Which cells a line has is said in private/sources/csv.py. Arrow reads them, and lines on which it might say otherwise
are first rewritten.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.sources.arrow_files import Stamp, arrow, check_stamp, each
from smoothsynth.private.sources.cells import kind_of
from smoothsynth.private.sources.validation import validated
from smoothsynth.schema import Category
from smoothsynth.schema.file import DELIMITERS, USUAL, FileFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema import Column

    Bytes = NDArray[np.uint8]
    Places = NDArray[np.int64]


LONGEST = 2**20
_BLOCK = 2**21
_OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_CELLS = {
    sign.encode(): re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"?)?([^%s]*)' % re.escape(sign.encode())) for sign in DELIMITERS
}
_QUOTE, _BREAK, _RETURN = b'"\n\r'
_UTF_8 = "utf-8"
# Signs that a draft looks for in the line of names, and the encoding of what is no UTF-8.
_GUESSED, _USUAL_BYTES = ",;\t|", "cp1252"


@dataclass(frozen=True, slots=True)
class Form:
    """What the first line says of a CSV file, the names of its columns and where the rows begin; and what the schema says."""

    names: tuple[str, ...]
    start: int
    delimiter: bytes = b","
    encoding: str = _UTF_8

    @property
    def columns(self) -> int:
        """How many cells a line should have."""
        return len(self.names)

    @property
    def nothing(self) -> bytes:
        """A line of which all cells are missing."""
        return self.delimiter * (self.columns - 1)


def form_of(path: Path, written: FileFormat = USUAL) -> Form:
    """Read the line of names, the first that is not blank."""
    with _open(path) as file:
        begin = file.read(LONGEST)
    text = begin.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    line, after = _first_line(text)
    if len(text) == len(line) and len(begin) == LONGEST:
        raise DataError(f"The line of names of {path} must have less than {LONGEST:,} bytes and has more. Shorten it.")
    if not line:
        raise DataError(f"{path} must have a line of column names and at least one row, and has not. Write it again.")
    if after == b"\r":
        # Whether \r or \r\n ends the lines of such a file would be told by the first cell of the first row.
        raise DataError(
            rf"The lines of {path} must end with \n; they end with \r alone. Save it again with other line ends."
        )
    sign = written.delimiter.encode()
    names = tuple(cell.decode(written.encoding, "replace") for cell in cells_of(line, sign))
    if begin.startswith(_OTHER_ENCODINGS) or b"\0" in line:
        raise DataError(f"{path} must be text in UTF-8 and looks like UTF-16. Save it again as UTF-8.")
    if any("\ufffd" in name for name in names):
        raise DataError(
            f"{path} must be text in {written.encoding.upper()} and is not. Save it again as UTF-8, or say which encoding it "
            'has: encoding = "cp1252" in the section [file] of the schema; in Python file={"encoding": "cp1252"}.'
        )
    return Form(names, len(begin) - len(text) + len(line) + len(after), sign, written.encoding)


def _first_line(text: bytes) -> tuple[bytes, bytes]:
    """Return the first line and what ends it."""
    line, after = re.match(rb"([^\r\n]*)(\r\n?|\n?)", text).groups()  # type: ignore[union-attr]
    return line, after


def blocks(path: Path, form: Form) -> Iterator[bytes]:
    r"""Yield the lines after the names, some megabytes at a time; all end with \n, and none is too long."""
    return (_in_utf8(_in_bounds(block, form), form) for block in _whole_lines(path, form))


def _whole_lines(path: Path, form: Form) -> Iterator[bytes]:
    with _open(path) as file:
        file.read(form.start)
        rest = b""
        while chunk := file.read(_BLOCK):
            chunk = rest + chunk
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield chunk[:cut]
            # One byte more than a line may have tells that it is too long.
            rest = chunk[cut : cut + LONGEST + 1]
    if rest and form.columns == 1:
        # Without it, an empty last cell would leave no trace, and the number of rows would tell.
        raise DataError(f"The last line of {path}, a file of one column, must end with a line break. Add one.")
    if rest:
        yield rest + b"\n"


def lost_lines(path: Path, written: FileFormat) -> tuple[int, int]:
    """Return how many rows are missing as a whole, by lines that are too long or have too many or few cells, and all rows."""
    form, lost, rows = read_form(path, written), 0, 0
    for block in each(path, _whole_lines(path, form)):
        lost, rows = lost + _lost(block, form), rows + count_rows(block, form.columns)
    return lost, rows


def _lost(block: bytes, form: Form) -> int:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _BREAK)
    long = np.count_nonzero(np.diff(ends, prepend=-1) - 1 > LONGEST)
    block = _in_utf8(_in_bounds(block, form), form)
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _BREAK)
    starts = np.concatenate(([0], ends[:-1] + 1))
    odd = np.flatnonzero(_irregular(text, starts, ends, form))
    lines = (block[starts[one] : ends[one]].removesuffix(b"\r") for one in odd.tolist())
    return int(long) + sum(len(cells_of(line, form.delimiter)) != form.columns for line in lines if line)


def _in_utf8(block: bytes, form: Form) -> bytes:
    """Return lines in UTF-8; in other encodings a byte is a character, so that each is read by itself."""
    if form.encoding == _UTF_8 or block.isascii():
        return block
    return block.decode(form.encoding, "replace").encode()


def count_rows(block: bytes, columns: int) -> int:
    """Return how many rows a block has."""
    lines = int(np.count_nonzero(np.frombuffer(block, np.uint8) == _BREAK))
    if columns == 1 or not (block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block):
        return lines
    return lines - sum(line in (b"", b"\r") for line in block.split(b"\n")[:-1])


def is_regular(block: bytes, delimiter: bytes = b",") -> bool:
    """Whether any reader of CSV finds the same cells in a block, because all breaks and quotes are where they should be."""
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return False
    return b'"' not in block or _quotes_match(np.frombuffer(block, np.uint8), delimiter)


def rewritten(block: bytes, form: Form) -> bytes:
    """Return a block with the same cells in which any reader of CSV finds them."""
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == _BREAK)
    starts = np.concatenate(([0], ends[:-1] + 1))
    parts, done = [], 0
    for line in np.flatnonzero(_irregular(text, starts, ends, form)).tolist():
        start, end = int(starts[line]), int(ends[line])
        parts += [block[done:start], _rewritten(block[start:end].removesuffix(b"\r"), form)]
        done = end
    return b"".join([*parts, block[done:]])


def _quotes_match(text: Bytes, delimiter: bytes) -> bool:
    """Whether every second quote closes the one before it in the same line, and the others open a cell or double it."""
    quotes = np.flatnonzero(text == _QUOTE)
    if len(quotes) % 2 or not np.all(_may_open(text, quotes[::2], delimiter)):
        return False
    return not np.any(np.searchsorted(quotes, np.flatnonzero(text == _BREAK)) % 2)


def _may_open(text: Bytes, quotes: Places, delimiter: bytes) -> NDArray[np.bool_]:
    """Say of quotes outside of quotes whether they open a cell, or double the one before them and open it again."""
    # Before the first byte of a block the last is found, a break.
    before = text[quotes - 1]
    return (before == delimiter[0]) | (before == _BREAK) | (before == _QUOTE)


def _irregular(text: Bytes, starts: Places, ends: Places, form: Form) -> NDArray[np.bool_]:
    """Say of each line whether its quotes, breaks or number of cells are not as they should be."""
    quotes, commas, returns = (np.flatnonzero(text == byte) for byte in (_QUOTE, form.delimiter[0], _RETURN))
    first, lines = np.searchsorted(quotes, starts), len(ends)
    at = np.searchsorted(ends, quotes)
    found = np.bincount(at, minlength=lines) % 2 == 1
    outside = (np.arange(len(quotes)) - first[at]) % 2 == 0
    found[at[outside & ~_may_open(text, quotes, form.delimiter)]] = True
    at = np.searchsorted(ends, commas)
    outside = (np.searchsorted(quotes, commas) - first[at]) % 2 == 0
    found |= np.bincount(at[outside], minlength=lines) != form.columns - 1
    found[np.searchsorted(ends, returns[text[returns + 1] != _BREAK])] = True
    return found


def cells_of(line: bytes, delimiter: bytes = b",") -> list[bytes]:
    """Return the cells of a line."""
    cells, at, cell = [], 0, _CELLS[delimiter]
    while at <= len(line):
        found = cell.match(line, at)
        quoted, plain = found.groups(b"")  # type: ignore[union-attr]
        cells.append(quoted.replace(b'""', b'"') + plain)
        at = found.end() + 1  # type: ignore[union-attr]
    return cells


def _rewritten(line: bytes, form: Form) -> bytes:
    cells = cells_of(line, form.delimiter)
    if len(cells) != form.columns:
        return form.nothing if line else b""
    return form.delimiter.join(b'"' + cell.replace(b'"', b'""') + b'"' for cell in cells)


def _in_bounds(block: bytes, form: Form) -> bytes:
    """Put a line without cells in the place of each that is too long."""
    at = LONGEST
    # A line that is too long has a byte at a multiple of the length that it exceeds.
    while at < len(block):
        start, stop = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
        if stop - start > LONGEST:
            block = block[:start] + form.nothing + block[stop:]
            at = start
        at += LONGEST
    return block


def _open(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None)


# As Arrow and pandas read them.
_MISSING = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA",
            "NULL", "NaN", "n/a", "nan", "null")  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class CsvSource:
    """Rows of a CSV file."""

    path: Path
    names: tuple[str, ...]
    rows: int
    form: Form
    stamp: Stamp | None = None
    missing: tuple[str, ...] = ("",)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with cells as text."""
        return chain.from_iterable(self.parts(batch_rows, 1))

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts of the text, which different threads can read."""
        check_stamp(self.path, self.stamp)
        for block in each(self.path, blocks(self.path, self.form)):
            yield self._batches(block, batch_rows)
        check_stamp(self.path, self.stamp)

    def _batches(self, block: bytes, batch_rows: int) -> Iterator[pa.RecordBatch]:
        text = arrow(self.path, partial(read_block, block, self.form, self.names, missing=self.missing))
        yield from (text.slice(start, batch_rows) for start in range(0, text.num_rows, batch_rows))


def open_file(path: Path, columns: Mapping[str, Column], form: Form, before: Stamp | None) -> CsvSource:
    """Return the source of rows for a CSV file, after its lines were counted."""
    rows = sum(count_rows(block, form.columns) for block in each(path, blocks(path, form)))
    return CsvSource(path, tuple(columns), rows, form, before, missing_words(columns))


def missing_words(columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the cells that mean a missing one: the usual words, but none that is a level of a category."""
    levels = {text for column in columns.values() if isinstance(column, Category) for text in column.texts}
    return tuple(word for word in _MISSING if word not in levels)


def read_form(path: Path, written: FileFormat = USUAL) -> Form:
    """Return what the first line says."""
    return arrow(path, partial(form_of, path, written))


def guess_format(path: Path) -> FileFormat:
    """Guess from the names and the first rows how a file is written: for a draft, and never for a release."""
    with arrow(path, partial(_open, path)) as file:
        begin = arrow(path, partial(file.read, LONGEST))
    line = begin.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n").partition(b"\n")[0]
    signs = [sign for sign in _GUESSED if len(cells_of(line, sign.encode())) > 1]
    sign = max(signs, key=lambda sign: len(cells_of(line, sign.encode())), default=USUAL.delimiter)
    # A character of UTF-8 may be cut at the end.
    valid = "\ufffd" not in begin[: begin.rfind(b"\n") + 1].decode(_UTF_8, "replace")
    return FileFormat(sign, _UTF_8 if valid else _USUAL_BYTES)


def guess_kinds(path: Path, written: FileFormat = USUAL) -> list[tuple[str, str]]:
    """Return the names in the first line, and what the first rows seem to hold."""
    form = read_form(path, written)
    first = next(each(path, blocks(path, form)), b"")
    table = arrow(path, partial(_table, rewritten(first, form), form))
    kinds = [kind_of(type_) for type_ in table.schema.types]
    return [(name, "category" if kind == "binary" else kind) for name, kind in zip(form.names, kinds, strict=True)]


def read_block(block: bytes, form: Form, names: Sequence[str], *, missing: Sequence[str] = ("",)) -> pa.RecordBatch:
    """Return the named columns of a block of lines as text."""
    import pyarrow as pa

    table = _quickly(block, form, names, missing) if is_regular(block, form.delimiter) else None
    if table is None:
        table = _table(rewritten(block, form), form, names, missing)
    columns = [column.combine_chunks() for column in table.columns]
    batch = pa.RecordBatch.from_arrays(columns, names=list(names))
    return batch if block.isascii() else validated(batch)


def _quickly(block: bytes, form: Form, names: Sequence[str], missing: Sequence[str]) -> pa.Table | None:
    """Return the columns as Arrow finds them; None if a line has another number of cells than it should."""
    import pyarrow as pa

    try:
        return _table(block, form, names, missing)
    except pa.ArrowInvalid:
        return None


def _table(block: bytes, form: Form, names: Sequence[str] | None = None, missing: Sequence[str] = ("",)) -> pa.Table:
    """Read a block of lines; without names, all columns and with types that Arrow guesses."""
    import pyarrow as pa
    from pyarrow import csv

    # Columns may have the same name, and a block may begin like a byte order mark: so it gets a line of numbers first.
    text = form.delimiter.join(str(i).encode() for i in range(form.columns)) + b"\n" + block
    convert = csv.ConvertOptions()
    if names is not None:
        chosen = [str(form.names.index(name)) for name in names]
        convert = csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict.fromkeys(chosen, pa.string()),
            strings_can_be_null=True,
            null_values=list(missing),
            check_utf8=False,
        )
    read = csv.ReadOptions(block_size=len(text), use_threads=False)
    parse = csv.ParseOptions(
        delimiter=form.delimiter.decode(),
        quote_char='"' if b'"' in block else False,
        newlines_in_values=True,
        ignore_empty_lines=form.columns > 1,
    )
    return csv.read_csv(pa.py_buffer(text), read_options=read, parse_options=parse, convert_options=convert)
