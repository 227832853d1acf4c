import math

import pytest
from scipy.stats import norm

from smoothsynth.accounting.charges import Charge, gaussian_delta, gaussian_epsilon, gaussian_multiplier
from smoothsynth.audit.case import Claim, claim_of
from smoothsynth.queries.measurement import charge_for


def charge(epsilon=None, multiplier=None):
    mechanism = "discrete laplace" if multiplier is None else "discrete gaussian"
    return charge_for("x", mechanism, sensitivity=100, coordinates=1, epsilon=epsilon, multiplier=multiplier)


def test_pure_claims_are_judged_by_the_ratio():
    assert Claim(1.0).shown(0.5, 0.1) == pytest.approx(math.log(5))
    assert Claim(1.0).shown(0.1, 0.5) == 0.0
    assert Claim(1.0, 0.1).shown(0.5, 0.1) == pytest.approx(math.log(4))
    assert Claim(1.0, 0.6).shown(0.5, 0.1) == 0.0


@pytest.mark.parametrize("cut", [-2.0, 0.0, 1.3])
def test_gaussian_claims_are_judged_by_the_distance_wherever_the_cut_is(cut):
    claim = Claim(1.0, 1e-6, gaussian_multiplier(1.0, 1e-6))
    exact = gaussian_epsilon(1 / 0.7, 1e-6)
    assert claim.shown(norm.sf(cut - 0.7), norm.sf(cut)) == pytest.approx(exact, rel=1e-6)
    assert claim.shown(norm.sf(cut), norm.sf(cut - 0.7)) == 0.0


def test_a_gaussian_that_keeps_its_claim_never_shows_more():
    multiplier = gaussian_multiplier(2.0, 1e-5)
    claim = Claim(2.0, 1e-5, multiplier)
    for cut in (-3.0, -1.0, 0.0, 0.5, 3.0):
        assert claim.shown(norm.sf(cut - 1 / multiplier), norm.sf(cut)) <= 2.0
        # The plain (epsilon, delta) reading of the same event is true as well, and weaker.
        plain = Claim(2.0, 1e-5).shown(norm.sf(cut - 1 / multiplier), norm.sf(cut))
        assert plain <= 2.0
        if plain > 0.1:
            assert norm.sf(cut - 1 / multiplier) <= math.exp(2.0) * norm.sf(cut) + gaussian_delta(multiplier, 2.0)


def test_charges_claim_what_the_ledger_adds_up():
    assert claim_of([], delta=1e-6) == Claim(0.0)
    # With a delta of its own it is no Gaussian noise at the other end of the curve.
    levels = Charge("levels", "stable gaussian histogram", "l2", 1.0, 4.0, 1, None, 3.0, 1e-7)
    assert claim_of([levels], delta=1e-6).multiplier is None
    assert claim_of([charge(0.5), charge(1.0)], delta=0.0) == Claim(1.5)
    both = claim_of([charge(0.5), charge(multiplier=3.0)], delta=1e-6)
    assert both.multiplier is None
    assert both.epsilon == pytest.approx(0.5 + gaussian_epsilon(3.0, 1e-6))
    gaussians = claim_of([charge(multiplier=3.0), charge(multiplier=4.0)], delta=1e-6)
    assert gaussians.multiplier == pytest.approx(2.4)
    assert gaussians.epsilon == pytest.approx(gaussian_epsilon(2.4, 1e-6))
