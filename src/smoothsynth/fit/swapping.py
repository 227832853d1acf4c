"""Rows that swap values of one column until all that was released of several columns agrees, as far as it can.

Two rows swap their values of one column: columns stay what they are, value by value. With M_t the mean table t of the rows,
T_t the released one and s_t the deviation of its noise, C the correlations of the rows, C* those that are wanted and s_c the
deviations of their noise,

    minimise  sum over t of |M_t - T_t|^2 / s_t^2  +  sum over pairs of |C - C*|^2 / s_c^2

over which rows hold which values. In each sweep, for each column in random order, rows meet in pairs; then those that are
where tables have too many rows, and found no partner, meet again and again: the few that are still wrong must find each
other. What a swap gains is read off the residual tables, less what it adds in squares by itself. Of the swaps that gain, the
better ones are tried, and that share of them is carried out which minimises the sum along this direction; how many are
tried follows from the last share (a trust region). Gains are read at positions rounded to a fraction of a cell, so one
look-up does for 2^k; the tables themselves are computed from the exact positions again and again, so that no error stays.

A swap after which rows break more rules of the schema is not made, and one after which they break fewer is: cells that
rules forbid are structural zeros, known without noise.

It ends when the last sweeps lowered the sum by less than a set share of it, or after a set number of sweeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.queries.tabulation import tabulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]
    Places = NDArray[np.int32]
    Slopes = NDArray[np.float32]


# Rounded positions in a cell.
STEPS = 3
# The share of the swaps that gain which is tried: at first and at most, and at least.
MOST_TRIED, LEAST_TRIED = 0.7, 0.02
# In each step rows meet again and again, each time this part of those without a partner: the ones that cost most.
AGAIN = 0.4
# It ends when so many sweeps lowered the sum by less than this share; as often tables are computed from exact positions.
LOOK_BACK, LITTLE = 5, 0.01
_NONE: Wholes = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The cells of a column as some tables have them: the first cell of each row, and what it adds to the next one.

    The first `hats` cells are soft; what is beyond is in units of 2^-bits.
    """

    column: int
    cells: int
    hats: int
    first: Wholes
    beyond: Wholes
    bits: int

    @property
    def fine(self) -> int:
        """How many rounded positions there are."""
        return self.cells if self.hats < 2 else (self.hats - 1) * STEPS + 1 + self.cells - self.hats

    def rounded(self) -> Places:
        """Return the rounded position of each row."""
        if self.hats < 2:
            return self.first.astype(np.int32)
        soft = np.rint((self.first + self.beyond / (1 << self.bits)) * STEPS)
        apart = self.first + ((self.hats - 1) * STEPS + 1 - self.hats)
        return np.where(self.first < self.hats, soft, apart).astype(np.int32)

    def weights(self) -> Slopes | None:
        """Return the weights of cells at rounded positions, (positions, cells); None if each position is a cell."""
        if self.hats < 2:
            return None
        found, count = np.zeros((self.fine, self.cells), dtype=np.float32), (self.hats - 1) * STEPS + 1
        along = np.arange(count) / STEPS
        first = np.minimum(along.astype(np.int64), self.hats - 2)
        found[np.arange(count), first] = 1.0 - (along - first)
        found[np.arange(count), first + 1] = along - first
        found[np.arange(count, self.fine), np.arange(self.hats, self.cells)] = 1.0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A released table: its axes, by number, its shares, and the deviation of the noise in each."""

    axes: tuple[int, ...]
    shares: Array
    deviation: float


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Standardised coordinates of the rows, (coordinates, rows), the correlations that they shall have, and their noise.

    `groups` are the coordinates of each column.
    """

    values: Array
    wanted: Array
    deviations: Array
    groups: tuple[tuple[int, ...], ...]


class Guard(Protocol):
    """What rows must keep while they swap."""

    def change(
        self, column: int, origins: NDArray[np.integer], one: NDArray[np.intp], other: NDArray[np.intp]
    ) -> Array:
        """Return how much more rows break rules after pairs of them swap their values of a column."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a fit ended: the part of tables in the sum over what noise alone would give, the sweeps, whether it converged."""

    distance: float
    sweeps: int
    converged: bool


@dataclass(slots=True, eq=False)
class _Table:
    """A table while rows swap: its axes, what is released, the present means and what they lack, at rounded positions."""

    target: Target
    axes: tuple[Axis, ...]
    means: Array = field(init=False)
    index: Places = field(init=False)
    places: dict[int, int] = field(init=False)
    strides: tuple[int, ...] = field(init=False)
    maps: tuple[Slopes | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        shape = [axis.fine for axis in self.axes]
        self.strides = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
        self.places = {axis.column: k for k, axis in enumerate(self.axes)}
        self.maps = tuple(axis.weights() for axis in self.axes)

    def place(self, rounded: Sequence[Places]) -> None:
        """Look up where each row is in the table."""
        shape = tuple(axis.fine for axis in self.axes)
        self.index = np.ravel_multi_index([rounded[number] for number in self.target.axes], shape).astype(np.int32)

    def number(self, column: int) -> int:
        return self.target.axes[self.places[column]]

    def stride(self, column: int) -> np.int32:
        return np.int32(self.strides[self.places[column]])

    @property
    def size(self) -> int:
        return math.prod(axis.fine for axis in self.axes)

    @property
    def weight(self) -> float:
        return self.target.deviation**-2.0

    @property
    def alone(self) -> float:
        """About what one swap alone adds to the sum, times the squared number of rows."""
        return self.weight * 4.0 * (2.0 / 3.0) ** sum(axis.hats > 1 for axis in self.axes)

    @property
    def lacking(self) -> Array:
        return (self.means - self.target.shares) * self.weight

    def gradient(self) -> Slopes:
        """Return what lacks at every rounded position."""
        return _along(self.lacking.astype(np.float32), self.maps, 1).ravel()

    def gathered(self, counts: NDArray[np.generic]) -> Slopes:
        """Return a table of the cells from one of rounded positions."""
        shape = [axis.fine for axis in self.axes]
        return _along(counts.reshape(shape).astype(np.float32), self.maps, 0)


class Swapping:
    """Rows whose values are swapped: where each value of each column came from is `origins`, (columns, rows)."""

    def __init__(
        self,
        axes: Sequence[Axis],
        targets: Sequence[Target],
        *,
        columns: int,
        movable: Sequence[int],
        correlations: Correlations | None,
        generator: np.random.Generator,  # noqa: TID251
        guard: Guard | None = None,
    ) -> None:
        self._axes, self._random, self._guard = tuple(axes), generator, guard
        self.count = len(axes[0].first)
        self._rounded = [axis.rounded() for axis in axes]
        self.origins: Places = np.tile(np.arange(self.count, dtype=np.int32), (columns, 1))
        self._tables = [_Table(target, tuple(self._axes[a] for a in target.axes)) for target in targets]
        for table in self._tables:
            table.place(self._rounded)
        self._of = {column: [table for table in self._tables if column in table.places] for column in movable}
        self._of = {column: tables for column, tables in self._of.items() if tables}
        self._tried = dict.fromkeys(self._of, MOST_TRIED)
        self._correlations = correlations
        if correlations is not None:
            self._values = np.ascontiguousarray(correlations.values, dtype=np.float32)
        self._tabulate()

    def fit(self, sweeps: int, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Swap until it converged, or for so many sweeps."""
        cells = sum(table.means.size for table in self._tables)
        past = [self._sum()]
        for sweep in range(sweeps):
            for column in self._random.permutation(sorted(self._of)):
                self._meet(int(column))
            if sweep % LOOK_BACK == LOOK_BACK - 1:
                self._tabulate()
            past.append(self._sum())
            if progress is not None:
                progress(sweep + 1, sweeps)
            if len(past) > LOOK_BACK and past[-1 - LOOK_BACK] - past[-1] <= LITTLE * past[-1]:
                return Outcome(self._of_tables() / cells, sweep + 1, converged=True)
        return Outcome(self._of_tables() / cells, sweeps, converged=False)

    def _of_tables(self) -> float:
        return sum(table.weight * float(np.sum((table.means - table.target.shares) ** 2)) for table in self._tables)

    def _sum(self) -> float:
        total = self._of_tables()
        if self._correlations is not None:
            off = (self._found - self._correlations.wanted) / self._correlations.deviations
            total += float(np.sum(np.triu(off, 1) ** 2))
        return total

    def _tabulate(self) -> None:
        """Compute the tables of all rows from exact positions."""
        split: dict[int, tuple[Wholes, Wholes]] = {}
        for table in self._tables:
            for number in table.target.axes:
                if number not in split:
                    axis = self._axes[number]
                    taken = self.origins[axis.column]
                    split[number] = axis.first[taken], axis.beyond[taken]
            sizes, bits = [axis.cells for axis in table.axes], table.axes[0].bits
            found = tabulate([split[number] for number in table.target.axes], sizes, bits)
            table.means = found / float(self.count << (bits * len(table.axes)))
        if self._correlations is not None:
            self._found = np.asarray(self._values @ self._values.T, dtype=np.float64) / self.count

    def _meet(self, column: int) -> None:
        """Let rows meet in pairs, and some of them swap their values of one column."""
        meeting = _Meeting.of(self, column)
        one, other, mending = self._proposed(meeting)
        along, across = meeting.along(one, other)
        # Each swap adds to the squares by itself, whatever the others do: share * alone + share^2 * (across - alone).
        alone = len(one) * meeting.alone * 2.0 / self.count
        share = min(1.0, max(0.0, (along - alone / 2.0) / max(across - alone, 1e-300)))
        self._tried[column] = min(MOST_TRIED, max(LEAST_TRIED, self._tried[column] * _pace(share)))
        chosen = self._random.random(len(one)) < share
        one, other = (np.concatenate([pair[chosen], mend]) for pair, mend in zip((one, other), mending, strict=True))
        if len(one):
            meeting.swap(one, other)

    def _proposed(self, meeting: _Meeting) -> tuple[Wholes, Wholes, tuple[Wholes, Wholes]]:
        """Return pairs of rows whose swap gains most of those that meet, and those that must swap to mend rules.

        All rows meet another; then, again and again, those that cost most of what is left without a partner.
        """
        found: list[tuple[Wholes, Wholes, Array]] = []
        mending = [(_NONE, _NONE)]
        one, other = self._pairs()
        while True:
            gain, broken = meeting.gain(one, other), self._broken(meeting.column, one, other)
            good = (gain < 0.0) & (broken == 0)
            mends = broken < 0
            found.append((one[good], other[good], gain[good]))
            mending.append((one[mends], other[mends]))
            left = ~(good | mends)
            free = np.concatenate([one[left], other[left]])
            many = int(len(free) * AGAIN)
            if many < 2:
                break
            worst = np.argpartition(-meeting.cost[free], many)[:many]
            free = self._random.permutation(free[worst])
            one, other = free[: many // 2], free[many // 2 : many // 2 * 2]
        one, other, gain = (np.concatenate(part) for part in zip(*found, strict=True))
        if len(gain):
            best = gain <= np.quantile(gain, self._tried[meeting.column])
            one, other = one[best], other[best]
        mend_one, mend_other = (np.concatenate(part) for part in zip(*mending, strict=True))
        return one, other, (mend_one, mend_other)

    def _pairs(self) -> tuple[Wholes, Wholes]:
        """Return all rows in pairs, those whose numbers have one sum modulo that of the rows: memory is read in order."""
        middle, odd = int(self._random.integers(self.count)), int(self._random.integers(2))
        apart = np.arange(1 - odd, self.count // 2)
        return (middle + apart) % self.count, (middle - apart - odd) % self.count

    def _broken(self, column: int, one: Wholes, other: Wholes) -> Array:
        return np.zeros(len(one)) if self._guard is None else self._guard.change(column, self.origins, one, other)


@dataclass(slots=True, eq=False)
class _Meeting:
    """What rows gain if they swap their values of one column: slopes of all tables with it, and what rows cost now."""

    rows: Swapping
    column: int
    tables: list[_Table]
    slopes: list[Slopes]
    cost: Slopes
    pairs: _Pairs | None

    @classmethod
    def of(cls, rows: Swapping, column: int) -> _Meeting:
        tables = rows._of[column]
        slopes = [table.gradient() for table in tables]
        cost = np.zeros(rows.count, dtype=np.float32)
        for table, slope in zip(tables, slopes, strict=True):
            cost += slope.take(table.index)
        return cls(rows, column, tables, slopes, cost, _Pairs.of(rows, column))

    @property
    def alone(self) -> float:
        """Half of about what one swap by itself adds to the squares of tables, times the number of rows."""
        return sum(table.alone for table in self.tables) / (2.0 * self.rows.count)

    def gain(self, one: Wholes, other: Wholes) -> Slopes:
        """Return by how much swaps raise the sum, each by itself."""
        gain = np.float32(self.alone) - self.cost[one] - self.cost[other]
        for table, slope, step in zip(self.tables, self.slopes, self._steps(one, other), strict=True):
            gain += slope.take(table.index[one] + step)
            gain += slope.take(table.index[other] - step)
        return gain if self.pairs is None else gain + self.pairs.gain(one, other)

    def _steps(self, one: Wholes, other: Wholes) -> Iterator[Places]:
        """Yield how far each table's places of the first rows move."""
        known: dict[int, Places] = {}
        for table in self.tables:
            number = table.number(self.column)
            if number not in known:
                at = self.rows._rounded[number]
                known[number] = at[other] - at[one]
            yield known[number] * table.stride(self.column)

    def moved(self, one: Wholes, other: Wholes) -> Iterator[tuple[_Table, Slopes]]:
        """Yield by how much each table moves if these pairs swap."""
        sign = np.repeat([1.0 / self.rows.count, -1.0 / self.rows.count], 2 * len(one))
        for table, step in zip(self.tables, self._steps(one, other), strict=True):
            here, there = table.index[one], table.index[other]
            places = np.concatenate([here + step, there - step, here, there])
            yield table, table.gathered(np.bincount(places, weights=sign, minlength=table.size))

    def along(self, one: Wholes, other: Wholes) -> tuple[float, float]:
        """Return how much the sum falls to first order if all these pairs swap, and the squares that they add."""
        along, across = (0.0, 0.0) if self.pairs is None else self.pairs.along(one, other)
        for table, moved in self.moved(one, other):
            along -= float(np.sum(table.lacking * moved))
            across += table.weight * float(np.sum(moved**2))
        return along, across

    def swap(self, one: Wholes, other: Wholes) -> None:
        """Let these pairs swap."""
        rows = self.rows
        for table, moved in self.moved(one, other):
            table.means = table.means + moved
        if self.pairs is not None:
            rows._found[self.pairs.group] += self.pairs.moved(one, other)
            rows._found[:, self.pairs.group] = rows._found[self.pairs.group].T
        for table, step in zip(self.tables, self._steps(one, other), strict=True):
            table.index[one] += step
            table.index[other] -= step
        for number, axis in enumerate(rows._axes):
            if axis.column == self.column:
                _exchange(rows._rounded[number], one, other)
        _exchange(rows.origins[self.column], one, other)
        for coordinate in () if self.pairs is None else self.pairs.group:
            _exchange(rows._values[coordinate], one, other)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The same for correlations: the values of all coordinates, those of the column's own, and what these lack."""

    values: Slopes
    group: list[int]
    own: Slopes
    felt: Slopes
    lacking: Slopes
    weight: Array

    @classmethod
    def of(cls, rows: Swapping, column: int) -> _Pairs | None:
        known = rows._correlations
        if known is None:
            return None
        group = list(known.groups[column])
        weight = known.deviations[group] ** -2.0
        weight[:, group] = 0.0
        lacking = ((rows._found[group] - known.wanted[group]) * weight).astype(np.float32)
        return cls(rows._values, group, rows._values[group], lacking @ rows._values, lacking, weight)

    def gain(self, one: Wholes, other: Wholes) -> Slopes:
        apart = self.own[:, one] - self.own[:, other]
        # Two rows differ by about 2 in the square of a standardised value.
        alone = (self.weight.sum(axis=1) / self.values.shape[1]).astype(np.float32)
        return alone @ apart**2 - np.sum(apart * (self.felt[:, one] - self.felt[:, other]), axis=0)

    def moved(self, one: Wholes, other: Wholes) -> Array:
        """Return by how much the correlations of the column move if these pairs swap."""
        apart = self.values[:, one] - self.values[:, other]
        moved = np.asarray(-apart[self.group] @ apart.T, dtype=np.float64) / self.values.shape[1]
        moved[:, self.group] = 0.0
        return moved

    def along(self, one: Wholes, other: Wholes) -> tuple[float, float]:
        moved = self.moved(one, other)
        return -float(np.sum(self.lacking * moved)), float(np.sum(self.weight * moved**2))


def _pace(share: float) -> float:
    """Say whether to try more swaps or fewer the next time: a trust region."""
    return 1.4 if share == 1.0 else 0.7 if share < 0.5 else 1.0


def _exchange(values: NDArray[np.generic], one: Wholes, other: Wholes) -> None:
    values[one], values[other] = values[other], values[one]


def _along(values: Slopes, maps: Sequence[Slopes | None], axis: int) -> Slopes:
    """Multiply every axis of a table by its map, along axis 0 (from positions to cells) or 1 (back)."""
    for number, one in enumerate(maps):
        if one is not None:
            shape = values.shape
            before = values.reshape(math.prod(shape[:number]), shape[number], -1)
            values = np.matmul(one if axis else one.T, before).reshape(*shape[:number], -1, *shape[number + 1 :])
    return values
