"""Public facts about a table: its columns, their types and bounds, and the way between units and the cube.

A column is one or more *coordinates* of the cube [-1, 1]^d. Everything here is public knowledge and none of
it is ever read from the data.

    Number, Integer, Date, Datetime, Boolean     one coordinate "value" in [-1, 1]
    any of them, nullable                        and a second one "missing" in {0, 1}; the value of a missing cell is 0
    Category                                     one coordinate "level" in {0, 1} for each level, at most one of them 1
"""

from smoothsynth.schema.category import Category
from smoothsynth.schema.date import Date, Datetime
from smoothsynth.schema.encoding import Column, Measure
from smoothsynth.schema.number import Boolean, Integer, Number
from smoothsynth.schema.roles import unknown_column
from smoothsynth.schema.schema import WHY_PUBLIC, Schema

__all__ = [
    "WHY_PUBLIC",
    "Boolean",
    "Category",
    "Column",
    "Date",
    "Datetime",
    "Integer",
    "Measure",
    "Number",
    "Schema",
    "unknown_column",
]
