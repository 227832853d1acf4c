"""Tables that are computed anew at each pass: polars queries, DuckDB relations, objects with an Arrow stream.

Nothing of them is kept but a batch. A stream that can be read only once is the exception: a plan has several
passes, so it is kept in memory as far as the memory that is allowed goes, and never written to a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from smoothsynth.errors import DataError
from smoothsynth.private.columns import check_names, check_types
from smoothsynth.private.validation import safe_batches

if TYPE_CHECKING:
    import pyarrow as pa

    from smoothsynth.private.table import Source
    from smoothsynth.schema import Column

_WHERE = "The table"
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

    empty = _attempt(lambda: query.head(0).collect().to_arrow())
    rows = _attempt(lambda: int(query.select(polars.len()).collect().item()))
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
    check_names(names, list(relation.columns), where=_WHERE)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    refusal = "The DuckDB relation must be computable and is not. Run it by itself to see why."
    # Relations answer to the names of their columns: methods are looked up on the class.
    kind = type(relation)
    reader = next(m for m in ("to_arrow_reader", "fetch_arrow_reader", "fetch_record_batch") if hasattr(kind, m))

    def ask(batch_rows: int) -> Iterator[pa.RecordBatch]:
        return iter(getattr(relation.project(quoted), reader)(batch_rows))

    found = _attempt(lambda: getattr(relation.project(quoted).limit(0), reader)(1).schema)
    rows = _attempt(lambda: int(relation.aggregate("count(*)").fetchall()[0][0]))
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
    kept, size = [], 0
    refusal = "The Arrow stream must be readable to its end and is not. Pass an Arrow table instead."
    for batch in safe_batches(batch.select(list(names)) for batch in _each(lambda: iter(reader), refusal)):
        kept.append(batch)
        size += kept[-1].nbytes
        if size > memory:
            raise DataError(
                "A stream that can be read only once is kept in memory, and this one takes more than the "
                f"{memory / 1e6:,.0f} MB that are left for it. Write it to a Parquet file and pass its path, or allow "
                "more with memory='4GB'."
            )
    return QuerySource(lambda _: iter(kept), names, sum(batch.num_rows for batch in kept), refusal)


def _checked(data: Any, columns: Mapping[str, Column]) -> Any:
    import pyarrow as pa

    reader = _attempt(lambda: pa.RecordBatchReader.from_stream(data))
    if reader is None:
        raise DataError("The Arrow stream must be readable and is not. Pass an Arrow table instead.")
    check_names(tuple(columns), reader.schema.names, where=_WHERE)
    check_types(columns, [reader.schema.field(name).type for name in columns], where="the table")
    return reader


def _each(start: Callable[[], Iterator[pa.RecordBatch]], refusal: str) -> Iterator[pa.RecordBatch]:
    """Go through batches; an error on the way becomes ours."""
    end = object()
    batches = _attempt(start)
    while batches is not None:
        batch = _attempt(lambda: next(batches, end))
        if batch is end:
            return
        if batch is None:
            break
        yield batch
    raise DataError(refusal)


def _attempt(action: Callable[[], Any]) -> Any:
    """Return the result, or None if it fails: foreign errors may quote values, so they are not chained."""
    try:
        return action()
    except Exception:
        return None
