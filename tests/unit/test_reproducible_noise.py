"""What most tests draw has the law of the real noise, and depends on nothing but the name of the test or fixture."""

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from smoothsynth.accounting.charges import gaussian_sigma, laplace_scale, maxima_scale
from smoothsynth.model.sampling import generator
from smoothsynth.private import noise

DRAWS = 40_000
# The draws are the same in every run, so that this is no rate of false alarms.
IMPLAUSIBLE = 1e-4
WRONG = (1.1, 1 / 1.1)


def all_kinds():
    return [
        noise.add_laplace_noise([0] * 3, sensitivity=2**20, epsilon=1.0),
        noise.add_gaussian_noise([0] * 3, sensitivity=2**20, multiplier=1.0),
        noise.add_gaussian_noise([0] * 9, sensitivity=9, multiplier=9.0),
        noise.add_cube_noise([0] * 3, sensitivity=2**20, epsilon=1.0),
        noise.add_wishart_noise([0] * 5, sensitivity=2**20, epsilon=1.0),
        noise.noisy_maxima(12, sensitivity=2**20, multiplier=1.0)([0] * 12),
        generator(None).integers(2**60),
    ]


@pytest.fixture(scope="module")
def shared():
    return all_kinds()


def test_noise_is_that_of_the_name_of_the_test(request, noise_of):
    drawn = all_kinds()
    with noise_of(request.node.nodeid):
        assert all_kinds() == drawn
    with noise_of("another"):
        assert all(one != other for one, other in zip(all_kinds(), drawn, strict=True))


def test_what_tests_share_has_the_noise_of_its_own_name(request, shared, noise_of):
    with noise_of(f"{request.node.parent.nodeid} shared 0"):
        assert all_kinds() == shared


@pytest.mark.fresh_noise
def test_marked_tests_have_the_noise_of_the_operating_system(request, noise_of):
    drawn = all_kinds()
    with noise_of(request.node.nodeid):
        assert all(one != other for one, other in zip(all_kinds(), drawn, strict=True))


def plausible(draws, log_weight):
    """Compare whole numbers with the law exp(log_weight), by the cells that it gives 25 draws or more."""
    support = np.arange(-300, 301)
    weights = np.exp(log_weight(support.astype(float)))
    expected = DRAWS * weights / weights.sum()
    counts, often = np.bincount(np.array(draws) + 300, minlength=601), expected >= 25
    counts, expected = ([*cells[often], cells[~often].sum()] for cells in (counts, expected))
    return chisquare(counts, expected).pvalue > IMPLAUSIBLE


def test_laplace():
    draws = noise.add_laplace_noise([0] * DRAWS, sensitivity=4, epsilon=2.0)
    scale = laplace_scale(4, 2.0)
    assert plausible(draws, lambda z: -np.abs(z) / scale)
    assert not any(plausible(draws, lambda z, wrong=wrong: -np.abs(z) / (scale * wrong)) for wrong in WRONG)


def test_small_gaussian():
    draws = noise.add_gaussian_noise([0] * DRAWS, sensitivity=1, multiplier=0.5)
    sigma = gaussian_sigma(1, 0.5)
    assert plausible(draws, lambda z: -((z / sigma) ** 2) / 2)
    assert not any(plausible(draws, lambda z, wrong=wrong: -((z / sigma / wrong) ** 2) / 2) for wrong in WRONG)


def test_large_gaussian():
    ranks = norm(scale=gaussian_sigma(2**17, 6.0)).cdf(
        noise.add_gaussian_noise([0] * DRAWS, sensitivity=2**17, multiplier=6.0)
    )
    assert chisquare(np.histogram(ranks, np.linspace(0, 1, 41))[0]).pvalue > IMPLAUSIBLE


def test_maxima():
    scores, scale = [0, 3, 1, -2, 4], maxima_scale(1, 1.5, count=1)
    sampler = noise.noisy_maxima(1, sensitivity=1, multiplier=1.5)
    counts = np.bincount([sampler(scores)[0] for _ in range(DRAWS // 4)], minlength=5)
    weights = np.exp(np.array(scores) / scale)
    assert chisquare(counts, counts.sum() * weights / weights.sum()).pvalue > IMPLAUSIBLE
