"""Dates as SDV has them: text in a stated format, read cell by cell."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# Python reads six digits of a second, and pandas nine.
_NANOSECONDS = re.compile(r"(\.[0-9]{6})[0-9]{1,3}(?![0-9])")


def iso_dates(cells: Sequence[object], form: str) -> list[str | None]:
    """Return dates, or text in a format of strptime, as text in ISO 8601; None for what is neither."""
    _check(form)
    known: dict[str, str | None] = {}
    return [_iso(cell, form, known) for cell in cells]


def _iso(cell: object, form: str, known: dict[str, str | None]) -> str | None:
    text = text_of(cell)
    if text is None or issubclass(type(cell), (datetime.date, np.datetime64)):
        return text
    if text not in known:
        known[text] = _read(text.strip(), form)
    return known[text]


def _read(text: str, form: str) -> str | None:
    cut = _NANOSECONDS.sub(r"\1", text) if "%f" in form else text
    try:
        return text_of(datetime.datetime.strptime(cut, form))
    except (ValueError, OverflowError):
        return None


def _check(form: str) -> None:
    """Refuse a format that Python does not know: with it no cell at all could be read."""
    try:
        datetime.datetime.strptime("", form)
    except (ValueError, re.error) as error:
        known = "does not match format" in str(error)
    else:
        known = True
    if not known:
        raise SchemaError(
            f"datetime_format {form!r:.80} has a directive that Python's strptime does not know. Write it with %Y, %m, %d, "
            "%H, %M, %S, %f and %z."
        )
