"""The noise has the law the proofs say, and the checks would notice if it had not.

Every check is a chi-square test of draws against the exact law. It refuses at p < 1e-7, computed from the
chi-square approximation with at least 25 expected draws in each cell, which keeps the true probability of
a false alarm below 1e-6. Beside every acceptance stand wrong claims that the same check must refuse on the
same draws.
"""

import inspect
import itertools
import math
import os
import random
import subprocess
import sys
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import chi2, gamma

from smoothsynth.accounting.charges import (
    cube_scale,
    gaussian_sigma,
    laplace_scale,
    maxima_scale,
    wishart_deviation,
    wishart_scale,
)
from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.private import noise
from smoothsynth.queries.sensitivity import matrix_of

FALSE_ALARM = 1e-7
FEWEST_EXPECTED = 25
WRONG = [1.3, 1 / 1.3]

pytestmark = pytest.mark.fresh_noise


def follows(counts, probabilities):
    """Accept counts per cell as draws from the probabilities; cells too rare for chi-square are pooled."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    rare = expected < FEWEST_EXPECTED
    counts, expected = (
        np.append(counts[~rare], counts[rare].sum()),
        np.append(expected[~rare], expected[rare].sum()),
    )
    if expected[-1] < FEWEST_EXPECTED:
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    assert len(counts) >= 10
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1) > FALSE_ALARM


def follows_law(draws, log_weight, *, reach):
    """Accept integers as draws from exp(log_weight) on {-reach..reach}; beyond it nothing is likely."""
    support = np.arange(-reach, reach + 1)
    weights = np.exp(log_weight(support.astype(float)))
    tally = Counter(draws)
    assert all(abs(draw) <= reach for draw in tally)
    return follows([tally[z] for z in support.tolist()], weights / weights.sum())


def follows_distribution(draws, distribution, *, width, cells=60):
    """Accept integers of any size by the distribution function at equally spaced cuts in units of `width`."""
    cuts = np.linspace(-4, 4, cells)
    below = np.concatenate([[0.0], [distribution(cut) for cut in cuts], [1.0]])
    counts, _ = np.histogram(np.array(draws, dtype=float) / width, bins=[-np.inf, *cuts, np.inf])
    return follows(counts, np.diff(below))


def laplace_follows(draws, scale):
    return follows_law(draws, lambda z: -np.abs(z) / scale, reach=300)


def gaussian_follows(draws, sigma):
    return follows_law(draws, lambda z: -(z**2) / (2 * sigma**2), reach=300)


def wide_laplace_follows(draws, scale):
    def distribution(x):
        return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)

    return follows_distribution(draws, distribution, width=scale)


def wide_gaussian_follows(draws, sigma):
    return follows_distribution(draws, lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), width=sigma)


def follows_on_the_plane(counts, weights):
    """Accept counts of lattice points; and of points up to signs and order, where a wrong shape shows with fewer draws."""
    far = np.abs(np.arange(len(counts)) - len(counts) // 2)
    alike = (np.maximum.outer(far, far) * len(counts) + np.minimum.outer(far, far)).ravel()
    counts, law = counts.ravel(), (weights / weights.sum()).ravel()
    return follows(counts, law) and follows(np.bincount(alike, counts), np.bincount(alike, law))


def cube_follows(vectors, scale):
    """Accept pairs as draws from exp(-|z|_inf / scale) on the plane, each lattice point a cell."""
    reach = 100
    line = np.abs(np.arange(-reach, reach + 1))
    weights = np.exp(-np.maximum(line[:, None], line[None, :]) / scale)
    counts = np.zeros_like(weights)
    np.add.at(counts, tuple(np.array(vectors).T + reach), 1)
    return follows_on_the_plane(counts, weights)


def largest_follows(vectors, scale):
    """Accept the largest magnitude of each vector: P(m) ~ ((2m+1)^R - (2m-1)^R) e^(-m / scale), P(0) ~ 1."""
    R = len(vectors[0])
    m = np.arange(1.0, 60 * scale * (R + 5))
    shells = R * np.log(2 * m + 1) + np.log(-np.expm1(R * np.log((2 * m - 1) / (2 * m + 1))))
    logs = np.concatenate([[0.0], shells - m / scale])
    weights = np.exp(logs - logs.max())
    tally = Counter(max(map(abs, z)) for z in vectors)
    assert max(tally) < len(weights)
    grouping = np.arange(len(weights)) // max(1, round(scale * math.sqrt(R) / 8))
    counts = np.bincount(grouping, [tally[k] for k in range(len(weights))])
    return follows(counts, np.bincount(grouping, weights / weights.sum()))


def wide_cube_follows(vectors, scale):
    """Accept vectors far above the lattice: |z|_inf / scale is Gamma(R), and the others uniform below it."""
    sizes = np.abs(np.array(vectors, dtype=float))
    largest = sizes.max(axis=1, keepdims=True)
    ranks = gamma(len(vectors[0])).cdf(largest / scale).ravel()
    others = (sizes / largest)[sizes < largest]
    cells = np.linspace(0, 1, 41)
    return all(follows(np.histogram(part, cells)[0], np.full(40, 1 / 40)) for part in (ranks, others))


@lru_cache
def difference_of_gammas(shape, reach=60.0, steps=40_000):
    """Return the distribution function of X - Y, X and Y gamma numbers: by their densities on a grid, at its middles."""
    step = reach / steps
    weights = np.diff(gamma(shape).cdf(np.arange(steps + 1) * step))
    places = (np.arange(steps) + 0.5) * step
    return lru_cache(lambda x: float(gamma(shape).cdf(x + places) @ weights))


def turned(vectors, direction):
    """Return a' N a of each matrix N whose upper triangle vectors are, for a direction of its columns."""
    direction = np.array([0.0, *direction]) / np.linalg.norm(direction)
    return np.einsum("i,nij,j->n", direction, matrix_of(np.array(vectors, dtype=float)), direction)


def wishart_follows(vectors, scale, *, direction, trace=False):
    """Accept matrices by a'Na, which is  b (Gamma(n/2) - Gamma(n/2)), n = d + 2; or by their trace, of d times the shape."""
    d = len(direction)
    numbers = sum(turned(vectors, one) for one in np.eye(d)) if trace else turned(vectors, direction)
    law = difference_of_gammas((d if trace else 1) * (d + 2) / 2)
    # Cuts are at most four times the width away: four deviations.
    return follows_distribution(numbers, lambda x: law(2 * x), width=2 * scale, cells=24)


@pytest.fixture(scope="module")
def pairs():
    """Draw from the cube on two sums, scale 3: as often as every wrong claim needs to be refused by six deviations."""
    return [noise.add_cube_noise([0, 0], sensitivity=3, epsilon=1.0) for _ in range(10_000)]


class TestLaplace:
    # 60,000 draws: enough to refuse the bias of OpenDP before 0.14.2 (docs/proofs/discrete-laplace.md).
    def test_law_at_a_small_scale(self):
        draws = noise.add_laplace_noise([0] * 60_000, sensitivity=6, epsilon=2.0)
        assert laplace_follows(draws, 3.0)
        assert not any(laplace_follows(draws, 3.0 * wrong) for wrong in WRONG)

    def test_law_at_the_scale_of_the_lattice(self):
        scale = laplace_scale(2**17, 0.7)
        draws = noise.add_laplace_noise([0] * 20_000, sensitivity=2**17, epsilon=0.7)
        assert wide_laplace_follows(draws, scale)
        assert not any(wide_laplace_follows(draws, scale * wrong) for wrong in WRONG)

    def test_coordinates_are_uncorrelated(self):
        draws = np.array(noise.add_laplace_noise([0] * 60_000, sensitivity=2**17, epsilon=1.0), dtype=float)
        one, other = draws[::2], draws[1::2]
        # |r| sqrt(n) is standard normal: 5.4 has probability 7e-8.
        assert abs(np.corrcoef(one, other)[0, 1]) * math.sqrt(len(one)) < 5.4
        assert abs(np.corrcoef(np.abs(one), np.abs(other))[0, 1]) * math.sqrt(len(one)) < 5.4

    def test_magnitudes_beyond_the_threshold_are_redrawn_with_the_same_law(self, monkeypatch):
        monkeypatch.setattr(noise, "FAR", 4)
        draws = noise._draw_laplace(6_000, 3.0)
        assert max(draws) > 8
        assert laplace_follows(draws, 3.0)
        monkeypatch.setattr(noise, "_beyond", lambda far, _: int(math.copysign(4, far)))
        assert not laplace_follows(noise._draw_laplace(6_000, 3.0), 3.0)

    def test_noise_beyond_64_bits_is_exact(self):
        draws = noise.add_laplace_noise([0] * 6_000, sensitivity=2**62, epsilon=1.0)
        assert max(draws) > 2**64
        assert min(draws) < -(2**64)
        assert wide_laplace_follows(draws, 2.0**62)
        clamped = [max(-(2**63), min(2**63 - 1, draw)) for draw in draws]
        assert not wide_laplace_follows(clamped, 2.0**62)


class TestGaussian:
    @pytest.mark.parametrize(("sensitivity", "multiplier"), [(1, 1.5), (0.5, 1e-3)])
    def test_law_at_a_small_scale(self, sensitivity, multiplier):
        sigma = gaussian_sigma(sensitivity, multiplier)
        draws = noise.add_gaussian_noise([0] * 60_000, sensitivity=sensitivity, multiplier=multiplier)
        assert gaussian_follows(draws, sigma)
        assert not any(gaussian_follows(draws, sigma * wrong) for wrong in WRONG)

    def test_law_at_the_scale_of_the_lattice(self):
        sigma = gaussian_sigma(2**19 + 0.3, 5.868)
        draws = noise.add_gaussian_noise([0] * 20_000, sensitivity=2**19 + 0.3, multiplier=5.868)
        assert wide_gaussian_follows(draws, sigma)
        assert not any(wide_gaussian_follows(draws, sigma * wrong) for wrong in WRONG)
        assert not wide_laplace_follows(draws, sigma / math.sqrt(2))

    def test_coordinates_are_uncorrelated(self):
        draws = np.array(noise.add_gaussian_noise([0] * 40_000, sensitivity=2**17, multiplier=6.0), dtype=float)
        assert abs(np.corrcoef(draws[::2], draws[1::2])[0, 1]) * math.sqrt(20_000) < 5.4


def maxima_follow(named, scores, scale):
    """Accept orders of places as draws of the exponential mechanism, one place after the other."""
    orders = list(itertools.permutations(range(len(scores)), len(named[0])))
    weights = np.exp(np.array(scores) / scale)
    left = [[weights.sum() - sum(weights[list(order[:k])]) for k in range(len(order))] for order in orders]
    laws = [np.prod(weights[list(order)]) / np.prod(rest) for order, rest in zip(orders, left, strict=True)]
    tally = Counter(map(tuple, named))
    return follows([tally[order] for order in orders], laws)


class TestMaxima:
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("unit", [1, 2**17])
    def test_law(self, count, unit):
        scores = [unit * score for score in (0, 3, 1, -2, 4, 2, 0, 1, -1, 3, 5, 2)]
        sampler = noise.noisy_maxima(count, sensitivity=unit, multiplier=1.5)
        scale = maxima_scale(unit, 1.5, count=count)
        assert scale == pytest.approx(1.5 * unit * math.sqrt(count * math.pi / 2), rel=1e-6)
        named = [sampler(scores) for _ in range(8_000)]
        assert maxima_follow(named, scores, scale)
        assert not any(maxima_follow(named, scores, scale * wrong) for wrong in WRONG)

    def test_nothing_but_places_comes_out_and_none_twice(self):
        named = noise.noisy_maxima(5, sensitivity=2**17, multiplier=50.0)([2**40] * 3 + [0] * 9)
        assert len(set(named)) == 5
        assert set(map(type, named)) == {int}
        assert set(named) >= {0, 1, 2}

    def test_scales_beyond_what_the_sampler_takes_are_refused(self):
        with pytest.raises(PlanError, match="2\\^62"):
            noise.noisy_maxima(1, sensitivity=2**60, multiplier=50.0)


class TestCube:
    def test_joint_law(self, pairs):
        assert cube_follows(pairs, 3.0)
        assert not any(cube_follows(pairs, 3.0 * wrong) for wrong in WRONG)

    def test_largest_coordinate(self, pairs):
        assert largest_follows(pairs, 3.0)
        assert not any(largest_follows(pairs, 3.0 * wrong) for wrong in WRONG)

    def test_same_marginals_without_the_joint_law_are_refused(self, pairs):
        first, second = zip(*pairs, strict=True)
        independent = list(zip(first, second[1:] + second[:1], strict=True))
        assert not cube_follows(independent, 3.0)
        assert not largest_follows(independent, 3.0)

    def test_independent_laplace_of_the_same_variance_is_refused(self):
        # Var = b^2 (R+1)(R+2)/3 = 2 b'^2 with b = 3, R = 2.
        draws = noise._draw_laplace(40_000, 3.0 * math.sqrt(2))
        pairs = list(zip(draws[::2], draws[1::2], strict=True))
        assert np.std(draws) == pytest.approx(6.0, rel=0.05)
        assert not cube_follows(pairs, 3.0)
        assert not largest_follows(pairs, 3.0)

    def test_one_sum_is_discrete_laplace(self):
        draws = [noise.add_cube_noise([0], sensitivity=3, epsilon=1.0)[0] for _ in range(6_000)]
        assert laplace_follows(draws, 3.0)
        assert not any(laplace_follows(draws, 3.0 * wrong) for wrong in WRONG)

    def test_eight_sums(self):
        vectors = [noise.add_cube_noise([0] * 8, sensitivity=4, epsilon=0.5) for _ in range(3_000)]
        assert largest_follows(vectors, 8.0)
        assert not any(largest_follows(vectors, 8.0 * wrong) for wrong in WRONG)
        assert np.std(vectors) == pytest.approx(8 * math.sqrt(9 * 10 / 3), rel=0.1)

    def test_many_sums_at_the_scale_of_the_lattice(self):
        R, scale = 40, cube_scale(2**17, 0.7)
        vectors = [noise.add_cube_noise([0] * R, sensitivity=2**17, epsilon=0.7) for _ in range(1_500)]
        assert wide_cube_follows(vectors, scale)
        assert not any(wide_cube_follows(vectors, scale * wrong) for wrong in WRONG)
        draws = noise._draw_laplace(1_500 * R, scale * math.sqrt((R + 1) * (R + 2) / 6))
        assert not wide_cube_follows(np.reshape(draws, (1_500, R)).tolist(), scale)

    def test_geometric_draws_keep_zero_once(self):
        draws = noise._draw_geometric(20_000, 3.0)

        def geometric_follows(scale):
            q = math.exp(-1 / scale)
            tally = Counter(draws)
            return follows([tally[g] for g in range(400)], [(1 - q) * q**g for g in range(400)])

        assert len(draws) == 20_000
        assert min(draws) == 0
        assert geometric_follows(3.0)
        assert not any(geometric_follows(3.0 * wrong) for wrong in WRONG)
        magnitudes = Counter(map(abs, noise._draw_laplace(20_000, 3.0)))
        q = math.exp(-1 / 3)
        assert not follows([magnitudes[g] for g in range(400)], [(1 - q) * q**g for g in range(400)])


@pytest.fixture(scope="module")
def matrices():
    """Draw for two columns, far above the lattice."""
    return [noise.add_wishart_noise([0] * 5, sensitivity=2**17, epsilon=0.7) for _ in range(4_000)]


class TestWishart:
    @pytest.mark.parametrize("direction", [(1, 0), (0, 1), (1, 1), (3, -2)])
    def test_every_direction_has_the_difference_of_two_gamma_numbers(self, matrices, direction):
        scale = wishart_scale(2**17, 0.7)
        assert wishart_follows(matrices, scale, direction=direction)
        assert not any(wishart_follows(matrices, scale * wrong, direction=direction) for wrong in WRONG)

    def test_trace(self, matrices):
        scale = wishart_scale(2**17, 0.7)
        assert wishart_follows(matrices, scale, direction=(1, 1), trace=True)
        assert not any(wishart_follows(matrices, scale * wrong, direction=(1, 1), trace=True) for wrong in WRONG)

    def test_entries_off_the_diagonal_are_sums_of_laplace_numbers(self, matrices):
        # sum of n products of normal numbers less another: b/2 (Gamma(n) - Gamma(n)).
        scale, law = wishart_scale(2**17, 0.7), difference_of_gammas(4)
        for place in (0, 1, 3):
            numbers = [one[place] for one in matrices]
            assert follows_distribution(numbers, law, width=scale / 2, cells=40)
            assert not any(follows_distribution(numbers, law, width=scale / 2 * wrong, cells=40) for wrong in WRONG)

    def test_same_entries_without_the_joint_law_are_refused(self, matrices):
        apart = np.column_stack([np.roll(entry, 7 * k) for k, entry in enumerate(np.array(matrices, dtype=float).T)])
        scale = wishart_scale(2**17, 0.7)
        assert wishart_follows(apart, scale, direction=(1, 0))
        numbers, law = [z for one in ((1, 1), (1, -1)) for z in turned(apart, one)], difference_of_gammas(2)
        assert not follows_distribution(numbers, lambda x: law(2 * x), width=2 * scale, cells=24)

    @pytest.mark.parametrize("spare", [noise._SPARE, -1])
    def test_rounded_law_at_a_small_scale(self, monkeypatch, spare):
        """With hardly a digit at first most draws go on: what was decided before must not favour anything."""
        monkeypatch.setattr(noise, "_SPARE", spare)
        draws = [noise.add_wishart_noise([0, 0], sensitivity=3, epsilon=1.0) for _ in range(2_500)]
        for place, shape, width in ((0, 3, 1.5), (1, 1.5, 3 / math.sqrt(2))):
            law, tally = difference_of_gammas(shape), Counter(one[place] for one in draws)
            numbers = range(-40, 41)

            def accepted(width, law=law, tally=tally, numbers=numbers):
                shares = [law((z + 0.5) / width) - law((z - 0.5) / width) for z in numbers]
                return follows([tally[z] for z in numbers], shares)

            assert accepted(width)
            assert not any(accepted(width * wrong) for wrong in WRONG)

    def test_sums_are_uncorrelated_and_alike(self):
        d, epsilon = 6, 0.7
        vectors = np.array(
            [noise.add_wishart_noise([0] * 27, sensitivity=2**17, epsilon=epsilon) for _ in range(400)], dtype=float
        )
        deviation = wishart_deviation(27, sensitivity=2**17, epsilon=epsilon)
        assert deviation == pytest.approx(2**17 / epsilon * math.sqrt((d + 2) / 2))
        scaled = vectors / deviation
        assert np.std(scaled) == pytest.approx(1.0, rel=0.04)
        products = np.triu(scaled.T @ scaled / math.sqrt(len(scaled)), 1)
        # 351 numbers, nearly standard normal.
        assert np.abs(products).max() < 6.5

    def test_spectrum_is_wider_than_that_of_normal_entries(self):
        """Largest eigenvalue in deviations times sqrt(d), at d = 30: 2.19 +- 0.18 a draw; of normal entries 1.93 +- 0.11."""
        vectors = [noise.add_wishart_noise([0] * 495, sensitivity=2**17, epsilon=1.0) for _ in range(30)]
        matrix = matrix_of(np.array(vectors, dtype=float))[:, 1:, 1:]
        ends = np.abs(np.linalg.eigvalsh(matrix)).max(axis=1) / wishart_deviation(495, sensitivity=2**17, epsilon=1.0)
        assert np.mean(ends) / math.sqrt(30) == pytest.approx(2.19, abs=0.18)


class TestLowBits:
    @pytest.mark.parametrize(
        "draw",
        [
            lambda: noise.add_laplace_noise([0] * 40_000, sensitivity=2**17, epsilon=1.0),
            lambda: noise.add_gaussian_noise([0] * 40_000, sensitivity=2**17, multiplier=6.0),
            lambda: [z for _ in range(40) for z in noise.add_cube_noise([0] * 1000, sensitivity=2**17, epsilon=1.0)],
            lambda: [z for _ in range(30) for z in noise.add_wishart_noise([0] * 495, sensitivity=2**17, epsilon=1.0)],
        ],
        ids=["laplace", "gaussian", "cube", "wishart"],
    )
    def test_are_balanced(self, draw):
        draws = draw()
        low = Counter(z % 16 for z in draws)
        assert follows([low[k] for k in range(16)], np.full(16, 1 / 16))
        lost = Counter(2 * (z // 2) % 16 if k % 8 == 0 else z % 16 for k, z in enumerate(draws))
        assert not follows([lost[k] for k in range(16)], np.full(16, 1 / 16))


class TestEntropy:
    def test_nobody_can_seed_it(self):
        for name, function in inspect.getmembers(noise, inspect.isfunction):
            assert not {"seed", "rng", "generator"} & set(inspect.signature(function).parameters), name
        drawn = []
        for _ in range(2):
            random.seed(7)
            np.random.seed(7)
            drawn.append(
                (
                    noise.add_laplace_noise([0] * 4, sensitivity=2**40, epsilon=1.0),
                    noise.add_gaussian_noise([0] * 4, sensitivity=2**40, multiplier=1.0),
                    noise.add_cube_noise([0] * 4, sensitivity=2**40, epsilon=1.0),
                    noise.add_wishart_noise([0] * 5, sensitivity=2**40, epsilon=1.0),
                )
            )
        assert all(one != other for one, other in zip(*drawn, strict=True))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_forked_processes_draw_different_noise(self):
        script = """
import os
from smoothsynth.private import noise

def draw():
    laplace = noise.add_laplace_noise([0] * 3, sensitivity=2**40, epsilon=1.0)
    gaussian = noise.add_gaussian_noise([0] * 3, sensitivity=2**40, multiplier=1.0)
    cube = noise.add_cube_noise([0] * 3, sensitivity=2**40, epsilon=1.0)
    return [*laplace, *gaussian, *cube, *noise.add_wishart_noise([0] * 2, sensitivity=2**40, epsilon=1.0)]

draw()
for _ in range(3):
    child = os.fork()
    if child == 0:
        os.write(1, (" ".join(map(str, draw())) + "\\n").encode())
        os._exit(0)
    os.waitpid(child, 0)
os.write(1, (" ".join(map(str, draw())) + "\\n").encode())
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
        numbers = done.stdout.split()
        # 44 draws spread over 2^40: a coincidence has probability of about 1e-9.
        assert len(numbers) == len(set(numbers)) == 44


class TestInterface:
    def test_sums_may_have_any_size_and_stay_integers(self):
        sums = [10**40, -(10**40), 0]
        noisy = [
            noise.add_cube_noise(sums, sensitivity=2, epsilon=1.0),
            noise.add_laplace_noise(sums, sensitivity=2, epsilon=1.0),
            noise.add_wishart_noise([*sums, 5, 6], sensitivity=2, epsilon=1.0),
            noise.add_gaussian_noise(np.array([5, 6, 7]), sensitivity=2, multiplier=1.0),
        ]
        assert all(type(value) is int for values in noisy for value in values)
        # A magnitude of 2000 at scale 2 has probability below e^-900.
        assert all(abs(value - exact) < 2000 for value, exact in zip(noisy[0], sums, strict=True))

    def test_nothing_to_release_needs_no_noise(self):
        assert noise.add_cube_noise([], sensitivity=1, epsilon=1.0) == []
        assert noise.add_wishart_noise([], sensitivity=1, epsilon=1.0) == []
        assert noise.add_laplace_noise([], sensitivity=1, epsilon=1.0) == []
        assert noise.add_gaussian_noise([], sensitivity=1, multiplier=1.0) == []

    def test_refuses_sums_that_are_not_integers(self):
        with pytest.raises(TypeError) as caught:
            noise.add_laplace_noise([12345.678], sensitivity=1, epsilon=1.0)
        assert "12345" not in str(caught.value)

    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "2"])
    def test_refuses_bad_parameters(self, bad):
        for add in (noise.add_cube_noise, noise.add_wishart_noise, noise.add_laplace_noise):
            with pytest.raises(PlanError, match="sensitivity must be"):
                add([0, 0], sensitivity=bad, epsilon=1.0)
            with pytest.raises(BudgetError, match="epsilon must be"):
                add([0, 0], sensitivity=1, epsilon=bad)
        with pytest.raises(PlanError, match="sensitivity must be"):
            noise.add_gaussian_noise([0], sensitivity=bad, multiplier=1.0)
        with pytest.raises(PlanError, match="multiplier must be"):
            noise.add_gaussian_noise([0], sensitivity=1, multiplier=bad)

    def test_refuses_scales_beyond_the_samplers(self):
        for add in (noise.add_cube_noise, noise.add_laplace_noise):
            with pytest.raises(PlanError, match="2\\^62"):
                add([0], sensitivity=2**63, epsilon=1.0)
        with pytest.raises(PlanError, match="2\\^52"):
            noise.add_gaussian_noise([0], sensitivity=2**53, multiplier=1.0)

    def test_refuses_a_cube_that_would_take_forever(self):
        with pytest.raises(PlanError, match="finer lattice"):
            noise.add_cube_noise([0] * 17, sensitivity=2, epsilon=1.0)

    @pytest.mark.parametrize(
        ("found", "biased"), [("0.13.0", True), ("0.14.1", True), ("0.14.2", False), ("1.0", False)]
    )
    def test_refuses_the_biased_samplers_of_old_opendp(self, monkeypatch, found, biased):
        monkeypatch.setattr(noise, "version", lambda _: found)
        noise._laplace_sampler.cache_clear()
        if not biased:
            assert len(noise.add_laplace_noise([0], sensitivity=1, epsilon=1.0)) == 1
            return
        with pytest.raises(PlanError, match=r"0\.14\.2"):
            noise.add_laplace_noise([0], sensitivity=1, epsilon=1.0)

    def test_opendp_takes_the_scale_as_we_do(self):
        # OpenDP's own certificate for the scale we use, rounded up by it, is the epsilon we charge.
        for sensitivity, epsilon in ((2**17, 0.7), (3, 1 / 3), (10**6 + 1, 0.1)):
            certified = noise._laplace_sampler(laplace_scale(sensitivity, epsilon)).map(sensitivity)
            assert epsilon * (1 - 1e-15) <= certified <= math.nextafter(epsilon, math.inf)
        sigma = gaussian_sigma(700, 6.0)
        assert noise._gaussian_sampler(sigma).map(700.0) == pytest.approx(700**2 / (2 * sigma**2), rel=1e-12)
