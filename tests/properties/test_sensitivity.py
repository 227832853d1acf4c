"""Try to break the sensitivity bounds, and check that they are tight where the proof says so."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.queries.bases import evaluate, lowest, pooled, tensor, term_feature, total_degree
from smoothsynth.queries.sensitivity import l1_sensitivity, l2_sensitivity


def largest_found(features, weights, power, tries=4000, seed=0):
    """Search for the pair of rows that moves the sums most: corners, centres, reflections, random points."""
    rng = np.random.default_rng(seed)
    d = 1 + max(c for f in features for t in f.terms for c, _ in t)
    special = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(tries, d))
    one = np.ones((1, d))
    x = np.concatenate([one, one, special, rng.uniform(-1, 1, (tries, d)), np.ones((tries, d)), special])
    y = np.concatenate([-one, 0 * one, rng.choice([-1.0, 0.0, 1.0], size=(tries, d)), rng.uniform(-1, 1, (tries, d)),
                        np.cos(rng.uniform(0, np.pi, (tries, d))), -special])  # fmt: skip
    moves = np.abs(evaluate(features, x) - evaluate(features, y)) * np.asarray(weights)
    return float(np.max(np.sum(moves**power, axis=1) ** (1 / power)))


FEATURES = st.sampled_from(
    [total_degree(1, 4), total_degree(2, 3), total_degree(3, 3), tensor(4, 2), lowest(17, 5),
     (*total_degree(1, 3), pooled(2, range(3))), tuple(term_feature((0, k)) for k in (1, 2, 3, 4, 5, 6))]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(FEATURES, st.randoms(use_true_random=False))
def test_no_pair_of_rows_moves_more_than_the_bound(features, random):
    weights = [random.choice([0.1, 0.5, 1.0, 1.7]) for _ in features]
    for power, bound in ((1, l1_sensitivity), (2, l2_sensitivity)):
        assert largest_found(features, weights, power, tries=300) <= bound(features, weights) * (1 + 1e-9)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_degree_one_is_tight(d):
    features = total_degree(1, d)
    assert l1_sensitivity(features, [1.0] * d) == pytest.approx(2 * d)
    assert l2_sensitivity(features, [1.0] * d) == pytest.approx(2 * math.sqrt(d), rel=1e-5)


def test_the_second_moment_comes_for_free():
    d, v = 7, math.sqrt((11 + 5 * math.sqrt(5)) / 32)
    features = [term_feature((c, k)) for k in (1, 2) for c in range(d)]
    free = l2_sensitivity(features, [1.0] * d + [v] * d)
    assert free == pytest.approx(2 * math.sqrt(d), rel=1e-5)
    assert l2_sensitivity(features, [1.0] * d + [1.1 * v] * d) > free * 1.005


@pytest.mark.parametrize("d", [2, 5, 12])
def test_pairs_come_for_free(d):
    """Theorem 2 with c^2 = d and 4 v^2 = 1.5 d + 0.5: the bound 2 d is attained."""
    features = total_degree(2, d)
    c, v = math.sqrt(d), math.sqrt((1.5 * d + 0.5) / 4)
    weights = [c if f.degree == 1 else v if len(f.terms[0]) == 1 else 1.0 for f in features]
    bound = l2_sensitivity(features, weights)
    assert bound == pytest.approx(2 * d, rel=1e-9)
    assert largest_found(features, weights, 2) == pytest.approx(bound, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.floats(0.1, 6), st.floats(0.05, 4))
def test_theorem_two_holds_for_all_weights(d, c, v):
    features = total_degree(2, d)
    weights = [c if f.degree == 1 else v if len(f.terms[0]) == 1 else 1.0 for f in features]
    assert largest_found(features, weights, 2, tries=200) <= l2_sensitivity(features, weights)


def test_one_column_of_many_degrees_is_tight():
    features = [term_feature((0, k)) for k in range(1, 7)]
    weights = [1.0 / k for k in range(1, 7)]
    s = np.cos(np.linspace(0, np.pi, 1200))
    values = evaluate(features, s[:, None]) * weights
    for power, bound in ((1, l1_sensitivity), (2, l2_sensitivity)):
        gaps = np.abs(values[:, None, :] - values[None, :, :]) ** power
        exact = float(np.max(np.sum(gaps, axis=2)) ** (1 / power))
        assert exact <= bound(features, weights) <= exact * 1.0005


def test_a_repeated_feature_counts_twice():
    twice = [term_feature((0, 1)), term_feature((0, 1))]
    assert l1_sensitivity(twice, [1.0, 1.0]) == pytest.approx(4.0)
    assert l2_sensitivity(twice, [1.0, 1.0]) == pytest.approx(math.sqrt(8.0), rel=1e-5)


@pytest.mark.parametrize(("t", "d", "factor"), [(2, 8, 1.0), (3, 3, 1.042), (8, 2, 1.144)])
def test_the_full_tensor_is_exact(t, d, factor):
    """The paper scales its noise for t^d; the exact sensitivity is c_t times that (PRIVACY: c_2 = 1, c_3 = 1.042)."""
    features = tensor(t, d)
    bound = l1_sensitivity(features, [1.0] * len(features))
    assert bound == pytest.approx(factor * t**d, rel=2e-3)
    s = np.cos(np.linspace(0, np.pi, 4001))
    lowest_place = s[np.argmin(evaluate([term_feature((0, k)) for k in range(1, t)], s[:, None]).sum(axis=1))]
    x, y = np.ones((1, d)), np.concatenate([[lowest_place], np.ones(d - 1)])[None, :]
    attained = np.abs(evaluate(features, x) - evaluate(features, y)).sum()
    assert attained == pytest.approx(bound, rel=1e-5)
