"""Arrow data that other software wrote, made safe to compute with.

Arrow trusts the lengths, offsets and places in a dictionary that it is given: where they are wrong, its functions read
whatever stands in memory. So they are looked at first. What a cell holds is never a reason to refuse its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import DataError
from smoothsynth.schema.cells import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_DECIMAL_BYTES, _DECIMAL_DIGITS = 16, 38


def safe_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches that can be computed with; one that is damaged is refused in words, and no error of Arrow is chained."""
    for batch in batches:
        found = _attempt(batch)
        if found is None:
            raise DataError(
                "The Arrow data must be whole, and a part of it has lengths, offsets or places in a dictionary that cannot "
                "be. Make the table again, with software that validates it."
            )
        yield found


def validated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose columns can all be computed with; an error of Arrow says that its structure is damaged.

    Bytes of text that are no UTF-8 become U+FFFD, in their cell alone.
    """
    import pyarrow as pa

    batch.validate()
    return pa.RecordBatch.from_arrays([_validated(column) for column in batch.columns], names=batch.schema.names)


def _attempt(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    import pyarrow as pa

    try:
        return validated(batch)
    except pa.ArrowException:
        return None


def _validated(array: pa.Array) -> pa.Array:
    import pyarrow as pa
    from pyarrow import types

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        array = _mended(array)
    if types.is_decimal(array.type) and array.type.byte_width < _DECIMAL_BYTES:
        # Functions of Arrow take short decimals one after the other, version by version.
        array = array.cast(pa.decimal128(_DECIMAL_DIGITS, array.type.scale), safe=False)
    return array


def _mended(array: pa.Array) -> pa.Array:
    """Return an array in which only the content of cells was wrong; an error says that more is."""
    import pyarrow as pa
    from pyarrow import types

    array.validate()
    if types.is_dictionary(array.type):
        # This looks at every place in the dictionary.
        return pa.DictionaryArray.from_arrays(_validated(array.indices), _validated(array.dictionary))
    storage = _storage(array)
    storage.validate(full=True)
    if not is_text(array.type):
        return array
    cells = (None if cell is None else cell.decode("utf-8", "replace") for cell in storage.to_pylist())
    return pa.array(list(cells), pa.large_string())


def _storage(array: pa.Array) -> pa.Array:
    """Return the same bytes as a type in which a cell may hold any of them."""
    import pyarrow as pa
    from pyarrow import types

    if is_text(array.type):
        kinds = {"string": pa.binary, "large_string": pa.large_binary}
        return array.view(kinds.get(str(array.type), getattr(pa, "binary_view", pa.binary))())
    wide = types.is_primitive(array.type) or types.is_decimal(array.type)
    return array.view(pa.binary(array.type.bit_width // 8)) if wide else array
