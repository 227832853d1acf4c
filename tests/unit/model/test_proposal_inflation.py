"""Rows to choose from that differ more in length: which stretch is needed, and what it leaves alone."""

from dataclasses import replace

import numpy as np
import pytest

import smoothsynth as ss
from smoothsynth.model.copula import score_length, score_units
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.model import length_transformation
from smoothsynth.model.row_norms import Stretch, believed, between, expected_ranks, needed_stretch
from smoothsynth.model.sampling import place
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments

COLUMNS, ROWS = 20, 4000


def normal_columns(*, mean, deviation=0.2):
    columns = flat_marginals(ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)}))
    shape = np.exp(-((columns.places - mean) ** 2) / (2 * deviation**2)) * columns.base
    return replace(columns, masses=shape / shape.sum(axis=1, keepdims=True))


def lengths_of(points, columns):
    """Return the cosines of lengths of these rows, as a release with very little noise would have them."""
    transformation = length_transformation(expected_ranks(columns, np.eye(COLUMNS)))
    cosines = tuple(term_feature((0, k)) for k in (1, 2, 3))
    measurement = Measurement("lengths", cosines, "cube", 100.0, transformation=transformation)
    values = measurement.evaluate(points).mean(axis=0) * ROWS * np.array(measurement.weights, dtype=float)
    return NoisyMoments(measurement, ROWS, tuple(map(int, np.rint(values))))


@pytest.mark.parametrize("mean", [0.0, 0.5])
def test_independent_rows_need_no_stretch(mean):
    columns, rng = normal_columns(mean=mean), np.random.default_rng(1)
    points = place(rng.standard_normal((ROWS, COLUMNS)), columns)
    assert needed_stretch(columns, np.eye(COLUMNS), lengths_of(points, columns)) == Stretch()


def test_rows_that_move_together_off_centre_are_stretched_along():
    columns, rng = normal_columns(mean=0.5), np.random.default_rng(1)
    together = rng.standard_normal((ROWS, 1)) + rng.standard_normal((ROWS, COLUMNS))
    found = needed_stretch(columns, np.eye(COLUMNS), lengths_of(place(together, columns), columns))
    assert found.along > 1.0


def test_rows_of_two_sizes_around_the_centre_are_scaled():
    columns, rng = normal_columns(mean=0.0), np.random.default_rng(1)
    sizes = np.exp(0.5 * rng.standard_normal((ROWS, 1)))
    points = place(sizes * rng.standard_normal((ROWS, COLUMNS)), columns)
    assert needed_stretch(columns, np.eye(COLUMNS), lengths_of(points, columns)).scale > 0.0


@pytest.mark.parametrize("stretch", [Stretch(along=4.0), Stretch(scale=0.8)])
def test_a_stretch_spreads_lengths_and_leaves_columns_alone(stretch):
    columns = normal_columns(mean=0.5 if stretch.scale == 0.0 else 0.0)

    def drawn(by):
        return place(by.drawn(ROWS, columns, np.eye(COLUMNS), generator=np.random.default_rng(3)), columns)

    plain, wide = drawn(Stretch()), drawn(stretch)
    assert np.std(np.mean(wide**2, axis=1)) > 1.5 * np.std(np.mean(plain**2, axis=1))
    assert np.sort(wide, axis=0) == pytest.approx(np.sort(plain, axis=0))


def test_levels_and_missing_values_keep_their_law():
    schema = ss.Schema({"a": ss.Number(0, 1, nullable=True), "b": ss.Number(0, 1), "c": ss.Category(["x", "y", "z"])})
    columns = flat_marginals(schema)
    indicators = list(columns.groups.indicators)
    masses = columns.base * np.exp(2.0 * columns.places)
    masses[indicators] = columns.base[indicators]
    columns = replace(columns, masses=masses / masses.sum(axis=1, keepdims=True))
    drawn = [
        stretch.drawn(ROWS, columns, np.eye(columns.count), generator=np.random.default_rng(3))
        for stretch in (Stretch(along=1.5), Stretch(along=4.0), Stretch(scale=0.8))
    ]
    assert len(indicators) == 4
    for other in drawn[1:]:
        assert other[:, indicators] == pytest.approx(drawn[0][:, indicators])
        assert np.abs(other - drawn[0]).max() > 0.1


def pairs_planned(rows, delta=1e-6):
    """Return how a plan for so many rows measures pairs."""
    plan = ss.plan(
        ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(COLUMNS)}),
        rows,
        epsilon=1.0,
        delta=delta,
        method=ss.methods.Adaptive(tables=0),
    )
    return plan.measurements[plan.families.index("clipped second moments")]


def test_columns_are_seen_in_their_deviations_but_in_roots_of_them_where_pairs_drown():
    """In roots  sum u^2 sum (s/u)^2,  which noise goes with, is least."""
    narrow, wide = normal_columns(mean=0.0, deviation=0.05), normal_columns(mean=0.0, deviation=0.3)
    masses = np.where(np.arange(COLUMNS)[:, None] % 2, narrow.masses, wide.masses)
    columns = replace(wide, masses=masses)
    deviations = columns.deviations()

    def noise(units):
        return np.sum(units**2) * np.sum((deviations / units) ** 2)

    few, many = (score_units(columns, pairs_planned(rows), rows) for rows in (200, 200_000))
    assert many == pytest.approx(deviations, rel=1e-3)
    assert noise(few) == pytest.approx(noise(np.sqrt(deviations)), rel=0.01)
    assert noise(few) < 0.8 * noise(many)
    for units in (few, many):
        assert np.mean((deviations / units) ** 2) == pytest.approx(1.0)


def test_rows_are_cut_shorter_where_variance_lies_outside_the_middle():
    narrow = normal_columns(mean=0.0, deviation=0.05).mixed(0.05)
    wide = normal_columns(mean=0.0)
    assert narrow.middles_of_variance().max() < 0.3 < 0.9 < wide.middles_of_variance().min()
    rough, fine = (pairs_planned(rows) for rows in (2_000, 200_000))
    assert score_length(narrow, rough, 2_000) < 0.75 * score_length(wide, rough, 2_000)
    assert score_length(narrow, fine, 200_000) == score_length(wide, fine, 200_000)


@pytest.mark.parametrize(("rows", "delta", "noise"), [(15_000, 1e-6, 0.02), (150_000, 0.0, 0.01)])
def test_with_many_rows_they_are_cut_as_little_as_the_noise_of_a_correlation_allows(rows, delta, noise):
    columns = normal_columns(mean=0.0)
    planned = pairs_planned(rows, delta)
    length = score_length(columns, planned, rows)
    assert 0.6 < length**2 / COLUMNS < 5.0
    assert length**2 * planned.deviations(rows).min() == pytest.approx(noise)


def test_rows_with_levels_are_cut_for_finer_pairs():
    """Their products are two-way tables."""
    schema = ss.Schema({**{f"c{i}": ss.Number(-1, 1) for i in range(6)}, "kind": ss.Category(["a", "b", "c"])})
    plan = ss.plan(schema, 15_000, epsilon=1.0, delta=1e-6)
    planned, columns = plan.measurements[plan.families.index("clipped second moments")], flat_marginals(schema)
    length = score_length(columns, planned, 15_000)
    assert 0.6 < length**2 / columns.count < 5.0
    assert length**2 * planned.deviations(15_000).min() == pytest.approx(0.01)


def test_a_column_on_one_value_has_no_middle_to_speak_of():
    columns = normal_columns(mean=0.0)
    spike = np.zeros_like(columns.masses)
    spike[:, 100] = 1.0
    assert replace(columns, masses=spike).middles_of_variance() == pytest.approx(np.zeros(COLUMNS), abs=1e-6)


def test_two_means_of_lengths_count_by_their_noise_as_far_as_they_agree():
    assert between(0.50, 0.001, 0.51, 0.01) == pytest.approx((0.50, 0.001), abs=0.001)
    assert between(0.50, 0.01, 0.51, 0.001) == pytest.approx((0.51, 0.001), abs=0.001)
    # Twenty times the noise apart: the cosines missed a tail.
    assert between(0.50, 0.001, 0.70, 0.01) == pytest.approx((0.70, 0.01), abs=0.001)


def test_lengths_are_believed_as_far_as_they_are_more_than_noise():
    columns, rng = normal_columns(mean=0.5), np.random.default_rng(1)
    points = place(rng.standard_normal((ROWS, COLUMNS)), columns)
    noisy = lengths_of(points, columns)
    np.testing.assert_allclose(believed(points, noisy), noisy.values, atol=1e-3)
    together = place(rng.standard_normal((ROWS, 1)) + rng.standard_normal((ROWS, COLUMNS)), columns)
    far = believed(together, noisy)
    assert np.abs(far - noisy.values).max() < 0.02
    noise = noisy.deviations * ROWS * np.array(noisy.measurement.weights, dtype=float)
    near = replace(noisy, integers=tuple(int(b + s) for b, s in zip(noisy.integers, noise, strict=True)))
    own = noisy.measurement.evaluate(points).mean(axis=0)
    assert np.all(np.abs(believed(points, near) - own) < 0.9 * np.abs(near.values - own))
