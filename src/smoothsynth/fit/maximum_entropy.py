"""The default fit: of all weights that agree with the noisy moments within their noise, the flattest.

    minimise over u:  KL(u || u0) + (W'u - b)' S^-1 (W'u - b) / 2        u >= 0,  1'u = 1
    dual, over l:     F(l) = log sum_k u0_k exp(l.W_k) - l.b + l'S l / 2,    u_k ~ u0_k exp(l.W_k)

S is the covariance of the noise. F is smooth and strictly convex, and a solution always exists. With
g = W'u - b + S l, the gradient of F, the weights u(l) are within g'S^-1 g / 2 of the optimum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._runtime import one_thread_if_small
from smoothsynth.errors import PlanError
from smoothsynth.fit.entropy_dual import CandidateFeatures, EntropyDual, Listed
from smoothsynth.fit.newton import Minimised, minimise_dual
from smoothsynth.fit.result import FAR, FLATTEST, HARMLESS, Fit, check_problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.fit.result import Progress

    Array = NDArray[np.float64]


METHOD = "maximum entropy"
# A moment that must match gets this noise: it then misses by SMALLEST_SCALE^2 times its multiplier.
SMALLEST_SCALE = 1e-6
# A fit that misses the best moments by this much of their noise is as good as solved.
HARMLESS_SHARE = 0.1


def fit_maximum_entropy(
    features: NDArray[np.floating] | CandidateFeatures,
    target: NDArray[np.floating],
    *,
    scale: float | NDArray[np.floating],
    base: NDArray[np.floating] | None = None,
    covariance: NDArray[np.floating] | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 100,
    progress: Progress | None = None,
) -> Fit:
    """Fit the flattest weights, relative to `base`, whose moments agree with the target within the noise.

    Row k of `features` holds those of candidate k; where that matrix would be large, pass `computed_features(...)`
    instead, and the fit needs no more than a few copies of the points and of one (moments, moments) matrix. `scale` is
    the standard deviation of each moment's noise, and `covariance`, if given, replaces it. Newton's method on the dual,
    with a line search; the fit has converged when |g| <= tolerance * max(1, |b|). It takes at most `max_steps` steps
    and says so where they were not enough. `progress` is told every step, and every few seconds within a long one.
    """
    noisy = np.asarray(target, dtype=np.float64)
    known = _known(features, noisy)
    count, moments = known.shape
    noise = _noise(scale, covariance, moments=moments)
    dual = EntropyDual(known, noisy, _log_base(base, count), noise)
    with one_thread_if_small(count * moments):
        found = minimise_dual(dual, tolerance=tolerance, max_steps=max_steps, progress=progress)
    return Fit(
        weights=found.point.weights,
        method=METHOD,
        converged=found.residual <= tolerance,
        outcome=describe(found, tolerance=tolerance),
        steps=found.steps,
        residual=found.residual,
        dual=found.point.multipliers,
    )


def describe(found: Minimised, *, tolerance: float) -> str:
    """Say in a sentence what the maximum-entropy fit reached, with the remedy where it fell short."""
    if found.residual <= tolerance:
        return FLATTEST.format(steps=found.steps)
    missed = HARMLESS if found.share <= HARMLESS_SHARE else FAR
    return missed.format(tolerance=tolerance, steps=found.steps, residual=found.residual)


def _known(features: NDArray[np.floating] | CandidateFeatures, target: Array) -> CandidateFeatures:
    """Return features by their products, once they and the target are found to belong together."""
    if not isinstance(features, CandidateFeatures):
        matrix = np.asarray(features)
        check_problem(matrix, target)
        return Listed(matrix)
    if target.shape != features.shape[1:] or 0 in features.shape or not np.isfinite(target).all():
        raise PlanError(
            f"there must be a candidate at least, and one finite target per moment; found features of shape "
            f"{features.shape} and a target of shape {target.shape}: pass the noisy moments in the order of the features"
        )
    return features


def _log_base(base: NDArray[np.floating] | None, count: int) -> Array:
    if base is None:
        return np.full(count, -np.log(count))
    measure = np.asarray(base, dtype=np.float64)
    if measure.shape != (count,) or not (measure.min() > 0.0 and np.isfinite(measure.sum())):
        raise PlanError(
            f"the base measure must be one positive number per candidate; found an array of shape {measure.shape} that "
            f"is not, for {count} candidates: drop candidates of weight 0"
        )
    logs: Array = np.log(measure / measure.sum())
    return logs


def _noise(scale: float | NDArray[np.floating], covariance: NDArray[np.floating] | None, *, moments: int) -> Array:
    """Return the variances of the noise, (R,), or its covariance, (R, R)."""
    if covariance is None:
        scale = np.asarray(scale, dtype=np.float64)
        if scale.shape not in {(), (moments,)} or not (scale.min() >= 0.0 and np.isfinite(scale).all()):
            raise PlanError(
                f"the scale must be one number >= 0, or one per moment; found an array of shape {scale.shape} that is "
                f"not, for {moments} moments: pass the standard deviation of each moment's noise"
            )
        return np.broadcast_to(np.maximum(scale, SMALLEST_SCALE) ** 2, (moments,))
    noise = np.asarray(covariance, dtype=np.float64)
    if noise.shape != (moments, moments) or not np.allclose(noise, noise.T) or not np.isfinite(noise).all():
        raise PlanError(
            f"the covariance must be a symmetric (moments, moments) array; found one of shape {noise.shape} that is "
            f"not, for {moments} moments: pass the covariance of the noise"
        )
    noise = noise + SMALLEST_SCALE**2 * np.eye(moments)
    try:
        np.linalg.cholesky(noise)
    except np.linalg.LinAlgError:
        raise PlanError(
            "the covariance must be positive semi-definite; found one that is not: pass the covariance of the noise"
        ) from None
    return noise
