"""Sensitivities and rates that the study mechanisms and the theory rest on."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsynth.paper.mechanisms import query_ranges, small_databases
from smoothsynth.paper.queries import GaussianMixtureQueries, values
from smoothsynth.paper.theory import approximate_exponent, blr_exponent, minimax_exponent, pure_exponent

sizes = st.integers(1, 60)
seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.floats(0.2, 6.0), st.integers(1, 4))
def test_no_query_moves_more_than_its_range(seed, sigma, dimensions):
    generator = np.random.default_rng(seed)
    centres = generator.uniform(-1.5, 1.5, (3, 4, dimensions))
    queries = GaussianMixtureQueries(centres, generator.uniform(-1, 1, (3, 4)), sigma)
    corners = np.sign(generator.uniform(-1, 1, (30, dimensions)))
    inside = np.clip(centres.reshape(-1, dimensions), -1, 1)
    found = values(queries, np.vstack([corners, inside, generator.uniform(-1, 1, (100, dimensions))]))
    assert (np.ptp(found, axis=1) <= query_ranges(queries) * (1 + 1e-9)).all()


@given(st.floats(0.2, 6.0), st.lists(st.floats(-1, 1), min_size=1, max_size=4))
def test_the_range_of_one_kernel_is_attained(sigma, centre):
    queries = GaussianMixtureQueries([[centre]], [[1.0]], sigma)
    farthest = -np.copysign(1.0, centre)
    found = values(queries, np.array([centre, farthest]))[0]
    np.testing.assert_allclose(found[0] - found[1], query_ranges(queries)[0], atol=1e-12)


@settings(max_examples=40)
@given(seeds, st.integers(2, 4), st.integers(1, 5), st.integers(1, 3), st.floats(0.1, 5.0))
def test_small_databases_are_private_for_random_queries(seed, domain, rows, size, epsilon):
    generator = np.random.default_rng(seed)
    queries = generator.uniform(-1, 1, (3, domain))
    cells = generator.integers(0, domain, rows)
    neighbour = cells.copy()
    neighbour[0] = (neighbour[0] + 1) % domain
    logs = [
        np.log(
            small_databases(
                np.bincount(c, minlength=domain) / rows, queries, rows=rows, size=size, epsilon=epsilon
            ).probabilities
        )
        for c in (cells, neighbour)
    ]
    assert np.abs(logs[0] - logs[1]).max() <= epsilon * (1 + 1e-9)


@given(sizes, sizes)
def test_rates_are_ordered(d, K):
    assert pure_exponent(d, K) < approximate_exponent(d, K) < 1
    assert approximate_exponent(d, K) < minimax_exponent(d, K) <= 1
    # The paper's rate beats BLR's exactly when K > d/2, which section 3.3 does not say.
    assert (pure_exponent(d, K) > blr_exponent(d, K)) == (d < 2 * K)
