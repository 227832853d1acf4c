"""The paper's mechanism as printed: its steps, its marks, and what it is good for."""

import dataclasses

import numpy as np
import pytest

from smoothsynth.errors import DataError, PlanError
from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.paper import NOT_PRIVATE
from smoothsynth.paper.printed import parameters
from smoothsynth.paper.queries import answers, random_queries, worst_errors
from smoothsynth.paper.reproduction import (
    Choices,
    Ellipsoid,
    accelerated,
    algorithm_1,
    printed_ellipsoid,
    scale_by_own_range,
)

HUGE = 1e12


def table(rows, dimensions, seed=0):
    generator = np.random.default_rng(seed)
    factors = generator.normal(0, 0.25, (rows, 1)) + generator.normal(0, 0.1, (rows, dimensions))
    return np.clip(factors + np.linspace(-0.5, 0.5, dimensions), -1, 1)


def generator():
    return np.random.default_rng(7)


class TestAlgorithm1:
    def test_rows_are_grid_points_and_as_many_as_printed(self):
        rows = table(600, 2)
        made = algorithm_1(rows, order=2, epsilon=1.0, generator=generator())
        p = parameters(600, 2, order=2, epsilon=1.0)
        assert made.rows.shape == (p.rows, 2)
        levels = ((made.rows + 1) * p.levels - 1) / 2
        np.testing.assert_allclose(levels, np.rint(levels), atol=1e-9)
        assert made.basis_count == p.degrees**2
        assert made.privacy == NOT_PRIVATE

    def test_the_optimum_is_that_of_the_listed_program(self):
        # The same steps written out: every grid point, every product, the constant in the objective.
        rows, order, epsilon = table(300, 2), 2, 0.3
        p = parameters(300, 2, order=order, epsilon=epsilon)
        made = algorithm_1(rows, order=order, epsilon=epsilon, generator=generator())
        axis = (2 * np.arange(p.levels) + 1 - p.levels) / p.levels
        points = np.array([[a, b] for a in axis for b in axis])
        degrees = [(i, j) for i in range(p.degrees) for j in range(p.degrees)]
        angles = np.arccos(points)
        features = np.array([np.cos(i * angles[:, 0]) * np.cos(j * angles[:, 1]) for i, j in degrees]).T
        snapped = ((rows[:, None] - points[None]) ** 2).sum(axis=2).argmin(axis=1)
        noise = generator().laplace(0, p.laplace_scale, (p.degrees, p.degrees)).ravel()
        target = np.clip(np.rint((features[snapped].mean(axis=0) + noise) * p.lattice) / p.lattice, -1, 1)
        rounded = np.rint(features * p.lattice) / p.lattice
        best = fit_linear_program(rounded, target).residual
        weights = np.zeros(len(points))
        nearest = ((made.support[:, None] - points[None]) ** 2).sum(axis=2).argmin(axis=1)
        weights[nearest] = made.weights
        assert np.abs(weights @ rounded - target).sum() == pytest.approx(best, abs=1e-7)

    def test_moments_are_met_without_noise(self):
        rows = table(3000, 2)
        made = algorithm_1(rows, order=2, epsilon=HUGE, generator=generator())
        p = parameters(3000, 2, order=2, epsilon=HUGE)
        weighted = made.weights @ made.support
        np.testing.assert_allclose(weighted, rows.mean(axis=0), atol=1 / p.levels + 2 / p.lattice)
        second = made.weights @ made.support**2
        np.testing.assert_allclose(second, (rows**2).mean(axis=0), atol=0.03)

    def test_noise_costs_accuracy(self):
        rows = table(500, 1)
        queries = random_queries(200, 1, sigma=1.0, generator=generator())
        truth = answers(queries, rows)
        worst = {}
        for epsilon in (0.02, HUGE):
            made = [
                algorithm_1(rows, order=2, epsilon=epsilon, generator=np.random.default_rng(seed)) for seed in range(5)
            ]
            worst[epsilon] = np.mean(
                [worst_errors(truth, answers(queries, m.support, weights=m.weights)).relative for m in made]
            )
        assert worst[HUGE] < 0.05 < worst[0.02]

    def test_many_columns_are_refused(self):
        with pytest.raises(PlanError, match="accelerated"):
            algorithm_1(table(500, 8), order=8, epsilon=1.0, generator=generator())


class TestAccelerated:
    @pytest.mark.parametrize("candidates", ["hypercube", "ellipsoid"])
    @pytest.mark.parametrize("delta", [0.0, 1e-10])
    def test_shape_and_marks(self, candidates, delta):
        made = accelerated(
            table(400, 6),
            sigma=2,
            candidates=candidates,
            delta=delta,
            choices=Choices(rank=2, candidates=300),
            generator=generator(),
        )
        assert made.rows.shape == (400, 6)
        assert np.abs(made.rows).max() <= 1
        assert made.privacy == NOT_PRIVATE
        assert len(made.weights) <= made.basis_count + 1
        assert made.weights.sum() == pytest.approx(1.0)

    def test_the_measured_means_are_met_without_noise(self):
        rows = table(2000, 4)
        choices = Choices(basis_count=4, candidates=2000)
        made = accelerated(rows, sigma=6, candidates="hypercube", epsilon=HUGE, choices=choices, generator=generator())
        assert made.basis_count == 4
        np.testing.assert_allclose(made.weights @ made.support, rows.mean(axis=0), atol=1e-7)

    def test_snapping_uses_the_levels_of_step_1(self):
        rows = table(400, 4)
        choices = Choices(snap=True, candidates=200)
        made = accelerated(rows, sigma=2, candidates="hypercube", choices=choices, generator=generator())
        levels = parameters(400, 4, order=4, epsilon=1.0).levels
        index = ((made.rows + 1) * levels - 1) / 2
        np.testing.assert_allclose(index, np.rint(index), atol=1e-9)

    def test_rows_outside_the_cube_are_refused_without_quoting_them(self):
        with pytest.raises(DataError) as caught:
            accelerated([[1234.5]], sigma=2, candidates="hypercube", generator=generator())
        assert "1234" not in str(caught.value)


class TestEllipsoid:
    def test_finds_the_top_directions_without_noise(self):
        rows = table(5000, 5)
        found = printed_ellipsoid(rows, rank=2, iterations=60, epsilon=HUGE, generator=generator())
        eigenvalues, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
        assert abs(found.directions[:, 0] @ vectors[:, -1]) > 0.999
        assert found.eigenvalues[0] == pytest.approx(eigenvalues[-1], rel=1e-6)
        np.testing.assert_allclose(found.directions.T @ found.directions, np.eye(2), atol=1e-12)

    def test_printed_laplace_noise_drowns_the_directions(self):
        rows = table(500, 20)
        _, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
        cosines = [
            printed_ellipsoid(
                rows, rank=2, iterations=3, epsilon=1.0, generator=np.random.default_rng(seed)
            ).directions[:, 0]
            @ vectors[:, -1]
            for seed in range(30)
        ]
        # Random directions in 20 dimensions have a mean squared cosine of 1/20.
        assert np.mean(np.square(cosines)) < 0.15

    def test_uniform_draws_have_covariance_lambda_over_k_plus_2(self):
        ellipsoid = Ellipsoid(np.zeros(3), np.eye(3), np.array([0.3, 0.2, 0.1]))
        points = ellipsoid.draw(200_000, generator=generator())
        np.testing.assert_allclose(points.var(axis=0), ellipsoid.eigenvalues / 5, rtol=0.02)

    def test_rank_beyond_the_columns_is_refused(self):
        with pytest.raises(PlanError):
            printed_ellipsoid(table(10, 2), rank=3, iterations=1, epsilon=1.0, generator=generator())


def test_own_range_fills_the_cube_and_constant_columns_are_zero():
    scaled = scale_by_own_range([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    np.testing.assert_allclose(scaled, [[-1, 0], [1, 0], [0, 0]])


def test_nothing_made_here_looks_like_a_release():
    made = accelerated(table(50, 2), sigma=2, candidates="hypercube", generator=generator())
    assert "receipt" not in {f.name for f in dataclasses.fields(made)}
