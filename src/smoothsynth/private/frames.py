"""Tables in memory: pandas and polars frames and Arrow tables; and which kind of table some data is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private import queries
from smoothsynth.private.columns import check_names, check_types, readable, wrong_type
from smoothsynth.private.validation import safe_batches
from smoothsynth.schema.cells import arrow_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from smoothsynth.private.table import Source
    from smoothsynth.schema import Column

_WHERE = "The table"
ACCEPTED = (
    "a pandas or polars frame, an Arrow table, a DuckDB relation, an object with an Arrow stream, or paths to "
    "files (.parquet, .csv, .csv.gz, .arrow, .arrows, .feather, .ipc), to folders of .parquet files, or with * in them"
)


def open_frame(data: Any, columns: Mapping[str, Column], *, memory: int) -> Source:
    """Return the source of rows for a table in memory; `memory` is how many bytes of a stream may be kept."""
    import pyarrow as pa

    pandas, polars, duckdb = (sys.modules.get(name) for name in ("pandas", "polars", "duckdb"))
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return open_pandas(data, columns)
    if polars is not None and isinstance(data, (polars.DataFrame, polars.LazyFrame)):
        return _from_polars(data, columns)
    if duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation):
        return queries.from_duckdb(data, columns)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _from_arrow(data, columns)
    if hasattr(data, "__arrow_c_stream__"):
        # What can be iterated over by itself can be so only once.
        once = isinstance(data, pa.RecordBatchReader) or hasattr(data, "__next__")
        return queries.kept_stream(data, columns, memory=memory) if once else queries.from_stream(data, columns)
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
        return safe_batches(self.table.to_batches(max_chunksize=batch_rows))

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
        return chain.from_iterable(self.parts(batch_rows, 1))

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that different threads can convert."""
        columns = {name: self.frame[name] for name in self.names}
        for start in range(0, self.rows, batch_rows):
            yield _pandas_rows(columns, slice(start, start + batch_rows))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


def open_pandas(frame: Any, columns: Mapping[str, Column]) -> Source:
    """Open a pandas frame; its columns become Arrow ones batch by batch."""
    names = tuple(columns)
    check_names(names, [label for label in frame.columns if isinstance(label, str)], where=_WHERE)
    for name, column in columns.items():
        empty = frame[name].iloc[:0]
        array = _attempt(partial(_pandas_array, empty))
        if array is None or not readable(array.type, column):
            # A category prints its values: a dtype is shown by its name only.
            raise wrong_type(name, str(empty.dtype.name), column, where="the table")
    return PandasSource(frame, names)


def _pandas_rows(columns: dict[str, Any], part: slice) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({name: _pandas_array(column.iloc[part]) for name, column in columns.items()})


def _pandas_array(column: Any) -> pa.Array:
    import pyarrow as pa

    if column.dtype == object:
        # Cells of any kind: each becomes text by itself, so that none of them can be an error.
        return arrow_of(column.to_numpy())
    if isinstance(column.dtype, np.dtype):
        # Arrow takes no foreign byte order, and not every stride.
        return pa.array(np.ascontiguousarray(column.to_numpy(), dtype=column.dtype.newbyteorder("=")))
    array = pa.array(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _from_polars(frame: Any, columns: Mapping[str, Column]) -> Source:
    found = _attempt(lambda: frame.collect_schema().names())
    if found is None:
        raise DataError("The polars query must have a valid schema and has none. Collect it to see why.")
    check_names(tuple(columns), found, where=_WHERE)
    chosen = frame.lazy().select(list(columns))
    if hasattr(frame, "collect_batches"):
        return queries.from_polars(chosen, columns)
    table = _attempt(lambda: chosen.collect().to_arrow())
    if table is None:
        raise queries.not_computable()
    return _from_arrow(table, columns)


def _from_arrow(table: pa.Table, columns: Mapping[str, Column]) -> Source:
    check_names(tuple(columns), table.schema.names, where=_WHERE)
    chosen = table.select(list(columns))
    check_types(columns, chosen.schema.types, where="the table")
    return ArrowSource(chosen)


def _attempt(action: Any) -> Any:
    """Return the result, or None if it fails: foreign errors may quote values, so they are not chained."""
    try:
        return action()
    except Exception:
        return None
