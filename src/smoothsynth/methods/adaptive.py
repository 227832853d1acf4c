"""The design of method="auto": small releases in turn, each made in the coordinates that the earlier ones allow.

Noise is then relative to the spread of the data and not to the public bounds. Shares are constants, found flat in
trials (docs/notes/0005); what is worth little after its noise is shrunk away by the model (model/).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.methods.adaptive_rounds import gaussian_stages, pure_stages
from smoothsynth.methods.layout import FOCUSES, Design, Shape
from smoothsynth.queries.families import RankHistogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.methods.layout import Stages
    from smoothsynth.schema import Schema


# Above this noise of the means, in half ranges, a first Gaussian stage cannot find the data within its bounds.
MOST_LOW_NOISE = 1.0


def auto_design(
    schema: Schema,
    rows: int,
    budget: Budget,
    *,
    rows_per_person: int,
    size: int,
    focus: str,
    smoothness: int,
    chosen: int | None = None,
    gaussian: bool = False,
    weighed: bool = False,
) -> Design:
    """Choose stages, mechanism and shares from public facts; `weighed` if no model is drawn from.

    `chosen` is how many pairs of columns are to be chosen for their shapes, None if that is for the plan to say; with
    `gaussian` there is nothing to choose between kinds of noise.
    """
    if chosen and (weighed or not budget.delta):
        raise PlanError(
            "Pairs of columns are chosen with a delta and for rows of the model only: give a delta such as 1e-6 and leave "
            "candidates and fit as they are, or leave out chosen_pairs."
        )
    shape, lean = Shape.of(schema), FOCUSES[focus]

    def pure() -> Stages:
        return pure_stages(shape, rows, budget.epsilon, rows_per_person=rows_per_person, lean=lean, weighed=weighed)

    if budget.delta:
        normal = gaussian_stages(
            shape,
            rows,
            budget,
            rows_per_person=rows_per_person,
            lean=lean,
            smoothness=smoothness,
            chosen=chosen,
            weighed=weighed,
        )
        stages = normal if chosen or gaussian else _better(normal, pure, shape, rows)
    else:
        stages = pure()
    looks, measurements = zip(*stages, strict=True)
    return Design(measurements, "model", size, "maximum entropy", looks=looks)


def _better(gaussian: Stages, pure: Callable[[], Stages], shape: Shape, rows: int) -> Stages:
    """Return the better plan of the two; a pure one whose noise would be finer than the lattice is none."""
    try:
        other = pure()
    except PlanError:
        return gaussian
    return gaussian if _gaussian_is_better(gaussian, other, shape, rows) else other


def _gaussian_is_better(gaussian: Stages, pure: Stages, shape: Shape, rows: int) -> bool:
    """Decide from the noise of both plans: a pure release satisfies every delta, and may be the better one.

    For one column of numbers nothing but ranks matters, and few cosines favour the cube. For several, all later stages
    stand on the first: where its noise is too large to find the data within its bounds, there is nothing to adapt to.
    """
    if shape.columns == 1 and shape.values:
        return _rank_noise(gaussian, rows) < _rank_noise(pure, rows)
    first, other = (float(stages[0][1].deviations(rows)[0]) for stages in (gaussian, pure))
    return first <= other or (shape.columns > 1 and first <= MOST_LOW_NOISE)


def _rank_noise(stages: Stages, rows: int) -> float:
    """Return about the noise of a distribution function, infinite where ranks are not measured.

    The noise s_k of the k-th cosine of ranks moves it by s_k / k. B soft counts are B - 1 cosines, sqrt(B/2) times as noisy.
    """
    ranks = next((m for look, m in stages if look == "ranks"), None)
    if ranks is None:
        return math.inf
    degrees, noise = np.array([feature.degree for feature in ranks.features]), ranks.deviations(rows)
    counts = ranks.family.cells if isinstance(ranks.family, RankHistogram) else None
    if counts is not None:
        # Neither the last count nor a mark, which is measured as one, is a further cosine.
        cosines = degrees < counts
        degrees, noise = degrees[cosines], noise[cosines] * math.sqrt(counts / 2.0)
    return float(np.linalg.norm(noise / degrees))
