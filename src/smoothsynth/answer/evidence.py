"""What the release tells of some columns: features, noise, residuals, copula misfit.

What the factors of measured features are at some rows: polynomials, soft counts or waves of a coordinate, made once.

How far pairs of columns are from a Gaussian copula, by the released products of their waves.

The synthetic rows have these products, as far as they are more than noise. Of other functions of two columns nothing was
released; but where the waves are those of a Gaussian copula, other functions mostly are too, and where they are not, others
may be as far from what is expected as they were.

What a release knows about a few columns: measured features on test rows, their noise, and their gaps.

Test rows are synthetic rows, blurred by as much as the mean of each column is uncertain, with a few values replaced by
flat ones: a function is looked at where private rows could be, not only where synthetic rows are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.model.sampling import generator
from smoothsynth.queries.bases import LATTICE, WAVES, Factors, Feature, by_coordinates
from smoothsynth.queries.families import RowNorms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.queries.transformation import Transformation

    Array = NDArray[np.float64]


class BentTable:
    """The same of points that a transformation bends and does not cut: column by column, as far as they were asked for."""

    def __init__(self, points: Array, transformation: Transformation) -> None:
        self._points, self._view = points, transformation
        self._known: dict[int, Factors] = {}

    def of(self, coordinate: int, number: int) -> Array:
        """Return one factor of one coordinate."""
        if coordinate not in self._known:
            bent = self._view.bend(coordinate, np.rint(self._points[:, coordinate] * LATTICE))[None]
            family = self._view.family
            self._known[coordinate] = family.basis.factors(family.after(bent).T / LATTICE)
        return self._known[coordinate].of(0, number)


def feature_values(feature: Feature, table: Factors) -> Array:
    """Return one feature at points that are already seen through its transformation."""
    terms = (reduce(np.multiply, [table.of(c, k) for c, k in term]) for term in feature.terms)
    return np.asarray(sum(terms) / len(feature.terms))


# Rows that are set in a Gaussian copula: the error of an expected correlation is 0.01.
_ROWS = 8192
# A wave that is nearly constant in these rows counts as one with this variance.
_LEAST_VARIANCE = 1e-4


def pair_strangeness(stages: Sequence[Round], points: Array) -> dict[frozenset[int], float]:
    """Return, for each pair of coordinates with released products of waves, how strange other functions of them may be.

        D^2 = max(mean of (r - e)^2 / v, mean of s^2 / v)

    r the released covariance of two waves and s^2 the variance of its noise, e the covariance expected in a Gaussian copula
    with the same columns and correlations, v the product of the variances of the two waves. So D is in units of a
    correlation, and never below what noise may hide.
    """
    found: dict[frozenset[int], list[tuple[float, float]]] = {}
    for stage in stages:
        transformation = stage.noisy.measurement.transformation
        if transformation is None or not transformation.family.between_pairs:
            continue
        few = np.linspace(0, len(points) - 1, min(_ROWS, len(points))).astype(np.intp)
        waves = transformation.of(set_in_copula(points[few]))
        own, expected = waves.mean(axis=0), np.atleast_2d(np.cov(waves.T, bias=True))
        variances = np.maximum(np.diag(expected), _LEAST_VARIANCE)
        released = {
            tuple(WAVES * c + k - 1 for c, k in feature.terms[0]): (value, deviation**2)
            for feature, value, deviation in zip(stage.features, stage.values, stage.deviations, strict=True)
        }
        for used, (value, noise) in released.items():
            # The mean of a wave that was not released is taken from the rows.
            means = [released.get((wave,), (own[wave], 0.0)) for wave in used]
            if len(used) == 2:
                (one, of_one), (other, of_other) = means
                unit = float(np.prod(variances[list(used)]))
                gap = value - one * other - expected[used]
                whole = noise + one**2 * of_other + other**2 * of_one
                found.setdefault(frozenset(w // WAVES for w in used), []).append((gap**2 / unit, whole / unit))
    return {pair: float(np.sqrt(np.mean(parts, axis=0).max())) for pair, parts in found.items()}


def set_in_copula(rows: Array) -> Array:
    """Return the same columns, value by value, in other rows: a Gaussian copula with the correlations of their scores."""
    count, dimensions = rows.shape
    scores = np.array([NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)])
    draw = generator(0)
    # Values that are alike get their ranks by chance.
    orders = [np.lexsort((draw.random(count), column)) for column in rows.T]
    own = np.empty_like(rows)
    for c, order in enumerate(orders):
        own[order, c] = scores
    values, vectors = np.linalg.eigh(own.T @ own / count)
    drawn = np.stack([draw.permutation(scores) for _ in range(dimensions)], axis=1)
    mixed = drawn @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    placed = np.empty_like(rows)
    for c, order in enumerate(orders):
        placed[np.argsort(mixed[:, c], kind="stable"), c] = rows[order, c]
    return placed


TEST_ROWS = 1000
# How many times its uncertainty a test row is blurred by, and the share of values that are replaced by flat ones.
BLUR, FLAT_SHARE = 2.0, 0.01
# Fewer synthetic rows than this do not show where private rows are: as many test rows as ever, and more of them flat.
FEW_ROWS = 300
# A mean or a shape is taken to be unknown by this many standard deviations before anything is measured.
VAGUE = 0.7
_GRID = 513
# So many cosines of lengths say how strange the joint distribution is.
_SURPRISING = 4
# Releases, and sets of columns of one release, that are kept for the next question.
_MOST_KEPT, MOST_SETS = 4, 64


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One measurement with its released values and the deviations of their noise, computed once.

    `features` have coordinates of the schema: a factor (c, k) is T_k, the k-th soft count or the k-th wave of coordinate c.
    """

    noisy: NoisyMoments
    features: tuple[Feature, ...]
    values: Array
    deviations: Array

    @classmethod
    def of(cls, noisy: NoisyMoments) -> Round:
        """Compute values and deviations, which takes longer than a question may."""
        features = tuple(map(by_coordinates, noisy.features) if _waved(noisy) else noisy.features)
        return cls(noisy, features, noisy.values, noisy.deviations)

    @property
    def of_waves(self) -> bool:
        """Whether waves were measured."""
        return _waved(self.noisy)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The measured features of some columns: centred values on the test rows, noise variances, gaps.

    A gap is the released moment minus the same moment of the synthetic rows.
    """

    matrix: Array
    variances: Array
    gaps: Array


class Knowledge:
    """A release, prepared for questions; what was computed for some columns is kept for the next question on them."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.points = release.unit_rows()
        self.stages = tuple(map(Round.of, release.moments))
        self.index = _by_columns(self.stages)
        self.blur = BLUR * mean_uncertainties(self.stages, self.points.shape[1])
        self.surprise = joint_surprise(self.stages)
        self.strangeness = pair_strangeness(self.stages, self.points)
        self.rows = self._test_rows()
        self._transformations: dict[tuple[int, bool], Array] = {}
        self._tables: dict[int, Factors] = {}
        self._gaps: dict[tuple[int, int], float] = {}
        self._seen: dict[frozenset[int], Seen] = {}
        self.kept: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.frames: dict[tuple[int, ...], Any] = {}

    def seen(self, columns: Sequence[int]) -> Seen:
        """Return what was measured of these columns and of no others."""
        key = frozenset(columns)
        if key not in self._seen:
            drop_oldest(self._seen, MOST_SETS)
            places = [place for used, found in self.index.items() if used <= key for place in found]
            self._seen[key] = self._evaluate(places)
        return self._seen[key]

    def _evaluate(self, places: Sequence[tuple[int, int]]) -> Seen:
        self._find_gaps([place for place in places if place not in self._gaps])
        features = [self.stages[stage].features[number] for stage, number in places]
        tested = [feature_values(f, self._tested(stage)) for f, (stage, _) in zip(features, places, strict=True)]
        matrix = np.stack(tested, axis=1) if tested else np.zeros((len(self.rows), 0))
        variances = np.array([self.stages[stage].deviations[number] ** 2 for stage, number in places])
        gaps = np.array([self._gaps[place] for place in places])
        return Seen(matrix - matrix.mean(axis=0), variances, gaps)

    def _find_gaps(self, places: Sequence[tuple[int, int]]) -> None:
        """Compare released moments with those of the synthetic rows; only the differences are kept."""
        for stage in {stage for stage, _ in places}:
            known, table = self.stages[stage], self._table(stage, tested=False)
            for number in (number for one, number in places if one == stage):
                own = feature_values(known.features[number], table)
                self._gaps[stage, number] = float(known.values[number] - own.mean())

    def _tested(self, stage: int) -> Factors:
        if stage not in self._tables:
            self._tables[stage] = self._table(stage, tested=True)
        return self._tables[stage]

    def _table(self, stage: int, *, tested: bool) -> Factors:
        measurement = self.release.moments[stage].measurement
        if measurement.transformation is not None and measurement.family.alone:
            return BentTable(self.rows if tested else self.points, measurement.transformation)
        return measurement.family.basis.factors(self.seen_rows(stage, tested=tested))

    def seen_rows(self, stage: int, *, tested: bool) -> Array:
        """Return the test rows, or the synthetic ones, as a stage sees them."""
        if (stage, tested) not in self._transformations:
            measurement = self.release.moments[stage].measurement
            self._transformations[stage, tested] = measurement.seen(self.rows if tested else self.points)
        return self._transformations[stage, tested]

    def _test_rows(self) -> Array:
        draw, known = generator(0), len(self.points)
        count = min(TEST_ROWS, known) if known >= FEW_ROWS else TEST_ROWS
        flat = FLAT_SHARE * max(1.0, FEW_ROWS / known)
        chosen = self.points[np.linspace(0, known - 1, count).astype(np.int64)]
        rows = np.clip(chosen + self.blur * draw.standard_normal(chosen.shape), -1.0, 1.0)
        replaced = draw.random(rows.shape) < flat
        rows[replaced] = draw.uniform(-1.0, 1.0, int(replaced.sum()))
        for group in self.release.schema.exclusive:
            # A flat coordinate among others rarely is the largest: levels are replaced as a whole.
            moved = np.flatnonzero(draw.random(count) < flat)
            rows[moved[:, None], list(group)] = 0.0
            rows[moved, group[0] + draw.integers(0, len(group), len(moved))] = 1.0
        return self.release.schema.snap(rows)


def drop_oldest(kept: dict[Any, Any], most: int) -> None:
    """Make room for one more in a dictionary of at most so many."""
    while len(kept) >= most:
        del kept[next(iter(kept))]


# The last few releases that were asked: their tables are held, so an identity is not used again.
_kept: dict[int, Knowledge] = {}


def knowledge_of(release: Release) -> Knowledge:
    """Return the release prepared for questions, the same one as long as it is among the last few asked."""
    key = id(release)
    found = _kept.pop(key, None)
    if found is None or found.release is not release:
        found = Knowledge(release)
        drop_oldest(_kept, _MOST_KEPT)
    _kept[key] = found
    return found


def mean_uncertainties(stages: Sequence[Round], dimensions: int) -> Array:
    """Return how uncertain the mean of each column is after its own moments, in units of the cube.

    min over c of   c' N c + VAGUE^2 E (x - c . phi(x))^2,     x flat on [-1, 1],   N the noise variances
    """
    x = np.linspace(-1.0, 1.0, _GRID)
    result = np.empty(dimensions)
    for column in range(dimensions):
        found = list(single_features(stages, column, x))
        matrix = np.stack([values for values, _, _ in found] or [np.zeros(_GRID)], axis=1)
        variances = np.array([variance for _, variance, _ in found] or [1.0])
        result[column] = posterior_deviations(matrix - matrix.mean(axis=0), variances, x[:, None])[0]
    return result


def joint_surprise(stages: Sequence[Round]) -> float | None:
    """Return how wrong the model was about the lengths of rows before they were measured, or None if they were not.

        J^2 = mean over k <= 4 of 2 (b_k^2 - s_k^2),      b_k the noisy cosines of the rank of a length, s_k their noise

    The model expects 0. A length depends on all columns together, so J says how far the joint distribution is from the
    model's, where single columns and products of two are known to agree. Higher cosines tell of tails, and would only
    dilute what the first ones say.
    """
    squares = [2.0 * (s.values**2 - s.deviations**2)[:_SURPRISING] for s in stages if _of_lengths(s)]
    return float(np.sqrt(max(0.0, float(np.mean(np.concatenate(squares)))))) if squares else None


def _waved(noisy: NoisyMoments) -> bool:
    return noisy.measurement.family.between_pairs


def _of_lengths(stage: Round) -> bool:
    return stage.noisy.measurement.family == RowNorms()


def single_features(stages: Sequence[Round], column: int, x: Array) -> Iterator[tuple[Array, float, float]]:
    """Yield values at x, noise variance and released value of every moment of one coordinate that depends on nothing else."""
    return features_of(stages, (column,), x[:, None])


def features_of(
    stages: Sequence[Round], coordinates: Sequence[int], points: Array
) -> Iterator[tuple[Array, float, float]]:
    """Yield the same for a few coordinates, at points that have only those."""
    place = {c: number for number, c in enumerate(coordinates)}
    for stage in stages:
        transformation, family = stage.noisy.measurement.transformation, stage.noisy.measurement.family
        if not (family.own_coordinates and family.alone):
            continue
        bent = points
        if transformation is not None:
            bent = (
                np.stack([transformation.bend(c, np.rint(points[:, i] * LATTICE)) for c, i in place.items()], axis=1)
                / LATTICE
            )
        table = family.basis.factors(bent)
        for feature, value, deviation in zip(stage.features, stage.values, stage.deviations, strict=True):
            if all(c in place for term in feature.terms for c, _ in term):
                own = Feature(tuple(tuple((place[c], k) for c, k in term) for term in feature.terms))
                yield feature_values(own, table), float(deviation) ** 2, float(value)


def posterior_deviations(matrix: Array, variances: Array, targets: Array) -> Array:
    """Return sqrt of  min over c of  c' N c + VAGUE^2 E (t - c . phi)^2  for each target t; all centred."""
    count, squared = len(matrix), VAGUE**2
    gram = squared * (matrix.T @ matrix) / count + np.diag(variances)
    cross = squared * (matrix.T @ targets) / count
    left = squared * np.mean(targets**2, axis=0) - np.sum(cross * np.linalg.solve(gram, cross), axis=0)
    return np.asarray(np.sqrt(np.maximum(left, 0.0)))


def _by_columns(stages: Sequence[Round]) -> dict[frozenset[int], list[tuple[int, int]]]:
    """Sort the places (stage, number) of all features by the columns that they look at; lengths look at all of them.

    Waves of one column are left out: its counts tell more, and rows are not fitted to its waves.
    """
    index: dict[frozenset[int], list[tuple[int, int]]] = {}
    for stage, known in enumerate(stages):
        if _of_lengths(known):
            continue
        for number, feature in enumerate(known.features):
            used = frozenset(c for term in feature.terms for c, _ in term)
            if len(used) > 1 or not known.of_waves:
                index.setdefault(used, []).append((stage, number))
    return index
