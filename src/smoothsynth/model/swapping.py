"""Swap values between rows until pairwise Fourier moments agree.

What was released of the shapes of pairs of columns, and how much of it is believed.

The functions of a column of numbers are its values, standardised, and its two waves; those of a category
are its levels. Released are means and products of waves and levels; what is compared with rows are their covariances.

Rows that exchange values until pairs of columns have the products of waves that were released.

A copula knows how columns correlate, but not that one is wide where another is high, or that a pair lies on a curve or in
clusters. Such shapes are put into the rows last: two rows exchange their values of one column. Columns stay what they are,
value by value, and what is not asked for moves only by chance. With M the mean products of the columns' functions over the
rows, and T those that are wanted,

    minimise  sum over functions of two columns of (M - T)^2 / 2

over which rows hold which values: in turn for each column, rows meet in pairs at random, and of the pairs whose exchange
lowers the sum to first order some exchange, so many as lower it most. The functions of a column are its values, whose
products (the correlations) shall stay what they are or rise by what rows lack of those that were seen, and its waves, whose
products shall be those that are believed. Levels of a category are exchanged together; they are functions of both kinds.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._runtime import one_thread
from smoothsynth.queries.bases import WAVES, coordinate_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Groups
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its coordinates, the places of its functions among all, and those of its waves among all waves.

    A column of numbers has its values and two waves, a category has its levels, which count as both.
    """

    coordinates: tuple[int, ...]
    functions: slice
    waves: slice
    levels: bool


@dataclass(frozen=True, slots=True, eq=False)
class Shapes:
    """The released means and products of the waves of some columns, and the variances of the noise in their covariances.

    A mean is nan if it was not released; of a pair that was not measured the variance is infinite.
    """

    transformation: Transformation
    columns: tuple[Column, ...]
    means: Array
    products: Array
    variances: Array
    noise: float

    @classmethod
    def of(cls, released: Sequence[NoisyMoments], groups: Groups) -> Shapes:
        """Sort what was released, all through one transformation, by columns."""
        transformation = released[0].measurement.transformation
        if transformation is None or any(noisy.measurement.transformation != transformation for noisy in released):
            raise ValueError("waves are seen through one view")
        sums = [
            ([wave for wave, _ in feature.terms[0]], value, deviation**2)
            for noisy in released
            for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        ]
        holes = {indicator for _, indicator in groups.missing}
        columns = tuple(columns_of({coordinate_of(wave) for used, _, _ in sums for wave in used} - holes, groups))
        place = {wave: number for number, wave in enumerate(wave for column in columns for wave in _waves(column))}
        means, products = np.zeros((2, len(place))), np.full((2, len(place), len(place)), np.inf)
        means[0] = np.nan
        for used, value, variance in sums:
            if not place.keys() >= set(used):
                continue
            if len(used) == 1:
                means[:, place[used[0]]] = value, variance
            else:
                i, j = place[used[0]], place[used[1]]
                products[:, i, j] = products[:, j, i] = value, variance
        squares = np.outer(np.nan_to_num(means[0]) ** 2, means[1])
        noise = float(released[-1].deviations[-1])
        return cls(transformation, columns, means[0], products[0], products[1] + squares + squares.T, noise)

    def functions(self, rows: Array, groups: Groups) -> Array:
        """Return the functions of each column in turn: values, standardised, and waves, or levels; then all else."""
        seen, found = self.transformation.of(rows), []
        for column in self.columns:
            own = seen[:, _waves(column)]
            values = _standardised(rows[:, list(column.coordinates)])
            found.append(own if column.levels else np.concatenate([values, own], axis=1))
        exchanged = {c for column in self.columns for c in column.coordinates}
        others = _standardised(rows[:, [c for c in range(rows.shape[1]) if c not in exchanged]])
        return np.concatenate([*found, others], axis=1)

    @property
    def places(self) -> NDArray[np.intp]:
        """Where the waves are among all functions."""
        starts = [range(c.functions.start + (not c.levels), c.functions.stop) for c in self.columns]
        return np.array([place for own in starts for place in own])

    def gained(self, functions: Array, lacking: Array | None = None) -> Array:
        """Return by how much the mean products of all functions shall change: those of waves, as far as is believed.

        Covariances are compared: columns of the rows may have other means than were released. Where a mean was not released,
        that of the rows stands for it. Products of two columns of which one has numbers change by what is `lacking` in the
        correlation of their coordinates.
        """
        waves = self.places
        means = np.where(np.isnan(self.means), functions[:, waves].mean(axis=0), self.means)
        released = np.where(np.isfinite(self.variances), self.products - np.outer(means, means), 0.0)
        differences = released - np.cov(functions[:, waves].T, bias=True)
        wanted = np.zeros((functions.shape[1],) * 2)
        wanted[np.ix_(waves, waves)] = believed_shapes(differences, self.variances, self.columns)
        if lacking is not None:
            at = {column.functions.start + k: c for column in self.columns for k, c in enumerate(column.coordinates)}
            places, coordinates = list(at), list(at.values())
            spreads = functions[:, places].std(axis=0)
            found = lacking[np.ix_(coordinates, coordinates)] * np.outer(spreads, spreads)
            # Levels are functions of both kinds: of two categories the two-way table was released, uncut.
            tables = np.isin(places, waves)
            pairs = np.ix_(places, places)
            wanted[pairs] = np.where(np.outer(tables, tables), wanted[pairs], found)
        return wanted

    def counting(self, functions: int) -> Array:
        """Return 1 where a product of two functions counts: of values or of waves; of one column none.

        Levels are both. Coordinates that exchange nothing count as values.
        """
        waves, values = np.zeros(functions, dtype=bool), np.ones(functions, dtype=bool)
        waves[self.places] = True
        values[
            [place for c in self.columns if not c.levels for place in range(c.functions.start + 1, c.functions.stop)]
        ] = False
        counts = (np.outer(values, values) | np.outer(waves, waves)).astype(np.float64)
        for column in self.columns:
            counts[column.functions, column.functions] = 0.0
        return counts


def columns_of(coordinates: set[int], groups: Groups) -> Iterator[Column]:
    """Yield the columns that these coordinates belong to: the levels of a category together."""
    levels = {c: group for group in groups.levels for c in group}
    functions = waves = 0
    for first in sorted(coordinates):
        own = tuple(c for c in levels.get(first, (first,)) if c in coordinates)
        if own[0] != first:
            continue
        size = len(own) if first in levels else WAVES
        many = size if first in levels else size + 1
        yield Column(own, slice(functions, functions + many), slice(waves, waves + size), first in levels)
        functions, waves = functions + many, waves + size


def _waves(column: Column) -> list[int]:
    """Return the numbers of the waves of a column, as a transformation sees them; of a level only the first."""
    return [WAVES * c + k for c in column.coordinates for k in range(1 if column.levels else WAVES)]


def believed_shapes(differences: Array, variances: Array, columns: Sequence[Column]) -> Array:
    """Return differences of covariances of waves, as far as those of each pair of columns are more than noise.

    Of those of a pair, E the sum of their squares and N that of the variances of their noise, it is a part  1 - N/E  (James
    and Stein 1961), and  1 - 2 N/E  where a category is one of the two: shares of levels by other columns were measured with
    the products of scores, so that rows have them already.
    """
    found = np.zeros_like(differences)
    for one, other in itertools.permutations(columns, 2):
        pair = (one.waves, other.waves)
        squares, noise = float(np.sum(differences[pair] ** 2)), float(np.sum(variances[pair]))
        doubt = 2.0 if one.levels or other.levels else 1.0
        found[pair] = max(0.0, 1.0 - doubt * noise / max(squares, 1e-300)) * differences[pair]
    return found


def _standardised(values: Array) -> Array:
    return np.asarray((values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-6))


# Times that all columns take their turn: as many as take some seconds, within limits. In the last quarter shapes count
# little, and correlations that were lost on the way come back.
_FEWEST_TURNS, _MOST_TURNS, _WORK, _LITTLE = 16, 60, 1.4e9, 0.1
# Below this part of the noise what is still lacking does not matter.
_ENOUGH = 0.1
# So much of the direction of a column's last turn is kept in the next: values and waves are much alike, and what brings one
# nearer takes the other away.
_KEPT = 0.5
# Pairs of rows exchange with a probability that grows with what they gain, up to this quantile of those that gain.
_MOST = 0.9
# Rows that exchange with each other, for speed, and rows that tell which shapes there are.
_MOST_TOGETHER, _MOST_LOOKED_AT = 25_000, 200_000


def exchange(
    rows: Array,
    released: Sequence[NoisyMoments],
    groups: Groups,
    lacking: Array | None = None,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    """Return the rows after they have exchanged values and levels; missing values stay where they are.

    `lacking` is by how much the correlations of coordinates shall rise; without it they stay what they are.
    """
    shapes = Shapes.of(released, groups)
    if len(shapes.columns) < 2:
        return rows
    # Rows may stand in an order of what they are like: every so many are like all.
    gained = shapes.gained(shapes.functions(rows[:: -(-len(rows) // _MOST_LOOKED_AT)], groups), lacking)
    if not gained.any():
        return rows
    made, parts = rows.copy(), -(-len(rows) // _MOST_TOGETHER)
    work = len(rows) * len(shapes.columns) * (len(gained) / 3 + 10)
    turns = round(min(_MOST_TURNS, max(_FEWEST_TURNS, _WORK / work)))

    def exchanged(part: int, own: np.random.Generator) -> None:  # noqa: TID251
        made[part::parts] = _exchanged(rows[part::parts], shapes, gained, groups, turns=turns, generator=own)

    # Each part has randomness of its own, so that the rows do not depend on how many there are at once.
    with one_thread(), ThreadPoolExecutor(min(parts, os.cpu_count() or 1)) as pool:
        list(pool.map(exchanged, range(parts), generator.spawn(parts)))
    return made


def _exchanged(
    rows: Array,
    shapes: Shapes,
    gained: Array,
    groups: Groups,
    *,
    turns: int,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    hidden, everywhere = dict(groups.missing), np.arange(len(rows))
    holes = [hidden.get(column.coordinates[0]) for column in shapes.columns]
    there = [everywhere if hole is None else np.flatnonzero(rows[:, hole] == 0.0) for hole in holes]
    table = _Table(rows, shapes.functions(rows, groups), shapes, gained)
    # A column of which nothing is lacking stays as it is.
    moving = [number for number, column in enumerate(shapes.columns) if gained[column.functions].any()]
    for turn in range(turns):
        for number in generator.permutation(moving):
            table.turn(int(number), there[number], generator, shapes=1.0 if turn < 0.75 * turns else _LITTLE)
        if table.missing() < _ENOUGH * shapes.noise:
            break
    return table.rows


class _Table:
    """Rows in which values are exchanged, with the mean products of their functions, kept up to date.

    Functions are held in single precision, and those of each column once more by themselves: both for speed.
    """

    def __init__(self, rows: Array, functions: Array, shapes: Shapes, gained: Array) -> None:
        self.rows = rows.copy()
        self._columns = shapes.columns
        # Rows are taken out one by one: those of one row must lie together, which is not how functions were put together.
        self._all = np.ascontiguousarray(functions, dtype=np.float32)
        self._own = [self._all[:, column.functions].copy() for column in shapes.columns]
        self._means = functions.T @ functions / len(functions)
        self._wanted = self._means + gained
        self._counts = shapes.counting(len(gained))
        self._of_waves = np.zeros(len(gained), dtype=bool)
        self._of_waves[shapes.places] = True
        self._directions = [np.zeros((len(gained), own.shape[1])) for own in self._own]

    def missing(self) -> float:
        """Return the root mean square of what products that count still lack."""
        return float(np.sqrt(np.sum(self._counts * (self._means - self._wanted) ** 2) / self._counts.sum()))

    def turn(
        self,
        number: int,
        rows: NDArray[np.intp],
        generator: np.random.Generator,  # noqa: TID251
        *,
        shapes: float,
    ) -> None:
        """Let some of the rows exchange their values of a column, the more of them the more they gain by it.

        Products of waves count by `shapes`, all others by 1.
        """
        functions, own = self._own[number], self._columns[number].functions
        counts = self._counts[:, own] * np.where(np.outer(self._of_waves, self._of_waves[own]), shapes, 1.0)
        slope = counts * (self._means - self._wanted)[:, own]
        direction = slope + _KEPT * self._directions[number]
        if np.sum(direction * slope) <= 0.0:
            direction = slope
        self._directions[number] = direction
        drawn, half = generator.permutation(rows), len(rows) // 2
        first, second = drawn[:half], drawn[half : 2 * half]
        change = functions.take(second, axis=0) - functions.take(first, axis=0)
        gain = self._all @ direction.astype(np.float32)
        gains = np.einsum("ij,ij->i", change, gain.take(second, axis=0) - gain.take(first, axis=0))
        better = gains[gains > 0.0]
        if not len(better):
            return
        most = np.quantile(better, _MOST)
        chosen = np.flatnonzero(gains > most * generator.random(half, dtype=np.float32))
        products = self._moved(number, first[chosen], second[chosen], change[chosen])
        # What is lacking falls by  slope . products  and rises by  products^2 / 2  of all that exchange.
        falls, rises = -float(np.sum(slope * products)), float(np.sum(counts * products**2))
        if falls <= 0.0:
            return
        if falls < rises:
            chosen = chosen[generator.random(len(chosen)) < falls / rises]
            products = self._moved(number, first[chosen], second[chosen], change[chosen])
        self._swap(number, first[chosen], second[chosen])
        self._means[:, own] += products
        self._means[own, :] = self._means[:, own].T

    def _moved(
        self, number: int, first: NDArray[np.intp], second: NDArray[np.intp], change: NDArray[np.float32]
    ) -> Array:
        """Return how the mean products with the functions of a column move if these pairs of rows exchange its values."""
        apart = self._all.take(first, axis=0) - self._all.take(second, axis=0)
        products = np.asarray(apart.T @ change, dtype=np.float64) / len(self._all)
        products[self._columns[number].functions] = 0.0
        return products

    def _swap(self, number: int, one: NDArray[np.intp], other: NDArray[np.intp]) -> None:
        functions, column = self._own[number], self._columns[number]
        functions[one], functions[other] = functions[other], functions[one]
        self._all[one, column.functions], self._all[other, column.functions] = functions[one], functions[other]
        for c in column.coordinates:
            self.rows[one, c], self.rows[other, c] = self.rows[other, c], self.rows[one, c]
