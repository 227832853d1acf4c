"""Columns that constraints tie together, on one lattice: published values are whole multiples of a power of two.

So relations hold exactly in whole numbers, and in doubles too, in whatever order a reader adds them up.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SchemaError
from smoothsynth.schema.feasible import point_inside
from smoothsynth.schema.whole_rows import WholePoints, near_solution, short_basis
from smoothsynth.schema.whole_solutions import whole_solutions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.column import Measure
    from smoothsynth.schema.relations import PublicMoment, Relation

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]

# The largest side of a relation has 2^40 steps: sums of doubles on that lattice are exact, and the way to the cube and
# back, through a transform, is exact to much less than a step.
_STEPS = 40
_MOST = 2**60
# Steps below this would not be doubles of full precision, and products of numbers beyond that no doubles at all.
_LEAST_POWER, _LARGEST = -1000, 1e100
_FEWEST_STEPS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Columns, the step of each, their bounds in steps, and relations  sum_i C_i z_i <= B  (or = B) in whole numbers."""

    names: tuple[str, ...]
    steps: Array
    lower: Wholes
    upper: Wholes
    relations: tuple[Relation, ...]
    factors: Wholes
    bounds: Wholes
    moments: tuple[PublicMoment, ...]
    inside: Wholes | None = None

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def points(self, active: tuple[bool, ...], held: tuple[int, ...] = ()) -> WholePoints:
        """Return the whole points of the relations that are active; along the basis, `held` columns do not change."""
        equal = [r.equal and a for r, a in zip(self.relations, active, strict=True)]
        below = [not r.equal and a for r, a in zip(self.relations, active, strict=True)]
        start, basis = self._solutions(np.flatnonzero(equal), held)
        return WholePoints(
            self.lower,
            self.upper,
            self.factors[below],
            self.bounds[below],
            start,
            basis,
            self.inside,
        )

    def _solutions(self, equal: NDArray[np.intp], held: tuple[int, ...]) -> tuple[Wholes, Wholes]:
        """Return a solution of some equalities near the middle, and short directions between those that hold columns."""
        width, matrix = len(self.names), self.factors[equal].tolist()
        found = whole_solutions(matrix, self.bounds[equal].tolist()) if matrix else ([0] * width, _identity(width))
        still = [*matrix, *(line for c, line in enumerate(_identity(width)) if c in held)]
        free = whole_solutions(still, [0] * len(still)) if held else found
        if found is None or free is None:
            raise SchemaError(_no_whole(self, equal))
        # One over the span of each column, in whole numbers.
        spans = [max(int(span), 1) for span in self.upper - self.lower]
        weight = [max(spans) * 1024 // span for span in spans]
        basis = short_basis(free[1], weight)
        middle = [(int(low) + int(high)) // 2 for low, high in zip(self.lower, self.upper, strict=True)]
        start = near_solution(found[0], short_basis(found[1], weight), middle, weight)
        if max((abs(z) for line in (start, *basis) for z in line), default=0) > _MOST:
            raise SchemaError(_no_whole(self, equal))
        return np.array(start, dtype=np.int64), np.array(basis, dtype=np.int64).reshape(len(basis), width)


def blocks_of(
    columns: Mapping[str, Measure], relations: Sequence[Relation], moments: Sequence[PublicMoment]
) -> tuple[Block, ...]:
    """Return the blocks of columns that relations tie together, each column once, with a point inside each."""
    groups: list[set[str]] = []
    for names in [set(r.names) for r in relations] + [{m.column} for m in moments]:
        touching = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names] + [names.union(*touching)]
    ordered = sorted(groups, key=lambda group: min(list(columns).index(name) for name in group))
    return tuple(
        _block(
            {name: column for name, column in columns.items() if name in group},
            [r for r in relations if set(r.names) <= group],
            [m for m in moments if m.column in group],
        )
        for group in ordered
    )


def _block(columns: Mapping[str, Measure], relations: Sequence[Relation], moments: Sequence[PublicMoment]) -> Block:
    names = tuple(columns)
    whole = [column.kind != "number" for column in columns.values()]
    if any(abs(bound) > _LARGEST for column in columns.values() for bound in column.bounds):
        text = next(rule.text for rules in (relations, moments) for rule in rules)
        raise SchemaError(f"Constraint {text!r}: the bounds of its columns must be within {_LARGEST:g}: narrow them.")
    step = _step(columns, relations, whole)
    steps = [Fraction(1) if w else step for w in whole]
    spans = [tuple(map(Fraction, column.bounds)) for column in columns.values()]
    lower = [math.ceil(low / s) for (low, _), s in zip(spans, steps, strict=True)]
    upper = [math.floor(high / s) for (_, high), s in zip(spans, steps, strict=True)]
    _refuse_coarse(names, whole, [high - low for low, high in zip(lower, upper, strict=True)], [*relations, *moments])
    lines = [_line(relation, names, steps, whole) for relation in relations]
    block = Block(
        names,
        np.array([float(s) for s in steps]),
        np.array(lower, dtype=np.int64),
        np.array(upper, dtype=np.int64),
        tuple(relations),
        np.array([factors for factors, _ in lines], dtype=np.int64).reshape(len(lines), len(names)),
        np.array([bound for _, bound in lines], dtype=np.int64),
        tuple(moments),
    )
    return _with_inside(block, whole) if relations else block


def _step(columns: Mapping[str, Measure], relations: Sequence[Relation], whole: Sequence[bool]) -> Fraction:
    """Return the step of the numbers: the largest side of a relation, or bound of a column, has 2^40 steps."""
    largest = {name: max(abs(Fraction(b)) for b in column.bounds) for name, column in columns.items()}
    sides = [sum(abs(c) * largest[name] for name, c in r.coefficients) + abs(r.bound) for r in relations]
    power = max(_exponent(max([*sides, *largest.values()])) - _STEPS, _LEAST_POWER)
    step = Fraction(2) ** (min(power, 0) if any(whole) else power)
    for relation, side in zip(relations, sides, strict=True):
        if side / step > _MOST:
            raise SchemaError(f"Constraint {relation.text!r}: its columns have bounds too far apart: narrow them.")
    return step


def _refuse_coarse(
    names: tuple[str, ...], whole: Sequence[bool], spans: Sequence[int], rules: Sequence[Relation | PublicMoment]
) -> None:
    """Refuse a number that has too few steps beside much larger columns."""
    for name, counted, span in zip(names, whole, spans, strict=True):
        if not counted and span < _FEWEST_STEPS:
            raise SchemaError(
                f"Constraint {rules[0].text!r}: the range of {name!r} is too small beside its bounds, or beside the other "
                "columns, for values that satisfy it exactly. Bring them closer together, or leave it out."
            )


def _exponent(value: Fraction) -> int:
    """Return the least k with value <= 2^k."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    while Fraction(2) ** k < value:
        k += 1
    return k


def _line(
    relation: Relation, names: tuple[str, ...], steps: Sequence[Fraction], whole: Sequence[bool]
) -> tuple[list[int], int]:
    """Write a relation in steps: whole factors, and a bound rounded to what whole numbers can reach."""
    given = dict(relation.coefficients)
    used = [i for i, name in enumerate(names) if name in given]
    unit = min(steps[i] for i in used)
    factors = [int(given.get(name, 0) * steps[i] / unit) for i, name in enumerate(names)]
    bound = relation.bound / unit
    if not relation.equal:
        return factors, math.floor(bound)
    common = math.gcd(*(factors[i] for i in used))
    if all(whole[i] for i in used) and bound % common:
        raise SchemaError(
            f"Constraint {relation.text!r} can never hold for whole numbers: its two sides cannot be equal. "
            "Use type number, or other coefficients."
        )
    return factors, round(bound / common) * common


def _with_inside(block: Block, whole: Sequence[bool]) -> Block:
    """Find a point of the block, or say which constraint cannot hold."""
    spans = list(zip((block.lower * block.steps).tolist(), (block.upper * block.steps).tolist(), strict=True))
    lines = [
        ([dict(r.coefficients).get(name, 0) for name in block.names], r.equal, float(r.bound)) for r in block.relations
    ]
    found = point_inside(spans, whole, lines)
    if found is None:
        count = next(k for k in range(1, len(lines) + 1) if point_inside(spans, whole, lines[:k]) is None)
        others = (
            " and with the constraints before it" if point_inside(spans, whole, [lines[count - 1]]) is not None else ""
        )
        raise SchemaError(
            f"Constraint {block.relations[count - 1].text!r} cannot hold within the bounds of its columns{others}. "
            "Widen the bounds, or correct the constraint."
        )
    points = block.points((True,) * len(block.relations))
    inside = points.nearest((found / block.steps)[None, :])
    if points.excess(inside)[0] > 0.0:
        raise SchemaError(
            f"Constraint {block.relations[-1].text!r}: no whole numbers were found that satisfy it together with the "
            "others. Use type number, or wider bounds."
        )
    return replace(block, inside=inside[0])


def _identity(width: int) -> list[list[int]]:
    return [[int(i == j) for i in range(width)] for j in range(width)]


def _no_whole(block: Block, equal: NDArray[np.intp]) -> str:
    texts = " and ".join(repr(block.relations[i].text) for i in equal)
    return (
        f"Constraint {texts}: no values within the bounds were found. Use type number instead of integer, fewer "
        "digits, or wider bounds."
    )
