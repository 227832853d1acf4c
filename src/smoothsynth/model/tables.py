"""Tables of soft cells in the model: how they are seen, what is expected of them, and rows that have them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.fit.swapping import Axis, Correlations, Swapping, Target
from smoothsynth.model.clipped_moments import lacking_pairs
from smoothsynth.model.edits import Guard
from smoothsynth.queries.bases import LATTICE
from smoothsynth.queries.measurement import FULL_WEIGHT
from smoothsynth.queries.soft_tables import Cells, SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation, knot_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from smoothsynth.fit.swapping import Outcome
    from smoothsynth.model.copula import CutMoments
    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import Measurement, NoisyMoments

    Array = NDArray[np.float64]
    Sets = tuple[tuple[int, ...], ...]


# A spike is a cell of its own if it holds this part of what a hat function holds; at most so many of a column.
_OWN_CELL, _MOST_ATOMS = 0.5, 8
# A share of the flat density keeps positions from being constant where the model believes no row to be.
_FLAT_SHARE = 0.02
# So many rows are swapped first; each stands for several in the next stage, as long as the work of that stage, in rows times
# sweeps times columns of tables, allows the fewest sweeps.
FIRST_SWAPPED, GROWTH = 16_000, 4
FEWEST_SWEEPS, SWEEPS, WORK = 8, 100, 10**8
# So many rows are made at once at most, and so many of their coordinates: several copies of them are the memory of a release.
MOST_TOGETHER, MOST_COORDINATES = 256_000, 10**7
# Tables of three columns that are looked at, times the rows that are counted in each.
_MOST_LOOKED_AT = 5e7


def table_transformation(columns: Marginals, family: SoftTables) -> Transformation:
    """See numbers at the ranks that they have among all that are no spikes of their column, and spikes as cells.

    A column with no more values than hat functions has one for each value. Levels and indicators stay what they are.
    """
    lines = np.tile(knot_places(), (columns.count, 1))
    made = []
    for column in family.columns:
        if column.value is None:
            made.append(column)
            continue
        own, line = _seen(columns, column, family.order)
        made.append(own)
        lines[column.value] = line
    return Transformation.from_values(lines, SoftTables(tuple(made), family.order))


def _seen(columns: Marginals, column: TableColumn, order: int) -> tuple[TableColumn, Array]:
    value = column.value
    if value is None:
        raise AssertionError("a category has no value")
    places = columns.places[value][: np.count_nonzero(columns.base[value])]
    few = columns.exact[value] and len(places) <= column.hats
    if few and len(places) > 1:
        along = np.linspace(-1.0, 1.0, len(places))
        return replace(column, hats=len(places), atoms=()), np.interp(knot_places(), places, along)
    if order == 1:
        return column, knot_places()
    atoms = _atoms(columns, value, column.hats)
    rest = _without(columns, value, atoms)
    ranks = rest.mixed(_FLAT_SHARE).probabilities(value, knot_places())
    return replace(column, atoms=tuple(atoms)), 2.0 * ranks - 1.0


def _atoms(columns: Marginals, line: int, hats: int) -> list[int]:
    """Return the lattice values of the spikes of a line that are cells of their own."""
    if columns.spiked is None:
        return []
    held = np.where(columns.spiked[line], columns.masses[line], 0.0)
    largest = np.argsort(-held)[:_MOST_ATOMS]
    chosen = largest[held[largest] > _OWN_CELL / hats]
    return sorted({int(place) for place in np.rint(columns.places[line][chosen] * LATTICE)})


def _without(columns: Marginals, line: int, atoms: Sequence[int]) -> Marginals:
    if not atoms:
        return columns
    spiked = np.zeros(columns.masses.shape, dtype=bool)
    spiked[line] = np.isin(np.rint(columns.places[line] * LATTICE), atoms)
    return replace(columns, spiked=spiked).without_spikes()


def offered(measurement: Measurement, known: Sequence[NoisyMoments], rows: int) -> Measurement:
    """Return a measurement that chooses tables without those that are known; triples hold a pair that is known.

    Where too few would be left, all triples are there to choose from.
    """
    features, choice, family = measurement.features, measurement.choice, measurement.family
    if choice is None or not isinstance(features, Cells) or not isinstance(family, SoftTables):
        return measurement
    done = {table for noisy in known if isinstance(noisy.features, Cells) for table in noisy.features.tables}
    left = [table for table in features.tables if table not in done]
    if family.order > 2:
        grown = [table for table in left if done.intersection(itertools.combinations(table, 2))]
        left = grown if len(grown) >= choice.count else left
        most = max(choice.count, int(_MOST_LOOKED_AT / rows))
        left = sorted(left, key=lambda table: -_overlap(table, done))[:most]
    return replace(measurement, features=features.only(sorted(left)), weights=())


def _overlap(table: tuple[int, ...], done: set[tuple[int, ...]]) -> int:
    return sum(pair in done for pair in itertools.combinations(table, 2))


def expected_of(measurement: Measurement, points: Array, rows: int) -> NDArray[np.int64]:
    """Return the sums of all cells of a measurement that so many rows like these points would have."""
    features, family, seen = measurement.features, measurement.family, measurement.transformation
    if not isinstance(features, Cells) or not isinstance(family, SoftTables) or seen is None:
        raise TypeError("tables are expected of tables")
    tables = family.tables_of(seen, points, features.tables)
    whole = np.concatenate([table.ravel() for table in tables])
    return np.rint(whole * (rows * FULL_WEIGHT)).astype(np.int64)


def tables_distance(rows: Array, released: Sequence[NoisyMoments]) -> float:
    """Return the sum of squares of what rows lack of released tables, over that of their noise."""
    far = 0.0
    for noisy in released:
        features, family, seen = noisy.features, noisy.measurement.family, noisy.measurement.transformation
        if not isinstance(features, Cells) or not isinstance(family, SoftTables) or seen is None:
            raise TypeError("only tables are compared with tables")
        found = np.concatenate([table.ravel() for table in family.tables_of(seen, rows, features.tables)])
        far += float(np.sum(((found - noisy.values) / noisy.deviations) ** 2))
    return far


def swapped(
    rows: Array,
    columns: Marginals,
    released: Sequence[NoisyMoments],
    cut: CutMoments | None,
    *,
    generator: np.random.Generator,  # noqa: TID251
    progress: Callable[[int, int], None] | None = None,
    sweeps: int = SWEEPS,
) -> tuple[Array, Outcome]:
    """Return rows of the same values, swapped until they have what was released of tables, and how that ended."""
    axes: dict[tuple[int, int], Axis] = {}
    targets = []
    for noisy in released:
        targets += list(_targets(noisy, rows, axes))
    numbers = {key: number for number, key in enumerate(axes)}
    made = [Target(tuple(numbers[key] for key in keys), shares, deviation) for keys, shares, deviation in targets]
    groups = _groups(released[0])
    movable = [number for number, group in enumerate(groups) if not _bound(columns, group)]
    fit = Swapping(
        list(axes.values()),
        made,
        columns=len(groups),
        movable=movable,
        correlations=None if cut is None else _correlations(rows, columns, cut, groups),
        guard=None if columns.schema is None else Guard.of(columns.schema, rows),
        generator=generator,
    )
    outcome = fit.fit(sweeps, progress)
    found, origins = rows.copy(), fit.origins
    for number, group in enumerate(groups):
        found[:, list(group)] = rows[origins[number]][:, list(group)]
    return found, outcome


def _groups(noisy: NoisyMoments) -> tuple[tuple[int, ...], ...]:
    family = noisy.measurement.family
    if not isinstance(family, SoftTables):
        raise TypeError("only tables are swapped to")
    return tuple(column.coordinates for column in family.columns)


def _targets(
    noisy: NoisyMoments, rows: Array, axes: dict[tuple[int, int], Axis]
) -> Iterator[tuple[tuple[tuple[int, int], ...], Array, float]]:
    """Yield the axes, shares and noise of each table, and add axes that are new."""
    family, features, seen = noisy.measurement.family, noisy.features, noisy.measurement.transformation
    if not isinstance(family, SoftTables) or not isinstance(features, Cells) or seen is None:
        raise TypeError("only tables are swapped to")
    values, deviation = noisy.values, float(noisy.deviations[0])
    for table, where in features.places():
        for c in table:
            if (c, family.order) not in axes:
                column = family.columns[c]
                first, beyond = family.split(seen, c, rows)
                axes[c, family.order] = Axis(c, column.cells, column.hats, first, beyond, family.bits)
        keys = tuple((c, family.order) for c in table)
        yield keys, values[where].reshape(features.shape(table)), deviation


def _bound(columns: Marginals, group: tuple[int, ...]) -> bool:
    """Whether equalities bind the values of a column: those are not swapped."""
    return columns.limits is not None and columns.limits.binds(group[0])


def _correlations(
    rows: Array, columns: Marginals, cut: CutMoments, groups: tuple[tuple[int, ...], ...]
) -> Correlations:
    """Hold the correlations that rows have, and raise those that lack something of what was seen of pairs."""
    spread = np.maximum(rows.std(axis=0), 1e-6)
    standard = ((rows - rows.mean(axis=0)) / spread).T
    found = standard @ standard.T / len(rows)
    lacking, noise = lacking_pairs(rows, columns, cut)
    return Correlations(standard, found + lacking, noise, groups)


def rows_together(coordinates: int) -> int:
    """Return how many rows are made at once at most, as points of so many coordinates: further ones are made of them."""
    return max(FIRST_SWAPPED, min(MOST_TOGETHER, MOST_COORDINATES // coordinates))


def swap_stages(count: int, released: Sequence[NoisyMoments]) -> list[tuple[int, int]]:
    """Return how many rows are swapped, stage by stage, and the most sweeps of each; the last rows stand for `count`.

    Few rows settle cheaply where tables are far off; more rows, which begin where those ended, have finer cells right.
    """
    visits = sum(
        len(table) for noisy in released if isinstance(noisy.features, Cells) for table in noisy.features.tables
    )
    size = count if count <= GROWTH * FIRST_SWAPPED else FIRST_SWAPPED
    stages = [(size, WORK // (visits * max(size, 1)))]
    while size < count:
        size = min(count, GROWTH * size)
        if size * visits * FEWEST_SWEEPS > WORK:
            break
        stages.append((size, WORK // (visits * size)))
    return [(size, min(SWEEPS, max(FEWEST_SWEEPS, most))) for size, most in stages]


def spread_out(rows: Array, columns: Marginals, count: int, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Return more rows of the same kind: each stands for several, which share the quantiles around its values.

    Values of a column are those of `count` quantiles; each row takes as many neighbouring ones as it stands for, in random
    order. Levels and missing values are copied.
    """
    times = -(-count // len(rows))
    many = np.repeat(rows, times, axis=0)
    indicators = set(columns.groups.indicators)
    hidden = {value: rows[:, indicator] > 0.5 for value, indicator in columns.groups.missing}
    for c in (c for c in range(columns.count) if c not in indicators):
        seen = np.flatnonzero(~hidden[c]) if c in hidden else np.arange(len(rows))
        order = seen[np.argsort(rows[seen, c], kind="stable")]
        total = len(order) * times
        quantiles = columns.quantiles(c, (np.arange(total) + generator.random(total)) / max(total, 1))
        shared = generator.permuted(quantiles.reshape(len(order), times), axis=1)
        many.reshape(len(rows), times, -1)[order, :, c] = shared
    kept = np.sort(generator.permutation(len(many))[:count])
    return many if len(kept) == len(many) else many[kept]
