"""From cells of any array library to numbers: a total map, so that no single cell can surface as an error.

A cell that cannot be read as the type is missing (NaN). Whether a cell can be read never depends on other cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema import instants

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

# A cell of text that is a number, once white space around it and a leading plus are gone.
_NUMBER_CELL = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^-?(?i:inf|infinity)$"
_TRUTHS = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}


def arrow_of(cells: Any) -> pa.Array:
    """Return cells as one Arrow array; what Arrow does not take as it is becomes text."""
    import pyarrow as pa

    if isinstance(cells, pa.ChunkedArray):
        return cells.combine_chunks()
    if isinstance(cells, pa.Array):
        return cells
    array = cells if isinstance(cells, np.ndarray) else np.asarray(cells, dtype=object)
    if array.dtype.kind in "biufMU":
        return pa.array(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
    return pa.array([_text(cell) for cell in array.ravel().tolist()], pa.string())


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
    from pyarrow import compute

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
    """Read cells of text as doubles; one that is not a number is missing.

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
    return compute.cast(compute.if_else(plain, cells, pa.nulls(1, cells.type)[0]), pa.float64())


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
    words = compute.utf8_lower(trimmed(found.dictionary)).to_pylist()
    known = np.array([*(_TRUTHS.get(word, np.nan) for word in words), np.nan])
    return known[places(found)]


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
    return instants.days(instants.microseconds(_strings(array) if is_text(array.type) else array))


def _seconds(array: pa.Array) -> NDArray[np.float64]:
    return instants.seconds(instants.microseconds(_strings(array) if is_text(array.type) else array))


def _text(cell: object) -> str | None:
    try:
        # NaN and NaT are the cells that are not equal to themselves.
        if cell is None or not bool(cell == cell):  # noqa: PLR0124
            return None
        return str(cell).encode("utf-8", "replace").decode("utf-8")
    except Exception:
        return None


_READERS: dict[str, Callable[[pa.Array], NDArray[np.float64]]] = {
    "number": _numbers,
    "integer": _numbers,
    "boolean": _truths,
    "date": _days,
    "datetime": _seconds,
}
