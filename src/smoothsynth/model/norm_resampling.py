"""Importance resampling of rows to the measured norms; proposal inflation.

Chosen rows, moved in or out until they are as short and as long as was measured.

Rows that are hardly ever drawn cannot be chosen: rows of a wide table are nearly alike in length, and where those that were
measured are not, the shortest and the longest stay missing. Kernels hang on just these. So where there is too little to
choose from, all values of a row are moved by a common factor, from its length to the one of the same rank that was measured.
Ranks are taken afterwards, so columns stay as they are.

Rows that differ more in length than the model's, to choose from.

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

from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.model.copula import nearest_correlation
from smoothsynth.model.row_norms import cosines, kept_share, lengths_of, mean_square, measured_lengths
from smoothsynth.model.sampling import correlated, place, scores
from smoothsynth.model.sampling import generator as seeded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


# Steps towards the lengths; the first goes most of the way, and is enough for tables that take long.
_ROUNDS, _MANY_ROWS = 3, 100_000
# So many candidates tell how far the lengths of rows may reach.
_LOOKED_AT = 6000
# Where no more than this share of the candidates beyond would have to be chosen, none is moved.
_ENOUGH = 0.3
# Below this part of the spread of lengths nothing is done.
_LITTLE = 0.005
# No row is moved by more than this factor at once.
_MOST_MOVED = 1.25
_TINY = 1e-6


def hold_lengths(chosen: Array, drawn: Array, stretch: Stretch, columns: Marginals, noisy: NoisyMoments) -> Array:
    """Return scores of rows that have the measured lengths, as far as those differ from the model's by more than noise.

    The model's are those of `drawn` that are not stretched. The mean length stays: it is known better by itself.
    """
    part = kept_share(place(_few(stretch.plain(drawn)), columns), noisy)
    if part == 0.0:
        return chosen
    candidates = place(_few(drawn), columns)
    levels = (np.arange(len(chosen)) + 0.5) / len(chosen)
    reached, ranks = measured_lengths(lengths_of(candidates), noisy)
    measured, rows = np.interp(levels, ranks, reached), place(chosen, columns)
    before = np.sort(mean_square(rows))
    lacking = _lacking(mean_square(candidates), measured, levels, _ENOUGH * len(drawn) / len(chosen))
    missing = part * lacking * (measured - before)
    if np.abs(missing).mean() < _LITTLE * before.std():
        return chosen
    wanted = before + missing - missing.mean()
    for step in range(_ROUNDS if len(rows) <= _MANY_ROWS else 1):
        rows = place(chosen, columns) if step else rows
        lengths = mean_square(rows)
        missing = np.empty(len(rows))
        missing[np.argsort(lengths)] = wanted - np.sort(lengths)
        chosen = _moved(chosen, rows, missing, columns)
    return chosen


def _few(drawn: Array) -> Array:
    return drawn[:: -(-len(drawn) // _LOOKED_AT)]


def _lacking(candidates: Array, measured: Array, levels: Array, plenty: float) -> Array:
    """Return where candidates are too few to be chosen: 1 beyond all of them, 0 where there is plenty."""
    below = np.searchsorted(np.sort(candidates), measured) / len(candidates)
    short = np.minimum(1.0, plenty * below / levels)
    long = np.minimum(1.0, plenty * (1.0 - below) / (1.0 - levels))
    return np.asarray(1.0 - np.where(levels < 0.5, short, long))


def _moved(chosen: Array, rows: Array, by: Array, columns: Marginals) -> Array:
    """Reorder the scores of each column as values would be ordered whose mean square over the row is larger by so much."""
    indicators = list(columns.groups.indicators)
    squares = np.sum(np.delete(rows, indicators, axis=1) ** 2, axis=1)
    factor = np.sqrt(np.maximum(1.0 + rows.shape[1] * by / np.maximum(squares, _TINY), _TINY))
    factor = np.clip(factor, 1.0 / _MOST_MOVED, _MOST_MOVED)
    hidden, moved = dict(columns.groups.missing), chosen.copy()
    for column in (c for c in range(rows.shape[1]) if c not in indicators):
        seen = np.flatnonzero(rows[:, hidden[column]] == 0.0) if column in hidden else np.arange(len(rows))
        order = seen[np.argsort(rows[seen, column] * factor[seen], kind="stable")]
        moved[order, column] = np.sort(chosen[seen, column])
    return moved


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
        columns: Marginals,
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

    def _stretched(self, columns: Marginals, correlation: Array) -> Array:
        along = np.where(_values(columns), columns.means() * columns.deviations(), 0.0)
        bent = correlation @ along
        length = max(float(along @ bent), 1e-12)
        return nearest_correlation(correlation + (self.along**2 - 1.0) * np.outer(bent, bent) / length)


def needed_stretch(columns: Marginals, correlation: Array, noisy: NoisyMoments) -> Stretch:
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


def _values(columns: Marginals) -> NDArray[np.bool_]:
    return ~np.isin(np.arange(columns.count), columns.groups.indicators)


def _cost_of_choice(seen: Array, noisy: NoisyMoments) -> float:
    """Return KL(w || flat) + sum of ((E_w cosine - noisy) / noise)^2 / 2 at the weights w that make it least."""
    weights = fit_maximum_entropy(seen, noisy.values, scale=noisy.deviations).weights
    left = (weights @ seen - noisy.values) / noisy.deviations
    return float(np.sum(weights * np.log(np.maximum(weights * len(weights), 1e-300))) + 0.5 * np.sum(left**2))
