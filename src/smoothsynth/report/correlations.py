"""The correlations of the synthetic rows, and the noise in what was measured of each pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.release import Release

# A correlation is told from noise if it is larger than this many standard deviations (95 %).
VISIBLE = 1.96


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Correlations of all pairs of columns, and the noise of each (infinite where the pair was not measured)."""

    values: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Whether a correlation stands above its noise."""
        return np.abs(self.values) > VISIBLE * self.noise

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Whether anything was measured of a pair."""
        return np.isfinite(self.noise)

    def strongest(self, count: int) -> list[tuple[int, int]]:
        """Return the pairs with the largest correlations, those above the noise first."""
        first, second = np.triu_indices(len(self.values), 1)
        size = np.abs(self.values[first, second]) + self.visible[first, second]
        order = np.argsort(-size, kind="stable")[:count]
        return [(int(first[k]), int(second[k])) for k in order]


def correlations(release: Release, coordinates: Sequence[int]) -> Correlations:
    """Return the correlations of some coordinates of the synthetic rows with their noise.

    A product y_i y_j measured with noise of deviation s, where y is the row as the measurement saw it, puts noise of
    deviation  s / (sd(y_i) sd(y_j))  on the correlation of columns i and j.
    """
    points, chosen = release.unit_rows(), np.asarray(coordinates, dtype=np.int64)
    noise = np.full((points.shape[1],) * 2, np.inf)
    for moments in release.moments:
        _lower(noise, moments, points)
    np.fill_diagonal(noise, 0.0)
    return Correlations(_correlation(points[:, chosen]), noise[np.ix_(chosen, chosen)])


def _lower(noise: NDArray[np.float64], moments: NoisyMoments, points: NDArray[np.float64]) -> None:
    view = moments.measurement.view
    pairs = [] if view is not None and not view.by_column else _pairs(moments)
    if not pairs:
        return
    spread = np.maximum((points if view is None else view.of(points)).std(axis=0), 1e-12)
    deviations = moments.deviations
    for r, i, j in pairs:
        noise[i, j] = noise[j, i] = min(noise[i, j], deviations[r] / (spread[i] * spread[j]))


def _pairs(moments: NoisyMoments) -> list[tuple[int, int, int]]:
    """List the features x_i x_j, as (feature, i, j)."""
    found = []
    for r, feature in enumerate(moments.features):
        term = feature.terms[0]
        if not feature.pooled and len(term) == 2 and all(degree == 1 for _, degree in term):
            found.append((r, term[0][0], term[1][0]))
    return found


def _correlation(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the correlation matrix; a column that does not vary has none, written as 0."""
    centred = points - points.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(length > 1e-12, length, np.inf)
    values = np.clip(scaled.T @ scaled, -1.0, 1.0)
    np.fill_diagonal(values, 1.0)
    return np.asarray(values)
