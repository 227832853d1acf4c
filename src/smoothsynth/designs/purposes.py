"""What a measurement of a plan is for, in words: the only ones that a charge of a release can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smoothsynth.designs.shape import Shape, cosines_of_length
from smoothsynth.queries.bases import lowest, pooled, tensor
from smoothsynth.queries.selection import PRODUCTS

if TYPE_CHECKING:
    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import Measurement
    from smoothsynth.schema import Schema

    Features = tuple[Feature, ...]

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
    """Name the first release: what is measured of values, if there are some, and the shares of levels and marks."""
    return " and ".join(([own] if shape.values else []) + ([SHARES] if shape.marks else []))


def purpose_of(measured: Measurement, schema: Schema, *, method: str) -> str | None:
    """Return the purpose that a plan of this method gives a measurement; None if no plan measures such features."""
    features, view = measured.features, measured.view
    if method == "paper":
        return _of_paper(features, schema.dimensions) if view is None else None
    shape = Shape.of(schema)
    if view is None:
        return _of_first(features, shape)
    if view.pooled:
        return _of_lengths(features)
    if view.radius is not None:
        return PAIRS if features == shape.pairs() else None
    return _of_waves(features, shape) if view.waves else _of_ranks(features, shape, view.counts)


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
    """Name cosines or soft counts of values, with the marks or without them."""
    degrees = counts or max(feature.degree for feature in features)
    own, purpose = degrees * len(shape.values), (COSINES if counts is None else SOFT_COUNTS).format(degrees)
    # A folder of a stranger may name a degree and columns of which no list fits into memory.
    if not own or len(features) not in (own, own + len(shape.marks)):
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
