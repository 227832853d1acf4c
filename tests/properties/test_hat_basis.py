"""Soft counts: a row adds 1 to those of a column, and nothing moves them farther than the bounds say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.bases import MOST_CELLS, Feature, count_values, split, term_feature
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement
from smoothsynth.queries.sensitivity import hat_l1, hat_l2
from smoothsynth.queries.transformation import KNOTS, Transformation
from smoothsynth.schema import Number, Schema

D = 3
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})


def all_counts(counts, columns=range(D)):
    return tuple(term_feature((c, j)) for c in columns for j in range(1, counts + 1))


@given(counts=st.integers(2, MOST_CELLS))
@settings(max_examples=30, deadline=None)
def test_every_lattice_value_adds_one_row_to_two_counts_next_to_each_other(counts):
    first, beyond = split(np.arange(-S, S + 1), counts)
    assert first.min() == 0
    assert first.max() == counts - 2
    assert beyond.min() == 0
    assert beyond.max() == S
    # From left to right, a value never goes back.
    assert np.all(np.diff(first * S + beyond) >= 0)


@pytest.mark.parametrize("counts", [2, 3, 10, 64])
def test_counts_are_hats_with_flat_ends(counts):
    x = np.linspace(-1, 1, 4001)
    middles = (2 * np.arange(counts) + 1) / counts - 1
    hats = np.maximum(0, 1 - np.abs(x - middles[:, None]) * counts / 2)
    hats[0, x < middles[0]] = hats[-1, x > middles[-1]] = 1
    np.testing.assert_allclose(count_values(x, counts), hats, atol=counts * 2 / S)
    np.testing.assert_array_equal(count_values(x, counts).sum(axis=0), 1.0)


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), counts=st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_the_sums_of_a_column_add_up_to_the_rows_and_are_those_of_the_view(seed, rows, counts):
    rng = np.random.default_rng(seed)
    transformation = Transformation(np.sort(rng.integers(-S, S + 1, size=(D, KNOTS)), axis=1), RankHistogram(counts))
    values = rng.integers(-S, S + 1, size=(D, rows)) / S
    kernel = Kernel(UNIT, all_counts(counts), transformation)
    sums = kernel.start()
    order = [UNIT.names.index(name) for name in kernel.names]
    sums.add_columns([values[c] for c in order], rows)
    totals = np.array(sums.totals(), dtype=object).reshape(D, counts)
    assert (totals.sum(axis=1) == rows * S * S).all()
    measured = Measurement("", all_counts(counts), "discrete laplace", 1.0, transformation=transformation)
    expected = np.rint(measured.evaluate(values.T) * S).astype(np.int64).sum(axis=0)
    assert [int(t) for t in totals.ravel()] == [int(e) * S for e in expected]


@given(data=st.data(), counts=st.integers(2, 12))
def test_no_pair_of_rows_moves_more_than_the_bound(data, counts):
    """Of some of the counts, with any weights, bent in any way."""
    chosen = data.draw(st.lists(st.sampled_from(all_counts(counts)), min_size=1, max_size=12, unique=True))
    weights = tuple(data.draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    transformation = Transformation(rng.integers(-S, S + 1, size=(D, KNOTS)), RankHistogram(counts))
    measured = Measurement("", tuple(chosen), "discrete laplace", 1.0, weights=weights, transformation=transformation)
    moved = measured.evaluate(rng.uniform(-1, 1, (200, D))) * np.array(weights)
    for order, bound in ((1, hat_l1), (2, hat_l2)):
        farthest = max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)
        assert farthest <= bound(chosen, weights, {}) * (1 + 1e-9)
    assert np.ptp(moved, axis=0).max() <= max(weights)


@pytest.mark.parametrize("counts", [2, 5, 32])
def test_the_bounds_are_attained_and_do_not_grow_with_the_number_of_counts(counts):
    features, transformation = all_counts(counts), Transformation.straight(D, RankHistogram(counts))
    slack = {"discrete laplace": D * counts, "discrete gaussian": math.sqrt(D * counts), "cube": 0}
    expected = {"discrete laplace": 2 * D, "discrete gaussian": math.sqrt(2 * D), "cube": 1}
    norms = {"discrete laplace": 1, "discrete gaussian": 2, "cube": np.inf}
    for mechanism, unit in expected.items():
        price = {"multiplier": 3.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
        measured = Measurement("", features, mechanism, transformation=transformation, **price)
        ends = measured.evaluate(np.array([[-1.0] * D, [1.0] * D])) * FULL_WEIGHT
        farthest = float(np.linalg.norm(ends[0] - ends[1], ord=norms[mechanism]))
        assert farthest == pytest.approx(unit * FULL_WEIGHT)
        assert farthest <= measured.sensitivity <= farthest + slack[mechanism] + 2


def test_several_rows_of_a_person_move_as_many_times_as_much():
    transformation = Transformation.straight(D, RankHistogram(8))
    one, four = (
        Measurement("", all_counts(8), "discrete laplace", 1.0, rows_per_person=rows, transformation=transformation)
        for rows in (1, 4)
    )
    assert one.sensitivity == pytest.approx(2 * D * FULL_WEIGHT, abs=8 * D + 2)
    assert four.sensitivity == pytest.approx(4 * 2 * D * FULL_WEIGHT, abs=8 * D + 2)


@pytest.mark.parametrize(
    "features",
    [
        [term_feature((0, 9))],
        [term_feature((0, 1), (1, 1))],
        [Feature((((0, 1),), ((1, 1),)))],
        [term_feature((0, 2)), term_feature((0, 2))],
    ],
    ids=["beyond the last", "a product", "a pool", "twice"],
)
def test_what_is_no_soft_count_is_refused(features):
    with pytest.raises(PlanError, match="8 soft counts"):
        Measurement(
            "", tuple(features), "discrete laplace", 1.0, transformation=Transformation.straight(2, RankHistogram(8))
        )


@pytest.mark.parametrize("counts", [0, 1, -3, MOST_CELLS + 1, True, 8.0, "8"])
def test_a_view_has_a_whole_number_of_counts(counts):
    with pytest.raises(PlanError, match="soft counts"):
        Transformation.straight(2, RankHistogram(counts))


@pytest.mark.parametrize("other", [{"radius": 1.0}, {"pooled": True}, {"order": 2, "columns": []}])
def test_a_file_with_a_view_of_two_families_is_refused(other):
    with pytest.raises(PlanError, match="at most one"):
        Transformation.from_dict(Transformation.straight(1, RankHistogram(4)).as_dict() | other)


def test_a_view_of_counts_is_another_view_and_survives_a_file():
    plain, counted = Transformation.straight(2), Transformation.straight(2, RankHistogram(4))
    assert plain != counted
    assert Transformation.straight(2, RankHistogram(5)) != counted
    assert Transformation.from_dict(counted.as_dict()) == counted
    assert "counts" not in plain.as_dict(), "files of transformations without counts are what they were"
    assert Transformation.from_dict(plain.as_dict()) == plain
