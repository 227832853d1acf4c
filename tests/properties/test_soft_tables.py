"""Tables of soft cells: a row weighs the same in each, nothing moves them farther than stated, engines sum them exactly."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, NoisyMoments, coarse_sums
from smoothsynth.queries.soft_tables import BITS, Cells, SoftTables, TableColumn
from smoothsynth.queries.transformation import Transformation
from smoothsynth.schema import Category, Integer, Number, Schema

# Coordinates: a 0, b 1 (2 if missing), k 3-5, m 6-7, w 8 and z 9; x of `other` is level 5.
SCHEMA = Schema(
    {
        "a": Number(-1, 1),
        "b": Number(0, 10, nullable=True),
        "k": Category(["p", "q", "r"], other="r"),
        "m": Category(["u", "v"], nullable=True),
        "w": Integer(0, 4),
        "z": Number(-5, 5),
    }
)
COLUMNS = (
    TableColumn(0, 5),
    TableColumn(1, 3, (-S, S), (2,)),
    TableColumn(None, levels=(3, 4, 5)),
    TableColumn(None, levels=(6, 7)),
    TableColumn(8, 5),
    TableColumn(9, 2, (0,)),
)
CELLS = [5, 6, 4, 3, 5, 3]


def sets(order):
    return tuple(itertools.combinations(range(len(COLUMNS)), order))


def table_measurement(order, tables=None, *, seed=None, mechanism="discrete gaussian", **settings):
    """Measure some tables, through straight lines or lines that a seed bends."""
    family = SoftTables(COLUMNS, order)
    knots = Transformation.straight(SCHEMA.dimensions, family).knots
    if seed is not None:
        knots = np.sort(np.random.default_rng(seed).integers(-S, S + 1, size=knots.shape), axis=1)
    cost = {"multiplier": 1.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
    return Measurement(
        "",
        family.cells(sets(order) if tables is None else tables),
        mechanism,
        transformation=Transformation(knots, family),
        **cost,
        **settings,
    )


def odd_rows(rows, seed):
    """Make cells of every kind: in range and out of it, missing, at single values, of no level."""
    rng = np.random.default_rng(seed)

    def some(drawn, *odd):
        return [odd[rng.integers(len(odd))] if rng.random() < 0.3 else one for one in drawn.tolist()]

    numbers = {
        "a": some(rng.uniform(-1, 1, rows), -1.0, 1.0, 0.0, 7.0, -7.0, math.nan, math.inf),
        "b": some(rng.uniform(0, 10, rows), 0.0, 10.0, None, 11.0, -3.0),
        "w": some(rng.integers(0, 5, rows), 9, -2, None),
        "z": some(rng.uniform(-5, 5, rows), 0.0, -0.0, 1e-9, 5.0, 80.0, None),
    }
    levels = {
        "k": some(rng.choice(["p", "q", "r"], rows), "none of these", None),
        "m": some(rng.choice(["u", "v"], rows), None, "x"),
    }
    arrays = {name: pa.array(one, pa.int64() if name == "w" else pa.float64()) for name, one in numbers.items()}
    return pa.table({name: arrays[name] if name in arrays else levels[name] for name in SCHEMA.names})


def sums_of(table, measurement, engine=None):
    opened = open_table(table, SCHEMA)
    exact = (engine or LocalEngine()).sums(opened, measurement.features, transformation=measurement.transformation)
    return np.array(coarse_sums(exact.unseal(), measurement), dtype=np.int64)


def row_by_row(table, measurement):
    return np.stack([sums_of(table.slice(i, 1), measurement) for i in range(table.num_rows)])


@pytest.mark.parametrize("order", BITS)
def test_a_row_adds_whole_numbers_with_the_same_sum_to_every_table(order):
    measurement = table_measurement(order, seed=order)
    one_by_one = row_by_row(odd_rows(40, order), measurement)
    assert one_by_one.min() >= 0
    for table, where in measurement.features.places():
        assert (one_by_one[:, where].sum(axis=1) == FULL_WEIGHT).all(), table
        assert (np.count_nonzero(one_by_one[:, where], axis=1) <= 2**order).all()


@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from(sorted(BITS)))
@settings(max_examples=20)
def test_no_row_moves_tables_farther_than_stated(seed, order):
    """Whatever the rows are, and however numbers are bent: sqrt(2) and 2 for one table, sqrt(2k) and 2k for k of them."""
    rng = np.random.default_rng(seed)
    chosen = [sets(order)[place] for place in sorted(rng.permutation(len(sets(order)))[: rng.integers(1, 7)])]
    measurement = table_measurement(order, tuple(chosen), seed=seed)
    table = odd_rows(2, seed)
    moved = np.diff(row_by_row(table, measurement), axis=0)[0] / FULL_WEIGHT
    assert np.linalg.norm(moved) <= math.sqrt(2 * len(chosen)) * (1 + 1e-12)
    assert np.abs(moved).sum() <= 2 * len(chosen)
    for _, where in measurement.features.places():
        assert np.linalg.norm(moved[where]) <= math.sqrt(2) * (1 + 1e-12)
        assert np.abs(moved[where]).sum() <= 2


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("order", BITS)
def test_two_rows_move_tables_as_far_as_stated_and_no_farther(order, count):
    tables = sets(order)[:count]
    ends = pa.table(
        {"a": [-1.0, 1.0], "b": [None, 10.0], "k": ["p", "x"], "m": ["u", None], "w": [0, 4], "z": [0.0, 5.0]}
    )
    for mechanism, norm, unit in (("discrete gaussian", 2, math.sqrt(2 * count)), ("discrete laplace", 1, 2 * count)):
        measurement = table_measurement(order, tables, mechanism=mechanism)
        moved = np.diff(row_by_row(ends, measurement), axis=0)[0]
        assert float(np.linalg.norm(moved, ord=norm)) == pytest.approx(unit * FULL_WEIGHT, rel=1e-12)
        assert measurement.sensitivity == math.ceil(unit * FULL_WEIGHT)
        assert table_measurement(order, tables, mechanism=mechanism, rows_per_person=3).sensitivity == math.ceil(
            3 * unit * FULL_WEIGHT
        )


@pytest.mark.parametrize("order", BITS)
def test_engines_sum_what_the_measurement_evaluates(order):
    measurement, table = table_measurement(order, seed=7), odd_rows(300, 11)
    units = SCHEMA.to_unit({name: table[name].combine_chunks() for name in SCHEMA.names})
    direct = np.rint(measurement.evaluate(units) * FULL_WEIGHT).astype(np.int64).sum(axis=0)
    np.testing.assert_array_equal(sums_of(table, measurement), direct)
    means = measurement.family.tables_of(measurement.transformation, units, measurement.features.tables)
    np.testing.assert_allclose(np.concatenate([m.ravel() for m in means]), direct / (300 * FULL_WEIGHT), atol=1e-12)


@pytest.mark.parametrize("order", BITS)
def test_neither_batches_nor_threads_nor_order_matter(order):
    measurement, table = table_measurement(order, seed=3), odd_rows(9_000, 5)
    known = sums_of(table, measurement)
    assert known.sum() == 9_000 * FULL_WEIGHT * len(measurement.features.tables)
    for engine in (LocalEngine(threads=1), LocalEngine(threads=3, batch_rows=1_000)):
        np.testing.assert_array_equal(sums_of(table, measurement, engine), known)
    shuffled = table.take(np.random.default_rng(0).permutation(9_000))
    np.testing.assert_array_equal(sums_of(shuffled, measurement), known)


def test_private_sums_of_tables_cannot_be_copied():
    import pickle

    measurement = table_measurement(2)
    sums = Kernel(SCHEMA, measurement.features, measurement.transformation)._tables()
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(sums)


def test_cells_are_products_of_one_cell_of_each_column():
    cells = SoftTables(COLUMNS, 2).cells(((0, 1), (2, 4)))
    assert cells.counts == tuple(CELLS)
    assert len(cells) == 5 * 6 + 4 * 5 == len(list(cells))
    assert cells[0] == term_feature((0, 1), (5, 1))
    assert cells[31] == term_feature((11, 1), (19, 1))
    assert cells[-1] == cells[49] == term_feature((14, 1), (22, 1))
    with pytest.raises(IndexError):
        cells[50]
    assert cells.only([(2, 4)]) == SoftTables(COLUMNS, 2).cells(((2, 4),))
    assert hash(cells) == hash(SoftTables(COLUMNS, 2).cells(((0, 1), (2, 4))))


@pytest.mark.parametrize(
    "tables",
    [((0, 1), (0, 1)), ((1, 0),), ((0, 0),), ((0, 6),), ((-1, 0),), ((),)],
    ids=["twice", "falling", "one column twice", "an unknown column", "a negative one", "of nothing"],
)
def test_sets_of_columns_that_cannot_be_are_refused(tables):
    with pytest.raises(PlanError, match="different sets of columns"):
        Cells(tuple(CELLS), tables)


IMPOSSIBLE = {
    "one hat": (0, 1),
    "hats of nothing": (None, 4),
    "one hat of nothing": (None, 1),
    "fewer cells than levels": (None, -1, (), (0, 1)),
    "an atom of nothing": (None, 0, (0,)),
    "no hat": (0, 0),
    "an atom twice": (0, 4, (1, 1)),
    "an atom outside": (0, 4, (S + 1,)),
    "half": (0, 4, (0.5,)),
    "a float": (0, 4.0),
    "a boolean": (0, True),
    "a coordinate that is a float": (0.0, 4),
}


@pytest.mark.parametrize("facts", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_columns_of_tables_that_cannot_be_are_refused(facts):
    with pytest.raises(PlanError):
        TableColumn(*facts)


def test_measurements_that_the_proof_does_not_cover_are_refused():
    family = SoftTables(COLUMNS, 2)
    cells, seen = family.cells(sets(2)), Transformation.straight(SCHEMA.dimensions, family)
    right = {"features": cells, "mechanism": "discrete gaussian", "multiplier": 1.0, "transformation": seen}
    Measurement("", **right)
    for wrong in (
        {"weights": (1,) * len(cells)},
        {"weights": (2**15,)},
        {"features": tuple(cells)},
        {"features": SoftTables(COLUMNS, 3).cells(sets(3))},
        {"features": Cells((2, 2), ((0, 1),))},
        {"transformation": Transformation.straight(3, family)},
    ):
        with pytest.raises(PlanError):
            Measurement("", **{**right, **wrong})
    with pytest.raises(PlanError, match="in common"):
        SoftTables((TableColumn(0, 2), TableColumn(0, 3)), 2)
    with pytest.raises(PlanError, match="1 to 3"):
        SoftTables(COLUMNS, 4)


@pytest.mark.parametrize("order", BITS)
def test_what_was_measured_survives_a_file(order):
    measurement = table_measurement(order, seed=1)
    noisy = NoisyMoments(measurement, 50, tuple(range(len(measurement.features))))
    facts = noisy.as_dict()
    assert facts["tables"] == [list(table) for table in sets(order)]
    assert "features" not in facts
    assert "weights" not in facts
    again = NoisyMoments.from_dict(facts)
    assert again == noisy
    assert again.measurement.transformation.family == SoftTables(COLUMNS, order)


def test_an_old_file_with_waves_is_refused_in_words():
    facts = Transformation.straight(2).as_dict()
    with pytest.raises(PlanError, match="no longer knows"):
        Transformation.from_dict(facts | {"waves": True})
