"""Dependence under noise, spread over all columns or sparse: each is found, and nothing where there is nothing."""

import numpy as np
import pytest

from smoothsynth.model.copula import denoise, sparse, spread


def noise_of(rng, d):
    noise = np.triu(rng.normal(size=(d, d)), 1)
    return noise + noise.T


@pytest.mark.parametrize(("rank", "strength"), [(1, 3.0), (20, 3.0)])
def test_shrinking_beats_noise_whether_few_or_all_directions_carry_the_signal(rank, strength):
    rng, d = np.random.default_rng(3), 20
    off, errors = ~np.eye(d, dtype=bool), []
    for _ in range(10):
        factors = rng.normal(size=(d, rank))
        signal = factors @ factors.T * off
        signal *= strength / np.sqrt(np.mean(signal[off] ** 2))
        errors.append(np.mean((denoise(signal + noise_of(rng, d), 1.0) - signal)[off] ** 2))
    assert np.mean(errors) < (0.5 if rank == 1 else 0.97)
    assert np.abs(denoise(noise_of(rng, d), 1.0)).max() < 1.5


def scale_of(found, reading):
    """Return the one factor by which a reading was scaled."""
    scale = float(np.sum(found * reading) / np.sum(reading**2))
    np.testing.assert_allclose(found, scale * reading, rtol=1e-9, atol=1e-12)
    assert scale >= 1.0
    return scale


def pairs(d):
    """Return a matrix in which column 0 goes with 1, 2 with 3 and so on, and nothing with anything else."""
    signal = np.zeros((d, d))
    signal[np.arange(0, d, 2), np.arange(1, d, 2)] = 8.0
    return signal + signal.T


def test_pairs_that_no_eigenvalue_shows_are_found():
    d, rng = 100, np.random.default_rng(4)
    seen = pairs(d) + noise_of(rng, d)
    assert np.abs(spread(pairs(d), 1.0)).max() == 0.0  # 8 is below 2 sqrt(100)
    found = denoise(seen, 1.0)
    assert scale_of(found, sparse(seen, 1.0)) < 1.1
    assert np.abs(found - pairs(d))[pairs(d) > 0].max() < 4.0
    assert np.count_nonzero(found) < 1.1 * np.count_nonzero(pairs(d))


def test_a_factor_that_no_entry_shows_is_found():
    d, rng = 100, np.random.default_rng(5)
    seen = 0.8 * (1.0 - np.eye(d)) + noise_of(rng, d)
    found = denoise(seen, 1.0)
    assert scale_of(found, spread(seen, 1.0)) < 1.1
    assert found[np.triu_indices(d, 1)].mean() == pytest.approx(0.8, abs=0.1)


def test_noise_that_is_not_normal_is_not_split():
    d, rng = 100, np.random.default_rng(4)
    seen = pairs(d) + noise_of(rng, d)
    assert scale_of(denoise(seen, 1.0, mechanism="cube"), spread(seen, 1.0)) == pytest.approx(1.25)


def test_what_is_kept_is_as_large_as_the_signal():
    """Shrunk entries are too small together: 0.92 of the signal here, for all draws to the same side."""
    rng, d, sizes = np.random.default_rng(6), 60, []
    for _ in range(10):
        factors = rng.normal(size=(d, 8))
        signal = factors @ factors.T * ~np.eye(d, dtype=bool)
        signal *= 1.5 / np.sqrt(np.mean(signal**2))
        seen = signal + noise_of(rng, d)
        sizes.append(
            [np.linalg.norm(kept) / np.linalg.norm(signal) for kept in (spread(seen, 1.0), denoise(seen, 1.0))]
        )
    shrunk, scaled = np.mean(sizes, axis=0)
    assert shrunk < 0.95
    assert scaled == pytest.approx(1.0, abs=0.02)


def test_wishart_noise_alone_leaves_nothing():
    """Its spectrum is wider than that of normal entries, whose bound it passes in one of three draws of 40 columns."""
    d, kept = 40, {"discrete gaussian": 0, "wishart": 0}
    rng, size = np.random.default_rng(7), (2 * (d + 2)) ** -0.25
    for _ in range(60):
        g, h = rng.normal(size=(2, d + 1, d + 2)) * size
        seen = (g @ g.T - h @ h.T)[1:, 1:] * (1.0 - np.eye(d))
        for mechanism in kept:
            kept[mechanism] += bool(spread(seen, 1.0, mechanism).any())
    assert kept["discrete gaussian"] > 10
    assert kept["wishart"] <= 3
