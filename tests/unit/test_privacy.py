import json
import math
from dataclasses import FrozenInstanceError, replace
from itertools import product
from statistics import NormalDist

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from smoothsynth.accounting.charges import (
    NEIGHBOURS,
    Budget,
    Charge,
    compose,
    cube_deviation,
    cube_scale,
    exceeding_probability,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_multiplier,
    gaussian_sigma,
    laplace_deviation,
    laplace_scale,
    split_epsilon,
    split_multiplier,
)
from smoothsynth.errors import BudgetError, PlanError

NOT_NUMBERS = [True, "1", None, math.nan, math.inf, -math.inf, 1j, 10**400]
NOT_POSITIVE = [*NOT_NUMBERS, 0, 0.0, -1.0]


def cube(epsilon=1.0, *, sensitivity=131072, coordinates=30):
    scale = cube_scale(sensitivity, epsilon)
    return Charge("means", "cube", "linf", sensitivity, scale, coordinates, epsilon, None)


def laplace(epsilon=1.0, *, sensitivity=400, coordinates=5):
    scale = laplace_scale(sensitivity, epsilon)
    return Charge("pairs", "discrete laplace", "l1", sensitivity, scale, coordinates, epsilon, None)


def gaussian(multiplier=6.0, *, sensitivity=700.5, coordinates=400):
    sigma = gaussian_sigma(sensitivity, multiplier)
    return Charge("pairs", "discrete gaussian", "l2", sensitivity, sigma, coordinates, None, multiplier)


class TestBudget:
    def test_is_pure_unless_delta_is_given(self):
        assert Budget(1) == Budget(1.0, 0.0)
        assert isinstance(Budget(np.int64(2)).epsilon, float)

    @pytest.mark.parametrize("epsilon", NOT_POSITIVE)
    def test_refuses_what_is_not_a_positive_epsilon(self, epsilon):
        with pytest.raises(BudgetError, match="epsilon must be"):
            Budget(epsilon)

    @pytest.mark.parametrize("delta", [*NOT_NUMBERS, -1e-12, 1.0, 2])
    def test_refuses_what_is_not_a_delta(self, delta):
        with pytest.raises(BudgetError, match="delta must be"):
            Budget(1.0, delta)

    def test_cannot_be_changed(self):
        with pytest.raises(FrozenInstanceError):
            Budget(1.0).epsilon = 2.0


class TestCharge:
    @pytest.mark.parametrize("charge", [cube(), laplace(), gaussian()])
    def test_survives_json(self, charge):
        text = json.dumps({**charge.as_dict(), "in_words": charge.sentence()})
        assert Charge.from_dict(json.loads(text)) == charge

    @pytest.mark.parametrize(
        ("charge", "words"),
        [
            (cube(0.5), ["means", "30 integer sums", "cube", "131072", "epsilon = 0.5 with delta = 0"]),
            (laplace(2.0, coordinates=1), ["1 integer sum ", "discrete laplace", "add up to at most 400"]),
            (gaussian(), ["discrete gaussian", "Euclidean", "700.5", "6 times that length"]),
        ],
    )
    def test_says_in_words_what_it_is(self, charge, words):
        sentence = charge.sentence()
        assert all(word in sentence for word in [*words, NEIGHBOURS, f"{charge.scale:.12g}"]), sentence

    @pytest.mark.parametrize("charge", [cube(0.3), laplace(0.7), gaussian(1.7)])
    def test_refuses_noise_that_does_not_cover_the_claim(self, charge):
        with pytest.raises(BudgetError, match="too small"):
            replace(charge, scale=math.nextafter(charge.scale, 0))
        claim = "multiplier" if charge.epsilon is None else "epsilon"
        factor = 1 + 1e-12 if charge.epsilon is None else 1 - 1e-12
        with pytest.raises(BudgetError, match="too small"):
            replace(charge, **{claim: getattr(charge, claim) * factor})

    @pytest.mark.parametrize(
        "change",
        [
            {"mechanism": "laplace"},
            {"norm": "l1"},
            {"coordinates": 0},
            {"coordinates": True},
            {"coordinates": 2.0},
            {"epsilon": None},
            {"epsilon": math.nan},
            {"multiplier": 2.0},
            {"sensitivity": 0},
            {"sensitivity": math.nan},
            {"scale": math.inf},
            {"scale": "1"},
        ],
    )
    def test_refuses_what_is_not_a_charge(self, change):
        with pytest.raises(BudgetError):
            replace(cube(), **change)

    def test_refuses_a_missing_field(self):
        fields = cube().as_dict()
        del fields["scale"]
        with pytest.raises(BudgetError, match="scale"):
            Charge.from_dict(fields)

    def test_knows_its_deviation(self):
        assert cube().deviation == cube_deviation(30, sensitivity=131072, epsilon=1.0)
        assert cube().deviation == pytest.approx(131072 * math.sqrt(31 * 32 / 3))
        assert laplace().deviation == laplace_deviation(sensitivity=400, epsilon=1.0)
        assert gaussian().deviation == gaussian_sigma(700.5, 6.0)


class TestScales:
    @pytest.mark.parametrize("bad", NOT_POSITIVE)
    def test_refuse_a_bad_sensitivity(self, bad):
        for calibrate in (cube_scale, laplace_scale, gaussian_sigma):
            with pytest.raises(PlanError, match="sensitivity must be"):
                calibrate(bad, 1.0)

    @pytest.mark.parametrize("bad", NOT_POSITIVE)
    def test_refuse_a_bad_budget(self, bad):
        for calibrate in (cube_scale, laplace_scale):
            with pytest.raises(BudgetError, match="epsilon must be"):
                calibrate(1, bad)
        with pytest.raises(PlanError, match="multiplier must be"):
            gaussian_sigma(1, bad)

    def test_refuse_noise_beyond_any_float(self):
        with pytest.raises(PlanError, match="larger epsilon"):
            cube_scale(1e300, 1e-300)

    def test_an_integer_too_long_for_a_float_is_not_rounded_down(self):
        assert cube_scale(2**53 + 1, 1.0) == 2.0**53 + 2
        assert cube_scale(np.int64(2**53 + 1), 1.0) == 2.0**53 + 2

    def test_cube_deviation_is_that_of_the_law(self):
        # P(K) ~ (2K+1)^R e^(-K/b) and Var z = E K(K+1)/3, summed directly.
        R, b = 6, 20.0
        K = np.arange(4000, dtype=float)
        weight = np.exp(R * np.log(2 * K + 1) - K / b)
        exact = math.sqrt((weight @ (K * (K + 1))) / weight.sum() / 3)
        assert cube_deviation(R, sensitivity=20, epsilon=1.0) == pytest.approx(exact, rel=1e-5)


class TestGaussian:
    def test_known_value(self):
        assert gaussian_multiplier(1.0, 1e-10) == pytest.approx(5.868, abs=5e-4)

    @pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0, 10.0])
    @pytest.mark.parametrize("delta", [1e-14, 1e-10, 1e-6, 1e-3, 0.1])
    def test_agrees_with_dp_accounting(self, epsilon, delta):
        theirs = dp_accounting.get_sigma_gaussian(epsilon, delta, tol=1e-14)
        ours = gaussian_multiplier(epsilon, delta)
        assert theirs * (1 + 1e-9) <= ours <= theirs * (1 + 1e-6)
        theirs = dp_accounting.get_epsilon_gaussian(ours, delta)
        assert theirs <= gaussian_epsilon(ours, delta) <= min(epsilon, theirs * (1 + 1e-6))

    @pytest.mark.parametrize("epsilon", [1e-7, 2e4])
    def test_refuses_an_epsilon_outside_its_proof(self, epsilon):
        with pytest.raises(BudgetError, match="epsilon for Gaussian noise"):
            gaussian_multiplier(epsilon, 1e-6)

    @pytest.mark.parametrize("delta", [0, 1e-301, 1, -1, math.nan])
    def test_refuses_a_delta_without_gaussian_noise(self, delta):
        for convert in (gaussian_multiplier, gaussian_epsilon):
            with pytest.raises(BudgetError, match="delta must be"):
                convert(1.0, delta)

    def test_extremes_stay_finite_and_conservative(self):
        assert gaussian_delta(1e-6, 1.0) == pytest.approx(1.0, abs=1e-6)
        assert 0 < gaussian_delta(1e300, 1.0) < 1e-300
        assert 0 < gaussian_delta(100.0, 1e4) < 1e-300
        with pytest.raises(BudgetError, match="larger multiplier"):
            gaussian_epsilon(1e-3, 1e-6)
        assert gaussian_epsilon(1e6, 0.5) == 1e-6


def discrete_gaussian_delta(sigma, *, shift, epsilon):
    """Sum the hockey-stick divergence of discrete Gaussians directly: P(z) against P(z - shift)."""
    line = np.arange(-int(30 * sigma) - 30, int(30 * sigma) + 31, dtype=float)
    grid = np.stack(np.meshgrid(*[line] * len(shift), indexing="ij"), axis=-1)
    probability = np.exp(-(grid**2).sum(-1) / (2 * sigma**2))
    probability /= probability.sum()
    loss = (((grid - np.array(shift)) ** 2).sum(-1) - (grid**2).sum(-1)) / (2 * sigma**2)
    return float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum())


class TestDiscreteGaussian:
    @pytest.mark.parametrize("shift", [(1,), (2,), (5,), (40,), (1, 1), (3, -2)])
    @pytest.mark.parametrize("multiplier", [0.3, 0.7, 1.0, 2.0])
    def test_true_delta_is_below_the_claim(self, shift, multiplier):
        length = math.hypot(*shift) * (1 + 1e-15)
        sigma = gaussian_sigma(length, multiplier)
        for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 5.0):
            true = discrete_gaussian_delta(sigma, shift=shift, epsilon=epsilon)
            assert true <= gaussian_delta(multiplier, epsilon) + 1e-14

    def test_without_the_extra_variance_the_claim_would_be_false(self):
        assert discrete_gaussian_delta(5.0, shift=(5,), epsilon=5.0) > 1.03 * gaussian_delta(1.0, 5.0)

    @pytest.mark.parametrize(("sensitivity", "multiplier"), [(1, 2.0), (10, 6.0), (3, 1.0)])
    def test_dp_accounting_agrees_on_the_discrete_law(self, sensitivity, multiplier):
        law = pld.from_discrete_gaussian_mechanism(gaussian_sigma(sensitivity, multiplier), sensitivity)
        for delta in (1e-8, 1e-4):
            assert law.get_epsilon_for_delta(delta) <= gaussian_epsilon(multiplier, delta) * (1 + 1e-3)

    def test_is_tighter_than_zcdp_and_not_by_much(self):
        from opendp import prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        noise = dp.m.make_gaussian(*space, scale=gaussian_sigma(1000.0, 6.145))
        theirs = dp.c.make_zCDP_to_approxDP(noise).map(1000.0).epsilon(1e-10)
        assert 0.9 * theirs < gaussian_epsilon(6.145, 1e-10) < theirs


class TestCompose:
    def test_pure_epsilons_add_up_and_spend_no_delta(self):
        assert compose([cube(0.5), laplace(0.25)], delta=1e-6) == Budget(0.75, 0.0)

    def test_rounds_up(self):
        total = compose([cube(0.1)] * 10, delta=0.0)
        assert total.epsilon > 1.0

    @pytest.mark.parametrize("multipliers", [(6.0,), (8.0, 9.0), (10.0, 12.0, 30.0), (2.0, 3.0), (1.0, 1.0)])
    @pytest.mark.parametrize("delta", [1e-9, 1e-5])
    def test_gaussians_agree_with_privacy_loss_distributions(self, multipliers, delta):
        ours = compose([gaussian(m) for m in multipliers], delta=delta)

        def accounted(*, pessimistic):
            laws = [pld.from_gaussian_mechanism(m, pessimistic_estimate=pessimistic) for m in multipliers]
            total = laws[0]
            for law in laws[1:]:
                total = total.compose(law)
            return total.get_epsilon_for_delta(delta)

        assert ours.delta == delta
        assert ours.epsilon >= accounted(pessimistic=False) * (1 - 1e-3)
        assert ours.epsilon <= accounted(pessimistic=True) * (1 + 1e-3)

    @pytest.mark.parametrize("multipliers", [(6.0,), (8.0, 9.0), (2.0, 3.0, 30.0)])
    def test_gaussians_cost_less_than_renyi_accounting_says(self, multipliers):
        accountant = RdpAccountant()
        for multiplier in multipliers:
            accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
        renyi = accountant.get_epsilon(1e-6)
        assert 0.8 * renyi < compose([gaussian(m) for m in multipliers], delta=1e-6).epsilon < renyi

    @pytest.mark.parametrize(("epsilon", "multiplier"), [(0.5, 6.0), (1.0, 2.0)])
    def test_both_kinds_are_bounded_by_the_sum(self, epsilon, multiplier):
        # One Laplace coordinate is the worst pure mechanism that dp_accounting describes.
        both = pld.from_gaussian_mechanism(multiplier, pessimistic_estimate=False).compose(
            pld.from_laplace_mechanism(1 / epsilon, pessimistic_estimate=False)
        )
        ours = compose([laplace(epsilon), gaussian(multiplier)], delta=1e-6)
        assert ours.epsilon == pytest.approx(epsilon + gaussian_epsilon(multiplier, 1e-6))
        assert 0.7 * ours.epsilon < both.get_epsilon_for_delta(1e-6) <= ours.epsilon

    def test_gaussian_noise_needs_delta(self):
        with pytest.raises(BudgetError, match="delta must be"):
            compose([cube(), gaussian()], delta=0.0)

    def test_needs_a_charge(self):
        with pytest.raises(BudgetError, match="at least one charge"):
            compose([], delta=0.0)


class TestSplit:
    def test_shares_of_a_whole_never_exceed_it(self):
        parts = split_epsilon(1.0, [0.1] * 10)
        assert compose([cube(part) for part in parts], delta=0.0).epsilon <= 1.0
        assert parts == pytest.approx([0.1] * 10, rel=1e-15)

    def test_gaussian_shares_are_shares_of_the_inverse_square(self):
        one, three = split_multiplier(6.0, [1, 3])
        assert (one, three) == pytest.approx((12.0, 6.0 / math.sqrt(0.75)))

    @pytest.mark.parametrize(("epsilon", "delta"), [*product([0.05, 1.0, 4.0], [1e-10, 1e-5])])
    def test_a_split_gaussian_composes_back(self, epsilon, delta):
        parts = split_multiplier(gaussian_multiplier(epsilon, delta), [0.6, 0.3, 0.1])
        total = compose([gaussian(part) for part in parts], delta=delta)
        assert epsilon * (1 - 1e-6) < total.epsilon <= epsilon

    @pytest.mark.parametrize("shares", [[1, 0], [1, -1], [math.nan], [True]])
    def test_refuses_what_is_not_a_share(self, shares):
        for split in (split_epsilon, split_multiplier):
            with pytest.raises(PlanError, match="a share must be"):
                split(1.0, shares)


class TestExceedingProbability:
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-10), (4.0, 1e-6)])
    def test_is_the_tail_of_the_loss_and_far_more_than_delta(self, epsilon, delta):
        multiplier = gaussian_multiplier(epsilon, delta)
        parts = split_multiplier(multiplier, [0.5, 0.3, 0.2])
        found = exceeding_probability([gaussian(m) for m in parts], epsilon)
        assert found == pytest.approx(NormalDist().cdf(0.5 / multiplier - epsilon * multiplier), rel=1e-6)
        assert 5 * delta < found < 400 * delta

    def test_counts_losses_that_were_drawn(self):
        multiplier, epsilon = 1.5, 0.7
        losses = np.random.default_rng(1).normal(0.5 / multiplier**2, 1 / multiplier, 400_000)
        found = exceeding_probability([gaussian(multiplier)], epsilon)
        assert found == pytest.approx(np.mean(losses > epsilon), rel=0.02)

    def test_is_zero_for_pure_noise_and_leaves_pure_epsilon_out(self):
        assert exceeding_probability([cube(0.5), laplace(0.5)], 1.0) == 0.0
        assert exceeding_probability([cube(0.5), gaussian(2.0)], 1.0) == exceeding_probability([gaussian(2.0)], 0.5)
