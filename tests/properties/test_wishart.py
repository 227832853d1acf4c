"""How far a row moves the matrix of products, in nuclear norm: whole numbers of adversarial rows, and rows that attain it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.accounting.charges import Charge, wishart_deviation, wishart_scale
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.methods.layout import pair_weights
from smoothsynth.private import noise
from smoothsynth.queries.bases import LATTICE, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram
from smoothsynth.queries.level_histograms import LevelHistogram, LevelHistograms
from smoothsynth.queries.measurement import Measurement, coarse_sums, whole_weights
from smoothsynth.queries.sensitivity import length_of, matrix_of
from smoothsynth.queries.soft_tables import SoftTables, TableColumn
from smoothsynth.queries.transformation import KNOTS, Transformation


def measured(d, *, mean=0.3, radius=1.0, weights=None, **settings):
    features = total_degree(2, d)
    return Measurement(
        "products",
        features,
        "wishart",
        epsilon=1.0,
        weights=whole_weights(pair_weights(features, mean)) if weights is None else weights,
        transformation=Transformation.straight(d, ClippedSecondMoments(radius)),
        **settings,
    )


def sums_of(measurement, lattice):
    """Return the whole numbers that are released of lattice rows, before noise, in Python's integers."""
    seen = measurement.family.after(np.array(lattice, dtype=np.float64).T).T.astype(np.int64).astype(object)
    d = seen.shape[1]
    sums = [int(seen[:, c].sum()) * LATTICE for c in range(d)]
    for i, j in itertools.combinations_with_replacement(range(d), 2):
        products = int((seen[:, i] * seen[:, j]).sum())
        sums.append(2 * products - len(seen) * LATTICE**2 if i == j else products)
    return np.array(coarse_sums(sums, measurement), dtype=np.float64)


def move(measurement, others, row, other):
    here, there = (sums_of(measurement, [*others, one]) for one in (row, other))
    return float(length_of(here - there, "nuclear"))


places = st.integers(-LATTICE, LATTICE) | st.sampled_from([-LATTICE, 0, LATTICE])
weights = st.tuples(*[st.integers(1, 2**16)] * 3)


@given(st.data(), st.integers(1, 5), st.floats(0.01, 3.0), weights)
def test_no_row_moves_the_matrix_farther(data, d, radius, weights):
    """Any weights of each kind, any clip, any rows that stay: floors are taken of the sums."""
    c, v, p = weights
    kinds = [c if f.degree == 1 else v if len(f.terms[0]) == 1 else p for f in total_degree(2, d)]
    measurement = measured(d, radius=radius, weights=tuple(kinds))
    row = st.lists(places, min_size=d, max_size=d)
    others = data.draw(st.lists(row, max_size=2))
    assert move(measurement, others, data.draw(row), data.draw(row)) <= measurement.sensitivity


@pytest.mark.parametrize("d", [2, 3, 6, 20])
@pytest.mark.parametrize("mean", [0.01, 0.3, 0.99])
def test_it_is_attained(d, mean):
    """u and v of full length at right angles:  p y z = -c^2/p.  What is left is the room for floors, and the clip's."""
    measurement = measured(d, mean=mean)
    angle = math.acos(-(mean**2)) / 2
    rows = [[math.cos(angle), sign * math.sin(angle), *[0.0] * (d - 2)] for sign in (1, -1)]
    row, other = ([round(LATTICE * one) for one in row] for row in rows)
    reached = move(measurement, [], row, other)
    floors = math.sqrt((d + 1) * d * (d + 3))
    assert measurement.sensitivity - floors - 30 < reached <= measurement.sensitivity


def test_it_would_be_exceeded_without_room_for_floors():
    """Small weights, where the exact bound alone would be too small."""
    measurement = measured(3, weights=(1,) * 9)
    exact = 2 * (2 + math.sqrt(8) - 1)
    rng = np.random.default_rng(0)
    rows = rng.integers(-LATTICE, LATTICE + 1, (400, 3)).tolist()
    farthest = max(move(measurement, rows[i : i + 1], rows[i + 1], rows[i + 2]) for i in range(0, 396))
    assert exact < farthest <= measurement.sensitivity


def test_several_rows_of_a_person():
    one, three = measured(4), measured(4, rows_per_person=3)
    floors = math.sqrt(5 * 4 * 7)
    assert three.sensitivity == pytest.approx(3 * (one.sensitivity - floors) + floors, abs=4)


@given(st.integers(1, 8))
def test_the_matrix_is_that_of_the_rows(d):
    """Products of weight 1, and squares T_2 / (2 sqrt 2): the matrix is uu' but for constants, u = (c, y), c = 1."""
    rng = np.random.default_rng(d)
    y, z = rng.normal(size=(2, d))

    def sums(y):
        upper = [
            (2 * a * b - 1) * math.sqrt(0.125) if i == j else a * b
            for i, a in enumerate(y)
            for j, b in enumerate(y)
            if i <= j
        ]
        return np.array([*y, *upper])

    u, v = (np.concatenate([[1.0], one]) for one in (y, z))
    np.testing.assert_allclose(matrix_of(sums(y) - sums(z)), np.outer(u, u) - np.outer(v, v), atol=1e-12)


@pytest.mark.parametrize("d", [2, 5])
def test_noise_has_the_order_of_the_sums(d):
    """The matrix of the noise is invariant; a move of one sum must be one of the same entry in features and in noise."""
    features = total_degree(2, d)
    for place, feature in enumerate(features):
        found = matrix_of(np.eye(len(features))[place])
        term = feature.terms[0]
        i, j = (0, term[0][0] + 1) if feature.degree == 1 else (term[0][0] + 1, term[-1][0] + 1)
        assert found[i, j] == found[j, i] == (math.sqrt(2) if i == j else 1.0)
        assert np.count_nonzero(found) == (1 if i == j else 2)
    assert len(noise.add_wishart_noise([0] * len(features), sensitivity=9, epsilon=1.0)) == len(features)


def test_only_all_products_of_clipped_rows_have_it():
    features = total_degree(2, 3)
    clipped = Transformation.straight(3, ClippedSecondMoments(1.0))
    for wrong in (
        {"features": features[::-1]},
        {"features": features[:-1]},
        {"weights": (1, 2, 1, 1, 1, 1, 1, 1, 1)},
        {"transformation": None},
        {"transformation": Transformation.straight(3, RankHistogram())},
    ):
        facts = {"features": features, "transformation": clipped, **wrong}
        with pytest.raises(PlanError, match="Wishart noise is for"):
            Measurement("products", mechanism="wishart", epsilon=1.0, **facts)


# Numbers of cells that would be those of products of two, three and six columns.
@pytest.mark.parametrize(("order", "hats"), [(1, 5), (2, 3), (3, 3)])
def test_cells_of_tables_do_not_have_it(order, hats):
    family = SoftTables(tuple(TableColumn(c, hats) for c in range(order)), order)
    cells, seen = family.cells((tuple(range(order)),)), Transformation.straight(order, family)
    with pytest.raises(PlanError, match="Wishart noise is for"):
        Measurement("a table", cells, "wishart", epsilon=1.0, transformation=seen)


def test_counts_of_levels_do_not_have_it():
    family = LevelHistograms((LevelHistogram(0, 1, 26),))
    seen = Transformation(np.zeros((0, KNOTS), dtype=np.int64), family)
    with pytest.raises(PlanError, match="Wishart noise is for"):
        Measurement("levels", family.cells(), "wishart", epsilon=1.0, transformation=seen)


def test_a_charge_says_what_it_costs():
    measurement = measured(6, mean=0.1 * math.sqrt(6))
    charge = measurement.charge()
    assert charge.norm == "nuclear"
    assert charge.scale == wishart_scale(measurement.sensitivity, 1.0)
    assert charge.deviation == wishart_deviation(27, sensitivity=measurement.sensitivity, epsilon=1.0)
    assert charge.deviation == pytest.approx(measurement.sensitivity * 2.0)
    assert "in nuclear norm" in charge.sentence()
    assert Charge.from_dict(charge.as_dict()) == charge
    for wrong in ({"scale": charge.scale / 1.001}, {"coordinates": 26}):
        with pytest.raises(BudgetError):
            Charge.from_dict({**charge.as_dict(), **wrong})
