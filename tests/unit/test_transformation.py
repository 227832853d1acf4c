import math

import numpy as np
import pyarrow as pa
import pytest

import smoothsynth as ss
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import LATTICE, Feature, evaluate, total_degree
from smoothsynth.queries.families import ClippedSecondMoments, RowNorms
from smoothsynth.queries.measurement import Measurement, NoisyMoments
from smoothsynth.queries.sensitivity import clipped_l1, clipped_l2
from smoothsynth.queries.transformation import KNOTS, Transformation, knot_places

SCHEMA = ss.Schema({name: ss.Number(-1, 1) for name in "abcd"})


def bent(radius=None):
    places = knot_places()
    values = np.stack([places, -places, np.sin(places * 1.5), np.clip(3 * places, -1, 1)])
    return Transformation.from_values(values, None if radius is None else ClippedSecondMoments(radius))


def lattice_rows(count=500, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.rint(rng.uniform(-1, 1, (count, 4)) * LATTICE)
    rows[:6] = [[LATTICE] * 4, [-LATTICE] * 4, [0] * 4, [1] * 4, [-1] * 4, [LATTICE, -LATTICE, 0, 255]]
    return rows / LATTICE


def test_the_straight_view_changes_nothing():
    straight = Transformation.from_values(np.stack([knot_places()] * 4))
    rows = lattice_rows()
    np.testing.assert_array_equal(straight.of(rows), rows)


def test_a_bent_view_is_the_function_it_was_made_of():
    rows = lattice_rows()
    seen = bent().of(rows)
    expected = np.stack([rows[:, 0], -rows[:, 1], np.sin(rows[:, 2] * 1.5), np.clip(3 * rows[:, 3], -1, 1)], axis=1)
    np.testing.assert_allclose(seen[:, :3], expected[:, :3], atol=5e-5)
    # A corner between two knots is cut.
    np.testing.assert_allclose(seen[:, 3], expected[:, 3], atol=3e-3)


@pytest.mark.parametrize("radius", [None, 0.7])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_engine_sees_what_the_view_shows(radius, threads):
    rows, transformation, features = lattice_rows(), bent(radius), total_degree(2, 4)
    table = open_table(pa.table({name: rows[:, i] for i, name in enumerate("abcd")}), SCHEMA)
    engine = LocalEngine(threads=threads, batch_rows=77)
    sums = engine.sums(table, features, transformation=transformation)._totals
    exact = [round(total * LATTICE**2) for total in evaluate(features, transformation.of(rows)).sum(axis=0)]
    assert max(abs(a - b) for a, b in zip(sums, exact, strict=True)) <= 1


def test_a_pooled_view_sees_the_length_of_a_row():
    rows, features = lattice_rows(), [Feature((((0, k),),)) for k in (1, 2, 5)]
    transformation = Transformation.from_values(np.sin(knot_places() * 1.2)[None, :], RowNorms())
    np.testing.assert_allclose(transformation.of(rows)[:, 0], np.sin(1.2 * np.mean(2 * rows**2 - 1, axis=1)), atol=1e-4)
    table = open_table(pa.table({name: rows[:, i] for i, name in enumerate("abcd")}), SCHEMA)
    sums = LocalEngine(threads=2, batch_rows=77).sums(table, features, transformation=transformation)._totals
    exact = [round(total * LATTICE**2) for total in evaluate(features, transformation.of(rows)).sum(axis=0)]
    slack = [1, 1, len(rows) * LATTICE / 2]  # T_5 is rounded to the lattice in every row
    assert all(abs(a - b) <= c for a, b, c in zip(sums, exact, slack, strict=True))


def test_rows_are_kept_short():
    seen = bent(0.5).of(np.concatenate([lattice_rows(5000), np.ones((1, 4))]))
    assert np.linalg.norm(seen, axis=1).max() <= 0.5 * (1 + 1e-12)
    assert np.linalg.norm(seen, axis=1).max() >= 0.5 * (1 - 1e-4)


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_short_rows_move_no_more_than_the_bound(c):
    radius, d = 0.8, 4
    features = total_degree(2, d)
    weights = [c if f.degree == 1 else 1 / math.sqrt(8) if len(f.terms[0]) == 1 else 1.0 for f in features]
    bound = clipped_l2(features, weights, radius=radius)
    assert bound == pytest.approx(radius**2 + c**2, rel=1e-6)
    rng = np.random.default_rng(1)

    def ball(count):
        x = rng.normal(size=(count, d))
        lengths = np.where(rng.random(count) < 0.5, 1.0, rng.random(count))
        return x / np.linalg.norm(x, axis=1, keepdims=True) * (radius * lengths)[:, None]

    x, y = ball(200_000), ball(200_000)
    moves = np.linalg.norm((evaluate(features, x) - evaluate(features, y)) * weights, axis=1)
    assert moves.max() <= bound
    assert moves.max() >= 0.97 * bound


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0])
def test_short_rows_move_no_more_than_the_l1_bound(c):
    radius, d = 0.8, 6
    features = total_degree(2, d)
    weights = [c if f.degree == 1 else 0.4 if len(f.terms[0]) == 1 else 1.0 for f in features]
    bound = clipped_l1(features, weights, radius=radius)
    rng = np.random.default_rng(1)

    def rows(count):
        x = rng.normal(size=(count, d)) * (rng.random((count, d)) < 0.5)
        halves = np.sign(rng.normal(size=(count, d))) * (
            rng.permuted(np.tile(np.arange(d) < d // 2, (count, 1)), axis=1)
        )
        x = np.where(rng.random(count)[:, None] < 0.5, x, halves)
        return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9) * radius

    x, y = rows(300_000), rows(300_000)
    moves = np.abs(evaluate(features, x) - evaluate(features, y)) @ np.array(weights)
    assert 0.6 * bound <= moves.max() <= bound


def test_without_pairs_or_with_heavy_squares_the_bound_is_not_used():
    assert clipped_l2(total_degree(1, 3), [1.0] * 3, radius=1.0) == math.inf
    features = total_degree(2, 3)
    assert clipped_l2(features, [1.0] * len(features), radius=1.0) == math.inf


def test_a_measurement_keeps_its_view_when_it_is_written():
    features = total_degree(2, 4)
    measurement = Measurement(
        purpose="pairs", features=features, mechanism="discrete gaussian", multiplier=2.0, transformation=bent(0.5),
        weights=tuple(2**14 if f.degree == 1 or len(f.terms[0]) == 1 else 2**16 for f in features),
    )  # fmt: skip
    assert measurement.sensitivity == pytest.approx(2**16 * (0.25 + 1 / 16), rel=1e-3)
    noisy = NoisyMoments(measurement, 100, tuple(range(len(features))))
    again = NoisyMoments.from_dict(noisy.as_dict())
    np.testing.assert_array_equal(again.measurement.transformation.knots, measurement.transformation.knots)
    assert again.measurement.family.clip_norm == 0.5
    rows = lattice_rows()
    np.testing.assert_array_equal(again.of(rows), noisy.of(rows))


@pytest.mark.parametrize(
    "knots", [np.zeros((2, 5)), np.full((1, KNOTS), LATTICE + 1), np.zeros(KNOTS)], ids=["few", "outside", "flat"]
)
def test_a_view_that_leaves_the_cube_is_refused(knots):
    with pytest.raises(ss.PlanError):
        Transformation(knots.astype(np.int64))
    with pytest.raises(ss.PlanError):
        Transformation(np.zeros((1, KNOTS), dtype=np.int64), ClippedSecondMoments(-1.0))
