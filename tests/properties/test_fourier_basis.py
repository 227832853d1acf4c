"""Waves never leave their disc, engines sum them exactly, and nothing moves their products farther than the bound says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.methods.layout import Shape
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.transformations import wave_transformation
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.bases import WAVES, Feature, coordinate_of, term_feature, waves_of
from smoothsynth.queries.families import PairwiseFourier
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement
from smoothsynth.queries.sensitivity import fourier_l1, fourier_l2
from smoothsynth.queries.transformation import KNOTS, Transformation
from smoothsynth.schema import Category, Number, Schema

D = 4
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})
EVERY = np.arange(-S, S + 1, dtype=np.float64)[None, :]


def products(columns=D):
    pairs = [(a, b) for a in range(WAVES * columns) for b in range(a) if coordinate_of(a) != coordinate_of(b)]
    return tuple(term_feature((b, 1), (a, 1)) for a, b in pairs)


def alone(columns=D):
    return tuple(term_feature((wave, 1)) for wave in range(WAVES * columns))


def gaussian(features, transformation=None, **settings):
    transformation = Transformation.straight(D, PairwiseFourier()) if transformation is None else transformation
    return Measurement(
        "", tuple(features), "discrete gaussian", multiplier=1.0, transformation=transformation, **settings
    )


def farthest(measured, points, order=2):
    moved = measured.evaluate(points) * np.array(measured.weights)
    return max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)


def test_every_lattice_value_stays_in_the_disc_as_whole_numbers():
    low_high, out_in = waves_of(EVERY)
    assert np.array_equal(low_high, np.rint(low_high))
    assert np.array_equal(out_in, np.rint(out_in))
    # In whole numbers: the proof stands on this, without any rounding.
    squares = low_high.astype(np.int64) ** 2 + out_in.astype(np.int64) ** 2
    assert squares.max() == S * S
    assert squares.min() > 0.85 * S * S, "near the circle everywhere: what lies inside is given away"


def test_waves_follow_three_quarters_of_a_circle():
    angle = EVERY[0] / S * 0.75 * np.pi
    np.testing.assert_allclose(waves_of(EVERY) / S, [np.sin(angle), -np.cos(angle)], atol=0.08)
    assert np.abs(np.diff(waves_of(EVERY), axis=1)).max() <= 4, "no jumps: questions of them are smooth"


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), some=st.booleans())
@settings(max_examples=30, deadline=None)
def test_sums_are_those_of_the_view(seed, rows, some):
    rng = np.random.default_rng(seed)
    transformation = Transformation(np.sort(rng.integers(-S, S + 1, size=(D, KNOTS)), axis=1), PairwiseFourier())
    features = [f for f in (*alone(), *products()) if not some or rng.random() < 0.3] or [alone()[5]]
    values = rng.integers(-S, S + 1, size=(D, rows)) / S
    kernel = Kernel(UNIT, features, transformation)
    sums = kernel.start()
    sums.add_columns([values[UNIT.names.index(name)] for name in kernel.names], rows)
    seen = np.rint(transformation.of(values.T) * S).astype(object)
    expected = [
        sum(math.prod(x[c] for c, _ in f.terms[0]) * S ** (2 - len(f.terms[0])) for x in seen) for f in features
    ]
    assert sums.totals() == expected


@given(data=st.data())
def test_no_pair_of_rows_moves_more_than_the_bound(data):
    """Of some of the features, with any weights, bent in any way."""
    chosen = data.draw(st.lists(st.sampled_from((*alone(), *products())), min_size=1, max_size=32, unique=True))
    weights = tuple(data.draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    transformation = Transformation(rng.integers(-S, S + 1, size=(D, KNOTS)), PairwiseFourier())
    measured = gaussian(chosen, transformation, weights=weights)
    rows = rng.uniform(-1, 1, (150, D))
    assert farthest(measured, rows) <= fourier_l2(chosen, weights, {}) * (1 + 1e-9)
    assert farthest(measured, rows, order=1) <= fourier_l1(chosen, weights, {}) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("features", "moves", "expected"),
    [
        (products(), [1, 1, 0, 0], D),
        (products(3), [1, 1, 0], 3 - 1 / 6),
        ((*alone(3), *products(3)), [1, 1, 0], 4),
        ((*alone(), *products()), [1, 1, 0, 0], 5 - 1 / 10),
        (alone(), [1, 1, 1, 1], 2 * math.sqrt(D)),
    ],
    ids=["products", "products of an odd number", "both", "both of an even number", "waves alone"],
)
def test_the_bound_is_attained_or_nearly(features, moves, expected):
    """Half of the coordinates go to the other side of the circle, the others stay."""
    rows = np.array([[2 / 3 if moved else 0.0 for moved in moves], [-2 / 3 if moved else 0.0 for moved in moves]])
    transformation = Transformation.straight(len(moves), PairwiseFourier())
    measured = gaussian(features, transformation)
    reached = farthest(measured, rows) / FULL_WEIGHT
    assert reached == pytest.approx(expected, rel=0.01)
    assert reached <= measured.sensitivity / FULL_WEIGHT <= 1.07 * reached


def test_a_search_over_rows_comes_near_the_bound_and_not_beyond():
    measured = gaussian((*alone(), *products()))
    places = np.linspace(-1, 1, 7)
    points = np.stack(np.meshgrid(*[places] * D), axis=-1).reshape(-1, D)
    reached = farthest(measured, points[::3]) / measured.sensitivity
    assert 0.9 < reached <= 1.0


def test_the_l1_bound_is_not_far_off():
    features = (*alone(), *products())
    measured = Measurement(
        "", features, "discrete laplace", 1.0, transformation=Transformation.straight(D, PairwiseFourier())
    )
    assert measured.sensitivity == pytest.approx(math.sqrt(2) * D * (D + 1) * FULL_WEIGHT, rel=1e-3)
    points = np.random.default_rng(0).uniform(-1, 1, (1500, D))
    assert 0.6 < farthest(measured, points, order=1) / measured.sensitivity <= 1.0


MIXED = Schema({"x": Number(-1, 1), "k": Category(["a", "b", "c"]), "m": Category(["p", "q"], nullable=True)})


def mixed_rows():
    """Every row of a coarse table: seven places of the number, three levels, two levels or none."""
    levels = [np.eye(3), np.concatenate([np.eye(2), np.zeros((1, 2))])]
    return np.array([[x, *k, *m] for x in np.linspace(-1, 1, 13) for k in levels[0] for m in levels[1]])


def test_levels_of_a_category_count_as_one_column():
    shape = Shape.of(MIXED)
    transformation = wave_transformation(flat_marginals(MIXED))
    measured = gaussian(shape.waves(), transformation, **shape.facts())
    assert len(shape.waves()) == (2 + 3 + 2) + (2 * 3 + 2 * 2 + 3 * 2)
    # Three columns, whatever the number of levels.
    assert measured.sensitivity == pytest.approx(4 * FULL_WEIGHT, rel=1e-3)
    assert 0.8 < farthest(measured, mixed_rows()) / measured.sensitivity <= 1.0
    # Nothing is known of levels that the measurement does not name: then each counts for itself.
    assert gaussian(shape.waves(), transformation).sensitivity == pytest.approx(7 * FULL_WEIGHT, rel=1e-3)


def test_the_first_wave_of_a_level_is_the_level():
    transformation = wave_transformation(flat_marginals(MIXED))
    seen = transformation.of(mixed_rows())
    np.testing.assert_allclose(seen[:, [2, 4, 6, 8, 10]], mixed_rows()[:, 1:], atol=3e-5)
    assert set(np.unique(seen[:, 2])) == {0.0, seen[:, 2].max()}
    assert seen.max() <= 1.0


def test_levels_that_are_not_0_where_they_should_be_are_not_trusted():
    """A transformation that moves 0, and the second wave of a level, which is -1 at 0."""
    shape = Shape.of(MIXED)
    lines = np.tile(np.linspace(-1, 1, KNOTS), (6, 1)) * 0.5 + 0.25
    for features, transformation, least in (
        (shape.waves(), Transformation.from_values(lines, PairwiseFourier()), 6.0),
        # Five pairs with one column in common; if levels of a category were one column, there would be two.
        (
            [term_feature((0, 1), (2 * c + 1, 1)) for c in range(1, 6)],
            wave_transformation(flat_marginals(MIXED)),
            2 * 5**0.5,
        ),
    ):
        measured = gaussian(features, transformation, **shape.facts())
        assert measured.sensitivity >= least * FULL_WEIGHT
        assert farthest(measured, mixed_rows()) <= measured.sensitivity


def test_several_rows_of_a_person_move_as_many_times_as_much():
    one, four = (gaussian(products(), rows_per_person=rows) for rows in (1, 4))
    assert four.sensitivity == pytest.approx(4 * one.sensitivity, rel=1e-3)


@pytest.mark.parametrize(
    "features",
    [
        [term_feature((0, 1), (1, 1))],
        [term_feature((0, 2))],
        [term_feature((0, 1), (2, 2))],
        [term_feature((0, 1), (2, 1), (4, 1))],
        [Feature((((0, 1),), ((2, 1),)))],
        [term_feature((0, 1), (2, 1))] * 2,
    ],
    ids=["of one coordinate", "a degree", "a degree in a product", "three", "a pool", "twice"],
)
def test_what_is_no_product_of_two_waves_is_refused(features):
    with pytest.raises(PlanError, match="waves of two coordinates"):
        gaussian(features)


@pytest.mark.parametrize("other", [{"radius": 1.0}, {"pooled": True}, {"counts": 4}, {"waves": "yes"}])
def test_a_view_of_waves_is_nothing_else(other):
    with pytest.raises(PlanError, match="waves"):
        Transformation.from_dict(Transformation.straight(1, PairwiseFourier()).as_dict() | other)


def test_a_view_of_waves_is_another_view_and_survives_a_file():
    plain, waved = Transformation.straight(2), Transformation.straight(2, PairwiseFourier())
    assert plain != waved
    assert Transformation.from_dict(waved.as_dict()) == waved
    assert "waves" not in plain.as_dict(), "files of transformations without waves are what they were"
    assert not waved.family.own_coordinates
    assert waved.sees(2, [0, 3])
    assert not waved.sees(2, [4])
    assert not waved.sees(3, [0])
    assert not plain.sees(2, [2])
