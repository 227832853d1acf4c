"""Rows that keep every constraint and public total to the last bit.

Sums and means that are known: rows are moved by whole steps, within all relations, until they have them exactly.

Rows that keep every constraint to the last bit: whole numbers of steps, then public moments by small moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.constraints import Polytope, tied_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.constraints import Indices, Tied, Wholes
    from smoothsynth.schema import Schema
    from smoothsynth.schema.constraints import PublicMoment
    from smoothsynth.schema.integer_points import WholePoints

    Array = NDArray[np.float64]


_TURNS, _PASSES, _STRETCHES, _PAIRS = 4, 12, 60, 200
# No two whole numbers of a column are farther apart.
_FAR = 2.0**54
# A second moment is matched within this share of the squared range.
_CLOSE = 1e-9


def with_moments(tied: Tied, rows: Array, whole: Wholes, *, private_rows: int) -> Wholes:
    """Return whole rows of a block with its public moments: sums to a step, sums of squares as near as steps allow.

    A total of T over n private rows is one of T m / n over m synthetic ones.
    """
    mover, places = _Mover(tied, rows, whole.copy()), {name: i for i, name in enumerate(tied.block.names)}
    known = [(places[m.column], m.power, mover.target(m, places[m.column], private_rows)) for m in tied.block.moments]
    sums = [(column, target) for column, power, target in known if power == 1]
    for turn in range(_TURNS):
        for number, (column, target) in enumerate(sums):
            # First those before it stay, later all others: an inequality may have held a column until another moved.
            others = sums[:number] if not turn else sums
            mover.shift(column, target - mover.total(column), tuple(c for c, _ in others if c != column))
    for column, power, target in known:
        if power == 2:
            mover.stretch(column, target, tuple(c for c, _ in sums if c != column))
    return mover.whole


@dataclass(slots=True, eq=False)
class _Mover:
    """Whole rows of a block that are being moved."""

    tied: Tied
    rows: Array
    whole: Wholes

    def target(self, moment: PublicMoment, column: int, private_rows: int) -> int:
        """Return the sum that the column, or its square, shall have, in steps."""
        there = int(self.there(column).sum())
        share = Fraction(len(self.rows), private_rows) if moment.total else Fraction(there)
        return round(moment.value * share / Fraction(float(self.tied.block.steps[column])) ** moment.power)

    def there(self, column: int) -> NDArray[np.bool_]:
        return self.tied.there(self.rows)[:, column]

    def total(self, column: int) -> int:
        # A sum of 2^40 steps over many rows can pass 2^63.
        return sum(self.whole[self.there(column), column].tolist())

    def ways(self, column: int, held: tuple[int, ...]) -> list[tuple[WholePoints, Indices, Wholes]]:
        """Return directions that change a column and keep all equalities, with the rows that can go there."""
        found = []
        there = self.there(column)
        for active, which in self.tied.patterns(self.rows):
            points = self.tied.block.points(active, held)
            chosen = which[there[which]]
            lines = [direction * np.sign(direction[column]) for direction in points.basis if direction[column]]
            if len(chosen):
                found += [(points, chosen, line) for line in sorted(lines, key=lambda v: abs(int(v[column])))]
        return found

    def shift(self, column: int, change: int, held: tuple[int, ...]) -> None:
        """Change the sum of a column by moving all rows that have room by about the same."""
        ways = self.ways(column, held) if change else []
        for _ in range(_PASSES):
            for left, (points, which, direction) in zip(range(len(ways), 0, -1), ways, strict=True):
                if not change:
                    return
                change -= self._move(points, which, direction, column, _nearest_quotient(change, left))

    def _move(self, points: WholePoints, which: Indices, direction: Wholes, column: int, change: int) -> int:
        """Go along one direction so that the sum changes by `change` at most; return by how much it did."""
        pace = int(direction[column])
        steps = abs(change) // pace
        if not steps:
            return 0
        sign = 1 if change > 0 else -1
        room = points.room(self.whole[which], sign * direction)
        limit = -(-steps // len(which))
        while (caps := np.minimum(room, limit)).sum(dtype=np.float64) < steps and limit < room.max():
            limit *= 2
        taken = _spread(caps, steps)
        self.whole[which] += sign * taken[:, None] * direction
        return sign * pace * int(taken.sum())

    def stretch(self, column: int, target: int, held: tuple[int, ...]) -> None:
        """Change the sum of squares by pulling values away from their mean, or towards it; the mean stays."""
        ways = self.ways(column, held)
        total = self.total(column)
        close = _CLOSE * float(self.tied.block.upper[column] - self.tied.block.lower[column]) ** 2 * len(self.rows)
        for _ in range(_STRETCHES if ways else 0):
            missing = target - self._squares(column)
            if abs(missing) <= close:
                break
            self._pull(ways, column, missing)
            self.shift(column, total - self.total(column), held)
        # One row up and another down leaves every sum as it is, whatever else the direction changes.
        for points, which, direction in self.ways(column, ()) if self.tied.columns[column].kind != "number" else ():
            if int(direction[column]) == 1:
                self._pairs(points, which, direction, column, target)

    def _squares(self, column: int) -> int:
        return sum(z * z for z in self.whole[self.there(column), column].tolist())

    def _pull(self, ways: list[tuple[WholePoints, Indices, Wholes]], column: int, missing: int) -> None:
        """Stretch the distances of all values from their mean: (1 + f)^2 times the squares, to first order in f."""
        apart = self.whole[:, column].astype(np.float64)
        there = self.there(column)
        apart -= apart[there].mean()
        factor = float(np.clip(missing / max(2.0 * float(apart[there] @ apart[there]), 1.0), -0.3, 0.3))
        for points, which, direction in ways:
            alike = sum(other is which for _, other, _ in ways)
            # Errors are carried on, so that whole numbers move on average by fractions.
            steps = np.rint(np.cumsum(factor / alike * apart[which] / int(direction[column])))
            up, down = points.room(self.whole[which], direction), points.room(self.whole[which], -direction)
            wanted = np.clip(np.diff(steps, prepend=0.0).astype(np.int64), -down, up)
            self.whole[which] += wanted[:, None] * direction

    def _pairs(self, points: WholePoints, which: Indices, direction: Wholes, column: int, target: int) -> None:
        """Move one value up by a step and another down: x up and y down change squares by 2 (x - y + 1)."""
        for _ in range(_PAIRS):
            missing = target - self._squares(column)
            up = which[points.room(self.whole[which], direction) > 0]
            down = which[points.room(self.whole[which], -direction) > 0]
            pair = _best_pair(self.whole[:, column], up, down, int(np.clip(missing // 2 - 1, -_FAR, _FAR)))
            if abs(missing) < 2 or pair is None:
                return
            rise, fall = pair
            gain = 2 * (int(self.whole[rise, column]) - int(self.whole[fall, column]) + 1)
            if abs(missing - gain) >= abs(missing):
                return
            self.whole[rise] += direction
            self.whole[fall] -= direction


def _best_pair(values: Wholes, up: Indices, down: Indices, difference: int) -> tuple[int, int] | None:
    """Return two rows, one of `up` and another of `down`, whose values differ by nearly as much as wanted."""
    if not len(up) or not len(down):
        return None
    up = up[np.argsort(values[up], kind="stable")]
    after = np.clip(np.searchsorted(values[up], values[down] + difference), 0, len(up) - 1)
    before = np.maximum(after - 1, 0)
    best: tuple[int, int, int] | None = None
    for place in (after, before):
        apart = np.where(
            up[place] == down, np.iinfo(np.int64).max, np.abs(values[up[place]] - values[down] - difference)
        )
        k = int(np.argmin(apart))
        if up[place[k]] != down[k] and (best is None or int(apart[k]) < best[0]):
            best = int(apart[k]), int(up[place[k]]), int(down[k])
    return None if best is None else best[1:]


def _spread(caps: Wholes, steps: int) -> Wholes:
    """Share out so many steps in proportion to the caps, in whole numbers: rungs of a ladder over their running sum."""
    reached = np.cumsum(caps, dtype=np.float64)
    if not len(reached) or reached[-1] <= steps:
        return caps
    rungs = np.floor(reached * steps / reached[-1])
    # Rounding must not lose the last step.
    rungs[-1] = steps
    taken = np.diff(rungs, prepend=0.0).astype(np.int64)
    return np.asarray(np.clip(taken, 0, caps))


def _nearest_quotient(change: int, parts: int) -> int:
    """Return change / parts, rounded away from zero."""
    return -(-change // parts) if change > 0 else change // parts


def exact_rows(schema: Schema, points: Array, *, private_rows: int | None = None) -> Array:
    """Return points of the cube whose rows, in own units, keep every relation; with `private_rows`, public moments too."""
    if schema.rules is None:
        return points
    points = points.copy()
    for tied in tied_columns(schema):
        own = tied.own_units(points)
        wanted = tied.moved(points, own, Polytope.nearest) / tied.block.steps
        whole = np.zeros(wanted.shape, dtype=np.int64)
        for active, which in tied.patterns(points):
            whole[which] = tied.block.points(active).nearest(wanted[which])
        if private_rows is not None and tied.block.moments:
            whole = with_moments(tied, points, whole, private_rows=private_rows)
        tied.write(points, own, whole * tied.block.steps)
    return points
