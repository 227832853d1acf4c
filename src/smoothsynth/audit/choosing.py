"""The cases of noisy maxima: bare scores, and a choice of pairs of columns through the one door."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.accounting.charges import MAXIMA, Budget, Charge, gaussian_multiplier, maxima_scale, split_multiplier
from smoothsynth.accounting.ledger import Ledger
from smoothsynth.audit import likelihood
from smoothsynth.audit.case import Case
from smoothsynth.audit.claim import Claim, claim_of
from smoothsynth.audit.mechanisms import DELTA, EPSILON, GAUSSIAN_EPSILON, Remembering
from smoothsynth.audit.pairs import pair
from smoothsynth.private import noise
from smoothsynth.private.measure import measure
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import WAVES, term_feature
from smoothsynth.queries.measurement import Measurement
from smoothsynth.queries.selection import PRODUCTS, PairChoice
from smoothsynth.queries.transformation import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.audit.case import Looks
    from smoothsynth.audit.pairs import Pair

    Array = NDArray[np.float64]

# Where the waves of a column are (1, 0), and where they are (-1, 0).
_RIGHT, _LEFT = 2 / 3, -2 / 3


def choosing_cases() -> list[Case]:
    """Return noisy maxima on scores that move as far as they may, each in the way that tells most."""
    # Scores that change places: then P(first) moves from 1/(1 + e^c) to 1/(1 + e^-c), the farthest for its range.
    return [
        maxima_case([[0, 2**17], [2**17, 0]], count=1, share=4.0),
        maxima_case([[0, 3, 3, 0], [3, 0, 0, 3]], count=2, share=4.0),
        choice_case(pair((_RIGHT, _RIGHT, _LEFT), (_RIGHT, _LEFT, _RIGHT), rows=2, stay=_RIGHT)),
    ]


def maxima_case(scores: Sequence[Sequence[int]], *, count: int, share: float = 1.0) -> Case:
    """Name the largest of scores on one table and on its neighbour."""
    sensitivity, multiplier = max(abs(a - b) for a, b in zip(*scores, strict=True)), gaussian_multiplier(EPSILON, DELTA)
    charge = Charge(
        purpose="the audit",
        mechanism=MAXIMA,
        norm="linf",
        sensitivity=float(sensitivity),
        scale=maxima_scale(sensitivity, multiplier, count=count),
        coordinates=count,
        epsilon=None,
        multiplier=multiplier,
    )
    here, there = (np.array(side, dtype=np.float64) for side in scores)

    def draw(side: int, trials: int) -> Looks:
        sampler = noise.noisy_maxima(count, sensitivity=sensitivity, multiplier=multiplier)
        named = np.array([sampler(list(scores[side])) for _ in range(trials)])
        losses = [likelihood_of(one, here, charge.scale) - likelihood_of(one, there, charge.scale) for one in named]
        return {"numbers": np.column_stack([losses, named])}

    words = f"scores {', '.join(map(str, scores[0]))} / {', '.join(map(str, scores[1]))}"
    return Case(f"{MAXIMA}, {count} of {len(here)}", words, claim_of([charge], delta=DELTA), None, draw, share)


def choice_case(tables: Pair) -> Case:
    """Choose one of three pairs of columns and measure it, on two neighbouring tables."""
    # Most is spent on choosing, or measuring would be all that is seen.
    choosing, measuring = split_multiplier(gaussian_multiplier(GAUSSIAN_EPSILON, DELTA), [0.9, 0.1])
    features = tuple(
        term_feature((WAVES * one + a, 1), (WAVES * other + b, 1))
        for one, other in itertools.combinations(range(3), 2)
        for a in range(WAVES)
        for b in range(WAVES)
    )
    choice = PairChoice(1, choosing, expected=np.zeros((3 * WAVES, 3 * WAVES), dtype=np.int64))
    measurement = Measurement(
        "a chosen pair of 3 columns",
        features,
        "discrete gaussian",
        multiplier=measuring,
        view=View.straight(3, waves=True),
        choice=choice,
    )
    opened = tuple(open_table(tables.arrow(side), tables.schema) for side in (0, 1))
    sums = tuple(likelihood.sums(measurement, tables.unit(side)) for side in (0, 1))
    scores = tuple(np.linalg.norm(own.reshape(-1, PRODUCTS), axis=1) for own in sums)
    engine, scale = Remembering(), choice.charge().scale

    def once(side: int) -> tuple[float, list[float], Ledger]:
        ledger = Ledger(Budget(1e3, DELTA))
        noisy = measure(opened[side], measurement, engine=engine, ledger=ledger)
        chosen = features.index(noisy.features[0]) // PRODUCTS
        places = slice(PRODUCTS * chosen, PRODUCTS * (chosen + 1))
        numbers = np.array(noisy.integers, dtype=np.float64)
        loss = likelihood_of([chosen], scores[0], scale) - likelihood_of([chosen], scores[1], scale)
        charge = noisy.measurement.charge()
        loss += float(likelihood.losses(numbers, sums[0][places], sums[1][places], charge=charge))
        return loss, [chosen, *noisy.integers], ledger

    def draw(side: int, trials: int) -> Looks:
        drawn = [once(side)[:2] for _ in range(trials)]
        return {"numbers": np.array([[loss, *numbers] for loss, numbers in drawn])}

    claim: Claim = claim_of(once(0)[2].charges, delta=DELTA)
    return Case(f"{MAXIMA}: {measurement.purpose}", tables.words, claim, None, draw)


def likelihood_of(named: Sequence[int] | NDArray[np.int64], scores: Array, scale: float) -> float:
    """Return log P that these places are named in this order: one after the other, each by the exponential mechanism."""
    left, total = np.ones(len(scores), dtype=bool), 0.0
    for place in named:
        total += float(scores[place] / scale - np.logaddexp.reduce(scores[left] / scale))
        left[place] = False
    return total
