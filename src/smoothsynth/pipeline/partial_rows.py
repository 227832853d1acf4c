"""Rows of which some columns are given, completed from the model of a release.

Synthetic rows are donors: a given row takes all that it lacks from one row that is near in what the given columns tell about
the others (predictive mean matching: Rubin 1986; Little 1988). So the values that it gets belong together, and follow the
tables and the correlations of the model. Nothing private is touched and nothing is spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import DataError
from smoothsynth.pipeline.given_rows import cells_of
from smoothsynth.schema import Category
from smoothsynth.schema.constraints import broken
from smoothsynth.schema.encoding import as_numbers, to_points
from smoothsynth.schema.valued import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from smoothsynth.schema import Schema
    from smoothsynth.schema.constraints import Relation

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Places = NDArray[np.intp]


# One of so many nearest donors is taken, and so many are tried where constraints have to hold.
_NEAREST, _TRIED = 5, 40
# The weight of a given column beside what it tells: dependence that the regression misses must not be lost.
_OWN_WEIGHT = 0.1
# With more features than this, products of two of them are left out of the regression.
_MOST_MULTIPLIED = 24
_LEAST_RESIDUAL, _RIDGE = 0.05, 1e-3
_CELLS, _SWEEPS, _NAMED = 2**22, 30, 5


def completed(
    given: pa.Table,
    donors: pa.Table,
    schema: Schema,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> pa.Table:
    """Return the given rows with the columns that they lack, each row from one donor that is near."""
    lacking = [name for name in schema.names if name not in given.column_names]
    _refuse_broken(given, schema, lacking)
    if not lacking:
        return given
    matching = _matching(schema, donors, lacking)
    chosen = np.concatenate(
        [
            _one_of_nearest(
                matching.places(given.slice(part.start, part.stop - part.start)), matching.donors, generator
            )
            for part in _parts(given.num_rows, donors.num_rows)
        ]
    )
    if schema.rules is None and schema.edits is None:
        return _joined(given, donors.take(chosen), schema)
    left = breaking(_joined(given, donors.take(chosen), schema), schema)
    for part in _parts(len(left), donors.num_rows):
        few = given.take(left[part])
        places = matching.places(few)
        chosen[left[part]] = _one_that_keeps(few, donors, schema, _nearest(places, matching.donors, _TRIED))
        chosen[left[part]] = _any_that_keeps(few, donors, schema, chosen[left[part]], _squares(places, matching.donors))
    filled = _joined(given, donors.take(chosen), schema)
    left = breaking(filled, schema)
    return _Repair(filled, schema, tuple(lacking), donors).table(left) if len(left) else filled


def breaking(table: pa.Table, schema: Schema) -> Places:
    """Return the rows that break a constraint of the schema between columns of the table."""
    found = np.zeros(table.num_rows, dtype=bool)
    for relation in _relations(schema, table.column_names):
        found |= broken(relation, table, schema.columns)
    for rows in _broken_rules(table, schema).values():
        found |= rows
    return np.flatnonzero(found)


def _broken_rules(table: pa.Table, schema: Schema) -> dict[str, Flags]:
    """Return the rows that break each rule over columns of the table."""
    if schema.edits is None:
        return {}
    values = {name: as_numbers(schema.columns[name], table[name]) for name in table.column_names}
    return schema.edits.rows_that_break(values)


def _relations(schema: Schema, names: Sequence[str]) -> list[Relation]:
    """Return the relations between columns that are all among these."""
    return [r for r in (schema.rules.relations if schema.rules is not None else ()) if set(r.names) <= set(names)]


def _refuse_broken(given: pa.Table, schema: Schema, lacking: Sequence[str]) -> None:
    left = breaking(given, schema)
    if len(left):
        texts = {r.text for r in _relations(schema, given.column_names) if broken(r, given, schema.columns).any()}
        texts |= {text for text, rows in _broken_rules(given, schema).items() if rows.any()}
        raise DataError(
            f"Given rows {_numbers(left)} break {', '.join(map(repr, sorted(texts)))}, whatever is filled in. Correct them."
        )


def _numbers(rows: Places) -> str:
    """Write a few row numbers; the first row is 0."""
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED].tolist())) + more + " (the first is 0)"


def _joined(given: pa.Table, taken: pa.Table, schema: Schema) -> pa.Table:
    import pyarrow as pa

    here = set(given.column_names)
    return pa.table({name: given[name] if name in here else taken[name] for name in schema.names})


@dataclass(frozen=True, slots=True, eq=False)
class _Matching:
    """Where rows lie: what their known columns tell about the lacking ones, and a little of themselves.

    orders: the sorted values of the donors by column; factors: a regression of what lacks; noise: what it leaves open.
    """

    schema: Schema
    known: tuple[str, ...]
    orders: dict[str, Array]
    factors: Array
    noise: Array
    donors: Array

    def places(self, rows: pa.Table) -> Array:
        """Return where these rows lie, (rows, directions)."""
        return _placed(_features(self.schema, self.known, rows, self.orders), self.factors, self.noise)


def _placed(features: Array, factors: Array, noise: Array) -> Array:
    return np.hstack([_multiplied(features) @ factors / noise, _OWN_WEIGHT * features])


def _matching(schema: Schema, donors: pa.Table, lacking: Sequence[str]) -> _Matching:
    known = tuple(name for name in schema.names if name not in lacking)
    orders = {
        n: np.sort(to_points(c, donors[n])[:, 0]) for n, c in schema.columns.items() if not isinstance(c, Category)
    }
    features, targets = (_features(schema, names, donors, orders) for names in (known, lacking))
    targets = (targets - targets.mean(axis=0)) / np.maximum(targets.std(axis=0), 1e-9)
    rich = _multiplied(features)
    gram = rich.T @ rich + _RIDGE * len(rich) * np.eye(rich.shape[1])
    factors = np.linalg.solve(gram, rich.T @ targets)
    noise = np.maximum((targets - rich @ factors).std(axis=0), _LEAST_RESIDUAL)
    return _Matching(schema, known, orders, factors, noise, _placed(features, factors, noise))


def _features(schema: Schema, names: Sequence[str], table: pa.Table, orders: dict[str, Array]) -> Array:
    """Return levels and missing cells as 0 and 1, values as their ranks among those of the donors, from -1 to 1."""
    parts = []
    for name in names:
        points = to_points(schema.columns[name], table[name])
        if name in orders:
            order, values = orders[name], points[:, 0]
            ranks = np.searchsorted(order, values) + np.searchsorted(order, values, side="right")
            points = np.column_stack([ranks / len(order) - 1.0, points[:, 1:]])
        parts.append(points)
    return np.hstack(parts)


def _multiplied(features: Array) -> Array:
    """Return features with a constant and, where there are few, all products of two."""
    parts = [np.ones((len(features), 1)), features]
    if features.shape[1] <= _MOST_MULTIPLIED:
        first, second = np.triu_indices(features.shape[1])
        parts.append(features[:, first] * features[:, second])
    return np.hstack(parts)


def _parts(rows: int, others: int) -> Iterator[slice]:
    step = max(1, _CELLS // others)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _squares(where: Array, there: Array) -> Array:
    """Return squared distances, (rows, donors), without what rounding leaves of 0."""
    found = (where**2).sum(axis=1)[:, None] + (there**2).sum(axis=1) - 2.0 * where @ there.T
    return np.asarray(np.where(found < 1e-9, 0.0, found))


def _one_of_nearest(where: Array, there: Array, generator: np.random.Generator) -> Places:  # noqa: TID251
    """Choose among the nearest donors of each row, and all that are as near as the last of them."""
    squares = _squares(where, there)
    last = np.partition(squares, min(_NEAREST, len(there)) - 1, axis=1)[:, min(_NEAREST, len(there)) - 1]
    row, donor = np.nonzero(squares <= last[:, None] + 1e-9)
    counts = np.bincount(row, minlength=len(where))
    picked = np.floor(generator.random(len(where)) * counts).astype(np.intp)
    return np.asarray(donor[np.cumsum(counts) - counts + picked])


def _nearest(where: Array, there: Array, count: int) -> Places:
    """Return the nearest donors of each row, the nearest first, (rows, count)."""
    squares, count = _squares(where, there), min(count, len(there))
    found = np.argpartition(squares, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(squares, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)


def _one_that_keeps(given: pa.Table, donors: pa.Table, schema: Schema, near: Places) -> Places:
    """Return the nearest donor of each row with which it keeps all constraints; the nearest of all if none does."""
    chosen, left = near[:, 0].copy(), np.arange(len(near))
    for tried in near.T:
        kept = np.ones(len(left), dtype=bool)
        kept[breaking(_joined(given.take(left), donors.take(tried[left]), schema), schema)] = False
        chosen[left[kept]] = tried[left[kept]]
        left = left[~kept]
        if not len(left):
            break
    return chosen


def _any_that_keeps(given: pa.Table, donors: pa.Table, schema: Schema, chosen: Places, squares: Array) -> Places:
    """Return the nearest of all donors with which a row keeps all rules, where the one that was chosen breaks one.

    Relations have no say: values can be moved until those hold, and an equality is kept by no donor.
    """
    wrong = _broken_rules(_joined(given, donors.take(chosen), schema), schema)
    values = {name: as_numbers(schema.columns[name], donors[name]) for name in schema.names} if wrong else {}
    own = {name: as_numbers(schema.columns[name], given[name]) for name in given.column_names} if wrong else {}
    for row in np.flatnonzero(np.any(list(wrong.values()), axis=0)) if wrong else ():
        here = {name: np.broadcast_to(numbers[row], donors.num_rows) for name, numbers in own.items()}
        broken_by = schema.edits.rows_that_break({**values, **here}) if schema.edits is not None else {}
        apart = np.where(np.any(list(broken_by.values()), axis=0), np.inf, squares[row])
        if np.isfinite(apart).any():
            chosen[row] = apart.argmin()
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Repair:
    """Rows whose filled values are moved until relations hold: an equality, say, that no donor keeps by chance."""

    filled: pa.Table
    schema: Schema
    lacking: tuple[str, ...]
    donors: pa.Table

    def table(self, rows: Places) -> pa.Table:
        """Return the table with these rows moved, or name those in which nothing that is filled in keeps the constraints."""
        part = self.filled.take(rows)
        values = {name: plain(part[name], self.schema.columns[name].kind).copy() for name in self._tied()}
        for sweep in range(_SWEEPS):
            for relation in self.schema.rules.relations if self.schema.rules is not None else ():
                self._move(relation, values, alone=sweep >= _SWEEPS // 2)
        found = self.filled
        for name in set(values) & set(self.lacking):
            found = found.set_column(found.column_names.index(name), name, self._cells(name, values[name], rows))
        left = breaking(found, self.schema)
        if len(left):
            tied = {name for text in self._rules() for name in text} | set(values)
            names = ", ".join(repr(name) for name in self.lacking if name in tied)
            raise DataError(
                f"No values of {names} were found that keep the constraints in given rows {_numbers(left)}. Give these "
                "columns too, or correct the rows."
            )
        return found

    def _rules(self) -> list[tuple[str, ...]]:
        return (
            [] if self.schema.edits is None else [edit.names for c in self.schema.edits.components for edit in c.edits]
        )

    def _tied(self) -> set[str]:
        return {name for relation in _relations(self.schema, self.schema.names) for name in relation.names}

    def _move(self, relation: Relation, values: dict[str, Array], *, alone: bool) -> None:
        """Move what was filled in to the border of a relation: all columns by their spread, or each `alone`, in steps."""
        for turn in [[name] for name in relation.names] if alone else [list(relation.names)]:
            excess = np.sum([c * values[name] for name, c in relation.coefficients], axis=0) - float(relation.bound)
            excess = np.where(np.isnan(excess), 0.0, excess if relation.equal else np.maximum(excess, 0.0))
            free = [name for name in turn if name in self.lacking]
            factors = {name: float(c) for name, c in relation.coefficients if name in free}
            spreads = {name: self._spread(name) ** 2 for name in free}
            total = sum(factors[name] ** 2 * spreads[name] for name in free)
            for name in free:
                self._step(name, values, -excess * factors[name] * spreads[name] / total, whole=alone)

    def _step(self, name: str, values: dict[str, Array], change: Array, *, whole: bool) -> None:
        column = self.schema.columns[name]
        if isinstance(column, Category):
            return
        if whole and column.kind != "number":
            values[name] = np.rint(values[name])
            # Away from the border, so that an inequality that was broken by a part of a step holds.
            change = np.sign(change) * np.ceil(np.abs(change) - 1e-9)
        values[name] = np.clip(values[name] + change, *column.bounds)

    def _spread(self, name: str) -> float:
        numbers = plain(self.donors[name], self.schema.columns[name].kind)
        return max(float(np.nanstd(numbers)), 1e-9)

    def _cells(self, name: str, moved: Array, rows: Places) -> pa.Array:
        column = self.schema.columns[name]
        if isinstance(column, Category):
            raise TypeError("relations are not about categories")
        numbers = plain(self.filled[name], column.kind).copy()
        numbers[rows] = moved
        return cells_of(column, numbers)
