"""benchmarks/accuracy/hierarchy.py: made-up codes of four tiers, and distances of a small table beside flat histograms."""

import numpy as np
from benchmarks.accuracy import hierarchy


def test_codes_have_four_tiers_and_a_release_beats_flat_histograms_of_them():
    rng = np.random.default_rng(0)
    codes = hierarchy.made_up(rng, 1.5, (10, 6, 5, 5))
    assert abs(codes.shares.sum() - 1.0) < 1e-9
    assert [len(nodes) for nodes in codes.column().hierarchy.nodes][::3] == [10, len(codes.names)]
    chapters, found, flat_chapters, flat_codes, *_ = hierarchy.distances(codes, 10_000, (0.5, 1e-6), rng)
    assert chapters < 3.0 * flat_chapters
    assert found < flat_codes
