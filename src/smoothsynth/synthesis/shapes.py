"""What was released of the shapes of pairs of columns, and how much of it is believed.

The functions of a column of numbers are its values, standardised, and its two waves; those of a category
are its levels. Released are means and products of waves and levels; what is compared with rows are their covariances.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import WAVES, coordinate_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import View
    from smoothsynth.synthesis.columns import Groups

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

    view: View
    columns: tuple[Column, ...]
    means: Array
    products: Array
    variances: Array
    noise: float

    @classmethod
    def of(cls, released: Sequence[NoisyMoments], groups: Groups) -> Shapes:
        """Sort what was released, all through one view, by columns."""
        view = released[0].measurement.view
        if view is None or any(noisy.measurement.view != view for noisy in released):
            raise ValueError("waves are seen through one view")
        sums = [
            ([wave for wave, _ in feature.terms[0]], value, deviation**2)
            for noisy in released
            for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        ]
        holes = {mark for _, mark in groups.missing}
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
        return cls(view, columns, means[0], products[0], products[1] + squares + squares.T, noise)

    def functions(self, rows: Array, groups: Groups) -> Array:
        """Return the functions of each column in turn: values, standardised, and waves, or levels; then all else."""
        seen, found = self.view.of(rows), []
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
    """Return the numbers of the waves of a column, as a view sees them; of a level only the first, which is the level."""
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
