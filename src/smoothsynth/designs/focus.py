"""How a budget is shared between what can be measured, and which way a user may lean."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Focus:
    """Shares of low moments, ranks, pairs and lengths; of ranks, lengths and pairs when pure; the weight of means by pairs.

    `waves` is the largest share of the shapes of pairs, which all others then give up alike.

    `mean_weight` is the square of the weight of the means beside the pairs, as a share of a row's largest squared length.
    """

    low: float
    ranks: float
    pairs: float
    lengths: float
    pure_ranks: float
    pure_lengths: float
    pure_pairs: float
    mean_weight: float
    waves: float


FOCUSES = {
    "balanced": Focus(0.12, 0.24, 0.47, 0.17, 0.25, 0.04, 0.27, 0.3, 0.06),
    "queries": Focus(0.12, 0.13, 0.60, 0.15, 0.0, 0.04, 0.30, 0.8, 0.06),
    "marginals": Focus(0.15, 0.55, 0.22, 0.08, 0.50, 0.04, 0.15, 0.3, 0.03),
    "correlations": Focus(0.10, 0.20, 0.64, 0.06, 0.25, 0.05, 0.40, 0.15, 0.03),
}
