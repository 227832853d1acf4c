"""Method "auto": small releases in turn, each made in the coordinates that the earlier ones allow.

Noise is then relative to the spread of the data and not to the public bounds. Shares are constants, found flat in
trials (docs/notes/0005); what is worth little after its noise is shrunk away by the model (model/).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.methods.adaptive_rounds import gaussian_rounds, pure_rounds
from smoothsynth.methods.layout import (
    CANDIDATES,
    FITS,
    FOCUSES,
    MOST_CANDIDATES,
    MOST_CHOSEN_FROM,
    MOST_SMOOTHNESS,
    NOISES,
    Design,
    Shape,
    check_count,
    check_noise,
    check_one_of,
)
from smoothsynth.queries.families import RankHistogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema


# Above this noise of the means, in half ranges, a first Gaussian stage cannot find the data within its bounds.
MOST_LOW_NOISE = 1.0
# More pairs than this are not chosen one by one.
MOST_ASKED = 200


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The options of method="auto": small releases in turn, each in the coordinates that earlier ones allow.

    `focus` leans towards "queries" (wide kernels), "marginals" or "correlations". `smoothness` is the order K of the queries
    that matter (a Gaussian kernel of width s has K = s^2): rougher ones (small K) buy more degrees in each column.
    `selected_pairs` is how many pairs of columns are found that the model has most wrong, and measured by themselves, in
    place of the shapes of all pairs; by default this is done in wide tables where the number of rows allows it, 0 is never.
    `noise` is "gaussian", which needs a delta, or "pure", by default what serves better at this budget. `candidates`
    ("model", "hypercube" or "grid"), their number `candidate_count` and `fit` ("maximum entropy" or "linear program") are by
    default rows of the model, which need no weights.
    """

    focus: str = "balanced"
    smoothness: int = 16
    selected_pairs: int | None = None
    noise: str | None = None
    candidates: str | None = None
    candidate_count: int | None = None
    fit: str | None = None

    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        check_one_of("focus", self.focus, tuple(FOCUSES))
        check_count("smoothness", self.smoothness, MOST_SMOOTHNESS)
        check_one_of("noise", self.noise or NOISES[0], NOISES)
        # The ellipsoid is made of the subspace iteration, which is the paper's.
        check_one_of("candidates", self.candidates or "model", tuple(c for c in CANDIDATES if c != "ellipsoid"))
        check_count("candidate_count", 1 if self.candidate_count is None else self.candidate_count, MOST_CANDIDATES)
        check_one_of("fit", self.fit or FITS[0], FITS)

    @property
    def weighted(self) -> bool:
        """Whether candidates are weighted, so that no rows of the model are drawn."""
        return self.candidates not in (None, "model") or self.fit not in (None, "maximum entropy")

    def check(self, schema: Schema, budget: Budget) -> None:
        """Refuse options that this schema or budget cannot have, whatever the number of rows."""
        check_noise(self.noise, budget)
        selected = self.selected_pairs
        if not selected and type(selected) in (int, type(None)):
            return
        most = min(Shape.of(schema).choosable // 2, MOST_ASKED)
        if type(selected) is not int or not 0 < selected <= most:
            raise PlanError(
                f"selected_pairs must be a whole number from 0 to {most:,} for this schema (half of the pairs of up to "
                f"{MOST_CHOSEN_FROM} columns of numbers that no constraint binds, {MOST_ASKED} at most), not {selected!r}."
            )

    def design(self, schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int) -> Design:
        """Choose rounds, mechanism and shares from public facts, for `size` synthetic rows."""
        if self.selected_pairs and (self.weighted or not budget.delta):
            raise PlanError(
                "Pairs of columns are selected with a delta and for rows of the model only: give a delta such as 1e-6 and "
                "leave candidates and fit as they are, or leave out selected_pairs."
            )
        rounds = self._rounds(Shape.of(schema), rows, budget, rows_per_person=rows_per_person)
        found = Design(tuple(rounds), "model", size, "maximum entropy")
        return found.with_rows_from(self.candidates, self.candidate_count, self.fit, size=size)

    def _rounds(self, shape: Shape, rows: int, budget: Budget, *, rows_per_person: int) -> list[Measurement]:
        lean, weighed = FOCUSES[self.focus], self.weighted

        def pure() -> list[Measurement]:
            return pure_rounds(shape, rows, budget.epsilon, rows_per_person=rows_per_person, lean=lean, weighed=weighed)

        if not budget.delta:
            return pure()
        normal = gaussian_rounds(
            shape,
            rows,
            budget,
            rows_per_person=rows_per_person,
            lean=lean,
            smoothness=self.smoothness,
            chosen=self.selected_pairs,
            weighed=weighed,
        )
        # Where the kind of noise is given there is nothing to choose between.
        return normal if self.selected_pairs or self.noise == "gaussian" else _better(normal, pure, shape, rows)


def _better(
    gaussian: list[Measurement], pure: Callable[[], list[Measurement]], shape: Shape, rows: int
) -> list[Measurement]:
    """Return the better plan of the two; a pure one whose noise would be finer than the lattice is none."""
    try:
        other = pure()
    except PlanError:
        return gaussian
    return gaussian if _gaussian_is_better(gaussian, other, shape, rows) else other


def _gaussian_is_better(gaussian: list[Measurement], pure: list[Measurement], shape: Shape, rows: int) -> bool:
    """Decide from the noise of both plans: a pure release satisfies every delta, and may be the better one.

    For one column of numbers nothing but ranks matters, and few cosines favour the cube. For several, all later rounds
    stand on the first: where its noise is too large to find the data within its bounds, there is nothing to adapt to.
    """
    if shape.columns == 1 and shape.values:
        return _rank_noise(gaussian, rows) < _rank_noise(pure, rows)
    first, other = (float(rounds[0].deviations(rows)[0]) for rounds in (gaussian, pure))
    return first <= other or (shape.columns > 1 and first <= MOST_LOW_NOISE)


def _rank_noise(rounds: list[Measurement], rows: int) -> float:
    """Return about the noise of a distribution function, infinite where ranks are not measured.

    The noise s_k of the k-th cosine of ranks moves it by s_k / k. B soft counts are B - 1 cosines, sqrt(B/2) times as noisy.
    """
    found = ((m, m.family.cells) for m in rounds if isinstance(m.family, RankHistogram))
    ranks, counts = next(found, (None, None))
    if ranks is None:
        return math.inf
    degrees, noise = np.array([feature.degree for feature in ranks.features]), ranks.deviations(rows)
    if counts is not None:
        # Neither the last count nor an indicator, which is measured as one, is a further cosine.
        cosines = degrees < counts
        degrees, noise = degrees[cosines], noise[cosines] * math.sqrt(counts / 2.0)
    return float(np.linalg.norm(noise / degrees))
