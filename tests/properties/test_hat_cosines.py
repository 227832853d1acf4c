"""Cosines of soft counts: a public linear map, and nothing moves them farther than the bound of their corners says."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.methods.layout import falling
from smoothsynth.private.engines.kernel import Kernel
from smoothsynth.queries.bases import FEWEST_CELLS, MOST_CELLS, HatBasis, cosine_map, term_feature
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.families import RankHistogram
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, coarse_sums, whole_weights
from smoothsynth.queries.sensitivity import hat_cosines_l1, hat_cosines_l2
from smoothsynth.queries.transformation import KNOTS, Transformation, family_of
from smoothsynth.schema import Number, Schema

D = 3
UNIT = Schema({f"x{i}": Number(-1, 1) for i in range(D)})


def cosines(counts, columns=range(D)):
    return tuple(term_feature((c, k)) for c in columns for k in range(1, counts))


def measured(counts, *, columns=D, mechanism="discrete gaussian", knots=None, rows_per_person=1):
    features, family = cosines(counts, range(columns)), RankHistogram(counts, cosines=True)
    seen = Transformation.straight(columns, family) if knots is None else Transformation(knots, family)
    cost = {"multiplier": 3.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
    weights = whole_weights(falling(features, power=0.25))
    more = {"weights": weights, "transformation": seen, "rows_per_person": rows_per_person}
    return Measurement("", features, mechanism, **cost, **more)


def test_no_entry_of_a_map_is_near_a_tie():
    """So it is the same on every machine, whose cosines differ by some 1e-16."""
    for counts in range(FEWEST_CELLS, MOST_CELLS + 1):
        angles = np.pi * np.arange(2 * counts) / (2 * counts)
        parts = np.abs(S * np.cos(angles)) % 1.0
        assert np.abs(parts - 0.5).min() > 1e-8
        assert np.abs(cosine_map(counts)).max() <= S


@pytest.mark.parametrize("counts", [2, 5, 10, 49])
def test_a_cosine_is_that_map_of_the_counts(counts):
    x = np.random.default_rng(counts).integers(-S, S + 1, 300)[:, None] / S
    hats = [HatBasis(counts).factors(x).of(0, j) for j in range(1, counts + 1)]
    made = RankHistogram(counts, cosines=True).basis.factors(x)
    for k in range(1, counts):
        np.testing.assert_array_equal(made.of(0, k), cosine_map(counts)[k - 1] / S @ hats)
        assert np.abs(made.of(0, k)).max() <= 1.0
    np.testing.assert_array_equal(made.of(0, counts), hats[-1])
    # They are cosines up to rounding, drawn straight between peaks.
    peaks = ((2 * np.arange(counts) + 1) / counts - 1)[:, None]
    at_peaks = RankHistogram(counts, cosines=True).basis.factors(peaks).of(0, 1)
    np.testing.assert_allclose(at_peaks, np.cos(np.pi * (np.arange(counts) + 0.5) / counts), atol=2 * counts / S)


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 300), counts=st.integers(2, 40))
@settings(max_examples=30, deadline=None)
def test_sums_are_those_of_the_features_and_what_is_released_their_floor(seed, rows, counts):
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.integers(-S, S + 1, size=(D, KNOTS)), axis=1)
    measurement = measured(counts, knots=knots)
    values = rng.integers(-S, S + 1, size=(D, rows)) / S
    kernel = Kernel(UNIT, measurement.features, measurement.transformation)
    sums = kernel.start()
    sums.add_columns([values[UNIT.names.index(name)] for name in kernel.names], rows)
    exact = [sum(map(int, column)) for column in (measurement.evaluate(values.T) * S * S).T]
    assert sums.totals() == exact
    weights = measurement.weights
    assert coarse_sums(exact, measurement) == [b * w // S**2 for b, w in zip(exact, weights, strict=True)]


@given(data=st.data(), counts=st.integers(2, 12))
def test_no_pair_of_rows_moves_more_than_the_bound(data, counts):
    """Of some of the cosines and of last counts, with any weights, bent in any way."""
    every = [term_feature((c, k)) for c in range(D) for k in range(1, counts + 1)]
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=12, unique=True))
    weights = tuple(data.draw(st.lists(st.integers(1, 9), min_size=len(chosen), max_size=len(chosen))))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    seen = Transformation(rng.integers(-S, S + 1, size=(D, KNOTS)), RankHistogram(counts, cosines=True))
    one = Measurement("", tuple(chosen), "discrete laplace", 1.0, weights=weights, transformation=seen)
    moved = one.evaluate(rng.uniform(-1, 1, (200, D))) * np.array(weights)
    for order, bound in ((1, hat_cosines_l1), (2, hat_cosines_l2)):
        farthest = max(float(np.linalg.norm(moved - row, ord=order, axis=1).max()) for row in moved)
        assert farthest <= bound(chosen, weights, {}, counts=counts) * (1 + 1e-9)
    assert np.ptp(moved, axis=0).max() <= 2 * max(weights)


@pytest.mark.parametrize("mechanism", ["discrete laplace", "discrete gaussian"])
@pytest.mark.parametrize("counts", [2, 5, 10, 49])
def test_the_bound_is_attained_by_two_rows_at_peaks(counts, mechanism):
    measurement = measured(counts, mechanism=mechanism)
    # A lattice value at or next to each peak: it has the whole count but for what rounding leaves.
    peaks = np.rint(((2 * np.arange(counts) + 1) / counts - 1) * S) / S
    moved = measurement.evaluate(np.tile(peaks[:, None], (1, D))) * np.array(measurement.weights)
    order = 1 if mechanism == "discrete laplace" else 2
    farthest = max(float(np.linalg.norm(a - b, ord=order)) for a, b in itertools.combinations(moved, 2))
    floors = len(measurement.features) if order == 1 else math.sqrt(len(measurement.features))
    assert farthest <= measurement.sensitivity <= farthest * (1 + 4 * counts**2 / S) + floors + 2


@given(seed=st.integers(0, 2**32 - 1), counts=st.integers(2, 30), together=st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_whole_numbers_of_neighbouring_tables_are_no_farther_apart_than_the_sensitivity(seed, counts, together):
    """Floors and all: tables that differ in as many rows as are protected."""
    rng = np.random.default_rng(seed)
    measurement = measured(counts, rows_per_person=together)
    before = rng.integers(-S, S + 1, size=(9, D)) / S
    after = before.copy()
    after[:together] = rng.choice([-1.0, 1.0], size=(together, D))
    before[:together] = -after[:together]
    made = [
        coarse_sums([sum(map(int, c)) for c in (measurement.evaluate(rows) * S * S).T], measurement)
        for rows in (before, after)
    ]
    assert math.dist(*made) <= measurement.sensitivity


def test_alike_weights_cost_what_counts_do():
    """Cosines of 49 counts, all weighed alike, have the noise of the counts; with falling weights less where it matters."""
    counts, one = 49, cosines(49, [0])
    flat = hat_cosines_l2(one, [1.0] * len(one), {}, counts=counts)
    assert flat == pytest.approx(math.sqrt(counts), rel=1e-5)
    low = hat_cosines_l2(one, falling(one, power=0.25), {}, counts=counts)
    noise = low / np.array(falling(one, power=0.25)) / flat
    assert noise[0] < 0.61
    degrees = np.arange(1, counts)
    assert math.hypot(*(noise / degrees)) < 0.72 * math.hypot(*(1 / degrees))


def test_levels_of_a_category_move_two_at_a_time():
    """The last count of an indicator is the indicator, beside cosines too."""
    family = RankHistogram(7, cosines=True)
    features = [*cosines(7, [0]), *(term_feature((c, 7)) for c in (1, 2, 3))]
    weights = (*[FULL_WEIGHT] * 6, *[50_000] * 3)
    seen = Transformation.straight(4, family)
    facts = {"binary": (1, 2, 3), "exclusive": ((1, 2, 3),)}
    mixed = Measurement(
        "", features, "discrete gaussian", multiplier=3.0, weights=weights, transformation=seen, **facts
    )
    alone = hat_cosines_l2(features[:6], weights[:6], {}, counts=7)
    assert mixed.sensitivity == pytest.approx(math.hypot(alone, 50_000 * math.sqrt(2)), abs=4)
    levels = np.vstack([np.zeros((1, 3)), np.eye(3)])
    rows = np.array([[x, *level] for x in np.linspace(-1, 1, 29) for level in levels])
    moved = mixed.evaluate(rows) * np.array(weights)
    assert max(math.dist(a, b) for a, b in itertools.combinations(moved, 2)) <= mixed.sensitivity


@pytest.mark.parametrize("strange", ["yes", 1, None])
def test_a_file_says_yes_or_no_to_cosines(strange):
    facts = RankHistogram(8, cosines=True).facts()
    assert family_of(facts) == RankHistogram(8, cosines=True) != RankHistogram(8)
    assert "cosines" not in RankHistogram(8).facts(), "files of soft counts are what they were"
    with pytest.raises(PlanError, match="Cosines"):
        family_of(facts | {"cosines": strange})
    with pytest.raises(PlanError, match="Cosines"):
        family_of({"radius": None, "pooled": False, "cosines": True})
