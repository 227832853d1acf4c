"""What a method is, how it shares its budget, and the layout of coordinates.

What the options of a method may be.

What a design needs to know of a schema, and the measurements that are made the same way under every budget.

What a design hands to the plan: what is measured, and how rows are made of it.

How a budget is shared between what can be measured, and which way a user may lean.

What a measurement of a plan is for, in words: the only ones that a charge of a release can have.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import WAVES, lowest, pooled, tensor, term_feature
from smoothsynth.queries.families import ClippedSecondMoments, PairwiseFourier, QueryFamily, RankHistogram, RowNorms
from smoothsynth.queries.selection import PRODUCTS
from smoothsynth.queries.transformation import Transformation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smoothsynth.accounting.charges import Budget, Charge
    from smoothsynth.methods.paper import SubspaceMeasurement
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema

    Features = tuple[Feature, ...]


NOISES = ("pure", "gaussian")
CANDIDATES = ("model", "hypercube", "grid", "ellipsoid")
FITS = ("maximum entropy", "linear program")
MOST_CANDIDATES = 10**8
MOST_SMOOTHNESS = 10_000
# Where candidates or their fit are not those of the method, so many candidates at least, and at most, are drawn by default.
_FEWEST_DRAWN, _MOST_DRAWN = 10_000, 100_000

# Squares that come along with pairs at no cost (docs/proofs/sensitivity.md, section 9).
SQUARE_WEIGHT = math.sqrt(0.125)
# Soft counts are not taken of more coordinates: an engine counts in half a megabyte for each.
MOST_COUNTED = 128
# Waves and their products are measured, of up to so many columns, with what keeps their noise at WAVE_NOISE, but LEAST_WAVES
# of the budget in any case, so that noise falls without end. They are not measured if the most they may have leaves it above
# MOST_WAVE_NOISE: pairs that are not as a copula has them differ by 0.02 to 0.3.
MOST_WAVED, LEAST_WAVES, WAVE_NOISE, MOST_WAVE_NOISE = 40, 0.01, 0.01, 0.035
# Where that is too much noise or too many columns, some pairs of columns are chosen, of up to so many columns of numbers, and
# only those are measured, in two rounds. Half of the share chooses, half measures. As many are chosen as can be told from all
# others if their products are off by CLEARLY_OFF: the largest of P noises of scale s is about  s log P.
MOST_CHOSEN_FROM, CHOSEN_SHARE, CHOSEN_ROUNDS = 200, 0.03, 2
FEWEST_CHOSEN, MOST_CHOSEN, CLEARLY_OFF = 4, 32, 0.12


@dataclass(frozen=True, slots=True)
class Shape:
    """The coordinates of a schema: values, and indicators, which are 0 or 1 (levels of categories, and missing or not).

    Columns are `free` if no constraint binds the values of a row to each other.
    """

    columns: int
    values: tuple[int, ...]
    indicators: tuple[int, ...]
    exclusive: tuple[tuple[int, ...], ...]
    free: bool = True

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """Read the shape of a schema."""
        roles = tuple(enumerate(schema.roles))
        values = tuple(c for c, role in roles if role == "value")
        indicators = tuple(c for c, role in roles if role != "value")
        return cls(len(schema.columns), values, indicators, schema.exclusive, schema.rules is None)

    @property
    def dimensions(self) -> int:
        """How many coordinates there are."""
        return len(self.values) + len(self.indicators)

    def facts(self) -> dict[str, Any]:
        """Return what a measurement must know of indicators for its sensitivity."""
        return {"exclusive": self.exclusive, "binary": self.indicators} if self.indicators else {}

    def moments(self, degree: int) -> list[Feature]:
        """Return T_k of each value up to a degree, degree by degree, then each indicator."""
        own = [term_feature((c, k)) for k in range(1, degree + 1) for c in self.values]
        return own + [term_feature((c, 1)) for c in self.indicators]

    def soft_counts(self, counts: int) -> list[Feature]:
        """Return the soft counts of each value, then each indicator: the last of its counts, which is 0 at 0 and 1 at 1."""
        own = [term_feature((c, j)) for j in range(1, counts + 1) for c in self.values]
        return own + [term_feature((c, counts)) for c in self.indicators]

    def pairs(self) -> tuple[Feature, ...]:
        """Return means, squares and products of all coordinates."""
        d = self.dimensions
        return lowest(d + d * (d + 1) // 2, d)

    def pairs_of_waves(self) -> tuple[Feature, ...]:
        """Return the four products of the waves of every two values, one pair after the other."""
        return tuple(
            term_feature((WAVES * one + a, 1), (WAVES * other + b, 1))
            for one, other in itertools.combinations(self.values, 2)
            for a in range(WAVES)
            for b in range(WAVES)
        )

    @property
    def choosable(self) -> int:
        """How many pairs of columns of numbers can be chosen from."""
        values = len(self.values)
        return values * (values - 1) // 2 if self.free and values <= MOST_CHOSEN_FROM else 0

    def waves(self) -> tuple[Feature, ...]:
        """Return the waves of each value and the levels of each category, then the products of those of two columns.

        The first wave of a level is the level itself (model/transformations.py).
        """
        values = [[WAVES * c + k for k in range(WAVES)] for c in self.values]
        columns = values + [[WAVES * c for c in group] for group in self.exclusive]
        alone = [term_feature((wave, 1)) for own in columns for wave in own]
        pairs = [sorted((a, b)) for one, other in itertools.combinations(columns, 2) for a in one for b in other]
        return (*alone, *(term_feature((a, 1), (b, 1)) for a, b in pairs))

    @property
    def waved(self) -> int:
        """How many columns have waves, values and categories; 0 if they can not be measured of all of them."""
        columns = len(self.values) + len(self.exclusive)
        possible = self.free and 2 <= columns <= MOST_WAVED and self.dimensions <= MOST_COUNTED
        return columns if possible else 0

    def straight(self, family: QueryFamily) -> Transformation:
        """Return the transformation that bends nothing: what a plan knows before the first release."""
        return Transformation.straight(self.dimensions, family)


def with_waves(shares: dict[str, float], lean: Focus, noise: float, *, power: float) -> dict[str, float]:
    """Let all rounds give up alike what waves need, if they are worth it.

    `noise` is that of waves that have all of the budget; with a share s they have  noise / s^power.
    """
    share = min(lean.waves, max(LEAST_WAVES, (noise / WAVE_NOISE) ** (1.0 / power)))
    if noise > MOST_WAVE_NOISE * share**power:
        return shares
    return {**{name: (1.0 - share) * own for name, own in shares.items()}, "waves": share}


def count_of_chosen(shape: Shape, rows: float, multiplier: float) -> int:
    """Return how many pairs of columns to choose, in whole rounds; 0 where none can be told from the others.

    With a share w of the budget, k noisy maxima have noise of scale  s = 2 sqrt(pi k / (2 w)) m / n  in a length of products.
    """
    if not shape.choosable:
        return 0
    share = CHOSEN_SHARE / 2.0
    told = CLEARLY_OFF * rows / (2.0 * multiplier * math.log(max(shape.choosable, 2)))
    most = min(MOST_CHOSEN, shape.choosable // 2, math.floor(2.0 * share / math.pi * told**2))
    return most - most % CHOSEN_ROUNDS if most >= FEWEST_CHOSEN else 0


def cosines_of_length(degrees: int) -> list[Feature]:
    """Return cosines of the one coordinate of a pooled transformation."""
    return [term_feature((0, k)) for k in range(1, degrees + 1)]


def falling(features: Sequence[Feature]) -> list[float]:
    """Weigh degree k by k^(-1/2): it minimises the noise of the distribution function, sum s_k^2 / k^2."""
    return [feature.degree**-0.5 for feature in features]


def pair_weights(features: Sequence[Feature], mean: float) -> list[float]:
    """Weigh products by 1, squares so that they come along, means as given."""

    def weight(feature: Feature) -> float:
        if feature.degree == 1:
            return mean
        return SQUARE_WEIGHT if len(feature.terms[0]) == 1 else 1.0

    return [weight(feature) for feature in features]


@dataclass(frozen=True, slots=True)
class Design:
    """Measurements in order, perhaps a subspace iteration, and the candidates and fit that suit them.

    `fitted` is the number of leading moments that the fit uses; the others serve the candidates only. `levels` is
    the number of levels per column of a full grid that is never listed, for a full tensor of features.
    """

    measurements: tuple[Measurement, ...]
    candidates: str
    candidate_count: int
    fit: str
    subspace: SubspaceMeasurement | None = None
    fitted: int | None = None
    levels: int | None = None

    @property
    def modelled(self) -> bool:
        """Whether rows come straight from the model, with nothing left to weigh."""
        return (self.candidates, self.fit) == ("model", "maximum entropy")

    @property
    def adaptive(self) -> bool:
        """Whether a model has to learn from each release, for the rows or for how the next one looks at them."""
        return self.modelled or any(measurement.transformation is not None for measurement in self.measurements)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What will be charged, in order."""
        products = (self.subspace.charge(),) * self.subspace.iterations if self.subspace else ()
        return (*(charge for m in self.measurements for charge in m.charges), *products)

    def with_rows_from(self, candidates: str | None, count: int | None, fit: str | None, *, size: int) -> Design:
        """Take rows from other candidates, or another number of them, or weigh them by another fit; None keeps each."""
        changed = candidates not in (None, self.candidates) or fit not in (None, self.fit)
        drawn = max(_FEWEST_DRAWN, min(size, _MOST_DRAWN)) if changed else self.candidate_count
        return replace(
            self,
            candidates=candidates or self.candidates,
            candidate_count=count or drawn,
            fit=fit or self.fit,
            levels=None if changed else self.levels,
        )


def check_count(name: str, value: object, most: int) -> None:
    """Refuse what is not a whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
        raise PlanError(f"{name} must be a whole number from 1 to {most:,}, not {value!r}.")


def check_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not among those known."""
    if value not in known:
        raise PlanError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}.")


def check_noise(noise: str | None, budget: Budget) -> None:
    """Refuse Gaussian noise where the budget has no delta."""
    if noise == "gaussian" and not budget.delta:
        raise PlanError("Gaussian noise needs a delta: give one of at most 1/(100 rows), or leave out noise.")


@dataclass(frozen=True, slots=True)
class Focus:
    """Shares of low moments, ranks, pairs and lengths; of ranks, lengths and pairs when pure; the weight of means by pairs.

    `waves` is the largest share of the shapes of pairs, which all others then give up alike.

    `mean_weight` is the square of the weight of the means beside the pairs, as a share of a row's largest squared length.
    """

    low: float
    ranks: float
    pairs: float
    lengths: float
    pure_ranks: float
    pure_lengths: float
    pure_pairs: float
    mean_weight: float
    waves: float


FOCUSES = {
    "balanced": Focus(0.12, 0.24, 0.47, 0.17, 0.25, 0.04, 0.27, 0.3, 0.06),
    "queries": Focus(0.12, 0.13, 0.60, 0.15, 0.0, 0.04, 0.30, 0.8, 0.06),
    "marginals": Focus(0.15, 0.55, 0.22, 0.08, 0.50, 0.04, 0.15, 0.3, 0.03),
    "correlations": Focus(0.10, 0.20, 0.64, 0.06, 0.25, 0.05, 0.40, 0.15, 0.03),
}


MEANS = "the mean of each column"
LOW = "the mean and the second moment of each column"
SHARES = "the share of each level"
SQUARE = "the second moment T_2, averaged over the columns"
COSINES = "{} cosines of the ranks in each column"
SOFT_COUNTS = "{} soft counts of the ranks in each column"
SHARES_AGAIN = ", shares again"
PAIRS = "means, squares and products of standardised columns, rows cut to a length"
LENGTHS = "{} cosines of the rank of a row's length"
WAVED = "shapes of pairs of columns: two waves of the ranks in each, and their products"
CHOSEN = "shapes of {} chosen pairs of columns: products of two waves of the ranks in each"
LOWEST = "the {} lowest products of Chebyshev polynomials"


def with_shares(own: str, shape: Shape) -> str:
    """Name the first release: what is measured of values, if there are some, and the shares of levels and indicators."""
    return " and ".join(([own] if shape.values else []) + ([SHARES] if shape.indicators else []))


def purpose_of(measured: Measurement, schema: Schema, *, method: str) -> str | None:
    """Return the purpose that a plan of this method gives a measurement; None if no plan measures such features."""
    features, transformation = measured.features, measured.transformation
    if method == "paper":
        return _of_paper(features, schema.dimensions) if transformation is None else None
    shape = Shape.of(schema)
    if transformation is None:
        return _of_first(features, shape)
    return _of_family(transformation.family, features, shape)


def _of_family(family: QueryFamily, features: Features, shape: Shape) -> str | None:
    match family:
        case RowNorms():
            return _of_lengths(features)
        case ClippedSecondMoments():
            return PAIRS if features == shape.pairs() else None
        case PairwiseFourier():
            return _of_waves(features, shape)
        case RankHistogram(cells=cells):
            return _of_ranks(features, shape, cells)
    return None


def _of_paper(features: Features, dimensions: int) -> str | None:
    count = len(features)
    size = round((count + 1) ** (1.0 / dimensions))
    full = size**dimensions == count + 1 and features == tensor(size, dimensions)
    return LOWEST.format(count) if full or features == lowest(count, dimensions) else None


def _of_first(features: Features, shape: Shape) -> str | None:
    if shape.values and features == (pooled(2, shape.values),):
        return SQUARE
    found = (own for degree, own in ((1, MEANS), (2, LOW)) if features == tuple(shape.moments(degree)))
    return next((with_shares(own, shape) for own in found), None)


def _of_ranks(features: Features, shape: Shape, counts: int | None) -> str | None:
    """Name cosines or soft counts of values, with the indicators or without them."""
    degrees = counts or max(feature.degree for feature in features)
    own, purpose = degrees * len(shape.values), (COSINES if counts is None else SOFT_COUNTS).format(degrees)
    # A folder of a stranger may name a degree and columns of which no list fits into memory.
    if not own or len(features) not in (own, own + len(shape.indicators)):
        return None
    known = tuple(shape.moments(degrees) if counts is None else shape.soft_counts(counts))
    if features != known[: len(features)]:
        return None
    return purpose if len(features) == own else purpose + SHARES_AGAIN


def _of_lengths(features: Features) -> str | None:
    count = len(features)
    return LENGTHS.format(count) if features == tuple(cosines_of_length(count)) else None


def _of_waves(features: Features, shape: Shape) -> str | None:
    """Name the shapes of all pairs, or of some: an update measures those that were chosen before, without a choice."""
    if shape.waved and features == shape.waves():
        return WAVED
    chosen = _fours(features)
    known = set(chosen)
    every = _fours(shape.pairs_of_waves()) if shape.choosable else []
    return CHOSEN.format(len(chosen)) if chosen == [four for four in every if four in known] else None


def _fours(features: Features) -> list[Features]:
    return [features[start : start + PRODUCTS] for start in range(0, len(features), PRODUCTS)]
