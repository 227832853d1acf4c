"""Rows that exchange values until pairs of columns have the products of waves that were released.

A copula knows how columns correlate, but not that one is wide where another is high, or that a pair lies on a curve or in
clusters. Such shapes are put into the rows last: two rows exchange their values of one column. Columns stay what they are,
value by value, and what is not asked for moves only by chance. With M the mean products of the columns' functions over the
rows, and T those that are wanted,

    minimise  sum over functions of two columns of (M - T)^2 / 2

over which rows hold which values: in turn for each column, rows meet in pairs at random, and of the pairs whose exchange
lowers the sum to first order some exchange, so many as lower it most. The functions of a column are its values, whose
products (the correlations) shall stay what they are, and its waves, whose products shall be those that are believed.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.blas import one_thread
from smoothsynth.waves import WAVES, coordinate_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.synthesis.columns import Groups

    Array = NDArray[np.float64]

# Times that all columns take their turn: as many as take some seconds, within limits. In the last quarter shapes count
# little, and correlations that were lost on the way come back.
_FEWEST_TURNS, _MOST_TURNS, _WORK, _LITTLE = 12, 80, 2e9, 0.1
# Below this part of the noise what is still lacking does not matter.
_ENOUGH = 0.1
# The variance of a covariance of waves whose means are off by 1.
_DOUBT = 0.25
# Pairs of rows exchange with a probability that grows with what they gain, up to this quantile of those that gain.
_MOST = 0.9
# Rows that exchange with each other, for speed, and rows that tell which shapes there are.
_MOST_TOGETHER, _MOST_LOOKED_AT = 25_000, 200_000
# Functions of a column: its values, and its waves.
_OWN = 1 + WAVES


def exchange(
    rows: Array,
    noisy: NoisyMoments,
    groups: Groups,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    """Return the rows after they have exchanged values; levels and missing values stay where they are."""
    shapes = _Shapes.of(noisy)
    # Rows may stand in an order of what they are like: every so many are like all.
    gained = shapes.gained(shapes.functions(rows[:: -(-len(rows) // _MOST_LOOKED_AT)], groups.marks))
    if not gained.any():
        return rows
    made, parts = rows.copy(), -(-len(rows) // _MOST_TOGETHER)
    work = len(rows) * len(shapes.columns) * (len(shapes.columns) + 10)
    turns = round(min(_MOST_TURNS, max(_FEWEST_TURNS, _WORK / work)))

    def exchanged(part: int, own: np.random.Generator) -> None:  # noqa: TID251
        made[part::parts] = _exchanged(rows[part::parts], shapes, gained, groups, turns=turns, generator=own)

    # Each part has randomness of its own, so that the rows do not depend on how many there are at once.
    with one_thread(), ThreadPoolExecutor(min(parts, os.cpu_count() or 1)) as pool:
        list(pool.map(exchanged, range(parts), generator.spawn(parts)))
    return made


def _exchanged(
    rows: Array,
    shapes: _Shapes,
    gained: Array,
    groups: Groups,
    *,
    turns: int,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    made, hidden = rows.copy(), dict(groups.missing)
    there = [np.flatnonzero(rows[:, hidden[c]] == 0.0) if c in hidden else np.arange(len(rows)) for c in shapes.columns]
    table = _Table(shapes.functions(rows, groups.marks), gained, rows[:, shapes.columns])
    for turn in range(turns):
        for column in generator.permutation(len(shapes.columns)):
            table.turn(int(column), there[column], generator, shapes=1.0 if turn < 0.75 * turns else _LITTLE)
        if table.missing() < _ENOUGH * shapes.noise:
            break
    made[:, shapes.columns] = table.values
    return made


@dataclass(frozen=True, slots=True, eq=False)
class _Shapes:
    """The released means of the waves of some columns, their covariances, and the variances of the noise of both."""

    noisy: NoisyMoments
    columns: NDArray[np.intp]
    means: Array
    released: Array
    variances: Array
    noise: float

    @classmethod
    def of(cls, noisy: NoisyMoments) -> _Shapes:
        """Take the products of means from those of waves."""
        waves = [[wave for wave, _ in feature.terms[0]] for feature in noisy.features]
        columns = sorted({coordinate_of(wave) for used in waves for wave in used})
        place = {WAVES * c + k: WAVES * i + k for i, c in enumerate(columns) for k in range(WAVES)}
        means, products = np.zeros((2, len(place))), np.full((2, len(place), len(place)), np.inf)
        for used, value, deviation in zip(waves, noisy.values, noisy.deviations, strict=True):
            if len(used) == 1:
                means[:, place[used[0]]] = value, deviation**2
            else:
                i, j = place[used[0]], place[used[1]]
                products[:, i, j] = products[:, j, i] = value, deviation**2
        squares = np.outer(means[0] ** 2, means[1])
        # Nothing is believed of a pair that was not measured: its variance is infinite.
        released = np.where(np.isfinite(products[1]), products[0] - np.outer(means[0], means[0]), 0.0)
        noise = float(noisy.deviations[-1])
        return cls(noisy, np.array(columns), means, released, products[1] + squares + squares.T, noise)

    def functions(self, rows: Array, marks: tuple[int, ...]) -> Array:
        """Return the values, standardised, and the waves of each column in turn; then all marks."""
        view = self.noisy.measurement.view
        if view is None:
            raise ValueError("waves are seen through a view")
        seen = view.of(rows).reshape(len(rows), -1, WAVES)[:, self.columns]
        own = np.concatenate([_standardised(rows[:, self.columns])[:, :, None], seen], axis=2)
        return np.concatenate([own.reshape(len(rows), -1), _standardised(rows[:, list(marks)])], axis=1)

    def gained(self, functions: Array) -> Array:
        """Return by how much the mean products of all functions shall change: those of waves, as far as is believed."""
        waves = (np.arange(len(self.columns))[:, None] * _OWN + 1 + np.arange(WAVES)).ravel()
        own, means = np.cov(functions[:, waves].T, bias=True), functions[:, waves].mean(axis=0)
        # Where a column crowds on a value that is spread in the rows, waves have other means, and shapes are not seen well.
        strange = _DOUBT * np.maximum((self.means[0] - means) ** 2 - self.means[1], 0.0)
        doubt = np.outer(strange, np.ones(len(strange)))
        wanted = np.zeros((functions.shape[1],) * 2)
        wanted[np.ix_(waves, waves)] = believed_shapes(self.released - own, self.variances + (doubt + doubt.T))
        return wanted


def believed_shapes(differences: Array, variances: Array) -> Array:
    """Return differences of covariances of waves, as far as those of each pair of columns are more than noise.

    Of the four of a pair, E the sum of their squares and N that of the variances of their noise, it is a part  1 - N/E
    (James and Stein 1961).
    """
    d = len(differences) // WAVES
    pairs, noise = differences.reshape(d, WAVES, d, WAVES), variances.reshape(d, WAVES, d, WAVES).sum(axis=(1, 3))
    squares = np.einsum("iajb,iajb->ij", pairs, pairs)
    kept = np.maximum(0.0, 1.0 - noise / np.maximum(squares, 1e-300))
    np.fill_diagonal(kept, 0.0)
    return np.asarray((pairs * kept[:, None, :, None]).reshape(differences.shape))


class _Table:
    """Rows in which values are exchanged, with the mean products of their functions, kept up to date.

    Functions are held in single precision, and those of each column once more by themselves: both for speed.
    """

    def __init__(self, functions: Array, gained: Array, values: Array) -> None:
        self.values = values
        self._all = functions.astype(np.float32)
        self._own = [self._all[:, _of(column)].copy() for column in range(values.shape[1])]
        self._means = functions.T @ functions / len(functions)
        self._wanted = self._means + gained
        self._counts = _counting(values.shape[1], len(gained))

    def missing(self) -> float:
        """Return the root mean square of what products that count still lack."""
        return float(np.sqrt(np.sum(self._counts * (self._means - self._wanted) ** 2) / self._counts.sum()))

    def turn(
        self,
        column: int,
        rows: NDArray[np.intp],
        generator: np.random.Generator,  # noqa: TID251
        *,
        shapes: float,
    ) -> None:
        """Let some of the rows exchange their values of a column, the more of them the more they gain by it.

        Products of waves count by `shapes`, all others by 1.
        """
        functions, own = self._own[column], _of(column)
        counts = self._counts[:, own] * np.where(np.arange(_OWN) == 0, 1.0, shapes)
        slope = counts * (self._means - self._wanted)[:, own]
        drawn, half = generator.permutation(rows), len(rows) // 2
        first, second = drawn[:half], drawn[half : 2 * half]
        change = functions.take(second, axis=0) - functions.take(first, axis=0)
        gain = self._all @ slope.astype(np.float32)
        gains = np.einsum("ij,ij->i", change, gain.take(second, axis=0) - gain.take(first, axis=0))
        better = gains[gains > 0.0]
        if not len(better):
            return
        most = np.quantile(better, _MOST)
        chosen = np.flatnonzero(gains > most * generator.random(half, dtype=np.float32))
        products = self._moved(first[chosen], second[chosen], change[chosen])
        # What is lacking falls by  slope . products  and rises by  products^2 / 2  of all that exchange.
        falls, rises = -float(np.sum(slope * products)), float(np.sum(counts * products**2))
        if falls < rises:
            chosen = chosen[generator.random(len(chosen)) < falls / rises]
            products = self._moved(first[chosen], second[chosen], change[chosen])
        one, other = first[chosen], second[chosen]
        functions[one], functions[other] = functions[other], functions[one]
        self._all[one, own], self._all[other, own] = functions[one], functions[other]
        self.values[one, column], self.values[other, column] = self.values[other, column], self.values[one, column]
        self._means[:, own] += products
        self._means[own, :] = self._means[:, own].T

    def _moved(self, first: NDArray[np.intp], second: NDArray[np.intp], change: NDArray[np.float32]) -> Array:
        """Return how the mean products with the functions of a column move if these pairs of rows exchange its values."""
        apart = self._all.take(first, axis=0) - self._all.take(second, axis=0)
        return np.asarray(apart.T @ change, dtype=np.float64) / len(self._all)


def _of(column: int) -> slice:
    """Return where the functions of a column are among all."""
    return slice(_OWN * column, _OWN * (column + 1))


def _counting(columns: int, functions: int) -> Array:
    """Return 1 where a product of two functions counts: two values, two waves, or a value and a mark; of one column none."""
    own, values = np.arange(_OWN * columns), np.arange(functions) >= _OWN * columns
    values[own[::_OWN]] = True
    counts = (values[:, None] == values[None, :]).astype(np.float64)
    for column in range(columns):
        counts[_of(column), _of(column)] = 0.0
    return counts


def _standardised(values: Array) -> Array:
    return np.asarray((values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-6))
