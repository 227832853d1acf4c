"""Schemas as plain values and as text (TOML): what a schema file may say, and what it says of a schema."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from smoothsynth.errors import SchemaError
from smoothsynth.schema.bounds import shown
from smoothsynth.schema.category import Category
from smoothsynth.schema.column import KINDS
from smoothsynth.schema.dates import Date, Datetime
from smoothsynth.schema.intervals import Intervals
from smoothsynth.schema.number import Integer, Number
from smoothsynth.schema.truth import Boolean
from smoothsynth.terminal import one_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smoothsynth.schema.column import Column

WHY_PUBLIC = (
    "Bounds are public knowledge (a code book, a law, the range of an instrument), never the smallest and "
    'largest value of the data: those belong to single persons. A bound that nobody knows can be "private": a release finds '
    "it, at a cost."
)
WHY_PUBLIC_LEVELS = (
    "Levels are public knowledge (a code book, a form), never the values found in the data: a rare one belongs to a "
    "single person."
)


def read(document: object) -> dict[str, Column]:
    """Return the columns of {"columns": {name: {"type": ..., "lower": ..., "upper": ...}}}."""
    if not isinstance(document, dict):
        raise SchemaError(f'A schema must be {{"columns": ...}}; it is a {type(document).__name__}.')
    extra = sorted(map(repr, set(document) - {"columns", "constraints"}))
    if extra:
        raise SchemaError(
            f"Unknown section {extra[0]:.80}. A schema file has [columns.NAME] sections, and above them constraints = [...]."
        )
    columns = document.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise SchemaError('No columns. Describe each as [columns.NAME] with type = "number", lower and upper.')
    return {name: _column(name, facts) for name, facts in columns.items()}


def parse(text: str) -> dict[str, Any]:
    """Return the plain values of a schema file."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"This is not a valid schema file (TOML): {error}."
    raise SchemaError(problem)


def write(columns: Mapping[str, Column], constraints: Sequence[str] = ()) -> str:
    """Return the text of a schema file."""
    parts = [f"# {WHY_PUBLIC}\n"]
    if constraints:
        parts.append(f"constraints = {_toml(list(constraints))}\n")
    for name, column in columns.items():
        lines = [f"{key} = {_toml(value)}" for key, value in column.facts().items()]
        parts.append(f"[columns.{_toml(name)}]\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def check(name: object, column: object) -> None:
    """Refuse a column that is not well described."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"A column name must be a text that is not empty; {name!r:.80} is not.")
    if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise SchemaError(f"A column name must be text that UTF-8 can write; {name!r:.80} is not.")
    if not isinstance(column, (Number, Integer, Category, Boolean, Date, Datetime, Intervals)):
        raise SchemaError(
            f"Column {name!r} must be described by Number(lower, upper), Integer(lower, upper), Category(levels), Boolean(), "
            "Date(lower, upper) or Datetime(lower, upper)."
        )
    problem = column.problem()
    if problem:
        raise SchemaError(
            f"Column {name!r}: {problem}. {WHY_PUBLIC_LEVELS if column.kind == 'category' else WHY_PUBLIC}"
        )


def _column(name: str, facts: object) -> Column:
    if not isinstance(facts, dict):
        raise SchemaError(f"Column {name!r} must be a section [columns.{one_line(name)}] with type, lower and upper.")
    kind = facts.get("type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SchemaError(f"Column {name!r} has type {shown(kind)}; it must be one of {', '.join(KINDS)}.")
    known = [field.name for field in dataclasses.fields(KINDS[kind])]
    extra = sorted(map(repr, set(facts) - {"type", *known}))
    if extra:
        raise SchemaError(f"Column {name!r} has an unknown key {extra[0]:.80}; known are type, {', '.join(known)}.")
    options: dict[str, Any] = {key: value for key, value in facts.items() if key != "type"}
    return KINDS[kind](**options)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
