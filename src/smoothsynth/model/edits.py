"""Edit rules in the model: rows swap values until few rules are broken, and what still breaks one is imputed.

Swaps leave every column what it is, value by value, so they come first. Rows that still break a rule get the cells of its
consequent from a donor: of some rows that keep all rules and for which the rule's condition holds, the one that is nearest in
all other columns (nearest-neighbour hot-deck imputation; Andridge and Little, Int. Statist. Rev. 78, 2010). If that does not
do, all cells of the rule, and at last those of all columns that rules tie together, are a donor's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema.consistency import points_by_condition
from smoothsynth.schema.edits import Edit, Linear, evaluate, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema import Schema
    from smoothsynth.schema.consistency import Component
    from smoothsynth.schema.edits import Atom

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Truth = NDArray[np.bool_]


# Rows that break a rule meet others until so many turns left more than this share of them, or so many rows have met others.
_LOOK_BACK, _STILL, _MOST_MET = 8, 0.9, 2_000_000
# Pairs of rows that are compared at once, and partners of a row.
_AT_ONCE, _MOST_PARTNERS = 20_000, 64
# Donors that are compared for a row, those that are there to choose from, and turns over all rules.
_COMPARED, _MOST_DONORS, _TURNS = 16, 20_000, 2


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """The edits of each column, by its number, others that are tied to them, and where comparisons hold before any swap."""

    edits: Mapping[int, tuple[Edit, ...]]
    others: Mapping[int, tuple[Edit, ...]]
    places: Mapping[str, int]
    values: Mapping[str, NDArray[Any]]
    truths: Mapping[Atom, Truth]

    @classmethod
    def of(cls, schema: Schema, rows: Array) -> Guard | None:
        """Return the guard of rows of the cube; None if the schema has nothing that swaps could break."""
        edits = guarded_edits(schema)
        if not edits:
            return None
        places = {name: number for number, name in enumerate(schema.names)}
        values = {name: schema.numbers_at(name, rows) for name in dict.fromkeys(n for e in edits for n in e.names)}
        single = {atom for edit in edits for atom in edit.atoms if len(atom.names) == 1}
        by_column = {places[name]: tuple(e for e in edits if name in e.names) for name in values}
        near = {c: {n for e in own for n in e.names} for c, own in by_column.items()}
        others = {
            c: tuple(e for e in edits if schema.names[c] not in e.names and not names.isdisjoint(e.names))
            for c, names in near.items()
        }
        return cls(by_column, others, places, values, {atom: atom.holds(values.__getitem__) for atom in single})

    def change(self, column: int, origins: NDArray[np.integer], one: Indices, other: Indices) -> Array:
        """Return how much more rows break edits after they swap their values of a column, for each pair of rows.

        A row that breaks k edits counts as 1 - 2^-k: better one row that breaks two, which another cell may mend at once,
        than two that break one. `origins` says from which row each value came, (columns, rows).
        """
        total = np.zeros(len(one))
        sides = (_Side(self, origins, one), _Side(self, origins, other))
        own, rest = self.edits.get(column, ()), self.others.get(column, ())
        for here, there in (sides, sides[::-1]) if own else ():
            swapped = functools.partial(here.swapped, column=column, there=there)
            before, after = (_count(own, truth) for truth in (here.truth, swapped))
            total += (np.exp2(-before) - np.exp2(-after)) * np.exp2(-_count(rest, here.truth))
        return total

    def broken(self, origins: NDArray[np.integer], which: Indices) -> Indices:
        """Return those of some rows that break an edit."""
        side = _Side(self, origins, which)
        edits = dict.fromkeys(edit for own in self.edits.values() for edit in own)
        return which[np.any([edit.broken(side.truth) for edit in edits], axis=0)]


def _count(edits: Sequence[Edit], truth: Callable[[Atom], Truth]) -> Array:
    return np.sum([edit.broken(truth) for edit in edits], axis=0, dtype=np.float64) if edits else np.zeros(1)


class _Side:
    """One of the rows of each pair: where comparisons hold in it, looked up once."""

    def __init__(self, guard: Guard, origins: NDArray[np.integer], which: Indices) -> None:
        self._guard, self._origins, self._which = guard, origins, which
        self._known: dict[Atom, Truth] = {}

    def truth(self, atom: Atom) -> Truth:
        if atom not in self._known:
            self._known[atom] = self._found(atom)
        return self._known[atom]

    def swapped(self, atom: Atom, *, column: int, there: _Side) -> Truth:
        """Say where a comparison holds once the value of a column is that of the other row."""
        own = [name for name in atom.names if self._guard.places[name] == column]
        if not own:
            return self.truth(atom)
        if len(atom.names) == 1:
            return there.truth(atom)
        return atom.holds(lambda name: (there if name in own else self)._values(name))

    def _found(self, atom: Atom) -> Truth:
        if len(atom.names) > 1:
            return atom.holds(self._values)
        return self._guard.truths[atom][self._origins[self._guard.places[atom.names[0]], self._which]]

    def _values(self, name: str) -> NDArray[Any]:
        return self._guard.values[name][self._origins[self._guard.places[name], self._which]]


@functools.lru_cache(maxsize=16)
def _inequalities(relations: tuple[Any, ...]) -> tuple[Edit, ...]:
    return tuple(Edit(relation.text, Linear(relation)) for relation in relations if not relation.equal)


def guarded_edits(schema: Schema) -> tuple[Edit, ...]:
    """Return what swaps must keep: edits, and inequalities between columns. Columns of equalities are not swapped."""
    found = () if schema.rules is None else _inequalities(schema.rules.relations)
    own = () if schema.edits is None else tuple(edit for c in schema.edits.components for edit in c.edits)
    return (*found, *(edit for edit in own if not isinstance(edit.consequent, Linear)))


def swapped_to_keep(
    schema: Schema,
    rows: Array,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    """Return rows of the same values of which fewer break an edit: those that do meet others, and swap what mends one."""
    guard = Guard.of(schema, rows)
    if guard is None or schema.edits is None:
        return rows
    relations = () if schema.rules is None else schema.rules.relations
    movable = set(guard.values).difference(*(relation.names for relation in relations if relation.equal))
    origins = np.tile(np.arange(len(rows)), (len(schema.names), 1))
    columns = np.array([number for number, name in enumerate(schema.names) if name in movable])
    bad, past = guard.broken(origins, np.arange(len(rows))), list[int]()
    while len(bad) and len(columns) and _worth(past, len(bad)):
        past.append(len(bad))
        met = [bad]
        for column in generator.permutation(columns):
            one, other = _mending(guard, int(column), origins, bad, generator)
            origins[column, one], origins[column, other] = origins[column, other], origins[column, one]
            met.append(other)
        bad = guard.broken(origins, np.unique(np.concatenate(met)))
    found = rows.copy()
    for number, name in enumerate(schema.names):
        where = schema.coordinates_of(name)
        found[:, where] = rows[origins[number], where]
    return found


def _worth(past: Sequence[int], left: int) -> bool:
    """Whether to go on: rows that break a rule still get fewer, and have not met too many others."""
    return sum(past) < _MOST_MET and (len(past) < _LOOK_BACK or left <= _STILL * past[-_LOOK_BACK])


def _mending(
    guard: Guard,
    column: int,
    origins: NDArray[np.integer],
    bad: Indices,
    generator: np.random.Generator,  # noqa: TID251
) -> tuple[Indices, Indices]:
    """Return pairs of a row that breaks a rule and another, of some, with which it swaps best; no row is in two of them."""
    many = int(np.clip(_AT_ONCE // len(bad), 1, _MOST_PARTNERS))
    partners = generator.integers(0, origins.shape[1], (len(bad), many))
    change = guard.change(column, origins, np.repeat(bad, many), partners.ravel()).reshape(partners.shape)
    best = change.argmin(axis=1)
    mends = np.flatnonzero(change[np.arange(len(bad)), best] < 0)
    other, first = np.unique(partners[mends, best[mends]], return_index=True)
    one = bad[mends[first]]
    free = ~np.isin(other, one)
    return one[free], other[free]


def keep_edits(schema: Schema, points: Array, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Return points whose rows, in own units, keep every edit; those that do already are as they were."""
    if schema.edits is None:
        return points
    points = points.copy()
    for component in schema.edits.components:
        _Imputation(schema, component, points, generator).run()
    return points


class _Imputation:
    """Rows of which some break edits of a component, and donors that break none."""

    def __init__(
        self,
        schema: Schema,
        component: Component,
        points: Array,
        generator: np.random.Generator,  # noqa: TID251
    ) -> None:
        self._schema, self._component, self._points, self._random = schema, component, points, generator

    def run(self) -> None:
        counts = self._broken(self._points)
        bad = np.flatnonzero(counts)
        if not len(bad):
            return
        good = np.flatnonzero(counts == 0)
        chosen = np.sort(self._random.permutation(good)[:_MOST_DONORS])
        self._donors = np.concatenate([self._points[chosen], self._made()])
        for name in self._component.names:
            self._mend_alone(name, bad)
        for turn in range(2 * _TURNS):
            for edit in self._component.edits:
                self._mend(edit, bad, whole=turn >= _TURNS)
            bad = bad[self._broken(self._points[bad]) > 0]
        self._copied(bad, self._component.names, np.arange(len(self._donors)))

    def _made(self) -> Array:
        """Return a row for each condition that rows can have, with the other columns of any row."""
        parts = points_by_condition(self._component)
        made = np.repeat(self._points[:1], len(next(iter(parts.values()))), axis=0)
        for name, part in parts.items():
            made[:, self._schema.coordinates_of(name)] = part
        return made[self._broken(made) == 0]

    def _mend_alone(self, name: str, bad: Indices) -> None:
        """Give rows another cell of one column that all edits have in common which they break, if those are several.

        A number gives way to levels also in a single one: shares of levels are measured, those of a range are less exact.
        """
        truth = self._truth(self._points[bad], self._component.names)
        counts = self._component.broken(truth)
        own = sum(edit.broken(truth).astype(np.int64) for edit in self._component.edits if name in edit.names)
        least = 1 if self._gives_way(name) else 2
        rows = bad[(counts >= least) & (own == counts)]
        self._copied(rows, self._component.whole([name]), np.arange(len(self._donors)))

    def _gives_way(self, name: str) -> bool:
        """Whether a column is one of numbers, and all others that it shares edits with are categories."""
        others = {n for edit in self._component.edits if name in edit.names for n in edit.names} - {name}
        kinds = {self._schema.columns[other].kind for other in others}
        return self._schema.columns[name].kind not in ("category", "boolean") and kinds == {"category"}

    def _mend(self, edit: Edit, bad: Indices, *, whole: bool) -> None:
        """Give rows that break an edit cells of donors, where that makes fewer edits broken."""
        rows = bad[edit.broken(self._truth(self._points[bad], edit.names))]
        if not len(rows):
            return
        fitting = np.arange(len(self._donors))
        if edit.condition is not None and not whole:
            fitting = np.flatnonzero(evaluate(edit.condition, self._truth(self._donors, names_of(edit.condition))))
        self._copied(rows, self._component.whole(edit.names if whole else names_of(edit.consequent)), fitting)

    def _copied(self, rows: Indices, names: Sequence[str], fitting: Indices) -> None:
        """Copy columns of the nearest of some donors that helps."""
        if not len(rows) or not len(fitting):
            return
        copied = np.concatenate([np.r_[self._schema.coordinates_of(name)] for name in names])
        picked = self._nearest(rows, copied, fitting)
        counts = self._broken(self._points[rows])
        for turn in range(picked.shape[1]):
            tried = self._points[rows]
            tried[:, copied] = self._donors[picked[:, turn]][:, copied]
            better = self._broken(tried) < counts
            self._points[rows[better]] = tried[better]
            rows, counts, picked = rows[~better], counts[~better], picked[~better]
            if not len(rows):
                return

    def _nearest(self, rows: Indices, copied: Indices, fitting: Indices) -> Indices:
        """Return some donors for each row, those first that are like it in what is not copied."""
        picked = fitting[self._random.integers(0, len(fitting), (len(rows), min(_COMPARED, len(fitting))))]
        apart = np.zeros(picked.shape)
        for c in np.setdiff1d(np.arange(self._points.shape[1]), copied):
            apart += (self._points[rows, c][:, None] - self._donors[picked, c]) ** 2
        return np.take_along_axis(picked, np.argsort(apart, axis=1, kind="stable"), axis=1)

    def _truth(self, points: Array, names: Sequence[str]) -> Callable[[Atom], Truth]:
        values = {name: self._schema.numbers_at(name, points) for name in names}
        return functools.cache(lambda atom: atom.holds(values.__getitem__))

    def _broken(self, points: Array) -> NDArray[np.int64]:
        return self._component.broken(self._truth(points, self._component.names))
