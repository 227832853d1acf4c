"""Candidates drawn from a model of the noisy moments, so that weights only correct what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.candidates import Candidates
from smoothsynth.synthesis.fit import Fit
from smoothsynth.synthesis.independent import Marginals, fit_marginals, separable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.schema import Schema


def independent_columns(
    schema: Schema,
    moments: Sequence[NoisyMoments],
    count: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> tuple[Candidates, Fit]:
    """Draw independent columns whose densities are the flattest that agree with the noisy moments."""
    marginals = marginals_of(schema, moments)
    points = schema.snap(stratified_rows(marginals, count, generator=generator))
    flat = np.full(count, 1.0 / count)
    return Candidates(points, flat, "model"), _outcome(marginals, flat)


def _outcome(marginals: Marginals, weights: NDArray[np.float64]) -> Fit:
    words = (
        f"The densities of {len(marginals.values)} columns agree with the noisy moments "
        f"within their noise after {marginals.steps} Newton steps."
        if marginals.converged
        else f"The densities were not found to full accuracy in {marginals.steps} Newton steps; the rows are "
        "private all the same, but less accurate. Try fewer columns or a larger epsilon."
    )
    return Fit(
        weights=weights,
        method="maximum entropy",
        converged=marginals.converged,
        outcome=words,
        steps=marginals.steps,
        residual=marginals.decrement,
        dual=marginals.dual,
    )


def marginals_of(schema: Schema, moments: Sequence[NoisyMoments]) -> Marginals:
    """Fit one density for each coordinate to all moments that are sums over single coordinates."""
    chosen = [
        (feature, value, deviation)
        for noisy in moments
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        if separable(feature)
    ]
    features = [feature for feature, _, _ in chosen]
    values = np.array([value for _, value, _ in chosen])
    deviations = np.array([deviation for _, _, deviation in chosen])
    return fit_marginals(schema, features, values, deviations)


def stratified_rows(
    marginals: Marginals,
    count: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> NDArray[np.float64]:
    """Draw rows column by column from evenly spread quantiles in random order (a Latin hypercube).

    Each column then has its density almost exactly, whatever the number of rows.
    """
    rows = np.empty((count, len(marginals.values)))
    for coordinate in range(rows.shape[1]):
        levels = (np.arange(count) + generator.random(count)) / count
        rows[:, coordinate] = generator.permutation(marginals.quantiles(coordinate, levels))
    return rows
