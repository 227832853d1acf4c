import math
from itertools import product

import numpy as np
import pytest
from benchmarks.accuracy import baselines
from benchmarks.accuracy.baselines import BASELINES, PRIVATE_BASELINES, bins, gaussian_rows, projected_histograms
from benchmarks.accuracy.metrics import correlation_error, wasserstein

from smoothsynth.accounting.charges import gaussian_multiplier


class Recorder:
    """A generator that remembers the scales of the noise that was drawn from it."""

    def __init__(self):
        self.rng, self.scales = np.random.default_rng(0), {"laplace": set(), "normal": set()}

    def __getattr__(self, name):
        draw = getattr(self.rng, name)
        if name not in self.scales:
            return draw

        def recorded(centre, scale, shape):
            self.scales[name].add(round(scale, 9))
            return draw(centre, scale, shape)

        return recorded


@pytest.fixture
def real():
    rng = np.random.default_rng(1)
    first = rng.beta(2, 8, 3000) * 2 - 1
    return np.column_stack([first, np.clip(-0.8 * first + 0.1 * rng.normal(size=3000), -1, 1)])


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_are_rows_of_the_cube(real, name):
    rows = BASELINES[name](real, np.random.default_rng(0))
    assert rows.shape[1] == 2
    assert np.abs(rows).max() <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", PRIVATE_BASELINES)
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_private_baselines_are_rows_of_the_cube(real, name, epsilon, delta):
    rows = PRIVATE_BASELINES[name](real, np.random.default_rng(0), epsilon=epsilon, delta=delta)
    assert rows.shape == real.shape
    assert np.abs(rows).max() <= 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", PRIVATE_BASELINES)
def test_private_baselines_come_near_with_a_large_budget(real, name, delta):
    rows = PRIVATE_BASELINES[name](real, np.random.default_rng(0), epsilon=1000.0, delta=delta)
    assert wasserstein(real, rows) < 0.05
    # Only the Gaussian knows of pairs: the correlation is nearly -1.
    assert (correlation_error(real, rows) < 0.1) is (name == "DP Gaussian")


@pytest.mark.parametrize("name", ["DP histograms, clipped", "DP histograms, projected"])
def test_histograms_draw_the_noise_of_two_counts_a_column(real, name):
    pure, approximate = Recorder(), Recorder()
    PRIVATE_BASELINES[name](real, pure, epsilon=0.5, delta=0.0)
    PRIVATE_BASELINES[name](real, approximate, epsilon=0.5, delta=1e-6)
    assert pure.scales == {"laplace": {2 * 2 / 0.5}, "normal": set()}
    assert approximate.scales["normal"] == {round(math.sqrt(4) * gaussian_multiplier(0.5, 1e-6), 9)}


def test_the_gaussian_draws_the_noise_of_its_two_halves(real):
    pure, approximate = Recorder(), Recorder()
    gaussian_rows(real, pure, epsilon=0.5, delta=0.0)
    gaussian_rows(real, approximate, epsilon=0.5, delta=1e-6)
    multiplier = gaussian_multiplier(0.5, 1e-6) * math.sqrt(2)
    assert pure.scales["laplace"] == {4 / 0.25, 3 / 0.25}
    # Scale 1 is that of the rows drawn in the end.
    assert approximate.scales["normal"] - {1} == {
        round(math.sqrt(8) * multiplier, 9),
        round(math.sqrt(5) * multiplier, 9),
    }


def test_every_entry_of_the_covariance_is_noisy_and_it_is_symmetric(real, monkeypatch):
    seen, root = [], baselines._root
    monkeypatch.setattr(baselines, "_root", lambda covariance, mean: seen.append(covariance) or root(covariance, mean))
    gaussian_rows(real, np.random.default_rng(0), epsilon=1.0, delta=1e-6)
    assert (seen[0] == seen[0].T).all()
    assert (np.abs(seen[0] - np.cov(real.T)) > 1e-6).all()


def test_projecting_beats_clipping_when_noise_is_large(real):
    clipped, projected = (
        np.mean([wasserstein(real, make(real, np.random.default_rng(i), epsilon=0.05, delta=0.0)) for i in range(5)])
        for make in (baselines.clipped_histograms, projected_histograms)
    )
    assert projected < 0.9 * clipped


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_sensitivity_of_the_products_holds_and_is_nearly_reached(d):
    points = np.array(list(product((-1.0, 0.0, 0.5, 1.0), repeat=d)))
    upper = points[:, np.triu_indices(d)[0]] * points[:, np.triu_indices(d)[1]]
    moves = upper[:, None, :] - upper[None, :, :]
    l1, l2 = np.abs(moves).sum(axis=2).max(), np.sqrt((moves**2).sum(axis=2).max())
    assert 0.8 * d * (d + 1) / 2 <= l1 <= d * (d + 1) / 2
    assert 0.8 * math.sqrt(d * d + d / 2) <= l2 <= math.sqrt(d * d + d / 2)


def test_projection_is_the_nearest_distribution():
    assert baselines.nearest_shares(np.array([0.5, 0.5, -1.0])) == pytest.approx([0.5, 0.5, 0.0])
    assert baselines.nearest_shares(np.array([1.2, 0.4])) == pytest.approx([0.9, 0.1])
    rng = np.random.default_rng(3)
    noisy = rng.normal(0.1, 0.5, 8)
    nearest = baselines.nearest_shares(noisy)
    for other in rng.dirichlet(np.ones(8), 200):
        assert np.linalg.norm(noisy - nearest) <= np.linalg.norm(noisy - other)


def test_clipping_noise_only_gives_even_shares():
    assert baselines._clip(np.array([-1.0, -2.0])) == pytest.approx([0.5, 0.5])
    assert baselines._clip(np.array([-1.0, 2.0, 2.0])) == pytest.approx([0.0, 0.5, 0.5])


def test_bins_come_from_public_facts_only(real):
    assert bins(10_000, deviation=100.0, factor=2.0) == 20
    assert bins(100, deviation=1e6, factor=2.0) == 2
    rows = projected_histograms(np.full_like(real, 0.3), np.random.default_rng(0), epsilon=1000.0, delta=0.0)
    assert np.ptp(rows) <= 2 / baselines.MOST_BINS + 1e-12
