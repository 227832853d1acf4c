"""The theorems in numbers, against the paper's Table 1 and the parameters of step 1."""

import math

import pytest

from smoothsynth.errors import BudgetError, PlanError
from smoothsynth.paper.printed import parameters
from smoothsynth.paper.theory import approximate_exponent, blr_exponent, minimax_exponent, pure_exponent, theory


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_table_1_of_the_paper(d):
    first, middle = (theory(1000, d, K, epsilon=1.0).rate("paper, pure") for K in (1, 2 * d))
    assert first.accuracy.exponent == pytest.approx(-1 / (2 * d + 1))
    assert first.time.exponent < 2
    assert first.size.exponent == pytest.approx(1 + 2 / (2 * d + 1))
    assert middle.accuracy.exponent == pytest.approx(-1 / 2)
    assert middle.time.exponent == pytest.approx(0.75 * d + 5 / 8)
    assert middle.size.exponent == pytest.approx(1.5 + 1 / (4 * d))


@pytest.mark.parametrize("M", [3, 10, 50])
def test_the_very_smooth_line_of_table_1_is_an_upper_bound(M):
    d = 4
    rate = theory(1000, d, M * d, epsilon=1.0).rate("paper, pure")
    assert -rate.accuracy.exponent >= 1 - 2 / M
    assert rate.time.exponent <= d * (1.5 - 1 / (2 * M))
    assert rate.size.exponent <= 2 - 1 / (2 * M)


def test_values_agree_with_step_1():
    n, d, K = 4096, 2, 2
    rate = theory(n, d, K, epsilon=0.5).rate("paper, pure")
    assert rate.accuracy.value == pytest.approx(2 * n ** (-1 / 3))
    assert parameters(n, d, order=K, epsilon=0.5).rows == round(rate.size.value)


def test_epsilon_delta_values():
    n, d, K, delta = 20000, 3, 6, 1e-10
    log, s = math.log(1e10), 21
    rate = theory(n, d, K, epsilon=1.0, delta=delta).rate("paper, (eps, delta)")
    assert rate.accuracy.value == pytest.approx(n ** (-12 / s) * log ** (6 / s))
    assert rate.time.value == pytest.approx(n ** (69 / s) * log ** (-69 / 42))
    assert rate.size.value == pytest.approx(n ** (38 / s) * log ** (-19 / s))


def test_printed_table_names_every_method():
    text = str(theory(20000, 3, 6, epsilon=1.0, delta=1e-10))
    for word in ("paper, pure", "paper, (eps, delta)", "BLR", "minimax", "super-exponential", "K = 2d = 6"):
        assert word in text
    assert "paper, (eps, delta)" not in str(theory(20000, 3, 6, epsilon=1.0))


def test_a_power_too_large_for_a_double_is_infinite():
    rate = theory(10**6, 300, 3000, epsilon=1.0).rate("paper, pure")
    assert rate.time.value == math.inf
    assert "super-exponential" not in str(rate.time)


def test_limits():
    assert pure_exponent(1, 10**6) == pytest.approx(1, abs=1e-5)
    assert approximate_exponent(1, 10**6) == pytest.approx(1, abs=1e-5)
    assert blr_exponent(1, 10**6) == pytest.approx(1 / 3, abs=1e-5)
    assert minimax_exponent(4, 2) == 0.5
    assert minimax_exponent(4, 9) == 1.0


def test_misuse():
    with pytest.raises(PlanError, match="found 1, 1 and 1"):
        theory(1, 1, 1, epsilon=1.0)
    with pytest.raises(BudgetError):
        theory(10, 1, 1, epsilon=-1.0)
    with pytest.raises(PlanError, match="must be one of"):
        theory(10, 1, 1, epsilon=1.0).rate("magic")
