"""Columns of Arrow data as numbers: which types are numbers, and a total map from cells to doubles.

Whether a column can be read is decided by its type alone, a public fact of the file. Once it can, every
cell has a value or is missing, so that no single value can surface as an error.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.schema import unknown_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

# A cell of a CSV file that is a number, once white space around it and a leading plus are gone.
_NUMBER_CELL = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^-?(?i:inf|infinity)$"


def check_names(wanted: Sequence[str], found: Sequence[str], *, where: str) -> None:
    """Refuse a table in which a column of the schema is absent or occurs twice.

    The names of the table are shown only if one of them is known from the schema: without such a
    match they may be the first row of a file that has no line of names.
    """
    known = Counter(found)
    missing = [name for name in wanted if not known[name]]
    if len(missing) == len(wanted):
        raise DataError(
            f"{where} must have the columns of the schema ({wanted[0]!r}, ...) and has none of them. "
            "Name its columns as in the schema; a CSV file must begin with a line of column names."
        )
    if missing:
        raise DataError(f"{where} must have all columns of the schema. {unknown_column(missing[0], tuple(found))}")
    for name in wanted:
        if known[name] > 1:
            raise DataError(f"{where} has more than one column {name!r}. Rename or drop all but one of them.")


def check_types(names: Sequence[str], types: Sequence[pa.DataType], *, where: str) -> None:
    """Refuse a table in which a column of the schema does not hold numbers."""
    for name, type_ in zip(names, types, strict=True):
        if not is_number(type_):
            raise not_numbers(name, str(type_), where=where)


def not_numbers(name: str, type_name: str, *, where: str) -> DataError:
    """Say that a column has a type that does not hold numbers."""
    return DataError(
        f"Column {name!r} of {where} must hold numbers; its type is {type_name}. Convert it to numbers "
        "first, or leave it out of the schema."
    )


def is_number(type_: pa.DataType) -> bool:
    """Whether a column of this Arrow type can be read as numbers."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return is_number(type_.value_type)
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(kind(type_) for kind in kinds)


def kind_of(type_: pa.DataType) -> str:
    """Say what a column of this Arrow type holds: number, integer, or something else in words."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_null(type_):
        return "nothing"
    if types.is_integer(type_) or types.is_boolean(type_):
        return "integer"
    if is_number(type_):
        return "number"
    return "dates or times" if types.is_temporal(type_) else "text"


def numbers(array: pa.Array) -> NDArray[Any]:
    """Return an Arrow array of numbers as a numpy array, without a copy if possible; a missing one is NaN."""
    import pyarrow as pa
    from pyarrow import compute, types

    if not is_number(array.type):
        # A file that was exchanged since it was opened: a cast would fail with a message that quotes a cell.
        raise DataError(f"A column must hold numbers; its type is {array.type}. Open the table again.")
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    native = types.is_integer(array.type) or types.is_floating(array.type)
    if not native or array.null_count:
        # safe=True would refuse large integers with a message that quotes them.
        array = compute.fill_null(compute.cast(array, pa.float64(), safe=False), _nan())
    # Array.to_numpy would import pandas.
    return np.from_dlpack(array)


def _nan() -> pa.Scalar:
    """Return NaN as Arrow has it; pa.scalar would import pandas."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(np.array([np.nan]))])[0]


def parse_cells(cells: pa.Array) -> pa.Array:
    """Read the cells of a CSV column as doubles; one that is not a number is missing.

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
