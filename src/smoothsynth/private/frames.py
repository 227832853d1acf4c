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
    columns: Mapping[str, Column]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows; only one batch is ever converted."""
        return chain.from_iterable(self.parts(batch_rows, 1))

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that different threads can convert."""
        for start in range(0, self.rows, batch_rows):
            yield self._converted(slice(start, start + batch_rows))

    def _converted(self, part: slice) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        cells = {name: _readable_array(self.frame[name].iloc[part], column) for name, column in self.columns.items()}
        yield from safe_batches([pa.RecordBatch.from_pydict(cells)])

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


def open_pandas(frame: Any, columns: Mapping[str, Column]) -> Source:
    """Open a pandas frame; its columns become Arrow ones batch by batch."""
    check_names(tuple(columns), [label for label in frame.columns if isinstance(label, str)], where=_WHERE)
    for name, column in columns.items():
        empty = frame[name].iloc[:0]
        array = _attempt(partial(_typed_array, empty))
        if array is None or not readable(array.type, column):
            # A category prints its values: a dtype is shown by its name only.
            raise wrong_type(name, str(empty.dtype.name), column, where="the table")
    return PandasSource(frame, columns)


def _readable_array(column: Any, facts: Column) -> pa.Array:
    """Return cells as an array of their type, or cell by cell: text that Arrow refuses, a Dask partition of another type."""
    array = _attempt(partial(_typed_array, column))
    return arrow_of(column.tolist()) if array is None or not readable(array.type, facts) else array


def _typed_array(column: Any) -> pa.Array:
    """Return cells as Arrow has them by the type of their column; objects one by one, as text."""
    import pyarrow as pa

    if column.dtype.name == "category":
        return _coded_array(column.cat)
    if isinstance(column.dtype, np.dtype):
        if column.dtype.kind not in "biufMO":
            raise TypeError(column.dtype.name)
        return arrow_of(column.to_numpy())
    array = pa.array(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _coded_array(category: Any) -> pa.Array:
    """Return a pandas category as an Arrow dictionary of the values that occur."""
    import pyarrow as pa

    used, places = np.unique(category.codes.to_numpy(), return_inverse=True)
    values = category.categories.take(used[used >= 0])
    indices = places - int(np.count_nonzero(used < 0))
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), _typed_array(values))


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
