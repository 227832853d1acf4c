"""The four mechanisms whose rates are compared, each at a true budget with exact constants.

Study code: floating-point noise from a seeded generator, which protects nobody. What is left out of the paper's Algorithm 1
is the rounding of steps 10 and 15 (it serves the proof of the running time) and the draw of rows (steps 21 to 24):
the fitted weights themselves are scored, for all four.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.accounting.charges import gaussian_multiplier, laplace_scale
from smoothsynth.fit.candidates import grid_axis
from smoothsynth.fit.grid import fit_grid_linear_program
from smoothsynth.paper.printed import parameters
from smoothsynth.paper.rates.cosine import CosineGrid, along_axes, good_length
from smoothsynth.paper.rates.noise import GaussianNoise, degree_weighted_noise, equal_noise, equal_spread, index_norms
from smoothsynth.paper.rates.simplex import fit_on_simplex
from smoothsynth.paper.theory import approximate_exponent, minimax_exponent, pure_exponent
from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.paper.rates.table import StudyTable

    Array = NDArray[np.float64]

EPSILON = 1.0
DELTA = 1e-6

# Nodes per degree of the grid of the Gaussian mechanisms, by columns. With two, the grid itself is the largest error.
_NODES_PER_DEGREE = {1: 6, 2: 3, 3: 3}
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
        return good_length(_NODES_PER_DEGREE[self.noise.deviations.ndim] * self.noise.degrees)

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
    multiplier = gaussian_multiplier(EPSILON, DELTA)
    return SquaresOnGrid(equal_noise(rows, dimensions, order=order, multiplier=multiplier), order)


def _weighted(rows: int, dimensions: int, order: int) -> Mechanism:
    multiplier = gaussian_multiplier(EPSILON, DELTA)
    return SquaresOnGrid(degree_weighted_noise(rows, dimensions, order=order, multiplier=multiplier), order)


def _chebyshev(axis: Array, degrees: int) -> Array:
    return chebyshev(axis[:, None], degrees - 1)[:, 0]
