"""Draft a schema file from a table: names and types only, bounds left open for the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.private.reading import column_kinds

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """\
# A draft: fill in lower and upper for each column, and delete the columns that nobody should ask about.
#
# Bounds must be public knowledge: a code book, a law, the range of an instrument, common sense. Do not take
# the smallest and largest value of the table: those belong to single persons, and publishing them breaks
# the promise. Values outside the bounds are moved to the bound, so generous bounds are safe, but every
# answer's noise grows with their width.
#
# The types were guessed from the first rows. Make sure that they are what you would have said without looking.
"""


def draft_schema(path: str | Path) -> str:
    """Return the text of a schema file with the names and types of a table, bounds left open."""
    parts = [_HEAD]
    for name, kind in column_kinds(path):
        section = f"[columns.{_quoted(name)}]"
        if kind in ("number", "integer"):
            parts.append(f'{section}\ntype = "{kind}"\n# lower = \n# upper = \n')
        else:
            parts.append(f"# {section}   holds {kind}: only numbers can be released so far; it is left out.\n")
    return "\n".join(parts)


def _quoted(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
