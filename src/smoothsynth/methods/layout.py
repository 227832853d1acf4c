"""What a method is, how it shares its budget, and the layout of coordinates.

What the options of a method may be.

What a design needs to know of a schema, and the measurements that are made the same way under every budget.

What a design hands to the plan: what is measured, and how rows are made of it.

How a budget is shared between what can be measured, and which way a user may lean.

What a measurement of a plan is for, in words: the only ones that a charge of a release can have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import LATTICE, lowest, pooled, tensor, term_feature
from smoothsynth.queries.families import ClippedSecondMoments, QueryFamily, RankHistogram, RowNorms
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.selection import WIDTHS, tables_in_words
from smoothsynth.queries.soft_tables import Cells, SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category
from smoothsynth.schema.category import Intervals
from smoothsynth.schema.valued import to_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from smoothsynth.accounting.charges import Budget, Charge
    from smoothsynth.methods.paper import SubspaceMeasurement
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Measure, Schema

    Features = Sequence[Feature]


NOISES = ("pure", "gaussian")
CANDIDATES = ("model", "hypercube", "grid", "ellipsoid")
FITS = ("maximum entropy", "linear program")
# The fit of method="minimax", which no other method offers.
LEAST_SQUARES = "least squares"
MOST_CANDIDATES = 10**8
MOST_SMOOTHNESS = 10_000
# Where candidates or their fit are not those of the method, so many candidates at least, and at most, are drawn by default.
_FEWEST_DRAWN, _MOST_DRAWN = 10_000, 100_000

# Squares that come along with pairs at no cost (docs/proofs/sensitivity.md, section 9).
SQUARE_WEIGHT = math.sqrt(0.125)
# Soft counts are not taken of more coordinates: an engine counts in half a megabyte for each.
MOST_COUNTED = 128
# A column of whole numbers with more values than this has no cell for each of them.
MOST_VALUES = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """The coordinates of a schema: values, and indicators, which are 0 or 1 (levels of categories, and missing or not)."""

    columns: int
    values: tuple[int, ...]
    indicators: tuple[int, ...]
    exclusive: tuple[tuple[int, ...], ...]
    missing: tuple[tuple[int, int], ...] = ()
    spikes: tuple[TableColumn, ...] = ()
    tiers: tuple[tuple[LevelHistogram, ...], ...] = ()

    @classmethod
    def of(cls, schema: Schema) -> Shape:
        """Read the shape of a schema."""
        roles = tuple(enumerate(schema.roles))
        values = tuple(c for c, role in roles if role == "value")
        indicators = tuple(c for c, role in roles if role != "value")
        return cls(
            len(schema.columns),
            values,
            indicators,
            schema.exclusive,
            schema.missing,
            tuple(_spikes(schema)),
            tuple(_tiers(schema)),
        )

    @property
    def dimensions(self) -> int:
        """How many coordinates there are."""
        return len(self.values) + len(self.indicators)

    @property
    def numeric(self) -> bool:
        """Whether most columns are numbers, and there are several: then norms of whole rows tell something."""
        return len(self.values) > 1 and 2 * len(self.values) > self.columns

    def facts(self) -> dict[str, Any]:
        """Return what a measurement must know of indicators for its sensitivity."""
        return {"exclusive": self.exclusive, "binary": self.indicators} if self.indicators else {}

    def missing_facts(self) -> dict[str, Any]:
        """Return what a measurement of values and indicators must know to let missing values add nothing."""
        return {"missing": self.missing} if self.missing else {}

    def moments(self, degree: int) -> list[Feature]:
        """Return T_k of each value up to a degree, degree by degree, then each indicator."""
        own = [term_feature((c, k)) for k in range(1, degree + 1) for c in self.values]
        return own + [term_feature((c, 1)) for c in self.indicators]

    def soft_counts(self, counts: int) -> list[Feature]:
        """Return the soft counts of each value, then each indicator: the last of its counts, which is 0 at 0 and 1 at 1."""
        own = [term_feature((c, j)) for j in range(1, counts + 1) for c in self.values]
        return own + [term_feature((c, counts)) for c in self.indicators]

    def ranks(self, family: RankHistogram, degrees: int) -> list[Feature]:
        """Return so many cosines of the rank of each value, or what there is of its soft counts, then each indicator."""
        if family.cells is None:
            return self.moments(degrees)
        return self.soft_cosines(family.cells) if family.cosines else self.soft_counts(family.cells)

    def soft_cosines(self, counts: int) -> list[Feature]:
        """Return the cosines of the soft counts of each value, then the last count of each indicator."""
        own = [term_feature((c, k)) for k in range(1, counts) for c in self.values]
        return own + [term_feature((c, counts)) for c in self.indicators]

    def pairs(self) -> tuple[Feature, ...]:
        """Return means, squares and products of all coordinates."""
        d = self.dimensions
        return lowest(d + d * (d + 1) // 2, d)

    def table_columns(self, hats: int) -> tuple[TableColumn, ...]:
        """Return the columns of tables before anything is known of them: numbers with so many hat functions, categories."""
        missing = dict(self.missing)
        numbers = [TableColumn(c, hats, levels=(missing[c],) if c in missing else ()) for c in self.values]
        return tuple(
            sorted([*numbers, *(TableColumn(None, levels=group) for group in self.exclusive)], key=_first_coordinate)
        )

    def straight(self, family: QueryFamily) -> Transformation:
        """Return the transformation that bends nothing: what a plan knows before the first release."""
        return Transformation.straight(self.dimensions, family)


def _spikes(schema: Schema) -> Iterator[TableColumn]:
    """Yield the cells in which values that many rows share are looked for, of every column of numbers.

    A column of few whole numbers has a cell for each; of others the bounds and 0, if it lies between, are looked at: public
    numbers on which rows crowd more often than on others.
    """
    missing = dict(schema.missing)
    for name, column in schema.columns.items():
        if isinstance(column, (Category, Intervals)):
            continue
        c = schema.coordinates_of(name).start
        levels, own = (missing[c],) if c in missing else (), column.levels(MOST_VALUES)
        if own is not None:
            yield TableColumn(c, max(2, len(own)), levels=levels)
        else:
            yield TableColumn(c, 2, tuple(_public_values(column)), levels)


def _tiers(schema: Schema) -> Iterator[tuple[LevelHistogram, ...]]:
    """Yield the histograms of all tiers of levels below the cube, those at the same distance from the levels together."""
    known = ((number, c.hierarchy) for number, c in enumerate(schema.columns.values()) if isinstance(c, Category))
    found = [(number, tiers) for number, tiers in known if tiers is not None]
    for distance in range(max((len(tiers.finer) for _, tiers in found), default=0), 0, -1):
        yield tuple(
            LevelHistogram(number, len(tiers.nodes) - distance, len(tiers.nodes[-distance]))
            for number, tiers in found
            if distance <= len(tiers.finer)
        )


def _public_values(column: Measure) -> Iterator[int]:
    """Yield the lattice values of the bounds, and of 0 if it lies between them."""
    lower, upper = column.bounds
    yield -LATTICE
    if lower < 0.0 < upper:
        zero = round(float(to_unit(np.zeros(1), column)[0]) * LATTICE)
        if abs(zero) < LATTICE:
            yield zero
    yield LATTICE


def _first_coordinate(column: TableColumn) -> int:
    return column.coordinates[0]


def cosines_of_length(degrees: int) -> list[Feature]:
    """Return cosines of the one coordinate of a pooled transformation."""
    return [term_feature((0, k)) for k in range(1, degrees + 1)]


def falling(features: Sequence[Feature], *, power: float = 0.5) -> list[float]:
    """Weigh degree k by k^(-power); 1/2 minimises the noise of the distribution function, sum s_k^2 / k^2."""
    return [feature.degree**-power for feature in features]


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


def check_no_tiers(schema: Schema) -> None:
    """Refuse categories of many levels where rows are weighed among candidates: these have no levels to draw."""
    names = (name for name, c in schema.columns.items() if isinstance(c, Category) and c.hierarchy is not None)
    for name in names:
        raise PlanError(
            f"{name!r} has levels below the nodes that stand for it; they are drawn by a model, method='auto' without other "
            "candidates or fits. Declare the nodes as its levels, or take that method."
        )


def check_noise(noise: str | None, budget: Budget) -> None:
    """Refuse Gaussian noise where the budget has no delta."""
    if noise == "gaussian" and not budget.delta:
        raise PlanError("Gaussian noise needs a delta: give one of at most 1/(100 rows), or leave out noise.")


@dataclass(frozen=True, slots=True)
class Focus:
    """Shares of low moments, ranks, pairs and lengths; of ranks, lengths and pairs when pure; the weight of means by pairs.

    `mean_weight` is the square of the weight of the means beside the pairs, as a share of a row's largest squared length.
    `beside_tables` are the shares of low moments, ranks, pairs and tables where there are tables: those tell of pairs too.
    """

    low: float
    ranks: float
    pairs: float
    lengths: float
    pure_ranks: float
    pure_lengths: float
    pure_pairs: float
    mean_weight: float
    beside_tables: tuple[float, float, float, float]


FOCUSES = {
    "balanced": Focus(0.12, 0.24, 0.47, 0.17, 0.25, 0.04, 0.27, 0.3, (0.20, 0.25, 0.25, 0.30)),
    "queries": Focus(0.12, 0.13, 0.60, 0.15, 0.0, 0.04, 0.30, 0.8, (0.25, 0.15, 0.35, 0.25)),
    "marginals": Focus(0.15, 0.55, 0.22, 0.08, 0.50, 0.04, 0.15, 0.3, (0.20, 0.45, 0.15, 0.20)),
    "correlations": Focus(0.10, 0.20, 0.64, 0.06, 0.25, 0.05, 0.40, 0.15, (0.15, 0.20, 0.40, 0.25)),
}


MEANS = "the mean of each column"
LOW = "the mean and the second moment of each column"
SHARES = "the share of each level"
SQUARE = "the second moment T_2, averaged over the columns"
COSINES = "{} cosines of the ranks in each column"
SOFT_COUNTS = "{} soft counts of the ranks in each column"
SOFT_COSINES = "{} cosines of soft counts of the ranks in each column"
SHARES_AGAIN = ", shares again"
PAIRS = "means, squares and products of standardised columns, rows cut to a length"
LENGTHS = "{} cosines of the rank of a row's length"
TABLES = "{} of {}: soft cells of the ranks of numbers, levels, missing values"
SPIKES = "values that many rows share: {} of single columns"
LEVELS = "{} of levels below the nodes of their column: {} counts"
LOWEST = "the {} lowest products of Chebyshev polynomials"
TENSOR = "products of Chebyshev polynomials up to degree {} in each column, with noise that grows with the degree"


def with_shares(own: str, shape: Shape) -> str:
    """Name the first release: what is measured of values, if there are some, and the shares of levels and indicators."""
    return " and ".join(([own] if shape.values else []) + ([SHARES] if shape.indicators else []))


def purpose_of(measured: Measurement, schema: Schema, *, method: str) -> str | None:
    """Return the purpose that a plan of this method gives a measurement; None if no plan measures such features."""
    features, transformation = measured.features, measured.transformation
    if method == "paper":
        return _of_paper(features, schema.dimensions) if transformation is None else None
    if method == "minimax":
        size = _size_of_tensor(features, schema.dimensions)
        return TENSOR.format(size - 1) if size and transformation is None else None
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
        case SoftTables(order=order) if isinstance(features, Cells) and _has_cells_of(shape, family):
            return tables_purpose(len(features.tables), order)
        case LevelHistograms():
            return levels_purpose(family)
        case RankHistogram():
            return _of_ranks(features, shape, family)
    return None


def _has_cells_of(shape: Shape, family: SoftTables) -> bool:
    """Whether tables are of the schema's columns; single values that spikes are looked for at are those of the plan.

    In tables of several columns they follow from what was released: the model proposes them again.
    """
    if family.order == 1:
        return family.columns == shape.spikes
    known = shape.table_columns(2)
    return [(one.value, one.levels) for one in family.columns] == [(one.value, one.levels) for one in known]


def _of_paper(features: Features, dimensions: int) -> str | None:
    count = len(features)
    known = _size_of_tensor(features, dimensions) or features == lowest(count, dimensions)
    return LOWEST.format(count) if known else None


def _size_of_tensor(features: Features, dimensions: int) -> int | None:
    """Return t if the features are the full tensor {0..t-1}^d."""
    size = round((len(features) + 1) ** (1.0 / dimensions))
    return size if size**dimensions == len(features) + 1 and features == tensor(size, dimensions) else None


def _of_first(features: Features, shape: Shape) -> str | None:
    if shape.values and features == (pooled(2, shape.values),):
        return SQUARE
    found = (own for degree, own in ((1, MEANS), (2, LOW)) if features == tuple(shape.moments(degree)))
    return next((with_shares(own, shape) for own in found), None)


def _of_ranks(features: Features, shape: Shape, family: RankHistogram) -> str | None:
    """Name cosines or soft counts of values, with the indicators or without them."""
    counts = family.cells
    degrees = max(feature.degree for feature in features) if counts is None else counts - family.cosines
    own = degrees * len(shape.values)
    # A folder of a stranger may name a degree and columns of which no list fits into memory.
    if not own or len(features) not in (own, own + len(shape.indicators)):
        return None
    if features != tuple(shape.ranks(family, degrees)[: len(features)]):
        return None
    return ranks_purpose(family, degrees) + ("" if len(features) == own else SHARES_AGAIN)


def ranks_purpose(family: RankHistogram, degrees: int) -> str:
    """Name so many cosines or soft counts of ranks."""
    if family.cells is None:
        return COSINES.format(degrees)
    return SOFT_COSINES.format(degrees) if family.cosines else SOFT_COUNTS.format(family.cells)


def _of_lengths(features: Features) -> str | None:
    count = len(features)
    return LENGTHS.format(count) if features == tuple(cosines_of_length(count)) else None


def levels_purpose(family: LevelHistograms) -> str:
    """Name histograms of levels."""
    count = len(family.histograms)
    return LEVELS.format("one histogram" if count == 1 else f"{count} histograms", f"{len(family.cells()):,}")


def tables_purpose(count: int, order: int) -> str:
    """Name tables of so many columns each."""
    words = tables_in_words(count)
    return SPIKES.format(words) if order == 1 else TABLES.format(words, WIDTHS[order])
