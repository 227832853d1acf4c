"""Rows that differ more in length than the model's, to choose from.

Correlations that noise has shrunk, or that were never measured, make rows too much alike in length, and rows that are
hardly ever drawn cannot be chosen. So half of the rows to choose from may be stretched, in two ways:

    along   t = mean of x^2 moves with the scores z by about a . z, a = (mean x deviation) of each column:
            z + (k - 1) C a (a . z) / (a . C a), deviations set to 1 again
    scale   all scores of a row times exp(k g), g normal

How far in each is found step by step, as long as the released lengths then need much less choice. Ranks are taken
afterwards, so columns stay as they are. Only values are stretched: what tells levels and missing values keeps its law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.copula import nearest_correlation
from smoothsynth.synthesis.lengths import cosines, lengths_of
from smoothsynth.synthesis.maximum_entropy import fit_maximum_entropy
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.sample import generator as seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

_SIMULATED = 6000
# Steps from none to large; where pairs were measured there are fewer, for what noise may have hidden of them.
_ALONG, _SCALES = (1.0, 1.5, 2.5, 4.0), (0.0, 0.25, 0.5, 0.8)
_ALONG_MEASURED, _SCALES_MEASURED = _ALONG[:2], _SCALES[:3]
# A step further must make the choice so much less costly.
_LESS_COST = 0.03


@dataclass(frozen=True, slots=True)
class Stretch:
    """How one half of the rows is stretched: by `along` (1: not at all) and by `scale` (0: not at all)."""

    along: float = 1.0
    scale: float = 0.0

    def drawn(
        self,
        count: int,
        columns: Columns,
        correlation: Array,
        *,
        generator: np.random.Generator,  # noqa: TID251
    ) -> Array:
        """Draw scores with these correlations, every second one stretched."""
        normal = scores(count, columns.count, generator=generator)
        if self == Stretch():
            return correlated(normal, correlation)
        plain = correlated(normal[::2], correlation)
        other = correlated(normal[1::2], self._stretched(columns, correlation))
        other[:, _values(columns)] *= np.exp(self.scale * generator.standard_normal((len(other), 1)))
        return np.concatenate([plain, other])

    def plain(self, drawn: Array) -> Array:
        """Return those of drawn scores that are not stretched."""
        return drawn if self == Stretch() else drawn[: -(-len(drawn) // 2)]

    def _stretched(self, columns: Columns, correlation: Array) -> Array:
        along = np.where(_values(columns), columns.means() * columns.deviations(), 0.0)
        bent = correlation @ along
        length = max(float(along @ bent), 1e-12)
        return nearest_correlation(correlation + (self.along**2 - 1.0) * np.outer(bent, bent) / length)


def needed_stretch(columns: Columns, correlation: Array, noisy: NoisyMoments) -> Stretch:
    """Return the stretch after which rows need the least choice to have the noisy cosines; none if little helps."""

    def cost(stretch: Stretch) -> float:
        drawn = stretch.drawn(_SIMULATED, columns, correlation, generator=seeded(5))
        return _cost_of_choice(cosines(lengths_of(place(drawn, columns)), noisy), noisy)

    measured = not np.array_equal(correlation, np.eye(columns.count))
    ways = (_ALONG_MEASURED, _SCALES_MEASURED) if measured else (_ALONG, _SCALES)
    found, least = (0, 0), cost(Stretch())
    while True:
        steps = [(found[0] + 1, found[1]), (found[0], found[1] + 1)]
        tried = {
            (i, j): cost(Stretch(ways[0][i], ways[1][j])) for i, j in steps if i < len(ways[0]) and j < len(ways[1])
        }
        best = min(tried, key=lambda step: tried[step], default=found)
        if tried.get(best, least) >= least - _LESS_COST:
            return Stretch(ways[0][found[0]], ways[1][found[1]])
        found, least = best, tried[best]


def _values(columns: Columns) -> NDArray[np.bool_]:
    return ~np.isin(np.arange(columns.count), columns.groups.marks)


def _cost_of_choice(seen: Array, noisy: NoisyMoments) -> float:
    """Return KL(w || flat) + sum of ((E_w cosine - noisy) / noise)^2 / 2 at the weights w that make it least."""
    weights = fit_maximum_entropy(seen, noisy.values, scale=noisy.deviations).weights
    left = (weights @ seen - noisy.values) / noisy.deviations
    return float(np.sum(weights * np.log(np.maximum(weights * len(weights), 1e-300))) + 0.5 * np.sum(left**2))
