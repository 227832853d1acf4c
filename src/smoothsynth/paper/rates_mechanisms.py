"""The mechanisms that the study of rates compares, and how their errors are measured.

The four mechanisms whose rates are compared, each at a true budget with exact constants.

Study code: floating-point noise from a seeded generator, which protects nobody. What is left out of the paper's Algorithm 1
is the rounding of steps 10 and 15 (it serves the proof of the running time) and the draw of rows (steps 21 to 24):
the fitted weights themselves are scored, for all four.

How far two one-dimensional distributions are apart for K-smooth queries: the dual norm of the class.

    |mu|_K = sup { integral of f dmu :  |f^(j)| <= 1 on [-1, 1] for j = 0 .. K },      mu = one minus the other

Taylor at 0 splits f into  sum_{0<j<K} f^(j)(0) x^j / j!  and a remainder that is an integral over f^(K), so with
p_K(s) = integral of (x - s)^(K-1) / (K-1)! dmu(x)  over x > s  for s > 0 (over x < s, up to its sign, for s < 0)

    integral |p_K| ds   <=   |mu|_K   <=   sum_{0<j<K} |integral x^j / j! dmu|  +  integral |p_K| ds   <=   K |mu|_K

because x^j / j! and every remainder are themselves in the class (|x| <= 1). The upper bound is what is computed. For
K = 1 both bounds are the same and  |mu|_1 = integral |F - F'|,  the Wasserstein-1 distance.

How far two distributions on [-1, 1]^d are apart for K-smooth queries, by splines of all scales.

    |mu| = sum_{l=0..L} 2^(-l K) sum_j |integral of N_{l,j} dmu|,     N_{l,j} the B-splines of degree K, 2^l cells an axis

is exactly the dual norm of the class  { sum_{l,j} c_{l,j} N_{l,j} :  |c_{l,j}| <= 2^(-l K) }.  With constants that depend
on d and K only, that class contains the K-smooth queries down to the width of the finest cell (a smooth function is
its spline approximations' differences from scale to scale, of size 2^(-l K)), and is contained in L + 1 times them
(each scale has bounded derivatives of order K). So slopes in n are those of the dual norm of the smooth class.
DeVore and Popov, Interpolation of Besov spaces, 1988. Sums over squares, as in a Sobolev norm, would not do: for
2K <= d they are infinite for every table.

The error of fitted weights on a table: the dual norm of the smooth class, by the means that fit the dimension.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.accounting.charges import Budget, gaussian_multiplier, laplace_scale
from smoothsynth.errors import PlanError
from smoothsynth.fit.candidates import grid_axis
from smoothsynth.fit.grid import fit_grid_linear_program, fit_on_simplex
from smoothsynth.methods.minimax import NODES_PER_DEGREE, Weighting, index_norms
from smoothsynth.paper.printed import parameters
from smoothsynth.paper.theory import approximate_exponent, minimax_exponent, pure_exponent
from smoothsynth.queries.bases import CosineGrid, along_axes, chebyshev, good_length, tensor
from smoothsynth.queries.sensitivity import l1_sensitivity, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from smoothsynth.paper.rates_data import StudyTable

    Array = NDArray[np.float64]


EPSILON = 1.0
DELTA = 1e-6
BUDGET = Budget(EPSILON, DELTA)

_MOST_DEGREES = 20_000
# Beyond this many moments an exact linear program takes minutes.
_MOST_PROGRAM_MOMENTS = 600
_MOST_PROGRAM_POINTS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What a mechanism hands over for scoring: weights on a grid with the same values on every axis."""

    weights: Array
    axis: Array


class Mechanism(Protocol):
    """A mechanism for given n, d and K, ready to be run again and again on one table."""

    @property
    def degrees(self) -> int:
        """The number of degrees measured in each column."""
        ...

    @property
    def nodes(self) -> int:
        """The number of grid points on each axis."""
        ...

    def run(self, table: StudyTable, moments: Array, *, generator: np.random.Generator) -> Weights | None:
        """Add noise and fit, or return None if the solver gave up; `moments` are those of the table, or more."""
        ...


@dataclass(frozen=True, slots=True)
class GridProgram:
    """The paper's Algorithm 1: rows rounded to a grid, equal noise, l1 fit on the grid.

    delta = 0: t and N of Theorem 1, Laplace noise of the exact L1 sensitivity. delta > 0: t and N of Theorem 2 and Gaussian
    noise of the L2 sensitivity (the printed Laplace noise does not have the budget it claims).
    """

    degrees: int
    nodes: int
    delta: float

    def run(self, table: StudyTable, moments: Array, *, generator: np.random.Generator) -> Weights | None:
        """Run steps 3 to 20 on the rows; `moments`, which are of rows that are not rounded, are not used."""
        axis = grid_axis(self.nodes)
        noisy = along_axes(self._rounded(table), _chebyshev(axis, self.degrees))
        noisy = noisy + self._noise(table, shape=noisy.shape, generator=generator)
        # A square program (K = 1: as many moments as points) can be too ill-conditioned to solve; the fit says so.
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            fit = fit_grid_linear_program(noisy, levels=self.nodes, tolerance=1e-6)
        if not fit.converged:
            return None
        weights = np.zeros((self.nodes,) * table.dimensions)
        weights[tuple(fit.support.T)] = fit.weights
        return Weights(weights, axis)

    def _rounded(self, table: StudyTable) -> Array:
        """Return the share of rows whose nearest grid point is each one (steps 3 to 6)."""
        level = np.clip(((table.points + 1.0) * (self.nodes / 2.0)).astype(np.int64), 0, self.nodes - 1)
        shape = (self.nodes,) * table.dimensions
        place = np.ravel_multi_index(tuple(level.T), shape)
        return (np.bincount(place, minlength=self.nodes**table.dimensions) / table.rows).reshape(shape)

    def _noise(self, table: StudyTable, *, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        sensitivity = equal_spread(self.degrees, table.dimensions)
        if self.delta == 0.0:
            return generator.laplace(0.0, laplace_scale(sensitivity, EPSILON) / table.rows, shape)
        multiplier = gaussian_multiplier(EPSILON, self.delta)
        return generator.normal(0.0, multiplier * np.sqrt(2.0 * sensitivity) / table.rows, shape)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianNoise:
    """Degrees below `degrees` in every column, and the standard deviation of each moment's noise (0: the constant)."""

    degrees: int
    deviations: Array

    @classmethod
    def of(cls, degrees: int, weighting: Weighting, *, dimensions: int, moved: float) -> GaussianNoise:
        """Return s_r = |r|^power unit L2, with L2^2 at most 2 max_z sum_r w_r^2 (1 - phi_r(z)), `moved` that maximum."""
        deviations = index_norms(degrees, dimensions) ** weighting.power * (weighting.unit * math.sqrt(2.0 * moved))
        deviations.flat[0] = 0.0
        return cls(degrees, deviations)


@dataclass(frozen=True, slots=True, eq=False)
class SquaresOnGrid:
    """Gaussian noise on the moments of the rows as they are, and the fit in squares weighted by |r|^-K.

    |r|^-K is in proportion to 1/s_r^2 where the noise is weighted by degree: the likelihood. (With |r|^-2K, the weights
    of the dual norm, the error was the same within 5 %, after more steps.)
    """

    noise: GaussianNoise
    order: int

    @property
    def degrees(self) -> int:
        """The number of degrees measured in each column."""
        return self.noise.degrees

    @property
    def nodes(self) -> int:
        """The number of grid points on each axis."""
        return good_length(NODES_PER_DEGREE[self.noise.deviations.ndim] * self.noise.degrees)

    def run(self, table: StudyTable, moments: Array, *, generator: np.random.Generator) -> Weights:
        """Add noise to the moments and fit weights that agree with them within the noise."""
        deviations = self.noise.deviations
        measured = moments[(slice(0, self.degrees),) * table.dimensions]
        grid = CosineGrid(self.degrees, self.nodes, table.dimensions)
        noisy = measured + deviations * generator.standard_normal(deviations.shape)
        importance = index_norms(self.degrees, table.dimensions) ** -float(self.order)
        return Weights(fit_on_simplex(noisy, importance, grid=grid), grid.axis)


@dataclass(frozen=True, slots=True)
class Contender:
    """A mechanism by name, the exponent its theory promises, and how to set it up; None if it would take too long."""

    name: str
    budget: str
    exponent: Callable[[int, int], float]
    prepare: Callable[[int, int, int], Mechanism | None]


def contenders() -> tuple[Contender, ...]:
    """Return the mechanisms in the order of the table."""
    approximate = f"({EPSILON:g}, {DELTA:g})"
    return (
        Contender("Algorithm 1", f"{EPSILON:g}, pure", pure_exponent, _pure),
        Contender("Algorithm 1, (eps, delta)", approximate, approximate_exponent, _approximate),
        Contender("equal Gaussian noise", approximate, equal_noise_exponent, _equal),
        Contender("degree-weighted noise", approximate, minimax_exponent, _weighted),
    )


def equal_noise_exponent(d: int, K: int) -> float:
    """Return min(K/d, 2K/(2K+d)): equal Gaussian noise on T^d moments with the best T.

    The noise of a moment is T^(d/2)/n and is felt as sqrt(sum |r|^(-2K)) of it: T^(d/2 - K), or 1 once K > d/2. Equal to the
    bias T^-K that gives  T = n^(1/d)  or  n^(2/(2K+d)).
    """
    return min(K / d, 2 * K / (2 * K + d))


def _pure(rows: int, dimensions: int, order: int) -> Mechanism | None:
    return _program(rows, dimensions, order=order, delta=0.0)


def _approximate(rows: int, dimensions: int, order: int) -> Mechanism | None:
    return _program(rows, dimensions, order=order, delta=DELTA)


def _program(rows: int, dimensions: int, *, order: int, delta: float) -> Mechanism | None:
    printed = parameters(rows, dimensions, order=order, epsilon=EPSILON, delta=delta)
    degrees, nodes = max(2, printed.degrees), printed.levels
    if degrees**dimensions > _MOST_PROGRAM_MOMENTS or nodes**dimensions > _MOST_PROGRAM_POINTS:
        return None
    return GridProgram(degrees, nodes, delta)


def _equal(rows: int, dimensions: int, order: int) -> Mechanism:
    return SquaresOnGrid(equal_noise(rows, dimensions, order=order), order)


def _weighted(rows: int, dimensions: int, order: int) -> Mechanism:
    return SquaresOnGrid(degree_weighted_noise(rows, dimensions, order=order), order)


def equal_noise(rows: int, dimensions: int, *, order: int) -> GaussianNoise:
    """Give every moment the same noise, with as many degrees as pay."""
    weighting = replace(Weighting.of(order, rows, BUDGET), power=0.0)
    degrees = weighting.degrees(dimensions, most=_MOST_DEGREES)
    return GaussianNoise.of(degrees, weighting, dimensions=dimensions, moved=equal_spread(degrees, dimensions))


def degree_weighted_noise(rows: int, dimensions: int, *, order: int) -> GaussianNoise:
    """Give moment r noise of variance proportional to |r|^K, with as many degrees as pay: what method="minimax" does."""
    weighting = Weighting.of(order, rows, BUDGET)
    degrees = weighting.degrees(dimensions, most=_MOST_DEGREES)
    moved = spread(index_norms(degrees, dimensions) ** -float(order))
    return GaussianNoise.of(degrees, weighting, dimensions=dimensions, moved=moved)


def equal_spread(degrees: int, dimensions: int) -> float:
    """Return max_z sum_r (1 - phi_r(z)) over {0 .. degrees-1}^dimensions: the L1 sensitivity of the sums."""
    if degrees < 2:
        return 0.0
    one_column = l1_sensitivity(tensor(degrees, 1), [1.0] * (degrees - 1))
    return float(degrees ** (dimensions - 1)) * one_column


def _chebyshev(axis: Array, degrees: int) -> Array:
    return chebyshev(axis[:, None], degrees - 1)[:, 0]


# Points of mass 0 that are added so that a step of the trapezoid rule is never long; one of them is 0.
_MESH = np.linspace(-1.0, 1.0, 4097)


def smooth_distance(points: Array, masses: Array, *, order: int) -> float:
    """Return the upper bound above for the signed masses at the points, which must sum to 0; exact for K = 1."""
    if order < 1 or points.shape != masses.shape or points.ndim != 1 or abs(float(masses.sum())) > 1e-6:
        raise PlanError(
            f"the distance needs order >= 1 and masses at points that sum to 0; found order={order}, shapes "
            f"{points.shape} and {masses.shape}, total {float(masses.sum()):.3g}: subtract one distribution from another"
        )
    where = np.concatenate([points, _MESH])
    # Stable sorting is a merge, and so takes no time to speak of, where the points come in sorted runs.
    ranks = np.argsort(where, kind="stable")
    where, mass = where[ranks], np.concatenate([masses, np.zeros(len(_MESH))])[ranks]
    polynomial = sum(abs(float(masses @ points**j)) / math.factorial(j) for j in range(1, order))
    left, right = where <= 0.0, where >= 0.0
    remainder = _remainder(where[left], mass[left], order=order)
    remainder += _remainder(-where[right][::-1], mass[right][::-1], order=order)
    return polynomial + remainder


def _remainder(where: Array, mass: Array, *, order: int) -> float:
    """Integrate |p_K| over the half of the points on the left of 0; the other half is handed in mirrored."""
    gaps = np.diff(where)
    steps = np.cumsum(mass)[:-1]
    if order == 1:
        return float(np.abs(steps) @ gaps)
    values = np.concatenate([[0.0], np.cumsum(steps * gaps)])
    for _ in range(order - 2):
        values = np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2.0 * gaps)])
    sizes = np.abs(values)
    return float((sizes[1:] + sizes[:-1]) / 2.0 @ gaps)


@dataclass(frozen=True, slots=True)
class SplineNorm:
    """The norm for queries of smoothness `order`, with 2^levels cells on each axis at the finest scale."""

    order: int
    levels: int

    def of_rows(self, points: Array) -> Array:
        """Return the mean over rows of every finest spline."""
        cells = 2**self.levels
        size = cells + self.order
        columns = [_splines(column, degree=self.order, cells=cells) for column in points.T]
        total = np.zeros(size ** len(columns))
        for offsets in itertools.product(range(self.order + 1), repeat=len(columns)):
            place = np.zeros(len(points), dtype=np.int64)
            value = np.ones(len(points))
            for (first, values), offset in zip(columns, offsets, strict=True):
                place = place * size + first + offset
                value *= values[offset]
            total += np.bincount(place, weights=value, minlength=len(total))
        return total.reshape((size,) * len(columns)) / len(points)

    def of_grid(self, weights: Array, axis: Array) -> Array:
        """Return the integral of every finest spline against weights on the grid axis x .. x axis."""
        cells = 2**self.levels
        first, values = _splines(axis, degree=self.order, cells=cells)
        matrix = np.zeros((cells + self.order, len(axis)))
        for offset, value in enumerate(values):
            matrix[first + offset, np.arange(len(axis))] += value
        return along_axes(weights, matrix)

    def __call__(self, integrals: Array) -> float:
        """Return the norm of a signed measure from its integrals against the finest splines."""
        total = 0.0
        for level in range(self.levels, -1, -1):
            total += 2.0 ** (-level * self.order) * float(np.abs(integrals).sum())
            if level:
                integrals = _coarser(integrals, self.order)
        return total


def _splines(points: Array, *, degree: int, cells: int) -> tuple[NDArray[np.int64], Sequence[Array]]:
    """Return the number of the first B-spline that is not 0 at each point, and the values of it and the next ones.

    N_0 is the indicator of [0, 1);  N_q(x) = (x N_{q-1}(x) + (q + 1 - x) N_{q-1}(x - 1)) / q.  Spline a is N(x - a + degree)
    with x counted in cells from the lower bound, so splines a .. a + degree cover cell a.
    """
    position = (points + 1.0) * (cells / 2.0)
    first = np.minimum(position.astype(np.int64), cells - 1)
    inside = position - first
    values = [np.ones_like(inside)]
    for q in range(1, degree + 1):
        nothing = np.zeros_like(inside)
        lower, upper = [nothing, *values], [*values, nothing]
        shifts = [inside + (q - a) for a in range(q + 1)]
        values = [(x * lo + (q + 1 - x) * up) / q for x, lo, up in zip(shifts, lower, upper, strict=True)]
    return first, values


def _coarser(integrals: Array, degree: int) -> Array:
    """Return the integrals at the next coarser scale:  N(x) = 2^-p sum_k binom(p+1, k) N(2x - k),  p the degree."""
    for axis in range(integrals.ndim):
        finer = np.moveaxis(integrals, axis, 0)
        # Splines that do not reach into the cube have no integral.
        padded = np.pad(finer, [(degree, degree), *[(0, 0)] * (finer.ndim - 1)])
        last = len(finer) + degree
        parts = [math.comb(degree + 1, k) / 2.0**degree * padded[k : k + last : 2] for k in range(degree + 2)]
        integrals = np.moveaxis(np.sum(parts, axis=0), 0, axis)
    return integrals


# 2^levels cells on each axis at the finest scale: finer than every grid that is scored, and 1 or 2 million cells in all.
_LEVELS = {2: 10, 3: 7}


class Score(Protocol):
    """The error of weights on one table for queries of one smoothness."""

    def __call__(self, fitted: Weights) -> float:
        """Return the largest error over the class, or what stands for it."""
        ...

    def of_rows(self, points: Array) -> float:
        """Return the same for rows, all of the same weight."""
        ...


def score_for(table: StudyTable, order: int) -> Score:
    """Return the score of the dimension of the table."""
    if table.dimensions == 1:
        return _Line(np.sort(table.points[:, 0]), order)
    norm = SplineNorm(order, _LEVELS[table.dimensions])
    return _Splines(norm, norm.of_rows(table.points))


def measured_in(dimensions: int, order: int) -> str:
    """Say in which norm errors are measured."""
    if dimensions == 1:
        return "dual norm: Wasserstein-1" if order == 1 else f"dual norm, within a factor {order}"
    return "dual norm of splines"


def flat_weights(dimensions: int) -> Weights:
    """Return equal weights on a grid: what can be said without any data."""
    levels = 64
    return Weights(np.full((levels,) * dimensions, float(levels) ** -dimensions), grid_axis(levels))


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """One column: the distance of `dual_norm`, from the sorted rows."""

    points: Array
    order: int

    def __call__(self, fitted: Weights) -> float:
        rank = np.argsort(fitted.axis)
        masses = np.concatenate([np.full(len(self.points), 1.0 / len(self.points)), -fitted.weights[rank]])
        return smooth_distance(np.concatenate([self.points, fitted.axis[rank]]), masses, order=self.order)

    def of_rows(self, points: Array) -> float:
        return self(Weights(np.full(len(points), 1.0 / len(points)), points[:, 0]))


@dataclass(frozen=True, slots=True, eq=False)
class _Splines:
    """Several columns: the norm of `spline_norm`, from the rows' means of the finest splines."""

    norm: SplineNorm
    means: Array

    def __call__(self, fitted: Weights) -> float:
        return self.norm(self.means - self.norm.of_grid(fitted.weights, fitted.axis))

    def of_rows(self, points: Array) -> float:
        return self.norm(self.means - self.norm.of_rows(points))
