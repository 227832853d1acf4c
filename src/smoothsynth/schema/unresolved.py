"""From a schema in which some facts are private to one in which all are known: found, or assumed for a plan."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from smoothsynth.schema.category import Category
from smoothsynth.schema.date import Date, Datetime, day_at, moment_at
from smoothsynth.schema.number import Integer, Number
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


def is_open(schema: Schema) -> bool:
    """Whether some facts of the schema are private."""
    return bool(open_bounds(schema) or open_levels(schema))


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


def closed(schema: Schema, columns: Mapping[str, Column]) -> Schema:
    """Return the schema with some columns replaced."""
    known = {name: columns.get(name, column) for name, column in schema.columns.items()}
    return dataclasses.replace(schema, columns=known)


def assumed(schema: Schema) -> Schema:
    """Return a schema with the coordinates that a plan can count on: bounds do not matter to it, levels are eight."""
    if not is_open(schema):
        return schema
    columns: dict[str, Column] = {}
    for name, column in open_bounds(schema).items():
        lower, upper = public_bounds(column)
        low = (0.0 if upper is None else upper - max(abs(upper), 1.0)) if lower is None else lower
        columns[name] = with_bounds(column, low, low + max(abs(low), 1.0))
    for name, category in open_levels(schema).items():
        columns[name] = with_levels(category, [f"level {i}" for i in range(1, ASSUMED_LEVELS)])
    return closed(schema, columns)


def _in_units(column: Searched, number: float) -> Any:
    """Return a number as a bound of a column: whole, or a day, or a moment, where it must be."""
    if isinstance(column, Number):
        return number
    if isinstance(column, Integer):
        return int(number)
    return (day_at if isinstance(column, Date) else moment_at)(int(number))
