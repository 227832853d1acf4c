"""From a schema in which some facts are private to one in which all are known: found, or assumed for a plan."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import SchemaError
from smoothsynth.schema.category import Category
from smoothsynth.schema.date import Date, Datetime, day_at, moment_at
from smoothsynth.schema.edits import coded_columns, is_edit
from smoothsynth.schema.number import Boolean, Integer, Number
from smoothsynth.schema.valued import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.schema.encoding import Column
    from smoothsynth.schema.schema import Schema


# The level at which values count that were not found, unless the schema names another.
OTHER = "other"
# What stands beside it where nothing was found: a category has two levels at least.
NONE_FOUND = "(no level was found)"
# As many levels as a plan assumes before they are found.
ASSUMED_LEVELS = 8
# Pairs of levels of a rule with private codes, missing cells among them.
MOST_PAIRS = 4096

Searched = Number | Integer | Date | Datetime


def open_bounds(schema: Schema) -> dict[str, Searched]:
    """Return the columns with a private bound."""
    return {
        name: column
        for name, column in schema.columns.items()
        if isinstance(column, (Number, Integer, Date, Datetime)) and PRIVATE in (column.lower, column.upper)
    }


def open_levels(schema: Schema) -> dict[str, Category]:
    """Return the categories with private levels."""
    found = {name: column for name, column in schema.columns.items() if isinstance(column, Category)}
    return {name: column for name, column in found.items() if column.levels == PRIVATE}


def open_codes(schema: Schema) -> dict[str, tuple[str, str]]:
    """Return the columns of each rule "a -> b" with private codes."""
    private = [text for text, table in schema.codes.items() if table == PRIVATE and is_edit(text)]
    return {text: pair for text in private if (pair := coded_columns(text)) is not None}


def is_open(schema: Schema) -> bool:
    """Whether some facts of the schema are private."""
    return bool(open_bounds(schema) or open_levels(schema) or open_codes(schema))


def coded_values(column: Column) -> dict[str, object]:
    """Return what a category, or a column of true and false, can hold, by the texts that codes have for it."""
    if isinstance(column, Category):
        return dict(zip(column.texts, column.levels, strict=True))
    return {"false": False, "true": True}


def check_private_codes(schema: Schema) -> None:
    """Refuse private codes whose pairs cannot be counted, or of which some would contradict another rule.

    What a rule determines is in no other rule. So a row that keeps the others keeps this one too once its code is written
    into it, whatever the codes are: none that can be found makes the rules contradict one another.
    """
    rules = open_codes(schema)
    for text in (text for text, table in schema.codes.items() if table == PRIVATE):
        pair = rules.get(text)
        problem = "it is no rule COLUMN -> COLUMN" if pair is None else _uncountable(schema, pair)
        if problem := problem or _shared(schema, text, rules[text][1]):
            raise SchemaError(f"Constraint {text!r:.200} cannot have private codes: {problem}.")
    if rules:
        # What else keeps columns from having a rule.
        closed(schema, {}, _assumed_codes(schema))


def _uncountable(schema: Schema, pair: tuple[str, str]) -> str | None:
    """Say why the pairs of levels of two columns cannot be counted; None if they can."""
    from smoothsynth.schema.roles import unknown_column

    if pair[0] == pair[1]:
        return "it names one column twice"
    cells = 1
    for name in pair:
        if name not in schema.columns:
            return unknown_column(name, schema.names).rstrip(".")
        column = schema.columns[name]
        if not isinstance(column, (Category, Boolean)):
            return f"{name!r} is of type {column.kind}. Declare its values as levels, or give the table of codes"
        if isinstance(column, Category) and column.levels == PRIVATE:
            return f"the levels of {name!r} are private too. Declare them, or give the table of codes"
        cells *= len(coded_values(column)) + 1
    if cells > MOST_PAIRS:
        return f"at most {MOST_PAIRS:,} pairs of levels are counted, and it has {cells:,}. Give the table of codes"
    return None


def _shared(schema: Schema, text: str, determined: str) -> str | None:
    """Say which other rule holds the column that a rule determines; None if none does."""
    others: dict[str, tuple[str, ...]] = {other: pair for other, pair in open_codes(schema).items() if other != text}
    if schema.edits is not None:
        others |= {edit.text: edit.names for c in schema.edits.components for edit in c.edits}
    for block in () if schema.rules is None else schema.rules.blocks:
        texts = [*(relation.text for relation in block.relations), *(moment.text for moment in block.moments)]
        others |= dict.fromkeys(texts, block.names)
    found = next((other for other, names in others.items() if determined in names), None)
    if found is None:
        return None
    return f"codes that are found could contradict {found!r:.200}, which is about {determined!r} too. Give the table of codes"


def public_bounds(column: Searched) -> tuple[float | None, float | None]:
    """Return the bounds of a column in numbers, None for a private one."""
    known = {"lower": column.lower, "upper": column.upper}
    sides = {side: bound for side, bound in known.items() if bound != PRIVATE}
    # The other side is filled up, so that the column can turn its own units into numbers.
    filled: dict[str, Any] = {side: sides.get(side, next(iter(sides.values()), None)) for side in known}
    lower, upper = dataclasses.replace(column, **filled).bounds if sides else (None, None)
    return (lower if "lower" in sides else None), (upper if "upper" in sides else None)


def with_bounds(column: Searched, lower: float, upper: float) -> Searched:
    """Return a column with these numbers instead of its private bounds."""
    numbers = {"lower": lower, "upper": upper}
    private = [side for side in numbers if getattr(column, side) == PRIVATE]
    found: dict[str, Any] = {side: _in_units(column, numbers[side]) for side in private}
    return dataclasses.replace(column, **found)


def with_levels(column: Category, found: Sequence[str]) -> Category:
    """Return a category with these levels and its `other`, in an order that tells nothing about the rows."""
    other = column.other if isinstance(column.other, str) else OTHER
    levels = sorted({*found} - {other.strip()}) or [NONE_FOUND]
    return dataclasses.replace(column, levels=(*levels, other), other=other)


def closed(
    schema: Schema, columns: Mapping[str, Column], codes: Mapping[str, Mapping[str, object]] = MappingProxyType({})
) -> Schema:
    """Return the schema with some columns and tables of codes replaced."""
    known = {name: columns.get(name, column) for name, column in schema.columns.items()}
    return dataclasses.replace(schema, columns=known, codes={**schema.codes, **codes})


def assumed(schema: Schema) -> Schema:
    """Return a schema with the coordinates that a plan can count on: bounds and codes do not matter, levels are eight."""
    if not is_open(schema):
        return schema
    columns: dict[str, Column] = {}
    for name, column in open_bounds(schema).items():
        lower, upper = public_bounds(column)
        low = (0.0 if upper is None else upper - max(abs(upper), 1.0)) if lower is None else lower
        columns[name] = with_bounds(column, low, low + max(abs(low), 1.0))
    for name, category in open_levels(schema).items():
        columns[name] = with_levels(category, [f"level {i}" for i in range(1, ASSUMED_LEVELS)])
    return closed(schema, columns, _assumed_codes(schema))


def _assumed_codes(schema: Schema) -> dict[str, dict[str, object]]:
    """Return codes that private ones may turn out to be: the first level for every value."""
    known = {text: [coded_values(schema.columns[name]) for name in pair] for text, pair in open_codes(schema).items()}
    return {text: dict.fromkeys(source, next(iter(codes.values()))) for text, (source, codes) in known.items()}


def _in_units(column: Searched, number: float) -> Any:
    """Return a number as a bound of a column: whole, or a day, or a moment, where it must be."""
    if isinstance(column, Number):
        return number
    if isinstance(column, Integer):
        return int(number)
    return (day_at if isinstance(column, Date) else moment_at)(int(number))
