"""A missing value adds nothing to the features of its column: no rows move more than the bound, which is attained."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothsynth as ss
from smoothsynth.errors import PlanError
from smoothsynth.methods.adaptive_rounds import FREE_SQUARE, INDICATOR_WEIGHT
from smoothsynth.methods.layout import falling
from smoothsynth.model.marginal_moments import learn_low
from smoothsynth.model.marginals import flat_marginals
from smoothsynth.private.engines.local import LocalEngine
from smoothsynth.private.table import open_table
from smoothsynth.queries.bases import LATTICE as S
from smoothsynth.queries.bases import Feature, pooled, term_feature
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram
from smoothsynth.queries.measurement import Measurement, NoisyMoments, check_indicators, coarse_sums, whole_weights
from smoothsynth.queries.transformation import KNOTS, Transformation

# Two columns that may have missing values, and a category of two levels: coordinates 0 1, 2 3, 4 5.
SCHEMA = ss.Schema(
    {"x": ss.Number(-1, 1, nullable=True), "y": ss.Number(-1, 1, nullable=True), "c": ss.Category(["a", "b"])}
)
FACTS = {"binary": (1, 3, 4, 5), "exclusive": ((4, 5),), "missing": ((0, 1), (2, 3))}
COUNTS = 9


def measured(kind, mechanism="discrete gaussian", *, knots=None, weights=None, **more):
    """Low moments, soft counts or cosines of them, with what is missing and levels beside them."""
    cost = {"multiplier": 3.0} if mechanism == "discrete gaussian" else {"epsilon": 0.01}
    if kind == "low":
        own, last, seen = [term_feature((c, k)) for k in (1, 2) for c in (0, 2)], 1, None
        ones = [1.0, 1.0, FREE_SQUARE, FREE_SQUARE, *[INDICATOR_WEIGHT] * 4]
    else:
        top = COUNTS if kind == "counts" else COUNTS - 1
        own, last = [term_feature((c, k)) for k in range(1, top + 1) for c in (0, 2)], COUNTS
        family = RankHistogram(COUNTS, cosines=kind == "cosines")
        seen = Transformation.straight(6, family) if knots is None else Transformation(knots, family)
        ones = (falling(own, power=0.25) if kind == "cosines" else [1.0] * len(own)) + [1.0] * 4
    features = (*own, *(term_feature((c, last)) for c in (1, 3, 4, 5)))
    facts = FACTS | more
    return Measurement(
        "", features, mechanism, **cost, weights=weights or whole_weights(ones), transformation=seen, **facts
    )


def bent(seed):
    """Knots that bend values, so that what a missing one would add is nothing simple."""
    rng = np.random.default_rng(seed)
    knots = np.tile(np.linspace(-S, S, KNOTS).astype(np.int64), (6, 1))
    for c in (0, 2):
        knots[c] = np.sort(rng.integers(-S, S + 1, KNOTS))
    return knots


def rows_of(values):
    """All combinations of a few states of every column: values, missing, levels and none."""
    states = [*((v, 0.0) for v in values), (0.0, 1.0)]
    levels = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    return np.array([[*x, *y, *c] for x, y, c in itertools.product(states, states, levels)])


def farthest(measurement, rows):
    order = 1 if measurement.mechanism == "discrete laplace" else 2
    moved = measurement.evaluate(rows) * np.array(measurement.weights, dtype=float)
    return max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)


PEAKS = (2 * np.arange(COUNTS) + 1) / COUNTS - 1


@pytest.mark.parametrize("mechanism", ["discrete laplace", "discrete gaussian"])
@pytest.mark.parametrize("kind", ["low", "counts", "cosines"])
def test_the_bound_is_attained(kind, mechanism):
    measurement = measured(kind, mechanism)
    most = farthest(measurement, rows_of(np.rint(PEAKS * S) / S if kind != "low" else np.linspace(-1, 1, 9)))
    count = len(measurement.features)
    floors = count if mechanism == "discrete laplace" else math.sqrt(count)
    assert most <= measurement.sensitivity <= most * 1.002 + floors + 2


@given(kind=st.sampled_from(["low", "counts", "cosines"]), seed=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_rows_move_more_than_the_bound(kind, seed, data):
    """With any weights, bent in any way."""
    count = len(measured(kind).features)
    weights = tuple(data.draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)))
    mechanism = data.draw(st.sampled_from(["discrete laplace", "discrete gaussian", "cube"]))
    measurement = measured(kind, mechanism, knots=bent(seed), weights=weights)
    rows = rows_of(np.random.default_rng(seed).uniform(-1, 1, 5))
    if mechanism == "cube":
        assert np.ptp(measurement.evaluate(rows) * np.array(weights), axis=0).max() <= measurement.sensitivity
    else:
        assert farthest(measurement, rows) <= measurement.sensitivity


def table_of(rows):
    levels = [("a" if row[4] else "b" if row[5] else None) for row in rows]
    columns = {"x": (0, 1), "y": (2, 3)}
    arrays = {name: pa.array(rows[:, v], mask=rows[:, m] > 0.5) for name, (v, m) in columns.items()}
    return pa.table({**arrays, "c": levels})


def whole_numbers(measurement, rows):
    opened = open_table(table_of(rows), SCHEMA)
    sums = LocalEngine().sums(opened, measurement.features, transformation=measurement.transformation)
    return coarse_sums(sums.unseal(), measurement, denominator=sums.denominator)


@pytest.mark.parametrize("kind", ["low", "counts", "cosines"])
@pytest.mark.parametrize("seed", range(3))
def test_what_engines_sum_becomes_what_is_measured_and_a_neighbour_is_no_farther_than_the_sensitivity(kind, seed):
    measurement = measured(kind, knots=bent(seed))
    every = rows_of(np.random.default_rng(seed).integers(-S, S + 1, 4) / S)
    rows = every[np.random.default_rng(seed).integers(0, len(every), 40)]
    exact = [sum(map(int, column)) for column in (measurement.evaluate(rows) * S * S).T]
    weights = measurement.weights
    before = whole_numbers(measurement, rows)
    assert before == [b * w // S**2 for b, w in zip(exact, weights, strict=True)]
    for other in every[:: len(every) // 20]:
        after = whole_numbers(measurement, np.vstack([rows[:-1], other]))
        assert math.dist(before, after) <= measurement.sensitivity


def test_a_column_with_missing_values_costs_what_one_without_them_does():
    for kind, alone in (("low", 2.0 / INDICATOR_WEIGHT), ("counts", math.sqrt(2.0))):
        measurement = measured(kind)
        # The category costs what a column of numbers does.
        assert measurement.sensitivity / max(measurement.weights) == pytest.approx(alone * math.sqrt(3.0), rel=1e-3)
        assert measured(kind, missing=()).sensitivity > 1.1 * measurement.sensitivity


def test_moments_of_what_is_there_are_learned():
    """A third of x is missing, and what is there lies far from the centre."""
    schema = ss.Schema({"x": ss.Number(-1, 1, nullable=True)})
    features = (*(term_feature((0, k)) for k in (1, 2)), term_feature((1, 1)))
    points = np.array([[0.0, 1.0], [0.5, 0.0], [0.7, 0.0]])
    means = []
    for missing in ((), ((0, 1),)):
        asked = Measurement("", features, "discrete gaussian", multiplier=1.0, binary=(1,), missing=missing)
        rows = 10**6
        values = asked.evaluate(points).mean(axis=0) * rows * asked.all_weights
        columns = learn_low(flat_marginals(schema), [NoisyMoments(asked, rows, tuple(map(int, values)))])
        means.append(float(columns.masses[0] @ columns.places[0]))
        assert columns.share(1) == pytest.approx(1 / 3, abs=1e-3)
    assert means == pytest.approx([0.6, 0.6], abs=0.01)


SINGLE = (term_feature((0, 1)), term_feature((1, 1)))


@pytest.mark.parametrize(
    ("features", "more"),
    [
        ((term_feature((0, 1)),), {}),
        ((*SINGLE, term_feature((1, 2))), {}),
        ((*SINGLE, term_feature((0, 3))), {}),
        ((*SINGLE, term_feature((0, 1), (2, 1))), {}),
        ((*SINGLE, pooled(2, (0, 2))), {}),
        ((*SINGLE, Feature((((0, 2),), ((1, 1),)))), {}),
        (SINGLE, {"binary": ()}),
        (SINGLE, {"exclusive": ((1,),)}),
        (SINGLE, {"missing": ((0, 1), (2, 1))}),
        (SINGLE, {"missing": ((1, 1),)}),
        (SINGLE, {"transformation": Transformation.straight(2)}),
        (SINGLE, {"transformation": Transformation.straight(2, ClippedSecondMoments(1.0))}),
        (SINGLE, {"transformation": Transformation.straight(2, RankHistogram(6, cosines=True))}),
    ],
    ids=[
        "no indicator", "twice", "degree 3", "a product", "a pool", "with its indicator", "not binary", "a level",
        "one for two", "of itself", "cosines of ranks", "cut rows", "not the last count",
    ],
)  # fmt: skip
def test_what_is_not_known_in_whole_numbers_is_refused(features, more):
    facts = {"binary": (1,), "missing": ((0, 1),)} | more
    with pytest.raises(PlanError, match=r"[Mm]issing|Exclusive"):
        Measurement("", features, "discrete gaussian", multiplier=1.0, **facts)


def test_the_pairs_are_those_of_the_schema_and_survive_a_file():
    asked = Measurement("", SINGLE, "discrete gaussian", multiplier=1.0, binary=(1,), missing=((0, 1),))
    noisy = NoisyMoments(asked, 10, (1, 2))
    assert NoisyMoments.from_dict(noisy.as_dict()) == noisy
    assert "missing" not in NoisyMoments(measured("low", missing=()), 10, (0,) * 8).as_dict()
    check_indicators(asked, ss.Schema({"x": ss.Number(-1, 1, nullable=True)}))
    with pytest.raises(PlanError, match="schema"):
        check_indicators(asked, ss.Schema({"x": ss.Number(-1, 1), "b": ss.Boolean()}))
