"""Rounded points of the ball mechanism: intervals that contain the truth, and decisions that more digits do not change."""

import math
import secrets
from decimal import ROUND_UP, Decimal, Inexact, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsynth.private import noise
from smoothsynth.private import noise as ball
from smoothsynth.private.noise import Interval, UndecidedError, Uniform, _Arithmetic, _rounded

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
def test_sums_and_products_contain_the_truth(a, b, precision):
    do = _Arithmetic(precision)
    for found, true in (
        (do.add(around(a), around(b)), Fraction(a) + Fraction(b)),
        (do.times(around(a), around(b)), Fraction(a) * Fraction(b)),
    ):
        low, high = fraction(found)
        assert low <= true <= high
        assert high - low <= abs(true) / 10 ** (precision + 8)


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


@pytest.mark.parametrize(
    ("low", "high", "nearest"), [("2.51", "3.49", 3), ("-2.49", "-1.51", -2), ("2.5", "2.5", 3), ("-0.5", "0.4", 0)]
)
def test_the_nearest_whole_number(low, high, nearest):
    assert _Arithmetic(8).nearest(Interval(Decimal(low), Decimal(high))) == nearest


@pytest.mark.parametrize(("low", "high"), [("2.49", "2.5"), ("-0.51", "-0.49"), ("2.4", "3.6")])
def test_no_number_is_nearest_to_both_ends(low, high):
    with pytest.raises(UndecidedError):
        _Arithmetic(8).nearest(Interval(Decimal(low), Decimal(high)))


def test_far_numbers_are_rounded_with_all_their_digits():
    # 40 digits, of which the context of a user's program keeps 28.
    far = Decimal("1234567890123456789012345678901234567890.4")
    assert _Arithmetic(50).nearest(around(far)) == 1234567890123456789012345678901234567890


@given(digits, st.integers(1, LONG - 1))
def test_further_digits_stay_within(drawn, known):
    short, whole = Uniform(drawn // 10 ** (LONG - known), known), Uniform(drawn, LONG)
    assert short.unit.low <= whole.unit.low < whole.unit.high <= short.unit.high
    assert short.signed.low <= whole.signed.low < whole.signed.high <= short.signed.high
    assert short.longer(3, lambda bound: bound - 1) == Uniform(1000 * short.drawn + 999, known + 3)


@given(
    st.lists(digits, min_size=9, max_size=9), st.integers(1, 3), st.integers(2, 30), st.sampled_from([0.75, 1e4, 3.7e9])
)
def test_a_decision_is_the_one_of_all_digits(drawn, pairs, known, scale):
    """Whatever is returned for the first digits is what many more of them give; if they do not suffice, it says so."""
    count = 2 * pairs - 1

    def of(places):
        kept = [Uniform(one // 10 ** (LONG - places), places) for one in drawn]
        turned = [(kept[2 * i], kept[2 * i + 1]) for i in range(pairs)]
        return _rounded(turned, kept[-count:], count, scale)

    do = _Arithmetic(LONG)
    if any(do.square((Uniform(drawn[2 * i], LONG), Uniform(drawn[2 * i + 1], LONG))).high >= 1 for i in range(pairs)):
        return
    try:
        early = of(known)
    except UndecidedError:
        return
    assert early == of(LONG)


def test_the_point_is_the_one_that_the_formulas_give():
    thousandth = 10 ** (LONG - 3)
    turned = [
        (Uniform(800 * thousandth, LONG), Uniform(300 * thousandth, LONG)),
        (Uniform(450 * thousandth, LONG), Uniform(700 * thousandth, LONG)),
    ]
    length = [Uniform(one * thousandth, LONG) for one in (120, 640, 330)]
    normal = []
    for u, v in ((0.6, -0.4), (-0.1, 0.4)):
        q = u * u + v * v
        normal += [u * math.sqrt(-math.log(q) / q), v * math.sqrt(-math.log(q) / q)]
    normal = normal[:3]
    size = 1e6 * -math.log(0.12 * 0.64 * 0.33) / math.sqrt(sum(one * one for one in normal))
    assert _rounded(turned, length, 3, 1e6) == [round(size * one) for one in normal]


def test_more_digits_are_drawn_until_all_is_decided(monkeypatch):
    """With hardly a digit at first, and a generator that counts how often it is asked."""
    asked = []
    monkeypatch.setattr(ball, "_SPARE", -3)
    drawn = ball.draw_ball(5, 1000.0, below=lambda bound: asked.append(bound) or secrets.randbelow(bound))
    assert len(drawn) == 5
    # Three pairs and five numbers, each of them drawn at least once more.
    assert len(asked) >= 22


def test_what_a_program_sets_for_its_own_decimals_is_not_used():
    with localcontext() as own:
        own.prec, own.rounding = 3, ROUND_UP
        own.traps[Inexact] = True
        assert len(noise.add_ball_noise([0] * 7, sensitivity=2**17, epsilon=0.5)) == 7


def test_noise_does_not_depend_on_the_sums(monkeypatch):
    monkeypatch.setattr(noise, "_draw_ball", lambda count, scale: list(range(count)))
    assert noise.add_ball_noise([5, -7, 2**80], sensitivity=3, epsilon=1.0) == [5, -6, 2**80 + 2]
    with pytest.raises(TypeError):
        noise.add_ball_noise([0.5], sensitivity=3, epsilon=1.0)


def test_scales_of_any_size():
    assert max(map(abs, noise.add_ball_noise([0] * 3, sensitivity=1, epsilon=1e3))) < 100
    assert max(map(abs, noise.add_ball_noise([0] * 3, sensitivity=2.0**1000, epsilon=1.0))) > 2**980
