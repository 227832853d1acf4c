"""Exact integer points of the constraint polytope.

Whole points of a polytope near given ones: rounding along a basis, then single steps, then towards a point inside.

Whole solutions of linear equations: all of them, as one solution and a basis of the steps between them.

Whether constraints can hold within the bounds: a small mixed-integer program, and a point far inside.

Columns that constraints tie together, on one lattice: published values are whole multiples of a power of two.

So relations hold exactly in whole numbers, and in doubles too, in whatever order a reader adds them up.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from smoothsynth.schema.constraints import PublicMoment, Relation
    from smoothsynth.schema.encoding import Measure

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]


_MOST_STEPS = 40
# With more directions than this, steps along two of them at once are not tried.
_MOST_PAIRED = 6
# How far a point that cannot be repaired where it is stays from the point inside.
_SHRINK = (1.0, 1.0 - 1e-9, 1.0 - 1e-6, 0.999, 0.99, 0.9, 0.75, 0.5, 0.25, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class WholePoints:
    """Whole z with  lower <= z <= upper,  C z <= b  and  z = start + y N  for a whole y.

    below: C, (relations, columns); basis: N, (directions, columns). `inside` is one of them.
    """

    lower: Wholes
    upper: Wholes
    below: Wholes
    bounds: Wholes
    start: Wholes
    basis: Wholes
    inside: Wholes | None = None

    def nearest(self, wanted: Array) -> Wholes:
        """Return such a point near each wanted one, (rows, columns); exactly, for every row, if `inside` is known."""
        found = self._rounded(wanted)
        bad = np.flatnonzero(self.excess(found) > 0.0)
        for share in _SHRINK if self.inside is not None else _SHRINK[:1]:
            if not len(bad):
                break
            centre = 0.0 if self.inside is None else self.inside.astype(np.float64)
            found[bad] = self._stepped(self._rounded(centre + share * (wanted[bad] - centre)))
            bad = bad[self.excess(found[bad]) > 0.0]
        return found

    def excess(self, points: Wholes) -> Array:
        """Return by how much points break relations and bounds, summed; 0 for those that break none."""
        beyond = np.maximum(points - self.upper, 0).sum(axis=1) + np.maximum(self.lower - points, 0).sum(axis=1)
        if len(self.below):
            beyond = beyond + np.maximum(points @ self.below.T - self.bounds, 0).sum(axis=1)
        return np.asarray(beyond, dtype=np.float64)

    def room(self, points: Wholes, direction: Wholes) -> Wholes:
        """Return how many whole steps each point can go in a direction without breaking anything."""
        most = np.full(len(points), np.iinfo(np.int64).max // 4)
        for column in np.flatnonzero(direction):
            ahead = self.upper[column] if direction[column] > 0 else self.lower[column]
            most = np.minimum(most, np.abs(ahead - points[:, column]) // abs(int(direction[column])))
        if len(self.below):
            pace = self.below @ direction
            spare = self.bounds - points @ self.below.T
            for row in np.flatnonzero(pace > 0):
                most = np.minimum(most, spare[:, row] // pace[row])
        return np.asarray(np.maximum(most, 0))

    def _rounded(self, wanted: Array) -> Wholes:
        """Round along the basis, the longest direction first, so that finer ones take up what is left (Babai 1986)."""
        if not len(self.basis):
            return np.tile(self.start, (len(wanted), 1))
        weight = 1.0 / np.maximum(self.upper - self.lower, 1)
        order = np.argsort(np.linalg.norm(self.basis * weight, axis=1), kind="stable")
        basis = self.basis[order]
        orthogonal, triangle = np.linalg.qr((basis * weight).T)
        rest = (wanted - self.start) * weight
        steps = np.zeros((len(wanted), len(basis)), dtype=np.int64)
        for j in reversed(range(len(basis))):
            times = np.rint(rest @ orthogonal[:, j] / triangle[j, j])
            rest -= times[:, None] * (basis[j] * weight)
            steps[:, j] = times.astype(np.int64)
        return np.asarray(self.start + steps @ basis)

    def _stepped(self, points: Wholes) -> Wholes:
        """Go one step at a time along a direction, or two, as long as less is broken after it."""
        moves, current = self._moves(), self.excess(points)
        bad = np.flatnonzero(current > 0.0) if len(moves) else np.empty(0, dtype=np.intp)
        for left in range(_MOST_STEPS, 0, -1):
            if not len(bad):
                break
            tried = np.stack([self.excess(points[bad] + move) for move in moves])
            best, found = tried.argmin(axis=0), tried.min(axis=0)
            # Rows that steps of this size would not bring inside are left where they are.
            hopeful = (current[bad] - found) * left >= current[bad]
            bad = bad[hopeful]
            points[bad] += moves[best[hopeful]]
            current[bad] = found[hopeful]
            bad = bad[current[bad] > 0.0]
        return points

    def _moves(self) -> Wholes:
        single = [sign * direction for direction in self.basis for sign in (1, -1)]
        if len(self.basis) <= _MOST_PAIRED:
            pairs = itertools.combinations(self.basis, 2)
            single += [a * first + b * second for first, second in pairs for a in (1, -1) for b in (1, -1)]
        return np.array(single, dtype=np.int64).reshape(len(single), len(self.lower))


def short_basis(basis: list[list[int]], weight: list[int]) -> list[list[int]]:
    """Subtract whole multiples of shorter directions from longer ones until none gets shorter (Lagrange, pairwise)."""
    found = [list(direction) for direction in basis]
    changed = True
    while changed:
        changed = False
        for i, j in itertools.permutations(range(len(found)), 2):
            shorter = _less(found[i], found[j], weight)
            if _inner(shorter, shorter, weight) < _inner(found[i], found[i], weight):
                found[i], changed = shorter, True
    return found


def near_solution(start: list[int], basis: list[list[int]], centre: list[int], weight: list[int]) -> list[int]:
    """Return the solution start + y N, for some whole y, that is about as near to the centre as there is one."""
    rest = [s - c for s, c in zip(start, centre, strict=True)]
    changed = bool(basis)
    while changed:
        size = _inner(rest, rest, weight)
        shorter = min((_less(rest, direction, weight) for direction in basis), key=lambda r: _inner(r, r, weight))
        changed = _inner(shorter, shorter, weight) < size
        rest = shorter if changed else rest
    return [r + c for r, c in zip(rest, centre, strict=True)]


def _less(one: list[int], other: list[int], weight: list[int]) -> list[int]:
    square = _inner(other, other, weight)
    times = (2 * _inner(one, other, weight) + square) // (2 * square)
    return [a - times * b for a, b in zip(one, other, strict=True)] if times else one


def _inner(one: list[int], other: list[int], weight: list[int]) -> int:
    return sum(a * b * w * w for a, b, w in zip(one, other, weight, strict=True))


Whole = list[int]


def whole_solutions(matrix: Sequence[Sequence[int]], bounds: Sequence[int]) -> tuple[Whole, list[Whole]] | None:
    """Return x0 and vectors N_j such that A x = b holds for whole x exactly if x = x0 + sum_j y_j N_j, y whole.

    Column operations with determinant +-1 bring A to echelon form, A U = [H 0] (Hermite; Cohen, A Course in
    Computational Algebraic Number Theory, 1993, 2.4); H y = b is solved forwards, and the last columns of U are the
    N_j. None if there is no whole solution.
    """
    equations = len(matrix)
    columns, pivots = _echelon(matrix)
    width = len(columns)
    solution, rest = [0] * width, list(bounds)
    for row in range(equations):
        pivot = pivots.get(row)
        if pivot is None:
            if rest[row]:
                return None
            continue
        times, left = divmod(rest[row], columns[pivot][row])
        if left:
            return None
        rest = [r - times * c for r, c in zip(rest, columns[pivot], strict=False)]
        solution = [s + times * c for s, c in zip(solution, columns[pivot][equations:], strict=True)]
    return solution, [column[equations:] for column in columns[len(pivots) :]]


def _echelon(matrix: Sequence[Sequence[int]]) -> tuple[list[Whole], dict[int, int]]:
    """Return the columns of [A; I] U and, for each row of A that has one, the place of its pivot."""
    width = len(matrix[0]) if matrix else 0
    columns = [[*(row[j] for row in matrix), *(int(i == j) for i in range(width))] for j in range(width)]
    pivots: dict[int, int] = {}
    for row in range(len(matrix)):
        start = len(pivots)
        live = [j for j in range(start, width) if columns[j][row]]
        while len(live) > 1:
            least = min(live, key=lambda j: abs(columns[j][row]))
            for j in live:
                if j != least:
                    times = columns[j][row] // columns[least][row]
                    columns[j] = [c - times * p for c, p in zip(columns[j], columns[least], strict=True)]
            live = [j for j in live if columns[j][row]]
        if live:
            columns[start], columns[live[0]] = columns[live[0]], columns[start]
            pivots[row] = start
    return columns, pivots


# Columns of more whole numbers than this are taken for continuous: rounding will find a whole point near by.
_MOST_WHOLE = 1_000_000
_OPTIONS = {"output_flag": False, "parallel": "off", "random_seed": 0, "time_limit": 20.0}


def point_inside(
    spans: Sequence[tuple[float, float]],
    whole: Sequence[bool],
    relations: Sequence[tuple[Sequence[float], bool, float]],
) -> Array | None:
    """Return a point far inside  lower <= x <= upper,  c.x <= b  (or = b), whole where asked; None if there is none.

        maximise s   subject to   c.x + s |c|.h <= b,   lower + s h <= x <= upper - s h,   0 <= s <= 1

    with h half the span of a column. A column is whole or a number of half spans from its middle.
    """
    import highspy

    solver = highspy.Highs()
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    halves = [(high / 2 - low / 2) for low, high in spans]
    centres = [low / 2 + high / 2 for low, high in spans]
    counted = [bool(w) and 2 * half <= _MOST_WHOLE for w, half in zip(whole, halves, strict=True)]
    # x = base + unit v
    units = [1.0 if c else half for c, half in zip(counted, halves, strict=True)]
    bases = [low if c else middle for c, (low, _), middle in zip(counted, spans, centres, strict=True)]
    for c, half in zip(counted, halves, strict=True):
        solver.addVar(0.0 if c else -1.0, 2 * half if c else 1.0)
    slack = len(spans)
    solver.addVar(0.0, 1.0)
    solver.changeColCost(slack, -1.0)
    for i, c in enumerate(counted):
        if c:
            solver.changeColIntegrality(i, highspy.HighsVarType.kInteger)
        reach = halves[i] / units[i]
        _row(solver, [(i, 1.0), (slack, -reach)], 0.0 if c else -1.0, highspy.kHighsInf)
        _row(solver, [(i, 1.0), (slack, reach)], -highspy.kHighsInf, 2 * halves[i] if c else 1.0)
    for factors, equal, bound in relations:
        norm = sum(abs(f) * h for f, h in zip(factors, halves, strict=True))
        rest = (bound - sum(f * b for f, b in zip(factors, bases, strict=True))) / norm
        terms = [(i, f * units[i] / norm) for i, f in enumerate(factors) if f]
        _row(solver, terms if equal else [*terms, (slack, 1.0)], rest if equal else -highspy.kHighsInf, rest)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    found = np.array(solver.getSolution().col_value[: len(spans)])
    return np.asarray(np.array(bases) + np.array(units) * found)


def _row(solver, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    places = np.array([i for i, _ in terms], dtype=np.int32)
    solver.addRow(low, high, len(terms), places, np.array([f for _, f in terms], dtype=np.float64))


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
