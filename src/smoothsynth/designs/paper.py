"""The design of method="paper": its mechanism with correct constants.

Jin et al., Algorithm 1 (grid), section 3.4 and the appendix (R lowest functions; hypercube, PCA ellipsoid).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import gaussian_multiplier, split_epsilon, split_multiplier
from smoothsynth.designs.design import Design
from smoothsynth.designs.purposes import LOWEST
from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import lowest, tensor
from smoothsynth.queries.measurement import Measurement
from smoothsynth.subspace import SubspaceMeasurement

if TYPE_CHECKING:
    from smoothsynth.accounting.charges import Budget
    from smoothsynth.queries.bases import Feature
    from smoothsynth.schema import Schema

# The paper does not state the rank k and the iterations L of its subspace iteration.
RANK = 5
ITERATIONS = 3
# The paper spends epsilon = 1 on the subspace and again on the moments; here both share one budget equally.
SUBSPACE_SHARE = 0.5
C_TILDE = 0.5
CANDIDATES = 10_000
MOST_GRID_POINTS = 20_000_000
MOST_GRID_FUNCTIONS = 5_000


def paper_design(
    schema: Schema,
    rows: int,
    budget: Budget,
    *,
    candidates: str,
    smoothness: int,
    features: int | None,
    rows_per_person: int,
) -> Design:
    """Measure the functions that the paper measures, with noise that makes its claim true."""
    d = schema.dimensions
    if candidates == "grid" and features is None:
        return _grid_design(d, rows, budget, smoothness=smoothness, rows_per_person=rows_per_person)
    count = features or basis_count(rows, d, smoothness=smoothness, delta=budget.delta)
    if candidates != "ellipsoid":
        measured = _moments(lowest(count, d), budget, share=1.0, rows_per_person=rows_per_person)
        return Design((measured,), candidates, CANDIDATES, "linear program")
    # The centre of the ellipsoid must be released too: all means are measured, the fit uses the R lowest.
    functions = lowest(max(count, d), d)
    measured = _moments(functions, budget, share=1.0 - SUBSPACE_SHARE, rows_per_person=rows_per_person)
    subspace = _subspace(d, budget, rows_per_person=rows_per_person)
    return Design((measured,), candidates, CANDIDATES, "linear program", subspace=subspace, fitted=count)


def basis_count(rows: int, dimensions: int, *, smoothness: float, delta: float) -> int:
    """Return R = 0.5 n^(d/(2d+K)), or 0.5 n^(2d/(3d+2K)) with delta; rounded up, the constant not counted."""
    d, K = dimensions, smoothness
    exponent = 2 * d / (3 * d + 2 * K) if delta else d / (2 * d + K)
    return max(1, math.ceil(C_TILDE * rows**exponent))


def grid_sizes(rows: int, dimensions: int, *, smoothness: int, delta: float) -> tuple[int, int]:
    """Return t (degrees per column) and N (levels per column) of step 1 of Algorithm 1 or its variant."""
    d, K = dimensions, smoothness
    base, s = (rows**2 / math.log(1 / delta), 3 * d + 2 * K) if delta else (float(rows), 2 * d + K)
    return max(2, math.ceil(base ** (1 / s) - 1e-9)), max(2, math.ceil(base ** (K / s) - 1e-9))


def _grid_design(d: int, rows: int, budget: Budget, *, smoothness: int, rows_per_person: int) -> Design:
    degrees, levels = grid_sizes(rows, d, smoothness=smoothness, delta=budget.delta)
    if levels**d > MOST_GRID_POINTS or degrees**d > MOST_GRID_FUNCTIONS:
        raise PlanError(
            f"The full grid of Algorithm 1 has {levels}^{d} points and {degrees}^{d} functions here: too many. "
            'Take candidates="ellipsoid" or "hypercube", fewer columns, or a lower smoothness.'
        )
    measured = _moments(tensor(degrees, d), budget, share=1.0, rows_per_person=rows_per_person)
    return Design((measured,), "grid", levels**d, "linear program", levels=levels)


def _moments(features: tuple[Feature, ...], budget: Budget, *, share: float, rows_per_person: int) -> Measurement:
    pure = not budget.delta
    shares = [share, 1.0 - share] if share < 1.0 else [1.0]
    return Measurement(
        purpose=LOWEST.format(len(features)),
        features=features,
        mechanism="discrete laplace" if pure else "discrete gaussian",
        epsilon=split_epsilon(budget.epsilon, shares)[0] if pure else None,
        multiplier=None if pure else split_multiplier(gaussian_multiplier(budget.epsilon, budget.delta), shares)[0],
        rows_per_person=rows_per_person,
    )


def _subspace(d: int, budget: Budget, *, rows_per_person: int) -> SubspaceMeasurement:
    shares = [1.0 - SUBSPACE_SHARE] + [SUBSPACE_SHARE / ITERATIONS] * ITERATIONS
    pure = not budget.delta
    return SubspaceMeasurement(
        dimensions=d,
        rank=min(RANK, d),
        iterations=ITERATIONS,
        epsilon=split_epsilon(budget.epsilon, shares)[-1] if pure else None,
        multiplier=None if pure else split_multiplier(gaussian_multiplier(budget.epsilon, budget.delta), shares)[-1],
        rows_per_person=rows_per_person,
    )
