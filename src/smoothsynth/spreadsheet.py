"""Text in a CSV file that a spreadsheet takes for a formula.

Values are never changed for it: a level must be read back as the same level. What can be done is to say so, to whoever
publishes the file. A negative number is no formula, nor is a sign alone, which statistical tables use for "nothing".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from smoothsynth.schema import Category

if TYPE_CHECKING:
    from smoothsynth.schema import Schema

_BEGINS = re.compile(r"[=+\-@\t\r]")
_HARMLESS = re.compile(r"[+-]?|[+-](\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?\s*%?")


def is_formula(text: str) -> bool:
    """Say whether a spreadsheet that opens a cell with this text may compute something."""
    return bool(_BEGINS.match(text)) and not _HARMLESS.fullmatch(text)


def columns_with_formulas(schema: Schema) -> list[str]:
    """Return the columns whose name, or one of whose levels, a spreadsheet takes for a formula."""
    levels = {name: column.levels for name, column in schema.columns.items() if isinstance(column, Category)}
    return [
        name
        for name in schema.names
        if is_formula(name) or any(isinstance(level, str) and is_formula(level) for level in levels.get(name, ()))
    ]
