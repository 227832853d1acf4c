"""Rows from a copula: normal scores, and their ranks replaced by quantiles of each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]


def scores(count: int, dimensions: int, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Draw normal scores with mean exactly 0 and, where there are enough rows, covariance exactly the identity."""
    drawn = generator.standard_normal((count, dimensions))
    drawn -= drawn.mean(axis=0)
    if count <= 2 * dimensions:
        return drawn
    return np.asarray(np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / count), drawn.T).T)


def correlated(drawn: Array, correlation: Array) -> Array:
    """Give independent normal scores a correlation matrix."""
    return np.asarray(drawn @ np.linalg.cholesky(correlation).T)


def place(
    drawn: Array,
    columns: Columns,
    *,
    weights: Array | None = None,
    generator: np.random.Generator | None = None,  # noqa: TID251
) -> Array:
    """Replace the (weighted) ranks in every column of the scores by quantiles of that column.

    Each column then has its density almost exactly, whatever the number of rows (a Latin hypercube). Without a
    generator the middle of each rank is taken, with one a random point of it.
    """
    count = len(drawn)
    shares = np.full(count, 1.0 / count) if weights is None else weights
    rows = np.empty_like(drawn)
    for column in range(drawn.shape[1]):
        order = np.argsort(drawn[:, column])
        inside = 0.5 if generator is None else generator.random(count)
        levels = np.cumsum(shares[order]) - shares[order] * inside
        rows[order, column] = columns.quantiles(column, levels)
    return rows
