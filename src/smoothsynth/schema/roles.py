"""Columns with a role of their own: who a row belongs to, and what it weighs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.errors import SchemaError, meant
from smoothsynth.schema.number import Integer, Number
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from smoothsynth.schema.encoding import Column


def unknown_column(name: str, known: tuple[str, ...]) -> str:
    """Say that a column does not exist, and which one may have been meant."""
    near = meant(name, known)
    if near:
        return f"There is no column {name!r}{near}"
    hint = ""
    if known:
        hint = f" There are: {', '.join(map(repr, known[:8]))}" + (" and more." if len(known) > 8 else ".")
    return f"There is no column {name!r}.{hint}"


def check_person(person: object, columns: Mapping[str, Column]) -> None:
    """Refuse a person's id that is no other column: it is read to tell persons apart, and never released."""
    if not isinstance(person, str) or not person or any("\ud800" <= letter <= "\udfff" for letter in person):
        raise SchemaError(f"person must be the name of the column with a person's id; it is {person!r:.80}.")
    if person in columns:
        raise SchemaError(
            f"Column {person!r} is the id of a person, which is never released, and is described as a column to release. "
            "Leave it out of the columns."
        )


def check_weight(weight: object, columns: Mapping[str, Column]) -> None:
    """Refuse survey weights that are no column of numbers from 0 on, within public bounds and without missing cells."""
    if not isinstance(weight, str):
        raise SchemaError(f"weight must be the name of the column of survey weights; it is {weight!r:.80}.")
    if weight not in columns:
        raise SchemaError(f"weight must be one of the columns. {unknown_column(weight, tuple(columns))}")
    column = columns[weight]
    if not isinstance(column, (Number, Integer)):
        raise SchemaError(f"Column {weight!r} is a {column.kind}; weights must be numbers: Number or Integer.")
    if PRIVATE in (column.lower, column.upper) or column.bounds[0] < 0.0:
        raise SchemaError(
            f"Column {weight!r} holds weights: it must have public bounds, and a lower one of at least 0. Take them from the "
            "description of the survey; what is above the upper one counts as that."
        )
    if column.nullable:
        raise SchemaError(f"Column {weight!r} holds weights, one for each row; it must not be nullable.")
