"""A total map from the cells of any container to numbers.

Days and moments as whole microseconds since 1970 (UTC), from Arrow's types and from text in ISO 8601.

    2020-01-31    2020-01-31T12:00    2020-01-31 12:00:00.5    2020-01-31T12:00:00+01:00    2020-01-31T11:00:00Z

A moment without a zone is taken as it is. What is no such text, or no such day, is missing.

From cells of any array library to numbers: a total map, so that no single cell can surface as an error.

A cell that cannot be read as the type is missing (NaN). What a cell is never depends on other cells, nor on the type that
a column was given for their sake: 1, 1.0, "1" and "1.0" are the same number, and True, "true" and "TRUE" the same truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.texts import level_key, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray


_DAY = 86_400_000_000
_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
# Far beyond the year 9999, and far from where 64 bits end.
_FARTHEST = 2**61
MISSING = np.int64(-(2**63))
_ISO = (
    r"^(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d+))?)?)?"
    r"(?P<zone>Z|z|[+-]\d{2}(?::?\d{2})?)?)?$"
)


def microseconds(array: pa.Array) -> NDArray[np.int64]:
    """Return days, moments or text as microseconds since 1970; MISSING for what is missing or neither."""
    from pyarrow import types

    if types.is_string(array.type):
        return _from_text(array)
    if types.is_date32(array.type):
        return _scaled(array, _DAY)
    if types.is_date64(array.type):
        return _scaled(array, 1_000)
    if types.is_timestamp(array.type):
        per = _PER_UNIT.get(array.type.unit)
        return _scaled(array, per) if per else _scaled(array, 1, divided=1_000)
    return np.full(len(array), MISSING)


def days(micro: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the day of each moment, as a number of days since 1970."""
    return np.where(micro == MISSING, np.nan, (micro // _DAY).astype(np.float64))


def seconds(micro: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return seconds since 1970; whole seconds and the rest apart, since microseconds may need more than 53 bits."""
    whole, rest = np.divmod(micro, 1_000_000)
    return np.where(micro == MISSING, np.nan, whole.astype(np.float64) + rest / 1e6)


def _scaled(array: pa.Array, factor: int, divided: int = 1) -> NDArray[np.int64]:
    """Return stored whole numbers times a factor, kept from overflowing."""
    import pyarrow as pa
    from pyarrow import compute, types

    stored = array.view(pa.int32() if types.is_date32(array.type) else pa.int64())
    missing = np.asarray(compute.is_null(stored).to_numpy(zero_copy_only=False)) if stored.null_count else None
    # What lies below a null is not defined, and is not looked at.
    whole = np.from_dlpack(_filled(compute.cast(stored, pa.int64())))
    micro = np.clip(whole // divided, -(_FARTHEST // factor), _FARTHEST // factor) * factor
    if missing is not None:
        micro[missing] = MISSING
    return micro


def _filled(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute

    if not array.null_count:
        return array
    return compute.fill_null(array, pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(np.array([0]))])[0])


def _from_text(cells: pa.Array) -> NDArray[np.int64]:
    """Read text; the quick way refuses a whole batch for one bad cell, and agrees with the slow one on all others."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        return _scaled(compute.cast(cells, pa.timestamp("us")), 1)
    except pa.ArrowInvalid:
        pass
    return _from_parts(compute.extract_regex(compute.utf8_trim_whitespace(cells), _ISO))


def _from_parts(found: pa.StructArray) -> NDArray[np.int64]:
    parts = {field.name: found.field(i) for i, field in enumerate(found.type)}
    year, month, day, hour, minute, second = (
        _whole(parts[name]) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    fraction, zone = _fraction(parts["fraction"]), _zone(parts["zone"])
    good = (
        _valid(found) & (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60) & (zone != MISSING)
    )
    months = (year - 1970) * 12 + np.clip(month, 1, 12) - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    after = (months + 1).astype("datetime64[M]").astype("datetime64[D]")
    good &= (day >= 1) & (day <= (after - first).astype(np.int64))
    micro = (first.astype(np.int64) + day - 1) * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
    return np.where(good, micro - np.where(good, zone, 0), MISSING)


def _valid(array: Any) -> NDArray[np.bool_]:
    from pyarrow import compute

    return np.asarray(compute.is_valid(array).to_numpy(zero_copy_only=False))


def _whole(texts: pa.Array) -> NDArray[np.int64]:
    """Return texts of digits as whole numbers, 0 for none."""
    import pyarrow as pa
    from pyarrow import compute

    digits = compute.if_else(compute.equal(compute.utf8_length(texts), 0), pa.nulls(1, texts.type)[0], texts)
    return np.asarray(np.from_dlpack(_filled(compute.cast(digits, pa.int64()))), dtype=np.int64)


def _fraction(texts: pa.Array) -> NDArray[np.int64]:
    """Return digits after the point as microseconds, further digits cut off."""
    from pyarrow import compute

    return _whole(compute.utf8_slice_codeunits(compute.utf8_rpad(texts, 6, "0"), 0, 6))


def _zone(texts: pa.Array) -> NDArray[np.int64]:
    """Return how far the clocks of a zone are ahead, in microseconds; MISSING for a zone that cannot be."""
    from pyarrow import compute

    digits = compute.replace_substring_regex(texts, r"[^0-9]", "")
    hours, minutes = (
        _whole(compute.utf8_slice_codeunits(digits, 0, 2)),
        _whole(compute.utf8_slice_codeunits(digits, 2, 4)),
    )
    behind = np.asarray(compute.starts_with(compute.fill_null(texts, ""), "-").to_numpy(zero_copy_only=False))
    size = (hours * 60 + minutes) * 60_000_000
    return np.where((hours < 24) & (minutes < 60), np.where(behind, -size, size), MISSING)


# A cell of text that is a number, once white space around it and a leading plus are gone.
_NUMBER_CELL = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^-?(?i:inf|infinity)$"
_TRUTHS: dict[str | None, float] = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n", "0"), 0.0),
}


def arrow_of(cells: Any, column: object = None) -> pa.Array:
    """Return cells as one Arrow array; those of a list, or that are objects, become text, each by itself.

    Of a `column` with options they are text in which numbers, days and moments are marked, and are read as they are.
    """
    import pyarrow as pa

    if isinstance(cells, pa.ChunkedArray):
        return cells.combine_chunks()
    if isinstance(cells, pa.Array):
        return cells
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "biufM" and cells.dtype.itemsize <= 8:
            array = _arrow_moments(cells) if cells.dtype.kind == "M" else cells
            # Arrow takes no foreign byte order, and not every stride.
            return pa.array(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
        cells = cells.ravel().tolist()
    texts = texts_of(cells, marked=_is_read_otherwise(column))
    # Strings of Arrow count their bytes in 32 bits.
    wide = sum(map(len, filter(None, texts))) > 2**28
    return pa.array(texts, pa.large_string() if wide else pa.string())


def _is_read_otherwise(column: object) -> bool:
    """Whether options of a column of numbers, days or moments say how text is read."""
    options = ("decimal", "date_format", "null_values")
    kind = getattr(column, "kind", None)
    return kind in ("number", "integer", "date", "datetime") and any(getattr(column, o, None) for o in options)


def _arrow_moments(cells: NDArray[Any]) -> NDArray[Any]:
    """Return moments in a unit that Arrow has; those beyond the calendar are moved to its ends."""
    unit, count = np.datetime_data(cells.dtype)
    if count == 1 and unit in ("s", "ms", "us", "ns"):
        return cells
    ends = (np.datetime64("0001-01-01"), np.datetime64("9999-12-31"))
    return (np.clip(cells, *ends) if unit in ("Y", "M", "W", "D", "h", "m") else cells).astype("datetime64[us]")


def numbers_of(cells: Any, kind: str) -> NDArray[np.float64]:
    """Return cells as doubles: numbers, 0 and 1, days or seconds since 1970; NaN for what is missing or something else."""
    array = arrow_of(cells)
    return _READERS[kind](plain_values(array))


def plain_values(array: pa.Array) -> pa.Array:
    """Return the values of a dictionary instead of their places in it."""
    from pyarrow import types

    return array.dictionary_decode() if types.is_dictionary(array.type) else array


def is_text(type_: pa.DataType) -> bool:
    """Whether cells of this Arrow type are text."""
    from pyarrow import types

    views = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(type_) or types.is_large_string(type_) or views(type_))


def doubles(array: pa.Array) -> NDArray[np.float64]:
    """Return an Arrow array of numbers or booleans as doubles, with NaN for a missing one."""
    import pyarrow as pa
    from pyarrow import compute, types

    if types.is_decimal(array.type):
        # By way of text the nearest double is found whatever the scale, which one long cell decides for all.
        array = parse_cells(compute.cast(array, pa.string()))
    # safe=True would refuse large integers with a message that quotes them.
    array = compute.cast(array, pa.float64(), safe=False)
    if array.null_count:
        array = compute.fill_null(array, nan())
    # Array.to_numpy would import pandas.
    return np.asarray(np.from_dlpack(array), dtype=np.float64)


def nan() -> pa.Scalar:
    """Return NaN as Arrow has it; pa.scalar would import pandas."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]))])[0]


def parse_cells(cells: pa.Array) -> pa.Array:
    """Read cells of text as doubles, true and false as 1 and 0; one that is none of these is missing.

    The quick way refuses a whole batch for one bad cell. Every cell that it does accept has the same
    value the slow way, so a value never depends on the other cells of its batch.
    """
    import pyarrow as pa
    from pyarrow import compute

    try:
        return compute.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        pass
    cells = compute.replace_substring_regex(compute.utf8_trim_whitespace(cells), r"^\+", "")
    plain = compute.match_substring_regex(cells, _NUMBER_CELL)
    numbers = compute.cast(compute.if_else(plain, cells, pa.nulls(1, cells.type)[0]), pa.float64())
    truths = compute.index_in(compute.utf8_lower(cells), _false_and_true())
    return compute.coalesce(numbers, compute.cast(truths, pa.float64()))


def _false_and_true() -> pa.Array:
    """Return the two words, at the places 0 and 1; pa.array would import pandas."""
    import pyarrow as pa

    ends, letters = np.array([0, 5, 9], dtype=np.int32), b"falsetrue"
    return pa.StringArray.from_buffers(2, pa.py_buffer(ends), pa.py_buffer(letters))


def trimmed(cells: pa.Array) -> pa.Array:
    """Return cells of text without white space around them."""
    from pyarrow import compute

    return compute.utf8_trim_whitespace(cells)


def _numbers(array: pa.Array) -> NDArray[np.float64]:
    return doubles(parse_cells(_strings(array)) if is_text(array.type) else array)


def _truths(array: pa.Array) -> NDArray[np.float64]:
    if not is_text(array.type):
        values = doubles(array)
        return np.where((values == 0.0) | (values == 1.0), values, np.nan)
    from pyarrow import compute

    found = compute.dictionary_encode(_strings(array))
    words = trimmed(found.dictionary).to_pylist()
    known = np.array([*(_truth(word or "") for word in words), np.nan])
    return known[places(found)]


def _truth(word: str) -> float:
    return _TRUTHS.get(level_key(word.lower()), np.nan)


def places(encoded: pa.DictionaryArray) -> NDArray[np.int64]:
    """Return the place of each cell in its dictionary, -1 for a missing one."""
    import pyarrow as pa
    from pyarrow import compute

    indices = compute.cast(encoded.indices, pa.int64())
    if indices.null_count:
        minus = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(np.array([-1]))])[0]
        indices = compute.fill_null(indices, minus)
    return np.asarray(np.from_dlpack(indices), dtype=np.int64)


def _strings(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import compute, types

    return array if types.is_string(array.type) else compute.cast(array, pa.string())


def _days(array: pa.Array) -> NDArray[np.float64]:
    return days(microseconds(_strings(array) if is_text(array.type) else array))


def _seconds(array: pa.Array) -> NDArray[np.float64]:
    return seconds(microseconds(_strings(array) if is_text(array.type) else array))


_READERS: dict[str, Callable[[pa.Array], NDArray[np.float64]]] = {
    "number": _numbers,
    "integer": _numbers,
    "boolean": _truths,
    "date": _days,
    "datetime": _seconds,
}
