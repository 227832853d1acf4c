"""The rounds under pure epsilon and under (epsilon, delta): one table of families.

The rounds of method="auto" under (epsilon, delta): Gaussian releases of low moments, ranks, pairs and lengths.

The rounds of method="auto" under pure epsilon.

The cube mechanism for what is bounded one by one, Wishart noise for products of rows, Laplace noise for counts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from smoothsynth.accounting.charges import (
    cube_deviation,
    gaussian_multiplier,
    split_epsilon,
    split_multiplier,
    wishart_deviation,
)
from smoothsynth.methods.layout import (
    LENGTHS,
    LOW,
    MEANS,
    MOST_COUNTED,
    PAIRS,
    SHARES_AGAIN,
    SQUARE,
    cosines_of_length,
    falling,
    pair_weights,
    ranks_purpose,
    with_shares,
)
from smoothsynth.methods.levels import plan_levels
from smoothsynth.methods.tables import SHARE, plan_tables, spike_measurement, spike_share
from smoothsynth.queries.bases import pooled, term_feature
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, whole_weights
from smoothsynth.queries.sensitivity import hat_cosines_l2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.methods.layout import Focus, Shape
    from smoothsynth.methods.levels import LevelRound
    from smoothsynth.methods.tables import TableRound, Wanted
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.transformation import Transformation


# A weight for T_2 beside x that costs nothing: (x_i, v T_2(x_i)) has L2 sensitivity 2 sqrt(d) for every
# v^2 <= (11 + 5 sqrt 5)/32 (docs/proofs/sensitivity.md, section 4).
FREE_SQUARE = math.sqrt((11 + 5 * math.sqrt(5)) / 32)
# Two indicators of a category change by 1, a number by 2: with these weights a category costs what a number costs, beside
# x and T_2, beside the cosines of ranks and beside their soft counts.
INDICATOR_WEIGHT, RANK_INDICATOR_WEIGHT, COUNTED_INDICATOR_WEIGHT = math.sqrt(2.0), 2.0, 1.0
# Cosines of soft counts, all weighed alike, have the noise of the counts. Those of low degree decide about the distribution
# function, those of high degree about single counts: degree k is weighed by k to minus this power. Of few counts the latter
# matter as much, and counts are measured as they are (docs/notes/0021).
COSINE_POWER, MANY_COSINES = 0.25, 24

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


def gaussian_rounds(
    shape: Shape,
    rows: int,
    budget: Budget,
    *,
    rows_per_person: int,
    lean: Focus,
    smoothness: int,
    wanted: Wanted,
    weighed: bool = False,
) -> list[Measurement]:
    """Plan releases of low moments, spikes, ranks of numbers, pairs of columns, lengths of rows, and tables.

    Soft counts tell the model of columns; if candidates are to be `weighed`, cosines are measured, and no tables.
    """
    whole = gaussian_multiplier(budget.epsilon, budget.delta)
    lean = _leaning(lean, _rank_noise(shape.columns, rows / rows_per_person, whole / math.sqrt(lean.ranks)))
    unit = math.sqrt(2.0) * whole * rows_per_person / rows
    tables = [] if weighed else plan_tables(shape, unit, power=0.5, wanted=wanted, share=lean.beside_tables[-1])
    spikes = 0.0 if weighed else spike_share(shape, unit, power=0.5)
    levels = plan_levels(shape, unit, power=0.5)
    divided = _beside_tables(shape, lean) if tables else _shares(shape, lean)
    shares = with_levels(with_tables(divided, tables, spikes=spikes), levels)
    multipliers = dict(zip(shares, split_multiplier(whole, list(shares.values())), strict=True))

    def measured(
        name: str,
        purpose: str,
        features: Sequence[Feature],
        weights: Sequence[float],
        transformation: Transformation | None,
    ) -> Measurement:
        return Measurement(
            purpose=purpose,
            features=tuple(features),
            mechanism="discrete gaussian",
            multiplier=multipliers[name],
            weights=whole_weights(weights),
            rows_per_person=rows_per_person,
            transformation=transformation,
            **(shape.facts() if transformation is None or transformation.family.alone else {}),
            **(shape.missing_facts() if not weighed and _counted(transformation) else {}),
        )

    values, indicators = len(shape.values), len(shape.indicators)
    low = [1.0] * values + [FREE_SQUARE] * values + [INDICATOR_WEIGHT] * indicators
    rounds = [measured("low", with_shares(LOW, shape), shape.moments(2 if values else 0), low, None)]
    if spikes:
        rounds.append(spike_measurement(shape, multipliers["spikes"], pure=False, rows_per_person=rows_per_person))
    if "ranks" in shares:
        degrees = _rank_degrees(shape.columns, rows / rows_per_person, multipliers["ranks"], smoothness)
        # Of B soft counts there are B - 1 cosines.
        counts = degrees + 1 if not weighed and shape.dimensions <= MOST_COUNTED else None
        family = RankHistogram(counts, cosines=counts is not None and degrees >= MANY_COSINES)
        purpose = ranks_purpose(family, degrees) + (SHARES_AGAIN if indicators else "")
        ranks = shape.ranks(family, degrees)
        weights = _rank_weights(family, ranks[: len(ranks) - indicators], indicators)
        rounds.append(measured("ranks", purpose, ranks, weights, shape.straight(family)))
    if "pairs" in shares:
        pairs = shape.pairs()
        weights = pair_weights(pairs, math.sqrt(lean.mean_weight))
        rounds.append(measured("pairs", PAIRS, pairs, weights, shape.straight(ClippedSecondMoments(1.0))))
    if "lengths" in shares:
        degrees = _length_degrees(rows / rows_per_person, multipliers["lengths"])
        lengths = cosines_of_length(degrees)
        purpose = LENGTHS.format(degrees)
        rounds.append(measured("lengths", purpose, lengths, falling(lengths), shape.straight(RowNorms())))
    rounds += _table_rounds(shape, tables, multipliers, pure=False, rows_per_person=rows_per_person)
    return rounds + _level_rounds(shape, levels, multipliers, pure=False, rows_per_person=rows_per_person)


def _counted(transformation: Transformation | None) -> bool:
    """Whether missing values can add nothing: to low moments, and to soft counts and their cosines."""
    return transformation is None or (isinstance(transformation.family, RankHistogram) and transformation.family.exact)


def with_tables(shares: dict[str, float], tables: Sequence[TableRound], *, spikes: float) -> dict[Any, float]:
    """Divide the share of all tables between their rounds, and let all give up alike what the search for spikes has."""
    kept = {name: (1.0 - spikes) * own for name, own in shares.items()}
    of_tables = kept.pop("tables", 0.0)
    found: dict[Any, float] = {**kept, "spikes": spikes} if spikes else {**kept}
    total = math.fsum(share for one in tables for share in one.shares)
    return found | {
        (number, part): of_tables * share / total
        for number, one in enumerate(tables)
        for part, share in enumerate(one.shares)
    }


def _table_rounds(
    shape: Shape, tables: Sequence[TableRound], costs: dict[Any, float], *, pure: bool, rows_per_person: int
) -> list[Measurement]:
    return [
        one.measurement(
            shape,
            [costs[number, part] for part in range(len(one.shares))],
            pure=pure,
            rows_per_person=rows_per_person,
        )
        for number, one in enumerate(tables)
    ]


def with_levels(shares: dict[Any, float], levels: Sequence[LevelRound]) -> dict[Any, float]:
    """Let all other rounds give up alike what the counts of levels have."""
    given = math.fsum(one.share for one in levels)
    found = {name: (1.0 - given) * own for name, own in shares.items()} if levels else dict(shares)
    return found | {("levels", number): one.share for number, one in enumerate(levels)}


def _level_rounds(
    shape: Shape, levels: Sequence[LevelRound], costs: dict[Any, float], *, pure: bool, rows_per_person: int
) -> list[Measurement]:
    return [
        one.measurement(shape, costs["levels", number], pure=pure, rows_per_person=rows_per_person)
        for number, one in enumerate(levels)
    ]


def _leaning(lean: Focus, noise: float) -> Focus:
    drowned = min(max((noise - CLEAR) / (DROWNED - CLEAR), 0.0), 1.0)
    given = lean.ranks * drowned / 3.0
    return replace(
        lean, ranks=lean.ranks - given, pairs=lean.pairs + given, mean_weight=lean.mean_weight * (1.0 + drowned / 2.0)
    )


def _shares(shape: Shape, lean: Focus) -> dict[str, float]:
    """Say which rounds there are: ranks where there are numbers, pairs for several columns, row norms for several numbers."""
    wanted = {"low": True, "ranks": bool(shape.values), "pairs": shape.columns > 1, "lengths": shape.numeric}
    shares = {name: float(getattr(lean, name)) for name, there in wanted.items() if there}
    if "ranks" not in shares:
        shares["low"] += lean.ranks
    total = math.fsum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _beside_tables(shape: Shape, lean: Focus) -> dict[str, float]:
    """Share a budget where tables are measured; row norms are not, for what they cost brings less there (note 0019)."""
    shares = dict(zip(("low", "ranks", "pairs", "tables"), lean.beside_tables, strict=True))
    if not shape.values:
        shares["low"] += shares.pop("ranks")
    return shares


def _rank_degrees(columns: int, rows: float, multiplier: float, smoothness: int) -> int:
    """Return how many cosines of ranks to measure: few if their noise is large."""
    wanted = (RANK_NOISE / _rank_noise(columns, rows, multiplier)) ** 2 * 4.0 / math.sqrt(smoothness)
    return round(min(MOST_RANK_DEGREES, max(FEWEST_RANK_DEGREES, wanted)))


def _rank_weights(family: RankHistogram, ranks: Sequence[Feature], indicators: int) -> list[float]:
    """Weigh cosines or soft counts of numbers, then indicators: two levels of a category move as far as those of a number."""
    if family.cells is None:
        return falling(ranks) + [RANK_INDICATOR_WEIGHT] * indicators
    if not family.cosines:
        return [1.0] * len(ranks) + [COUNTED_INDICATOR_WEIGHT] * indicators
    one = [term_feature((0, k)) for k in range(1, family.cells)]
    moved = hat_cosines_l2(one, falling(one, power=COSINE_POWER), {}, counts=family.cells)
    return falling(ranks, power=COSINE_POWER) + [moved / math.sqrt(2.0)] * indicators


def _rank_noise(columns: int, rows: float, multiplier: float) -> float:
    """Return about the noise of the first cosine of ranks; that of degree k is sqrt(k) times as large."""
    return math.sqrt(8.0 * columns) * multiplier / rows


def _length_degrees(rows: float, multiplier: float) -> int:
    """Return how many cosines of lengths to measure: more where the noise, about sqrt(8) for the first one, is small."""
    noise = math.sqrt(8.0) * multiplier / rows
    return round(min(MOST_LENGTH_DEGREES, max(FEWEST_LENGTH_DEGREES, 12.0 * math.sqrt(0.03 / noise))))


LENGTH_DEGREES = 3
FEWEST_DEGREES, MOST_DEGREES, ROUGHNESS = 3, 24, 0.2
# From so many cosines of ranks on, soft counts are taken instead: noise grows with the number of cosines, but only with the
# root of the number of counts that cosines are made of.
MANY_DEGREES, COUNTS, MOST_CELLS = 5, 4.5, 96
# Ranks, lengths and pairs are bought only if their noise stays below.
MOST_RANK_NOISE, MOST_LENGTH_NOISE, MOST_PAIR_NOISE = 0.2, 0.25, 0.065
# Means need not be known better than this over sqrt(n), half of what chance makes of n rows: up to two thirds of what
# they and T_2 would have beyond that is for ranks.
ENOUGH, LEAST_FIRST = 0.15, 1 / 3
# The share of ranks in a table of one column, where nothing else matters.
ALONE = 0.6
# The weight of the means beside the pairs, over sqrt(d).
MEAN_WEIGHT = 0.1
# An indicator changes by 1 and a number by 2.
PURE_INDICATOR_WEIGHT = 2.0


def pure_rounds(
    shape: Shape,
    rows: int,
    epsilon: float,
    *,
    rows_per_person: int,
    lean: Focus,
    wanted: Wanted,
    weighed: bool = False,
) -> list[Measurement]:
    """Plan releases of means, the pooled second moment, and, where n allows, of ranks, pairs, lengths, spikes and tables.

    If candidates are to be `weighed` and no model is drawn from, few moments are measured: weights must match them all.
    """
    d, people = shape.dimensions, rows / rows_per_person
    divided = _pure_shares(shape, people, epsilon, lean, weighed=weighed)
    # Laplace noise of scale 2 / epsilon has the deviation sqrt(2) times that.
    unit = math.sqrt(8.0) / (epsilon * people)
    tables = [] if weighed else plan_tables(shape, unit, power=1.0, wanted=wanted)
    spikes = 0.0 if weighed else spike_share(shape, unit, power=1.0)
    levels = plan_levels(shape, unit, power=1.0)
    if tables:
        divided = _pure_beside_tables(divided)
    shares = with_levels(with_tables(divided, tables, spikes=spikes), levels)
    epsilons = dict(zip(shares, split_epsilon(epsilon, list(shares.values())), strict=True))

    def measured(
        name: str,
        purpose: str,
        features: Sequence[Feature],
        transformation: Transformation | None = None,
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
            transformation=transformation,
            **(shape.facts() if transformation is None else {}),
            **(shape.missing_facts() if name == "means" and not weighed else {}),
        )

    means, weights = shape.moments(1), [1.0] * len(shape.values) + [PURE_INDICATOR_WEIGHT] * len(shape.indicators)
    kinds = ("cube", "discrete laplace") if shape.indicators else ("cube",)
    made = [measured("means", with_shares(MEANS, shape), means, weights=weights, mechanism=kind) for kind in kinds]
    rounds = [min(made, key=lambda measurement: float(measurement.deviations(rows).sum()))]
    if "square" in shares:
        rounds.append(measured("square", SQUARE, [pooled(2, shape.values)]))
    if spikes:
        rounds.append(spike_measurement(shape, epsilons["spikes"], pure=True, rows_per_person=rows_per_person))
    if "ranks" in shares:
        values = len(shape.values)
        degrees = FEWEST_DEGREES if weighed else _pure_rank_degrees(values, people, epsilons["ranks"])
        many = degrees >= MANY_DEGREES and values <= MOST_COUNTED
        counts = _rank_counts(values, people, epsilons["ranks"]) if many else None
        ranks = shape.moments(counts or degrees)[: (counts or degrees) * values]
        family = RankHistogram(counts)
        purpose = ranks_purpose(family, degrees)
        kind = "cube" if counts is None else "discrete laplace"
        rounds.append(measured("ranks", purpose, ranks, shape.straight(family), mechanism=kind))
    if "pairs" in shares:
        pairs = shape.pairs()
        weights = pair_weights(pairs, MEAN_WEIGHT * math.sqrt(d))
        transformation = shape.straight(ClippedSecondMoments(1.0))
        rounds.append(measured("pairs", PAIRS, pairs, transformation, weights=weights, mechanism="wishart"))
    if "lengths" in shares:
        purpose, transformation = LENGTHS.format(LENGTH_DEGREES), shape.straight(RowNorms())
        rounds.append(measured("lengths", purpose, cosines_of_length(LENGTH_DEGREES), transformation))
    rounds += _table_rounds(shape, tables, epsilons, pure=True, rows_per_person=rows_per_person)
    return rounds + _level_rounds(shape, levels, epsilons, pure=True, rows_per_person=rows_per_person)


def _pure_shares(shape: Shape, people: float, epsilon: float, lean: Focus, *, weighed: bool) -> dict[str, float]:
    """Share a pure budget: pairs, ranks and lengths where their noise allows, the rest between means and T_2.

    A kernel query of width s moves by about 1.44 sqrt(d/3)/s^2 when all means err by one unit (the worst of ten
    thousand random queries) and by d/(4 s^2) when the average T_2 does, the same way for every query. The shares
    e1, e2 minimise (A/e1)^2 + (B/e2)^2 with A and B these slopes times the noise at epsilon = 1.
    """
    d, values = shape.dimensions, len(shape.values)

    def noise(count: int, share: float) -> float:
        return cube_deviation(count, sensitivity=2.0, epsilon=share * epsilon) / people

    shares = {}
    # The matrix of products of rows of length r has sensitivity 2 r^2 in nuclear norm, and r^2 is 0.6 d at least.
    pair_noise = wishart_deviation(d * (d + 3) // 2, sensitivity=1.2 * d, epsilon=epsilon) / people
    if shape.columns > 1 and not weighed and pair_noise <= MOST_PAIR_NOISE * lean.pure_pairs:
        shares["pairs"] = lean.pure_pairs
    ranks = max(lean.pure_ranks, ALONE) if lean.pure_ranks and shape.columns == 1 else lean.pure_ranks
    if values and ranks and noise(FEWEST_DEGREES * values, ranks) <= MOST_RANK_NOISE:
        shares["ranks"] = ranks
    if shape.numeric and noise(LENGTH_DEGREES, lean.pure_lengths) <= MOST_LENGTH_NOISE:
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


def _pure_beside_tables(shares: dict[str, float]) -> dict[str, float]:
    """Share a pure budget where tables are measured: they tell of pairs too, and row norms bring less than they cost."""
    own = {name: share * (0.5 if name == "pairs" else 1.0) for name, share in shares.items() if name != "lengths"}
    total = math.fsum(own.values())
    return {name: (1.0 - SHARE) * share / total for name, share in own.items()} | {"tables": SHARE}


def _pure_rank_degrees(values: int, people: float, epsilon: float) -> int:
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
    return math.floor(min(MOST_CELLS, COUNTS * noise ** (-1 / 3)))
