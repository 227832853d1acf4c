"""Rows that swap values: columns stay value by value, the sum falls, and tables that rows can have come."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from smoothsynth.fit.swapping import Axis, Correlations, Swapping, Target
from smoothsynth.model.tables import FEWEST_SWEEPS, FIRST_SWAPPED, GROWTH, WORK, swap_stages
from smoothsynth.queries.soft_tables import BITS, Cells, TableColumn
from smoothsynth.queries.tabulation import tabulate

ROWS = 3_000


def axis_of(column, values, hats, order=2):
    """See values in [-1, 1] through hat functions; a column without any has levels, given as whole numbers."""
    if not hats:
        cells = int(values.max()) + 1
        return Axis(column, cells, 0, values.astype(np.int64), np.zeros(len(values), dtype=np.int64), BITS[order])
    lattice = np.rint(values * 2**16).astype(np.int64)
    first, beyond = TableColumn(0, hats).split(lattice, lattice, BITS[order])
    return Axis(column, hats, hats, first, beyond, BITS[order])


def table_of(axes, places):
    chosen = [axes[place] for place in places]
    found = tabulate([(axis.first, axis.beyond) for axis in chosen], [axis.cells for axis in chosen], chosen[0].bits)
    return found / (len(chosen[0].first) * 2.0 ** (chosen[0].bits * len(places)))


def fitted(real, start, hats, tables, *, movable=None, correlations=None, deviation=1e-3, sweeps=100, seed=0):
    """Swap the values of `start` until it has the tables of `real`; return the rows, the outcome and the axes of both."""
    order = len(tables[0])
    wanted = [axis_of(c, real[:, c], hats[c], order) for c in range(real.shape[1])]
    axes = [axis_of(c, start[:, c], hats[c], order) for c in range(real.shape[1])]
    targets = [Target(table, table_of(wanted, table), deviation) for table in tables]
    columns = real.shape[1]
    fit = Swapping(
        axes,
        targets,
        columns=columns,
        movable=range(columns) if movable is None else movable,
        correlations=correlations,
        generator=np.random.default_rng(seed),
    )
    before = fit._sum()
    outcome = fit.fit(sweeps)
    made = np.stack([start[fit.origins[c], c] for c in range(columns)], axis=1)
    return made, outcome, before, fit


def ring(rows=ROWS, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    points, angle = rng.uniform(-1, 1, (rows, columns)), rng.uniform(0, 2 * np.pi, rows)
    points[:, 0], points[:, 1] = 0.8 * np.cos(angle), 0.8 * np.sin(angle)
    return points


def shuffled(points, seed=1):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(column) for column in points.T], axis=1)


@pytest.mark.parametrize("tables", [((0, 1), (1, 2)), ((0, 1, 2),)])
def test_a_table_comes_and_all_columns_stay_value_by_value(tables):
    real = ring()
    start = shuffled(real)
    made, outcome, before, fit = fitted(real, start, [8, 8, 4], tables)
    np.testing.assert_array_equal(np.sort(made, axis=0), np.sort(start, axis=0))
    assert np.mean(np.hypot(start[:, 0], start[:, 1]) < 0.5) > 0.15
    assert np.mean(np.hypot(made[:, 0], made[:, 1]) < 0.5) < 0.05
    assert fit._sum() < 0.02 * before
    assert outcome.sweeps <= 100


def test_a_table_that_rows_can_have_is_met_nearly_exactly():
    """Of levels, where each swap moves whole rows: from independence to nearly every cell."""
    rng = np.random.default_rng(3)
    k = rng.integers(0, 3, ROWS)
    m = np.where(rng.random(ROWS) < np.array([0.1, 0.5, 0.9])[k], 0, 1)
    real = np.stack([k, m], axis=1)
    made, *_ = fitted(real, shuffled(real), [0, 0], ((0, 1),))
    found, wanted = (np.histogram2d(*rows.T, bins=(3, 2))[0] for rows in (made, real))
    assert np.abs(found - wanted).max() <= 0.002 * ROWS
    np.testing.assert_array_equal(np.sort(made, axis=0), np.sort(real, axis=0))


def test_the_sum_falls_from_sweep_to_sweep():
    real = ring()
    start, past = shuffled(real), []
    for sweeps in (0, 1, 3, 10, 30):
        *_, fit = fitted(real, start, [8, 8, 4], ((0, 1), (0, 2)), sweeps=sweeps)
        past.append(fit._sum())
    assert past == sorted(past, reverse=True)
    assert past[-1] < 0.05 * past[0]


def test_rows_that_have_the_table_stay_nearly_all():
    real = ring()
    made, outcome, *_ = fitted(real, real, [8, 8, 4], ((0, 1),), deviation=0.01)
    assert outcome.converged
    assert np.mean(made == real) > 0.9


def test_columns_that_are_bound_stay_in_place():
    real = ring()
    start = shuffled(real)
    made, *_ = fitted(real, start, [8, 8, 4], ((0, 1), (1, 2)), movable=[1])
    np.testing.assert_array_equal(made[:, [0, 2]], start[:, [0, 2]])
    assert (made[:, 1] != start[:, 1]).any()
    assert np.mean(np.hypot(made[:, 0], made[:, 1]) < 0.5) < 0.05


def test_correlations_that_rows_have_are_held():
    real = ring()
    rng = np.random.default_rng(5)
    start = shuffled(real)
    start[:, 2] = np.clip(0.8 * start[:, 0] + 0.3 * rng.normal(size=ROWS), -1, 1)
    standard = ((start - start.mean(axis=0)) / start.std(axis=0)).T
    held = Correlations(standard, standard @ standard.T / ROWS, np.full((3, 3), 0.001), ((0,), (1,), (2,)))
    made, *_ = fitted(real, start, [8, 8, 4], ((0, 1),), correlations=held)
    assert np.corrcoef(start.T)[0, 2] > 0.7
    np.testing.assert_allclose(np.corrcoef(made.T), np.corrcoef(start.T), atol=0.03)
    assert np.mean(np.hypot(made[:, 0], made[:, 1]) < 0.5) < 0.1


def test_a_correlation_that_is_wanted_comes():
    start = shuffled(ring())
    standard = ((start - start.mean(axis=0)) / start.std(axis=0)).T
    wanted = standard @ standard.T / ROWS
    wanted[0, 2] = wanted[2, 0] = -0.4
    held = Correlations(standard, wanted, np.full((3, 3), 0.01), ((0,), (1,), (2,)))
    made, *_ = fitted(start, start, [8, 8, 4], ((0, 1), (1, 2)), correlations=held, deviation=0.01)
    assert np.corrcoef(made.T)[0, 2] == pytest.approx(-0.4, abs=0.03)


def test_the_same_generator_gives_the_same_rows():
    real = ring(500)
    one, other, another = (fitted(real, shuffled(real), [4, 4, 4], ((0, 1),), seed=seed)[0] for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, other)
    assert (one != another).any()


@pytest.mark.parametrize("rows", [4, 5, 7])
def test_a_few_rows_can_be_swapped(rows):
    real = ring(rows)
    made, *_ = fitted(real, shuffled(real), [2, 2, 2], ((0, 1),))
    np.testing.assert_array_equal(np.sort(made, axis=0), np.sort(real, axis=0))


def test_rows_that_are_wrong_find_each_other():
    """Six clusters: of few rows between them each needs another that lacks what it has."""
    rng = np.random.default_rng(6)
    real = rng.uniform(-0.8, 0.8, (6, 3))[rng.integers(0, 6, ROWS)] + 0.02 * rng.normal(size=(ROWS, 3))
    *_, before, fit = fitted(real, shuffled(real), [12, 12, 12], ((0, 1), (0, 2), (1, 2)), sweeps=30)
    assert fit._sum() < 0.001 * before


def released(columns, tables):
    """Return something like a release of tables of these columns."""
    return [SimpleNamespace(features=Cells((4,) * columns, tables))]


@pytest.mark.parametrize("count", [4, 30_000, 50_000, 10**6, 10**8])
@pytest.mark.parametrize("columns", [4, 20])
def test_rows_are_swapped_in_stages_whose_work_is_bounded(count, columns):
    tables = tuple(itertools.combinations(range(columns), 2))[: 5 * columns]
    stages = swap_stages(count, released(columns, tables))
    sizes = [size for size, _ in stages]
    assert sizes == sorted(set(sizes))
    assert sizes[0] <= GROWTH * FIRST_SWAPPED
    assert sizes[-1] == count or sizes[-1] * GROWTH * 2 * len(tables) * FEWEST_SWEEPS > WORK
    assert all(size * sweeps * 2 * len(tables) <= WORK for size, sweeps in stages)


def test_a_swap_that_adds_more_than_it_gains_is_not_made():
    """One row moves a cell by five deviations: without what a swap adds by itself, the sum ends a fifth higher."""
    real = ring(2_000)
    _, _, before, fit = fitted(real, shuffled(real), [12, 12, 12], ((0, 1, 2),), deviation=1e-4, sweeps=40)
    assert fit._sum() < 0.026 * before
