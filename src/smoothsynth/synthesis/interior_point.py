"""A dense interior-point method for a small l1 fit: the rough solution from which the exact one starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_LEAST_SLACK = 1e-20


@dataclass(frozen=True, slots=True)
class InteriorPoint:
    """A strictly interior pair: primal x = (u, p, q), dual (y, y0), and the slack of each entry of x."""

    primal: Array
    slack: Array
    dual: Array
    level: float
    steps: int


def solve_interior_point(
    matrix: Array, target: Array, *, gap: float, cost: Array | None = None, max_steps: int = 60
) -> InteriorPoint:
    """Solve a small l1 fit to a duality gap, with the dual feasible at every step.

        minimise c.u + 1'p + 1'q   subject to   W'u + p - q = b,  1'u = 1,  u, p, q >= 0
        dual: maximise b.y + y0   subject to   W y + y0 <= c,  |y_r| <= 1

    The cost c >= 0 is 0 unless given.

    Mehrotra's predictor and corrector (SIAM J. Optim. 2, 1992); the normal equations are dense, (R+1) x (R+1).
    """
    rows, moments = matrix.shape
    lifted = np.hstack([matrix, np.ones((rows, 1))])
    right = np.append(target, 1.0)
    dual = np.zeros(moments + 1)
    dual[-1] = -0.5
    primal = _start(matrix, target)
    costs = np.concatenate([np.zeros(rows) if cost is None else cost, np.ones(2 * moments)])
    slack = costs - _transpose(lifted, dual)
    steps = 0
    for _ in range(max_steps):
        shortfall = right - _forward(lifted, primal)
        if primal @ slack < gap and np.abs(shortfall).max() < 1e-9:
            break
        try:
            change, primal_change = _direction(lifted, primal, slack=slack, shortfall=shortfall)
        except np.linalg.LinAlgError:
            break
        slack_change = -_transpose(lifted, change)
        primal = primal + 0.995 * _longest(primal, primal_change) * primal_change
        dual = dual + 0.995 * _longest(slack, slack_change) * change
        # Near the end a slack is a difference of nearly equal numbers, and may round to nothing or less.
        slack = np.maximum(costs - _transpose(lifted, dual), _LEAST_SLACK)
        steps += 1
    return InteriorPoint(primal, slack, dual[:-1], float(dual[-1]), steps)


def _start(matrix: Array, target: Array) -> Array:
    rows = len(matrix)
    weights = np.full(rows, 1.0 / rows)
    rest = target - weights @ matrix
    above = np.maximum(rest, 0.0) + 0.1 * np.abs(rest).mean() + 1e-3
    return np.concatenate([weights, above, above - rest])


def _forward(lifted: Array, primal: Array) -> Array:
    rows, moments = lifted.shape[0], lifted.shape[1] - 1
    out: Array = np.dot(primal[:rows], lifted)
    out[:-1] += primal[rows : rows + moments] - primal[rows + moments :]
    return out


def _transpose(lifted: Array, dual: Array) -> Array:
    return np.concatenate([np.dot(lifted, dual), dual[:-1], -dual[:-1]])


def _direction(lifted: Array, primal: Array, *, slack: Array, shortfall: Array) -> tuple[Array, Array]:
    rows, moments = lifted.shape[0], lifted.shape[1] - 1
    ratio = primal / slack
    scaled = lifted * np.sqrt(ratio[:rows, None])
    normal: Array = np.dot(scaled.T, scaled)
    inner = np.arange(moments)
    normal[inner, inner] += ratio[rows : rows + moments] + ratio[rows + moments :]

    def solve(products: Array) -> tuple[Array, Array]:
        change = np.linalg.solve(normal, shortfall - _forward(lifted, products / slack)).astype(np.float64, copy=False)
        return change, products / slack + ratio * _transpose(lifted, change)

    products = primal * slack
    mean = float(products.mean())
    change, primal_change = solve(-products)
    slack_change = -_transpose(lifted, change)
    reached = primal + _longest(primal, primal_change) * primal_change
    centre = (reached @ (slack + _longest(slack, slack_change) * slack_change) / len(primal) / mean) ** 3
    return solve(centre * mean - products - primal_change * slack_change)


def _longest(values: Array, change: Array) -> float:
    falling = change < 0
    if not falling.any():
        return 1.0
    return float(min(1.0, np.min(-values[falling] / change[falling])))
