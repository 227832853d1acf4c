"""Evidence: what a release says about a few columns, prepared for queries.

Measured features on test rows are a design matrix, with their noise variances and their residuals: released minus
synthetic moments. Test rows are synthetic rows, blurred by as much as the mean of each column is uncertain, with a few
values replaced by uniform ones: a function is evaluated where private rows could be, not only where synthetic rows are.

The copula misfit of a pair of columns is how far its released table is from that of a Gaussian copula. The synthetic
rows have this table, as far as it stands out of noise. Of functions finer than its cells nothing was released; where the
table is that of a Gaussian copula, they mostly are too, and where not, they may be as far from what is expected.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.model.sampling import generator
from smoothsynth.queries.bases import LATTICE, Factors, Feature
from smoothsynth.queries.families import RowNorms
from smoothsynth.queries.soft_tables import Cells, SoftTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]


class TransformedFactors:
    """Factors of features at points whose coordinates are transformed one by one, computed when first used."""

    def __init__(self, points: Array, transformation: Transformation) -> None:
        self._points, self._transformation = points, transformation
        self._known: dict[int, Factors] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one factor of one coordinate."""
        if coordinate not in self._known:
            mapped = self._transformation.bend(coordinate, np.rint(self._points[:, coordinate] * LATTICE))[None]
            family = self._transformation.family
            self._known[coordinate] = family.basis.factors(family.after(mapped).T / LATTICE)
        return self._known[coordinate].of(0, number)


def feature_values(feature: Feature, table: Factors) -> Array:
    """Return one feature at transformed points."""
    terms = (reduce(np.multiply, [table.of(c, k) for c, k in term]) for term in feature.terms)
    return np.asarray(sum(terms) / len(feature.terms))


# Rows that are rearranged to a Gaussian copula: the error of an expected correlation is 0.01.
_ROWS = 8192
# The share of a cell that is nearly empty counts as this.
_LEAST_SHARE = 1e-4


def pair_misfits(rounds: Sequence[Round], points: Array) -> dict[frozenset[int], float]:
    """Return the copula misfit D of each pair of coordinates of two columns whose table was released.

        D^2 = max(sum of ((r - e)^2 - s^2) / v / (m - 1), mean of s^2 / v),      v = e_i e_j

    r the released share of a cell and s^2 the variance of its noise, e the share expected in a Gaussian copula with the same
    columns and correlations, e_i and e_j those of its row and its column of the table, m the smaller number of cells: the
    square of Cramer's V, of what is not the copula's. It is never below what noise may hide.
    """
    tables = [known.noisy for known in rounds if _of_tables(known.noisy, order=2)]
    if not tables:
        return {}
    few = np.linspace(0, len(points) - 1, min(_ROWS, len(points))).astype(np.intp)
    copula = gaussian_copula_rows(points[few])
    found: dict[frozenset[int], float] = {}
    for noisy in tables:
        found |= _table_misfits(noisy, copula)
    return found


def _table_misfits(noisy: NoisyMoments, copula: Array) -> dict[frozenset[int], float]:
    family, features, seen = noisy.measurement.family, noisy.features, noisy.measurement.transformation
    if not isinstance(family, SoftTables) or not isinstance(features, Cells) or seen is None:
        raise TypeError("only tables have cells")
    expected = family.tables_of(seen, copula, features.tables)
    values, variance, found = noisy.values, float(noisy.deviations[0]) ** 2, {}
    for (table, where), own in zip(features.places(), expected, strict=True):
        units = np.maximum(np.outer(own.sum(axis=1), own.sum(axis=0)), _LEAST_SHARE)
        released = values[where].reshape(own.shape)
        least = float(np.mean(variance / units))
        clear = float(np.sum(((released - own) ** 2 - variance) / units)) / max(min(own.shape) - 1, 1)
        misfit = max(clear, least)
        for pair in itertools.product(*(family.columns[c].coordinates for c in table)):
            found[frozenset(pair)] = math.sqrt(misfit)
    return found


def _of_tables(noisy: NoisyMoments, *, order: int) -> bool:
    family = noisy.measurement.family
    return isinstance(family, SoftTables) and family.order == order


def gaussian_copula_rows(rows: Array) -> Array:
    """Return the same marginals, value by value, in a Gaussian copula with the correlations of their normal scores."""
    count, dimensions = rows.shape
    scores = np.array([NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)])
    draw = generator(0)
    # Ties are broken at random.
    orders = [np.lexsort((draw.random(count), column)) for column in rows.T]
    ranked = np.empty_like(rows)
    for c, order in enumerate(orders):
        ranked[order, c] = scores
    values, vectors = np.linalg.eigh(ranked.T @ ranked / count)
    drawn = np.stack([draw.permutation(scores) for _ in range(dimensions)], axis=1)
    mixed = drawn @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    mapped = np.empty_like(rows)
    for c, order in enumerate(orders):
        mapped[np.argsort(mixed[:, c], kind="stable"), c] = rows[order, c]
    return mapped


TEST_ROWS = 1000
# How many times its uncertainty a test row is blurred by, and the share of values that are replaced by uniform ones.
BLUR, FLAT_SHARE = 2.0, 0.01
# Fewer synthetic rows than this do not show where private rows are: as many test rows as ever, and more of them uniform.
FEW_ROWS = 300
# A mean or a shape is taken to be unknown by this many standard deviations before anything is measured.
VAGUE = 0.7
_GRID = 513
# So many cosines of row norms measure the misfit of the joint distribution.
_MISFIT_COSINES = 4
# Releases, and sets of columns of one release, that are kept for the next query.
_MOST_KEPT, MOST_SETS = 4, 64


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One measurement with its released values and the deviations of their noise, computed once.

    `features` have coordinates of the schema: a factor (c, k) is T_k or the k-th hat function of c. Tables have none.
    """

    noisy: NoisyMoments
    features: tuple[Feature, ...]
    values: Array
    deviations: Array

    @classmethod
    def of(cls, noisy: NoisyMoments) -> Round:
        """Compute values and deviations, which takes longer than a query may."""
        # Cells of tables are compared as tables.
        features = () if isinstance(noisy.features, Cells) else tuple(noisy.features)
        return cls(noisy, features, noisy.values, noisy.deviations)


@dataclass(frozen=True, slots=True, eq=False)
class DesignMatrix:
    """The measured features of some columns: centred values on the test rows, noise variances, residuals.

    A residual is the released moment minus the same moment of the synthetic rows.
    """

    matrix: Array
    variances: Array
    residuals: Array


class Evidence:
    """A release, prepared for queries; what was computed for some columns is kept for the next query on them."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.points = release.unit_rows()
        self.rounds = tuple(map(Round.of, release.moments))
        self.index = _by_columns(self.rounds)
        self.blur = BLUR * mean_uncertainties(self.rounds, self.points.shape[1])
        self.joint_misfit = joint_misfit(self.rounds)
        self.pair_misfit = pair_misfits(self.rounds, self.points)
        self.rows = self._test_rows()
        self._transformations: dict[tuple[int, bool], Array] = {}
        self._tables: dict[int, Factors] = {}
        self._residuals: dict[tuple[int, int], float] = {}
        self._designs: dict[frozenset[int], DesignMatrix] = {}
        self.kept: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.bases: dict[tuple[int, ...], Any] = {}

    def design(self, columns: Sequence[int]) -> DesignMatrix:
        """Return the design matrix of the features of these columns and of no others."""
        key = frozenset(columns)
        if key not in self._designs:
            drop_oldest(self._designs, MOST_SETS)
            places = [place for used, found in self.index.items() if used <= key for place in found]
            self._designs[key] = self._evaluate(places)
        return self._designs[key]

    def _evaluate(self, places: Sequence[tuple[int, int]]) -> DesignMatrix:
        self._find_residuals([place for place in places if place not in self._residuals])
        features = [self.rounds[r].features[number] for r, number in places]
        tested = [feature_values(f, self._tested(r)) for f, (r, _) in zip(features, places, strict=True)]
        matrix = np.stack(tested, axis=1) if tested else np.zeros((len(self.rows), 0))
        variances = np.array([self.rounds[r].deviations[number] ** 2 for r, number in places])
        residuals = np.array([self._residuals[place] for place in places])
        return DesignMatrix(matrix - matrix.mean(axis=0), variances, residuals)

    def _find_residuals(self, places: Sequence[tuple[int, int]]) -> None:
        """Compare released moments with those of the synthetic rows; only the differences are kept."""
        for r in {r for r, _ in places}:
            known, table = self.rounds[r], self._table(r, tested=False)
            for number in (number for one, number in places if one == r):
                synthetic = feature_values(known.features[number], table)
                self._residuals[r, number] = float(known.values[number] - synthetic.mean())

    def _tested(self, r: int) -> Factors:
        if r not in self._tables:
            self._tables[r] = self._table(r, tested=True)
        return self._tables[r]

    def _table(self, r: int, *, tested: bool) -> Factors:
        measurement = self.release.moments[r].measurement
        if measurement.transformation is not None and measurement.family.alone:
            return TransformedFactors(self.rows if tested else self.points, measurement.transformation)
        return measurement.family.basis.factors(self.transformed_rows(r, tested=tested))

    def transformed_rows(self, r: int, *, tested: bool) -> Array:
        """Return the test rows, or the synthetic ones, through the transformation of a round."""
        if (r, tested) not in self._transformations:
            measurement = self.release.moments[r].measurement
            self._transformations[r, tested] = measurement.seen(self.rows if tested else self.points)
        return self._transformations[r, tested]

    def _test_rows(self) -> Array:
        draw, known = generator(0), len(self.points)
        count = min(TEST_ROWS, known) if known >= FEW_ROWS else TEST_ROWS
        flat = FLAT_SHARE * max(1.0, FEW_ROWS / known)
        chosen = self.points[np.linspace(0, known - 1, count).astype(np.int64)]
        rows = np.clip(chosen + self.blur * draw.standard_normal(chosen.shape), -1.0, 1.0)
        replaced = draw.random(rows.shape) < flat
        rows[replaced] = draw.uniform(-1.0, 1.0, int(replaced.sum()))
        for group in self.release.schema.exclusive:
            # A uniform coordinate among others rarely is the largest: levels are replaced as a whole.
            moved = np.flatnonzero(draw.random(count) < flat)
            rows[moved[:, None], list(group)] = 0.0
            rows[moved, group[0] + draw.integers(0, len(group), len(moved))] = 1.0
        return self.release.schema.snap(rows)


def drop_oldest(kept: dict[Any, Any], most: int) -> None:
    """Make room for one more in a dictionary of at most so many."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


# The last few releases that were asked: their tables are held, so an identity is not used again.
_kept: dict[int, Evidence] = {}


def evidence_of(release: Release) -> Evidence:
    """Return the release prepared for queries, the same one as long as it is among the last few asked."""
    key = id(release)
    found = _kept.pop(key, None)
    if found is None or found.release is not release:
        found = Evidence(release)
        drop_oldest(_kept, _MOST_KEPT)
    _kept[key] = found
    return found


def mean_uncertainties(rounds: Sequence[Round], dimensions: int) -> Array:
    """Return how uncertain the mean of each column is after its moments, in units of the cube.

    min over c of   c' N c + VAGUE^2 E (x - c . phi(x))^2,     x flat on [-1, 1],   N the noise variances
    """
    x = np.linspace(-1.0, 1.0, _GRID)
    result = np.empty(dimensions)
    for column in range(dimensions):
        found = list(single_features(rounds, column, x))
        matrix = np.stack([values for values, _, _ in found] or [np.zeros(_GRID)], axis=1)
        variances = np.array([variance for _, variance, _ in found] or [1.0])
        result[column] = posterior_deviations(matrix - matrix.mean(axis=0), variances, x[:, None])[0]
    return result


def joint_misfit(rounds: Sequence[Round]) -> float | None:
    """Return the misfit J of the model to row norms before they were measured, or None if they were not.

        J^2 = mean over k <= 4 of 2 (b_k^2 - s_k^2),      b_k the noisy cosines of the rank of a row norm, s_k their noise

    The model expects 0. A row norm depends on all columns together, so J says how far the joint distribution is from the
    model's, where single columns and products of two are known to agree. Higher cosines tell of tails, and would only
    dilute what the first ones say.
    """
    squares = [2.0 * (s.values**2 - s.deviations**2)[:_MISFIT_COSINES] for s in rounds if _of_row_norms(s)]
    return float(np.sqrt(max(0.0, float(np.mean(np.concatenate(squares)))))) if squares else None


def _of_row_norms(round_: Round) -> bool:
    return round_.noisy.measurement.family == RowNorms()


def single_features(rounds: Sequence[Round], column: int, x: Array) -> Iterator[tuple[Array, float, float]]:
    """Yield values at x, noise variance and released value of every moment of one coordinate that depends on nothing else."""
    return features_of(rounds, (column,), x[:, None])


def features_of(
    rounds: Sequence[Round], coordinates: Sequence[int], points: Array
) -> Iterator[tuple[Array, float, float]]:
    """Yield the same for a few coordinates, at points that have only those."""
    place = {c: number for number, c in enumerate(coordinates)}
    for round_ in rounds:
        transformation, family = round_.noisy.measurement.transformation, round_.noisy.measurement.family
        if not (family.own_coordinates and family.alone):
            continue
        mapped = points
        if transformation is not None:
            mapped = (
                np.stack([transformation.bend(c, np.rint(points[:, i] * LATTICE)) for c, i in place.items()], axis=1)
                / LATTICE
            )
        table = family.basis.factors(mapped)
        for feature, value, deviation in zip(round_.features, round_.values, round_.deviations, strict=True):
            if all(c in place for term in feature.terms for c, _ in term):
                renumbered = Feature(tuple(tuple((place[c], k) for c, k in term) for term in feature.terms))
                yield feature_values(renumbered, table), float(deviation) ** 2, float(value)


def posterior_deviations(matrix: Array, variances: Array, targets: Array) -> Array:
    """Return sqrt of  min over c of  c' N c + VAGUE^2 E (t - c . phi)^2  for each target t; all centred."""
    count, squared = len(matrix), VAGUE**2
    gram = squared * (matrix.T @ matrix) / count + np.diag(variances)
    cross = squared * (matrix.T @ targets) / count
    left = squared * np.mean(targets**2, axis=0) - np.sum(cross * np.linalg.solve(gram, cross), axis=0)
    return np.asarray(np.sqrt(np.maximum(left, 0.0)))


def _by_columns(rounds: Sequence[Round]) -> dict[frozenset[int], list[tuple[int, int]]]:
    """Sort the places (r, number) of all features by their columns; row norms have all of them."""
    index: dict[frozenset[int], list[tuple[int, int]]] = {}
    for r, known in enumerate(rounds):
        if _of_row_norms(known):
            continue
        for number, feature in enumerate(known.features):
            used = frozenset(c for term in feature.terms for c, _ in term)
            index.setdefault(used, []).append((r, number))
    return index
