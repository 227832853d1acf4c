import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from smoothsynth.accounting.charges import (
    Charge,
    compose,
    cube_scale,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_multiplier,
    gaussian_sigma,
    laplace_scale,
    split_epsilon,
    split_multiplier,
)
from smoothsynth.errors import BudgetError

# A shared machine may stall; the properties are about values, not time.
relaxed = settings(deadline=None)

epsilons = st.floats(1e-5, 100)
deltas = st.floats(-30, -0.1).map(lambda power: 10**power)
multipliers = st.floats(0.05, 1e4)
kinds = st.sampled_from([("cube", "linf"), ("discrete laplace", "l1"), ("discrete gaussian", "l2")])
sensitivities = st.one_of(st.integers(1, 2**80), st.floats(1e-3, 1e12))
shares = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8)


def gaussian(sensitivity, multiplier, coordinates=1):
    sigma = gaussian_sigma(sensitivity, multiplier)
    return Charge("sums", "discrete gaussian", "l2", sensitivity, sigma, coordinates, None, multiplier)


@st.composite
def charges(draw):
    sensitivity = draw(st.floats(1e-3, 1e12))
    count = draw(st.integers(1, 1000))
    mechanism, norm = draw(kinds)
    if norm == "l2":
        return gaussian(sensitivity, draw(st.floats(0.5, 100)), count)
    epsilon = draw(epsilons)
    scale = cube_scale(sensitivity, epsilon)
    return Charge("sums", mechanism, norm, sensitivity, scale, count, epsilon, None)


@relaxed
@given(sensitivity=sensitivities, epsilon=st.floats(1e-9, 1e9))
def test_pure_scales_are_the_least_floats_that_keep_the_promise(sensitivity, epsilon):
    scale = cube_scale(sensitivity, epsilon)
    assert scale == laplace_scale(sensitivity, epsilon)
    assert Fraction(sensitivity) <= Fraction(scale) * Fraction(epsilon)
    assert Fraction(sensitivity) > Fraction(math.nextafter(scale, 0)) * Fraction(epsilon)


@relaxed
@given(sensitivity=sensitivities, multiplier=multipliers)
def test_sigma_keeps_the_extra_variance_exactly(sensitivity, multiplier):
    needed = (Fraction(sensitivity) * Fraction(multiplier)) ** 2 + 4
    sigma = gaussian_sigma(sensitivity, multiplier)
    assert needed <= Fraction(sigma) ** 2 <= needed * (1 + Fraction(1, 10**15))


def integrated_delta(multiplier, epsilon):
    """Integrate the hockey stick without cancellation: int_0^inf (1 - e^(-2us)) phi(s + t - u) ds."""
    t, u = epsilon * multiplier, 0.5 / multiplier
    c = t - u

    def density(s):
        return -math.expm1(-2 * u * s) * math.exp(-((s + c) ** 2) / 2) / math.sqrt(2 * math.pi)

    steps = (-40, -8, -2, 0, 0.3, 2, 8, 40)
    knots = sorted({0.0, *(max(0.0, max(0.0, -c) + step / max(1.0, c)) for step in steps)})
    return sum(quad(density, *ends, epsabs=0, epsrel=1e-11)[0] for ends in pairwise(knots))


@relaxed
@given(epsilon=epsilons, threshold=st.floats(-10, 30))
def test_delta_is_just_above_the_integral(epsilon, threshold):
    """Delta is between 1 and some 1e-200 where epsilon m - 1 / (2 m), the threshold of the loss, is in this range."""
    multiplier = 1.0 / (math.sqrt(threshold**2 + 2.0 * epsilon) - threshold)
    truth = integrated_delta(multiplier, epsilon)
    assert truth * (1 - 1e-10) <= gaussian_delta(multiplier, epsilon) <= truth * (1 + 1e-4)


@relaxed
@given(epsilon=epsilons, delta=deltas)
def test_multiplier_suffices_is_tight_and_converts_back(epsilon, delta):
    multiplier = gaussian_multiplier(epsilon, delta)
    assert gaussian_delta(multiplier, epsilon) <= delta
    assert gaussian_delta(multiplier * (1 - 1e-6), epsilon) > delta
    assert gaussian_epsilon(multiplier, delta) <= epsilon


@relaxed
@given(multiplier=multipliers, epsilon=epsilons, factor=st.floats(1.001, 10))
def test_delta_falls_with_noise_and_with_epsilon(multiplier, epsilon, factor):
    delta = gaussian_delta(multiplier, epsilon)
    assert gaussian_delta(multiplier * factor, epsilon) <= delta
    assert gaussian_delta(multiplier, epsilon * factor) <= delta


@relaxed
@given(epsilon=epsilons, parts=shares)
def test_pure_shares_add_up_to_at_most_the_whole(epsilon, parts):
    split = split_epsilon(epsilon, parts)
    total = sum(Fraction(part) for part in split)
    assert Fraction(epsilon) * (1 - Fraction(1, 10**14)) <= total <= Fraction(epsilon)
    assert split == pytest.approx([epsilon * part / math.fsum(parts) for part in parts])


@relaxed
@given(epsilon=st.floats(1e-5, 50), delta=deltas, parts=shares)
def test_gaussian_shares_compose_to_at_most_the_whole(epsilon, delta, parts):
    split = split_multiplier(gaussian_multiplier(epsilon, delta), parts)
    total = compose([gaussian(1.0, part) for part in split], delta=delta)
    assert total.epsilon <= epsilon
    assert total.delta == delta


@relaxed
@given(few=st.lists(charges(), min_size=1, max_size=6), extra=charges(), delta=st.floats(1e-12, 1e-3))
def test_composition_ignores_order_and_grows(few, extra, delta):
    total = compose(few, delta=delta)
    assert compose(few[::-1], delta=delta) == total
    assert compose([*few, extra], delta=delta).epsilon >= total.epsilon * (1 - 1e-11)
    assert total.delta == (delta if any(charge.multiplier for charge in few) else 0.0)


@relaxed
@given(charge=charges())
def test_charges_survive_a_receipt_and_admit_no_smaller_noise(charge):
    assert Charge.from_dict(charge.as_dict()) == charge
    assert "one row replaced" in charge.sentence()
    with pytest.raises(BudgetError):
        replace(charge, scale=charge.scale * (1 - 1e-12))
