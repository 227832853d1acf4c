"""Rounded Wishart matrices: intervals that contain the truth, and decisions that more digits do not change."""

import math
import secrets
from decimal import ROUND_UP, Decimal, Inexact, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.errors import BudgetError
from smoothsynth.private import noise
from smoothsynth.private.noise import Interval, UndecidedError, Uniform, _Arithmetic, _rounded, _square

pytestmark = pytest.mark.fresh_noise

LONG = 60
numbers = st.decimals(min_value="-1000", max_value="1000", allow_nan=False, places=12)
positive = st.decimals(min_value="0.000001", max_value="1000", allow_nan=False, places=12)
digits = st.integers(0, 10**LONG - 1)


def around(value):
    return Interval(value, value)


def fraction(interval):
    return Fraction(interval.low), Fraction(interval.high)


@given(numbers, numbers, st.integers(1, 8))
def test_products_contain_the_truth(a, b, precision):
    low, high = fraction(_Arithmetic(precision).times(around(a), around(b)))
    assert low <= Fraction(a) * Fraction(b) <= high
    assert high - low <= abs(Fraction(a) * Fraction(b)) / 10 ** (precision + 8)


@given(positive, positive, st.integers(1, 8))
def test_quotients_and_roots_contain_the_truth(a, b, precision):
    do = _Arithmetic(precision)
    low, high = fraction(do.over(around(a), around(b)))
    assert low <= Fraction(a) / Fraction(b) <= high
    low, high = fraction(do.root(around(a)))
    assert low**2 < Fraction(a) < high**2
    assert high - low <= low / 10**precision


@given(st.decimals(min_value="0.000001", max_value="0.999999", allow_nan=False, places=12), st.integers(1, 8))
def test_logarithms_contain_the_truth(a, precision):
    found = _Arithmetic(precision).log(around(a))
    with localcontext() as much:
        much.prec = 60
        true = -a.ln()
    assert found.low < true < found.high
    assert found.high - found.low <= true / 10**precision


@given(numbers, numbers, positive, positive)
def test_products_of_wide_intervals_contain_all_products(a, b, wide, wider):
    do = _Arithmetic(8)
    found = do.times(Interval(a, a + wide), Interval(b, b + wider))
    for x in (a, a + wide / 3, a + wide):
        for y in (b, b + wider / 3, b + wider):
            assert Fraction(found.low) <= Fraction(x) * Fraction(y) <= Fraction(found.high)


@pytest.mark.parametrize("bad", ["0", "-0.001"])
def test_what_may_be_zero_is_undecided(bad):
    do, unsure = _Arithmetic(8), Interval(Decimal(bad), Decimal("0.5"))
    for compute in (do.root, do.log, lambda a: do.over(around(Decimal(1)), a)):
        with pytest.raises(UndecidedError):
            compute(unsure)


@given(digits, st.integers(1, LONG - 1))
def test_further_digits_stay_within(drawn, known):
    short, whole = Uniform(drawn // 10 ** (LONG - known), known), Uniform(drawn, LONG)
    assert short.signed.low <= whole.signed.low < whole.signed.high <= short.signed.high
    assert short.longer(3, lambda bound: bound - 1) == Uniform(1000 * short.drawn + 999, known + 3)


@given(st.tuples(digits, digits), st.integers(1, LONG))
def test_squares_contain_the_truth(drawn, known):
    pair = tuple(Uniform(one // 10 ** (LONG - known), known) for one in drawn)
    low, high = _square(pair)
    true = sum((2 * Fraction(one, 10**LONG) - 1) ** 2 for one in drawn)
    assert Fraction(low, 10 ** (2 * known)) <= true <= Fraction(high, 10 ** (2 * known))


def points(drawn, places):
    """Return pairs of numbers of which so many digits are drawn, moved into the disc."""
    kept = [Uniform((10**LONG // 5 + 3 * one // 5) // 10 ** (LONG - places), places) for one in drawn]
    return list(zip(kept[::2], kept[1::2], strict=True))


def exactly(drawn, lines, scale):
    """Compute what `_rounded` rounds with twice as many digits, from the formulas and without intervals."""
    with localcontext() as much:
        much.prec = 2 * LONG
        normal = []
        for pair in points(drawn, LONG):
            u, v = (2 * Decimal(one.drawn) / Decimal(10) ** LONG - 1 for one in pair)
            q = u * u + v * v
            normal += [u * (-q.ln() / q).sqrt(), v * (-q.ln() / q).sqrt()]
        g, h = np.array(normal).reshape(2, lines, lines + 1)
        found = Decimal(scale) * (g @ g.T - h @ h.T)
        found[np.diag_indices(lines)] /= Decimal(2).sqrt()
        return [found[i, j] for i in range(lines) for j in range(i, lines)][1:]


@given(
    st.integers(1, 2).flatmap(
        lambda columns: st.lists(
            digits, min_size=2 * (columns + 1) * (columns + 2), max_size=2 * (columns + 1) * (columns + 2)
        )
    ),
    st.integers(2, 30),
    st.sampled_from([0.75, 1e4, 3.7e9]),
)
def test_a_decision_is_the_one_of_all_digits(drawn, known, scale):
    """Whatever is returned for the first digits is what many more of them give; if they do not suffice, it says so."""
    lines = 2 if len(drawn) == 12 else 3
    exact = exactly(drawn, lines, scale)
    try:
        early = _rounded(points(drawn, known), lines, scale)
    except UndecidedError:
        assert known < 24
        return
    assert early == [math.floor(one + Decimal("0.5")) for one in exact]


@pytest.mark.parametrize("columns", [1, 4, 9])
def test_the_matrix_is_the_one_that_the_formulas_give(columns):
    drawn = [int(one * 10**LONG) for one in np.random.default_rng(columns).random(2 * (columns + 1) * (columns + 2))]
    exact = exactly(drawn, columns + 1, 1e6)
    assert _rounded(points(drawn, LONG), columns + 1, 1e6) == [math.floor(one + Decimal("0.5")) for one in exact]


def test_more_digits_are_drawn_until_all_is_decided(monkeypatch):
    """With hardly a digit at first, and a generator that counts how often it is asked."""
    asked = []
    monkeypatch.setattr(noise, "_SPARE", -3)
    drawn = noise.draw_wishart(2, 1000.0, below=lambda bound: asked.append(bound) or secrets.randbelow(bound))
    assert len(drawn) == 5
    # Twelve points, each of them drawn at least once more.
    assert len(asked) >= 48


def test_what_a_program_sets_for_its_own_decimals_is_not_used():
    with localcontext() as own:
        own.prec, own.rounding = 3, ROUND_UP
        own.traps[Inexact] = True
        assert len(noise.add_wishart_noise([0] * 9, sensitivity=2**17, epsilon=0.5)) == 9


def test_noise_does_not_depend_on_the_sums(monkeypatch):
    monkeypatch.setattr(noise, "_draw_wishart", lambda count, scale: list(range(count)))
    assert noise.add_wishart_noise([5, 2**80], sensitivity=3, epsilon=1.0) == [5, 2**80 + 1]
    with pytest.raises(TypeError):
        noise.add_wishart_noise([0.5, 1], sensitivity=3, epsilon=1.0)


def test_scales_of_any_size():
    assert max(map(abs, noise.add_wishart_noise([0] * 5, sensitivity=1, epsilon=1e3))) < 100
    assert max(map(abs, noise.add_wishart_noise([0] * 5, sensitivity=2.0**1000, epsilon=1.0))) > 2**980


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_sums_that_are_no_triangle_are_refused(count):
    with pytest.raises(BudgetError, match="all means, squares and products"):
        noise.add_wishart_noise([0] * count, sensitivity=3, epsilon=1.0)
