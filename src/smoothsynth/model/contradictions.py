"""Where finished rows contradict what was released: post-processing, the same for whoever has the release.

A moment is contradicted where the mean of its feature f over m rows is further from the released value than

    6 sqrt(noise^2 + var f / m) + 20 r / m + 0.05 sqrt(var f)

What happens in a share p of all rows is absent from m of them with probability exp(-m p): that is 20 r / m, r the most
that f can be. The last term is what a fit may leave: at most 0.02 on made-up tables of up to 200,000 rows and on real
ones, but where a spike or a pair of levels is lost.

Soft counts are added up to a distribution function first: one may give to the next. Of rows that were cut to a length only
products of two columns are compared, as others tell of single ones. Lengths of rows and means over several columns are
left out. They belong to no column, and rows give lengths up for tables. Counts of levels below the nodes of the cube are left
out too: points do not tell them, and rows are drawn by them. So are categories with cells that are
no level: their rows have another share of each level on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth._runtime import one_thread
from smoothsynth.fit.result import CONTRADICTED, UNMATCHED, quoted
from smoothsynth.model.marginal_moments import unmatched
from smoothsynth.queries.families import ClippedSecondMoments, RowNorms
from smoothsynth.queries.level_histograms import LevelHistograms
from smoothsynth.queries.soft_tables import Cells, SoftTables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow
    from numpy.typing import NDArray

    from smoothsynth.queries.bases import Feature
    from smoothsynth.queries.measurement import Measurement, NoisyMoments
    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


# Gaussian noise is beyond that once in 10^9 times; noise of pure mechanisms has longer tails, and is so once in 10^6.
_FAR, _FAR_PURE = 6.0, 10.0
_RARE, _LEFT_BY_FIT = 20.0, 0.05
# So many rows tell as much as all, in blocks of so many rows or values that fit in memory.
_MOST_ROWS, _BLOCK, _MOST_VALUES = 50_000, 4_096, 2**22
_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Columns of which rows contradict a released moment, the farthest of them: its value, its noise, that of the rows.

    `far` is the distance over what is allowed. Values are in units of the cube, those of `what` in words.
    """

    columns: tuple[str, ...]
    what: str
    released: float
    noise: float
    found: float
    far: float

    @property
    def about(self) -> str:
        """The columns, by name."""
        return " with ".join(map(quoted, self.columns))


def contradictions(schema: Schema, moments: Sequence[NoisyMoments], points: Array) -> tuple[Contradiction, ...]:
    """Return what rows, as points of the cube, contradict: one moment for the same columns, the farthest first."""
    left_out = set(unmatched(schema, moments))
    seen = points[:: _step(len(points))]
    worst: dict[tuple[str, ...], Contradiction] = {}
    # Products of blocks of a few thousand rows: on a busy machine threads of them wait for each other.
    with one_thread():
        for noisy in moments:
            for one in _of(noisy, schema, seen):
                known = worst.get(one.columns)
                if not left_out.intersection(one.columns) and (known is None or one.far > known.far):
                    worst[one.columns] = one
    return tuple(sorted(worst.values(), key=lambda one: (-one.far, one.columns)))


def compared(schema: Schema, table: pyarrow.Table) -> Array:
    """Return the rows of a table that are compared with what was released, as points of the cube."""
    chosen = table.take(np.arange(0, table.num_rows, _step(table.num_rows)))
    return schema.to_unit({name: chosen[name] for name in schema.names})


def _step(rows: int) -> int:
    return -(-rows // _MOST_ROWS)


def remarks(schema: Schema, moments: Sequence[NoisyMoments], points: Array) -> str:
    """Say in words what the released numbers tell of the rows: cells that are no level, and contradictions; "" if nothing.

    It ends the `outcome` of a receipt, and can be computed again from the folder of the release.
    """
    said = [
        UNMATCHED.format(share=f"{share:.1%}", column=quoted(name))
        for name, share in unmatched(schema, moments).items()
    ]
    found = contradictions(schema, moments, points)
    if found:
        said.append(CONTRADICTED.format(columns=listed(found)))
    return " ".join(said)


def listed(found: Sequence[Contradiction]) -> str:
    """Name the columns of contradictions, the farthest first."""
    names = ", ".join(one.about for one in found[:_MOST_NAMES])
    return f"{names} and {len(found) - _MOST_NAMES:,} more" if len(found) > _MOST_NAMES else names


def _of(noisy: NoisyMoments, schema: Schema, points: Array) -> Iterator[Contradiction]:
    """Yield every contradiction of one measurement."""
    measurement = noisy.measurement
    if measurement.family == RowNorms() or isinstance(measurement.family, LevelHistograms):
        return
    if isinstance(measurement.features, Cells):
        yield from _of_tables(noisy, measurement.features, schema, points)
        return
    runs = _runs(measurement)
    released, noise = _added(noisy.values, runs), np.sqrt(_added(noisy.deviations**2, runs))
    mean, spread, most = _moments(measurement, points, runs)
    far = _FAR if measurement.multiplier is not None else _FAR_PURE
    allowed = far * np.hypot(noise, spread / len(points) ** 0.5) + _RARE * most / len(points) + _LEFT_BY_FIT * spread
    apart = np.abs(mean - released) / allowed
    for i in np.flatnonzero(apart > 1.0).tolist():
        feature = measurement.features[i]
        columns = _columns(measurement, feature, schema)
        if len(feature.terms) == 1 and (len(columns) > 1 or not _is_cut(measurement)):
            what = "distribution function" if any(i in run for run in runs) else _what(measurement, feature, schema)
            yield Contradiction(columns, what, float(released[i]), float(noise[i]), float(mean[i]), float(apart[i]))


def _of_tables(noisy: NoisyMoments, cells: Cells, schema: Schema, points: Array) -> Iterator[Contradiction]:
    """Yield the cell of each table that is farthest from what was released, if it is too far."""
    measurement = noisy.measurement
    family, seen = measurement.family, measurement.transformation
    if not isinstance(family, SoftTables) or seen is None:
        raise TypeError("tables are seen as soft cells")
    released, noise = noisy.values, float(noisy.deviations[0])
    far = _FAR if measurement.multiplier is not None else _FAR_PURE
    for (table, where), own in zip(cells.places(), family.tables_of(seen, points, cells.tables), strict=True):
        mean = own.ravel()
        spread = np.sqrt(mean * (1.0 - mean))
        allowed = far * np.hypot(noise, spread / len(points) ** 0.5) + _RARE / len(points) + _LEFT_BY_FIT * spread
        apart = np.abs(mean - released[where]) / allowed
        worst = int(apart.argmax())
        if apart[worst] > 1.0:
            used = sorted(c for column in table for c in family.columns[column].coordinates)
            columns = tuple(dict.fromkeys(schema.owners[c][0] for c in used))
            shares = float(released[where][worst]), noise, float(mean[worst])
            yield Contradiction(columns, "cell of a table", *shares, float(apart[worst]))


def _moments(measurement: Measurement, points: Array, runs: Sequence[list[int]]) -> tuple[Array, Array, Array]:
    """Return the mean and the standard deviation of each feature over the rows, and the most that it can be.

    Rows that are cut to a length are standardised: a product has at least the deviation that most of them have, even if
    it is constant in a few rows, and is far below 1.
    """
    if _is_cut(measurement):
        mean, square, most = _of_products(measurement.features, _blocks(measurement.seen, points), len(points))
    else:
        total, squares = np.zeros((2, len(measurement.features)))
        size = min(_BLOCK, -(-_MOST_VALUES // len(measurement.features)))
        for seen in _blocks(lambda block: _added(measurement.evaluate(block), runs), points, size):
            total += seen.sum(axis=0)
            squares += np.einsum("ij,ij->j", seen, seen)
        mean, square, most = total / len(points), squares / len(points), np.ones_like(total)
    # Of a level that none of few rows has, nothing but that is seen.
    most = most if _is_cut(measurement) else np.ones_like(most)
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    products = [len(feature.terms[0]) > 1 for feature in measurement.features]
    if _is_cut(measurement) and any(products):
        spread = np.maximum(spread, np.median(spread[products]))
    return mean, spread, most


def _of_products(features: Sequence[Feature], blocks: Iterator[Array], rows: int) -> tuple[Array, Array, Array]:
    """Return mean, mean square and most of coordinates and of products of two, all at once; there can be thousands."""
    pairs = np.array([(feature.terms[0][0][0], feature.terms[0][-1][0]) for feature in features])
    one, other, alone = pairs[:, 0], pairs[:, 1], np.array([len(feature.terms[0]) == 1 for feature in features])
    first, second, fourth, most = np.zeros((4, 1))
    for z in blocks:
        first, second, fourth = first + z.sum(axis=0), second + z.T @ z, fourth + (z**2).T @ z**2
        most = np.maximum(most, np.abs(z).max(axis=0))
    mean = np.where(alone, first[one], second[one, other]) / rows
    square = np.where(alone, second[one, one], fourth[one, other]) / rows
    return mean, square, most[one] * np.where(alone, 1.0, most[other])


def _blocks(of: Callable[[Array], Array], points: Array, size: int = _BLOCK) -> Iterator[Array]:
    return (of(points[start : start + size]) for start in range(0, len(points), size))


def _is_cut(measurement: Measurement) -> bool:
    return isinstance(measurement.family, ClippedSecondMoments)


def _runs(measurement: Measurement) -> list[list[int]]:
    """Return the places of the soft counts of each coordinate of values, in their order."""
    if not measurement.family.shares:
        return []
    places: dict[int, list[tuple[int, int]]] = {}
    for i, feature in enumerate(measurement.features):
        ((coordinate, count),) = feature.terms[0]
        places.setdefault(coordinate, []).append((count, i))
    return [[i for _, i in sorted(own)] for own in places.values() if len(own) > 1]


def _added(values: Array, runs: Sequence[list[int]]) -> Array:
    """Return values, or rows of them, with soft counts added up along each run."""
    found = values.copy() if runs else values
    for run in runs:
        found[..., run] = np.cumsum(values[..., run], axis=-1)
    return found


def _columns(measurement: Measurement, feature: Feature, schema: Schema) -> tuple[str, ...]:
    own = measurement.family.read([c for c, _ in feature.terms[0]], schema.dimensions)
    return tuple(dict.fromkeys(schema.owners[c][0] for c in sorted(own)))


def _what(measurement: Measurement, feature: Feature, schema: Schema) -> str:
    columns = _columns(measurement, feature, schema)
    if len(columns) > 1:
        return "product"
    if schema.columns[columns[0]].kind == "category":
        return "share of a level"
    return {1: "mean", 2: "second moment"}.get(feature.degree, f"moment of degree {feature.degree}")
