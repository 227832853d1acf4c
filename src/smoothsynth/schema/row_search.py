"""The search for one row that keeps all edit rules.

The constants of the rules cut every number into finitely many intervals, so each column has finitely many cells, missing
being one. Each rule is a list of ways to keep it (its condition fails, or its consequent holds). Ways are chosen rule by
rule, those with the fewest first, while every column has a cell left. What is left between columns is an order of whole
numbers, or a small linear program.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.category import Category
from smoothsynth.schema.edits import REVERSED, Comparison, Edit, Junction, Linear, Pair
from smoothsynth.schema.integer_points import point_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.constraints import Relation
    from smoothsynth.schema.edits import Atom, Node
    from smoothsynth.schema.encoding import Column

    Truth = NDArray[np.bool_]
    Row = dict[str, float | None]


_MOST_WAYS, MOST_STEPS, _MOST_SPANS = 256, 4_000, 256
# What a linear program counts for among the steps: about as long as so many others take.
_PROGRAM_STEPS = 4
# An open end of an interval of real numbers, as a share of it; and the least difference that < asks for, of the range.
_OPEN, _APART = 1e-6, 1e-9


class UnsettledError(SchemaError):
    """A search that took too many steps."""


@dataclass(slots=True)
class Steps:
    """How many steps one search or several may still take: a search can take exponentially many."""

    left: int

    def take(self, count: int = 1) -> None:
        """Take some of them; stop the search if none are left."""
        self.left -= count
        if self.left < 0:
            raise UnsettledError(
                f"Whether some row keeps all rules was not found out in {MOST_STEPS:,} steps: write fewer or simpler ones."
            )


@dataclass(frozen=True, slots=True)
class _Line:
    """left sign right between two columns that are there."""

    pair: Pair


# The cells of a column that are left, as bits of a whole number; the last one is for missing cells.
_Mask = tuple[str, int]
_Way = tuple["_Mask | _Line", ...]


class RowSearch:
    """Columns as finitely many cells, the last of them missing, and the ways to keep each edit."""

    def __init__(
        self,
        edits: Sequence[Edit],
        columns: Mapping[str, Column],
        accepted: Callable[[Row], Row | None],
        steps: Steps,
    ) -> None:
        self._columns, self._accepted, self._steps = columns, accepted, steps
        self._relations = [edit.consequent.relation for edit in edits if isinstance(edit.consequent, Linear)]
        tests = {atom for edit in edits for atom in edit.atoms if isinstance(atom, Comparison)}
        self._cells = {name: _cells(column, tests, name) for name, column in columns.items()}
        points = {name: np.array([_inside(*cell) for cell in cells] + [np.nan]) for name, cells in self._cells.items()}
        for name, column in columns.items():
            if isinstance(column, Category):
                points[name][-1] = -1
        self._masks = {test: _bits(test.holds(points.__getitem__)) for test in tests}
        self._ways = [ways for edit in edits if not isinstance(edit.consequent, Linear) for ways in self._kept(edit)]

    def row(self) -> Row | None:
        """Return a row that keeps all edits, None if there is none."""
        start = {
            name: self._missing(name, present=True) | (self._missing(name) if self._columns[name].nullable else 0)
            for name in self._cells
        }
        return self._chosen(start, (), tuple(range(len(self._ways))))

    def _kept(self, edit: Edit) -> Iterator[tuple[_Way, ...]]:
        """Yield the ways to keep an edit, those of "A or B implies C and D" as of four of them."""
        for condition in (None,) if edit.condition is None else _parts(edit.condition, every=False):
            for consequent in _parts(edit.consequent, every=True):
                both = _ways(consequent, negated=False) + (0 if condition is None else _ways(condition, negated=True))
                if both > _MOST_WAYS:
                    raise SchemaError(
                        f"Constraint {edit.text!r:.200}: there are more than {_MOST_WAYS} ways to keep it. Write it as "
                        "several rules."
                    )
                failing = () if condition is None else self._terms(condition, negated=True)
                yield (*failing, *self._terms(consequent, negated=False))

    def _terms(self, node: Node, *, negated: bool) -> tuple[_Way, ...]:
        """Return the terms of a condition's, or its negation's, disjunctive normal form."""
        if not isinstance(node, Junction):
            return tuple(self._literals(node, negated=negated))
        parts = [self._terms(part, negated=negated) for part in node.parts]
        if node.every == negated:
            return tuple(itertools.chain(*parts))
        return tuple(tuple(itertools.chain(*terms)) for terms in itertools.product(*parts))

    def _literals(self, atom: Atom, *, negated: bool) -> Iterator[_Way]:
        if isinstance(atom, Comparison):
            mask = self._masks[atom]
            yield ((atom.column, self._all(atom.column) ^ mask if negated else mask),)
        elif isinstance(atom, Pair):
            if negated:
                yield from (((name, self._missing(name)),) for name in atom.names if self._columns[name].nullable)
            sign = REVERSED[atom.sign] if negated else atom.sign
            for one in ("<", ">") if sign == "!=" else (sign,):
                there = tuple((name, self._missing(name, present=True)) for name in atom.names)
                yield (*there, _Line(Pair(atom.left, one, atom.right)))

    def _all(self, name: str) -> int:
        return (2 << len(self._cells[name])) - 1

    def _missing(self, name: str, *, present: bool = False) -> int:
        mask = 1 << len(self._cells[name])
        return mask - 1 if present else mask

    def _chosen(self, masks: dict[str, int], lines: tuple[Pair, ...], left: tuple[int, ...]) -> Row | None:
        """Choose a way for one edit after the other, those with the fewest left first."""
        self._steps.take()
        open_ways = []
        for number in left:
            found = [reached for way in self._ways[number] if (reached := _narrowed(masks, way)) is not None]
            if not found:
                return None
            if not any(same and not new for _, new, same in found):
                open_ways.append((len(found), number, found))
        if not open_ways:
            return self._filled(masks, lines)
        _, number, found = min(open_ways, key=lambda one: one[:2])
        rest = tuple(n for _, n, _ in open_ways if n != number)
        for cut, new, _ in found:
            row = self._chosen(cut, (*lines, *new), rest) if self._possible(cut, (*lines, *new)) else None
            if row is not None:
                return row
        return None

    def _possible(self, masks: dict[str, int], lines: tuple[Pair, ...]) -> bool:
        """Whether bounds alone leave room for each line."""
        for line in lines:
            spans = [self._hull(name, masks[name]) for name in (line.left, line.right)]
            if not _room(line.sign, *spans):
                return False
        return True

    def _hull(self, name: str, mask: int) -> tuple[float, float]:
        mask &= self._missing(name, present=True)
        cells = self._cells[name]
        return cells[_first_bit(mask)][0], cells[mask.bit_length() - 1][1]

    def _filled(self, masks: dict[str, int], lines: tuple[Pair, ...]) -> Row | None:
        """Return a row of cells that are left; columns of numbers that depend on each other by a linear program."""
        linked = {name for line in lines for name in line.names} | {n for r in self._relations for n in r.names}
        row: Row = {name: self._first(name, mask) for name, mask in masks.items() if name not in linked}
        names = [name for name in masks if name in linked]
        choices = itertools.islice(
            itertools.product(*(tuple(self._spans(name, masks[name])) for name in names)), _MOST_SPANS
        )
        for spans in choices if names else [()]:
            there = {name: span for name, span in zip(names, spans, strict=True) if span is not None}
            numbers = self._solved(there, lines)
            if numbers is not None:
                found = self._accepted({**row, **dict.fromkeys(names), **numbers})
                if found is not None:
                    return found
        return None

    def _first(self, name: str, mask: int) -> float | None:
        place, cells = _first_bit(mask), self._cells[name]
        return None if place == len(cells) else _inside(*cells[place])

    def _spans(self, name: str, mask: int) -> Iterator[tuple[float, float] | None]:
        """Yield runs of neighbouring cells, and None for a missing cell."""
        cells = self._cells[name]
        for there, run in itertools.groupby(range(len(cells)), lambda i: mask >> i & 1):
            if there:
                first, *rest = run
                yield cells[first][0], cells[[first, *rest][-1]][1]
        if mask & self._missing(name):
            yield None

    def _solved(self, spans: Mapping[str, tuple[float, float]], lines: tuple[Pair, ...]) -> Row | None:
        names = tuple(spans)
        rows = [_line(line, names, self._apart(line)) for line in lines]
        rows += [_relation(r, names) for r in self._relations if set(r.names) <= set(names)]
        whole = [self._columns[name].kind != "number" for name in names]
        if all(whole) and len(rows) == len(lines):
            return _ordered(spans, lines)
        if not rows:
            return {name: _inside(*spans[name], whole=w) for name, w in zip(names, whole, strict=True)}
        # A span of one point cannot be scaled: it is a little wider, and what is found is clipped to it.
        wide = [(low, high) if high > low else (low - 0.25, high + 0.25) for low, high in spans.values()]
        fixed = [([float(n == name) for n in names], True, low) for name, (low, high) in spans.items() if low == high]
        whole = [w and high > low for w, (low, high) in zip(whole, spans.values(), strict=True)]
        self._steps.take(_PROGRAM_STEPS)
        found = point_inside(wide, whole, [*rows, *fixed])
        if found is None:
            return None
        rounded = np.where(whole, np.rint(found), found)
        low, high = np.array(list(spans.values())).T
        # The solver stops a little before the ends.
        near = _OPEN * (high - low)
        ended = np.where(rounded <= low + near, low, np.where(rounded >= high - near, high, rounded))
        return dict(zip(names, ended.tolist(), strict=True))

    def _apart(self, line: Pair) -> float:
        if line.sign not in ("<", ">"):
            return 0.0
        sides = [self._columns[name] for name in line.names]
        if all(side.kind != "number" for side in sides):
            return 1.0
        return _APART * max(abs(b) for side in sides if not isinstance(side, Category) for b in side.bounds)


def _parts(node: Node, *, every: bool) -> tuple[Node, ...]:
    """Return what "and", or "or", joins; else the whole."""
    return node.parts if isinstance(node, Junction) and node.every == every else (node,)


def _ways(node: Node, *, negated: bool) -> int:
    """Bound the number of terms of a condition's, or its negation's, disjunctive normal form."""
    if not isinstance(node, Junction):
        return 1 if isinstance(node, Comparison) else 4
    counts = [_ways(part, negated=negated) for part in node.parts]
    return sum(counts) if node.every == negated else math.prod(counts)


def _narrowed(masks: dict[str, int], way: _Way) -> tuple[dict[str, int], tuple[Pair, ...], bool] | None:
    """Return the cells that a way leaves, its lines, and whether it left all that there were; None if it leaves none."""
    found = masks
    for literal in way:
        if isinstance(literal, _Line):
            continue
        name, mask = literal
        cut = found[name] & mask
        if not cut:
            return None
        found = found if cut == found[name] else {**found, name: cut}
    return found, tuple(literal.pair for literal in way if isinstance(literal, _Line)), found is masks


def _bits(flags: Truth) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _first_bit(mask: int) -> int:
    return (mask & -mask).bit_length() - 1


def _room(sign: str, left: tuple[float, float], right: tuple[float, float]) -> bool:
    if sign in ("<", "<="):
        return left[0] < right[1] or (sign == "<=" and left[0] <= right[1])
    if sign in (">", ">="):
        return left[1] > right[0] or (sign == ">=" and left[1] >= right[0])
    return left[0] <= right[1] and right[0] <= left[1]


def _line(line: Pair, names: Sequence[str], apart: float) -> tuple[list[float], bool, float]:
    turn = -1.0 if line.sign in (">", ">=") else 1.0
    factors = [turn * ((name == line.left) - float(name == line.right)) for name in names]
    return factors, line.sign == "=", -apart


def _ordered(spans: Mapping[str, tuple[float, float]], lines: tuple[Pair, ...]) -> Row | None:
    """Return whole numbers between those of the largest and of the least row that keeps all lines; None without one.

    Lines are differences, left <= right - apart, so both rows are shortest paths (Bellman and Ford): quicker found than whole
    points of a program, as a year has many seconds.
    """
    pairs = [(p.left, p.right, float(p.sign == "<")) for p in lines if p.sign in ("<", "<=", "=")]
    pairs += [(p.right, p.left, float(p.sign == ">")) for p in lines if p.sign in (">", ">=", "=")]
    most = _shortest({name: high for name, (_, high) in spans.items()}, pairs)
    least = _shortest({name: -low for name, (low, _) in spans.items()}, [(b, a, apart) for a, b, apart in pairs])
    if most is None or least is None or any(most[name] < low for name, (low, _) in spans.items()):
        return None
    return {name: float(math.floor((most[name] - least[name]) / 2)) for name in spans}


def _shortest(ends: dict[str, float], pairs: Sequence[tuple[str, str, float]]) -> dict[str, float] | None:
    """Return the largest numbers up to these ends with one <= other - apart for each pair; None if a circle forbids all."""
    for _ in range(len(ends) + 1):
        before = dict(ends)
        for one, other, apart in pairs:
            ends[one] = min(ends[one], ends[other] - apart)
        if ends == before:
            return ends
    return None


def _relation(relation: Relation, names: Sequence[str]) -> tuple[list[float], bool, float]:
    factors = dict(relation.coefficients)
    return [float(factors.get(name, 0)) for name in names], relation.equal, float(relation.bound)


def _cells(column: Column, tests: set[Comparison], name: str) -> list[tuple[float, float]]:
    """Return the levels of a category, or the intervals into which constants cut the numbers, ends included."""
    if isinstance(column, Category):
        return [(float(i), float(i)) for i in range(len(column.levels))]
    lower, upper = column.bounds
    whole = column.kind != "number"
    cuts = sorted({v for test in tests if test.column == name for v in test.values if lower <= v <= upper})
    points = [v for v in cuts if not whole or v == int(v)]
    ends = [-math.inf, *cuts, math.inf]
    found = [(v, v) for v in points]
    for low, high in itertools.pairwise(ends):
        inside = _between(low, high, lower, upper, whole=whole)
        found += [] if inside is None else [inside]
    return sorted(found)


def _between(low: float, high: float, lower: float, upper: float, *, whole: bool) -> tuple[float, float] | None:
    """Return the values of a column strictly between two constants, as a closed interval."""
    if whole:
        first, last = max(lower, math.floor(low) + 1 if low > -math.inf else lower), upper
        last = min(upper, math.ceil(high) - 1 if high < math.inf else upper)
    else:
        gap = _OPEN * (min(high, upper) - max(low, lower))
        first, last = (low + gap if low >= lower else lower), (high - gap if high <= upper else upper)
    return (first, last) if first <= last and not (first == last and first in (low, high)) else None


def _inside(low: float, high: float, *, whole: bool = False) -> float:
    """Return a value of an interval: whole if its ends are."""
    middle = low / 2 + high / 2
    return math.floor(middle) if whole or (low == int(low) and high == int(high)) else middle
