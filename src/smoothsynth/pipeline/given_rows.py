"""Rows that somebody gives, public or synthetic, to be completed or to begin with: held against the schema of a release."""

from __future__ import annotations

import glob
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import DataError, PlanError, SchemaError
from smoothsynth.schema import Category, Number, unknown_column
from smoothsynth.schema.cells import is_text
from smoothsynth.schema.encoding import outside
from smoothsynth.schema.unresolved import is_open
from smoothsynth.schema.valued import plain

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.methods.options import Method
    from smoothsynth.schema import Column, Measure, Schema

    Array = NDArray[np.float64]


def given_rows(frame: Any, schema: Schema, *, called: str = "given rows") -> pa.Table:
    """Return the given columns in the types of a release; what no row of a release can hold is refused.

    `frame` is a pandas frame, or anything else that Arrow reads. An absent column is to be filled in; a null in a column that
    is there is a missing value, and stays one. `called` is what messages call the rows.
    """
    import pyarrow as pa

    table = _arrow(frame, called)
    if not table.num_rows or not table.num_columns:
        raise DataError(f"The {called} must have at least one row and one column of the schema; there are none.")
    for name in table.column_names:
        if name not in schema.names:
            raise SchemaError(
                f"{unknown_column(name, schema.names)} Leave out of the {called} what is not in the schema."
            )
    if len(set(table.column_names)) < table.num_columns:
        raise DataError(f"A column of the {called} is there twice. Give each column once.")
    ordered = [name for name in schema.names if name in table.column_names]
    return pa.table({name: _checked(name, table[name], schema.columns[name], called) for name in ordered})


# A model begins with no more rows than it swaps; of more, as many are taken evenly.
_MOST_PRIOR = 50_000


def public_prior(prior: Any, schema: Schema, data: Any, method: Method, *, keep: object) -> pa.Table:
    """Return the public rows of a prior: a frame, a file, a release or its folder; refuse what would publish private rows."""
    if method.name != "auto":
        raise PlanError("A prior is where the model of method='auto' begins; other methods have none. Leave it out.")
    if keep is not None:
        raise PlanError("Sums are kept for updates, which do not know of a prior. Leave out prior or keep.")
    if is_open(schema):
        raise PlanError(
            "A prior needs public bounds, levels and codes. Declare those that are private, or leave it out."
        )
    if prior is data or _is_among(_place(prior), data):
        raise PlanError("The prior is the private table itself, and would be published. Name a public table.")
    table = given_rows(_only_columns(_arrow(_public_table(prior, schema), "prior"), schema), schema, called="prior")
    if absent := [name for name in schema.names if name not in table.column_names]:
        raise SchemaError(f"A prior must have every column of the schema; {absent[0]!r:.80} is not there.")
    every = -(-table.num_rows // _MOST_PRIOR)
    return table.take(np.arange(0, table.num_rows, every)).combine_chunks()


def _only_columns(table: pa.Table, schema: Schema) -> pa.Table:
    """Return a table without the columns that the schema does not have, and say which these are."""
    known = [place for place, name in enumerate(table.column_names) if name in schema.names]
    others = [name for name in table.column_names if name not in schema.names]
    if others and known:
        words = (
            f"The prior has columns that the schema has not: {', '.join(map(repr, others)):.200}. They are left out."
        )
        warnings.warn(words, UserWarning, stacklevel=4)
    return table.select(known)


def unit_rows(table: pa.Table, schema: Schema) -> Array:
    """Return rows of the schema as points of the cube."""
    return schema.to_unit({name: table[name] for name in schema.names})


def _place(data: Any) -> Path | None:
    from pathlib import Path

    return Path(data).resolve() if isinstance(data, (str, Path)) else None


def _is_among(place: Path | None, data: Any) -> bool:
    """Whether a file is one of those that private rows are read from, under whatever name."""
    from pathlib import Path

    if place is None or not place.exists():
        return False
    named = [one for one in (data if isinstance(data, (list, tuple)) else [data]) if isinstance(one, (str, Path))]
    files = [Path(file) for one in named for file in glob.glob(str(one), recursive=True) or [str(one)]]
    return any(file.exists() and (file.samefile(place) or file.resolve() in place.parents) for file in files)


def _public_table(prior: Any, schema: Schema) -> Any:
    from smoothsynth.pipeline.load import load
    from smoothsynth.pipeline.release import Release

    place = _place(prior)
    if place is not None:
        prior = load(place) if place.is_dir() else read_given(place, schema)
    if isinstance(prior, Release):
        prior = prior.table
    return prior


def read_given(path: Path, schema: Schema) -> pa.Table:
    """Read given rows from a CSV or Parquet file; cells of a CSV file are text, and an empty one is missing."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix == ".parquet":
            return parquet.read_table(path)
        texts = csv.ConvertOptions(
            column_types=dict.fromkeys(schema.names, pa.string()), null_values=[""], strings_can_be_null=True
        )
        return csv.read_csv(path, convert_options=texts)
    except (OSError, pa.ArrowException):
        raise DataError(
            f"{path} cannot be read as given rows. Name a .csv file with a line of names, or .parquet."
        ) from None


def _arrow(frame: Any, called: str) -> pa.Table:
    import pyarrow as pa

    try:
        if type(frame).__module__.partition(".")[0] == "pandas":
            return pa.Table.from_pandas(frame, preserve_index=False)
        return pa.table(frame)
    except (TypeError, ValueError, pa.ArrowException):
        raise DataError(
            f"The {called} must be a frame of pandas, polars or Arrow; a {type(frame).__name__} cannot be read as one."
        ) from None


def _checked(name: str, cells: pa.ChunkedArray, column: Column, called: str) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        read = _read(cells, column)
    except pa.ArrowException:
        read = None
    if read is None or read.null_count > cells.null_count + _nans(cells):
        raise DataError(
            f"Column {name!r} of the {called} must hold what a release has there, {column.arrow_type()}; it holds "
            f"{cells.type}, or cells that cannot be read as that."
        )
    wrong = outside(column, read)
    if wrong:
        allowed = "one of its levels" if isinstance(column, Category) else "within its bounds"
        raise DataError(
            f"{wrong:,} cells of column {name!r} of the {called} are not {allowed}"
            f"{'' if column.nullable else ', or are missing, which this column never is'}. Correct or leave out these rows."
        )
    return read


def _read(cells: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """Return cells in the type of a release, nulls for what is missing; text is read as in a CSV file."""
    import pyarrow as pa

    if isinstance(column, Category) or not (is_text(cells.type) or isinstance(column, Number)):
        return cells.cast(column.arrow_type())
    return pa.chunked_array([cells_of(column, plain(cells, column.kind))])


def _nans(cells: pa.ChunkedArray) -> int:
    import pyarrow as pa
    from pyarrow import compute

    return int(compute.sum(compute.is_nan(cells)).as_py() or 0) if pa.types.is_floating(cells.type) else 0


def cells_of(column: Measure, numbers: Array) -> pa.Array:
    """Return numbers, NaN where one is missing, as cells of a release."""
    import pyarrow as pa

    absent = np.isnan(numbers)
    return pa.array(_in_own_type(column.kind, np.where(absent, 0.0, numbers)), mask=absent).cast(column.arrow_type())


def _in_own_type(kind: str, numbers: Array) -> NDArray[Any]:
    if kind == "number":
        return numbers
    whole = np.rint(numbers).astype(np.int64)
    if kind == "datetime":
        return (whole * 1_000_000).astype("datetime64[us]")
    if kind == "date":
        return whole.astype("datetime64[D]")
    return whole > 0 if kind == "boolean" else whole
