"""How far a synthetic table with categories and missing values is from the real one.

All on rows as points of the cube. Tables of counts of two or three columns are what mechanisms for categories are made for;
group means and correlations are what numbers are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

import smoothsynth as ss
from benchmarks.accuracy.metrics import distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Points = NDArray[np.float64]
    Codes = NDArray[np.int64]

# A pair or a triple of columns is a table of counts; numbers are cut at their true quartiles for it, unless others are named.
MOST_PAIRS, TRIPLES, QUARTILES = 200, 100, (0.25, 0.5, 0.75)
# Groups of fewer rows have no mean worth asking for.
LEAST_GROUP = 30
MEASURES = ("shares", "Wasserstein", "pairs", "triples", "group means", "correlations")


@dataclass(frozen=True, slots=True)
class Field:
    """One column as coordinates of the cube: levels of a category, or a value, with or without a mark that it is missing."""

    levels: tuple[int, ...]
    value: int | None
    missing: int | None

    def codes(self, points: Points, edges: Points) -> Codes:
        """Return the number of the level, or of the interval between edges; one more where nothing is there."""
        if self.value is None:
            marks = points[:, self.levels]
            return np.where(marks.max(axis=1) > 0.5, marks.argmax(axis=1), len(self.levels))
        found = np.searchsorted(edges, points[:, self.value], side="left")
        return np.where(self.there(points), found, len(edges) + 1)

    def there(self, points: Points) -> NDArray[np.bool_]:
        """Say which rows have a value."""
        if self.missing is None:
            return np.ones(len(points), dtype=bool)
        return np.asarray(points[:, self.missing] < 0.5)


def fields(schema: ss.Schema) -> list[Field]:
    """Return the columns of a schema as coordinates."""
    found = []
    for name, column in schema.columns.items():
        place = schema.coordinates_of(name)
        if isinstance(column, ss.Category):
            found.append(Field(tuple(range(place.start, place.stop)), None, None))
        else:
            found.append(Field((), place.start, place.start + 1 if column.nullable else None))
    return found


class MixedJudge:
    """Questions about a mixed table, answered once on the real rows, then on any synthetic ones."""

    def __init__(self, schema: ss.Schema, real: Points, *, seed: int, quantiles: Sequence[float] = QUARTILES) -> None:
        rng = np.random.default_rng(seed)
        self._fields, self._real = fields(schema), real
        self._edges = [
            np.zeros(0) if f.value is None else np.unique(np.quantile(real[f.there(real), f.value], quantiles))
            for f in self._fields
        ]
        self._sizes = [(len(f.levels) or len(e) + 1) + 1 for f, e in zip(self._fields, self._edges, strict=True)]
        every = range(len(self._fields))
        pairs = list(combinations(every, 2))
        self._pairs = [pairs[i] for i in rng.permutation(len(pairs))[:MOST_PAIRS]]
        self._triples = [tuple(rng.choice(len(self._fields), 3, replace=False)) for _ in range(TRIPLES)]
        self._numbers = [i for i in every if self._fields[i].value is not None]
        self._groups = [i for i in every if self._fields[i].value is None]

    def __call__(self, made: Points) -> list[float]:
        """Return the errors of a table, in the order of MEASURES; nan where nothing can be asked."""
        real, other = self._codes(self._real), self._codes(made)
        return [
            self._distance(real, other, [(i,) for i in self._groups]),
            self._wasserstein(made),
            self._distance(real, other, self._pairs),
            self._distance(real, other, self._triples),
            self._group_means(real, other, made),
            self._correlations(made),
        ]

    def _codes(self, points: Points) -> Codes:
        return np.stack([f.codes(points, e) for f, e in zip(self._fields, self._edges, strict=True)])

    def _distance(self, real: Codes, made: Codes, asked: Sequence[tuple[int, ...]]) -> float:
        """Return the mean of half the L1 distance between tables of shares."""
        found = []
        for columns in asked:
            sizes = [self._sizes[i] for i in columns]
            shares = [
                np.bincount(np.ravel_multi_index(codes[list(columns)], sizes), minlength=math.prod(sizes))
                / len(codes.T)
                for codes in (real, made)
            ]
            found.append(np.abs(shares[0] - shares[1]).sum() / 2.0)
        return float(np.mean(found)) if found else math.nan

    def _wasserstein(self, made: Points) -> float:
        found = []
        for i in self._numbers:
            field = self._fields[i]
            one, two = (p[field.there(p), field.value] for p in (self._real, made))
            if len(two):
                found.append(distance(one, two))
        return float(np.mean(found)) if found else math.nan

    def _group_means(self, real: Codes, made: Codes, points: Points) -> float:
        """Return the mean error of the mean of a number in a group of rows, in deviations of the number."""
        found = []
        for i in self._numbers:
            field = self._fields[i]
            there, own = field.there(self._real), field.there(points)
            spread = self._real[there, field.value].std()
            for group in self._groups:
                for level in range(self._sizes[group]):
                    inside, other = there & (real[group] == level), own & (made[group] == level)
                    if inside.sum() >= LEAST_GROUP:
                        mean = points[other, field.value].mean() if other.any() else points[own, field.value].mean()
                        found.append(abs(self._real[inside, field.value].mean() - mean) / spread)
        return float(np.mean(found)) if found else math.nan

    def _correlations(self, made: Points) -> float:
        found = []
        for i, j in combinations(self._numbers, 2):
            one, two = self._fields[i], self._fields[j]
            values = []
            for points in (self._real, made):
                both = points[one.there(points) & two.there(points)][:, [one.value, two.value]]
                flat = len(both) < 3 or both.std(axis=0).min() < 1e-9
                values.append(0.0 if flat else float(np.corrcoef(both.T)[0, 1]))
            found.append(abs(values[0] - values[1]))
        return float(np.mean(found)) if found else math.nan
