"""Densities of independent columns from moments that are sums over columns: the flattest that agree with them.

Over densities p = prod_i p_i on the cube, with flat base measures mu_i,

    minimise  kappa KL(p || mu) + sum_r (E_p phi_r - b_r)^2 / (2 s_r^2)

for features phi_r that are means of single-coordinate terms (pooled ones too), each term weighted by the share of rows in
which its value is there. The solution is
p_i(x) ~ exp(sum_k theta_ik T_k(x)) with theta = A lambda, and lambda minimises the convex dual

    sum_i log int exp(theta_i . T) dmu_i  -  lambda . b  +  kappa sum_r s_r^2 lambda_r^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.bases import chebyshev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

_MOST_STEPS = 200
_TOLERANCE = 1e-10


def separable(feature: Feature) -> bool:
    """Whether each term of a feature is a function of a single coordinate."""
    return all(len(term) == 1 for term in feature.terms)


def fit_independent(
    columns: Columns, features: Sequence[Feature], values: Array, scale: Array, *, there: Array, flatness: float = 1.0
) -> Columns:
    """Solve the dual above by Newton's method with a line search; the features must be separable.

    `there` is the share of rows that have a value, for each coordinate: the part of a moment that is due to its density.
    """
    degree = max(feature.degree for feature in features)
    bases = np.stack([chebyshev(places[:, None], degree)[1:, 0] for places in columns.places])
    links = _links(features, columns.count, degree) * there[:, None, None]
    problem = _Dual(bases, links, values, flatness * scale**2, columns.base)
    dual = np.zeros(len(features))
    converged, taken = False, 0
    while taken < _MOST_STEPS:
        taken += 1
        gradient, hessian = problem.derivatives(dual)
        step = np.asarray(np.linalg.solve(hessian + 1e-12 * np.eye(len(dual)), -gradient), dtype=np.float64)
        slope = float(gradient @ step)
        converged = -slope < _TOLERANCE
        size = 0.0 if converged else problem.step_size(dual, step, slope)
        if size == 0.0:
            break
        dual = dual + size * step
    masses = problem.densities(dual)[1]
    return replace(columns, masses=masses, converged=columns.converged and converged, steps=columns.steps + taken)


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """The dual problem: T_k on the cells (coordinates, degrees, cells), how features link to them, targets."""

    bases: Array
    links: Array
    values: Array
    penalty: Array
    base: Array

    def densities(self, dual: Array) -> tuple[Array, Array]:
        """Return log normalisers and masses of all coordinates."""
        logits = np.einsum("dk,dkg->dg", self.links @ dual, self.bases)
        # An impossible cell is no top: all others could be 0 beside it.
        logits[self.base == 0.0] = -np.inf
        top = logits.max(axis=1, keepdims=True)
        masses = self.base * np.exp(logits - top)
        total = masses.sum(axis=1, keepdims=True)
        return (top + np.log(total))[:, 0], masses / total

    def value(self, dual: Array) -> float:
        return float(self.densities(dual)[0].sum() - dual @ self.values + 0.5 * self.penalty @ dual**2)

    def derivatives(self, dual: Array) -> tuple[Array, Array]:
        gradient = self.penalty * dual - self.values
        hessian = np.diag(self.penalty)
        masses = self.densities(dual)[1]
        for line, basis, link in zip(masses, self.bases, self.links, strict=True):
            means = basis @ line
            covariance = (basis * line) @ basis.T - np.outer(means, means)
            used = np.flatnonzero(np.any(link != 0.0, axis=0))
            gradient[used] += link[:, used].T @ means
            hessian[np.ix_(used, used)] += link[:, used].T @ covariance @ link[:, used]
        return gradient, hessian

    def step_size(self, dual: Array, step: Array, slope: float) -> float:
        """Halve the step until it descends enough (Armijo); 0 if rounding leaves nothing to gain."""
        current, size = self.value(dual), 1.0
        while size > 1e-10:
            if self.value(dual + size * step) <= current + 1e-4 * size * slope:
                return size
            size /= 2.0
        return 0.0


def _links(features: Sequence[Feature], coordinates: int, degree: int) -> Array:
    """Return A as (coordinates, degrees, features): how much of T_k(x_i) is in each feature."""
    links = np.zeros((coordinates, degree, len(features)))
    for r, feature in enumerate(features):
        for ((coordinate, k),) in feature.terms:
            links[coordinate, k - 1, r] += 1.0 / len(feature.terms)
    return links
