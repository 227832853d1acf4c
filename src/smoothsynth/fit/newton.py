"""Newton steps and conjugate gradients on the dual.

Conjugate gradients: a rough solution of a large positive definite system from products alone.

Two ways to a Newton step of the maximum-entropy fit: from the Hessian H, or from products with it.

Both solve  (H + extra D) d = right,  with D the variance of each feature under the base measure. Products come from the
candidates that have weight, and far from the base measure these are few.

Newton's method for the dual of the maximum-entropy fit, led along a path of noise that shrinks to the true one.

Far from the solution a Newton step can throw all weight on one candidate. So the noise is enlarged to S + rho D, with D
the variance of each feature under the base measure, and rho falls to 0 as fast as the steps stay trustworthy: a step d
changes the exponents l.W_k by d.W_k, whose variance d'Cov d must stay moderate, for that is the part of F that is not
quadratic. Where the target is near, rho is 0 from the first step. A step may still lift candidates that the variance
does not see, because they have no weight yet: it goes only so far that KL(u after || u before) stays moderate too.

The small duals of marginals are minimised all together, by damped steps; that path, one by one, takes many times as long.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.fit.entropy_dual import CandidateFeatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.fit.entropy_dual import EntropyDual, MarginalDuals, Point
    from smoothsynth.fit.result import Progress

    Array = NDArray[np.float64]
    Tick = Callable[[], object]
    Solver = Callable[[float, Array, float], Array]


def solve_conjugate_gradient(
    product: Callable[[Array], Array],
    right: Array,
    *,
    diagonal: Array,
    tolerance: float,
    max_products: int = 500,
    stop: Callable[[int, Array], bool] | None = None,
) -> Array:
    """Solve H x = right until r'D^-1 r <= tolerance^2 right'D^-1 right, where r = right - H x and D is the diagonal of H.

    It starts from 0, so even cut short it ends with right.x > 0: a direction of descent where `right` is minus the
    gradient. `stop` is told the number of products and x after each, and ends the search where it returns True.
    Hestenes and Stiefel, J. Res. NBS 49 (1952).
    """
    solution = np.zeros_like(right)
    rest = right.copy()
    ahead = rest / diagonal
    energy = float(rest @ ahead)
    wanted = tolerance**2 * energy
    for products in range(1, max_products + 1):
        bent = product(ahead)
        curvature = float(ahead @ bent)
        if not curvature > 0.0:
            break
        length = energy / curvature
        solution += length * ahead
        rest -= length * bent
        preconditioned = rest / diagonal
        before, energy = energy, float(rest @ preconditioned)
        if energy <= wanted or (stop is not None and stop(products, solution)):
            break
        ahead = preconditioned + energy / before * ahead
    return solution


# Beyond this many moments the Hessian takes more memory than it is worth.
_DENSE_UP_TO = 6000
# Conjugate gradients take about so many products for a step, times the root of variance over noise.
_PRODUCTS = 25.0
# Before so many products, the variance of a step says little about that of the solution.
_TELLING_PRODUCTS = 12


class MakeSolver(Protocol):
    """A way to solve for Newton steps from a point; `tick` is called every now and then."""

    def __call__(self, dual: EntropyDual, point: Point, *, spread: Array, tick: Tick) -> Solver:
        """Return the solver; `spread` is the diagonal of D."""
        ...


def solvers(dual: EntropyDual, *, spread: Array) -> tuple[MakeSolver, ...]:
    """Return the ways to a step, the cheaper one first.

    The Hessian takes R^2 C / 2 multiplications and R^3 for a step; conjugate gradients some products with it.
    """
    moments = len(spread)
    if moments > _DENSE_UP_TO:
        return (_rough_solver,)
    if isinstance(dual.features, CandidateFeatures):
        products = _PRODUCTS * math.sqrt(float((spread / dual.noise_diagonal()).mean()))
        if products * dual.features.work < moments**2 * (dual.features.shape[0] / 2.0 + moments):
            return (_rough_solver, _dense_solver)
    return (_dense_solver, _rough_solver)


def _dense_solver(dual: EntropyDual, point: Point, *, spread: Array, tick: Tick) -> Solver:
    """Return a function that solves (H + extra D) d = right by elimination, or returns NaN where it cannot."""
    hessian = dual.hessian(point, tick=tick)
    inner = np.arange(len(spread))

    def solve(extra: float, right: Array, _limit: float) -> Array:
        tick()
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


def _rough_solver(dual: EntropyDual, point: Point, *, spread: Array, tick: Tick) -> Solver:
    """Return a function that solves (H + extra D) d = right roughly, from products with the Hessian."""
    lean, here = dual.thinned(point)
    noise = dual.noise_diagonal()
    diagonal = lean.variances(here) + noise

    def solve(extra: float, right: Array, limit: float) -> Array:
        def product(vector: Array) -> Array:
            tick()
            return lean.times_hessian(here, vector) + extra * spread * vector

        def hopeless(products: int, vector: Array) -> bool:
            if products < _TELLING_PRODUCTS:
                return False
            # With conjugate gradients, d'(H + extra D) d = right.d at every stage.
            rest = right - dual.times_noise(vector) - extra * spread * vector
            return not float(vector @ rest) <= limit

        return solve_conjugate_gradient(
            product,
            right,
            diagonal=diagonal + extra * spread,
            tolerance=min(0.1, float(np.linalg.norm(right))),
            stop=None if math.isinf(limit) else hopeless,
        )

    return solve


_LARGEST_EXTRA = 100.0
_SHRINKAGES = (0.0, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_TRUSTED_VARIANCE = 4.0
# The variance of a step rises and falls while conjugate gradients find it: one as large as this will not fall enough.
_HOPELESS_VARIANCE = 10.0 * _TRUSTED_VARIANCE
_FARTHEST = 1.0
_MOST_LENGTHS = 60
_SECONDS_BETWEEN_NEWS = 2.0


@dataclass(frozen=True, slots=True)
class Minimised:
    """The best dual point seen, the relative norm of its gradient, and the steps taken.

    `share` is the largest part of its own noise that a moment misses its best value by: max_r |g_r| / s_r.
    """

    point: Point
    residual: float
    steps: int
    share: float


@dataclass(frozen=True, slots=True)
class _Step:
    """A direction, the slope of F along it, the extra noise it is for, and the place in _SHRINKAGES of that noise."""

    direction: Array
    slope: float
    extra: float
    caution: int = len(_SHRINKAGES)


def minimise_dual(
    dual: EntropyDual, *, tolerance: float, max_steps: int, progress: Progress | None = None
) -> Minimised:
    """Minimise F until |g| <= tolerance * max(1, |b|), a step fails, or `max_steps` are taken.

    `progress` is told every step, and within a long one every few seconds.
    """
    unit = max(1.0, float(np.linalg.norm(dual.target)))
    point = dual.at(np.zeros(len(dual.target)), scores=np.zeros(len(dual.log_base)))
    spread = dual.variances(point) + dual.noise_diagonal()
    extra, caution, step = _LARGEST_EXTRA, 0, 0
    best, residual = point, float(np.linalg.norm(point.gradient)) / unit
    least = residual
    while least > tolerance and step < max_steps:
        tick = _ticker(progress, step, max_steps, text=_news(residual, tolerance) + f", at work on step {step + 1}")
        step += 1
        moved = _advance(dual, point, extra=extra, caution=caution, spread=spread, tick=tick)
        if moved is None:
            break
        point, extra, caution = moved
        residual = float(np.linalg.norm(point.gradient)) / unit
        if residual < least:
            best, least = point, residual
        if progress is not None:
            progress(step, max_steps, _news(residual, tolerance))
    # The scores were carried along step by step: the answer is evaluated afresh.
    point = dual.at(best.multipliers)
    share = float((np.abs(point.gradient) / np.sqrt(dual.noise_diagonal())).max())
    return Minimised(point, float(np.linalg.norm(point.gradient)) / unit, step, share)


def _news(residual: float, tolerance: float) -> str:
    return f"maximum entropy: gradient {residual:.3g}, wanted {tolerance:g}"


def _ticker(progress: Progress | None, step: int, max_steps: int, *, text: str) -> Tick:
    """Return a function that passes the text on where the last news are some seconds old."""
    last = time.monotonic()

    def tick() -> None:
        nonlocal last
        if progress is not None and time.monotonic() - last >= _SECONDS_BETWEEN_NEWS:
            progress(step, max_steps, text)
            last = time.monotonic()

    return tick


def _advance(
    dual: EntropyDual, point: Point, *, extra: float, caution: int, spread: Array, tick: Tick
) -> tuple[Point, float, int] | None:
    """Take a step in the cheaper way, or else in the other; None where neither leads down any more."""
    for make in solvers(dual, spread=spread):
        solve = make(dual, point, spread=spread, tick=tick)
        step = _choose(dual, point, solve=solve, extra=extra, caution=caution, spread=spread)
        moved = _move(dual, point, step, spread=spread)
        if moved is not None:
            return moved, step.extra, step.caution
    return None


def _choose(dual: EntropyDual, point: Point, *, solve: Solver, extra: float, caution: int, spread: Array) -> _Step:
    """Return the step for the least extra noise that is trusted; else centre, and once centred lower it anyway.

    The search begins a little bolder than the last step was, and grows cautious faster and faster.
    """
    place, leap = max(0, caution - 2), 1
    while extra > 0.0 and place < len(_SHRINKAGES):
        step = _step(solve, point, extra=extra * _SHRINKAGES[place], spread=spread, limit=_HOPELESS_VARIANCE)
        quadratic = float(step.direction @ (dual.times_noise(step.direction) + step.extra * spread * step.direction))
        if -step.slope - quadratic <= _TRUSTED_VARIANCE:
            return replace(step, caution=place)
        place, leap = place + leap, 2 * leap
    step = _step(solve, point, extra=extra, spread=spread)
    if extra > 0.0 and -step.slope < 1.0:
        return _step(solve, point, extra=0.3 * extra, spread=spread)
    return step


def _step(solve: Solver, point: Point, *, extra: float, spread: Array, limit: float = math.inf) -> _Step:
    gradient = point.gradient + extra * spread * point.multipliers
    direction = solve(extra, -gradient, limit)
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
    """Return a length at which the slope has halved and F has not grown, or 0; it needs no product with W.

    Where that would be too far from the weights before, it goes to about the largest distance allowed.
    """
    direction = step.direction
    curved = dual.times_noise(direction) + step.extra * spread * direction
    linear = float(curved @ point.multipliers - direction @ dual.target)
    bend = float(direction @ curved)
    rounding = 1e-13 * (1.0 + abs(point.value) + float(np.abs(point.scores).max()))
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(_MOST_LENGTHS):
        weights, log_sum = dual.weigh(point.scores + length * line)
        tilt, rise = float(weights @ line), log_sum - point.log_sum
        distance = length * tilt - rise
        growth = rise + length * (linear + length * bend / 2)
        slope = tilt + linear + length * bend
        near = distance <= _FARTHEST
        if near and abs(slope) <= 0.5 * abs(step.slope) and (slope <= 0.0 or growth <= rounding):
            return length
        if near and slope <= 0.0 and distance >= 0.5 * _FARTHEST:
            return length
        low, high = (length, high) if near and slope < 0.0 else (low, length)
        length = 2.0 * length if np.isinf(high) else (low + high) / 2
    return low


_MOST_DAMPED_STEPS = 60
_MOST_HALVINGS = 30
# Where that is not enough, agreement is first asked for within so many times the variance.
_LOOSER = (1e4, 1e3, 1e2, 10.0, 1.0)


def minimise_marginals(duals: MarginalDuals, *, tolerance: float) -> tuple[Array, bool, int]:
    """Return the weights of the cells at the minimum, whether all F came to it, and the steps taken.

    Where Newton's method does not come to an end, it begins with looser agreement, and goes from there step by step.
    """
    multipliers = np.zeros_like(duals.target)
    _, weights, converged, steps = _damped_newton(duals, multipliers, tolerance=tolerance)
    for looser in () if converged else _LOOSER:
        eased = replace(duals, noise=looser * duals.noise)
        multipliers, weights, converged, more = _damped_newton(eased, multipliers, tolerance=tolerance)
        steps += more
    return weights, converged, steps


def _damped_newton(duals: MarginalDuals, multipliers: Array, *, tolerance: float) -> tuple[Array, Array, bool, int]:
    """Take Newton steps, halved until F falls enough (Armijo), until a step would lower no F by the tolerance."""
    value, weights = duals.at(multipliers)
    for taken in range(1, _MOST_DAMPED_STEPS + 1):
        gradient, hessian = duals.derivatives(multipliers, weights)
        direction = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        slope = np.sum(gradient * direction, axis=1)
        if float(-slope.min()) < tolerance:
            return multipliers, weights, True, taken
        length = np.ones(len(slope))
        for _ in range(_MOST_HALVINGS):
            trial = multipliers + length[:, None] * direction
            reached, weights = duals.at(trial)
            worse = reached > value + 1e-4 * length * slope + 1e-12
            if not worse.any():
                break
            length[worse] /= 2.0
        multipliers, value = trial, reached
    return multipliers, weights, False, _MOST_DAMPED_STEPS
