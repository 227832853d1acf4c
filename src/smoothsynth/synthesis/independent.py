"""Independent columns from noisy moments: the flattest product density that agrees with them.

Over densities p = prod_i p_i on the cube, with base measures mu_i (uniform on the values a column can take),

    minimise  kappa KL(p || mu) + sum_r (E_p phi_r - b_r)^2 / (2 s_r^2)

for features phi_r that are means of single-coordinate terms. The solution is
p_i(x) ~ exp(sum_k theta_ik T_k(x)) with theta = A lambda, and lambda minimises the convex dual

    sum_i log int exp(theta_i . T) dmu_i  -  lambda . b  +  kappa sum_r s_r^2 lambda_r^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.basis import chebyshev

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.basis import Feature
    from smoothsynth.schema import Schema

CELLS = 512
_MOST_STEPS = 200
_TOLERANCE = 1e-10

# The weight of flatness against agreement. At 1, the textbook value, every narrow column is pulled towards
# the uniform density, all in the same direction; the error of wide kernels then grows by a third on WDBC.
FLATNESS = 0.1


@dataclass(frozen=True, slots=True)
class Marginals:
    """One density per coordinate, as masses on a grid of values it can take."""

    values: tuple[NDArray[np.float64], ...]
    masses: tuple[NDArray[np.float64], ...]
    widths: tuple[float, ...]
    converged: bool
    steps: int
    decrement: float
    dual: NDArray[np.float64]

    def means(self, degree: int = 1) -> NDArray[np.float64]:
        """Return the mean of T_degree for each coordinate."""
        pairs = zip(self.values, self.masses, strict=True)
        return np.array([float(m @ chebyshev(v[:, None], degree)[degree, 0]) for v, m in pairs])

    def quantiles(self, coordinate: int, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return quantiles of one coordinate; inside a cell of positive width, evenly spread."""
        masses, width = self.masses[coordinate], self.widths[coordinate]
        upper = np.cumsum(masses)
        upper /= upper[-1]
        cell = np.minimum(np.searchsorted(upper, levels, side="right"), len(masses) - 1)
        if not width:
            return self.values[coordinate][cell]
        lower = upper[cell] - masses[cell]
        inside = np.clip((levels - lower) / np.maximum(masses[cell], 1e-300), 0.0, 1.0)
        return np.clip(self.values[coordinate][cell] + (inside - 0.5) * width, -1.0, 1.0)


def coordinate_grid(schema: Schema) -> tuple[tuple[NDArray[np.float64], ...], tuple[float, ...]]:
    """Return for each coordinate the values it can take (or cell centres) and the width of a cell (0: exact)."""
    grids: list[NDArray[np.float64]] = []
    widths: list[float] = []
    centres = np.asarray((np.arange(CELLS) + 0.5) * (2.0 / CELLS) - 1.0, dtype=np.float64)
    for column in schema.columns.values():
        levels = column.levels(CELLS)
        for _ in range(column.dimensions):
            grids.append(centres if levels is None else levels)
            widths.append(2.0 / CELLS if levels is None else 0.0)
    return tuple(grids), tuple(widths)


def separable(feature: Feature) -> bool:
    """Whether each term of a feature is a function of a single coordinate."""
    return all(len(term) == 1 for term in feature.terms)


def fit_marginals(
    schema: Schema, features: Sequence[Feature], values: NDArray[np.float64], scale: NDArray[np.float64]
) -> Marginals:
    """Solve the dual above by Newton's method with a line search; the features must be separable."""
    grids, widths = coordinate_grid(schema)
    degree = max((f.degree for f in features), default=1)
    bases = [chebyshev(grid[:, None], degree)[1:, 0] for grid in grids]
    problem = _Dual(bases, _links(features, len(grids), degree), values, FLATNESS * scale**2)
    dual = np.zeros(len(features))
    converged, taken, slope = False, 0, 0.0
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
    return Marginals(grids, problem.masses(dual), widths, converged, taken, -slope, dual)


@dataclass(frozen=True, slots=True)
class _Dual:
    """The dual problem: values of T_k on each grid, how features link to them, targets, penalties."""

    bases: list[NDArray[np.float64]]
    links: NDArray[np.float64]
    values: NDArray[np.float64]
    penalty: NDArray[np.float64]

    def masses(self, dual: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        return tuple(_softmax(theta @ basis) for theta, basis in zip(self.links @ dual, self.bases, strict=True))

    def value(self, dual: NDArray[np.float64]) -> float:
        total = -float(dual @ self.values) + 0.5 * float(self.penalty @ dual**2)
        for theta, basis in zip(self.links @ dual, self.bases, strict=True):
            logits = theta @ basis
            top = float(logits.max())
            total += top + float(np.log(np.mean(np.exp(logits - top))))
        return total

    def derivatives(self, dual: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gradient = self.penalty * dual - self.values
        hessian = np.diag(self.penalty)
        for masses, basis, link in zip(self.masses(dual), self.bases, self.links, strict=True):
            means = basis @ masses
            covariance = (basis * masses) @ basis.T - np.outer(means, means)
            used = np.flatnonzero(np.any(link != 0.0, axis=0))
            gradient[used] += link[:, used].T @ means
            hessian[np.ix_(used, used)] += link[:, used].T @ covariance @ link[:, used]
        return gradient, hessian

    def step_size(self, dual: NDArray[np.float64], step: NDArray[np.float64], slope: float) -> float:
        """Halve the step until it descends enough (Armijo); 0 if rounding leaves nothing to gain."""
        current, size = self.value(dual), 1.0
        while size > 1e-10:
            if self.value(dual + size * step) <= current + 1e-4 * size * slope:
                return size
            size /= 2.0
        return 0.0


def _links(features: Sequence[Feature], coordinates: int, degree: int) -> NDArray[np.float64]:
    """Return A as (coordinates, degrees, features): how much of T_k(x_i) is in each feature."""
    links = np.zeros((coordinates, degree, len(features)))
    for r, feature in enumerate(features):
        for ((coordinate, k),) in feature.terms:
            links[coordinate, k - 1, r] += 1.0 / len(feature.terms)
    return links


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    masses = np.exp(logits - logits.max())
    return np.asarray(masses / masses.sum())
