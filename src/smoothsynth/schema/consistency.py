"""The edit rules of a schema: which columns they tie together, which rows break them, and whether they can hold.

Whether a set of edits is consistent is a search for one row that keeps all (smoothsynth.schema.row_search).
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema import encoding
from smoothsynth.schema.category import Category
from smoothsynth.schema.edits import Comparison, Edit, Linear, bound_edits
from smoothsynth.schema.row_search import MOST_STEPS, RowSearch, Steps, UnsettledError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.constraints import Constraints
    from smoothsynth.schema.edits import Atom
    from smoothsynth.schema.encoding import Column
    from smoothsynth.schema.integer_points import Block
    from smoothsynth.schema.row_search import Row

    Array = NDArray[np.float64]
    Truth = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Columns that edits tie together, directly or by relations, whose blocks of columns these are."""

    columns: Mapping[str, Column]
    edits: tuple[Edit, ...]
    blocks: tuple[Block, ...]
    constants: Mapping[str, tuple[float, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.columns)

    def broken(self, truth: Callable[[Atom], Truth]) -> NDArray[np.int64]:
        """Count the edits that each row breaks, given where comparisons hold."""
        return np.sum([edit.broken(truth) for edit in self.edits], axis=0, dtype=np.int64)

    def whole(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return columns and those that relations tie to them."""
        found = set(names).union(*(block.names for block in self.blocks if set(block.names) & set(names)))
        return tuple(name for name in self.names if name in found)

    def only(self, texts: Sequence[str]) -> Component:
        """Return the same columns with some of the rules."""
        return replace(self, edits=tuple(edit for edit in self.edits if edit.text in texts))

    def row(self, *asked: Edit, steps: Steps | None = None) -> Row | None:
        """Return a row that keeps all edits, and those that are asked for beside them; None if there is none."""
        whole = replace(self, edits=(*self.edits, *asked))
        return RowSearch(whole.edits, self.columns, whole._accepted, steps or Steps(MOST_STEPS)).row()

    def _accepted(self, found: Row) -> Row | None:
        """Return a row with whole steps, if it keeps all edits as it is written; else None."""
        row = functools.reduce(_exact, self.blocks, found)
        steps = {n: float(s) for b in self.blocks for n, s in zip(b.names, b.steps, strict=True)}
        values = {
            name: encoding.numbers_at(
                self.columns[name],
                points,
                step=steps.get(name),
                exact=() if name in steps else self.constants.get(name, ()),
            )
            for name, points in _points_of([row], self.columns).items()
        }
        return None if self.broken(lambda atom: atom.holds(values.__getitem__)).any() else row


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """The edit rules of a schema by component, and the constants that numbers are compared with."""

    components: tuple[Component, ...]
    constants: Mapping[str, tuple[float, ...]]

    @property
    def texts(self) -> tuple[str, ...]:
        """The rules as they are written, each once."""
        found = (edit.text for c in self.components for edit in c.edits if not isinstance(edit.consequent, Linear))
        return tuple(dict.fromkeys(found))

    def broken(self, values: Mapping[str, NDArray[Any]]) -> dict[str, int]:
        """Count the rows that break each rule, given all columns as numbers."""
        return {text: int(rows.sum()) for text, rows in self.rows_that_break(values).items()}

    def rows_that_break(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
        """Return the rows that break each rule over some columns, given as numbers; rules over others are left out."""
        truth = functools.cache(lambda atom: atom.holds(values.__getitem__))
        known = [edit for c in self.components for edit in c.edits if set(edit.names) <= set(values)]
        found = {text: [edit.broken(truth) for edit in known if edit.text == text] for text in self.texts}
        return {text: np.any(rows, axis=0) for text, rows in found.items() if rows}


@functools.lru_cache(maxsize=64)
def read_edits(
    texts: tuple[str, ...],
    codes: tuple[tuple[str, tuple[tuple[str, object], ...]], ...],
    columns: tuple[tuple[str, Column], ...],
    known: Constraints | None,
) -> Edits:
    """Read the edit rules of a schema with these columns; rules that contradict one another are named."""
    schema, tables = dict(columns), {text: dict(table) for text, table in codes}
    edits = [edit for text in texts for edit in bound_edits(text, schema, tables)]
    blocks = [] if known is None else known.blocks
    touched = {name for edit in edits for name in edit.names}
    for name in sorted(touched):
        column = schema[name]
        if isinstance(column, Category) and column.hierarchy is not None:
            raise SchemaError(
                f"Column {name!r:.80} has many levels, which are drawn once rows keep the rules, and cannot have one. "
                "Leave out the rule, or declare the nodes of a tier as levels."
            )
    blocks = [block for block in blocks if touched & set(block.names)]
    for block in blocks:
        if block.moments:
            name = next(name for name in block.names if name in touched)
            raise SchemaError(
                f"Column {name!r} cannot have both a rule and a public sum or mean ({block.moments[0].text!r}): leave "
                "out one."
            )
    edits += [Edit(r.text, Linear(r)) for block in blocks for r in block.relations]
    constants = _constants(edits, schema)
    components = []
    for group in _groups(edits):
        own = {name: column for name, column in columns if name in group}
        mine = tuple(edit for edit in edits if set(edit.names) <= group)
        inside = tuple(block for block in blocks if set(block.names) <= group)
        components.append(Component(own, mine, inside, constants))
        _refuse_contradictory(components[-1])
    return Edits(tuple(components), constants)


def _groups(edits: Sequence[Edit]) -> list[set[str]]:
    groups: list[set[str]] = []
    for names in (set(edit.names) for edit in edits):
        touching = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + [names.union(*touching)]
    return groups


def _constants(edits: Sequence[Edit], columns: Mapping[str, Column]) -> dict[str, tuple[float, ...]]:
    found: dict[str, set[float]] = {}
    for test in (atom for edit in edits for atom in edit.atoms if isinstance(atom, Comparison) and not atom.category):
        if columns[test.column].kind == "number":
            lower, upper = columns[test.column].bounds  # type: ignore[union-attr]
            found.setdefault(test.column, set()).update(v for v in test.values if lower <= v <= upper)
    return {name: tuple(sorted(values)) for name, values in found.items() if values}


def _refuse_contradictory(component: Component) -> None:
    """Refuse edits that no row keeps, and name few of them: some are left out if the others still contradict.

    Half of them are tried first, then a quarter, at last single ones (Zeller and Hildebrandt 2002), and a smallest set is
    named unless that takes too many steps.
    """
    if component.row() is not None:
        return
    kept, steps = list(dict.fromkeys(edit.text for edit in component.edits)), Steps(MOST_STEPS)
    size = len(kept)
    with contextlib.suppress(UnsettledError):
        while size > 1:
            size = -(-size // 2)
            for texts in [kept[at : at + size] for at in range(0, len(kept), size)]:
                rest = [text for text in kept if text not in texts]
                kept = rest if rest and component.only(rest).row(steps=steps) is None else kept
    raise SchemaError(
        f"No row can keep {_listed(kept)} within the bounds and levels of the columns. Correct or leave out one of them."
    )


def _listed(texts: Sequence[str]) -> str:
    words = [f"{text!r:.200}" for text in texts]
    return f"the rule {words[0]}" if len(words) == 1 else f"all of the rules {', '.join(words)} together"


@functools.lru_cache(maxsize=64)
def points_by_condition(component: Component) -> Mapping[str, Array]:
    """Return coordinates of rows that keep all edits, one for each condition that some row can have, by column."""
    found = [component.row()]
    for edit in component.edits:
        if edit.condition is not None:
            with contextlib.suppress(UnsettledError):
                found.append(component.row(Edit(edit.text, edit.condition)))
    return _points_of([row for row in found if row is not None], component.columns)


def _exact(row: Row, block: Block) -> Row:
    """Return a row whose numbers of a block are whole steps that keep its relations."""
    numbers = [row[name] for name in block.names]
    active = tuple(all(row[name] is not None for name in relation.names) for relation in block.relations)
    wanted = np.array([[0.0 if number is None else number for number in numbers]]) / block.steps
    (whole,) = block.points(active).nearest(wanted) * block.steps
    there = zip(block.names, numbers, whole.tolist(), strict=True)
    return {**row, **{name: None if number is None else value for name, number, value in there}}


def _points_of(rows: Sequence[Row], columns: Mapping[str, Column]) -> dict[str, Array]:
    """Return the coordinates of rows, column by column."""
    found = {}
    for name, column in columns.items():
        cells = [row[name] for row in rows]
        if isinstance(column, Category):
            found[name] = column.at(np.array([-1 if cell is None else int(cell) for cell in cells], dtype=np.int16))
        else:
            numbers = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
            found[name] = encoding.nearest(column, encoding.to_points(column, numbers))
    return found
