"""Evidence: what a release says about a few columns, prepared for queries.

Measured features on test rows are a design matrix, with their noise variances and their residuals: released minus
synthetic moments. Test rows are synthetic rows, blurred by as much as the mean of each column is uncertain (the numbers of
every other row), with a few values replaced by uniform ones: a function is evaluated where private rows could be, not only
where synthetic rows are.
Cells of released tables are features like all others, as their family describes them in blocks.

The copula misfit of a pair of columns is how far its released table is from that of a Gaussian copula. The synthetic
rows have this table, as far as it stands out of noise. Of functions finer than its cells nothing was released; where the
table is that of a Gaussian copula, they mostly are too, and where not, they may be as far from what is expected.
"""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.model.sampling import generator
from smoothsynth.queries.bases import feature_values
from smoothsynth.queries.families import RowNorms
from smoothsynth.queries.soft_tables import Cells, SoftTables
from smoothsynth.schema import Boolean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.queries.bases import Factors
    from smoothsynth.queries.families import Block, QueryFamily
    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


# Rows that are rearranged to a Gaussian copula: the error of an expected correlation is 0.01.
_ROWS = 8192
# So many coordinates of synthetic rows are compared with what was released: a million rows of twenty.
_MOST_COMPARED = 2 * 10**7
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
# Test rows that have levels together (a question may name any two): so many for each combination, and of so many of them.
# None of m rows has what three in m have, once in twenty times (the rule of three).
_TOGETHER, _MOST_COMBINATIONS = 3, 8
# What a coordinate of each kind is set to: a level, a missing value or a truth value.
_VALUES = {"level": (1.0,), "missing": (0.0, 1.0), "value": (-1.0, 1.0)}
# Releases, and sets of columns of one release, that are kept for the next query.
_MOST_KEPT, MOST_SETS = 4, 64


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One measurement with its released values and the deviations of their noise, computed once.

    `blocks` are what was measured as the family splits it, alternatives together.
    """

    noisy: NoisyMoments
    values: Array
    deviations: Array
    blocks: tuple[tuple[Block, ...], ...]
    dimensions: int

    @classmethod
    def of(cls, noisy: NoisyMoments, dimensions: int) -> Round:
        """Compute values and deviations, which takes longer than a query may."""
        blocks = tuple(noisy.measurement.blocks(dimensions))
        return cls(noisy, noisy.values, noisy.deviations, blocks, dimensions)

    def within(self, coordinates: frozenset[int]) -> Iterator[Block]:
        """Yield the largest block of each that reads nothing but these coordinates."""
        for alternatives in self.blocks:
            found = next((block for block in alternatives if block.read <= coordinates), None)
            if found is not None:
                yield found

    def released(self, block: Block) -> tuple[Array, Array]:
        """Return the values of a block and the variances of their noise."""
        return self.values[block.places].sum(axis=1), (self.deviations[block.places] ** 2).sum(axis=1)

    @property
    def family(self) -> QueryFamily:
        """What kind of queries these are."""
        return self.noisy.measurement.family


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
        self.points = compared_rows(release)
        self.rounds = tuple(Round.of(noisy, self.points.shape[1]) for noisy in release.moments)
        self.blur = BLUR * mean_uncertainties(self.rounds, self.points.shape[1])
        self.joint_misfit = joint_misfit(self.rounds)
        self.pair_misfit = pair_misfits(self.rounds, self.points)
        self.rows = self._test_rows()
        self._clipped: dict[int, Factors] = {}
        self._residuals: dict[tuple[int, int, frozenset[int]], Array] = {}
        self._about: dict[tuple[int, ...], Evidence] = {}
        self._forget()

    def _forget(self) -> None:
        """Keep nothing of what depends on the test rows."""
        self._factors: dict[int, Factors] = {}
        self._designs: dict[frozenset[int], DesignMatrix] = {}
        self.kept: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.bases: dict[tuple[int, ...], Any] = {}

    def about(self, columns: Sequence[int]) -> Evidence:
        """Return the evidence with some test rows that have the levels of these coordinates together.

        No test row may have two rare levels at once; private rows may, and their share would seem to be known exactly.
        """
        states = _states(self.release.schema, columns)
        if len(states) < 2:
            return self
        key = tuple(columns)
        if key not in self._about:
            drop_oldest(self._about, MOST_SETS)
            found = copy.copy(self)
            found.rows = _with_states(self.rows, states)
            found._forget()
            self._about[key] = found
        return self._about[key]

    def design(self, columns: Sequence[int]) -> DesignMatrix:
        """Return the design matrix of the features of these columns and of no others."""
        key = frozenset(columns)
        if key not in self._designs:
            drop_oldest(self._designs, MOST_SETS)
            self._designs[key] = self._evaluate(self.blocks_within(columns))
        return self._designs[key]

    def blocks_within(self, columns: Sequence[int]) -> list[tuple[int, Block]]:
        """Return the blocks of features, each with its round, that read nothing but these coordinates.

        A table has all levels of its columns, and belongs to a question on them whichever levels that names.
        """
        own, whole = frozenset(columns), frozenset(whole_columns(self.release.schema, columns))
        return [
            (r, block)
            for r, known in enumerate(self.rounds)
            if not _of_row_norms(known)
            for block in known.within(own if known.family.own_coordinates else whole)
        ]

    def _evaluate(self, blocks: Sequence[tuple[int, Block]]) -> DesignMatrix:
        self._find_residuals([(r, block) for r, block in blocks if _key(r, block) not in self._residuals])
        tested = [feature_values(feature, self._tested(r)) for r, block in blocks for feature in block.features]
        matrix = np.stack(tested, axis=1) if tested else np.zeros((len(self.rows), 0))
        variances = _joined(self.rounds[r].released(block)[1] for r, block in blocks)
        residuals = _joined(self._residuals[_key(r, block)] for r, block in blocks)
        return DesignMatrix(matrix - matrix.mean(axis=0), variances, residuals)

    def _find_residuals(self, blocks: Sequence[tuple[int, Block]]) -> None:
        """Compare released moments with those of the synthetic rows; only the differences are kept."""
        for r in {r for r, _ in blocks}:
            known, factors = self.rounds[r], self._synthetic(r)
            for block in (block for one, block in blocks if one == r):
                self._residuals[_key(r, block)] = known.released(block)[0] - known.family.means(factors, block)

    def _tested(self, r: int) -> Factors:
        if r not in self._factors:
            self._factors[r] = self.rounds[r].noisy.measurement.factors(self.rows)
        return self._factors[r]

    def _synthetic(self, r: int) -> Factors:
        """Return the factors of the synthetic rows; kept are those of clipped rows alone, which take long."""
        if r in self._clipped:
            return self._clipped[r]
        found = self.rounds[r].noisy.measurement.factors(self.points)
        if not self.rounds[r].family.local:
            self._clipped[r] = found
        return found

    def _test_rows(self) -> Array:
        draw, known = generator(0), len(self.points)
        count = min(TEST_ROWS, known) if known >= FEW_ROWS else TEST_ROWS
        flat = FLAT_SHARE * max(1.0, FEW_ROWS / known)
        chosen = self.points[np.linspace(0, known - 1, count).astype(np.int64)]
        rows = np.clip(chosen + self.blur * draw.standard_normal(chosen.shape), -1.0, 1.0)
        # Where all rows are blurred nothing is seen of what a function does close to values that many rows share.
        numbers = [c for c, role in enumerate(self.release.schema.roles) if role == "value"]
        rows[1::2, numbers] = chosen[1::2, numbers]
        replaced = draw.random(rows.shape) < flat
        rows[replaced] = draw.uniform(-1.0, 1.0, int(replaced.sum()))
        for group in self.release.schema.exclusive:
            # A uniform coordinate among others rarely is the largest: levels are replaced as a whole.
            moved = np.flatnonzero(draw.random(count) < flat)
            rows[moved[:, None], list(group)] = 0.0
            rows[moved, group[0] + draw.integers(0, len(group), len(moved))] = 1.0
        return self.release.schema.snap(rows)


def compared_rows(release: Release) -> Array:
    """Return the synthetic rows as points of the cube; of large and wide tables evenly chosen ones, for want of memory."""
    table, schema = release.table, release.schema
    step = -(-table.num_rows * schema.dimensions // _MOST_COMPARED)
    rows = table if step <= 1 else table.take(np.arange(0, table.num_rows, step))
    return schema.to_unit({name: rows[name] for name in schema.names})


def whole_columns(schema: Schema, columns: Sequence[int]) -> list[int]:
    """Return all coordinates of the columns that have some of these."""
    places = (schema.coordinates_of(name) for name in {schema.owners[c][0] for c in columns})
    return [c for place in places for c in range(place.start, place.stop)]


def _states(schema: Schema, columns: Sequence[int]) -> list[list[dict[int, float]]]:
    """Return, for each column that has levels or missing values among these coordinates, the states that they name."""
    found: dict[str, list[dict[int, float]]] = {}
    for c in columns:
        name, roles = schema.owners[c][0], schema.roles
        if roles[c] != "value" or isinstance(schema.columns[name], Boolean):
            cleared = dict.fromkeys(whole_columns(schema, [c]), 0.0)
            found.setdefault(name, []).extend({**cleared, c: value} for value in _VALUES[roles[c]])
    return list(found.values())


def _with_states(rows: Array, states: Sequence[Sequence[dict[int, float]]]) -> Array:
    """Return rows of which a few have such states together: each combination if these are few, else some of them."""
    combinations = list(itertools.islice(itertools.product(*states), _MOST_COMBINATIONS))
    moved = rows.copy()
    for number, place in enumerate(np.linspace(0, len(rows) - 1, _TOGETHER * len(combinations) + 2)[1:-1]):
        for state in combinations[number % len(combinations)]:
            moved[int(place), list(state)] = list(state.values())
    return moved


def _key(r: int, block: Block) -> tuple[int, int, frozenset[int]]:
    return r, int(block.places[0, 0]), block.read


def _joined(arrays: Iterable[Array]) -> Array:
    return np.concatenate([np.empty(0), *arrays])


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
    """Yield values at x, noise variance and released value of every moment of one coordinate that depends on nothing else.

    A value that may be missing is there.
    """
    beside = sorted({indicator for s in rounds for c, indicator in s.noisy.measurement.missing if c == column})
    return features_of(rounds, (column, *beside), np.column_stack([x, np.zeros((len(x), len(beside)))]))


def features_of(
    rounds: Sequence[Round], coordinates: Sequence[int], points: Array
) -> Iterator[tuple[Array, float, float]]:
    """Yield the same for a few coordinates, at points that have only those."""
    own = frozenset(coordinates)
    for known in rounds:
        blocks = list(known.within(own)) if known.family.local else []
        if not blocks:
            continue
        whole = np.zeros((len(points), known.dimensions))
        whole[:, list(coordinates)] = points
        factors = known.noisy.measurement.factors(whole)
        for block in blocks:
            for feature, value, variance in zip(block.features, *known.released(block), strict=True):
                yield feature_values(feature, factors), float(variance), float(value)


def posterior_deviations(matrix: Array, variances: Array, targets: Array) -> Array:
    """Return sqrt of  min over c of  c' N c + VAGUE^2 E (t - c . phi)^2  for each target t; all centred."""
    count, squared = len(matrix), VAGUE**2
    gram = squared * (matrix.T @ matrix) / count + np.diag(variances)
    cross = squared * (matrix.T @ targets) / count
    left = squared * np.mean(targets**2, axis=0) - np.sum(cross * np.linalg.solve(gram, cross), axis=0)
    return np.asarray(np.sqrt(np.maximum(left, 0.0)))
