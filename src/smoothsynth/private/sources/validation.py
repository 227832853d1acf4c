"""Arrow data that other software wrote, made safe to compute with.

Arrow trusts the lengths, offsets and places in a dictionary that it is given: where they are wrong, its functions read
whatever stands in memory. So they are looked at first. What a cell holds is never a reason to refuse its table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.schema.cells import is_text
from smoothsynth.schema.texts import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


_DECIMAL_BYTES, _DECIMAL_DIGITS = 16, 38
_MOST_BYTES = 2**30
_VIEW_BYTES = 16


def safe_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches that can be computed with; one that is damaged is refused in words, and no error of Arrow is chained."""
    for batch in batches:
        found = _attempt(batch)
        if found is None:
            raise DataError(
                "The Arrow data must be whole, and a part of it has lengths, offsets or places in a dictionary that cannot "
                "be. Make the table again, with software that validates it."
            )
        yield from _small(found)


def _small(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts whose texts can be computed with: functions of Arrow count their bytes in 32 bits."""
    if batch.num_rows > 1 and any(_bytes(column) > _MOST_BYTES for column in batch.columns):
        half = batch.num_rows // 2
        yield from _small(batch.slice(0, half))
        yield from _small(batch.slice(half))
    else:
        yield _compact(batch)


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch that holds none of the texts beyond it: they may be more than 32 bits count."""
    import pyarrow as pa

    def far(array: pa.Array) -> bool:
        return is_text(array.type) and (array.buffers()[2] is not None and array.buffers()[2].size > _MOST_BYTES)

    if not any(map(far, batch.columns)):
        return batch
    rows = pa.array(np.arange(batch.num_rows))
    columns = [column.take(rows) if far(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _bytes(array: pa.Array) -> int:
    """Return the bytes of all texts of an array."""
    from pyarrow import compute

    return (compute.sum(compute.binary_length(array)).as_py() or 0) if is_text(array.type) else 0


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
    if types.is_dictionary(array.type) and is_text(array.type.value_type):
        return pa.DictionaryArray.from_arrays(array.indices, _short(array.dictionary))
    if is_text(array.type):
        return _short(array)
    if types.is_decimal(array.type) and array.type.byte_width < _DECIMAL_BYTES:
        # Functions of Arrow take short decimals one after the other, version by version.
        array = array.cast(pa.decimal128(_DECIMAL_DIGITS, array.type.scale), safe=False)
    return array


def _short(array: pa.Array) -> pa.Array:
    """Return texts of which those that are too long are missing; as a type that all functions of Arrow take."""
    import pyarrow as pa
    from pyarrow import compute

    if str(array.type) == "string_view":
        array = _cleared(array).cast(pa.large_string())
    lengths = compute.binary_length(array)
    longest = compute.max(lengths).as_py() or 0
    if longest > LONGEST_TEXT:
        return compute.if_else(compute.less_equal(lengths, LONGEST_TEXT), array, pa.nulls(1, array.type)[0])
    return array


def _cleared(views: pa.Array) -> pa.Array:
    """Return views of which those of missing cells are empty: nothing validates them, and a cast reads their lengths."""
    import pyarrow as pa

    validity, places, *texts = views.buffers()
    if validity is None:
        return views
    kept = np.frombuffer(places, np.uint8)[: (views.offset + len(views)) * _VIEW_BYTES].reshape(-1, _VIEW_BYTES).copy()
    kept[views.offset :][views.is_null().to_numpy(zero_copy_only=False)] = 0
    return pa.Array.from_buffers(views.type, len(views), [validity, pa.py_buffer(kept), *texts], offset=views.offset)


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
