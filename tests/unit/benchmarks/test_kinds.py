"""The made-up tables of benchmarks/accuracy/kinds.py are what they are said to be, and its figures are ratios of errors."""

import numpy as np
import pytest
from benchmarks.accuracy import kinds
from benchmarks.accuracy.ratios import MEASURES


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_a_table_is_in_the_cube_and_drawn_from_its_seed(kind):
    one, same, other = (kinds.table_of(kind, 500, 6, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert one.shape == (500, 6)
    assert np.abs(one).max() <= 1.0
    assert not np.array_equal(one, other)


def test_kinds_are_what_they_are_said_to_be():
    def moment(kind, k):
        z = kinds.table_of(kind, 20_000, 6, seed=0)
        z = (z - z.mean(axis=0)) / z.std(axis=0)
        return np.mean(z**k, axis=0)

    assert np.abs(moment("normal", 4) - 3.0).max() < 0.5
    assert moment("skew", 3).min() > 1.0
    assert moment("heavy", 4).min() > 5.0
    assert np.mean(kinds.table_of("zeros", 20_000, 6, seed=0) == -0.8) == pytest.approx(0.69, abs=0.02)
    circle = kinds.table_of("ring", 20_000, 6, seed=0)[:, :2]
    assert np.abs(np.corrcoef(circle.T)[0, 1]) < 0.1
    assert np.corrcoef((circle**2).T)[0, 1] < -0.5


def test_the_figures_are_ratios_to_the_best_baseline_and_to_a_bootstrap(capsys):
    kinds.main(["--only", "normal", "--sizes", "400x3", "--delta", "1e-6", "--rounds", "1", "--queries", "20"])
    shown = capsys.readouterr().out
    assert "delta = 1e-06" in shown
    assert "400" in shown
    given = kinds.parse(["--epsilon", "50", "--rounds", "1", "--queries", "20"])
    best, chance = kinds.errors("normal", 4_000, 3, given, delta=1e-6)
    assert best.shape == chance.shape == (len(MEASURES),)
    assert np.all(chance < 5.0)
