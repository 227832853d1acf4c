"""Columns of Arrow data: which types a column of the schema can be read from, and a total map from cells to numbers.

Whether a column can be read is decided by its type alone, a public fact of the file. Once it can, every
cell has a value or is missing, so that no single value can surface as an error.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.schema import Category, unknown_column
from smoothsynth.schema.category import AllLevels, Intervals
from smoothsynth.schema.cells import doubles, is_text, numbers_of, plain_values
from smoothsynth.schema.reading import prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema import Column, Schema


_HELD = {
    "number": "numbers",
    "integer": "numbers",
    "boolean": "true and false",
    "category": "text or whole numbers",
    "date": "dates",
    "datetime": "dates or times",
}


# What stands in cells rather than over them: dates and times, truth values, words for a missing value.
_CELL = re.compile(
    r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([ T].*)?|\d{1,2}:\d{2}.*|true|false|na|n/a|null|none|#n/a", re.IGNORECASE
)


def check_names(wanted: Sequence[str], found: Sequence[str], *, where: str) -> None:
    """Refuse a table in which a column of the schema is absent or occurs twice.

    The names of the table are shown only if one of them is known from the schema and none looks like a cell:
    else they may be the first row of a file that has no line of names.
    """
    known = Counter(found)
    missing = [name for name in wanted if not known[name]]
    if len(missing) == len(wanted):
        raise DataError(
            f"{where} must have the columns of the schema ({wanted[0]!r}, ...) and has none of them. "
            "Name its columns as in the schema; a CSV file must begin with a line of column names."
        )
    if missing:
        names = () if looks_like_cells(found) else tuple(found)
        raise DataError(f"{where} must have all columns of the schema. {unknown_column(missing[0], names)}")
    for name in wanted:
        if known[name] > 1:
            raise DataError(f"{where} has more than one column {name!r}. Rename or drop all but one of them.")


def looks_like_cells(names: Sequence[str]) -> bool:
    """Say whether the first line of a file looks like a row: by the line alone, so that no other row has a say."""
    words = [name.strip() for name in names]
    return len(set(words)) < len(words) or any(not word or _CELL.fullmatch(word) or _is_number(word) for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def check_types(columns: Mapping[str, Column], types: Sequence[pa.DataType], *, where: str) -> None:
    """Refuse a table in which a column does not hold what the schema says."""
    for (name, column), type_ in zip(columns.items(), types, strict=True):
        if not readable(type_, column):
            raise wrong_type(name, str(type_), column, where=where)


def wrong_type(name: str, type_name: str, column: Column, *, where: str) -> DataError:
    """Say that a column has a type that does not hold what the schema says."""
    alike = isinstance(column, Category) and not column.readable_from(doubles=True)
    held = "text, as some of its levels are the same to a column of numbers" if alike else _HELD[column.kind]
    return DataError(
        f"Column {name!r} of {where} must hold {held}; its type is {type_name}. Convert it first, describe it as "
        "another type in the schema, or leave it out."
    )


def readable(type_: pa.DataType, column: Column) -> bool:
    """Whether cells of this Arrow type can be read as those of a column; nothing but nulls always can, and so can text.

    One odd cell makes a column text in pandas, polars and DuckDB: text is read cell by cell, by the rules of a CSV file.
    """
    from pyarrow import types

    if types.is_dictionary(type_):
        return readable(type_.value_type, column)
    if types.is_null(type_) or is_text(type_):
        return True
    if types.is_date(type_) or types.is_timestamp(type_):
        return column.kind in ("date", "datetime", "category")
    if column.kind in ("date", "datetime"):
        # A column of which all cells are missing is one of doubles in pandas: none of them is a day.
        return bool(types.is_floating(type_))
    if isinstance(column, Category) and not column.readable_from(doubles=types.is_floating(type_)):
        return False
    return is_number(type_)


def is_number(type_: pa.DataType) -> bool:
    """Whether a column of this Arrow type can be read as numbers."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return is_number(type_.value_type)
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
    return any(kind(type_) for kind in kinds)


def kind_of(type_: pa.DataType) -> str:
    """Say what a column of this Arrow type holds: the name of a type of the schema, or something else in words."""
    from pyarrow import types

    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    kinds = {
        "nothing": types.is_null,
        "boolean": types.is_boolean,
        "integer": types.is_integer,
        "number": is_number,
        "date": types.is_date,
        "datetime": types.is_timestamp,
        "category": is_text,
    }
    return next((kind for kind, is_kind in kinds.items() if is_kind(type_)), str(type_).split("<", maxsplit=1)[0])


def read_cells(array: pa.Array, column: Column | Intervals | AllLevels) -> NDArray[Any]:
    """Return what the sums of a column need: places among levels or intervals (-1: none), else numbers (NaN: missing).

    Text is read cell by cell. What cannot be read is missing.
    """
    array = prepared(array, column.column if isinstance(column, Intervals) else column)
    if isinstance(column, (Category, AllLevels)):
        return column.codes(array)
    array = plain_values(array)
    plain = column.kind in ("number", "integer") and not is_text(array.type)
    found = numbers(array) if plain else numbers_of(array, column.kind)
    return column.codes(found) if isinstance(column, Intervals) else found


def read_rows(batch: pa.RecordBatch, schema: Schema) -> dict[str, pa.Array]:
    """Return the columns of a batch of private rows, as the options of the schema say that they are read."""
    return {name: prepared(batch.column(name), column) for name, column in schema.columns.items()}


def numbers(array: pa.Array) -> NDArray[Any]:
    """Return an Arrow array of numbers as a numpy array, without a copy if possible; a missing one is NaN."""
    from pyarrow import types

    if not is_number(array.type):
        # A file that was exchanged since it was opened: a cast would fail with a message that quotes a cell.
        raise DataError(f"A column must hold numbers; its type is {array.type}. Open the table again.")
    array = plain_values(array)
    native = types.is_integer(array.type) or types.is_floating(array.type)
    if not native or array.null_count:
        return doubles(array)
    # Array.to_numpy would import pandas.
    return np.from_dlpack(array)
