"""The design of method="auto": small releases in turn, each made in the coordinates that the earlier ones allow.

Noise is then relative to the spread of the data and not to the public bounds. Shares are constants, found flat in
trials; what is worth little after its noise is shrunk away by the model (synthesis/), so no cut-off is needed but one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsynth.basis import lowest, pooled, term_feature
from smoothsynth.designs.design import Design
from smoothsynth.moments import Measurement, whole_weights
from smoothsynth.privacy import cube_deviation, gaussian_multiplier, split_epsilon, split_multiplier
from smoothsynth.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.basis import Feature
    from smoothsynth.privacy import Budget
    from smoothsynth.schema import Schema

    Stages = list[tuple[str | None, Measurement]]

# A weight for T_2 beside x that costs nothing: (x_i, v T_2(x_i)) has L2 sensitivity 2 sqrt(d) for every
# v^2 <= (11 + 5 sqrt 5)/32 (docs/proofs/sensitivity.md, section 4).
FREE_SQUARE = math.sqrt((11 + 5 * math.sqrt(5)) / 32)

# Degrees of cosines of lengths, and of ranks under pure epsilon. With Gaussian noise, which may grow with the
# degree, 12 of ranks for queries of smoothness 16, more for rougher ones.
LENGTH_DEGREES, PURE_RANK_DEGREES, PURE_LENGTH_DEGREES = 4, 3, 3
FEWEST_RANK_DEGREES, MOST_RANK_DEGREES = 4, 48
# Under pure epsilon ranks and lengths are bought only if their noise stays below.
MOST_RANK_NOISE, MOST_LENGTH_NOISE = 0.15, 0.05
# Above this noise of the means, in half ranges, a first Gaussian stage cannot find the data within its bounds.
MOST_LOW_NOISE = 0.4


@dataclass(frozen=True, slots=True)
class Focus:
    """Shares of low moments, ranks, pairs and lengths; of ranks and lengths when pure; the weight of means by pairs.

    `mean_weight` is the square of the weight of the means beside the pairs, as a share of a row's largest squared length.
    """

    low: float
    ranks: float
    pairs: float
    lengths: float
    pure_ranks: float
    pure_lengths: float
    mean_weight: float


FOCUSES = {
    "balanced": Focus(0.12, 0.30, 0.48, 0.10, 0.30, 0.10, 0.3),
    "queries": Focus(0.12, 0.13, 0.60, 0.15, 0.0, 0.10, 0.8),
    "marginals": Focus(0.15, 0.55, 0.22, 0.08, 0.50, 0.05, 0.3),
    "correlations": Focus(0.10, 0.20, 0.64, 0.06, 0.30, 0.10, 0.15),
}


def auto_design(
    schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int, focus: str, smoothness: int
) -> Design:
    """Choose stages, mechanism and shares from public facts."""
    d, lean = schema.dimensions, FOCUSES[focus]
    stages = _pure_stages(d, rows, budget.epsilon, rows_per_person, lean)
    if budget.delta:
        gaussian = _gaussian_stages(d, budget, rows_per_person, lean, _rank_degrees(smoothness))
        if _gaussian_is_better(gaussian, stages, d, rows):
            stages = gaussian
    looks, measurements = zip(*stages, strict=True)
    return Design(measurements, "model", size, "maximum entropy", looks=looks)


def _gaussian_is_better(gaussian: Stages, pure: Stages, d: int, rows: int) -> bool:
    """Decide from the noise of both plans: a pure release satisfies every delta, and may be the better one.

    For one column nothing but ranks matters, and few cosines favour the cube. For several, all later stages stand on the
    first: where its noise is too large to find the data within its bounds, the Gaussian plan has nothing to adapt to.
    """
    if d == 1:
        return _rank_noise(gaussian, rows) < _rank_noise(pure, rows)
    first, other = (float(stages[0][1].deviations(rows)[0]) for stages in (gaussian, pure))
    return first <= MOST_LOW_NOISE or first <= other


def _rank_noise(stages: Stages, rows: int) -> float:
    """Return the noise of the first cosine of ranks, infinite where none is measured."""
    return min((float(m.deviations(rows)[0]) for look, m in stages if look == "ranks"), default=math.inf)


def _rank_degrees(smoothness: int) -> int:
    return min(MOST_RANK_DEGREES, max(FEWEST_RANK_DEGREES, round(48 / math.sqrt(smoothness))))


def _gaussian_stages(d: int, budget: Budget, rows_per_person: int, lean: Focus, degrees: int) -> Stages:
    """Plan four Gaussian releases (two for a single column): low moments, ranks, pairs, lengths."""
    names = ["low", "ranks", "pairs", "lengths"] if d > 1 else ["low", "ranks"]
    whole = gaussian_multiplier(budget.epsilon, budget.delta)
    multipliers = dict(zip(names, split_multiplier(whole, [getattr(lean, name) for name in names]), strict=True))

    def stage(
        name: str, purpose: str, features: Sequence[Feature], weights: Sequence[float], view: View | None
    ) -> Measurement:
        return Measurement(
            purpose=purpose,
            features=tuple(features),
            mechanism="discrete gaussian",
            multiplier=multipliers[name],
            weights=whole_weights(weights),
            rows_per_person=rows_per_person,
            view=view,
        )

    low = [term_feature((c, k)) for k in (1, 2) for c in range(d)]
    ranks = _cosines(d, degrees)
    stages: Stages = [
        (None, stage("low", "the mean and the second moment of each column", low, [1.0] * d + [FREE_SQUARE] * d, None)),
        (
            "ranks",
            stage("ranks", f"{degrees} cosines of the ranks in each column", ranks, _falling(ranks), View.straight(d)),
        ),
    ]
    if d > 1:
        pairs = lowest(d + d * (d + 1) // 2, d)
        lengths = _cosines(1, LENGTH_DEGREES)
        stages += [
            ("scores", stage("pairs", "means, squares and products of standardised columns, rows cut to a length",
                             pairs, [_pair_weight(f, lean) for f in pairs], View.straight(d, 1.0))),
            ("lengths", stage("lengths", f"{LENGTH_DEGREES} cosines of the rank of a row's length",
                              lengths, _falling(lengths), View.straight(1, pooled=True))),
        ]  # fmt: skip
    return stages


def _pure_stages(d: int, rows: int, epsilon: float, rows_per_person: int, lean: Focus) -> Stages:
    """Plan cube releases: means, the pooled second moment, cosines of ranks where n allows, lengths."""
    shares = _pure_shares(d, rows / rows_per_person, epsilon, lean)
    epsilons = dict(zip(shares, split_epsilon(epsilon, list(shares.values())), strict=True))

    def stage(name: str, purpose: str, features: Sequence[Feature], view: View | None) -> Measurement:
        return Measurement(
            purpose=purpose,
            features=tuple(features),
            mechanism="cube" if len(features) > 1 else "discrete laplace",
            epsilon=epsilons[name],
            rows_per_person=rows_per_person,
            view=view,
        )

    stages: Stages = [
        (None, stage("means", "the mean of each column", [term_feature((c, 1)) for c in range(d)], None)),
        (None, stage("square", "the second moment T_2, averaged over the columns", [pooled(2, range(d))], None)),
    ]
    if "ranks" in shares:
        purpose = f"{PURE_RANK_DEGREES} cosines of the ranks in each column"
        stages.append(("ranks", stage("ranks", purpose, _cosines(d, PURE_RANK_DEGREES), View.straight(d))))
    if "lengths" in shares:
        purpose = f"{PURE_LENGTH_DEGREES} cosines of the rank of a row's length"
        view = View.straight(1, pooled=True)
        stages.append(("lengths", stage("lengths", purpose, _cosines(1, PURE_LENGTH_DEGREES), view)))
    return stages


def _pure_shares(d: int, rows: float, epsilon: float, lean: Focus) -> dict[str, float]:
    """Share a pure budget: ranks and lengths where their noise allows, the rest between means and T_2.

    A kernel query of width s moves by about 1.44 sqrt(d/3)/s^2 when all means err by one unit (the worst of ten
    thousand random queries) and by d/(4 s^2) when the average T_2 does, the same way for every query. The shares
    e1, e2 minimise (A/e1)^2 + (B/e2)^2 with A and B these slopes times the noise at epsilon = 1.
    """

    def noise(count: int, share: float) -> float:
        return cube_deviation(count, sensitivity=2.0, epsilon=share * epsilon) / rows

    shares = {}
    if lean.pure_ranks and noise(PURE_RANK_DEGREES * d, lean.pure_ranks) <= MOST_RANK_NOISE:
        shares["ranks"] = lean.pure_ranks
    if d > 1 and noise(PURE_LENGTH_DEGREES, lean.pure_lengths) <= MOST_LENGTH_NOISE:
        shares["lengths"] = lean.pure_lengths
    means = (1.44 * math.sqrt(d / 3.0) * cube_deviation(d, sensitivity=2.0, epsilon=1.0)) ** (2 / 3)
    square = (d / 4.0 * cube_deviation(1, sensitivity=2.0, epsilon=1.0)) ** (2 / 3)
    rest = 1.0 - sum(shares.values())
    return {"means": rest * means / (means + square), "square": rest * square / (means + square), **shares}


def _cosines(coordinates: int, degrees: int) -> list[Feature]:
    return [term_feature((c, k)) for k in range(1, degrees + 1) for c in range(coordinates)]


def _falling(features: Sequence[Feature]) -> list[float]:
    """Weigh degree k by k^(-1/2): it minimises the noise of the distribution function, sum s_k^2 / k^2."""
    return [feature.degree**-0.5 for feature in features]


def _pair_weight(feature: Feature, lean: Focus) -> float:
    """Weigh products by 1, squares so that they come along, means by c (docs/proofs/sensitivity.md, section 9)."""
    if feature.degree == 1:
        return math.sqrt(lean.mean_weight)
    return math.sqrt(0.125) if len(feature.terms[0]) == 1 else 1.0
