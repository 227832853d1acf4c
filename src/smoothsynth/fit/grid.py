"""Both fits on the full tensor grid (Kronecker).

Chebyshev features on the paper's full grid, known by the Kronecker structure of their matrix alone.

    W_kr = T_r1(a_k1) * ... * T_rd(a_kd),   k in {0..N-1}^d,   r in {0..t-1}^d without 0

Every product with W is a contraction axis by axis, so the N^d x t^d matrix never exists. Vectors over the grid and over
the moments are flat, the last axis running fastest.

Both fits on the paper's full grid {a_k}^d with the full tensor of Chebyshev features {0..t-1}^d.

Weights on a grid of Chebyshev nodes that agree with noisy moments in weighted squares.

    minimise  sum_r c_r (W u - b)_r^2    subject to   u >= 0,  1'u = 1

Alternating directions (Boyd et al. 2011) with u in the squares and a copy v in the simplex. On Chebyshev nodes
W W' is diagonal, so the squares are minimised in closed form, whatever their number:

    u <- q + W' [ c_r (b - W q)_r / (rho + c_r (W W')_r) ],   q = v - y
    v <- the nearest point of the simplex to  u + y,          y <- y + u - v
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.fit.candidates import grid_axis
from smoothsynth.fit.entropy_dual import EntropyDual
from smoothsynth.fit.linear_program import Priced, generate_columns
from smoothsynth.fit.linear_program import describe as describe_program
from smoothsynth.fit.maximum_entropy import METHOD, SMALLEST_SCALE
from smoothsynth.fit.maximum_entropy import describe as describe_entropy
from smoothsynth.fit.newton import minimise_dual
from smoothsynth.fit.result import CLOSE, NOT_CLOSE, Fit
from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.fit.result import Progress
    from smoothsynth.queries.bases import CosineGrid

    Array = NDArray[np.float64]
    Indices = NDArray[np.int64]


MOST_GRID_POINTS = 100_000_000
_BLOCK_ENTRIES = 2**20
# A cut that binds may exceed its level by rounding, and by the solver's tolerance: that is no violation.
_VIOLATION = 1e-9


def round_to_lattice(values: Array, lattice: int) -> Array:
    """Round to the nearest of i/L, i = -L .. L, ties to even (Algorithm 1, steps 10 and 15)."""
    return np.clip(np.rint(values * lattice), -lattice, lattice) / lattice


@dataclass(frozen=True, slots=True)
class GridFeatures:
    """The features T_0 .. T_2(t-1) of one axis, (2t-1, N), and the number of axes."""

    table: Array
    degrees: int
    dimensions: int

    @classmethod
    def of(cls, levels: int, *, degrees: int, dimensions: int) -> GridFeatures:
        """Tabulate one axis; the degrees up to 2(t-1) serve the products of two features."""
        if levels < 1 or degrees < 2 or dimensions < 1 or levels**dimensions > MOST_GRID_POINTS:
            raise PlanError(
                f"a grid must have 1 to {MOST_GRID_POINTS} points and features of degree 1 at least; found {levels} "
                f"levels, {dimensions} columns and degrees below {degrees}: lower the levels, or draw hypercube "
                f"candidates instead"
            )
        return cls(chebyshev(grid_axis(levels)[:, None], 2 * degrees - 2)[:, 0], degrees, dimensions)

    @property
    def count(self) -> int:
        """The number of grid points."""
        return int(self.table.shape[1] ** self.dimensions)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tensor over the grid."""
        return (self.table.shape[1],) * self.dimensions

    def forward(self, multipliers: Array) -> Array:
        """Return W y: the polynomial with coefficients y at every grid point."""
        tensor = np.append(0.0, multipliers).reshape((self.degrees,) * self.dimensions)
        for _ in range(self.dimensions):
            tensor = np.tensordot(tensor, self.table[: self.degrees], axes=(0, 0))
        return tensor.ravel()

    def adjoint(self, weights: Array) -> Array:
        """Return W'u: the moments of the weights."""
        return _contract(weights.reshape(self.shape), self.table[: self.degrees]).ravel()[1:]

    def gram(self, weights: Array, *, negligible: float) -> Array:
        """Return W' diag(u) W from the moments of twice the degree: T_a T_b = (T_{a+b} + T_|a-b|) / 2."""
        moments = _contract(weights.reshape(self.shape), self.table)
        degree = np.arange(self.degrees)
        product = np.zeros((self.degrees, self.degrees, len(self.table)))
        rows, columns = np.meshgrid(degree, degree, indexing="ij")
        np.add.at(product, (rows, columns, rows + columns), 0.5)
        np.add.at(product, (rows, columns, np.abs(rows - columns)), 0.5)
        for _ in range(self.dimensions):
            moments = np.tensordot(moments, product, axes=(0, 2))
        order = [*range(0, 2 * self.dimensions, 2), *range(1, 2 * self.dimensions, 2)]
        size = self.degrees**self.dimensions
        return moments.transpose(order).reshape(size, size)[1:, 1:]

    def gram_times(self, weights: Array, vector: Array) -> Array:
        """Return W' diag(u) W v."""
        return self.adjoint(weights * self.forward(vector))

    def gram_diagonal(self, weights: Array) -> Array:
        """Return the second moment of every feature."""
        return _contract(weights.reshape(self.shape), self.table[: self.degrees] ** 2).ravel()[1:]

    def features(self, indices: Indices) -> Array:
        """Return the features of some grid points, one row each."""
        product = np.ones((len(indices), 1))
        for level in np.unravel_index(indices, self.shape):
            axis = self.table[: self.degrees, level].T
            product = (product[:, :, None] * axis[:, None, :]).reshape(len(indices), -1)
        return product[:, 1:]

    def price(self, dual: Array, *, limit: int, level: float) -> Priced:
        """Return the highest local maxima of the polynomial over the grid."""
        values = self.forward(dual)
        peaks = self.peaks(values, above=-level)
        top = peaks[np.argsort(-values[peaks], kind="stable")[:limit]]
        return Priced(top, values[top])

    def peaks(self, values: Array, *, above: float) -> Indices:
        """Return the grid points above a value that no neighbour along an axis exceeds, and the highest of all."""
        tensor = values.reshape(self.shape)
        peak = tensor > above
        for axis in range(self.dimensions):
            moved, flags = np.moveaxis(tensor, axis, 0), np.moveaxis(peak, axis, 0)
            flags[1:] &= moved[1:] >= moved[:-1]
            flags[:-1] &= moved[:-1] >= moved[1:]
        peak.ravel()[np.argmax(values)] = True
        return np.flatnonzero(peak)


@dataclass(frozen=True, slots=True)
class RoundedGridFeatures:
    """The same features, each rounded to a multiple of 1/L: no Kronecker structure is left, but it stays a guide."""

    smooth: GridFeatures
    lattice: int

    @property
    def count(self) -> int:
        """The number of grid points."""
        return self.smooth.count

    def features(self, indices: Indices) -> Array:
        """Return the rounded features of some grid points, one row each."""
        return round_to_lattice(self.smooth.features(indices), self.lattice)

    def price(self, dual: Array, *, limit: int, level: float) -> Priced:
        """Return rounded peaks of the smooth polynomial while they violate a cut, and then search the whole grid."""
        guide = self.smooth.forward(dual)
        peaks = self.smooth.peaks(guide, above=-level)
        peaks = peaks[np.argsort(-guide[peaks], kind="stable")[: 2 * limit]]
        values = np.dot(self.features(peaks), dual)
        order = np.argsort(-values, kind="stable")[:limit]
        if values[order[0]] > _VIOLATION - level:
            return Priced(peaks[order], values[order], exact=False)
        return self._search(guide, dual, limit=limit, reached=float(values[order[0]]))

    def _search(self, guide: Array, dual: Array, *, limit: int, reached: float) -> Priced:
        """Search for the largest rounded W_k.y, passing over the points that rounding cannot lift above `reached`.

        Rounding moves W_k.y by at most |y|_1 / (2L).
        """
        reach = float(np.abs(dual).sum()) / (2 * self.lattice) + _VIOLATION
        near = np.flatnonzero(guide >= reached - reach)
        order = near[np.argsort(-guide[near], kind="stable")]
        size = max(1, _BLOCK_ENTRIES // len(dual))
        indices, values = np.empty(0, dtype=np.int64), np.empty(0)
        for first in range(0, len(order), size):
            if len(values) and guide[order[first]] + reach < values[0]:
                break
            block = order[first : first + size]
            indices = np.concatenate([indices, block])
            values = np.concatenate([values, np.dot(self.features(block), dual)])
            top = np.argsort(-values, kind="stable")[:limit]
            indices, values = indices[top], values[top]
        return Priced(indices, values)


def _contract(tensor: Array, table: Array) -> Array:
    for _ in range(tensor.ndim):
        tensor = np.tensordot(tensor, table, axes=(0, 1))
    return tensor


@dataclass(frozen=True, slots=True)
class GridFit:
    """Weights on a few points of a grid: point j is (a_k1, ..., a_kd) with k = support[j]."""

    support: NDArray[np.int64]
    weights: Array
    optimum: float
    converged: bool
    outcome: str
    steps: int

    def __post_init__(self) -> None:
        self.support.setflags(write=False)
        self.weights.setflags(write=False)


def fit_grid_linear_program(
    target: NDArray[np.floating],
    *,
    levels: int,
    lattice: int | None = None,
    tolerance: float = 1e-9,
    progress: Progress | None = None,
) -> GridFit:
    """Solve the paper's linear program on its own grid.

        minimise |W'u - b|_1   subject to   u >= 0,  1'u = 1,   u on {a_k}^d,  a_k = (2k + 1 - N) / N

    `target` has one axis of length t per column, and its entry 0 .. 0, the constant, is ignored. With `lattice` = L
    every entry of W is rounded to a multiple of 1/L, and the optimum is that of the rounded program; round the target
    with `round_to_lattice` to have the paper's program to the letter. Algorithm 1, steps 13 to 20.
    """
    noisy = _checked(target)
    smooth = GridFeatures.of(levels, degrees=noisy.shape[0], dimensions=noisy.ndim)
    if lattice is not None and lattice < 1:
        raise PlanError(f"the lattice must be a whole number >= 1; found {lattice}: leave it out for no rounding")
    columns = smooth if lattice is None else RoundedGridFeatures(smooth, lattice)
    generated = generate_columns(columns, noisy.ravel()[1:], tolerance=tolerance, progress=progress)
    return GridFit(
        support=np.stack(np.unravel_index(generated.support, smooth.shape), axis=1).astype(np.int64),
        weights=generated.weights,
        optimum=generated.optimum,
        converged=generated.converged,
        outcome=describe_program(generated, tolerance=tolerance),
        steps=generated.steps,
    )


def fit_grid_maximum_entropy(
    target: NDArray[np.floating],
    *,
    levels: int,
    scale: float | NDArray[np.floating],
    tolerance: float = 1e-8,
    max_steps: int = 100,
    progress: Progress | None = None,
) -> Fit:
    """Fit the flattest weights on the whole grid whose moments agree with the target within the noise.

    `target`, and `scale` unless it is one number, have one axis of length t per column; entry 0 .. 0 is ignored. The
    weights of the fit have the shape of the grid, (N, ..., N), and its dual has the shape of the target.
    """
    noisy = _checked(target)
    features = GridFeatures.of(levels, degrees=noisy.shape[0], dimensions=noisy.ndim)
    flat = np.full(features.count, -np.log(features.count))
    dual = EntropyDual(features, noisy.ravel()[1:], flat, _variances(scale, shape=noisy.shape))
    found = minimise_dual(dual, tolerance=tolerance, max_steps=max_steps, progress=progress)
    return Fit(
        weights=found.point.weights.reshape(features.shape),
        method=METHOD,
        converged=found.residual <= tolerance,
        outcome=describe_entropy(found, tolerance=tolerance),
        steps=found.steps,
        residual=found.residual,
        dual=np.append(0.0, found.point.multipliers).reshape(noisy.shape),
    )


def _variances(scale: float | NDArray[np.floating], *, shape: tuple[int, ...]) -> Array:
    deviation = np.asarray(scale, dtype=np.float64)
    if deviation.shape in {(), shape}:
        deviation = np.broadcast_to(deviation, shape).ravel()[1:]
        if deviation.min() >= 0.0 and np.isfinite(deviation).all():
            return np.maximum(deviation, SMALLEST_SCALE) ** 2
    raise PlanError(
        f"the scale must be one number >= 0, or one per moment; found an array of shape {np.shape(scale)} that is not, "
        f"for a target of shape {shape}: pass the standard deviation of each moment's noise"
    )


def _checked(target: NDArray[np.floating]) -> Array:
    noisy = np.asarray(target, dtype=np.float64)
    if noisy.ndim < 1 or len(set(noisy.shape)) != 1 or not np.isfinite(noisy.ravel()[1:]).all():
        raise PlanError(
            f"the target must have one axis per column, all of the same length t >= 2, and be finite; found an array "
            f"of shape {noisy.shape} that is not: fill in every moment of degree below t in each column"
        )
    return noisy


# rho, relative to the stiffest square, rises tenfold in every 40 steps. A small rho fits the moments at once, a large one
# settles the weights; rising beats every fixed value and every falling sequence that was tried, on all sizes of
# the study. After these steps the error of the moments is within 2 % of where ten times as many lead.
_FIRST_PENALTY, _LAST_PENALTY = 1e-5, 1e-2
_RISING_STEPS, _STEPS = 120, 140
_RISE_EVERY = 10
_RELAXATION = 1.6
# Noise itself is hardly ever so many times as far as is expected of it.
_FARTHEST = 3.0


def fit_grid_least_squares(target: Array, *, noise: Array, felt: Array, grid: CosineGrid) -> Fit:
    """Fit weights on Chebyshev nodes in squares over the variances of the target; `noise` are its deviations.

    The residual is in the squares that queries feel (docs/proofs/minimax.md):  sqrt(sum f_r (W u - b)_r^2 / sum f_r s_r^2).
    """
    weights = fit_on_simplex(target, noise**-2.0, grid=grid)
    missed = float((felt * (grid.moments(weights) - target) ** 2).ravel()[1:].sum())
    ratio = math.sqrt(missed / float((felt * noise**2).ravel()[1:].sum()))
    return Fit(
        weights=weights,
        method="least squares",
        converged=ratio <= _FARTHEST,
        outcome=(CLOSE if ratio <= _FARTHEST else NOT_CLOSE).format(steps=_STEPS, ratio=ratio),
        steps=_STEPS,
        residual=ratio,
        dual=np.zeros(0),
    )


def fit_on_simplex(target: Array, importance: Array, *, grid: CosineGrid) -> Array:
    """Return weights on the grid whose moments are close to `target` in squares weighted by `importance`.

    Entry 0 .. 0 of both belongs to the constant feature, which the simplex holds at 1; it is ignored.
    """
    importance = importance.copy()
    importance.flat[0] = 0.0
    stiffness = importance * grid.lengths
    weights = np.full((grid.nodes,) * grid.dimensions, 1.0 / grid.nodes**grid.dimensions)
    lag = np.zeros_like(weights)
    level, rho = 0.0, 0.0
    for step in range(_STEPS):
        if step % _RISE_EVERY == 0 and step <= _RISING_STEPS:
            before, rho = rho, _penalty(step) * float(stiffness.max())
            lag *= before / rho
            gain = importance / (rho + stiffness)
        start = weights - lag
        moved = start + grid.transpose(gain * (target - grid.moments(start)))
        moved *= _RELAXATION
        moved += (1.0 - _RELAXATION) * weights
        moved += lag
        weights, level = onto_simplex(moved, level)
        np.subtract(moved, weights, out=lag)
    return weights


def onto_simplex(point: Array, guess: float = 0.0) -> tuple[Array, float]:
    """Return the nearest weights u >= 0 with sum 1, and the level with  u = max(point - level, 0).

    Newton's method for  sum max(point - level, 0) = 1, convex and falling in the level: exact after finitely many
    steps, few of them from the level of a nearby point.
    """
    lowest = (float(point.sum()) - 1.0) / point.size
    level = max(guess, lowest)
    while True:
        above = point[point > level]
        if above.size == 0:
            level = lowest
            continue
        better = (float(above.sum()) - 1.0) / above.size
        if abs(better - level) <= 1e-15 + 1e-13 * abs(level):
            return np.maximum(point - better, 0.0), better
        level = better


def _penalty(step: int) -> float:
    return _FIRST_PENALTY * math.pow(_LAST_PENALTY / _FIRST_PENALTY, step / _RISING_STEPS)
