"""The study mechanisms: exact without noise, better with more rows, private by their exact probabilities."""

import itertools
import math

import numpy as np
import pytest

from smoothsynth.errors import BudgetError, DataError, PlanError
from smoothsynth.paper.mechanisms import (
    Grid,
    chebyshev_coefficients,
    database_count,
    laplace_answers,
    multiplicative_weights,
    query_ranges,
    small_databases,
    synopsis,
    tensor_sensitivity,
)
from smoothsynth.paper.queries import answers, random_queries, values

HUGE = 1e9


def table(rows, dimensions, seed=0):
    return np.clip(np.random.default_rng(seed).normal(0.3, 0.3, (rows, dimensions)), -1, 1)


class TestGrid:
    def test_points_and_cells_agree(self):
        grid = Grid(4, 3)
        np.testing.assert_array_equal(grid.cells(grid.points()), np.arange(64))

    def test_a_row_goes_to_its_nearest_point(self):
        grid = Grid(5, 2)
        rows = table(200, 2)
        nearest = ((rows[:, None, :] - grid.points()[None]) ** 2).sum(axis=2).argmin(axis=1)
        np.testing.assert_array_equal(grid.cells(rows), nearest)

    def test_bounds_belong_to_the_outer_cells(self):
        assert Grid(3, 1).cells([[-1.0], [1.0]]).tolist() == [0, 2]

    def test_histogram_sums_to_one(self):
        histogram = Grid(3, 1).histogram([[-1.0], [1.0], [0.9], [0.0]])
        np.testing.assert_allclose(histogram, [0.25, 0.25, 0.5])

    def test_too_many_points_are_refused(self):
        with pytest.raises(PlanError, match=r"10\^7"):
            Grid(10, 7)


class TestLaplaceQueries:
    def test_scale_is_the_joint_sensitivity_over_epsilon(self):
        queries = random_queries(7, 2, sigma=1.0, generator=np.random.default_rng(1))
        noisy = laplace_answers(queries, table(50, 2), epsilon=0.5, generator=np.random.default_rng(2))
        assert noisy.scale == pytest.approx(query_ranges(queries).sum() / (50 * 0.5))

    def test_noise_has_the_claimed_scale(self):
        queries = random_queries(4000, 1, sigma=1.0, generator=np.random.default_rng(1))
        rows = table(10, 1)
        for delta, per_scale in ((0.0, math.sqrt(2)), (1e-6, 1.0)):
            noisy = laplace_answers(queries, rows, epsilon=1.0, delta=delta, generator=np.random.default_rng(2))
            spread = (noisy.values - answers(queries, rows)).std()
            assert spread == pytest.approx(noisy.scale * per_scale, rel=0.08)

    def test_gaussian_scale_meets_the_budget(self):
        queries = random_queries(7, 2, sigma=1.0, generator=np.random.default_rng(1))
        noisy = laplace_answers(queries, table(50, 2), epsilon=1.0, delta=1e-6, generator=np.random.default_rng(2))
        rho = (query_ranges(queries) ** 2).sum() / 50**2 / (2 * noisy.scale**2)
        assert rho + 2 * math.sqrt(rho * math.log(1e6)) == pytest.approx(1.0)

    def test_exact_when_epsilon_is_huge_and_better_with_rows(self):
        queries = random_queries(5, 2, sigma=1.0, generator=np.random.default_rng(1))
        rows = table(100, 2)
        noisy = laplace_answers(queries, rows, epsilon=HUGE, generator=np.random.default_rng(2))
        np.testing.assert_allclose(noisy.values, answers(queries, rows), atol=1e-8)
        more = laplace_answers(queries, table(1000, 2), epsilon=1.0, generator=np.random.default_rng(2))
        few = laplace_answers(queries, rows, epsilon=1.0, generator=np.random.default_rng(2))
        assert more.scale == pytest.approx(few.scale / 10)

    def test_refuses_no_budget(self):
        queries = random_queries(1, 1, sigma=1.0, generator=np.random.default_rng(1))
        with pytest.raises(BudgetError):
            laplace_answers(queries, [[0.0]], epsilon=0.0, generator=np.random.default_rng(2))


class TestSynopsis:
    def test_coefficients_of_a_known_polynomial(self):
        # x y^2 = T1(x) (T0(y) + T2(y)) / 2
        found = chebyshev_coefficients(lambda r: r[:, 0] * r[:, 1] ** 2, 2, degrees=4)
        expected = np.zeros((4, 4))
        expected[1, 0] = expected[1, 2] = 0.5
        np.testing.assert_allclose(found, expected, atol=1e-14)

    @pytest.mark.parametrize("dimensions", [1, 2, 3])
    def test_exact_without_noise_for_a_smooth_query(self, dimensions):
        queries = random_queries(1, dimensions, sigma=1.5, generator=np.random.default_rng(4))
        rows = table(300, dimensions)
        kept = synopsis(rows, degrees=12, epsilon=1e15, generator=np.random.default_rng(5))
        answer = kept.answer(lambda r: values(queries, r)[0])
        assert answer == pytest.approx(answers(queries, rows)[0], abs=1e-7)

    def test_error_falls_with_rows(self):
        queries = random_queries(1, 2, sigma=1.0, generator=np.random.default_rng(4))
        spread = {}
        for rows in (100, 10_000):
            data = table(rows, 2)
            truth = answers(queries, data)[0]
            generator = np.random.default_rng(6)
            draws = [synopsis(data, degrees=5, epsilon=1.0, generator=generator) for _ in range(60)]
            spread[rows] = np.std([d.answer(lambda r: values(queries, r)[0]) - truth for d in draws])
        assert 50 < spread[100] / spread[10_000] < 200

    @pytest.mark.parametrize(("degrees", "dimensions"), [(2, 1), (2, 3), (3, 1), (3, 2), (5, 2), (8, 1)])
    def test_sensitivity_is_attained_and_never_exceeded(self, degrees, dimensions):
        bound = tensor_sensitivity(degrees, dimensions)
        angles = np.linspace(0, np.pi, 2001)
        lowest = np.cos(angles[np.cos(np.outer(np.arange(degrees), angles)).sum(axis=0).argmin()])
        worst = np.ones(dimensions)
        worst[0] = lowest
        generator = np.random.default_rng(8)
        pairs = [(np.ones(dimensions), worst)]
        pairs += [tuple(generator.uniform(-1, 1, (2, dimensions))) for _ in range(300)]
        moves = [np.abs(tensor(x, degrees) - tensor(y, degrees)).sum() for x, y in pairs]
        assert max(moves) <= bound + 1e-9
        assert moves[0] == pytest.approx(bound, rel=1e-5)

    def test_known_sensitivities(self):
        assert tensor_sensitivity(2, 1) == pytest.approx(2.0)
        assert tensor_sensitivity(2, 4) == pytest.approx(16.0)
        assert tensor_sensitivity(3, 2) / 9 == pytest.approx(1.042, abs=5e-4)
        assert tensor_sensitivity(8, 2) / 64 == pytest.approx(1.144, abs=5e-4)
        assert tensor_sensitivity(1, 2) == 0.0

    def test_few_columns_only(self):
        with pytest.raises(DataError, match="few columns"):
            synopsis(np.zeros((5, 4)), degrees=2, epsilon=1.0, generator=np.random.default_rng(0))


def tensor(x, degrees):
    factors = [np.cos(np.arange(degrees) * np.arccos(v)) for v in x]
    product = factors[0]
    for factor in factors[1:]:
        product = np.multiply.outer(product, factor)
    return product.ravel()[1:]


class TestMultiplicativeWeights:
    def setup_method(self):
        self.grid = Grid(6, 2)
        self.rows = table(2000, 2)
        self.histogram = self.grid.histogram(self.rows)
        queries = random_queries(150, 2, sigma=0.3, generator=np.random.default_rng(9))
        self.queries = values(queries, self.grid.points())
        self.truth = self.queries @ self.histogram

    def run(self, **given):
        given = {"rows": 2000, "epsilon": HUGE, "threshold": 0.05} | given
        return multiplicative_weights(self.histogram, self.queries, generator=np.random.default_rng(10), **given)

    def test_every_answer_is_within_the_threshold_when_epsilon_is_huge(self):
        online = self.run()
        assert np.abs(online.values - self.truth).max() <= 0.05 + 1e-6
        assert online.updated.any()
        assert not online.updated.all()
        assert not online.exhausted
        assert online.hypothesis.sum() == pytest.approx(1.0)

    def test_the_uniform_guess_alone_is_worse(self):
        assert np.abs(self.queries.mean(axis=1) - self.truth).max() > 0.1

    def test_updates_are_spent_and_then_the_data_rest(self):
        online = self.run(updates=2)
        assert online.updated.sum() == 2
        assert online.exhausted
        last = np.flatnonzero(online.updated)[-1]
        np.testing.assert_allclose(online.values[last + 1 :], self.queries[last + 1 :] @ online.hypothesis, rtol=1e-12)

    def test_error_falls_with_rows(self):
        few = self.run(epsilon=1.0, rows=2000, updates=200)
        many = self.run(epsilon=1.0, rows=20_000_000, updates=200)
        assert not many.exhausted
        assert np.abs(many.values - self.truth).max() <= 0.05 + 1e-3
        assert np.abs(few.values - self.truth).max() > 0.2

    @pytest.mark.parametrize(("spent", "caught"), [(1.5, False), (6.0, True)])
    def test_output_frequencies_of_neighbours(self, spent, caught):
        # A single row, at a point where the only query is 0 or at the one where it is 1; the guess is 0.1.
        claimed, runs = 1.5, 4000
        query = np.eye(10)[9]
        generator = np.random.default_rng(13)
        seen = []
        for histogram in (np.eye(10)[0], query):
            online = [
                multiplicative_weights(
                    histogram,
                    [query, query],
                    rows=1,
                    epsilon=spent,
                    threshold=0.5,
                    updates=1,
                    generator=generator,
                )
                for _ in range(runs)
            ]
            seen.append(np.array([[~o.updated.any(), o.updated[0], o.values[0] > 1] for o in online]).mean(axis=0))
        ratio = np.abs(np.log(seen[0] / seen[1]))
        slack = 4 * np.sqrt(1 / (runs * seen[0]) + 1 / (runs * seen[1]))
        assert ((ratio - slack).max() > claimed) == caught

    def test_a_query_outside_the_unit_interval_is_refused(self):
        with pytest.raises(PlanError, match=r"\[0, 1\]"):
            multiplicative_weights(
                self.histogram,
                [2 * self.queries[0] + 1],
                rows=10,
                epsilon=1.0,
                threshold=0.1,
                generator=np.random.default_rng(0),
            )

    def test_a_histogram_that_does_not_sum_to_one_is_refused(self):
        with pytest.raises(DataError, match="sum to 1"):
            multiplicative_weights(
                [0.5, 0.6], [], rows=1, epsilon=1.0, threshold=0.1, generator=np.random.default_rng(0)
            )


class TestSmallDatabases:
    def test_count_of_databases(self):
        assert database_count(3, 2) == 6
        blr = small_databases([1.0, 0.0, 0.0], np.eye(3), rows=4, size=2, epsilon=1.0)
        assert sorted(map(tuple, blr.databases.tolist())) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
        assert blr.probabilities.sum() == pytest.approx(1.0)

    def test_the_best_database_is_certain_when_epsilon_is_huge(self):
        blr = small_databases([0.25, 0.0, 0.75], np.eye(3), rows=4, size=4, epsilon=HUGE)
        assert blr.draw(np.random.default_rng(0)).tolist() == [0, 2, 2, 2]

    @pytest.mark.parametrize("epsilon", [0.5, 2.0])
    def test_exact_privacy_of_all_neighbouring_tables(self, epsilon):
        rows, domain = 3, 3
        queries = np.random.default_rng(11).uniform(0, 1, (4, domain))
        queries[0] = [1.0, 0.0, 0.0]
        logs = {}
        for cells in itertools.product(range(domain), repeat=rows):
            histogram = np.bincount(cells, minlength=domain) / rows
            blr = small_databases(histogram, queries, rows=rows, size=3, epsilon=epsilon)
            logs[cells] = np.log(blr.probabilities)
        realised = max(
            np.abs(logs[a] - logs[b]).max()
            for a, b in itertools.combinations(logs, 2)
            if sum(x != y for x, y in zip(a, b, strict=True)) == 1
        )
        # Below the claim, and close enough to it that a mechanism with half the noise would be caught.
        assert 0.55 * epsilon < realised <= epsilon * (1 + 1e-12)

    def test_error_falls_with_rows(self):
        queries = np.random.default_rng(12).uniform(0, 1, (5, 4))
        histogram = np.array([0.1, 0.2, 0.3, 0.4])
        expected = []
        for rows in (10, 100, 1000):
            blr = small_databases(histogram, queries, rows=rows, size=10, epsilon=1.0)
            shares = np.array([np.bincount(y, minlength=4) / 10 for y in blr.databases])
            worst = np.abs(queries @ histogram[:, None] - queries @ shares.T).max(axis=0)
            expected.append(worst @ blr.probabilities)
        assert expected[0] > 2 * expected[1] > 4 * expected[2]

    def test_what_cannot_be_enumerated_is_refused_with_the_count(self):
        with pytest.raises(PlanError, match=r"about 10\^\d+\.\d of them"):
            small_databases(np.full(100, 0.01), np.ones((1, 100)), rows=10, size=2000, epsilon=1.0)
