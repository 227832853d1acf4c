"""The design of method="auto": the moments that are worth their noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.basis import pooled, term_feature
from smoothsynth.designs.design import Design
from smoothsynth.moments import Measurement, whole_weights
from smoothsynth.privacy import cube_deviation, gaussian_multiplier, split_epsilon

if TYPE_CHECKING:
    from smoothsynth.privacy import Budget
    from smoothsynth.schema import Schema

# A weight for T_2 beside x that costs nothing: (x_i, v T_2(x_i)) has L2 sensitivity 2 sqrt(d) for every
# v^2 <= (11 + 5 sqrt 5)/32 (docs/proofs/sensitivity.md, section 4).
FREE_SQUARE = math.sqrt((11 + 5 * math.sqrt(5)) / 32)


def auto_design(schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int) -> Design:
    """Measure low moments and make independent columns of them, in closed form: the candidates are the rows."""
    measurements = _low_moments(schema, rows, budget, rows_per_person)
    return Design(measurements, candidates="model", candidate_count=size, fit="maximum entropy")


def _low_moments(schema: Schema, rows: int, budget: Budget, rows_per_person: int) -> tuple[Measurement, ...]:
    """Measure means and second moments: pooled under pure epsilon, for each column where delta allows.

    Few coordinates favour the cube even when delta is allowed: its noise grows with the number of
    coordinates, that of the Gaussian with its root. The smaller noise of the means decides.
    """
    pure = _pure_low_moments(schema.dimensions, budget.epsilon, rows_per_person)
    if not budget.delta:
        return pure
    d = schema.dimensions
    gaussian = Measurement(
        purpose="the mean and the second moment of each column",
        features=tuple(term_feature((c, k)) for k in (1, 2) for c in range(d)),
        mechanism="discrete gaussian",
        multiplier=gaussian_multiplier(budget.epsilon, budget.delta),
        weights=whole_weights([1.0] * d + [FREE_SQUARE] * d),
        rows_per_person=rows_per_person,
    )
    return pure if pure[0].deviations(rows)[0] < gaussian.deviations(rows)[0] else (gaussian,)


def _pure_low_moments(d: int, epsilon: float, rows_per_person: int) -> tuple[Measurement, Measurement]:
    """Measure all means with the cube mechanism, and the average second moment alone.

    A kernel query of width s moves by about 1.44 sqrt(d/3)/s^2 when all means err by one unit (the worst
    of ten thousand random queries) and by d/(4 s^2) when the average T_2 does, the same sign for every
    query. The shares minimise (A/e1)^2 + (B/e2)^2 with A and B these slopes times the noise at epsilon = 1.
    """
    means = 1.44 * math.sqrt(d / 3.0) * cube_deviation(d, sensitivity=2.0, epsilon=1.0)
    square = d / 4.0 * cube_deviation(1, sensitivity=2.0, epsilon=1.0)
    for_means, for_square = split_epsilon(epsilon, [means ** (2 / 3), square ** (2 / 3)])
    return (
        Measurement(
            purpose="the mean of each column",
            features=tuple(term_feature((c, 1)) for c in range(d)),
            mechanism="cube",
            epsilon=for_means,
            rows_per_person=rows_per_person,
        ),
        Measurement(
            purpose="the second moment T_2, averaged over the columns",
            features=(pooled(2, range(d)),),
            mechanism="discrete laplace",
            epsilon=for_square,
            rows_per_person=rows_per_person,
        ),
    )
