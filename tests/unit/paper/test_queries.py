"""The query family: answers against the definition, worst errors, misuse."""

import numpy as np
import pytest

from smoothsynth.errors import DataError, PlanError
from smoothsynth.paper.queries import (
    CENTRES_PER_BLOCK,
    MOST_MULTIPLICATIONS,
    ROWS_PER_BLOCK,
    ROWS_PER_TILE,
    GaussianMixtureQueries,
    answers,
    kernel_sums,
    random_queries,
    single_precision_bound,
    smoothness_norm_bound,
    values,
    worst_errors,
)


def by_definition(queries, points, weights):
    result = []
    for centres, alphas in zip(queries.centres, queries.weights, strict=True):
        f = sum(
            a * np.exp(-((points - c) ** 2).sum(axis=1) / (2 * queries.sigma**2))
            for a, c in zip(alphas, centres, strict=True)
        )
        result.append(weights @ f)
    return np.array(result)


@pytest.mark.parametrize("rows", [1, ROWS_PER_TILE + 1, ROWS_PER_BLOCK, 2 * ROWS_PER_BLOCK + 3])
@pytest.mark.parametrize("threads", [1, 2])
def test_answers_are_the_definition_across_block_edges(rows, threads):
    generator = np.random.default_rng(rows)
    queries = random_queries(CENTRES_PER_BLOCK // 10 + 7, 5, sigma=0.7, generator=generator)
    points = generator.uniform(-1, 1, (rows, 5))
    expected = by_definition(queries, points, np.full(rows, 1 / rows))
    np.testing.assert_allclose(answers(queries, points, threads=threads), expected, rtol=1e-12)


@pytest.mark.parametrize("dimensions", [1, 40, 300])
@pytest.mark.parametrize("centres", [1, 7, CENTRES_PER_BLOCK + 1])
def test_kernel_sums_are_the_definition_for_every_tile_width(dimensions, centres):
    generator = np.random.default_rng(dimensions)
    rows, points = generator.uniform(-1, 1, (45, dimensions)), generator.uniform(-1, 1, (centres, dimensions))
    weights = generator.normal(size=45)
    squares = ((rows[:, None] - points[None]) ** 2).sum(axis=2)
    sigma = np.sqrt(dimensions)
    expected = weights @ np.exp(-squares / (2 * sigma**2))
    np.testing.assert_allclose(kernel_sums(rows, points, sigma=sigma, weights=weights), expected, atol=1e-12)


def test_products_stay_below_the_size_where_a_blas_starts_threads(monkeypatch):
    sizes = []
    matmul = np.matmul

    def spy(a, b, **given):
        sizes.append(a.shape[-2] * a.shape[-1] * b.shape[-1])
        return matmul(a, b, **given)

    monkeypatch.setattr(np, "matmul", spy)
    for dimensions in (2, 40, 100):
        queries = random_queries(60, dimensions, sigma=2, generator=np.random.default_rng(0))
        answers(queries, np.zeros((300, dimensions)), threads=1)
    assert 0 < max(sizes) <= MOST_MULTIPLICATIONS


def test_weights_stand_for_repeated_rows():
    generator = np.random.default_rng(3)
    queries = random_queries(20, 3, sigma=1.0, generator=generator)
    points = generator.uniform(-1, 1, (4, 3))
    repeated = np.repeat(points, [1, 2, 3, 4], axis=0)
    weighted = answers(queries, points, weights=[0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(weighted, answers(queries, repeated), rtol=1e-12)


def test_values_average_to_answers():
    generator = np.random.default_rng(4)
    queries = random_queries(6, 2, sigma=0.5, terms=3, generator=generator)
    points = generator.uniform(-1, 1, (50, 2))
    np.testing.assert_allclose(values(queries, points).mean(axis=1), answers(queries, points), rtol=1e-12)


@pytest.mark.parametrize(("dimensions", "sigma"), [(20, 2.0), (40, 2.0), (100, 4.0)])
def test_single_precision_stays_within_its_bound(dimensions, sigma):
    generator = np.random.default_rng(5)
    queries = random_queries(60, dimensions, sigma=sigma, generator=generator)
    # Rows in the corners make the exponents, and so their rounding errors, large.
    points = np.sign(generator.uniform(-1, 1, (700, dimensions)))
    double = answers(queries, points)
    gap = np.abs(answers(queries, points, precision="single") / double - 1).max()
    assert 0 < gap <= single_precision_bound(dimensions, sigma) < 1e-3


def test_drawn_queries_follow_the_protocol():
    queries = random_queries(300, 4, sigma=2, generator=np.random.default_rng(0))
    assert queries.centres.shape == (300, 10, 4)
    np.testing.assert_allclose(queries.weights.sum(axis=1), 1.0)
    assert queries.weights.min() >= 0
    assert np.abs(queries.centres).max() <= 1
    assert abs(queries.centres.mean()) < 4 * np.sqrt(1 / 3 / queries.centres.size)
    assert abs((queries.centres**2).mean() - 1 / 3) < 4 * np.sqrt(4 / 45 / queries.centres.size)


def test_worst_errors_are_maxima_over_queries():
    errors = worst_errors([0.5, 0.01, 0.2], [0.4, 0.02, 0.2])
    assert errors.absolute == pytest.approx(0.1)
    assert errors.relative == pytest.approx(1.0)


def test_worst_relative_error_at_a_zero_answer():
    assert worst_errors([0.0], [0.0]).relative == 0.0
    assert worst_errors([0.0], [0.1]).relative == np.inf


def test_queries_cannot_be_changed():
    queries = random_queries(2, 2, sigma=1, generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        queries.centres[0] = 0


@pytest.mark.parametrize(
    ("centres", "weights", "sigma"),
    [
        (np.zeros((2, 3, 4)), np.zeros((2, 2)), 1.0),
        (np.zeros((2, 3)), np.zeros((2, 3)), 1.0),
        (np.zeros((2, 3, 4)), np.zeros((2, 3)), 0.0),
        (np.zeros((2, 3, 4)), np.zeros((2, 3)), float("nan")),
    ],
)
def test_ill_formed_queries_are_refused(centres, weights, sigma):
    with pytest.raises(PlanError):
        GaussianMixtureQueries(centres, weights, sigma)


def test_points_of_another_table_are_refused():
    queries = random_queries(2, 3, sigma=1, generator=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"\(rows, 3\)"):
        answers(queries, np.zeros((5, 2)))
    with pytest.raises(DataError, match="one per row"):
        answers(queries, np.zeros((5, 3)), weights=[1.0])
    with pytest.raises(DataError, match="same queries"):
        worst_errors([1.0], [1.0, 2.0])


def test_smoothness_norm_bound_at_the_paper_setting():
    assert smoothness_norm_bound(3.0, 9, [0.5, 0.5]) == 1.0
    assert smoothness_norm_bound(3.0, 9, [0.5, -1.5]) == 2.0
    assert smoothness_norm_bound(0.5, 2, [1.0]) == pytest.approx(np.sqrt(2) / 0.25)
    assert smoothness_norm_bound(1.0, 10, [1.0]) > 1
    with pytest.raises(PlanError):
        smoothness_norm_bound(0.0, 1, [1.0])
