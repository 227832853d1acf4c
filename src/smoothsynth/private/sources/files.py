"""Tables in files: which files a path stands for, and how each of them is read."""

from __future__ import annotations

import glob
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsynth.errors import DataError
from smoothsynth.private.sources import arrow_files, csv, excel
from smoothsynth.private.sources.arrow_files import read_fields, stamp
from smoothsynth.private.sources.cells import check_names, kind_of
from smoothsynth.schema.file import USUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from smoothsynth.private.table import DivisibleSource
    from smoothsynth.schema import Column
    from smoothsynth.schema.file import FileFormat


_KINDS = {
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    "excel": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    "parquet": (".parquet",),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
}
SUFFIXES = ", ".join(suffix for suffixes in _KINDS.values() for suffix in suffixes)


def open_paths(
    paths: Sequence[str | Path], columns: Mapping[str, Column], written: FileFormat = USUAL
) -> DivisibleSource:
    """Return the source of rows for files, folders of Parquet and patterns; all must have these columns."""
    files = list(chain.from_iterable(_files(path) for path in paths))
    twice = [path for path, times in Counter(path.resolve() for path in files).items() if times > 1]
    if twice:
        raise DataError(f"Each file must be named once; {twice[0]} is named more often. Its rows would count twice.")
    if all(_kind(path) == "parquet" for path in files):
        return arrow_files.open_files(files, columns)
    sources = tuple(_open(path, columns, written) for path in files)
    return sources[0] if len(sources) == 1 else ManySource(sources)


def guess_format(path: str | Path) -> FileFormat:
    """Guess how the first file of a path is written: for a draft, and never for a release."""
    first = _files(path)[0]
    return csv.guess_format(first) if _kind(first) == "csv" else USUAL


def lost_lines(paths: Sequence[str | Path], written: FileFormat = USUAL) -> tuple[int, int]:
    """Return how many rows of CSV files are missing as a whole, since nobody can say which column their cells are of."""
    files = chain.from_iterable(_files(path) for path in paths)
    counts = [csv.lost_lines(path, written) for path in files if _kind(path) == "csv"]
    return sum(lost for lost, _ in counts), sum(rows for _, rows in counts)


def is_text(path: object) -> bool:
    """Whether this names files of which cells have no types of their own."""
    return str(path).lower().endswith((*_KINDS["csv"], *_KINDS["excel"]))


def column_kinds(path: str | Path, written: FileFormat = USUAL) -> list[tuple[str, str]]:
    """Return the names of the columns of a file, and what they hold: a type of the schema, or something else in words.

    The types of a CSV file are guessed from its first rows. Of several files the first is taken.
    """
    first = _files(path)[0]
    kind = _kind(first)
    if kind == "csv":
        return csv.guess_kinds(first, written)
    if kind == "excel":
        return [(name, "category") for name in excel.names_of(first, written.sheet)]
    if kind == "ipc":
        fields = arrow_files.fields(first)
    else:
        fields = read_fields(first, lambda: arrow_files.open_parquet(first).schema_arrow)
    return [(name, kind_of(type_)) for name, type_ in fields]


@dataclass(frozen=True, slots=True, repr=False)
class ManySource:
    """Rows of several sources, one after the other."""

    sources: tuple[DivisibleSource, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(source.rows for source in self.sources)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows in their order."""
        return chain.from_iterable(source.batches(batch_rows) for source in self.sources)

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that can be read by different threads."""
        return chain.from_iterable(source.parts(batch_rows, readers) for source in self.sources)


def _open(path: Path, columns: Mapping[str, Column], written: FileFormat) -> DivisibleSource:
    kind = _kind(path)
    if kind == "parquet":
        return arrow_files.open_files([path], columns)
    if kind == "ipc":
        return arrow_files.open_file(path, columns)
    if kind == "excel":
        return excel.open_file(path, columns, written.sheet)
    before, form = stamp(path), csv.read_form(path, written)
    if form.columns == 1 and len(columns) > 1:
        raise DataError(
            f"The first line of {path} must have a {written.delimiter!r} between names, and has none. Say what is between "
            'cells: delimiter = ";" in the section [file] of the schema.'
        )
    check_names(tuple(columns), form.names, where=str(path))
    return csv.open_file(path, columns, form, before)


def _files(path: str | Path) -> list[Path]:
    """Return the files that a path stands for: itself, those in a folder, or those that match a pattern."""
    refusal = _refusal(Path(path))
    if refusal and glob.has_magic(str(path)) and "\0" not in str(path):
        return list(chain.from_iterable(_files(match) for match in _matches(Path(path))))
    path = Path(path)
    if refusal:
        raise DataError(f"{path} cannot be read: {refusal}. Check the path, and that you may read it.")
    return _inside(path) if path.is_dir() else [path]


def _matches(pattern: Path) -> list[Path]:
    matches = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True))]
    found = [match for match in matches if is_part(match.parts, pattern.parts)]
    if not found:
        raise DataError(f"{pattern} must match at least one file and matches none. Check the pattern.")
    return found


def _inside(folder: Path) -> list[Path]:
    inside = [p for p in folder.rglob("*.parquet") if p.is_file() and is_part(p.parts, folder.parts)]
    if not inside:
        raise DataError(f"The folder {folder} must hold .parquet files and holds none. Name the file itself.")
    return sorted(inside)


def is_part(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a file is a part of the table at a folder or pattern, both given by the names on the way to them.

    It is not if one of its names below the folder, or below the names without a star, begins with "_" or ".": Spark, Hive
    and notebooks keep other things there. A pattern may ask for such a name, and _year=2024 names a column.
    """
    below = len(list(takewhile(lambda name: not glob.has_magic(name), pattern)))
    asked = [name for name in pattern[below:] if _hidden(name)]
    return not any(_hidden(name) and not any(fnmatch(name, one) for one in asked) for name in names[below:])


def _hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _kind(path: Path) -> str:
    """Say how a file is to be read: csv, excel, ipc or parquet."""
    name = path.name.lower()
    for kind, suffixes in _KINDS.items():
        if name.endswith(suffixes):
            return kind
    raise DataError(f"{path} must end in {SUFFIXES}, or be a folder of .parquet files. Convert it first.")


def _refusal(path: Path) -> str | None:
    try:
        if not path.is_dir():
            path.open("rb").close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or "it is not a path"
    return None
