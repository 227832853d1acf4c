"""Newton's method for the dual of the maximum-entropy fit, led along a path of noise that shrinks to the true one.

Far from the solution a Newton step can throw all weight on one candidate. So the noise is enlarged to S + rho D, with D
the variance of each feature under the base measure, and rho falls to 0 as fast as the steps stay trustworthy: a step d
changes the exponents l.W_k by d.W_k, whose variance d'Cov d must stay moderate, for that is the part of F that is not
quadratic. Where the target is near, rho is 0 from the first step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.conjugate_gradient import solve_conjugate_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.synthesis.entropy_dual import EntropyDual, Point
    from smoothsynth.synthesis.fit import Progress

    Array = NDArray[np.float64]
    Solver = Callable[[float, Array], Array]

# Beyond this many moments the Hessian takes more memory than it is worth; up to it, it wins over products by far.
_DENSE_UP_TO = 6000
_LARGEST_EXTRA = 100.0
_SHRINKAGES = (0.0, 0.01, 0.1, 0.3, 0.6)
_TRUSTED_VARIANCE = 4.0
_MOST_LENGTHS = 60


@dataclass(frozen=True, slots=True)
class Minimised:
    """The best dual point seen, the relative norm of its gradient, and the steps taken."""

    point: Point
    residual: float
    steps: int


@dataclass(frozen=True, slots=True)
class _Step:
    direction: Array
    slope: float
    extra: float


def minimise_dual(
    dual: EntropyDual, *, tolerance: float, max_steps: int, progress: Progress | None = None
) -> Minimised:
    """Minimise F until |g| <= tolerance * max(1, |b|), a step fails, or `max_steps` are taken."""
    unit = max(1.0, float(np.linalg.norm(dual.target)))
    point = dual.at(np.zeros(len(dual.target)), scores=np.zeros(len(dual.log_base)))
    spread = dual.variances(point) + dual.noise_diagonal()
    extra, step = _LARGEST_EXTRA, 0
    best = Minimised(point, float(np.linalg.norm(point.gradient)) / unit, 0)
    while best.residual > tolerance and step < max_steps:
        step += 1
        moved = _advance(dual, point, extra=extra, spread=spread)
        if moved is None:
            break
        point, extra = moved
        residual = float(np.linalg.norm(point.gradient)) / unit
        if residual < best.residual:
            best = Minimised(point, residual, step)
        if progress is not None:
            progress(step, max_steps, f"maximum entropy: gradient {residual:.3g}, wanted {tolerance:g}")
    # The scores were carried along step by step: the answer is evaluated afresh.
    point = dual.at(best.point.multipliers)
    return Minimised(point, float(np.linalg.norm(point.gradient)) / unit, step)


def _advance(dual: EntropyDual, point: Point, *, extra: float, spread: Array) -> tuple[Point, float] | None:
    """Take a step with the Hessian, or else with conjugate gradients; None where neither leads down any more."""
    makers = (_dense_solver, _rough_solver) if len(spread) <= _DENSE_UP_TO else (_rough_solver,)
    for make in makers:
        step = _choose(dual, point, solve=make(dual, point, spread=spread), extra=extra, spread=spread)
        moved = _move(dual, point, step, spread=spread)
        if moved is not None:
            return moved, step.extra
    return None


def _choose(dual: EntropyDual, point: Point, *, solve: Solver, extra: float, spread: Array) -> _Step:
    """Return the step for the least extra noise that is trusted; else centre, and once centred lower it anyway."""
    for shrinkage in _SHRINKAGES if extra > 0.0 else ():
        step = _step(solve, point, extra=extra * shrinkage, spread=spread)
        quadratic = float(step.direction @ (dual.times_noise(step.direction) + step.extra * spread * step.direction))
        if -step.slope - quadratic <= _TRUSTED_VARIANCE:
            return step
    step = _step(solve, point, extra=extra, spread=spread)
    if extra > 0.0 and -step.slope < 1.0:
        return _step(solve, point, extra=0.3 * extra, spread=spread)
    return step


def _dense_solver(dual: EntropyDual, point: Point, *, spread: Array) -> Solver:
    """Return a function that solves (H + extra D) d = right by elimination, or returns NaN where it cannot."""
    hessian = dual.hessian(point)
    inner = np.arange(len(spread))

    def solve(extra: float, right: Array) -> Array:
        shifted = hessian.copy()
        shifted[inner, inner] += extra * spread
        root = 1.0 / np.sqrt(np.maximum(shifted[inner, inner], 1e-300))
        shifted *= root[:, None]
        shifted *= root
        try:
            return root * np.linalg.solve(shifted, root * right)
        except np.linalg.LinAlgError:
            return np.full(len(right), np.nan)

    return solve


def _rough_solver(dual: EntropyDual, point: Point, *, spread: Array) -> Solver:
    """Return a function that solves (H + extra D) d = right roughly, from products with the Hessian."""
    diagonal = dual.variances(point) + dual.noise_diagonal()

    def solve(extra: float, right: Array) -> Array:
        return solve_conjugate_gradient(
            lambda vector: dual.times_hessian(point, vector) + extra * spread * vector,
            right,
            diagonal=diagonal + extra * spread,
            tolerance=min(0.1, float(np.linalg.norm(right))),
        )

    return solve


def _step(solve: Solver, point: Point, *, extra: float, spread: Array) -> _Step:
    gradient = point.gradient + extra * spread * point.multipliers
    direction = solve(extra, -gradient)
    return _Step(direction, float(gradient @ direction), extra)


def _move(dual: EntropyDual, point: Point, step: _Step, *, spread: Array) -> Point | None:
    """Go along the step as far as pays, or return None where it does not lead down."""
    if not (np.isfinite(step.direction).all() and step.slope < 0.0):
        return None
    line = dual.features.forward(step.direction)
    length = _line_search(dual, point, step, line=line, spread=spread)
    if length == 0.0:
        return None
    return dual.at(point.multipliers + length * step.direction, scores=point.scores + length * line)


def _line_search(dual: EntropyDual, point: Point, step: _Step, *, line: Array, spread: Array) -> float:
    """Return a length at which the slope has halved and F has not grown, or 0; it needs no product with W."""
    direction = step.direction
    curved = dual.times_noise(direction) + step.extra * spread * direction
    linear = float(curved @ point.multipliers - direction @ dual.target)
    bend = float(direction @ curved)
    rounding = 1e-13 * (1.0 + abs(point.value) + float(np.abs(point.scores).max()))
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(_MOST_LENGTHS):
        weights, log_sum = dual.weigh(point.scores + length * line)
        growth = log_sum - point.log_sum + length * (linear + length * bend / 2)
        slope = float(weights @ line) + linear + length * bend
        if abs(slope) <= 0.5 * abs(step.slope) and (slope <= 0.0 or growth <= rounding):
            return length
        low, high = (length, high) if slope < 0.0 else (low, length)
        length = 2.0 * length if np.isinf(high) else (low + high) / 2
    return low
