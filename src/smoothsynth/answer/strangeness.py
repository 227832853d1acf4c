"""How far pairs of columns are from a Gaussian copula, by the released products of their waves.

The synthetic rows have these products, as far as they are more than noise. Of other functions of two columns nothing was
released; but where the waves are those of a Gaussian copula, other functions mostly are too, and where they are not, others
may be as far from what is expected as they were.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.model.sampling import generator
from smoothsynth.queries.bases import WAVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.answer.knowledge import Stage

    Array = NDArray[np.float64]

# Rows that are set in a Gaussian copula: the error of an expected correlation is 0.01.
_ROWS = 8192
# A wave that is nearly constant in these rows counts as one with this variance.
_LEAST_VARIANCE = 1e-4


def pair_strangeness(stages: Sequence[Stage], points: Array) -> dict[frozenset[int], float]:
    """Return, for each pair of coordinates with released products of waves, how strange other functions of them may be.

        D^2 = max(mean of (r - e)^2 / v, mean of s^2 / v)

    r the released covariance of two waves and s^2 the variance of its noise, e the covariance expected in a Gaussian copula
    with the same columns and correlations, v the product of the variances of the two waves. So D is in units of a
    correlation, and never below what noise may hide.
    """
    found: dict[frozenset[int], list[tuple[float, float]]] = {}
    for stage in stages:
        view = stage.noisy.measurement.view
        if view is None or not view.waves:
            continue
        few = np.linspace(0, len(points) - 1, min(_ROWS, len(points))).astype(np.intp)
        waves = view.of(set_in_copula(points[few]))
        own, expected = waves.mean(axis=0), np.atleast_2d(np.cov(waves.T, bias=True))
        variances = np.maximum(np.diag(expected), _LEAST_VARIANCE)
        released = {
            tuple(WAVES * c + k - 1 for c, k in feature.terms[0]): (value, deviation**2)
            for feature, value, deviation in zip(stage.features, stage.values, stage.deviations, strict=True)
        }
        for used, (value, noise) in released.items():
            # The mean of a wave that was not released is taken from the rows.
            means = [released.get((wave,), (own[wave], 0.0)) for wave in used]
            if len(used) == 2:
                (one, of_one), (other, of_other) = means
                unit = float(np.prod(variances[list(used)]))
                gap = value - one * other - expected[used]
                whole = noise + one**2 * of_other + other**2 * of_one
                found.setdefault(frozenset(w // WAVES for w in used), []).append((gap**2 / unit, whole / unit))
    return {pair: float(np.sqrt(np.mean(parts, axis=0).max())) for pair, parts in found.items()}


def set_in_copula(rows: Array) -> Array:
    """Return the same columns, value by value, in other rows: a Gaussian copula with the correlations of their scores."""
    count, dimensions = rows.shape
    scores = np.array([NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)])
    draw = generator(0)
    # Values that are alike get their ranks by chance.
    orders = [np.lexsort((draw.random(count), column)) for column in rows.T]
    own = np.empty_like(rows)
    for c, order in enumerate(orders):
        own[order, c] = scores
    values, vectors = np.linalg.eigh(own.T @ own / count)
    drawn = np.stack([draw.permutation(scores) for _ in range(dimensions)], axis=1)
    mixed = drawn @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    placed = np.empty_like(rows)
    for c, order in enumerate(orders):
        placed[np.argsort(mixed[:, c], kind="stable"), c] = rows[order, c]
    return placed
