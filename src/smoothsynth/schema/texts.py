"""One text for each cell, from the cell alone, and the one canonical text of a level.

    text                    as it is, of at most 2^20 bytes; a lone surrogate becomes U+FFFD; bytes are read as UTF-8
    true and false          true, false
    numbers                 1 for 1, 1.0 and Decimal("1.00"), else the shortest text of the double: 0.1, 1e-07
    days and moments        ISO 8601, in UTC if they have a zone: 2020-01-31T12:00:00
    UUIDs                   as RFC 9562 writes them, in small letters

Anything else has no text: it is missing. Only the type of the cell decides how it is written. Where options of a column
say how text is read, cells that were not text are marked: 1.234 is no 1234, whatever the cells beside it hold.
"""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_SURROGATE = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)")
# A text of more bytes is missing, whatever holds it.
LONGEST_TEXT = 2**20
# Whole numbers as computers write them: others, such as 007 or 1e5, are codes.
_PLAIN = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0*")
_TRUTHS = ("true", "false")
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_FIRST, _LAST = ((end - _EPOCH) // _MICROSECOND for end in (datetime.datetime.min, datetime.datetime.max))
# Microseconds of the units of NumPy that are not shorter than one; years and months have no fixed length.
_LONG = {"W": 604_800_000_000, "D": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000,
         "s": 1_000_000, "ms": 1_000, "us": 1}  # fmt: skip
_SHORT = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}
# Stands before the text of a cell that was a number, a day or a moment; readers that know no mark strip it as white space.
TYPED = "\x1f"
# Text that is read as an infinite number, for whole numbers that Python does not write.
_ENDLESS = "1e9999"


def texts_of(cells: Iterable[object], *, marked: bool = False) -> list[str | None]:
    """Return the text of each cell; those of cells that are not text may be marked."""
    if marked:
        return [text if text is None or isinstance(c, (str, bytes)) else TYPED + text for c, text in _pairs(cells)]
    # Plain text and nothing are the cells of most columns of objects: a call for each would take most of the time.
    return [
        cell if cell is None or (type(cell) is str and cell.isascii() and len(cell) <= LONGEST_TEXT) else text_of(cell)
        for cell in cells
    ]


def _pairs(cells: Iterable[object]) -> Iterator[tuple[object, str | None]]:
    return ((cell, text_of(cell)) for cell in cells)


def text_of(cell: object) -> str | None:
    """Return the text of a cell, or None for a missing one and for what is no text, number, truth value, day or moment."""
    try:
        return (_USUAL.get(type(cell)) or _writer(type(cell)))(cell)
    except Exception:
        # Code of a foreign type has failed.
        return None


def number_text(number: float) -> str | None:
    """Return a number as text: whole ones without a point, None for NaN."""
    if number != number:  # noqa: PLR0124
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def level_text(text: str | None) -> str | None:
    """Return a text as the level that it names: `1` for `1.0`, `true` for `True`, None for `nan`; others stay."""
    word = (text or "").lower()
    if word in _TRUTHS:
        return word
    plain = _PLAIN.fullmatch(word)
    if plain:
        return "0" if plain[1] == "-0" else plain[1]
    return None if word == "nan" else text


def level_key(text: str) -> str | None:
    """Return what all texts of the same number or truth value have in common; other texts stay, and `nan` has None."""
    word = text.lower()
    if word in _TRUTHS:
        return word
    whole = _WHOLE.fullmatch(word)
    if whole and len(word) < 4_000:
        return str(int(whole[1]))
    if _NUMBER.fullmatch(word):
        return number_text(float(word))
    return None if word == "nan" else text


def _writer(kind: type) -> Callable[[Any], str | None]:
    return next((write for bases, write in _WRITERS if issubclass(kind, bases)), _nothing)


def _nothing(cell: object) -> None:
    return None


def _text(cell: str) -> str | None:
    text = str.__str__(cell) if cell.isascii() else _SURROGATE.sub("\ufffd", cell)
    return text if len(text) * 4 <= LONGEST_TEXT or len(text.encode()) <= LONGEST_TEXT else None


def _bytes(cell: bytes) -> str | None:
    return cell.decode("utf-8", "replace") if len(cell) <= LONGEST_TEXT else None


def _truth(cell: object) -> str:
    return "true" if cell else "false"


def _whole(cell: Any) -> str:
    number = int(cell)
    if number.bit_length() < 8_192:
        return str(number)
    return _ENDLESS if number > 0 else f"-{_ENDLESS}"


def _real(cell: Any) -> str | None:
    return number_text(float(cell))


def _decimal(cell: Decimal) -> str | None:
    return None if cell.is_nan() else level_key(str(cell))


def _day(cell: datetime.date) -> str:
    return cell.isoformat()


def _moment(cell: Any) -> str | None:
    if cell.tzinfo is None and 1 <= cell.year <= 9999:
        return str(cell.isoformat())
    if hasattr(cell, "asm8"):
        # Of pandas: to_pydatetime would warn of nanoseconds. Moments with a zone are in UTC there.
        return _numpy_moment(cell.asm8)
    ahead = cell.utcoffset() or datetime.timedelta()
    return moment_text((cell.replace(tzinfo=None) - _EPOCH - ahead) // _MICROSECOND)


def _numpy_moment(cell: np.datetime64) -> str | None:
    if np.isnat(cell):
        return None
    unit, count = np.datetime_data(cell.dtype)
    if unit in ("Y", "M"):
        months = int(cell.astype(np.int64)) * count * (12 if unit == "Y" else 1)
        # Beyond the calendar at both ends.
        cell, unit, count = np.datetime64(min(max(months, -(10**6)), 10**6), "M").astype("datetime64[D]"), "D", 1
    number = int(cell.astype(np.int64)) * count
    return moment_text(number * _LONG[unit] if unit in _LONG else number // _SHORT[unit])


def moment_text(microseconds: int) -> str:
    """Write a moment; one beyond the calendar is moved to its end, where every bound is."""
    return (_EPOCH + min(max(microseconds, _FIRST), _LAST) * _MICROSECOND).isoformat()


# The first that fits: truth values of Python are whole numbers too, spans of NumPy as well, and moments are days.
_WRITERS: tuple[tuple[Any, Callable[[Any], str | None]], ...] = (
    (str, _text),
    (bytes, _bytes),
    ((bool, np.bool_), _truth),
    (np.timedelta64, _nothing),
    ((int, np.integer), _whole),
    ((float, np.floating), _real),
    (Decimal, _decimal),
    (np.datetime64, _numpy_moment),
    (datetime.datetime, _moment),
    (datetime.date, _day),
    (UUID, str),
)
# Types that are looked up and not searched for. None is added later: a foreign type may say that it equals another.
_USUAL: dict[type, Callable[[Any], str | None]] = {
    kind: _writer(kind)
    for kind in (str, bool, int, float, Decimal, datetime.datetime, datetime.date, np.float64, np.float32, np.int64)
}
