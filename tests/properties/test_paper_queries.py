"""Proposition 2.1 and the answers, on random mixtures, with exact derivatives."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite import hermval

from smoothsynth.paper.queries import (
    GaussianMixtureQueries,
    answers,
    random_queries,
    smoothness_norm_bound,
    values,
    worst_errors,
)


def kernel_derivative(order, x, sigma):
    """d^k/dx^k exp(-x^2/2 sigma^2) = (-1/(sqrt 2 sigma))^k H_k(y) exp(-y^2), y = x/(sqrt 2 sigma)."""
    y = x / (math.sqrt(2) * sigma)
    return (-1 / (math.sqrt(2) * sigma)) ** order * hermval(y, [0] * order + [1]) * np.exp(-(y**2))


def mixture_derivative(queries, orders, points):
    total = np.zeros(len(points))
    for centre, alpha in zip(queries.centres[0], queries.weights[0], strict=True):
        term = np.full(len(points), alpha)
        for column, order in enumerate(orders):
            term *= kernel_derivative(order, points[:, column] - centre[column], queries.sigma)
        total += term
    return total


mixtures = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.floats(0.4, 5.0),  # sigma
    st.lists(st.integers(0, 4), min_size=1, max_size=4),  # orders, one per column
)


def drawn(seed, sigma, dimensions):
    generator = np.random.default_rng(seed)
    weights = generator.uniform(-1, 1, (1, 5))
    centres = generator.uniform(-1, 1, (1, 5, dimensions))
    return GaussianMixtureQueries(centres, weights, sigma), generator.uniform(-1, 1, (200, dimensions))


@given(mixtures)
def test_no_derivative_exceeds_the_bound(case):
    seed, sigma, orders = case
    queries, points = drawn(seed, sigma, len(orders))
    found = np.abs(mixture_derivative(queries, orders, points)).max()
    assert found <= smoothness_norm_bound(sigma, sum(orders), queries.weights) * (1 + 1e-12)


@given(mixtures)
def test_exact_derivatives_are_those_of_the_query(case):
    # The derivative used above is checked against a central difference of the library's own values.
    seed, sigma, orders = case
    queries, points = drawn(seed, sigma, len(orders))
    step = 1e-5
    shift = np.zeros(len(orders))
    shift[0] = step
    difference = (values(queries, points + shift)[0] - values(queries, points - shift)[0]) / (2 * step)
    first = [1] + [0] * (len(orders) - 1)
    np.testing.assert_allclose(mixture_derivative(queries, first, points), difference, atol=1e-6)


@given(st.integers(1, 8), st.floats(0.3, 1.0))
def test_the_bound_is_near_what_one_kernel_attains(order, sigma):
    # sqrt(k!)/sigma^k is the largest term for sigma <= 1; a bound half as large would be wrong.
    line = np.linspace(-8 * sigma, 8 * sigma, 4001)
    attained = np.abs(kernel_derivative(order, line, sigma)).max()
    assert attained > 0.5 * smoothness_norm_bound(sigma, order, [1.0])


@given(st.floats(1.0, 10.0), st.lists(st.floats(-1, 1), min_size=1, max_size=8))
def test_mixtures_of_unit_weight_are_smooth_up_to_sigma_squared(sigma, weights):
    order = math.floor(sigma**2)
    total = sum(abs(w) for w in weights)
    assert smoothness_norm_bound(sigma, order, weights) <= total * (1 + 1e-9) + 1e-300


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 600), st.integers(1, 6))
def test_answers_do_not_depend_on_the_order_of_rows(seed, rows, dimensions):
    generator = np.random.default_rng(seed)
    queries = random_queries(15, dimensions, sigma=0.8, generator=generator)
    points = generator.uniform(-1, 1, (rows, dimensions))
    shuffled = points[generator.permutation(rows)]
    np.testing.assert_allclose(answers(queries, points), answers(queries, shuffled), rtol=1e-11)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_relative_errors_are_at_least_absolute_ones_for_answers_up_to_one(pairs):
    true, synthetic = zip(*pairs, strict=True)
    errors = worst_errors(true, synthetic)
    assert errors.relative >= errors.absolute
