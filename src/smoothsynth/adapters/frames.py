"""Frames of any kind in, and the same kind out.

Whatever frame comes in, the same kind goes out (narwhals); and NumPy arrays.

What is kept of a frame is its kind, never the frame: it may hold private rows, or a query that leads to them.

Any number of rows from any release: post-processing of what was released, so it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import DataError, PlanError
from smoothsynth.model.sampling import generator, systematic
from smoothsynth.pipeline.sample import sample
from smoothsynth.schema.cells import arrow_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow
    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Schema


ARRAY = "numpy"
EAGER = ("pandas", "polars", "pyarrow", "modin", "cudf")
LAZY = ("polars", "duckdb", "dask")


@dataclass(frozen=True, slots=True)
class Kind:
    """The library of a frame, whether it is lazy, and the dtype of an array."""

    library: str
    lazy: bool = False
    dtype: str | None = None

    def of(self, table: pyarrow.Table) -> Any:
        """Return an Arrow table as a frame of this kind; an Arrow table is passed on as it is."""
        if self.library == ARRAY:
            return _array(table, self.dtype)
        if self.library == "pyarrow":
            return table
        narwhals = _narwhals()
        if not self.lazy:
            return narwhals.from_arrow(table, backend=self.library).to_native()
        return narwhals.from_native(table).lazy(backend=self.library).to_native()


def like(frame: Any, table: pyarrow.Table) -> Any:
    """Return `table` as the same kind of frame as `frame`: pandas, polars, Arrow, Modin, cuDF, DuckDB, Dask, NumPy."""
    return kind_of(frame).of(table)


def kind_of(frame: Any) -> Kind:
    """Say what kind of frame this is, without a look at its rows."""
    if isinstance(frame, np.ndarray):
        # The length of text in an array is that of its longest cell: only the type of numbers is kept.
        return Kind(ARRAY, dtype=frame.dtype.str if frame.dtype.kind == "f" else None)
    narwhals = _narwhals()
    try:
        known = narwhals.from_native(frame)
    except TypeError:
        problem = f"a {type(frame).__name__} is no frame that narwhals knows. Take release.to_arrow()"
    else:
        kind = Kind(known.implementation.value, lazy=isinstance(known, narwhals.LazyFrame))
        if kind.library in (LAZY if kind.lazy else EAGER):
            return kind
        problem = f"rows cannot be put into a frame of {kind.library}. Take release.to_arrow(), or .to_pandas()"
    raise DataError(f"The same kind of frame goes out as came in, but {problem}.")


def is_frame(data: Any) -> bool:
    """Whether this has named columns, unlike an array or a list of rows."""
    return hasattr(type(data), "columns") or hasattr(type(data), "__arrow_c_stream__")


def names_of(frame: Any) -> list[Any]:
    """Return the names of the columns, without a look at rows."""
    return list(_narwhals().from_native(frame).collect_schema().names())


def header(names: list[str]) -> pyarrow.Table:
    """Return a table with these names and no rows, for whoever shall see nothing but names."""
    import pyarrow

    return pyarrow.Table.from_arrays([pyarrow.nulls(0) for _ in names], names)


def column_of(frame: Any, name: str) -> NDArray[Any]:
    """Return one column as a NumPy array."""
    known = _narwhals().from_native(frame).lazy().select(name).collect()
    return np.asarray(known[name].to_numpy())


def named(frame: Any, names: Sequence[str]) -> Any:
    """Return a pandas frame with other names of its columns; its cells are not copied."""
    return frame.set_axis(list(names), axis="columns")


def array_of(rows: Sequence[Any]) -> NDArray[Any]:
    """Return a list of rows as an array of objects; NumPy would choose one type for all cells, by looking at them.

    The first row says how many columns there are; all cells of a row of another length are missing.
    """
    if not rows or not _is_row(rows[0]):
        return np.empty(len(rows), dtype=object)
    cells = np.empty((len(rows), len(rows[0])), dtype=object)
    for place, row in enumerate(rows):
        # As in a CSV file: nobody can say which column the cells of a row of another length belong to.
        if _is_row(row) and len(row) == cells.shape[1]:
            for column, cell in enumerate(row):
                cells[place, column] = cell
    return cells


def _is_row(row: object) -> bool:
    return isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)


def table_of(rows: NDArray[Any], schema: Schema) -> pyarrow.Table:
    """Return the columns of an array, (rows, columns of the schema in order), as an Arrow table."""
    import pyarrow

    if rows.dtype.kind not in "biufMUSO":
        raise DataError(f"An array must hold numbers, text, moments or objects; its type is {rows.dtype.name}.")
    columns = zip(schema.names, rows.T, strict=True)
    return pyarrow.table({name: arrow_of(cells, schema.columns[name]) for name, cells in columns})


def _array(table: pyarrow.Table, dtype: str | None) -> NDArray[Any]:
    columns = [column.to_numpy() for column in table.columns]
    if any(column.dtype.kind not in "biuf" for column in columns):
        return np.column_stack([column.astype(object) for column in columns])
    rows = np.column_stack(columns)
    # An array of integers may have become one of numbers between the bounds: those are not rounded.
    return rows.astype(dtype) if dtype is not None and np.dtype(dtype).kind == "f" else rows


def _narwhals() -> Any:
    try:
        import narwhals
    except ImportError:
        raise DataError(
            "To return the kind of frame that came in, narwhals is needed, which is not installed. "
            "Run: pip install 'smoothsynth[narwhals]'"
        ) from None
    return narwhals


def draw(release: Release, rows: int | np.integer[Any], *, seed: int | None = None) -> pyarrow.Table:
    """Draw new rows from the model of a release.

    Where rows were weighed among candidates there is no model: then the released rows are repeated, each floor(m/n) or
    ceil(m/n) times, since the tools that ask here expect any number of rows.
    """
    wanted = int(rows) if isinstance(rows, np.integer) else rows
    receipt, count = release.receipt, release.table.num_rows
    if (receipt.candidates, receipt.fit) == ("model", "maximum entropy"):
        return sample(release, wanted, seed=seed)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise PlanError(f"The number of rows must be a whole number from 1 on; found {wanted!r:.40}.")
    return release.table.take(systematic(np.full(count, 1.0 / count), wanted, generator=generator(seed)))
