"""Method "auto": small releases in turn, each made in the coordinates that the earlier ones allow.

Noise is then relative to the spread of the data and not to the public bounds. Shares are constants, found flat in
trials (docs/notes/0005); what is worth little after its noise is shrunk away by the model (model/).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from smoothsynth._display import shown_as_call
from smoothsynth.errors import PlanError, SchemaError, arguments_in_words
from smoothsynth.methods.adaptive_rounds import gaussian_rounds, pure_rounds
from smoothsynth.methods.layout import (
    CANDIDATES,
    FITS,
    FOCUSES,
    MOST_CANDIDATES,
    MOST_SMOOTHNESS,
    NOISES,
    Design,
    Shape,
    check_count,
    check_no_tiers,
    check_noise,
    check_one_of,
)
from smoothsynth.methods.tables import Wanted
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.schema import unknown_column

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoothsynth.accounting.charges import Budget
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema


# Above this noise of the means, in half ranges and for each column, a first Gaussian stage cannot find the data within its
# bounds; and above that one whatever the number of columns. The more there are, the more pure noise has the later rounds.
LOW_NOISE, MOST_LOW_NOISE = 0.08, 1.0
# More tables than this are not chosen one by one.
MOST_TABLES = 200
_NO_WORKLOAD = "A workload is a list of sets of two or more different columns."
_KINDS_OF_LISTS = (list, tuple, set, frozenset)


@arguments_in_words
@shown_as_call
@dataclass(frozen=True, slots=True)
class Adaptive:
    """The options of method="auto": small releases in turn, each in the coordinates that earlier ones allow.

    `focus` leans towards "queries" (wide kernels), "marginals" or "correlations". `smoothness` is the order K of the queries
    that matter (a Gaussian kernel of width s has K = s^2): rougher ones (small K) buy more degrees in each column.
    `tables` is how many tables of two and three columns are measured, those that the rows so far have most wrong; by default
    as many as the number of rows allows, 0 is none. All of them hold the column `target`, or one of several, if it is given:
    what will be predicted, say; or the survey weights that a schema names, with which averages are made of tables. Or tables
    are those of `workload`, sets of two or more columns, and the parts of these sets.
    `noise` is "gaussian", which needs a delta, or "pure", by default what serves better at this budget. `candidates`
    ("model", "hypercube" or "grid"), their number `candidate_count` and `fit` ("maximum entropy" or "linear program") are by
    default rows of the model, which need no weights.
    """

    focus: str = "balanced"
    smoothness: int = 16
    tables: int | None = None
    target: str | tuple[str, ...] | None = None
    workload: tuple[tuple[str, ...], ...] | None = None
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
        # Lists of names, as a file has them, are the same as tuples.
        if self.target is not None and not isinstance(self.target, str):
            if not isinstance(self.target, _KINDS_OF_LISTS):
                raise PlanError("A target is the name of a column, or a list of names.")
            object.__setattr__(self, "target", tuple(self.target))
        if self.workload is not None:
            object.__setattr__(self, "workload", _sets(self.workload))

    @property
    def weighted(self) -> bool:
        """Whether candidates are weighted, so that no rows of the model are drawn."""
        return self.candidates not in (None, "model") or self.fit not in (None, "maximum entropy")

    def check(self, schema: Schema, budget: Budget) -> None:
        """Refuse options that this schema or budget cannot have, whatever the number of rows."""
        check_noise(self.noise, budget)
        if self.weighted:
            check_no_tiers(schema)
        if self.tables is not None and (type(self.tables) is not int or not 0 <= self.tables <= MOST_TABLES):
            raise PlanError(f"tables must be a whole number from 0 to {MOST_TABLES}, not {self.tables!r}.")
        if self.target is not None and self.workload is not None:
            raise PlanError("A target and a workload say both which tables there are. Leave out one of them.")
        self._wanted(schema)

    def _wanted(self, schema: Schema) -> Wanted:
        """Return what is asked of tables, with columns by number."""
        names = {name: number for number, name in enumerate(schema.names)}

        def number(name: object) -> int:
            if name not in names:
                raise SchemaError(unknown_column(str(name), schema.names))
            return names[str(name)]

        target = (self.target,) if isinstance(self.target, str) else self.target or ()
        if schema.weight is not None:
            target = (*target, schema.weight)
        workload = tuple(tuple(sorted({number(name) for name in one})) for one in self.workload or ())
        if any(not len(one) >= 2 for one in workload):
            raise PlanError(_NO_WORKLOAD)
        return Wanted(self.tables, tuple(map(number, target)), workload)

    def design(self, schema: Schema, rows: int, budget: Budget, *, rows_per_person: int, size: int) -> Design:
        """Choose rounds, mechanism and shares from public facts, for `size` synthetic rows."""
        rounds = self._rounds(
            Shape.of(schema), rows, budget, rows_per_person=rows_per_person, wanted=self._wanted(schema)
        )
        found = Design(tuple(rounds), "model", size, "maximum entropy")
        return found.with_rows_from(self.candidates, self.candidate_count, self.fit, size=size)

    def _rounds(
        self, shape: Shape, rows: int, budget: Budget, *, rows_per_person: int, wanted: Wanted
    ) -> list[Measurement]:
        lean, weighed = FOCUSES[self.focus], self.weighted

        def pure() -> list[Measurement]:
            return pure_rounds(
                shape,
                rows,
                budget.epsilon,
                rows_per_person=rows_per_person,
                lean=lean,
                wanted=wanted,
                weighed=weighed,
            )

        if not budget.delta:
            return pure()
        normal = gaussian_rounds(
            shape,
            rows,
            budget,
            rows_per_person=rows_per_person,
            lean=lean,
            smoothness=self.smoothness,
            wanted=wanted,
            weighed=weighed,
        )
        # Where the kind of noise is given there is nothing to choose between.
        return normal if self.noise == "gaussian" else _better(normal, pure, shape, rows)


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
    For one column of many levels the counts of levels matter most: how many tiers are counted, and with which noise.
    """
    if shape.columns == 1 and shape.tiers:
        return _level_noise(gaussian, rows) <= _level_noise(pure, rows)
    if shape.columns == 1 and shape.values:
        return _rank_noise(gaussian, rows) < _rank_noise(pure, rows)
    first, other = (float(rounds[0].deviations(rows)[0]) for rounds in (gaussian, pure))
    return first <= other or (shape.columns > 1 and first <= min(MOST_LOW_NOISE, LOW_NOISE * shape.columns))


def _level_noise(rounds: list[Measurement], rows: int) -> tuple[int, float]:
    """Return how few tiers are counted, below 0, and the noise of the finest of them."""
    counted = [float(m.deviations(rows)[0]) for m in rounds if isinstance(m.family, LevelHistograms)]
    return -len(counted), counted[-1] if counted else math.inf


def _rank_noise(rounds: list[Measurement], rows: int) -> float:
    """Return about the noise of a distribution function, infinite where ranks are not measured.

    The noise s_k of the k-th cosine of ranks moves it by s_k / k. B soft counts are B - 1 cosines, sqrt(B/2) times as noisy.
    """
    found = ((m, m.family) for m in rounds if isinstance(m.family, RankHistogram))
    ranks, family = next(found, (None, None))
    if ranks is None or family is None:
        return math.inf
    counts = family.cells
    degrees, noise = np.array([feature.degree for feature in ranks.features]), ranks.deviations(rows)
    if counts is not None:
        # Neither the last count nor an indicator, which is measured as one, is a further cosine.
        cosines = degrees < counts
        degrees, noise = degrees[cosines], noise[cosines] * (1.0 if family.cosines else math.sqrt(counts / 2.0))
    return float(np.linalg.norm(noise / degrees))


def _sets(workload: object) -> tuple[tuple[str, ...], ...]:
    """Return the sets of a workload as tuples; a text is no set of columns, though it has letters."""
    if not isinstance(workload, _KINDS_OF_LISTS) or not all(isinstance(one, _KINDS_OF_LISTS) for one in workload):
        raise PlanError(_NO_WORKLOAD)
    return tuple(map(tuple, workload))
