"""The stages of method="auto" under (epsilon, delta): Gaussian releases of low moments, ranks, pairs and lengths."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from smoothsynth.accounting.charges import gaussian_multiplier, split_multiplier
from smoothsynth.designs.purposes import (
    CHOSEN,
    COSINES,
    LENGTHS,
    LOW,
    PAIRS,
    SHARES_AGAIN,
    SOFT_COUNTS,
    WAVED,
    with_shares,
)
from smoothsynth.designs.shape import (
    CHOSEN_ROUNDS,
    CHOSEN_SHARE,
    MOST_COUNTED,
    cosines_of_length,
    count_of_chosen,
    falling,
    pair_weights,
    with_waves,
)
from smoothsynth.queries.measurement import Measurement, whole_weights
from smoothsynth.queries.selection import PairChoice
from smoothsynth.queries.transformation import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.designs.focus import Focus
    from smoothsynth.designs.shape import Shape, Stages
    from smoothsynth.queries.bases import Feature

# A weight for T_2 beside x that costs nothing: (x_i, v T_2(x_i)) has L2 sensitivity 2 sqrt(d) for every
# v^2 <= (11 + 5 sqrt 5)/32 (docs/proofs/sensitivity.md, section 4).
FREE_SQUARE = math.sqrt((11 + 5 * math.sqrt(5)) / 32)
# Two marks of a category change by 1, a number by 2: with these weights a category costs what a number costs, beside
# x and T_2, beside the cosines of ranks and beside their soft counts.
MARK_WEIGHT, RANK_MARK_WEIGHT, COUNTED_MARK_WEIGHT = math.sqrt(2.0), 2.0, 1.0

# Tails of lengths are seen by high degrees only, and decide about the mean length.
FEWEST_LENGTH_DEGREES, MOST_LENGTH_DEGREES = 8, 32
# The noise of a cosine grows like the root of its degree. There are as many of ranks as keep it below RANK_NOISE for
# queries of smoothness 16, more for rougher ones. They are made of soft counts, which have L2 sensitivity sqrt(2) for each
# column, whatever their number B: a cosine then has noise  sqrt(B)  times the multiplier, where measured itself it has about
# sqrt(8 k).
FEWEST_RANK_DEGREES, MOST_RANK_DEGREES, RANK_NOISE = 6, 48, 0.088
# As the noise of a cosine of ranks grows from the first to the second, ranks give up a third of their share to pairs, and
# means weigh half as much again beside the pairs: shapes of columns drown first, means last.
CLEAR, DROWNED = 0.066, 0.13


def gaussian_stages(
    shape: Shape,
    rows: int,
    budget: Budget,
    *,
    rows_per_person: int,
    lean: Focus,
    smoothness: int,
    chosen: int | None = None,
    weighed: bool = False,
) -> Stages:
    """Plan up to six releases: low moments, ranks of numbers, pairs of columns, lengths of rows, shapes of pairs.

    Soft counts tell the model of columns; if candidates are to be `weighed`, cosines are measured. Shapes are those of all
    pairs where noise allows, else of some that are `chosen`, as many as are worth it or as many as are given.
    """
    whole = gaussian_multiplier(budget.epsilon, budget.delta)
    lean = _leaning(lean, _rank_noise(shape.columns, rows / rows_per_person, whole / math.sqrt(lean.ranks)))
    shares = _shares(shape, lean)
    if shape.waved and not weighed and not chosen:
        # Waves and their products have L2 sensitivity d + 1.
        noise = (shape.waved + 1) * whole * rows_per_person / rows
        shares = with_waves(shares, lean, noise, power=0.5)
    if "waves" not in shares and not weighed:
        chosen = count_of_chosen(shape, rows / rows_per_person, whole) if chosen is None else chosen
        shares |= {"chosen": CHOSEN_SHARE / (1.0 - CHOSEN_SHARE)} if chosen else {}
    multipliers = dict(zip(shares, split_multiplier(whole, list(shares.values())), strict=True))

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
            **({} if view is not None and (view.radius is not None or view.pooled) else shape.facts()),
        )

    values, marks = len(shape.values), len(shape.marks)
    low = [1.0] * values + [FREE_SQUARE] * values + [MARK_WEIGHT] * marks
    stages: Stages = [(None, stage("low", with_shares(LOW, shape), shape.moments(2 if values else 0), low, None))]
    if "ranks" in shares:
        degrees = _rank_degrees(shape.columns, rows / rows_per_person, multipliers["ranks"], smoothness)
        # B soft counts are B - 1 cosines.
        counts = degrees + 1 if not weighed and shape.dimensions <= MOST_COUNTED else None
        ranks = shape.moments(degrees) if counts is None else shape.soft_counts(counts)
        mark = RANK_MARK_WEIGHT if counts is None else COUNTED_MARK_WEIGHT
        own = falling(ranks[: values * degrees]) if counts is None else [1.0] * (values * counts)
        weights = own + [mark] * marks
        purpose = COSINES.format(degrees) if counts is None else SOFT_COUNTS.format(counts)
        purpose += SHARES_AGAIN if marks else ""
        stages.append(("ranks", stage("ranks", purpose, ranks, weights, shape.straight(counts=counts))))
    if "pairs" in shares:
        pairs = shape.pairs()
        weights = pair_weights(pairs, math.sqrt(lean.mean_weight))
        stages.append(("scores", stage("pairs", PAIRS, pairs, weights, shape.straight(1.0))))
    if "lengths" in shares:
        degrees = _length_degrees(rows / rows_per_person, multipliers["lengths"])
        lengths = cosines_of_length(degrees)
        purpose = LENGTHS.format(degrees)
        stages.append(("lengths", stage("lengths", purpose, lengths, falling(lengths), View.straight(1, pooled=True))))
    if chosen and "chosen" in shares:
        stages += chosen_stages(shape, chosen, multipliers["chosen"], rows_per_person=rows_per_person)
    if "waves" in shares:
        waves = shape.waves()
        stages.append(("waves", stage("waves", WAVED, waves, [1.0] * len(waves), shape.straight(waves=True))))
    return stages


def chosen_stages(shape: Shape, count: int, multiplier: float, *, rows_per_person: int) -> Stages:
    """Plan rounds that choose pairs of columns and measure their shapes: half of the budget given for either."""
    rounds = min(CHOSEN_ROUNDS, count)
    counts = [count // rounds + (number < count % rounds) for number in range(rounds)]
    # Of what all rounds have, a round has a share as large as that of its pairs.
    choosing = split_multiplier(multiplier, [*counts, count])[:-1]
    features = shape.pairs_of_waves()
    return [
        (
            "waves",
            Measurement(
                purpose=CHOSEN.format(own),
                features=features,
                mechanism="discrete gaussian",
                multiplier=part,
                rows_per_person=rows_per_person,
                view=shape.straight(waves=True),
                choice=PairChoice(own, part, rows_per_person),
                **shape.facts(),
            ),
        )
        for own, part in zip(counts, choosing, strict=True)
    ]


def _leaning(lean: Focus, noise: float) -> Focus:
    drowned = min(max((noise - CLEAR) / (DROWNED - CLEAR), 0.0), 1.0)
    given = lean.ranks * drowned / 3.0
    return replace(
        lean, ranks=lean.ranks - given, pairs=lean.pairs + given, mean_weight=lean.mean_weight * (1.0 + drowned / 2.0)
    )


def _shares(shape: Shape, lean: Focus) -> dict[str, float]:
    """Say which stages there are: ranks where there are numbers, pairs for several columns, lengths for several numbers."""
    wanted = {
        "low": True,
        "ranks": bool(shape.values),
        "pairs": shape.columns > 1,
        "lengths": len(shape.values) > 1,
    }
    shares = {name: float(getattr(lean, name)) for name, there in wanted.items() if there}
    if "ranks" not in shares:
        shares["low"] += lean.ranks
    total = math.fsum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _rank_degrees(columns: int, rows: float, multiplier: float, smoothness: int) -> int:
    """Return how many cosines of ranks to measure: few if their noise is large."""
    wanted = (RANK_NOISE / _rank_noise(columns, rows, multiplier)) ** 2 * 4.0 / math.sqrt(smoothness)
    return round(min(MOST_RANK_DEGREES, max(FEWEST_RANK_DEGREES, wanted)))


def _rank_noise(columns: int, rows: float, multiplier: float) -> float:
    """Return about the noise of the first cosine of ranks; that of degree k is sqrt(k) times as large."""
    return math.sqrt(8.0 * columns) * multiplier / rows


def _length_degrees(rows: float, multiplier: float) -> int:
    """Return how many cosines of lengths to measure: more where the noise, about sqrt(8) for the first one, is small."""
    noise = math.sqrt(8.0) * multiplier / rows
    return round(min(MOST_LENGTH_DEGREES, max(FEWEST_LENGTH_DEGREES, 12.0 * math.sqrt(0.03 / noise))))
