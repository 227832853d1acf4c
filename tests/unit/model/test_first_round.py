"""What was released first, neither bent nor cut, is not given up where later rounds contradict it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.model import row_norms as lengths
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.model.model import hold_first
from smoothsynth.queries.bases import pooled, term_feature
from smoothsynth.queries.measurement import Measurement, NoisyMoments

ROWS = 10**6
SCHEMA = ss.Schema({"x": ss.Number(-1, 1), "y": ss.Number(-1, 1), "c": ss.Category(["a", "b", "z"])})


def spike(columns, line, place):
    """Put nearly all of a column on one cell."""
    masses = columns.masses.copy()
    masses[line] = 0.0
    masses[line, np.argmin(np.abs(columns.places[line] - place))] = 1.0
    return replace(columns, masses=masses)


def released(*moments):
    """Return T_1 and T_2 of single columns as first released, with noise of about 1e-4."""
    features = tuple(term_feature((line, degree)) for line, degree, _ in moments)
    measurement = Measurement("first", features, "discrete gaussian", multiplier=30.0)
    values = np.array([value for *_, value in moments]) * ROWS * np.array(measurement.weights, dtype=float)
    noisy = NoisyMoments(measurement, ROWS, tuple(map(int, np.rint(values))))
    assert noisy.deviations.max() < 3e-4
    return noisy


def test_a_column_on_the_wrong_place_is_put_on_the_right_one():
    columns = spike(flat_marginals(SCHEMA), 0, 0.5)
    held = hold_first(columns, [released((0, 1, -0.25), (0, 2, 2 * 0.0625 - 1))])
    assert held.means()[0] == pytest.approx(-0.25, abs=2e-3)
    assert held.deviations()[0] < 0.05
    np.testing.assert_array_equal(held.masses[1:], columns.masses[1:])


def test_a_share_that_was_left_flat_does_not_move_a_spike_on_the_bound():
    columns = spike(flat_marginals(SCHEMA), 0, -1.0).mixed(0.05)
    assert columns.means()[0] > -0.96
    held = hold_first(columns, [released((0, 1, -1.0), (0, 2, 1.0))])
    assert held.means()[0] < -0.999


def test_what_noise_explains_stays():
    columns = flat_marginals(SCHEMA)
    near = released((0, 1, float(columns.means()[0]) + 5e-4), (1, 1, float(columns.means()[1])))
    assert hold_first(columns, [near]) is columns


def test_levels_and_pooled_moments_are_no_columns():
    columns = flat_marginals(SCHEMA)
    shares = released((2, 1, 0.9), (3, 1, 0.05))
    assert hold_first(columns, [shares]) is columns
    measurement = Measurement("pooled", (pooled(2, (0, 1)),), "discrete laplace", epsilon=1.0)
    assert hold_first(columns, [NoisyMoments(measurement, ROWS, (-ROWS * 2**17,))]) is columns
    assert hold_first(columns, []) is columns


@pytest.mark.parametrize("counting", [1, 30])
def test_weights_of_nothing_are_flattened_too(counting):
    """The root of 0 is 0: where nearly all rows weigh nothing at all, a release never ended."""
    weights = np.zeros(10_000)
    weights[:counting] = 1.0 / counting
    flat = lengths._flattened(weights)
    assert flat.sum() == pytest.approx(1.0)
    assert 1.0 / np.sum(flat**2) >= 0.1 * len(flat)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_table_of_one_row_many_times_keeps_its_means(schema, delta):
    rows = pa.table({"age": np.full(ROWS, 30.0), "income": np.full(ROWS, 5.0), "visits": np.full(ROWS, 3)})
    made = ss.release(rows, schema=schema, epsilon=1.0, delta=delta, seed=1, synthetic_rows=1000).to_pandas()
    assert made["age"].mean() == pytest.approx(30.0, abs=1.2)
    assert made["income"].mean() < 10_000
    assert made["visits"].mean() == pytest.approx(3.0, abs=0.2)


def test_a_column_that_is_nearly_always_zero_keeps_its_mean():
    rng = np.random.default_rng(1)
    costs = np.where(rng.random(ROWS // 5) < 0.02, rng.uniform(0, 1000, ROWS // 5), 0.0)
    rows = pa.table({"age": rng.normal(50, 15, ROWS // 5).clip(0, 120), "costs": costs})
    schema = ss.Schema({"age": ss.Number(0, 120), "costs": ss.Number(0, 2000)})
    made = ss.release(rows, schema=schema, epsilon=1.0, delta=1e-6, seed=1, synthetic_rows=5000).to_pandas()
    assert made["costs"].mean() == pytest.approx(costs.mean(), abs=5.0)
    assert made["age"].mean() == pytest.approx(50, abs=0.5)


def test_higher_moments_of_the_first_release_are_left_alone():
    columns = flat_marginals(SCHEMA)
    assert hold_first(columns, [released((0, 3, 0.9), (1, 4, 0.9))]) is columns
