"""The Laplace mechanism on the queries themselves (Dwork, McSherry, Nissim and Smith 2006).

For study, on public or synthetic data: floating-point noise, not for release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import BudgetError
from smoothsynth.paper.queries import GaussianMixtureQueries, answers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Answers with the scale of the noise that is in each of them."""

    values: NDArray[np.float64]
    scale: float
    noise: str


def laplace_answers(
    queries: GaussianMixtureQueries,
    points: ArrayLike,
    *,
    epsilon: float,
    delta: float = 0.0,
    generator: np.random.Generator,
) -> NoisyAnswers:
    """Answer k named queries with noise on each answer, epsilon- or (epsilon, delta)-private.

        delta = 0:  q + Lap(b),      b = sum_q range_q / (n eps)
        delta > 0:  q + N(0, s^2),   s = sqrt(sum_q range_q^2) / (n sqrt(2 rho)),
                    rho = (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2

    A replaced row moves answer q by at most range_q/n, so the sums are the L1 and L2 sensitivities of all
    answers together; rho-zCDP gives (rho + 2 sqrt(rho log(1/delta)), delta) (Bun and Steinke 2016). The
    error grows with k, where the synthetic table's does not.
    """
    if not (math.isfinite(epsilon) and epsilon > 0) or not 0.0 <= delta < 1.0:
        raise BudgetError(
            f"epsilon must be positive and finite and delta in [0, 1); found {epsilon} and {delta}. "
            "Give another budget."
        )
    exact = answers(queries, points)
    rows, ranges = len(np.asarray(points)), query_ranges(queries)
    if delta == 0.0:
        scale = float(ranges.sum()) / (rows * epsilon)
        return NoisyAnswers(exact + generator.laplace(0.0, scale, exact.shape), scale, "laplace")
    log = math.log(1.0 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    scale = float(np.sqrt((ranges**2).sum())) / (rows * math.sqrt(2.0 * rho))
    return NoisyAnswers(exact + generator.normal(0.0, scale, exact.shape), scale, "gaussian")


def query_ranges(queries: GaussianMixtureQueries) -> NDArray[np.float64]:
    """Bound max f_q - min f_q on the cube, from public facts about the query alone.

        range_q <= sum_j |alpha_j| (exp(-near_j^2 / 2 sigma^2) - exp(-far_j^2 / 2 sigma^2))

    with near_j and far_j the distances from c_j to the nearest and the farthest point of the cube.
    """
    distance = np.abs(queries.centres)
    near = (np.maximum(distance - 1.0, 0.0) ** 2).sum(axis=2)
    far = ((distance + 1.0) ** 2).sum(axis=2)
    swing = np.exp(-near / (2 * queries.sigma**2)) - np.exp(-far / (2 * queries.sigma**2))
    result: NDArray[np.float64] = (np.abs(queries.weights) * swing).sum(axis=1)
    return result
