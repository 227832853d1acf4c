"""Simple tables to compare with: uniform rows, the mean row, a bootstrap, private histograms, a private Gaussian.

Study code: the private ones draw floating-point noise from numpy, which textbook proofs do not cover (Mironov 2012).
Their sensitivities are right for one replaced row, and every choice is made from n, d, epsilon and delta alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from smoothsynth.accounting.charges import gaussian_multiplier

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Points: TypeAlias = NDArray[np.float64]

# Bins are FACTOR sqrt(n / deviation of the noise). The factors did well on the data sets of this benchmark, which is
# more than a user could know: they favour the baseline.
CLIPPED_FACTOR, PROJECTED_FACTOR = 1.4, 2.0
MOST_BINS = 128


def uniform_rows(real: Points, rng: np.random.Generator) -> Points:
    """Draw rows uniformly from the cube: knows nothing of the data."""
    return rng.uniform(-1, 1, real.shape)


def mean_row(real: Points, _rng: np.random.Generator) -> Points:
    """Repeat the true mean row (not private): what knowing the means alone is worth."""
    return np.repeat(real.mean(axis=0, keepdims=True), 2, axis=0)


def bootstrap(real: Points, rng: np.random.Generator) -> Points:
    """Draw real rows with replacement (not private): the sampling error of a table of this size."""
    return real[rng.integers(0, len(real), len(real))]


def clipped_histograms(real: Points, rng: np.random.Generator, *, epsilon: float, delta: float) -> Points:
    """Draw each column by itself from a noisy histogram, its negative counts set to zero."""
    return _histograms(real, rng, epsilon=epsilon, delta=delta, factor=CLIPPED_FACTOR, repair=_clip)


def projected_histograms(real: Points, rng: np.random.Generator, *, epsilon: float, delta: float) -> Points:
    """Draw each column by itself from the distribution nearest to a noisy histogram: far better than clipping."""
    return _histograms(real, rng, epsilon=epsilon, delta=delta, factor=PROJECTED_FACTOR, repair=nearest_shares)


def gaussian_rows(real: Points, rng: np.random.Generator, *, epsilon: float, delta: float) -> Points:
    """Draw from a normal distribution with noisy mean and covariance, clipped to the cube; half the budget each.

    Sums when a row of the cube is replaced, with u = x - x', v = x + x', |u_i| + |v_i| <= 2:

        sum x         L1 <= 2 d               L2 <= 2 sqrt(d)
        sum x_i x_j   L1 <= d (d + 1) / 2     L2 <= sqrt(d^2 + d / 2)      (i <= j)

    as x x^T - x' x'^T = (u v^T + v u^T) / 2 has entries that add up to at most |u|_1 |v|_1 <= d^2, those of its
    diagonal to at most d, and its Frobenius norm is at most sqrt(2) d.
    """
    n, d = real.shape
    budget = {"epsilon": epsilon, "delta": delta, "share": 0.5}
    first = deviation_of(l1=2 * d, l2=2 * math.sqrt(d), **budget)
    second = deviation_of(l1=d * (d + 1) / 2, l2=math.sqrt(d * d + d / 2), **budget)
    mean = np.clip(real.mean(axis=0) + noise_of(rng, d, deviation=first, delta=delta) / n, -1, 1)
    upper = np.triu(noise_of(rng, (d, d), deviation=second, delta=delta)) / n
    products = real.T @ real / n + upper + np.triu(upper, 1).T
    return np.clip(mean + rng.normal(0, 1, (n, d)) @ _root(products - np.outer(mean, mean), mean).T, -1, 1)


BASELINES: dict[str, Callable[[Points, np.random.Generator], Points]] = {
    "uniform rows": uniform_rows,
    "mean row (not private)": mean_row,
    "bootstrap (not private)": bootstrap,
}
PRIVATE_BASELINES: dict[str, Callable[..., Points]] = {
    "DP histograms, clipped": clipped_histograms,
    "DP histograms, projected": projected_histograms,
    "DP Gaussian": gaussian_rows,
}


def bins(rows: int, *, deviation: float, factor: float) -> int:
    """Return how many bins a histogram gets: few enough that an even share of the rows stands above the noise."""
    return int(np.clip(round(factor * math.sqrt(rows / deviation)), 2, MOST_BINS))


def _histograms(
    real: Points,
    rng: np.random.Generator,
    *,
    epsilon: float,
    delta: float,
    factor: float,
    repair: Callable[[Points], Points],
) -> Points:
    """Measure all columns together: a replaced row moves two counts of each by one, so L1 = 2 d, L2 = sqrt(2 d)."""
    n, d = real.shape
    deviation = deviation_of(l1=2 * d, l2=math.sqrt(2 * d), epsilon=epsilon, delta=delta)
    count = bins(n, deviation=deviation, factor=factor)
    rows = np.empty((n, d))
    for column in range(d):
        counts = np.histogram(real[:, column], bins=count, range=(-1, 1))[0]
        shares = repair((counts + noise_of(rng, count, deviation=deviation, delta=delta)) / n)
        rows[:, column] = (rng.choice(count, size=n, p=shares) + rng.uniform(0, 1, n)) * 2 / count - 1
    return rows


def _clip(shares: Points) -> Points:
    positive = np.maximum(shares, 0)
    return positive / positive.sum() if positive.any() else np.full(len(shares), 1 / len(shares))


def nearest_shares(shares: Points) -> Points:
    """Return the nearest distribution, max(shares - t, 0) with t such that it sums to 1 (Duchi et al. 2008)."""
    falling = np.sort(shares)[::-1]
    levels = (np.cumsum(falling) - 1) / np.arange(1, len(shares) + 1)
    level = levels[np.flatnonzero(falling > levels)[-1]]
    nearest = np.maximum(shares - level, 0)
    return nearest / nearest.sum()


def _root(covariance: Points, mean: Points) -> Points:
    """Return a square root of the nearest covariance; a column of the cube has variance at most 1 - mean^2."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    variance = np.sum(root**2, axis=1)
    most = np.maximum(1 - mean**2, 0)
    return root * np.sqrt(np.minimum(1, most / np.maximum(variance, 1e-300)))[:, None]


def deviation_of(*, l1: float, l2: float, epsilon: float, delta: float, share: float = 1.0) -> float:
    """Return the standard deviation of the noise: Laplace if pure, else Gaussian; the shares of a budget add to 1."""
    if delta == 0:
        return math.sqrt(2) * l1 / (epsilon * share)
    return l2 * gaussian_multiplier(epsilon, delta) / math.sqrt(share)


def noise_of(rng: np.random.Generator, shape: int | tuple[int, int], *, deviation: float, delta: float) -> Points:
    return rng.laplace(0, deviation / math.sqrt(2), shape) if delta == 0 else rng.normal(0, deviation, shape)
