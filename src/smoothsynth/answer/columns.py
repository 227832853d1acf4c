"""Columns, levels, missing values, smoothness of a query.

The columns that an average uses: points of the cube as values in their own units, and where all of them have one.

    mean over the rows where every column has a value  =  E[f included] / E[included],     included = 1 in such rows, else 0

A missing number is the indicator 1 beside a value at the centre; a missing level is a row with no level.

Questions about levels and missing values: what they mean for the columns of a schema.

region = 'A', smoker = true and bmi is null are 0 or 1 in every row: functions without jumps of such a column.

A day is its number of days since 1970, a moment its seconds: visit < '2020-01-31' compares numbers.

Whether a function is smooth enough for a release to answer it: its Chebyshev coefficients must fall fast.

A jump makes the k-th coefficient fall like 1/k, a kink like 1/k^2, a kernel of width w like exp(-(k w)^2 / 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.language import Apply, Column, Node, Number, Text, walk
from smoothsynth.errors import PlanError, SchemaError, meant, one_line
from smoothsynth.schema import Boolean, Category, Date, Datetime, unknown_column
from smoothsynth.schema.date import number_of
from smoothsynth.schema.valued import from_unit, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema import Schema
    from smoothsynth.schema.encoding import Column as Described

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Used:
    """Some columns of a schema, in its order; of those in `only_missing` it is only asked whether they have a value.

    A category is given as the places of its levels if `coded`, else as the levels themselves.
    """

    schema: Schema
    names: tuple[str, ...]
    only_missing: frozenset[str] = frozenset()
    coded: bool = False

    @classmethod
    def of(
        cls, schema: Schema, names: Iterable[str], *, only_missing: Collection[str] = (), coded: bool = False
    ) -> Used:
        """Look the columns up; a column that does not exist is refused."""
        ordered = sorted(dict.fromkeys(names), key=lambda name: int(schema.coordinates_of(name).start))
        return cls(schema, tuple(ordered), frozenset(only_missing), coded)

    @property
    def partial(self) -> bool:
        """Whether rows may be left out since a column has no value there."""
        return any(may_lack(self.schema.columns[name]) for name in self._needed)

    @property
    def _needed(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.only_missing)

    def coordinates(self, name: str) -> tuple[int, ...]:
        """Return the coordinates of a column."""
        place = self.schema.coordinates_of(name)
        return tuple(range(place.start, place.stop))

    def at(self, points: Array) -> dict[str, NDArray[Any]]:
        """Return points of the cube in units of the columns, whole numbers not rounded: a line through them stays smooth."""
        return {name: self._values(name, points[:, self.coordinates(name)]) for name in self.names}

    def included(self, points: Array) -> Array:
        """Return 1 for points where every column has a value, else 0."""
        found = np.ones(len(points))
        for name in self._needed:
            found *= has_value(self.schema.columns[name], points[:, self.coordinates(name)])
        return found

    def of_table(self, table: pa.Table) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the columns of rows in their own units, and which rows have a value in every column."""
        found, included = {}, np.ones(table.num_rows, dtype=bool)
        for name in self.names:
            cells = table[name].combine_chunks()
            absent = np.asarray(cells.is_null())
            found[name] = self._cells(name, cells, absent)
            if name not in self.only_missing:
                included &= ~absent
        return found, included

    def _values(self, name: str, own: Array) -> NDArray[Any]:
        column = self.schema.columns[name]
        if name in self.only_missing:
            return np.where(has_value(column, own) > 0.5, 1.0, np.nan)
        if not isinstance(column, Category):
            return np.asarray(from_unit(own[:, 0], column), dtype=np.float64)
        return self._levels(column, own.argmax(axis=1))

    def _cells(self, name: str, cells: Any, absent: NDArray[np.bool_]) -> NDArray[Any]:
        column = self.schema.columns[name]
        if name in self.only_missing:
            return np.where(absent, np.nan, 1.0)
        if isinstance(column, Category):
            return self._levels(column, np.maximum(column.codes(cells), 0))
        # What stands in the place of a missing number is never averaged, but a function is called with it.
        numbers = np.asarray(cells.to_numpy(zero_copy_only=False))
        if isinstance(column, DATES):
            numbers = plain(cells, column.kind)
        return np.where(absent, sum(column.bounds) / 2.0, numbers).astype(np.float64)

    def _levels(self, column: Category, codes: NDArray[Any]) -> NDArray[Any]:
        return codes.astype(np.float64) if self.coded else np.array(list(column.cube.levels))[codes]


def may_lack(column: Any) -> bool:
    """Whether a private row may have no value in a column: it is nullable, or a category without a level for all else."""
    return bool(column.nullable or (isinstance(column, Category) and column.other is None))


def has_value(column: Any, own: Array) -> Array:
    """Return 1 where a column has a value, else 0, from its own coordinates."""
    if isinstance(column, Category):
        return np.asarray(own.sum(axis=1))
    return np.asarray(1.0 - own[:, 1]) if column.nullable else np.ones(len(own))


DATES = (Date, Datetime)
_COMPARED = ("<", "<=", ">", ">=", "=", "!=", "-")
_HELD = {"number": "numbers", "integer": "whole numbers", "date": "days", "datetime": "moments"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def settle(node: Node, schema: Schema) -> Node:
    """Return the question with levels as places among those of their category; refuse what has no meaning."""
    if isinstance(node, Column):
        return _number(node, schema)
    if isinstance(node, Text):
        raise PlanError(
            f"The text {node.value!r:.40} must stand beside a category or a date, as in region = 'A' or visit < '2020-01-31'."
        )
    if not isinstance(node, Apply):
        return node
    if node.name == "is null":
        return _missing(node.arguments[0], schema)
    if node.name in ("=", "!="):
        found = _compared(node.arguments, schema)
        if found is not None:
            return Apply("not", (found,)) if node.name == "!=" else found
    arguments = _dated(node.arguments, schema) if node.name in _COMPARED else node.arguments
    _refuse_two_units(node, schema)
    return Apply(node.name, tuple(settle(argument, schema) for argument in arguments))


def _refuse_two_units(node: Apply, schema: Schema) -> None:
    """Refuse to compare or add a column of days and one of moments: nobody means days since 1970 less seconds since then."""
    if node.name not in (*_COMPARED, "+", "least", "greatest"):
        return
    names = [one.name for one in node.arguments if isinstance(one, Column) and one.name in schema.columns]
    kinds = {schema.columns[name].kind: name for name in names}
    if {"date", "datetime"} <= set(kinds):
        day, moment = one_line(kinds["date"]), one_line(kinds["datetime"])
        raise PlanError(
            f"{day!r} counts days and {moment!r} counts seconds since 1970. Bring them to one unit, as in "
            f"{moment} - 86400 * {day}."
        )


def _dated(sides: tuple[Node, ...], schema: Schema) -> tuple[Node, ...]:
    """Return both sides of a comparison, a text beside a column of dates as a number."""
    for one, other in (sides, sides[::-1]):
        column = schema.columns.get(one.name) if isinstance(one, Column) else None
        if isinstance(column, DATES) and isinstance(other, Text):
            number = number_of(other.value.strip(), column.kind)
            if number is None:
                example = "2020-01-31" if column.kind == "date" else "2020-01-31T12:00:00"
                raise PlanError(
                    f"{_name(one)!r} is a {column.kind}: compare it with one such as '{example}', not {other.value!r:.40}."
                )
            return tuple(Number(number) if side is other else side for side in sides)
    return sides


def only_missing(node: Node) -> frozenset[str]:
    """Return the columns of which a question asks only whether they are missing; refuse one that is used otherwise too."""
    tested = {one.arguments[0] for one in walk(node) if isinstance(one, Apply) and one.name == "is null"}
    used = set(_used(node))
    for column in tested & used:
        raise PlanError(
            f"In one average a column is averaged, and rows without it are left out, or asked for with is null; "
            f"{_name(column)!r} is both. Write two averages."
        )
    return frozenset(map(_name, tested))


def groups_of(column: Column, schema: Schema) -> dict[str, Node]:
    """Return the conditions that tell the groups of a column apart, by the name of each group."""
    described = _known(column, schema)
    if isinstance(described, Category):
        codes = enumerate(described.cube.texts)
        return {text: Apply("is level", (column, Number(float(code)))) for code, text in codes}
    if isinstance(described, Boolean):
        true = Apply("is true", (column,))
        return {"true": true, "false": Apply("not", (true,))}
    raise PlanError(
        f"Groups are the levels of a category or a boolean; {column.name!r} holds {_HELD[described.kind]}. Ask for a "
        f"range of it instead, with where, as in avg(cost where age between 50 and 60)."
    )


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
        level = str(column.cube.levels[0]).replace("'", "''")
        question = one_line(f"{node.name} = '{level}'")
        raise PlanError(f"{node.name!r} is a category: compare it with a level, as in {question}.")
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
    texts = column.cube.texts
    if wanted in texts:
        return texts.index(wanted)
    if wanted in column.texts:
        asked = one_line(f"avg({name} = '{wanted}')")
        raise PlanError(
            f"{name!r} has many levels, and takes part through the nodes above them, such as {texts[0]!r}. A level can be "
            f"asked for by itself only, as in {asked:.120}."
        )
    shown = ", ".join(map(repr, texts[:8])) + (" and more" if len(texts) > 8 else "")
    raise PlanError(f"{name!r} has no level {wanted!r:.40}{meant(wanted, texts) or f'. There are: {shown}.'}")


NODES = 512
# The largest coefficient beyond degree NODES/4, over the largest of all: a jump has 0.005 and more, a kink 0.0001.
MOST_TAIL = 2e-3
_ANCHORS = 4


def chebyshev_coefficients(values: Array) -> Array:
    """Return the coefficients of the interpolant at x_j = cos(pi j / N), j = 0..N, by a cosine transform."""
    nodes = len(values) - 1
    mirrored = np.concatenate([values, values[-2:0:-1]])
    coefficients = np.fft.rfft(mirrored).real / nodes
    coefficients[[0, -1]] /= 2.0
    return np.asarray(coefficients)


def rough_column(function: Callable[[Array], Array], rows: Array, columns: Sequence[int]) -> int | None:
    """Return a column in which a function (of unit rows) is not smooth along lines through some rows, or None."""
    line = np.cos(np.pi * np.arange(NODES + 1) / NODES)
    anchors = rows[np.linspace(0, len(rows) - 1, _ANCHORS).astype(np.int64)]
    spread = float(np.std(function(rows))) + 1e-300
    for column in columns:
        for anchor in anchors:
            moved = np.tile(anchor, (NODES + 1, 1))
            moved[:, column] = line
            sizes = np.abs(chebyshev_coefficients(function(moved)))
            if sizes[NODES // 4 : NODES // 2].max() > MOST_TAIL * max(float(sizes[1:].max()), 1e-6 * spread):
                return column
    return None
