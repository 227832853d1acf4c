"""Hold the synthetic rows against the schema in the receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import ReleaseError
from smoothsynth.loading import plain_file
from smoothsynth.release import CSV_FILE, ROWS_FILE
from smoothsynth.schema import Category
from smoothsynth.schema.column import outside
from smoothsynth.schema.constraints import broken
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from smoothsynth.schema import Column, Schema
    from smoothsynth.verify.evidence import Evidence


def read_rows(path: Path, count: int, *, schema: Schema) -> pyarrow.Table:
    """Read the rows if the file says that it has `count` of them, with the columns and types of the schema."""
    from pyarrow import parquet

    wanted = _types(schema)
    with path.open("rb") as file:
        rows = parquet.ParquetFile(file)
        if list(zip(rows.schema_arrow.names, rows.schema_arrow.types, strict=True)) != list(wanted.items()):
            raise ReleaseError(f"{ROWS_FILE} must have the {len(wanted)} columns and types of the schema, and has not.")
        if rows.metadata.num_rows != count:
            raise ReleaseError(f"{ROWS_FILE} has {rows.metadata.num_rows:,} rows; the receipt says {count:,}.")
        table = rows.read()
    table.validate(full=True)
    return table


def check_rows(evidence: Evidence) -> list[Check]:
    """Look at every value: each is one that its column can take."""
    table = evidence.table
    problems = [
        f"Column {name!r:.80}: {problem}."
        for name, column in evidence.schema.columns.items()
        if (problem := _problem(column, table[name]))
    ]
    if table.num_rows != evidence.facts["synthetic_rows"]:
        problems.append(f"{ROWS_FILE} has other rows than it says.")
    size = f"{table.num_rows:,} rows x {table.num_columns} columns"
    return verdict("rows", problems, f"{size} of the right types; every value is there and within its bounds.")


def check_constraints(evidence: Evidence) -> list[Check]:
    """Hold the rows against the constraints of the schema, if it has any: no row breaks a relation."""
    rules = evidence.schema.rules
    if rules is None:
        return []
    table = {name: evidence.table[name] for name in evidence.schema.names}
    problems = [
        f"{count:,} rows break the constraint {relation.text!r:.200}."
        for relation in rules.relations
        if (count := int(broken(relation, table, evidence.schema.columns).sum()))
    ]
    count = len(rules.relations)
    words = f"No row breaks one of {count:,} relations." if count else "There are public moments only, no relations."
    return verdict("constraints", problems, words)


def check_csv(evidence: Evidence) -> list[Check]:
    """Hold synthetic.csv, if the release has one, against the Parquet file, value by value."""
    if CSV_FILE not in evidence.facts["sha256"]:
        return []
    from pyarrow import csv

    # An empty cell is a missing one; any other text may be a level.
    options = csv.ConvertOptions(column_types=_types(evidence.schema), strings_can_be_null=True, null_values=[""])
    with plain_file(evidence.folder, CSV_FILE).open("rb") as file:
        read = csv.read_csv(file, convert_options=options)
    names = list(evidence.schema.names)
    same = read.column_names == names and all(map(_equal, read.columns, evidence.table.columns))
    problems = [] if same else [f"{CSV_FILE} does not hold the rows of {ROWS_FILE}."]
    return verdict("csv", problems, f"{CSV_FILE} holds the same {read.num_rows:,} rows as {ROWS_FILE}.")


def _types(schema: Schema) -> dict[str, pyarrow.DataType]:
    return {name: column.arrow_type() for name, column in schema.columns.items()}


def _equal(one: pyarrow.ChunkedArray, other: pyarrow.ChunkedArray) -> bool:
    return len(one) == len(other) and bool(one.combine_chunks().equals(other.combine_chunks()))


def _problem(column: Column, values: pyarrow.ChunkedArray) -> str | None:
    if values.null_count and not column.nullable:
        return f"{values.null_count:,} values are missing"
    beyond = outside(column, values)
    if not beyond:
        return None
    if isinstance(column, Category):
        return f"{beyond:,} values are none of its levels"
    return f"{beyond:,} values are not within {column.lower} to {column.upper}"
