"""How cells are read where the schema says more than the usual: a decimal sign, formats of dates, values that mean nothing.

    decimal        "," reads 1.234,50 and 3,5 as 1234.5 and 3.5;  "." reads 1,234.50.  Digits are grouped by threes or not at
                   all, also by blanks and apostrophes; one of the signs and codes of money may stand beside the number.
                   What is written otherwise is missing.
    date_format    one or several of strptime's, %d %m %Y %y %H %M %S in it; the first that fits a cell is taken.
    null_values    cells that are missing, as levels are compared: 999 is 999.0 and "0999".

These are facts that somebody states, never guesses from the rows; a cell is still read from itself alone. They are about
text: a cell that is a number, a day or a moment keeps its value, beside whatever other cells it stands.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.cells import MISSING, doubles, is_text, microseconds, places, plain_values
from smoothsynth.schema.texts import TYPED, level_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema.encoding import Column
    from smoothsynth.schema.schema import Schema

    Reader = Callable[[str], str | None]


OPTIONS = ("decimal", "date_format", "null_values")
_GROUPS = {",": r"[.'\u2019\s]", ".": r"[,'\u2019\s]"}
_MONEY = r"(?:[€$£¥]|EUR|USD|GBP|CHF|JPY)"
_DIRECTIVES = {"%d", "%m", "%Y", "%y", "%H", "%M", "%S"}
_DAYS = ({"%d", "%m", "%Y"}, {"%d", "%m", "%y"})


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, which can be compared and hashed."""
    return tuple(value) if isinstance(value, list) else value


def facts(column: Any) -> dict[str, Any]:
    """Return the options of a column that say something, as a schema file has them."""
    found = {name: getattr(column, name, None) for name in OPTIONS}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items() if v not in (None, ())}


def problem(column: Any) -> str | None:
    """Say what is wrong with the options, in words, or None."""
    decimal, formats = getattr(column, "decimal", None), getattr(column, "date_format", None)
    if decimal not in (None, *_GROUPS):
        return f'decimal must be "," or ".", the sign between whole numbers and parts, not {_shown(decimal)}'
    if formats is not None and not all(map(_is_format, _formats(formats) or [None])):
        return (
            'date_format must be a text such as "%d.%m.%Y", or a list of them, with day, month, year and of the time %H %M '
            f"%S; it is {_shown(formats)}"
        )
    values = column.null_values
    if not isinstance(values, tuple) or not all(type(v) in (str, int, float) and str(v).strip() for v in values):
        return f'null_values must be a list of texts or numbers, such as ["-", 999], not {_shown(values)}'
    return None


def with_options(schema: Schema, **options: Any) -> Schema:
    """Return a schema whose columns are read with some options, where they have none of their own."""
    columns = {name: _with(column, options) for name, column in schema.columns.items()}
    return replace(schema, columns=columns)


def _with(column: Column, options: dict[str, Any]) -> Column:
    added = {k: v for k, v in options.items() if v and hasattr(column, k) and not getattr(column, k)}
    return replace(column, **added) if added else column


def prepared(array: pa.Array, column: Any) -> pa.Array:
    """Return cells such that the usual reader of the type reads them as the options of the column say."""
    if not any(getattr(column, name, None) for name in OPTIONS):
        return array
    array = plain_values(array)
    if not is_text(array.type):
        return _without(array, column.null_values)
    import pyarrow as pa
    from pyarrow import compute

    encoded, read = compute.dictionary_encode(array), reader(column)
    texts = [None if text is None else read(text) for text in encoded.dictionary.to_pylist()]
    return pa.array([*texts, None], pa.large_string()).take(pa.array(places(encoded) % (len(texts) + 1)))


def reader(column: Any) -> Reader:
    """Return what makes of a cell of text the one that is read in its place, None for a missing one."""
    nulls = null_keys(column)
    decimal, formats = getattr(column, "decimal", None), getattr(column, "date_format", None)
    read: Reader = str
    if decimal:
        read = number_reader(decimal)
    elif formats:
        read = date_reader(_formats(formats))
    instants = _instants(column.null_values) if column.kind in ("date", "datetime") else frozenset()

    def of_any(text: str) -> str | None:
        if not text.startswith(TYPED):
            return None if level_key(text.strip()) in nulls else read(text)
        plain = text[len(TYPED) :]
        return None if level_key(plain) in nulls or (instants and _instants([plain]) & instants) else plain

    return of_any


def _instants(values: Sequence[Any]) -> frozenset[int]:
    """Return the days and moments among some values, as those of a column of them are compared."""
    import pyarrow as pa

    found = microseconds(pa.array([str(value).strip() for value in values], pa.string()))
    return frozenset(found[found != MISSING].tolist())


def null_keys(column: Any) -> frozenset[str | None]:
    """Return what all cells have in common that mean a missing one."""
    return frozenset(level_key(str(value).strip()) for value in column.null_values)


def number_reader(decimal: str) -> Reader:
    """Return the reader of numbers with a decimal sign: it gives the text with a point, and no groups of digits."""
    group = _GROUPS[decimal]
    number = re.compile(
        rf"\s*([+-]?)\s*{_MONEY}?\s*([+-]?)(\d{{1,3}}(?:{group}\d{{3}})+|\d*)(?:{re.escape(decimal)}(\d*))?([eE][+-]?\d+)?"
        rf"\s*{_MONEY}?\s*",
        re.ASCII,
    )
    groups = re.compile(group)

    def read(text: str) -> str | None:
        found = number.fullmatch(text.replace("\xa0", " ").replace("\u202f", " "))
        if found is None or not (found[3] or found[4]) or (found[1] and found[2]):
            return None
        return f"{found[1] or found[2]}{groups.sub('', found[3]) or '0'}.{found[4] or '0'}{found[5] or ''}"

    return read


def date_reader(formats: Sequence[str]) -> Reader:
    """Return the reader of days and moments in some formats: it gives ISO 8601."""

    def read(text: str) -> str | None:
        word = text.strip()
        return next((day.isoformat() for day in (_parsed(word, one) for one in formats) if day), None)

    return read


def _parsed(word: str, one: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(word, one)
    except ValueError:
        return None


def _formats(formats: Any) -> list[Any]:
    return [formats] if isinstance(formats, str) else list(formats) if isinstance(formats, tuple) else []


def _is_format(one: object) -> bool:
    if not isinstance(one, str):
        return False
    used = re.findall(r"%.?", one)
    return len(used) == len(set(used)) and set(used) <= _DIRECTIVES and any(days <= set(used) for days in _DAYS)


def _without(array: pa.Array, values: Sequence[Any]) -> pa.Array:
    """Return cells of numbers, days or moments, missing where they have one of some values."""
    import pyarrow as pa
    from pyarrow import compute, types

    words = [key for key in (level_key(str(value).strip()) for value in values) if key]
    found: NDArray[np.bool_]
    if types.is_temporal(array.type):
        wanted = microseconds(pa.array(words, pa.string()))
        found = np.isin(microseconds(array), wanted[wanted != MISSING])
    else:
        found = np.isin(doubles(array), [float(word) for word in words if _is_number(word)])
    return compute.if_else(pa.array(found), pa.nulls(1, array.type)[0], array) if found.any() else array


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _shown(value: object) -> str:
    from smoothsynth.schema.valued import shown

    return shown(value)
