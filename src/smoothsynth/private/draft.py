"""Draft a schema file from a table: names and types only, bounds and levels left open for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.private.reading import column_kinds

if TYPE_CHECKING:
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


def draft_schema(path: str | Path) -> str:
    """Return the text of a schema file with the names and types of a table; bounds and levels are left open."""
    parts = [_HEAD]
    for name, kind in column_kinds(path):
        section = f"[columns.{_quoted(name)}]"
        if kind in _LEFT_OPEN:
            parts.append(f'{section}\ntype = "{kind}"\n{_LEFT_OPEN[kind]}')
        else:
            parts.append(f"# {section}   holds {kind}, which cannot be released; it is left out.\n")
    return "\n".join(parts)


def _quoted(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
