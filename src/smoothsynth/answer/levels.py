"""Questions about levels and missing values: what they mean for the columns of a schema.

region = 'A', smoker = true and bmi is null are 0 or 1 in every row: functions without jumps of such a column.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from smoothsynth.answer.expression import Apply, Column, Node, Number, Text, walk
from smoothsynth.errors import PlanError, SchemaError
from smoothsynth.schema import Boolean, Category, unknown_column
from smoothsynth.schema import Integer as Whole
from smoothsynth.schema import Number as Real
from smoothsynth.terminal import one_line

if TYPE_CHECKING:
    from smoothsynth.schema import Schema
    from smoothsynth.schema.encoding import Column as Described

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def settle(node: Node, schema: Schema) -> Node:
    """Return the question with levels as places among those of their category; refuse what has no meaning."""
    if isinstance(node, Column):
        return _number(node, schema)
    if isinstance(node, Text):
        raise PlanError(f"The text {node.value!r:.40} must stand beside a category, as in region = 'A'.")
    if not isinstance(node, Apply):
        return node
    if node.name == "is null":
        return _missing(node.arguments[0], schema)
    if node.name in ("=", "!="):
        found = _compared(node.arguments, schema)
        if found is not None:
            return Apply("not", (found,)) if node.name == "!=" else found
    return Apply(node.name, tuple(settle(argument, schema) for argument in node.arguments))


def only_missing(node: Node) -> frozenset[str]:
    """Return the columns of which a question asks only whether they are missing; refuse one that is used otherwise too."""
    asked = {one.arguments[0] for one in walk(node) if isinstance(one, Apply) and one.name == "is null"}
    used = set(_used(node))
    for column in asked & used:
        raise PlanError(
            f"In one average a column is averaged, and rows without it are left out, or asked for with is null; "
            f"{_name(column)!r} is both. Write two averages."
        )
    return frozenset(map(_name, asked))


def levels_of(node: Node) -> dict[str, frozenset[int]]:
    """Return the places of the levels that a settled question names, by column."""
    found: dict[str, frozenset[int]] = {}
    for one in walk(node):
        if isinstance(one, Apply) and one.name == "is level":
            column, code = one.arguments
            assert isinstance(code, Number)  # noqa: S101
            found[_name(column)] = found.get(_name(column), frozenset()) | {int(code.value)}
    return found


def _used(node: Node) -> list[Node]:
    if isinstance(node, Apply):
        return [] if node.name == "is null" else [c for argument in node.arguments for c in _used(argument)]
    return [node] if isinstance(node, Column) else []


def _name(node: Node) -> str:
    return node.name if isinstance(node, Column) else ""


def _number(node: Column, schema: Schema) -> Node:
    column = _known(node, schema)
    if isinstance(column, Category):
        level = str(column.levels[0]).replace("'", "''")
        question = one_line(f"{node.name} = '{level}'")
        raise PlanError(f"{node.name!r} is a category: compare it with a level, as in {question}.")
    if not isinstance(column, (Real, Whole, Boolean)):
        raise PlanError(
            f"{node.name!r} is a {column.kind}; questions are about numbers, truth values and categories so far."
        )
    return node


def _known(node: Column, schema: Schema) -> Described:
    if node.name not in schema.columns:
        raise SchemaError(unknown_column(node.name, schema.names))
    return schema.columns[node.name]


def _missing(node: Node, schema: Schema) -> Node:
    if not isinstance(node, Column):
        raise PlanError("Only a column can be asked for missing values, as in bmi is null.")
    if not _known(node, schema).nullable:
        raise PlanError(
            f"{node.name!r} is not nullable, so its missing values were not counted as such (docs/schema.md)."
        )
    return Apply("is null", (node,))


def _compared(sides: tuple[Node, ...], schema: Schema) -> Node | None:
    """Return a comparison of a category with a level, or of a truth value with true or false; None if it is neither."""
    for column, other in (sides, sides[::-1]):
        if not isinstance(column, Column) or column.name not in schema.columns:
            continue
        described, wanted = schema.columns[column.name], _written(other)
        if isinstance(other, Column) and other.name in schema.columns:
            return None
        if isinstance(described, Category) and wanted is not None:
            return Apply("is level", (column, Number(float(_place(described, column.name, wanted)))))
        if isinstance(described, Boolean) and isinstance(other, (Text, Column)):
            return _truth(column, wanted or "")
    return None


def _truth(column: Column, wanted: str) -> Node:
    if wanted.lower() not in _TRUTH:
        raise PlanError(f"{column.name!r} holds true and false; compare it with one of them.")
    true = Apply("is true", (column,))
    return true if _TRUTH[wanted.lower()] else Apply("not", (true,))


def _written(node: Node) -> str | None:
    if isinstance(node, Text):
        return node.value.strip()
    if isinstance(node, Column):
        return node.name
    if isinstance(node, Number) and node.value.is_integer():
        return str(int(node.value))
    return None


def _place(column: Category, name: str, wanted: str) -> int:
    if wanted in column.texts:
        return column.texts.index(wanted)
    near = difflib.get_close_matches(wanted, column.texts, n=1)
    shown = ", ".join(map(repr, column.texts[:8])) + (" and more" if len(column.texts) > 8 else "")
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {shown}."
    raise PlanError(f"{name!r} has no level {wanted!r:.40}. {hint}")
