"""The columns as the page shows them: those of numbers, which it can be asked about, and the others.

A *place* is a value in its own units, scaled so that the bounds are -1 and 1; without a transform it is the coordinate.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsynth.schema import Boolean, Category, Integer, Number, valued
from smoothsynth.schema.valued import from_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from smoothsynth.pipeline.release import Release
    from smoothsynth.schema import Schema
    from smoothsynth.schema.encoding import Measure

    Array = NDArray[np.float64]

CENTRES = 49
_BINS = 32
# The kernel exp(-((x - c)/w)^2) of the curve has a deviation of w / sqrt 2: a third of that of the rows.
_SHARE, _LEAST_WIDTH = np.sqrt(2.0) / 3.0, 0.03
_MOST_LEVELS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A column of numbers: its coordinate, the places to show, the width of its kernel, and a histogram."""

    name: str
    column: Number | Integer | Boolean
    coordinate: int
    low: float
    high: float
    width: float
    counts: NDArray[np.int64]

    @property
    def edges(self) -> Array:
        """The edges of the bins of the histogram, as places."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)

    @property
    def centres(self) -> Array:
        """The centres of the kernels of the curve, as places."""
        return np.linspace(self.low, self.high, CENTRES)

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
            "counts": self.counts.tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """Another column: shares of rows at levels or in bins (with their noise, where known), and what is missing."""

    name: str
    kind: str
    labels: tuple[str, ...]
    shares: tuple[float, ...]
    noise: tuple[float | None, ...]
    missing: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the page."""
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": list(self.labels),
            "shares": list(self.shares),
            "noise": list(self.noise),
            "missing": self.missing,
        }


def askable(schema: Schema) -> list[tuple[str, int]]:
    """Return the columns of numbers without missing cells, which questions are about, with their coordinates."""
    return [
        (name, schema.coordinates_of(name).start)
        for name, column in schema.columns.items()
        if isinstance(column, (Number, Integer, Boolean)) and not column.nullable
    ]


def own_units(release: Release, name: str) -> Array:
    """Return a column of numbers of the synthetic rows in its own units."""
    return np.asarray(release.table[name].to_numpy(zero_copy_only=False), dtype=np.float64)


def places(values: Array, column: Number | Integer | Boolean) -> Array:
    """Return values in their own units as places between the bounds."""
    return valued.scale_to_unit(values.copy(), *column.bounds)


def shapes(release: Release, most: int) -> tuple[Shape, ...]:
    """Describe the first `most` columns of numbers."""
    return tuple(_shape(release, name, coordinate) for name, coordinate in askable(release.schema)[:most])


def others(release: Release, most: int) -> tuple[Plain, ...]:
    """Describe the first `most` of the other columns."""
    asked = {name for name, _ in askable(release.schema)}
    points = release.unit_rows()
    return tuple(_plain(release, name, points) for name in release.schema.names if name not in asked)[:most]


def _shape(release: Release, name: str, coordinate: int) -> Shape:
    column = release.schema.columns[name]
    assert isinstance(column, (Number, Integer, Boolean))  # noqa: S101
    found = places(own_units(release, name), column)
    width = max(_LEAST_WIDTH, float(_SHARE * found.std()))
    low, high = np.quantile(found, [0.005, 0.995])
    low, high, bins = max(-1.0, float(low) - 2.0 * width), min(1.0, float(high) + 2.0 * width), _BINS
    lower, upper = column.bounds
    if not isinstance(column, Number) and upper - lower < 10_000:
        low, high, bins = _around_levels(np.linspace(-1.0, 1.0, round(upper - lower) + 1), low, high)
    counts, _ = np.histogram(found, bins=bins, range=(low, high))
    return Shape(name, column, coordinate, low, high, width, counts)


def _around_levels(levels: Array, low: float, high: float) -> tuple[float, float, int]:
    """Let every bin hold the same number of the whole numbers that are shown."""
    half = float(levels[1] - levels[0]) / 2.0
    shown = levels[(levels >= low - half) & (levels <= high + half)]
    each = -(-len(shown) // _BINS)
    bins = -(-len(shown) // each)
    start = float(shown[0]) - half
    return start, start + 2.0 * half * each * bins, bins


def _transform(column: Number | Integer | Boolean) -> dict[str, Any] | None:
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


def counter(plain: Plain, schema: Schema) -> Callable[[Array], tuple[tuple[float, ...], float | None]]:
    """Return what counts other rows, given by the coordinates of a column, at the same levels or in the same bins."""
    column = schema.columns[plain.name]
    if not isinstance(column, Category):
        measure = column
        return lambda points: _binned(points, measure)[:2]
    chosen = [column.cube.texts.index(label) for label in plain.labels]

    def levels(points: Array) -> tuple[tuple[float, ...], float | None]:
        shares = points.mean(axis=0)
        return tuple(shares[chosen].tolist()), max(0.0, float(1.0 - shares.sum()))

    return levels


def _binned(points: Array, column: Measure) -> tuple[tuple[float, ...], float | None, Array]:
    """Return the shares of rows in bins between the bounds, of what is missing, and the edges."""
    values = from_unit(points[:, 0], column)
    there = points[:, 1] < 0.5 if column.nullable else np.ones(len(points), dtype=bool)
    counts, edges = np.histogram(values[there], bins=_BINS, range=column.bounds)
    missing = float(1.0 - there.mean()) if column.nullable else None
    return tuple((counts / max(1, int(there.sum()))).tolist()), missing, edges


def _plain(release: Release, name: str, points: Array) -> Plain:
    column, where = release.schema.columns[name], release.schema.coordinates_of(name)
    if isinstance(column, Category):
        return _levels(release, name, points[:, where], where.start)
    shares, missing, edges = _binned(points[:, where], column)
    labels = tuple(_label(edge, column.kind) for edge in edges)
    return Plain(name, column.kind, labels, shares, (None,) * len(shares), missing)


def _levels(release: Release, name: str, indicators: Array, start: int) -> Plain:
    column = release.schema.columns[name]
    assert isinstance(column, Category)  # noqa: S101
    shares = indicators.mean(axis=0)
    noise = _noise_of_shares(release)
    order = np.argsort(-shares, kind="stable")[:_MOST_LEVELS]
    missing = float(1.0 - shares.sum()) if column.nullable else None
    return Plain(
        name,
        column.kind,
        tuple(column.cube.texts[k] for k in order),
        tuple(float(shares[k]) for k in order),
        tuple(noise.get(start + int(k)) for k in order),
        missing,
    )


def _noise_of_shares(release: Release) -> dict[int, float]:
    """Return the noise of the measured share of each level, where one was measured by itself."""
    found: dict[int, float] = {}
    for moments in release.moments:
        if moments.measurement.transformation is None:
            for feature, deviation in zip(moments.features, moments.deviations, strict=True):
                if not feature.pooled and feature.degree == 1:
                    found[feature.terms[0][0][0]] = float(deviation)
    return found


def _label(value: float, kind: str) -> str:
    if kind in ("date", "datetime"):
        step = datetime.timedelta(days=1) if kind == "date" else datetime.timedelta(seconds=1)
        return (datetime.datetime(1970, 1, 1) + round(value) * step).isoformat(" ")[: 10 if kind == "date" else 16]
    return f"{value:.4g}"
