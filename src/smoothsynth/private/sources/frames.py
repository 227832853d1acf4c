"""Frames of pandas and polars, DuckDB relations, Arrow tables and streams.

Tables that are computed anew at each pass: polars queries, DuckDB relations, objects with an Arrow stream.

Nothing of them is kept but a batch. A stream that can be read only once is the exception: a plan has several
passes, so it is kept in memory as far as the memory that is allowed goes, and never written to a disk.

Tables in memory: pandas and polars frames and Arrow tables; and which kind of table some data is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.private.sources.cells import check_names, check_types, kind_of, readable, wrong_type
from smoothsynth.private.sources.foreign import attempt
from smoothsynth.private.sources.validation import safe_batches
from smoothsynth.schema.cells import arrow_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from smoothsynth.private.table import Source
    from smoothsynth.schema import Column


_WHERE_QUERY = "The table"
_KEPT_ROWS = 2**16
Batches = Callable[[int], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True, slots=True, repr=False)
class QuerySource:
    """Rows of whatever can be asked for batches of at most so many rows again and again."""

    ask: Batches
    names: tuple[str, ...]
    rows: int
    refusal: str

    def batches(self, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows; a foreign error may quote them, and is replaced and not chained."""
        chosen = (batch.select(list(self.names)) for batch in _each(lambda: self.ask(batch_rows), self.refusal))
        for batch in safe_batches(chosen):
            yield from (batch.slice(start, batch_rows) for start in range(0, batch.num_rows, batch_rows))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("Private rows cannot be copied or pickled.")


def from_polars(query: Any, columns: Mapping[str, Column]) -> Source:
    """Return the source of rows for a polars query that has just these columns."""
    import polars

    empty = attempt(lambda: query.head(0).collect().to_arrow())
    rows = attempt(lambda: int(query.select(polars.len()).collect().item()))
    if empty is None or rows is None:
        raise not_computable()
    check_types(columns, empty.schema.types, where="the table")

    def ask(batch_rows: int) -> Iterator[pa.RecordBatch]:
        for frame in query.collect_batches(chunk_size=batch_rows):
            yield from frame.to_arrow().to_batches()

    return QuerySource(ask, tuple(columns), rows, str(not_computable()))


def not_computable() -> DataError:
    """Say that a polars query fails."""
    return DataError(
        "The polars frame must be computable, with the types of the schema in its columns. "
        "Collect it first, and cast those columns, numbers to Float64."
    )


def from_duckdb(relation: Any, columns: Mapping[str, Column]) -> Source:
    """Return the source of rows for a DuckDB relation, which is asked for the columns of the schema only."""
    names = tuple(columns)
    check_names(names, list(relation.columns), where=_WHERE_QUERY)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    refusal = "The DuckDB relation must be computable and is not. Run it by itself to see why."
    # Relations answer to the names of their columns: methods are looked up on the class.
    kind = type(relation)
    reader = next(m for m in ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch") if hasattr(kind, m))

    def ask(batch_rows: int) -> Iterator[pa.RecordBatch]:
        return iter(getattr(relation.project(quoted), reader)(batch_rows))

    found = attempt(lambda: getattr(relation.project(quoted).limit(0), reader)(1).schema)
    rows = attempt(lambda: int(relation.aggregate("count(*)").fetchall()[0][0]))
    if found is None or rows is None:
        raise DataError(refusal)
    check_types(columns, found.types, where="the table")
    return QuerySource(ask, names, rows, refusal)


def from_stream(data: Any, columns: Mapping[str, Column]) -> Source:
    """Return the source of rows for an object that gives a new Arrow stream whenever it is asked for one."""
    import pyarrow as pa

    _checked(data, columns)
    refusal = (
        "The data must give the same Arrow stream, readable to its end, at every pass, and does not. Pass an Arrow table, "
        "or write the rows to a Parquet file and pass its path."
    )

    def ask(batch_rows: int) -> Iterator[pa.RecordBatch]:
        return iter(pa.RecordBatchReader.from_stream(data))

    rows = sum(batch.num_rows for batch in _each(lambda: ask(1), refusal))
    return QuerySource(ask, tuple(columns), rows, refusal)


def kept_stream(data: Any, columns: Mapping[str, Column], *, memory: int) -> Source:
    """Read a stream that can be read only once to its end, and keep the columns of the schema."""
    reader, names = _checked(data, columns), tuple(columns)
    refusal = "The Arrow stream must be readable to its end and is not. Pass an Arrow table instead."
    batches = safe_batches(batch.select(list(names)) for batch in _each(lambda: iter(reader), refusal))
    kept = _kept(batches, memory, "A stream that can be read only once is kept in memory, and this one takes")
    return QuerySource(lambda _: iter(kept), names, sum(batch.num_rows for batch in kept), refusal)


def kept_query(source: Source, *, memory: int) -> Source:
    """Return a source that gives its rows in the same order at every pass: those of a query are kept in memory."""
    import pyarrow as pa

    if not isinstance(source, QuerySource):
        return source
    words = "The rows of a query about persons are kept in memory, and these take"
    kept = _kept(source.batches(_KEPT_ROWS), memory, words)
    if sum(batch.num_rows for batch in kept) != source.rows:
        # Where one cell makes a thread of polars panic, rows just end: those of all others would be lost without a word.
        raise DataError(source.refusal)
    return ArrowSource(pa.Table.from_batches(kept)) if kept else source


def _kept(batches: Iterator[pa.RecordBatch], memory: int, words: str) -> list[pa.RecordBatch]:
    kept, size = [], 0
    for batch in batches:
        kept.append(batch)
        size += kept[-1].nbytes
        if size > memory:
            raise DataError(
                f"{words} more than the {memory / 1e6:,.0f} MB that are left for it. Write it to a Parquet file and pass "
                "its path, or allow more with memory='4GB'."
            )
    return kept


def _checked(data: Any, columns: Mapping[str, Column]) -> Any:
    import pyarrow as pa

    reader = attempt(lambda: pa.RecordBatchReader.from_stream(data))
    if reader is None:
        raise DataError("The Arrow stream must be readable and is not. Pass an Arrow table instead.")
    check_names(tuple(columns), reader.schema.names, where=_WHERE_QUERY)
    check_types(columns, [reader.schema.field(name).type for name in columns], where="the table")
    return reader


def _each(start: Callable[[], Iterator[pa.RecordBatch]], refusal: str) -> Iterator[pa.RecordBatch]:
    """Go through batches; an error on the way becomes ours."""
    end = object()
    batches = attempt(start)
    while batches is not None:
        batch = attempt(lambda: next(batches, end))
        if batch is end:
            return
        if batch is None:
            break
        yield batch
    raise DataError(refusal)


_WHERE = "The table"
ACCEPTED = (
    "a pandas or polars frame, an Arrow table, a DuckDB relation, an object with an Arrow stream, or paths to "
    "files (.parquet, .csv, .csv.gz, .xlsx, .arrow, .arrows, .feather, .ipc), to folders of .parquet files, or with * in them"
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
        return from_duckdb(data, columns)
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return _from_arrow(data, columns)
    if hasattr(data, "__arrow_c_stream__"):
        # What can be iterated over by itself can be so only once.
        once = isinstance(data, pa.RecordBatchReader) or hasattr(data, "__next__")
        return kept_stream(data, columns, memory=memory) if once else from_stream(data, columns)
    raise DataError(f"The data must be {ACCEPTED}; it is a {type(data).__name__}.")


def column_kinds(data: Any) -> list[tuple[str, str]]:
    """Return the names of the columns of a table in memory, and what their types hold; no row of it is read."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return [(str(label), _kind_of_label(data, label)) for label in dict.fromkeys(data.columns)]
    schema = attempt(lambda: _arrow_schema(data))
    if schema is None:
        raise DataError(f"The data must be {ACCEPTED}; it is a {type(data).__name__}.")
    return [(field.name, kind_of(field.type)) for field in schema]


def _kind_of_label(frame: Any, label: Any) -> str:
    """Say what the column of a pandas frame with a label holds."""
    if not isinstance(label, str):
        return "cells under a name that is no text"
    if list(frame.columns).count(label) > 1:
        return "cells under a name that several columns have"
    array = attempt(partial(_typed_array, frame[label].iloc[:0]))
    return "other" if array is None else kind_of(array.type)


def _arrow_schema(data: Any) -> pa.Schema:
    """Return the Arrow schema of a table; a polars query and a DuckDB relation are asked for no row."""
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return data.schema
    if hasattr(type(data), "collect_schema"):
        return data.lazy().head(0).collect().to_arrow().schema
    empty = data.limit(0) if hasattr(type(data), "project") else data
    return pa.RecordBatchReader.from_stream(empty).schema


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

    def parts(self, batch_rows: int, readers: int) -> Iterator[Iterable[pa.RecordBatch]]:
        """Yield parts that can be summed by different threads."""
        return ((batch,) for batch in self.batches(batch_rows))

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
        array = attempt(partial(_typed_array, empty))
        if array is None or not readable(array.type, column):
            # A category prints its values: a dtype is shown by its name only.
            raise wrong_type(name, str(empty.dtype.name), column, where="the table")
    return PandasSource(frame, columns)


def _readable_array(column: Any, facts: Column) -> pa.Array:
    """Return cells as an array of their type, or cell by cell: text that Arrow refuses, a Dask partition of another type."""
    array = attempt(partial(_typed_array, column, facts))
    return arrow_of(column.tolist(), facts) if array is None or not readable(array.type, facts) else array


def _typed_array(column: Any, facts: Column | None = None) -> pa.Array:
    """Return cells as Arrow has them by the type of their column; objects one by one, as text."""
    import pyarrow as pa

    if column.dtype.name == "category":
        return _coded_array(column.cat, facts)
    if isinstance(column.dtype, np.dtype):
        if column.dtype.kind not in "biufMO":
            raise TypeError(column.dtype.name)
        return arrow_of(column.to_numpy(), facts)
    array = pa.array(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _coded_array(category: Any, facts: Column | None) -> pa.Array:
    """Return a pandas category as an Arrow dictionary of the values that occur."""
    import pyarrow as pa

    used, places = np.unique(category.codes.to_numpy(), return_inverse=True)
    values = category.categories.take(used[used >= 0])
    indices = places - int(np.count_nonzero(used < 0))
    return pa.DictionaryArray.from_arrays(pa.array(indices, mask=indices < 0), _typed_array(values, facts))


def _from_polars(frame: Any, columns: Mapping[str, Column]) -> Source:
    found = attempt(lambda: frame.collect_schema().names())
    if found is None:
        raise DataError("The polars query must have a valid schema and has none. Collect it to see why.")
    check_names(tuple(columns), found, where=_WHERE)
    chosen = frame.lazy().select(list(columns))
    if hasattr(frame, "collect_batches"):
        return from_polars(chosen, columns)
    table = attempt(lambda: chosen.collect().to_arrow())
    if table is None:
        raise not_computable()
    return _from_arrow(table, columns)


def _from_arrow(table: pa.Table, columns: Mapping[str, Column]) -> Source:
    check_names(tuple(columns), table.schema.names, where=_WHERE)
    chosen = table.select(list(columns))
    check_types(columns, chosen.schema.types, where="the table")
    return ArrowSource(chosen)
