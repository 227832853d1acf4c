"""Try to break the sensitivity bounds for categories and marks of what is missing, by all rows there can be."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.errors import PlanError
from smoothsynth.queries.bases import Feature, evaluate, evaluate_hats, term_feature
from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.measurement import FULL_WEIGHT, Measurement, NoisyMoments, check_indicators
from smoothsynth.queries.sensitivity import Indicators, l1_sensitivity, l2_sensitivity, linf_sensitivity
from smoothsynth.queries.transformation import KNOTS, Transformation
from smoothsynth.schema import Category, Number, Schema

# Coordinates: a value, a category of 3, a mark of its own, a category of 2, a value.
GROUPS, MARK, VALUES = ((1, 2, 3), (5, 6)), 4, (0, 7)
MARKS = Indicators((1, 2, 3, 4, 5, 6), GROUPS)
BOUNDS = {1: l1_sensitivity, 2: l2_sensitivity, math.inf: linf_sensitivity}
PLACES = (-1.0, -0.5, 0.0, 0.5, 1.0)


def all_rows(places=PLACES, groups=GROUPS):
    """All rows of the lattice of places: each category at one of its levels or at none."""
    rows = []
    for first, second, indicator, a, b in itertools.product(range(-1, 3), range(-1, 2), (0, 1), places, places):
        x = np.zeros(8)
        x[0], x[7], x[MARK] = a, b, indicator
        for group, level in zip(groups, (first, second), strict=True):
            if level >= 0:
                x[group[level]] = 1.0
        rows.append(x)
    return np.array(rows)


ROWS = all_rows()


def farthest(features, weights, order, rows=ROWS):
    moved = np.unique(evaluate(features, rows) * np.asarray(weights, dtype=float), axis=0)
    return max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)


def terms():
    """Products of up to three factors, marks and values in any mixture, and some marks of a degree above 1."""
    factor = st.one_of(
        st.tuples(st.sampled_from(VALUES), st.integers(1, 4)),
        st.tuples(st.sampled_from(MARKS.binary), st.just(1)),
        st.tuples(st.sampled_from(MARKS.binary), st.just(1)),
        st.tuples(st.sampled_from(MARKS.binary), st.integers(2, 3)),
    )
    return st.lists(factor, min_size=1, max_size=3, unique_by=lambda f: f[0]).map(lambda fs: tuple(sorted(fs)))


POOLS = st.lists(terms(), min_size=2, max_size=3).map(lambda several: Feature(tuple(several)))
FEATURES = st.lists(st.one_of(terms().map(lambda term: Feature((term,))), POOLS), min_size=1, max_size=14)


@given(FEATURES, st.randoms(use_true_random=False))
def test_no_pair_of_rows_moves_more_than_the_bound(features, random):
    weights = [random.choice([1, 2, 5, 9]) for _ in features]
    for order, bound in BOUNDS.items():
        found = bound(features, weights, MARKS)
        assert farthest(features, weights, order) <= found * (1 + 1e-9)
        assert found <= bound(features, weights) * (1 + 1e-9), "facts never cost"


FEW = st.lists(
    st.lists(
        st.sampled_from([(1, 1), (2, 1), (3, 1), (5, 1), (6, 1), (7, 1), (7, 2)]),
        min_size=1,
        max_size=3,
        unique_by=lambda f: f[0],
    ).map(lambda factors: term_feature(*sorted(factors))),
    min_size=2,
    max_size=4,
)


@given(FEW, st.randoms(use_true_random=False))
def test_few_features_of_few_coordinates(features, random):
    """In sums of many bounds an error could hide."""
    weights = [random.choice([1, 2, 5]) for _ in features]
    rows = ROWS[(ROWS[:, 0] == 0) & (ROWS[:, MARK] == 0)]
    for order, bound in BOUNDS.items():
        assert farthest(features, weights, order, rows) <= bound(features, weights, MARKS) * (1 + 1e-9)


def levels(group):
    return [term_feature((c, 1)) for c in group]


def by_group(group, value, degrees):
    """Levels of a category times T_k of a value."""
    return [term_feature(*sorted(((c, 1), (value, k)))) for c in group for k in degrees]


CELLS = [term_feature((a, 1), (b, 1)) for a in GROUPS[0] for b in GROUPS[1]]
# Features, weights, and the exact L1 and square of L2.
TIGHT = {
    "levels of one category": (levels(GROUPS[0]), [3, 2, 1], 5, 13),
    "a mark": ([term_feature((MARK, 1))], [3], 3, 9),
    "levels of two categories": (levels(GROUPS[0] + GROUPS[1]), [3, 2, 1, 2, 2], 9, 21),
    "cells of a table": (CELLS, [6, 5, 4, 3, 2, 1], 11, 61),
    "means by level": (by_group(GROUPS[0], 7, [1]), [3, 3, 1], 6, 36),
    "levels, and means by level": (levels(GROUPS[0]) + by_group(GROUPS[0], 7, [1]), [1] * 3 + [1] * 3, 4, 4),
    "levels that weigh more, and means": (levels(GROUPS[0]) + by_group(GROUPS[0], 7, [1]), [4] * 3 + [1] * 3, 10, 34),
    "means of two columns by level": (by_group(GROUPS[0], 0, [1]) + by_group(GROUPS[0], 7, [1]), [1] * 6, 4, 8),
    "a value and means by level": ([term_feature((0, 1)), *by_group(GROUPS[0], 7, [1])], [1] * 4, 4, 8),
    "a table, its levels, and means in its cells": (
        levels(GROUPS[0]) + CELLS + [term_feature(*f.terms[0], (7, 1)) for f in CELLS], [1] * 15, 6, 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TIGHT)
def test_the_bound_is_attained(name):
    features, weights, l1, squares = TIGHT[name]
    assert l1_sensitivity(features, weights, MARKS) == pytest.approx(l1)
    assert l2_sensitivity(features, weights, MARKS) == pytest.approx(math.sqrt(squares))
    assert farthest(features, weights, 1) == pytest.approx(l1)
    assert farthest(features, weights, 2) == pytest.approx(math.sqrt(squares))
    for order, bound in BOUNDS.items():
        assert farthest(features, [w * 1.02 for w in weights], order) > bound(features, weights, MARKS)


@pytest.mark.parametrize("degrees", [(1, 2), (1, 2, 3, 4)])
def test_several_degrees_by_level_are_nearly_exact(degrees):
    features = by_group(GROUPS[0], 7, degrees)
    weights = [1.0 / k for _ in GROUPS[0] for k in degrees]
    rows = np.zeros((1602, 8))
    rows[:801, 1], rows[801:, 2] = 1.0, 1.0
    rows[:, 7] = np.tile(np.cos(np.linspace(0, np.pi, 801)), 2)
    for order, bound in ((1, l1_sensitivity), (2, l2_sensitivity)):
        found = farthest(features, weights, order, rows)
        assert found <= bound(features, weights, MARKS) <= found * 1.001


def test_the_maximum_norm_knows_marks():
    assert linf_sensitivity(CELLS, [7] * 6, MARKS) == 7
    assert linf_sensitivity(CELLS, [7] * 6) == 14
    assert linf_sensitivity([*CELLS, *by_group(GROUPS[0], 7, [1])], [7] * 6 + [3, 4, 3], MARKS) == 8
    assert linf_sensitivity([term_feature((1, 2))], [7], MARKS) == 14
    assert linf_sensitivity([Feature((((1, 1),), ((4, 1),)))], [7], MARKS) == 7


def test_values_keep_the_theorem_on_pairs():
    """Pairs of values are bounded by Theorem 2 as before, and categories add to that."""
    d = 6
    pairs = [term_feature((a, 1), (b, 1)) for a, b in itertools.combinations(range(d), 2)]
    alone = l2_sensitivity(pairs, [1.0] * len(pairs))
    together = l2_sensitivity([*pairs, *[term_feature((d + c, 1)) for c in range(3)]], [1.0] * (len(pairs) + 3),
                              Indicators((6, 7, 8), ((6, 7, 8),)))  # fmt: skip
    assert together == pytest.approx(math.sqrt(alone**2 + 2))


def measured(features, mechanism="cube", **facts):
    noise = {"multiplier": 1.0} if mechanism == "discrete gaussian" else {"epsilon": 1.0}
    return Measurement("test", tuple(features), mechanism, **noise, **facts)


FACTS = {"exclusive": GROUPS, "binary": MARKS.binary}


@pytest.mark.parametrize(
    ("mechanism", "exact"), [("cube", 1), ("discrete laplace", 2), ("discrete gaussian", math.sqrt(2))]
)
def test_a_measurement_uses_the_facts(mechanism, exact):
    with_facts = measured(levels(GROUPS[0]), mechanism, **FACTS).sensitivity
    assert exact * FULL_WEIGHT <= with_facts <= exact * FULL_WEIGHT + 4
    assert with_facts < measured(levels(GROUPS[0]), mechanism).sensitivity


def test_facts_hold_through_a_view_only_if_zero_stays_zero():
    features = levels(GROUPS[0])
    straight, raised = Transformation.straight(8), np.tile(np.linspace(-1, 1, KNOTS), (8, 1))
    raised[2] = np.linspace(-1, 1, KNOTS) ** 2 - 0.5

    def l1(features, transformation, **facts):
        return round(
            measured(features, "discrete laplace", transformation=transformation, **facts).sensitivity / FULL_WEIGHT, 3
        )

    assert l1(features, None) == 6
    assert l1(features, straight, **FACTS) == 2
    assert l1(features, Transformation.from_values(raised), **FACTS) == 4
    one, every = [term_feature((0, 1))], [term_feature((c, 1)) for c in range(8)]
    assert l1(one, Transformation.straight(1, RowNorms()), binary=(0,)) == 2
    assert l1(every, Transformation.straight(8, ClippedSecondMoments(9.0)), **FACTS) == 16
    assert l1(every, None, **FACTS) == 9


@settings(max_examples=25, deadline=None)
@given(FEATURES, st.integers(0, 2**32 - 1))
def test_rows_seen_through_a_view_move_no_more(features, seed):
    rng = np.random.default_rng(seed)
    heights = np.sort(rng.uniform(-1, 1, (8, KNOTS)), axis=1)
    heights[rng.random(8) < 0.7, KNOTS // 2] = 0.0
    transformation = Transformation.from_values(np.sort(heights, axis=1))
    weights = tuple(int(w) for w in rng.integers(1, FULL_WEIGHT, len(features)))
    for mechanism, order in (("cube", math.inf), ("discrete laplace", 1), ("discrete gaussian", 2)):
        measurement = measured(features, mechanism, transformation=transformation, weights=weights, **FACTS)
        assert farthest(features, weights, order, transformation.of(ROWS)) <= measurement.sensitivity


def counted_values(features, transformation, rows=ROWS):
    return evaluate_hats(features, transformation.of(rows), transformation.family.cells)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_soft_counts_of_values_and_marks_move_no_more(data, counts, seed):
    """Of some of the counts of all coordinates, with any weights, some of them bent in any way."""
    every = [term_feature((c, j)) for c in range(8) for j in range(1, counts + 1)]
    last = [term_feature((c, counts)) for c in MARKS.binary]
    some = data.draw(st.lists(st.sampled_from(every), max_size=12))
    chosen = tuple(dict.fromkeys([*some, *data.draw(st.lists(st.sampled_from(last), min_size=1, max_size=6))]))
    rng = np.random.default_rng(seed)
    heights = np.tile(np.linspace(-1, 1, KNOTS), (8, 1))
    bent = rng.random(8) < 0.3
    heights[bent] = np.sort(rng.uniform(-1, 1, (int(bent.sum()), KNOTS)), axis=1)
    transformation = Transformation.from_values(heights, RankHistogram(counts))
    weights = tuple(int(w) for w in rng.integers(1, FULL_WEIGHT, len(chosen)))
    moved = np.unique(counted_values(chosen, transformation) * np.array(weights, dtype=float), axis=0)
    for mechanism, order in (("cube", math.inf), ("discrete laplace", 1), ("discrete gaussian", 2)):
        found = max(float(np.linalg.norm(moved - one, ord=order, axis=1).max()) for one in moved)
        assert found <= measured(chosen, mechanism, transformation=transformation, weights=weights, **FACTS).sensitivity


def test_a_category_beside_soft_counts_costs_what_a_column_of_them_costs():
    """A value moves by sqrt(2), a category of any number of levels too, a mark of its own by 1."""
    counts = 7
    values = [term_feature((c, j)) for c in VALUES for j in range(1, counts + 1)]
    indicators = [term_feature((c, counts)) for c in MARKS.binary]
    transformation = Transformation.straight(8, RankHistogram(counts))

    def l2(features, **facts):
        return (
            measured(features, "discrete gaussian", transformation=transformation, **facts).sensitivity / FULL_WEIGHT
        ) ** 2

    assert l2([*values, *indicators], **FACTS) == pytest.approx(2 + 2 + 2 + 2 + 1, rel=1e-3)
    assert farthest_counted([*values, *indicators], transformation) ** 2 == pytest.approx(9)
    assert l2([*values, *indicators]) == pytest.approx(4 + 6, rel=1e-3), (
        "of what nobody says that it is exclusive, each moves"
    )
    # The middle count of a mark is not 0 where the mark is 0: then nothing is gained from what is exclusive.
    middle = [term_feature((c, (counts + 1) // 2)) for c in GROUPS[0]]
    assert l2(middle, **FACTS) == pytest.approx(3, rel=1e-3)
    assert l2(indicators[:3], **FACTS) == pytest.approx(2, rel=1e-3)


def farthest_counted(features, transformation):
    moved = np.unique(counted_values(features, transformation), axis=0)
    return max(float(np.linalg.norm(moved - one, axis=1).max()) for one in moved)


@pytest.mark.parametrize("counts", [3, 4, 7, 49])
def test_the_last_soft_count_of_a_mark_is_the_mark(counts):
    features = [term_feature((c, counts)) for c in MARKS.binary]
    seen = counted_values(features, Transformation.straight(8, RankHistogram(counts)))
    np.testing.assert_array_equal(seen, ROWS[:, list(MARKS.binary)])


def test_groups_must_be_apart_and_binary():
    for wrong in ({"exclusive": ((1, 2), (2, 3)), "binary": (1, 2, 3)}, {"exclusive": ((1, 2),), "binary": (1,)}):
        with pytest.raises(PlanError, match="in common"):
            measured(levels(GROUPS[0]), **wrong)


def test_facts_are_written_and_read_and_old_files_have_none():
    noisy = NoisyMoments(measured(levels(GROUPS[0]), **FACTS), 10, (1, 2, 3))
    written = noisy.as_dict()
    assert NoisyMoments.from_dict(written) == noisy
    del written["exclusive"], written["binary"]
    assert NoisyMoments.from_dict(written).measurement.binary == ()


def test_facts_must_be_those_of_the_schema():
    schema = Schema({"age": Number(0, 1, nullable=True), "sex": Category(["f", "m"]), "town": Category(["a", "b"])})
    check_indicators(measured([term_feature((2, 1))], exclusive=((2, 3), (4, 5)), binary=(1, 2, 3, 4, 5)), schema)
    check_indicators(measured([term_feature((2, 1))], exclusive=((3,),), binary=(3,)), schema)
    for exclusive, binary in [((), (0,)), (((1, 2),), (1, 2)), (((3, 4),), (3, 4)), ((), (6,)), (((1,),), (1,))]:
        with pytest.raises(PlanError, match="of the schema"):
            check_indicators(measured([term_feature((2, 1))], exclusive=exclusive, binary=binary), schema)
