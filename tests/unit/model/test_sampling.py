import numpy as np
import pytest

from smoothsynth.errors import PlanError
from smoothsynth.model.sampling import _ladder, generator, systematic


def test_a_seed_stands_for_one_sequence_and_none_for_fresh_entropy():
    assert generator(7).random(3).tobytes() == generator(7).random(3).tobytes()
    assert generator(7).random() != generator(8).random()
    assert generator(None).random() != generator(None).random()


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True])
def test_other_seeds_are_refused(seed):
    with pytest.raises(PlanError, match="seed must be"):
        generator(seed)


def test_the_expected_count_is_proportional_to_the_weight():
    weights = np.array([0.05, 0.0, 0.35, 0.6])
    rng = generator(1)
    counts = sum(np.bincount(systematic(weights, 7, generator=rng), minlength=4) for _ in range(4000))
    # A count differs from its mean by at most 1/2 in standard deviation; five standard errors.
    np.testing.assert_allclose(counts / 4000, 7 * weights, atol=5 * 0.5 / np.sqrt(4000))
    assert counts[1] == 0


def test_whole_counts_are_certain():
    chosen = systematic(np.full(49, 1 / 49), 49, generator=generator(2))
    np.testing.assert_array_equal(np.sort(chosen), np.arange(49))
    chosen = systematic(np.array([0.25, 0.5, 0.25]), 8, generator=generator(2))
    np.testing.assert_array_equal(np.bincount(chosen), [2, 4, 2])


def test_the_order_is_shuffled_and_seeded():
    weights = np.full(200, 1 / 200)
    first = systematic(weights, 200, generator=generator(3))
    assert (np.diff(first) < 0).sum() > 50
    np.testing.assert_array_equal(first, systematic(weights, 200, generator=generator(3)))
    assert (first != systematic(weights, 200, generator=generator(4))).any()


def test_any_run_of_candidates_is_off_by_less_than_one_row():
    weights = generator(5).dirichlet(np.full(300, 0.3))
    counts = np.bincount(systematic(weights, 1000, generator=generator(6)), minlength=300)
    ahead = np.cumsum(counts) - 1000 * np.cumsum(weights)
    assert ahead.max() - ahead.min() <= 1.0 + 1e-9


def test_rounding_never_picks_a_candidate_twice():
    # The rungs are a little less than 1 apart here, and the first candidate is longer than that.
    fractions = np.array([1 - 1e-12, 0.5, 0.5 - 1e-9])
    np.testing.assert_array_equal(_ladder(fractions, 2, offset=0.0), [0, 1])
    np.testing.assert_array_equal(_ladder(fractions[::-1], 2, offset=1 - 1e-16), [1, 2])


def test_no_rows_and_bad_input():
    assert systematic(np.array([1.0]), 0, generator=generator(1)).shape == (0,)
    for weights, rows in [
        (np.array([1.0]), -1),
        (np.array([-0.1, 1.1]), 5),
        (np.zeros(3), 5),
        (np.empty(0), 5),
        (np.array([np.nan, 1.0]), 5),
        (np.array([np.inf, 1.0]), 5),
        (np.eye(2), 5),
    ]:
        with pytest.raises(PlanError, match="must be"):
            systematic(weights, rows, generator=generator(1))
