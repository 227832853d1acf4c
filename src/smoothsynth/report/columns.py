"""The columns as the page shows them: curves of numbers and days with a band, shares of levels with intervals.

A *place* is a value in its own units, scaled so that the bounds are -1 and 1; without a transform it is the coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.answer.answer import answer_tree
from smoothsynth.answer.columns import groups_of
from smoothsynth.answer.evidence import evidence_of
from smoothsynth.answer.language import Apply, Column
from smoothsynth.answer.query import Query
from smoothsynth.answer.statistics import dated
from smoothsynth.errors import SmoothsynthError
from smoothsynth.report.charts import Axis
from smoothsynth.schema import Boolean, Category, Date, Datetime, Integer, Number, valued

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from smoothsynth.answer.estimate import Estimate
    from smoothsynth.answer.language import Node
    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]
    Valued = Number | Integer | Boolean | Date | Datetime

CENTRES, CONFIDENCE = 25, 0.95
_BINS = 32
# The kernel exp(-((x - c)/w)^2) of the curve has a deviation of w / sqrt 2: a third of that of the rows.
_SHARE, _LEAST_WIDTH = np.sqrt(2.0) / 3.0, 0.03
# Of an axis this share of what nearly all rows span is left free at each end.
_MARGIN = 0.08
# A kernel wider than this share of the axis shows nothing.
_WIDEST = 0.3
_MOST_LEVELS = 12
# Each place of a curve is a question: of a wide table not every column has one.
MOST_CURVES = 30
# Rows of a scatter.
_MOST_POINTS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A column of numbers or days: its coordinate, the places to show, the width of its kernel, and a histogram.

    A `bare` one is drawn without a curve.
    """

    name: str
    column: Valued
    coordinate: int
    low: float
    high: float
    width: float
    counts: NDArray[np.int64]
    bare: bool = False

    @property
    def edges(self) -> Array:
        """The edges of the bins of the histogram, as places."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)

    @property
    def centres(self) -> Array:
        """The centres of the kernels of the curve, as places; none if there is no curve."""
        return np.linspace(self.low, self.high, 0 if self.bare or self.flat else CENTRES)

    @property
    def flat(self) -> bool:
        """Whether the bounds are so far that a kernel is wider than what is shown."""
        return self.width > _WIDEST * (self.high - self.low)

    def in_units(self, places: Array) -> Array:
        """Return places in the column's own units."""
        return valued.scale_from_unit(np.asarray(places, dtype=np.float64), *self.column.bounds)

    @property
    def ends(self) -> tuple[float, float]:
        """What the axis shows, in the column's own units."""
        low, high = self.in_units(np.array([self.low, self.high])).tolist()
        return low, high

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        lower, upper = self.column.bounds
        return {
            "name": self.name,
            "kind": self.column.kind,
            "lower": lower,
            "upper": upper,
            "transform": _transform(self.column),
            "low": self.low,
            "high": self.high,
            "width": self.width,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What is drawn of a column of numbers: kernel averages with their band, the mean, and the share of missing values."""

    shape: Shape
    values: Array
    lows: Array
    highs: Array
    mean: Estimate | None
    missing: Estimate | None

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.shape.name


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """What is drawn of a category or truth value: its most frequent levels, each with the estimate of its share."""

    name: str
    shares: dict[str, Estimate]
    hidden: int
    missing: Estimate | None


def axis_of(release: Release, one: Curve | Levels) -> Axis:
    """Return some rows of a column, evenly chosen, along the axis of a scatter."""
    rows = release.table.num_rows
    chosen = np.linspace(0, rows - 1, min(rows, _MOST_POINTS)).astype(np.int64)
    if isinstance(one, Curve):
        shape = one.shape
        return Axis.of_numbers(shape.name, own_units(release, shape.name)[chosen], shape.ends, shape.column.kind)
    column = release.schema.columns[one.name]
    if isinstance(column, Category):
        codes = column.codes(release.table[one.name].combine_chunks())
        return Axis.of_levels(one.name, np.asarray(codes, dtype=np.int64)[chosen], column.cube.texts)
    truth = own_units(release, one.name)[chosen]
    return Axis.of_levels(one.name, np.where(np.isnan(truth), -1, truth == 1.0).astype(np.int64), ("false", "true"))


def askable(schema: Schema) -> list[tuple[str, int]]:
    """Return the columns of numbers and days without missing cells, which the explorer is about, with their coordinates."""
    return [
        (name, schema.coordinates_of(name).start)
        for name, column in schema.columns.items()
        if not isinstance(column, Category) and not column.nullable
    ]


def own_units(release: Release, name: str) -> Array:
    """Return a column of numbers of the synthetic rows in its own units; NaN where it is missing."""
    return valued.plain(release.table[name], release.schema.columns[name].kind)


def places(values: Array, column: Valued) -> Array:
    """Return values in their own units as places between the bounds."""
    return valued.scale_to_unit(values.copy(), *column.bounds)


def shapes(release: Release, most: int) -> tuple[Shape, ...]:
    """Describe the first `most` columns of numbers and days that the explorer is about."""
    return tuple(shape_of(release, name) for name, _ in askable(release.schema)[:most])


def drawn(release: Release, most: int) -> tuple[Curve | Levels, ...]:
    """Describe the first `most` columns of the schema, whatever they hold."""
    found = enumerate(release.schema.names[:most])
    return tuple(
        _levels(release, name)
        if isinstance(release.schema.columns[name], (Category, Boolean))
        else _curve(release, name, bare=place >= MOST_CURVES)
        for place, name in found
    )


def shape_of(release: Release, name: str) -> Shape:
    """Describe a column of numbers or days, by the rows that have a value."""
    column = release.schema.columns[name]
    assert not isinstance(column, Category)  # noqa: S101
    known = own_units(release, name)
    found = places(known[~np.isnan(known)], column)
    found = found if len(found) else np.zeros(1)
    width = max(_LEAST_WIDTH, float(_SHARE * found.std()))
    low, high = (float(end) for end in np.quantile(found, [0.005, 0.995]))
    room = _MARGIN * (high - low) or width
    low, high, bins = max(-1.0, low - room), min(1.0, high + room), _BINS
    lower, upper = column.bounds
    if not isinstance(column, (Number, Datetime)) and upper - lower < 10_000:
        low, high, bins = _around_levels(np.linspace(-1.0, 1.0, round(upper - lower) + 1), low, high)
    counts, _ = np.histogram(found, bins=bins, range=(low, high))
    return Shape(name, column, release.schema.coordinates_of(name).start, low, high, width, counts)


def _around_levels(levels: Array, low: float, high: float) -> tuple[float, float, int]:
    """Let every bin hold the same number of the whole numbers that are shown."""
    half = float(levels[1] - levels[0]) / 2.0
    shown = levels[(levels >= low - half) & (levels <= high + half)]
    each = -(-len(shown) // _BINS)
    bins = -(-len(shown) // each)
    start = float(shown[0]) - half
    return start, start + 2.0 * half * each * bins, bins


def _curve(release: Release, name: str, *, bare: bool) -> Curve:
    shape, query = replace(shape_of(release, name), bare=bare), Query.of(release, [name])
    width = shape.width * (shape.column.bounds[1] / 2.0 - shape.column.bounds[0] / 2.0)

    def kernel(centre: float) -> Callable[[Mapping[str, Array]], Array]:
        return lambda table: np.exp(-(((table[name] - centre) / width) ** 2))

    centres = shape.in_units(shape.centres).tolist()
    found = [_estimated(query, kernel(centre)) for centre in centres]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        shape, known = replace(shape, bare=True), []
    mean = _estimated(query, lambda table: table[name])
    values, lows, highs = (np.array([getattr(one, end) for one in known]) for end in ("value", "low", "high"))
    mean = None if mean is None else dated(mean, shape.column)
    return Curve(shape, values, lows, highs, mean, _missing(release, name))


def _estimated(query: Query, function: Callable[[Mapping[str, Array]], Array]) -> Estimate | None:
    """Return an estimate, or None where no row has a value or numbers near the end of doubles have no answer."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return query.interval(function, confidence=CONFIDENCE)
    except SmoothsynthError:
        return None


def _levels(release: Release, name: str) -> Levels:
    groups = groups_of(Column(name), release.schema)
    # Where no row has a level there are no shares of those that have one.
    there = release.table[name].null_count < release.table.num_rows
    shown = _commonest(release, name, list(groups)) if there else []
    found = {text: _share(release, groups[text]) for text in shown}
    order = sorted(found, key=lambda text: -found[text].value)
    return Levels(
        name, {text: found[text] for text in order}, len(groups) - len(order) if there else 0, _missing(release, name)
    )


def _commonest(release: Release, name: str, groups: list[str]) -> list[str]:
    """Return the groups that are shown: those that most rows are of, since every answer takes time."""
    if len(groups) <= _MOST_LEVELS:
        return groups
    shares = evidence_of(release).points[:, release.schema.coordinates_of(name)].mean(axis=0)
    return [groups[place] for place in np.argsort(-shares, kind="stable")[:_MOST_LEVELS]]


def _share(release: Release, condition: Node) -> Estimate:
    return answer_tree(release, Apply("avg", (condition,)), confidence=CONFIDENCE, weighted=False)


def _missing(release: Release, name: str) -> Estimate | None:
    nullable = release.schema.columns[name].nullable
    return _share(release, Apply("is null", (Column(name),))) if nullable else None


def _transform(column: Valued) -> dict[str, Any] | None:
    """Describe the public map of a column, with what the bounds become, and the coordinates of whole numbers."""
    if column.map is None:
        return None
    low, high = column.map.up(np.array(column.bounds)).tolist()
    levels = column.levels(1025)
    return {
        "name": column.transform,
        "scale": float(getattr(column, "scale", None) or 1.0),
        "knots": list(getattr(column.map, "quantiles", ())),
        "low": low,
        "high": high,
        "levels": None if levels is None else levels.tolist(),
    }
