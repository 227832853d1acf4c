"""Rows that exchange values: columns, correlations and holes stay; shapes of pairs come."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.methods.layout import Shape
from smoothsynth.model.marginals import Groups, flat_marginals
from smoothsynth.model.swapping import Shapes, believed_shapes, columns_of, exchange
from smoothsynth.model.transformations import wave_transformation
from smoothsynth.queries.bases import term_feature
from smoothsynth.queries.families import PairwiseFourier
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.queries.transformation import Transformation, knot_places

ROWS = 20_000


def schema_of(columns):
    return ss.Schema({f"c{i}": ss.Number(-1, 1) for i in range(columns)})


def parabola(rows, seed, columns=3):
    """The second column is high where the first is far out; they do not correlate. The others are alone."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (rows, columns))
    points[:, 1] = np.clip(2 * points[:, 0] ** 2 - 1 + 0.2 * rng.normal(size=rows), -1, 1)
    return points


def shuffled(points, seed):
    """The same columns, independent of each other."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(column) for column in points.T], axis=1)


def waves_of_table(schema, points, *, noise=0.0, seed=0, multiplier=5.0):
    """Return the waves of a table and their products, seen through flat columns, with so much noise."""
    features = Shape.of(schema).waves()
    measured = Measurement(
        "",
        features,
        "discrete gaussian",
        multiplier=multiplier,
        transformation=wave_transformation(flat_marginals(schema)),
    )
    values = measured.evaluate(points).mean(axis=0)
    values += noise * np.random.default_rng(seed).normal(size=len(values))
    weights = np.array(measured.weights, dtype=float)
    return NoisyMoments(measured, len(points), tuple(map(int, np.rint(values * len(points) * weights))))


def exchanged(rows, noisy, groups=None, seed=1):
    return exchange(rows, [noisy], groups or Groups(), generator=np.random.default_rng(seed))


def bow(points, i=0, j=1):
    """Return how the square of one column goes with another."""
    return float(np.cov(points[:, i] ** 2, points[:, j])[0, 1])


@pytest.mark.parametrize("rows", [ROWS, 60_000])
def test_a_curve_comes_and_all_columns_stay_value_by_value(rows):
    real = parabola(rows, 0)
    start = shuffled(real, 1)
    made = exchanged(start, waves_of_table(schema_of(3), real))
    assert np.array_equal(np.sort(made, axis=0), np.sort(start, axis=0))
    assert abs(bow(start)) < 0.01
    assert bow(made) == pytest.approx(bow(real), rel=0.15)
    assert abs(bow(made, 2, 1)) < 0.01
    # Columns that were not correlated, as seen in the table that is exchanged in, are not afterwards.
    np.testing.assert_allclose(np.corrcoef(made.T), np.corrcoef(start.T), atol=0.01)


def test_correlations_that_rows_had_are_kept():
    rng = np.random.default_rng(3)
    real = parabola(ROWS, 0)
    start = shuffled(real, 1)
    start[:, 2] = np.clip(0.8 * start[:, 0] + 0.3 * rng.normal(size=ROWS), -1, 1)
    real[:, 2] = np.clip(0.8 * real[:, 0] + 0.3 * rng.normal(size=ROWS), -1, 1)
    made = exchanged(start, waves_of_table(schema_of(3), real))
    assert np.corrcoef(start.T)[0, 2] > 0.7
    np.testing.assert_allclose(np.corrcoef(made.T), np.corrcoef(start.T), atol=0.02)
    assert bow(made) == pytest.approx(bow(real), rel=0.2)


def only_pairs(noisy, *pairs):
    """Return what was released of the products of these pairs, without the waves themselves."""
    places = [
        number
        for number, feature in enumerate(noisy.features)
        if tuple(wave // 2 for wave, _ in feature.terms[0]) in pairs
    ]
    measurement = replace(noisy.measurement, features=tuple(noisy.features[p] for p in places), weights=())
    return NoisyMoments(measurement, noisy.rows, tuple(noisy.integers[p] for p in places))


def test_a_single_pair_comes_and_correlations_with_columns_that_were_not_measured_stay():
    """Column 2 goes with column 0 and was not looked at: it keeps its rows, and 0 exchanges with regard to it."""
    rng = np.random.default_rng(3)
    real = parabola(ROWS, 0)
    start = shuffled(real, 1)
    start[:, 2] = np.clip(0.8 * start[:, 0] + 0.3 * rng.normal(size=ROWS), -1, 1)
    made = exchanged(start, only_pairs(waves_of_table(schema_of(3), real), (0, 1)))
    assert bow(made) == pytest.approx(bow(real), rel=0.2)
    np.testing.assert_array_equal(made[:, 2], start[:, 2])
    np.testing.assert_allclose(np.corrcoef(made.T), np.corrcoef(start.T), atol=0.02)


def test_pairs_of_several_releases_are_put_together():
    real = np.concatenate([parabola(ROWS, 0)[:, :2], parabola(ROWS, 1)[:, :2]], axis=1)
    start, everything = shuffled(real, 1), waves_of_table(schema_of(4), real)
    parts = [only_pairs(everything, (0, 1)), only_pairs(everything, (2, 3))]
    made = exchange(start, parts, Groups(), generator=np.random.default_rng(1))
    for one, other in ((0, 1), (2, 3)):
        assert bow(made, one, other) == pytest.approx(bow(real, one, other), rel=0.2)


def test_where_the_means_of_waves_were_not_released_those_of_the_rows_stand_for_them():
    """Rows whose columns lie elsewhere, but are independent as those of the table are, lack nothing."""
    rng = np.random.default_rng(5)
    real, rows = rng.uniform(-1, 1, (ROWS, 2)), rng.uniform(-1, 1, (ROWS, 2))
    real[:, 0] = real[:, 0] ** 2
    noisy = only_pairs(waves_of_table(schema_of(2), real), (0, 1))
    shapes = Shapes.of([noisy], Groups())
    assert np.isnan(shapes.means).all()
    own = shapes.functions(real, Groups())
    np.testing.assert_allclose(shapes.gained(own), 0.0, atol=0.02)
    transformation = noisy.measurement.transformation
    expected = transformation.of(real).T @ transformation.of(real) / ROWS - np.outer(
        transformation.of(rows).mean(axis=0), transformation.of(rows).mean(axis=0)
    )
    gained = shapes.gained(shapes.functions(rows, Groups()))
    waves = shapes.places
    found = gained[np.ix_(waves[:2], waves[2:])]
    wanted = (expected - np.cov(transformation.of(rows).T, bias=True))[:2, 2:]
    # Nearly all of so clear a difference is believed.
    np.testing.assert_allclose(found, wanted, atol=0.03)


def test_waves_seen_in_two_ways_are_not_mixed():
    noisy = waves_of_table(schema_of(2), parabola(ROWS, 0)[:, :2])
    half = Transformation.from_values(np.tile(0.5 * knot_places(), (2, 1)), PairwiseFourier())
    bent = replace(noisy.measurement, transformation=half)
    with pytest.raises(ValueError, match="one view"):
        Shapes.of([noisy, NoisyMoments(bent, noisy.rows, noisy.integers)], Groups())


def test_a_correlation_that_is_lacking_comes_and_others_stay():
    start = shuffled(parabola(ROWS, 0), 1)
    lacking = np.zeros((3, 3))
    lacking[0, 2] = lacking[2, 0] = -0.3
    noisy = waves_of_table(schema_of(3), start, noise=0.01, multiplier=200.0)
    made = exchange(start, [noisy], Groups(), lacking, generator=np.random.default_rng(1))
    assert np.array_equal(np.sort(made, axis=0), np.sort(start, axis=0))
    np.testing.assert_allclose(np.corrcoef(made.T) - np.corrcoef(start.T), lacking, atol=0.02)


def test_what_is_lacking_is_asked_of_numbers_and_of_levels_with_numbers():
    """Columns: a number, a category of two levels, another, a number. Of two categories the released table counts."""
    rng = np.random.default_rng(3)
    schema = ss.Schema(
        {
            "one": ss.Number(-1, 1),
            "sex": ss.Category(["f", "m"]),
            "ward": ss.Category(["a", "b"]),
            "other": ss.Number(-1, 1),
        }
    )
    sex, ward = (np.eye(2)[(rng.random(ROWS) < share).astype(int)] for share in (0.2, 0.5))
    rows = np.column_stack([rng.uniform(-1, 1, ROWS), sex, ward, rng.uniform(-1, 1, ROWS)])
    groups = Groups(levels=((1, 2), (3, 4)), whole=(True, True))
    shapes = Shapes.of([waves_of_table(schema, rows, noise=0.01)], groups)
    functions = shapes.functions(rows, groups)
    plain, asked = shapes.gained(functions), shapes.gained(functions, np.full((6, 6), 0.1))
    # Functions: value and two waves, two levels, two levels, value and two waves.
    change = asked - plain
    value, sexes, wards, last = 0, [3, 4], [5, 6], 7
    assert change[value, last] == change[last, value] == pytest.approx(0.1)
    np.testing.assert_allclose(change[value, sexes], 0.1 * rows[:, 1].std(), rtol=1e-3)
    np.testing.assert_allclose(change[wards, last], 0.1 * 0.5, rtol=0.01)
    assert np.all(change[np.ix_(sexes, wards)] == 0.0)
    assert np.all(change[np.ix_([1, 2], [8, 9])] == 0.0)


def test_correlations_that_no_copula_has_are_those_of_the_release():
    """Three columns crowd on one value each, in the same rows: normal scores would have to correlate by 1, -1 and not."""
    rng = np.random.default_rng(2)
    on, beside = rng.random(ROWS) < 0.65, rng.uniform(-1, 1, ROWS)
    near = np.clip(beside + 0.05 * rng.normal(size=ROWS), -1, 1)
    real = np.column_stack([np.where(on, 0.9, -0.9), np.where(on, -0.9, beside), np.where(on, 0.9, near)])
    table = pa.table({f"c{i}": column for i, column in enumerate(real.T)})
    rows = ss.release(table, schema=schema_of(3), epsilon=1.0, delta=1e-6, seed=0).unit_rows()
    np.testing.assert_allclose(np.corrcoef(rows.T), np.corrcoef(real.T), atol=0.06)


def test_what_is_noise_moves_next_to_nothing():
    """Of differences that are all noise, a fifth or so of a pair's is believed; rows of the true shapes stay as they are."""
    real = parabola(ROWS, 0)
    noisy = waves_of_table(schema_of(3), real, noise=0.02, multiplier=100.0)
    assert noisy.deviations[-1] == pytest.approx(0.02, rel=0.1)
    made = exchanged(real, noisy)
    assert bow(made) == pytest.approx(bow(real), abs=0.02)
    assert np.mean(made != real) < 0.5


@pytest.mark.parametrize(("size", "kept", "of_levels"), [(0.5, 0, 0), (1, 0, 0), (2, 0.75, 0.5), (10, 0.99, 0.98)])
def test_of_a_pair_as_much_is_believed_as_is_more_than_noise(size, kept, of_levels):
    """Two numbers, and two levels of a category, which rows have been given before."""
    noise = 0.01
    columns = tuple(columns_of({0, 1, 2, 3}, Groups(levels=((2, 3),), whole=(True,))))
    differences, variances = np.full((6, 6), size * noise), np.full((6, 6), noise**2)
    expected = of_levels * differences
    expected[:4, :4] = kept * differences[:4, :4]
    for own in (slice(0, 2), slice(2, 4), slice(4, 6)):
        expected[own, own] = 0.0
    np.testing.assert_allclose(believed_shapes(differences, variances, columns), expected)


def test_nothing_is_believed_of_a_pair_that_was_not_measured():
    real = parabola(ROWS, 0)
    full = waves_of_table(schema_of(3), real)
    kept = [i for i, f in enumerate(full.features) if {c // 2 for c, _ in f.terms[0]} != {0, 1}]
    some = Measurement(
        "",
        tuple(full.features[i] for i in kept),
        "discrete gaussian",
        multiplier=5.0,
        transformation=full.measurement.transformation,
    )
    made = exchanged(shuffled(real, 1), NoisyMoments(some, ROWS, tuple(full.integers[i] for i in kept)))
    assert abs(bow(made)) < 0.01


def test_a_value_that_a_column_crowds_on_is_not_taken_for_a_shape():
    """Three fifths of each column are one value, which the model takes for a narrow peak; else the rows are right.

    Ranks inside the peak depend on the other columns in the rows, as a copula has them, and in no private row.
    """
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(ROWS, 3)) @ np.array([[1.0, 0.8, 0.6], [0.0, 0.6, 0.5], [0.0, 0.0, 0.6]])
    ranks = (np.argsort(np.argsort(scores, axis=0), axis=0) + 0.5) / ROWS
    beyond = -0.5 + 1.4 * (ranks - 0.6) / 0.4
    real, start = np.where(ranks < 0.6, -0.5, beyond), np.where(ranks < 0.6, -0.51 + 0.02 * ranks / 0.6, beyond)
    schema = schema_of(3)
    columns = flat_marginals(schema)
    peak = (np.abs(columns.places + 0.5) < 0.012) * columns.base
    rest = ((columns.places > -0.5) & (columns.places < 0.9)) * columns.base
    masses = 0.6 * peak / peak.sum(axis=1)[:, None] + 0.4 * rest / rest.sum(axis=1)[:, None]
    transformation = wave_transformation(replace(columns, masses=masses))
    measured = Measurement(
        "", Shape.of(schema).waves(), "discrete gaussian", multiplier=50.0, transformation=transformation
    )
    values = measured.evaluate(real).mean(axis=0) * ROWS * np.array(measured.weights, dtype=float)
    made = exchanged(start, NoisyMoments(measured, ROWS, tuple(map(int, np.rint(values)))))

    def kernel(points):
        return float(np.mean(np.exp(-np.sum((points - 0.2) ** 2, axis=1) / (2 * 0.3**2))))

    assert kernel(start) == pytest.approx(kernel(real), rel=0.01)
    assert kernel(made) == pytest.approx(kernel(real), rel=0.02)


def test_a_column_that_is_narrow_but_no_peak_keeps_its_ranks():
    columns = flat_marginals(schema_of(2))
    masses = np.exp(-((columns.places / 0.1) ** 2) / 2) * columns.base
    line = wave_transformation(replace(columns, masses=masses / masses.sum(axis=1)[:, None])).knots[0]
    inside = np.abs(np.linspace(-1, 1, len(line))) < 0.2
    assert (np.diff(line[inside]) > 0).all()


def test_whole_numbers_are_known_values_and_no_peaks():
    columns = flat_marginals(ss.Schema({"a": ss.Integer(0, 100), "b": ss.Integer(0, 100)}))
    used = (np.abs(columns.places - 0.01) < 0.0101) & (columns.base > 0)
    masses = np.where(used, 0.5, 0.0)
    assert (masses.sum(axis=1) == 1.0).all(), "half of the rows have 50, half 51"
    seen = wave_transformation(replace(columns, masses=masses)).of(np.array([[0.0, 0.0], [0.02, 0.02]]))
    assert (seen[1] - seen[0])[[0, 2]] == pytest.approx(1.68, abs=0.05), "one is low and the other is high"


def test_holes_stay_where_they_are_and_levels_are_kept_whole():
    schema = ss.Schema({"a": ss.Number(-1, 1), "b": ss.Number(-1, 1, nullable=True), "k": ss.Category(["x", "y"])})
    columns = flat_marginals(schema)
    rng = np.random.default_rng(7)
    curve = parabola(ROWS, 0, columns=2)
    points = np.zeros((ROWS, schema.dimensions))
    roles = list(schema.roles)
    a, b = (i for i, role in enumerate(roles) if role == "value")
    ((_, hole),) = columns.groups.missing
    levels = list(columns.groups.levels[0])
    points[:, a], points[:, b] = curve.T
    holes = rng.random(ROWS) < 0.3
    points[holes, b], points[holes, hole] = 0.0, 1.0
    high = curve[:, 0] > 0
    points[high, levels[0]], points[~high, levels[1]] = 1.0, 1.0
    start = points.copy()
    there = np.flatnonzero(~holes)
    start[there, b] = start[rng.permutation(there), b]
    measured = Measurement(
        "", Shape.of(schema).waves(), "discrete gaussian", multiplier=5.0, transformation=wave_transformation(columns)
    )
    values = measured.evaluate(points).mean(axis=0) * ROWS * np.array(measured.weights, dtype=float)
    made = exchanged(start, NoisyMoments(measured, ROWS, tuple(map(int, np.rint(values)))), columns.groups)
    assert np.array_equal(made[:, hole], start[:, hole])
    assert np.array_equal(made[:, levels].sum(axis=1), np.ones(ROWS)), "a row has one level"
    assert np.array_equal(made[:, levels].sum(axis=0), start[:, levels].sum(axis=0)), "shares stay"
    assert np.array_equal(np.sort(made[there, b]), np.sort(start[there, b]))
    assert (made[holes, b] == 0.0).all()
    # How a value goes with levels is held, too.
    assert np.corrcoef(made[:, a], made[:, levels[0]])[0, 1] == pytest.approx(
        np.corrcoef(start[:, a], start[:, levels[0]])[0, 1], abs=0.02
    )
    assert bow(made[there], a, b) > 0.6 * bow(points[there], a, b)


def test_a_number_is_spread_as_its_level_says():
    """In one level the number is far out, in the other it is not; its mean is the same in both."""
    schema = ss.Schema({"k": ss.Category(["x", "y"]), "a": ss.Number(-1, 1), "b": ss.Number(-1, 1)})
    rng = np.random.default_rng(9)
    narrow = rng.random(ROWS) < 0.5
    real = np.zeros((ROWS, 4))
    real[narrow, 0], real[~narrow, 1] = 1.0, 1.0
    real[:, 2] = rng.uniform(-1, 1, ROWS) * np.where(narrow, 0.3, 1.0)
    real[:, 3] = rng.uniform(-1, 1, ROWS)
    start = real.copy()
    start[:, 2] = rng.permutation(start[:, 2])
    columns = flat_marginals(schema)
    measured = Measurement(
        "",
        Shape.of(schema).waves(),
        "discrete gaussian",
        multiplier=5.0,
        transformation=wave_transformation(columns),
        **Shape.of(schema).facts(),
    )
    values = measured.evaluate(real).mean(axis=0) * ROWS * np.array(measured.weights, dtype=float)
    made = exchanged(start, NoisyMoments(measured, ROWS, tuple(map(int, np.rint(values)))), columns.groups)

    def spreads(points):
        return np.array([points[points[:, level] == 1.0, 2].std() for level in (0, 1)])

    assert np.ptp(spreads(start)) < 0.02
    np.testing.assert_allclose(spreads(made), spreads(real), atol=0.08)
    np.testing.assert_array_equal(np.sort(made[:, 2]), np.sort(start[:, 2]))


def test_a_two_way_table_of_levels_comes():
    schema = ss.Schema({"k": ss.Category(["x", "y", "z"]), "m": ss.Category(["p", "q"]), "a": ss.Number(-1, 1)})
    rng = np.random.default_rng(11)
    k = rng.integers(0, 3, ROWS)
    m = np.where(rng.random(ROWS) < np.array([0.1, 0.5, 0.9])[k], 0, 1)
    real = np.concatenate([np.eye(3)[k], np.eye(2)[m], rng.uniform(-1, 1, (ROWS, 1))], axis=1)
    start = real.copy()
    start[:, 3:5] = np.eye(2)[rng.permutation(m)]
    columns = flat_marginals(schema)
    measured = Measurement(
        "", Shape.of(schema).waves(), "discrete gaussian", multiplier=5.0, transformation=wave_transformation(columns)
    )
    values = measured.evaluate(real).mean(axis=0) * ROWS * np.array(measured.weights, dtype=float)
    made = exchanged(start, NoisyMoments(measured, ROWS, tuple(map(int, np.rint(values)))), columns.groups)
    np.testing.assert_allclose(made[:, :3].T @ made[:, 3:5] / ROWS, real[:, :3].T @ real[:, 3:5] / ROWS, atol=0.01)
    assert np.array_equal(made[:, 3:5].sum(axis=1), np.ones(ROWS))


def test_a_release_has_the_shapes_of_pairs():
    """Through all rounds, with true noise: without the last one nothing is known of the curve (a copula has 0 here)."""
    real = parabola(ROWS, 2, columns=4)
    schema = schema_of(4)
    table = pa.table({f"c{i}": real[:, i] for i in range(4)})
    made = ss.release(table, schema=schema, epsilon=1.0, delta=1e-6, seed=3)
    rows = made.unit_rows()
    assert "shapes of pairs" in made.receipt.charges[-1].purpose
    assert bow(rows) == pytest.approx(bow(real), rel=0.25)
    assert abs(bow(rows, 2, 3)) < 0.02
    assert made.to_arrow().equals(made.sample(ROWS, seed=3)), "rows follow from the released numbers and the seed"


def test_what_no_plan_measures_is_passed_over():
    """The second wave of a level, and a mark that something is missing: a folder from elsewhere may hold such moments."""
    schema = ss.Schema({"a": ss.Number(-1, 1, nullable=True), "k": ss.Category(["x", "y"])})
    columns = flat_marginals(schema)
    features = (term_feature((0, 1), (5, 1)), term_feature((0, 1), (2, 1)), term_feature((4, 1), (7, 1)))
    measured = Measurement(
        "", features, "discrete gaussian", multiplier=5.0, transformation=wave_transformation(columns)
    )
    rows = np.tile([[0.5, 0.0, 1.0, 0.0], [-0.5, 0.0, 0.0, 1.0]], (50, 1))
    noisy = NoisyMoments(measured, 100, (10**6,) * 3)
    assert np.array_equal(exchanged(rows, noisy, columns.groups), rows)
    alone = Measurement(
        "", features[1:2], "discrete gaussian", multiplier=5.0, transformation=wave_transformation(columns)
    )
    assert np.array_equal(exchanged(rows, NoisyMoments(alone, 100, (10**6,)), columns.groups), rows)


def test_rows_that_keep_constraints_are_not_taken_apart():
    schema = ss.Schema(
        {"net": ss.Number(0, 100), "tax": ss.Number(0, 50), "gross": ss.Number(0, 150)},
        constraints=["net + tax = gross"],
    )
    plan = ss.plan(schema, rows=1_000_000, epsilon=1.0, delta=1e-6)
    assert "pairwise Fourier" not in plan.families
