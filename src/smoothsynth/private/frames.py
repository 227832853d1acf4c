"""Tables in memory: pandas and polars frames, Arrow tables and anything with an Arrow stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.columns import check_names, check_types, not_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from smoothsynth.private.table import Source

_WHERE = "The table"
ACCEPTED = (
    "a pandas or polars frame, an Arrow table, an object with an Arrow stream, or a path to "
    "a .csv, .csv.gz, .parquet, .arrow or .feather file or to a folder of .parquet files"
)


def open_frame(data: Any, names: tuple[str, ...]) -> Source:
    """Return the source of rows for a table in memory."""
    import pyarrow as pa

    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _from_pandas(data, names)
    if polars is not None and isinstance(data, (polars.DataFrame, polars.LazyFrame)):
        return _from_polars(data, names)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _from_arrow(data, names)
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data, names)
    raise DataError(f"The data must be {ACCEPTED}; it is a {type(data).__name__}.")


@dataclass(frozen=True, slots=True, repr=False)
class ArrowSource:
    """Rows of an Arrow table that has just the columns of the schema."""

    table: pa.Table

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows, without a copy."""
        yield from self.table.to_batches(max_chunksize=batch_rows)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


@dataclass(frozen=True, slots=True, repr=False)
class PandasSource:
    """Rows of a pandas frame."""

    frame: Any
    names: tuple[str, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows; only one batch is ever converted."""
        import pyarrow as pa

        columns = {name: self.frame[name] for name in self.names}
        for start in range(0, self.rows, batch_rows):
            part = slice(start, start + batch_rows)
            arrays = {name: _pandas_array(column.iloc[part]) for name, column in columns.items()}
            yield pa.RecordBatch.from_pydict(arrays)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


def _from_pandas(frame: Any, names: tuple[str, ...]) -> Source:
    check_names(names, [label for label in frame.columns if isinstance(label, str)], where=_WHERE)
    for name in names:
        empty = frame[name].iloc[:0]
        array = _attempt(partial(_pandas_array, empty))
        if array is None or empty.dtype.name == "object":
            # A category prints its values: a dtype is shown by its name only.
            raise not_numbers(name, str(empty.dtype.name), where="the table")
        check_types([name], [array.type], where="the table")
    return PandasSource(frame, names)


def _pandas_array(column: Any) -> pa.Array:
    import pyarrow as pa

    if isinstance(column.dtype, np.dtype):
        # Arrow takes no foreign byte order, and not every stride.
        return pa.array(np.ascontiguousarray(column.to_numpy(), dtype=column.dtype.newbyteorder("=")))
    array = pa.array(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _from_polars(frame: Any, names: tuple[str, ...]) -> Source:
    found = _attempt(lambda: frame.collect_schema().names())
    if found is None:
        raise DataError("The polars query must have a valid schema and has none. Collect it to see why.")
    check_names(names, found, where=_WHERE)
    table = _attempt(lambda: frame.lazy().select(names).collect().to_arrow())
    if table is None:
        raise DataError(
            "The polars frame must be computable, with numbers in the columns of the schema. "
            "Collect it first, and cast those columns to Float64."
        )
    return _from_arrow(table, names)


def _from_arrow(table: pa.Table, names: tuple[str, ...]) -> Source:
    check_names(names, table.schema.names, where=_WHERE)
    chosen = table.select(list(names))
    check_types(names, chosen.schema.types, where="the table")
    return ArrowSource(chosen)


def _from_stream(data: Any, names: tuple[str, ...]) -> Source:
    """Read a stream to its end, keeping only the columns of the schema: it may not start twice."""
    import pyarrow as pa

    reader = _attempt(lambda: pa.RecordBatchReader.from_stream(data))
    if reader is None:
        raise DataError("The Arrow stream must be readable and is not. Pass an Arrow table instead.")
    check_names(names, reader.schema.names, where=_WHERE)
    fields = [reader.schema.field(name) for name in names]
    check_types(names, [field.type for field in fields], where="the table")
    batches = _attempt(lambda: [batch.select(list(names)) for batch in reader])
    if batches is None:
        raise DataError("The Arrow stream must be readable to its end and is not. Pass an Arrow table instead.")
    return ArrowSource(pa.Table.from_batches(batches, schema=pa.schema(fields)))


def _attempt(action: Any) -> Any:
    """Return the result, or None if it fails: foreign errors may quote values, so they are not chained."""
    try:
        return action()
    except Exception:
        return None
