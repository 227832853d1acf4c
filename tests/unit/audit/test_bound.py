import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from smoothsynth.audit.case import beta_tail, proportion_at_least, proportion_at_most

COUNTS = [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (1, 1_000), (999, 1_000), (123_456, 187_500), (7, 10**7)]
ALPHAS = [0.3, 0.05, 1e-3, 1e-8, 1e-12]


@pytest.mark.parametrize(("hits", "trials"), COUNTS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_clopper_pearson_as_scipy_has_it(hits, trials, alpha):
    lowest = stats.beta.ppf(alpha, hits, trials - hits + 1) if hits else 0.0
    highest = stats.beta.isf(alpha, hits + 1, trials - hits) if hits < trials else 1.0
    assert proportion_at_least(hits, trials, alpha=alpha) == pytest.approx(lowest, rel=1e-8, abs=1e-300)
    assert proportion_at_most(hits, trials, alpha=alpha) == pytest.approx(highest, rel=1e-8)


@given(st.floats(1e-6, 1 - 1e-6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_beta_tail_as_scipy_has_it(x, a, b):
    assert beta_tail(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-7, abs=1e-13)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from(ALPHAS))
def test_bounds_enclose_the_share_and_mirror_each_other(counts, alpha):
    hits, trials = counts
    low, high = proportion_at_least(hits, trials, alpha=alpha), proportion_at_most(hits, trials, alpha=alpha)
    assert low <= hits / trials <= high
    assert 1.0 - high == pytest.approx(proportion_at_least(trials - hits, trials, alpha=alpha), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("n", "p"), [(20, 0.3), (20, 0.02), (200, 0.5)])
def test_too_high_a_bound_is_as_rare_as_promised(n, p):
    # Summed over all counts, not sampled: the chance that the bound is above p is at most alpha, and not far below.
    alpha = 0.05
    wrong = sum(stats.binom.pmf(k, n, p) for k in range(n + 1) if proportion_at_least(k, n, alpha=alpha) > p)
    below = sum(stats.binom.pmf(k, n, p) for k in range(n + 1) if proportion_at_most(k, n, alpha=alpha) < p)
    assert wrong <= alpha
    assert below <= alpha
    assert wrong + below > 0.0
