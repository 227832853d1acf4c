"""The stages of method="auto" under pure epsilon.

The cube mechanism for what is bounded one by one, the ball for what is bounded in length, Laplace noise for counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import ball_deviation, cube_deviation, split_epsilon
from smoothsynth.designs.purposes import COSINES, LENGTHS, MEANS, PAIRS, SOFT_COUNTS, SQUARE, WAVED, with_shares
from smoothsynth.designs.shape import MOST_COUNTED, cosines_of_length, pair_weights, with_waves
from smoothsynth.queries.bases import pooled
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, whole_weights
from smoothsynth.queries.transformation import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.designs.focus import Focus
    from smoothsynth.designs.shape import Shape, Stages
    from smoothsynth.queries.bases import Feature

LENGTH_DEGREES = 3
FEWEST_DEGREES, MOST_DEGREES, ROUGHNESS = 3, 24, 0.2
# From so many cosines of ranks on, soft counts are taken instead: noise grows with the number of cosines, but only with the
# root of the number of counts that cosines are made of.
MANY_DEGREES, COUNTS, MOST_COUNTS = 5, 4.5, 96
# Ranks, lengths and pairs are bought only if their noise stays below.
MOST_RANK_NOISE, MOST_LENGTH_NOISE, MOST_PAIR_NOISE = 0.2, 0.25, 0.065
# Means need not be known better than this over sqrt(n), half of what chance makes of n rows: up to two thirds of what
# they and T_2 would have beyond that is for ranks.
ENOUGH, LEAST_FIRST = 0.15, 1 / 3
# The share of ranks in a table of one column, where nothing else matters.
ALONE = 0.6
# The weight of the means beside the pairs, over sqrt(d).
MEAN_WEIGHT = 0.1
# A mark changes by 1 and a number by 2.
MARK_WEIGHT = 2.0


def pure_stages(
    shape: Shape, rows: int, epsilon: float, *, rows_per_person: int, lean: Focus, weighed: bool = False
) -> Stages:
    """Plan releases of means, the pooled second moment, and, where n allows, of ranks, pairs, lengths and shapes of pairs.

    If candidates are to be `weighed` and no model is drawn from, few moments are measured: weights must match them all.
    """
    d, people = shape.dimensions, rows / rows_per_person
    shares = _shares(shape, people, epsilon, lean, weighed=weighed)
    if shape.waved and not weighed:
        # Waves and their products have L2 sensitivity  d + 1.
        noise = ball_deviation(len(shape.waves()), sensitivity=shape.waved + 1.0, epsilon=epsilon) / people
        shares = with_waves(shares, lean, noise, power=1.0)
    epsilons = dict(zip(shares, split_epsilon(epsilon, list(shares.values())), strict=True))

    def stage(
        name: str,
        purpose: str,
        features: Sequence[Feature],
        view: View | None = None,
        *,
        weights: Sequence[float] = (),
        mechanism: str = "cube",
    ) -> Measurement:
        return Measurement(
            purpose=purpose,
            features=tuple(features),
            mechanism=mechanism if len(features) > 1 else "discrete laplace",
            epsilon=epsilons[name],
            weights=whole_weights(weights) if weights else (),
            rows_per_person=rows_per_person,
            view=view,
            **(shape.facts() if view is None or view.waves else {}),
        )

    means, weights = shape.moments(1), [1.0] * len(shape.values) + [MARK_WEIGHT] * len(shape.marks)
    kinds = ("cube", "discrete laplace") if shape.marks else ("cube",)
    made = [stage("means", with_shares(MEANS, shape), means, weights=weights, mechanism=kind) for kind in kinds]
    stages: Stages = [(None, min(made, key=lambda measurement: float(measurement.deviations(rows).sum())))]
    if "square" in shares:
        stages.append((None, stage("square", SQUARE, [pooled(2, shape.values)])))
    if "ranks" in shares:
        values = len(shape.values)
        degrees = FEWEST_DEGREES if weighed else _rank_degrees(values, people, epsilons["ranks"])
        many = degrees >= MANY_DEGREES and values <= MOST_COUNTED
        counts = _rank_counts(values, people, epsilons["ranks"]) if many else None
        ranks = shape.moments(counts or degrees)[: (counts or degrees) * values]
        purpose = COSINES.format(degrees) if counts is None else SOFT_COUNTS.format(counts)
        kind = "cube" if counts is None else "discrete laplace"
        stages.append(("ranks", stage("ranks", purpose, ranks, shape.straight(counts=counts), mechanism=kind)))
    if "pairs" in shares:
        pairs = shape.pairs()
        weights = pair_weights(pairs, MEAN_WEIGHT * math.sqrt(d))
        view = shape.straight(1.0)
        stages.append(("scores", stage("pairs", PAIRS, pairs, view, weights=weights, mechanism="ball")))
    if "lengths" in shares:
        purpose, view = LENGTHS.format(LENGTH_DEGREES), View.straight(1, pooled=True)
        stages.append(("lengths", stage("lengths", purpose, cosines_of_length(LENGTH_DEGREES), view)))
    if "waves" in shares:
        waves, view = shape.waves(), shape.straight(waves=True)
        stages.append(("waves", stage("waves", WAVED, waves, view, mechanism="ball")))
    return stages


def _shares(shape: Shape, people: float, epsilon: float, lean: Focus, *, weighed: bool) -> dict[str, float]:
    """Share a pure budget: pairs, ranks and lengths where their noise allows, the rest between means and T_2.

    A kernel query of width s moves by about 1.44 sqrt(d/3)/s^2 when all means err by one unit (the worst of ten
    thousand random queries) and by d/(4 s^2) when the average T_2 does, the same way for every query. The shares
    e1, e2 minimise (A/e1)^2 + (B/e2)^2 with A and B these slopes times the noise at epsilon = 1.
    """
    d, values = shape.dimensions, len(shape.values)

    def noise(count: int, share: float) -> float:
        return cube_deviation(count, sensitivity=2.0, epsilon=share * epsilon) / people

    shares = {}
    # Products of rows of length r have L2 sensitivity r^2, and r^2 is 0.6 d at least.
    pair_noise = ball_deviation(d * (d + 3) // 2, sensitivity=0.6 * d, epsilon=epsilon) / people
    if shape.columns > 1 and not weighed and pair_noise <= MOST_PAIR_NOISE * lean.pure_pairs:
        shares["pairs"] = lean.pure_pairs
    ranks = max(lean.pure_ranks, ALONE) if lean.pure_ranks and shape.columns == 1 else lean.pure_ranks
    if values and ranks and noise(FEWEST_DEGREES * values, ranks) <= MOST_RANK_NOISE:
        shares["ranks"] = ranks
    if values > 1 and noise(LENGTH_DEGREES, lean.pure_lengths) <= MOST_LENGTH_NOISE:
        shares["lengths"] = lean.pure_lengths
    means = (1.44 * math.sqrt(d / 3.0) * cube_deviation(d, sensitivity=2.0, epsilon=1.0)) ** (2 / 3)
    square = (values / 4.0 * cube_deviation(1, sensitivity=2.0, epsilon=1.0)) ** (2 / 3)
    rest = 1.0 - sum(shares.values())
    if not values:
        return {"means": rest, **shares}
    if "ranks" in shares:
        enough = noise(d, 1.0) * math.sqrt(people) / ENOUGH * (means + square) / means
        kept = max(rest * LEAST_FIRST, min(rest, enough))
        shares["ranks"] += rest - kept
        rest = kept
    return {"means": rest * means / (means + square), "square": rest * square / (means + square), **shares}


def _rank_degrees(values: int, people: float, epsilon: float) -> int:
    """Return how many cosines of ranks to measure: their noise under the cube grows with their number K.

    With s K the noise of each, and b that of a rough density in cosines that are not measured, the squared error of a
    distribution function is about  s^2 K^2 + b^2 / K:  least where K goes with  s^(-2/3).
    """
    noise = 2.0 * values / (math.sqrt(3.0) * people * epsilon)
    on_the_lattice = FULL_WEIGHT / (epsilon * values)
    return math.floor(max(FEWEST_DEGREES, min(MOST_DEGREES, ROUGHNESS * noise ** (-2 / 3), on_the_lattice)))


def _rank_counts(values: int, people: float, epsilon: float) -> int:
    """Return how many soft counts of ranks to measure.

    Together they have L1 sensitivity 2 for each column, whatever their number B, and a cosine made of them has noise
    sqrt(B / 2)  times that of a count.
    """
    noise = 2.0 * math.sqrt(2.0) * values / (people * epsilon)
    return math.floor(min(MOST_COUNTS, COUNTS * noise ** (-1 / 3)))
