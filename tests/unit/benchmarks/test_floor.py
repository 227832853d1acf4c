"""The noise of means alone: as large as the mechanisms say, and nothing else is changed about the rows."""

import numpy as np
import pytest
from benchmarks.accuracy.floor import Widths, _cube, _gaussian, floor

ROWS = np.clip(0.2 * np.random.default_rng(0).standard_t(2, (400, 5)), -1, 1)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rows_are_moved_as_a_whole_by_noise_and_by_what_the_cut_takes(share):
    rng = np.random.default_rng(1)
    moves = np.array([(_gaussian(ROWS, rng, 3.0, share) - ROWS) for _ in range(400)])
    assert np.ptp(moves, axis=1).max() < 1e-12
    around = ROWS - ROWS.mean(axis=0)
    lengths = np.linalg.norm(around, axis=1)
    longest = np.quantile(lengths, share)
    lost = -(around * np.minimum(1, longest / lengths)[:, None]).mean(axis=0)
    scale = 2 * longest * 3.0 / len(ROWS)
    np.testing.assert_allclose(moves[:, 0].mean(axis=0), -lost, atol=5 * scale / 20)
    np.testing.assert_allclose(moves[:, 0].std(axis=0), scale, rtol=0.2)


def test_the_cube_has_the_law_of_its_mechanism():
    rng = np.random.default_rng(2)
    moves = np.array([(_cube(ROWS, rng) - ROWS)[0] for _ in range(4000)])
    # E x^2 = E r^2 / 3,  r Gamma distributed with shape d + 1:  E r^2 = (d + 1)(d + 2) scale^2.
    np.testing.assert_allclose((moves**2).mean(axis=0), 6 * 7 * (2 / len(ROWS)) ** 2 / 3, rtol=0.15)


def test_the_better_mechanism_counts():
    judges = [Widths(ROWS, 50, np.random.default_rng(seed)) for seed in range(10)]
    pure, with_delta = (floor(ROWS, delta, judges, np.random.default_rng(4)) for delta in (0.0, 1e-2))
    assert np.all(with_delta < pure)
    assert np.all(judges[0](ROWS) < 1e-6)
