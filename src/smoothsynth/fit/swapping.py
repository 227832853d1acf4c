"""Rows that swap values of one column until all that was released of several columns agrees, as far as it can.

Two rows swap their values of one column: columns stay what they are, value by value. With M_t the mean table t of the rows,
T_t the released one and s_t the deviation of its noise, C the correlations of the rows, C* those that are wanted and s_c the
deviations of their noise,

    minimise  sum over t of |M_t - T_t|^2 / s_t^2  +  sum over pairs of |C - C*|^2 / s_c^2

over which rows hold which values. In each sweep, for each column in random order, rows meet in pairs at random. What a swap
gains to first order is read off the residual tables; of the swaps that gain, the better ones are taken, and that share of
them which minimises the sum along this direction. Gains are read at positions rounded to a fraction of a cell, so one
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

from smoothsynth.queries.soft_tables import tabulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Wholes = NDArray[np.int64]
    Places = NDArray[np.int32]


# Rounded positions in a cell; the share of the swaps that gain which is tried.
STEPS, TRIED = 3, 0.7
# It ends when so many sweeps lowered the sum by less than this share of it.
LOOK_BACK, LITTLE = 5, 0.004
# The tables are computed from exact positions once in so many sweeps.
EXACTLY = 4


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The cells of a column as some tables have them: the first cell of each row, and what it adds to the next one.

    The first `hats` cells are soft.
    """

    column: int
    cells: int
    hats: int
    first: Wholes
    beyond: Wholes
    unit: float

    @property
    def fine(self) -> int:
        """How many rounded positions there are."""
        return self.cells if self.hats < 2 else (self.hats - 1) * STEPS + 1 + self.cells - self.hats

    def rounded(self) -> Places:
        """Return the rounded position of each row."""
        if self.hats < 2:
            return self.first.astype(np.int32)
        soft = np.rint((self.first + self.beyond / self.unit) * STEPS)
        apart = self.first + ((self.hats - 1) * STEPS + 1 - self.hats)
        return np.where(self.first < self.hats, soft, apart).astype(np.int32)

    def weights(self) -> Array | None:
        """Return the weights of cells at rounded positions, (positions, cells); None if each position is a cell."""
        if self.hats < 2:
            return None
        found, count = np.zeros((self.fine, self.cells)), (self.hats - 1) * STEPS + 1
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
    means: Array
    places: dict[int, int] = field(init=False)
    strides: tuple[int, ...] = field(init=False)
    maps: tuple[Array | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        shape = [axis.fine for axis in self.axes]
        self.strides = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
        self.places = {axis.column: k for k, axis in enumerate(self.axes)}
        self.maps = tuple(axis.weights() for axis in self.axes)

    @property
    def weight(self) -> float:
        return self.target.deviation**-2.0

    @property
    def lacking(self) -> Array:
        return (self.means - self.target.shares) * self.weight

    def gradient(self) -> Array:
        """Return what lacks at every rounded position."""
        return _along(self.lacking, self.maps, 1).ravel()

    def gathered(self, counts: Array) -> Array:
        """Return a table of the cells from one of rounded positions."""
        shape = [axis.fine for axis in self.axes]
        return _along(counts.reshape(shape), self.maps, 0)


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
        self._rounded = np.stack([axis.rounded() for axis in axes])
        self._origins = np.tile(np.arange(self.count, dtype=np.int32), (columns, 1))
        self._order = np.arange(self.count)
        self._tables = [
            _Table(target, tuple(self._axes[a] for a in target.axes), np.zeros_like(target.shares))
            for target in targets
        ]
        self._of = {column: [table for table in self._tables if column in table.places] for column in movable}
        self._of = {column: tables for column, tables in self._of.items() if tables}
        self._correlations = correlations
        if correlations is not None:
            self._values = np.ascontiguousarray(correlations.values, dtype=np.float32)
        self._tabulate()

    @property
    def origins(self) -> Places:
        """From which row each value came, in the order of the rows."""
        back = np.argsort(self._order, kind="stable")
        return self._origins[:, back]

    def fit(self, sweeps: int, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Swap until it converged, or for so many sweeps."""
        cells = sum(table.means.size for table in self._tables)
        past = [self._sum()]
        for sweep in range(sweeps):
            self._sweep()
            if sweep % EXACTLY == EXACTLY - 1:
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
                    taken = self._origins[axis.column]
                    split[number] = axis.first[taken], axis.beyond[taken]
            sizes, unit = [axis.cells for axis in table.axes], table.axes[0].unit
            found = tabulate([split[number] for number in table.target.axes], sizes, unit)
            table.means = found / (self.count * unit ** len(table.axes))
        if self._correlations is not None:
            self._found = np.asarray(self._values @ self._values.T, dtype=np.float64) / self.count

    def _sweep(self) -> None:
        order = self._random.permutation(self.count)
        self._order = self._order[order]
        self._rounded, self._origins = self._rounded[:, order], self._origins[:, order]
        if self._correlations is not None:
            self._values = self._values[:, order]
        for column in self._random.permutation(sorted(self._of)):
            self._meet(int(column))

    def _meet(self, column: int) -> None:
        """Let rows meet in pairs, and some of them swap their values of one column."""
        half, turn = self.count // 2, int(self._random.integers(0, max(self.count // 2, 1)))
        meetings = [_Meeting.of(table, column, self._rounded, half, turn) for table in self._of[column]]
        gain = np.zeros(half)
        for meeting in meetings:
            meeting.add_gain(gain)
        pairs = None if self._correlations is None else _Pairs.of(self, column, half, turn)
        if pairs is not None:
            gain += pairs.gain()
        mending = np.zeros(0, dtype=np.intp)
        if self._guard is not None:
            here = np.arange(half)
            change = self._guard.change(column, self._origins, here, half + (here - turn) % half)
            gain[change != 0] = np.inf
            mending = np.flatnonzero(change < 0)
        better = np.flatnonzero(gain < 0.0)
        if len(better) + len(mending) < 2:
            return
        better = better[gain[better] <= np.quantile(gain[better], TRIED)] if len(better) else better
        along = across = 0.0
        for meeting in meetings:
            moved = meeting.moved(better, self.count)
            along -= float(np.sum(meeting.table.lacking * moved))
            across += meeting.table.weight * float(np.sum(moved**2))
        if pairs is not None:
            one, other = pairs.along(better)
            along, across = along + one, across + other
        share = min(1.0, max(0.0, along / max(across, 1e-300)))
        chosen = np.concatenate([better[self._random.random(len(better)) < share], mending])
        if len(chosen):
            for meeting in meetings:
                meeting.table.means = meeting.table.means + meeting.moved(chosen, self.count)
            if pairs is not None:
                self._found[pairs.group] += pairs.moved(chosen)
                self._found[:, pairs.group] = self._found[pairs.group].T
            self._swap(column, chosen, half + (chosen - turn) % half)

    def _swap(self, column: int, one: Wholes, other: Wholes) -> None:
        for number, axis in enumerate(self._axes):
            if axis.column == column:
                _exchange(self._rounded[number], one, other)
        _exchange(self._origins[column], one, other)
        if self._correlations is not None:
            for coordinate in self._correlations.groups[column]:
                _exchange(self._values[coordinate], one, other)


@dataclass(frozen=True, slots=True, eq=False)
class _Meeting:
    """Pairs of rows in one table: where each is without its value of the column, and that value."""

    table: _Table
    here: tuple[Places, Places]
    there: tuple[Places, Places]

    @classmethod
    def of(cls, table: _Table, column: int, rounded: Places, half: int, turn: int) -> _Meeting:
        own, rest = None, np.zeros(2 * half, dtype=np.int32)
        for number, axis, stride in zip(table.target.axes, table.axes, table.strides, strict=True):
            if axis.column == column:
                own = rounded[number, : 2 * half] * np.int32(stride)
            else:
                rest += rounded[number, : 2 * half] * np.int32(stride)
        if own is None:
            raise AssertionError("a table of another column")
        return cls(table, (rest[:half], own[:half]), (np.roll(rest[half:], turn), np.roll(own[half:], turn)))

    def add_gain(self, gain: Array) -> None:
        slope = self.table.gradient()
        (one, mine), (other, yours) = self.here, self.there
        gain += slope.take(one + yours)
        gain -= slope.take(one + mine)
        gain += slope.take(other + mine)
        gain -= slope.take(other + yours)

    def moved(self, which: Wholes, rows: int) -> Array:
        """Return by how much the table moves if these pairs swap."""
        (one, mine), (other, yours) = self.here, self.there
        one, mine, other, yours = one[which], mine[which], other[which], yours[which]
        size = math.prod(axis.fine for axis in self.table.axes)
        after = np.bincount(np.concatenate([one + yours, other + mine]), minlength=size)
        before = np.bincount(np.concatenate([one + mine, other + yours]), minlength=size)
        return self.table.gathered((after - before) / rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The same for correlations: how far the values of the column differ, those of all others, and what they lack."""

    own: NDArray[np.floating]
    others: NDArray[np.floating]
    lacking: NDArray[np.floating]
    group: list[int]
    weight: Array
    rows: int

    @classmethod
    def of(cls, rows: Swapping, column: int, half: int, turn: int) -> _Pairs:
        known = rows._correlations
        if known is None:
            raise AssertionError("no correlations are held")
        group, values = list(known.groups[column]), rows._values
        apart = values[:, :half] - np.roll(values[:, half : 2 * half], turn, axis=1)
        weight = known.deviations[group] ** -2.0
        weight[:, group] = 0.0
        lacking = (rows._found[group] - known.wanted[group]) * weight
        return cls(-apart[group], apart, lacking.astype(np.float32), group, weight, rows.count)

    def gain(self) -> Array:
        return np.asarray(np.sum(self.own * (self.lacking @ self.others), axis=0), dtype=np.float64)

    def moved(self, which: Wholes) -> Array:
        """Return by how much the correlations of the column move if these pairs swap."""
        moved = np.asarray(self.own[:, which] @ self.others[:, which].T, dtype=np.float64) / self.rows
        moved[:, self.group] = 0.0
        return moved

    def along(self, which: Wholes) -> tuple[float, float]:
        moved = self.moved(which)
        return -float(np.sum(self.lacking * moved)), float(np.sum(self.weight * moved**2))


def _exchange(values: NDArray[np.generic], one: Wholes, other: Wholes) -> None:
    values[one], values[other] = values[other], values[one]


def _along(values: Array, maps: Sequence[Array | None], axis: int) -> Array:
    """Multiply every axis of a table by its map, along axis 0 (from positions to cells) or 1 (back)."""
    for number, one in enumerate(maps):
        if one is not None:
            shape = values.shape
            before = values.reshape(math.prod(shape[:number]), shape[number], -1)
            values = np.matmul(one if axis else one.T, before).reshape(*shape[:number], -1, *shape[number + 1 :])
    return values
