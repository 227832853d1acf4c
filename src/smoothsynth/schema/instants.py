"""Days and moments as whole microseconds since 1970 (UTC), from Arrow's types and from text in ISO 8601.

    2020-01-31    2020-01-31T12:00    2020-01-31 12:00:00.5    2020-01-31T12:00:00+01:00    2020-01-31T11:00:00Z

A moment without a zone is taken as it is. What is no such text, or no such day, is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
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
