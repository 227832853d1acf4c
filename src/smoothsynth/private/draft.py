"""Draft a schema file from a table: names and types only, bounds and levels left open for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import DataError
from smoothsynth.private.columns import looks_like_cells
from smoothsynth.private.reading import column_kinds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEAD = """\
# A draft: fill in lower and upper, or levels, for each column, and delete the columns that nobody should ask about.
#
# Bounds and levels must be public knowledge: a code book, a law, the range of an instrument, a form, common sense. Do
# not take the smallest and largest value of the table, or the values found in it: those may belong to single persons,
# and publishing them breaks the promise. Values outside the bounds are moved to the bound, so generous bounds are safe,
# but every answer's noise grows with their width. Values that are no level count at the level that `other` names.
#
# Where nobody knows a bound or the levels, write  lower = "private",  upper = "private"  or  levels = "private":  the release
# finds them for a share of its budget (smoothsynth plan shows it; levels need a delta). Public ones cost nothing.
#
# Add  nullable = true  to a column in which missing cells mean something.
#
# Make sure that the names below are names, and no person's cells: of a CSV file they are its first line.
# The types were guessed from the types in the file, or from its first rows. Make sure that they are what you would have
# said without looking.
"""


_BOUNDS = "# lower = \n# upper = \n"
_LEFT_OPEN = {
    "number": _BOUNDS,
    "integer": _BOUNDS,
    "boolean": "",
    "date": "# lower = 2000-01-01\n# upper = 2029-12-31\n",
    "datetime": "# lower = 2000-01-01T00:00:00\n# upper = 2029-12-31T23:59:59\n",
    "category": '# levels = ["a", "b", "other"]\n# other = "other"\n',
}


def draft_schema(path: str | Path, *, names: Sequence[str] | None = None) -> str:
    """Return the text of a schema file with the names and types of a table; bounds and levels are left open.

    A CSV file whose first line looks like cells, not like names, is refused: a schema is published, and these would be a
    person's. `names` says what the columns are called, in their order.
    """
    parts, kinds = [_HEAD], column_kinds(path)
    if names is not None:
        kinds = list(zip(_checked(names, len(kinds), path), (kind for _, kind in kinds), strict=True))
    elif str(path).lower().endswith((".csv", ".csv.gz")) and looks_like_cells([name for name, _ in kinds]):
        raise DataError(
            f"{path} must begin with a line of column names, and its first line looks like somebody's cells: there is a "
            "number, a date, an empty or a repeated name in it. Write a line of names above it; or, if these are the names, "
            "or to see a draft with others, say --names a,b,c with one name for each column."
        )
    for name, kind in kinds:
        section = f"[columns.{_quoted(name)}]"
        if kind in _LEFT_OPEN:
            parts.append(f'{section}\ntype = "{kind}"\n{_LEFT_OPEN[kind]}')
        else:
            parts.append(f"# {section}   holds {kind}, which cannot be released; it is left out.\n")
    return "\n".join(parts)


def _checked(names: Sequence[str], count: int, path: str | Path) -> Sequence[str]:
    if len(names) != count or len(set(names)) < count or not all(names):
        raise DataError(
            f"{path} has {count} columns: give as many names, each once and none empty; {len(names)} were given."
        )
    return names


def _quoted(name: str) -> str:
    # As TOML has it: what cannot be printed as \uXXXX or \UXXXXXXXX.
    marks = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(marks.get(c, c if c.isprintable() else _escape(c)) for c in name) + '"'


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 2**16 else f"\\U{number:08x}"
