"""The constraints of a schema: what they say of its columns, whether they can hold, and which rows break them.

They are public facts like bounds. No row of the data is ever held against them: that would tell something about it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.blocks import Block, blocks_of
from smoothsynth.schema.bounds import PRIVATE
from smoothsynth.schema.category import Category
from smoothsynth.schema.feasible import point_inside
from smoothsynth.schema.relations import PublicMoment, Relation, parse_constraint
from smoothsynth.schema.value import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.column import Column, Measure

MOST_CONSTRAINTS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Relations of columns in a row, public moments, and the blocks of columns that they tie together."""

    relations: tuple[Relation, ...]
    moments: tuple[PublicMoment, ...]
    blocks: tuple[Block, ...]

    def steps(self) -> dict[str, float]:
        """Return the step of each tied column: its published values are whole multiples of it."""
        return {n: float(s) for b in self.blocks for n, s in zip(b.names, b.steps, strict=True)}

    def check_totals(self, columns: Mapping[str, Column], rows: int) -> None:
        """Refuse totals that so many rows cannot have; means were checked before."""
        for block in self.blocks:
            if any(moment.total for moment in block.moments):
                _check_moments(block, columns, rows)


def checked_texts(constraints: object) -> tuple[str, ...]:
    """Return constraints as texts, or say that they are none."""
    if isinstance(constraints, str) or not isinstance(constraints, (list, tuple)):
        raise SchemaError('constraints must be a list of texts such as ["diastolic <= systolic"].')
    if len(constraints) > MOST_CONSTRAINTS:
        raise SchemaError(f"A schema may have {MOST_CONSTRAINTS} constraints; this one has {len(constraints):,}.")
    for text in constraints:
        parse_constraint(text)
    return tuple(text.strip() for text in constraints)


@functools.lru_cache(maxsize=64)
def read_constraints(texts: tuple[str, ...], columns: tuple[tuple[str, Column], ...]) -> Constraints:
    """Read the constraints of a schema with these columns; an impossible one is named."""
    known = dict(columns)
    rules = [rule for text in texts for rule in parse_constraint(text)]
    for rule in rules:
        _check_columns(rule, known)
    relations = tuple(rule for rule in rules if isinstance(rule, Relation))
    moments = tuple(rule for rule in rules if isinstance(rule, PublicMoment))
    seen: dict[tuple[str, int], str] = {}
    for moment in moments:
        other = seen.setdefault((moment.column, moment.power), moment.text)
        if other is not moment.text:
            raise SchemaError(f"Constraint {moment.text!r} says again what {other!r} says: keep one of them.")
    measures: dict[str, Measure] = {n: c for n, c in known.items() if not isinstance(c, Category)}
    blocks = blocks_of(measures, relations, moments)
    for block in blocks:
        if block.moments:
            _check_moments(block, known, None)
    return Constraints(relations, moments, blocks)


def broken(relation: Relation, table: Mapping[str, Any], columns: Mapping[str, Column]) -> NDArray[np.bool_]:
    """Say which published rows break a relation; rows without one of its columns cannot.

    An equality with a constant that is no dyadic fraction is off by rounding: 1e-9 of what its columns reach is allowed.
    """
    excess = np.sum([c * plain(table[name], columns[name].kind) for name, c in relation.coefficients], axis=0)
    if not relation.equal:
        return np.asarray(excess > float(relation.bound))
    reach = sum(abs(c) * max(map(abs, _span(columns[name]))) for name, c in relation.coefficients)
    return np.asarray(np.abs(excess - float(relation.bound)) > 1e-9 * (reach + abs(float(relation.bound))))


def _check_columns(rule: Relation | PublicMoment, columns: Mapping[str, Column]) -> None:
    from smoothsynth.schema.schema import unknown_column

    names = rule.names if isinstance(rule, Relation) else (rule.column,)
    for name in names:
        if name not in columns:
            raise SchemaError(f"Constraint {rule.text!r}: {unknown_column(name, tuple(columns))}")
        if isinstance(columns[name], Category):
            raise SchemaError(
                f"Constraint {rule.text!r}: {name!r} is a category; constraints are about columns with numbers."
            )
        if PRIVATE in (getattr(columns[name], "lower", None), getattr(columns[name], "upper", None)):
            raise SchemaError(
                f"Constraint {rule.text!r}: the bounds of {name!r} are private, so nobody can tell beforehand whether it "
                "can hold. Give public bounds, or leave it out."
            )
    kinds = {columns[name].kind for name in names}
    if isinstance(rule, PublicMoment) and kinds & {"date", "datetime"}:
        raise SchemaError(f"Constraint {rule.text!r}: sums and means are about numbers, not days.")
    if kinds >= {"date", "datetime"}:
        raise SchemaError(
            f"Constraint {rule.text!r}: dates count days and datetimes count seconds; make all of one type."
        )


def _check_moments(block: Block, columns: Mapping[str, Column], rows: int | None) -> None:
    """Refuse public moments that no rows within bounds and relations have.

    Means of rows of a convex set are its points, so all means together are possible if one point has them.
    """
    known = [m for m in block.moments if rows is not None or not m.total]
    lines: list[tuple[Sequence[float], bool, float]] = [
        ([dict(r.coefficients).get(n, 0) for n in block.names], r.equal, float(r.bound))
        for r in block.relations
        if not any(columns[n].nullable for n in r.names)
    ]
    spans = [_span(columns[name]) for name in block.names]
    for moment in known:
        if moment.power == 1 and not (moment.total and columns[moment.column].nullable):
            wanted = moment.mean(rows or 1)
            lines.append(([float(n == moment.column) for n in block.names], True, wanted))
            if point_inside(spans, [False] * len(spans), lines) is None:
                raise SchemaError(_impossible(moment, spans[block.names.index(moment.column)], rows))
    means = {m.column: m.mean(rows or 1) for m in known if m.power == 1}
    for moment in known:
        low, high = spans[block.names.index(moment.column)]
        if moment.power == 2 and not _square_fits(moment.mean(rows or 1), low, high, means.get(moment.column)):
            raise SchemaError(_impossible(moment, (low, high), rows))


def _square_fits(square: float, low: float, high: float, mean: float | None) -> bool:
    """Whether E x^2 can be so much: at least (E x)^2, at most what the two bounds have with that mean."""
    if mean is not None:
        return mean**2 <= square <= (low + high) * mean - low * high
    return (0.0 if low <= 0.0 <= high else min(low**2, high**2)) <= square <= max(low**2, high**2)


def _span(column: Column) -> tuple[float, float]:
    if isinstance(column, Category):
        raise SchemaError("a category has no bounds")
    return column.bounds


def _impossible(moment: PublicMoment, span: tuple[float, float], rows: int | None) -> str:
    low, high = span
    many = f" and {rows:,} rows" if moment.total and rows is not None else ""
    return (
        f"Constraint {moment.text!r} cannot hold with bounds {low:g} to {high:g}{many} and the other constraints. "
        "Widen the bounds, or correct the constraint."
    )
