"""Hold the synthetic rows against the schema in the receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.schema import Category
from smoothsynth.schema.constraints import broken
from smoothsynth.schema.encoding import outside
from smoothsynth.verify.check import Check, verdict

if TYPE_CHECKING:
    import pyarrow

    from smoothsynth.schema import Column
    from smoothsynth.verify.evidence import Evidence


def check_rows(evidence: Evidence) -> list[Check]:
    """Look at every value: each is one that its column can take."""
    table = evidence.table
    problems = [
        f"Column {name!r:.80}: {problem}."
        for name, column in evidence.schema.columns.items()
        if (problem := _problem(column, table[name]))
    ]
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


def _problem(column: Column, values: pyarrow.ChunkedArray) -> str | None:
    if values.null_count and not column.nullable:
        return f"{values.null_count:,} values are missing"
    beyond = outside(column, values)
    if not beyond:
        return None
    if isinstance(column, Category):
        return f"{beyond:,} values are none of its levels"
    return f"{beyond:,} values are not within {column.lower} to {column.upper}"
