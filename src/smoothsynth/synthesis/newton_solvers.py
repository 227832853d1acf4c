"""Two ways to a Newton step of the maximum-entropy fit: from the Hessian H, or from products with it.

Both solve  (H + extra D) d = right,  with D the variance of each feature under the base measure. Products come from the
candidates that have weight, and far from the base measure these are few.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smoothsynth.synthesis.conjugate_gradient import solve_conjugate_gradient
from smoothsynth.synthesis.entropy_dual import CandidateFeatures

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.synthesis.entropy_dual import EntropyDual, Point

    Array = NDArray[np.float64]
    Tick = Callable[[], object]
    # Given extra, right, and the variance d'Cov d beyond which d is of no use.
    Solver = Callable[[float, Array, float], Array]

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
