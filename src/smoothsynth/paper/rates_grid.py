"""Functions on a grid of cosines, for the study of rates.

Chebyshev moments of weights on a grid, and their transpose, axis by axis.

The nodes of one axis are x_j = cos(pi (j + 1/2) / M), j = 0 .. M-1, so  T_r(x_j) = cos(pi r (j + 1/2) / M)  and

    moments:    b_r = sum_j u_j prod_i T_{r_i}(x_{j_i})          0 <= r_i < T
    transpose:  v_j = sum_r y_r prod_i T_{r_i}(x_{j_i})

On these nodes the features are orthogonal: the moments of the transpose of y are  y_r prod_i (M if r_i = 0 else M/2).

The fit of the study: weights on a grid of Chebyshev nodes that agree with noisy moments in weighted squares.

    minimise  sum_r c_r (W u - b)_r^2    subject to   u >= 0,  1'u = 1

Alternating directions (Boyd et al. 2011) with u in the squares and a copy v in the simplex. On Chebyshev nodes
W W' is diagonal, so the squares are minimised in closed form, whatever their number:

    u <- q + W' [ c_r (b - W q)_r / (rho + c_r (W W')_r) ],   q = v - y
    v <- the nearest point of the simplex to  u + y,          y <- y + u - v

How much noise the full tensor of Chebyshev products needs: constants for a true budget.

For weights w_r >= 0 on {0 .. T-1}^d and rows x, x' in the cube

    L1 = max sum_r w_r |phi_r(x) - phi_r(x')|         =  max_z sum_r w_r (1 - phi_r(z))
    L2 = max sqrt(sum_r w_r (phi_r(x) - phi_r(x'))^2)  <=  sqrt(2 max_z sum_r w_r (1 - phi_r(z)))

since |a - b| <= 1 - ab and (a - b)^2 <= 2 - 2ab on [-1, 1], and phi_r(x) phi_r(x') is the mean of phi_r over the same 2^d
points z for every r. Equal weights: the sum is T^d - prod_i D(z_i) with D(z) = sum_{r<T} T_r(z) <= T, so the maximum is
T^(d-1) times that of one column, which `l1_sensitivity` has exactly.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import tensor
from smoothsynth.queries.sensitivity import l1_sensitivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


# Up to this many nodes an axis is faster as a matrix product than as a Fourier transform.
_LONGEST_MATRIX = 1200


@dataclass(frozen=True, slots=True)
class CosineGrid:
    """All products of T_0 .. T_{degrees-1} on the Chebyshev nodes of [-1, 1]^dimensions, `nodes` on each axis."""

    degrees: int
    nodes: int
    dimensions: int

    def __post_init__(self) -> None:
        if self.degrees < 1 or self.dimensions < 1 or self.nodes < 2 * self.degrees:
            raise PlanError(
                f"a cosine grid needs degrees and dimensions of at least 1 and two nodes per degree; found "
                f"{self.degrees}, {self.dimensions} and {self.nodes} nodes: take more nodes"
            )

    @property
    def axis(self) -> Array:
        """The nodes of one axis, from near 1 down to near -1."""
        return np.cos(np.pi * (np.arange(self.nodes) + 0.5) / self.nodes)

    @property
    def lengths(self) -> Array:
        """The sum over the grid of each squared feature: M (degree 0) or M/2 for each axis."""
        one = np.full(self.degrees, self.nodes / 2.0)
        one[0] = self.nodes
        return functools.reduce(np.multiply.outer, [one] * self.dimensions)

    def moments(self, weights: Array) -> Array:
        """Return the moments of weights on the grid."""
        if self.nodes > _LONGEST_MATRIX:
            return _each_axis(weights, functools.partial(_fourier_moments, degrees=self.degrees))
        return along_axes(weights, _matrix(self.degrees, self.nodes))

    def transpose(self, values: Array) -> Array:
        """Return the polynomial with these Chebyshev coefficients at every grid point."""
        if self.nodes > _LONGEST_MATRIX:
            return _each_axis(values, functools.partial(_fourier_transpose, nodes=self.nodes))
        return along_axes(values, _matrix(self.degrees, self.nodes).T)


def along_axes(array: Array, matrix: Array) -> Array:
    """Multiply every axis of the array by the same matrix."""
    for _ in range(array.ndim):
        # The axis worked on comes out last, so after one turn all axes are back in order.
        array = np.dot(array.reshape(len(array), -1).T, matrix.T).reshape(*array.shape[1:], len(matrix))
    return array


def good_length(least: int) -> int:
    """Return the smallest even number with no prime factor above 5 that is at least `least`."""
    size = least + least % 2
    while functools.reduce(_without, (2, 3, 5), size) != 1:
        size += 2
    return size


def _without(number: int, prime: int) -> int:
    while number % prime == 0:
        number //= prime
    return number


@functools.lru_cache(maxsize=8)
def _matrix(degrees: int, nodes: int) -> Array:
    return np.cos(np.pi / nodes * np.outer(np.arange(degrees), np.arange(nodes) + 0.5))


def _each_axis(array: Array, transform: functools.partial[Array]) -> Array:
    for axis in range(array.ndim):
        array = np.moveaxis(transform(np.moveaxis(array, axis, -1)), -1, axis)
    return array


def _fourier_moments(values: Array, *, degrees: int) -> Array:
    """Sum v_j cos(pi r (j + 1/2) / M) over j by one real Fourier transform of length M (Makhoul 1980)."""
    nodes = values.shape[-1]
    folded = np.concatenate([values[..., ::2], values[..., 1::2][..., ::-1]], axis=-1)
    spectrum = np.fft.rfft(folded)[..., :degrees]
    return np.real(spectrum * np.exp(-0.5j * np.pi / nodes * np.arange(degrees)))


def _fourier_transpose(values: Array, *, nodes: int) -> Array:
    """Sum y_r cos(pi r (j + 1/2) / M) over r, the transpose of `_fourier_moments`."""
    degrees = values.shape[-1]
    turned = np.exp(0.5j * np.pi / nodes * np.arange(degrees)) * np.where(np.arange(degrees) > 0, 0.5, 1.0)
    folded = np.fft.irfft(values * turned, nodes) * nodes
    result = np.empty_like(folded)
    half = (nodes + 1) // 2
    result[..., ::2] = folded[..., :half]
    result[..., 1::2] = folded[..., half:][..., ::-1]
    return result


# rho, relative to the stiffest square, rises tenfold in every 40 steps. A small rho fits the moments at once, a large one
# settles the weights; rising beats every fixed value and every falling sequence that was tried, on all sizes of
# the study. After these steps the error of the moments is within 2 % of where ten times as many lead.
_FIRST_PENALTY, _LAST_PENALTY = 1e-5, 1e-2
_RISING_STEPS, _STEPS = 120, 140
_RISE_EVERY = 10
_RELAXATION = 1.6


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


# Nodes per degree of the grid on which a trigonometric sum is maximised; what it can miss is added.
_NOISE_NODES_PER_DEGREE = 4
_MOST_DEGREES = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class GaussianNoise:
    """Degrees below `degrees` in every column, and the standard deviation of each moment's noise (0: the constant)."""

    degrees: int
    deviations: Array


def equal_spread(degrees: int, dimensions: int) -> float:
    """Return max_z sum_r (1 - phi_r(z)) over {0 .. degrees-1}^dimensions: the L1 sensitivity of the sums."""
    if degrees < 2:
        return 0.0
    one_column = l1_sensitivity(tensor(degrees, 1), [1.0] * (degrees - 1))
    return float(degrees ** (dimensions - 1)) * one_column


def spread(weights: Array) -> float:
    """Bound  max_z sum_r w_r (1 - phi_r(z))  from above, with any weights.

    In angles the sum is smooth with vanishing gradient at its maximum; the nearest node is off by at most half a step
    h/2 in each angle, so the grid misses at most  (h/2)^2 / 2 sum_r w_r (r_1 + .. + r_d)^2.
    """
    degrees, total = len(weights), float(weights.sum())
    grid = CosineGrid(degrees, _NOISE_NODES_PER_DEGREE * degrees, weights.ndim)
    lowest = float(grid.transpose(weights).min())
    missed = (math.pi / grid.nodes) ** 2 / 8.0 * float((weights * _index_sums(degrees, weights.ndim) ** 2).sum())
    return min((total - lowest + missed) * (1.0 + 1e-12), 2.0 * total)


def equal_noise(rows: int, dimensions: int, *, order: int, multiplier: float) -> GaussianNoise:
    """Give every moment the same noise, with as many degrees as pay (`_degrees`)."""
    degrees = _degrees(rows, dimensions, order=order, multiplier=multiplier, power=0.0)
    deviations = np.full(
        (degrees,) * dimensions, multiplier / rows * math.sqrt(2.0 * equal_spread(degrees, dimensions))
    )
    deviations.flat[0] = 0.0
    return GaussianNoise(degrees, deviations)


def degree_weighted_noise(rows: int, dimensions: int, *, order: int, multiplier: float) -> GaussianNoise:
    """Give moment r noise of variance proportional to |r|^K (DESIGN 5.2), with as many degrees as pay.

    One row moves the moments, each divided by |r|^(K/2), by at most L2 of the weights w_r = |r|^-K, so

        s_r = |r|^(K/2) multiplier L2 / n.
    """
    degrees = _degrees(rows, dimensions, order=order, multiplier=multiplier, power=float(order))
    sizes = index_norms(degrees, dimensions)
    weights = sizes ** -float(order)
    weights.flat[0] = 0.0
    deviations = sizes ** (order / 2.0) * (multiplier / rows * math.sqrt(2.0 * spread(weights)))
    deviations.flat[0] = 0.0
    return GaussianNoise(degrees, deviations)


@functools.lru_cache(maxsize=4)
def index_norms(degrees: int, dimensions: int) -> Array:
    """Return |r|, the Euclidean length of every multi-index, with 1 in place of the 0 of the constant."""
    squares = functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64) ** 2] * dimensions)
    sizes = np.sqrt(squares)
    sizes.flat[0] = 1.0
    sizes.setflags(write=False)
    return np.asarray(sizes)


def predicted_noise(degrees: int, *, rows: int, dimensions: int, order: int, multiplier: float, power: float) -> float:
    """Return sqrt(sum |r|^(-2K) s_r^2), s_r^2 = |r|^power (2 multiplier/n)^2 sum |r|^-power: the error due to noise."""
    sizes = index_norms(degrees, dimensions).ravel()[1:]
    needed = float((sizes**-power).sum())
    felt = float((sizes ** (power - 2.0 * order)).sum())
    return 2.0 * multiplier / rows * math.sqrt(needed * felt)


def _degrees(rows: int, dimensions: int, *, order: int, multiplier: float, power: float) -> int:
    """Return the smallest T whose bias T^-K is not above the predicted error due to noise: public facts only."""
    if rows < 1 or dimensions < 1 or order < 1:
        raise PlanError(f"rows, dimensions and order must be at least 1; found {rows}, {dimensions} and {order}.")

    def pays(degrees: int) -> bool:
        noise = predicted_noise(
            degrees, rows=rows, dimensions=dimensions, order=order, multiplier=multiplier, power=power
        )
        return float(degrees) ** -order > noise

    low, high = 1, 2
    while pays(high) and high < _MOST_DEGREES:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return max(2, high)


def _index_sums(degrees: int, dimensions: int) -> Array:
    return functools.reduce(np.add.outer, [np.arange(degrees, dtype=np.float64)] * dimensions)
