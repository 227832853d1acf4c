import math

import numpy as np
import pytest

from smoothsynth.accounting.charges import gaussian_epsilon
from smoothsynth.audit.case import CHOOSING, Claim, lower_bound


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def two_laplaces(rng, epsilon, trials):
    return rng.laplace(epsilon, 1.0, (trials, 1)), rng.laplace(0.0, 1.0, (trials, 1))


@pytest.mark.parametrize("swap", [False, True])
def test_comes_close_to_the_truth_from_below(rng, swap):
    first, second = two_laplaces(rng, 1.0, 200_000)
    pair = (second, first) if swap else (first, second)
    assert 0.93 < lower_bound(*pair, claim=Claim(1.0), alpha=1e-6) <= 1.0


def test_comes_close_to_the_truth_for_gaussians(rng):
    first, second = rng.normal(0.5, 1.0, (100_000, 1)), rng.normal(0.0, 1.0, (100_000, 1))
    exact = gaussian_epsilon(2.0, 1e-6)
    assert 0.85 * exact < lower_bound(first, second, claim=Claim(1.0, 1e-6, 2.0), alpha=1e-6) <= exact
    # Without the curve, events at delta = 1e-6 would have to be as rare as that.
    assert lower_bound(first, second, claim=Claim(1.0, 1e-6), alpha=1e-6) < 0.85 * exact


def test_finds_the_column_that_leaks(rng):
    first, second = rng.normal(size=(4_000, 30)), rng.normal(size=(4_000, 30))
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) < 0.1
    first[:, 17] += 3.0
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) > 2.0


def test_finds_codes_that_leak(rng):
    first, second = rng.integers(0, 16, (4_000, 40)), rng.integers(0, 16, (4_000, 40))
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) < 0.2
    first[:, 5] -= first[:, 5] % 2
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) > 4.0


def test_a_code_never_met_on_the_other_table_is_found_even_if_each_is_rare(rng):
    first, second = rng.integers(0, 10**9, (4_000, 1)), np.zeros((4_000, 1), dtype=np.int64)
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) > 4.0


def test_what_is_the_same_every_time_shows_as_much_as_the_trials_allow():
    first, second = np.zeros((1_000, 1)), np.ones((1_000, 1))
    counted = 1_000 * (1 - CHOOSING)
    expected = math.log((0.5e-6 ** (1 / counted)) / (1 - 0.5e-6 ** (1 / counted)))
    assert lower_bound(first, second, claim=Claim(1.0), alpha=1e-6) == pytest.approx(expected, rel=1e-6)
    assert lower_bound(first, first, claim=Claim(1.0), alpha=1e-6) == 0.0


def test_bounds_above_the_truth_are_as_rare_as_promised(rng):
    # Randomised response is exactly 1-private on both of its answers: no event has a smaller true ratio.
    p, alpha, wrong = math.e / (1 + math.e), 0.2, 0
    for _ in range(400):
        first, second = (rng.random((400, 1)) < p).astype(float), (rng.random((400, 1)) < 1 - p).astype(float)
        wrong += lower_bound(first, second, claim=Claim(1.0), alpha=alpha) > 1.0
    # 400 runs at 0.2 stay below 125 but with probability 1e-7; a bound that is no bound is wrong half the time.
    assert wrong < 125
    assert wrong > 0
