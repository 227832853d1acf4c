"""Tables in CSV files: UTF-8, commas, a first line of names; cells are read as text (private/columns.py).

The file is gone through twice: once when it is opened, to count its rows before any budget is spent, and once for the
sums. Which cells a line has is said in private/csv_lines.py. Arrow reads them, and lines on which it might say otherwise
are first rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from smoothsynth.private import csv_lines
from smoothsynth.private.columns import kind_of
from smoothsynth.private.stored import Stamp, arrow, check_stamp, each
from smoothsynth.private.validation import validated
from smoothsynth.schema import Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from smoothsynth.private.csv_lines import Form
    from smoothsynth.schema import Column

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
        for block in each(self.path, csv_lines.blocks(self.path, self.form)):
            yield self._batches(block, batch_rows)
        check_stamp(self.path, self.stamp)

    def _batches(self, block: bytes, batch_rows: int) -> Iterator[pa.RecordBatch]:
        text = arrow(self.path, partial(read_block, block, self.form, self.names, missing=self.missing))
        yield from (text.slice(start, batch_rows) for start in range(0, text.num_rows, batch_rows))


def open_file(path: Path, columns: Mapping[str, Column], form: Form, before: Stamp | None) -> CsvSource:
    """Return the source of rows for a CSV file, after its lines were counted."""
    rows = sum(csv_lines.count_rows(block, form.columns) for block in each(path, csv_lines.blocks(path, form)))
    return CsvSource(path, tuple(columns), rows, form, before, missing_words(columns))


def missing_words(columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Return the cells that mean a missing one: the usual words, but none that is a level of a category."""
    levels = {text for column in columns.values() if isinstance(column, Category) for text in column.texts}
    return tuple(word for word in _MISSING if word not in levels)


def read_form(path: Path) -> Form:
    """Return what the first line says."""
    return arrow(path, partial(csv_lines.form_of, path))


def guess_kinds(path: Path) -> list[tuple[str, str]]:
    """Return the names in the first line, and what the first rows seem to hold."""
    form = read_form(path)
    first = next(each(path, csv_lines.blocks(path, form)), b"")
    table = arrow(path, partial(_table, csv_lines.rewritten(first, form.columns), form))
    kinds = [kind_of(type_) for type_ in table.schema.types]
    return [(name, "category" if kind == "binary" else kind) for name, kind in zip(form.names, kinds, strict=True)]


def read_block(block: bytes, form: Form, names: Sequence[str], *, missing: Sequence[str] = ("",)) -> pa.RecordBatch:
    """Return the named columns of a block of lines as text."""
    import pyarrow as pa

    table = _quickly(block, form, names, missing) if csv_lines.is_regular(block) else None
    if table is None:
        table = _table(csv_lines.rewritten(block, form.columns), form, names, missing)
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
    text = ",".join(map(str, range(form.columns))).encode() + b"\n" + block
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
        quote_char='"' if b'"' in block else False, newlines_in_values=True, ignore_empty_lines=form.columns > 1
    )
    return csv.read_csv(pa.py_buffer(text), read_options=read, parse_options=parse, convert_options=convert)
