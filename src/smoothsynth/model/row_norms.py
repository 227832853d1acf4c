"""Norms of whole rows: rows chosen by them, and columns scaled to them.

The lengths of rows: one number a row that every radial query depends on.

Measured are cosines of the rank of a row's mean square. What is known of them is put on rows that the model would produce,
seen through the same transformation, as maximum-entropy weights: so whatever the lengths are like (spread, few values, a
single one), the model is compared with the release on equal terms.

Importance resampling of rows to the measured norms; proposal inflation.

Rows that differ more in length than the model's, to choose from.

Where pairs were not measured, rows are too much alike in length, and rows that are hardly ever drawn cannot be chosen. So
half of the rows to choose from may be stretched, in two ways:

    along   t = mean of x^2 moves with the scores z by about a . z, a = (mean x deviation) of each column:
            z + (k - 1) C a (a . z) / (a . C a), deviations set to 1 again
    scale   all scores of a row times exp(k g), g normal

How far in each is found step by step, as long as the released lengths then need much less choice. Ranks are taken
afterwards, so columns stay as they are. Only values are stretched: what tells levels and missing values keeps its law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.model.sampling import correlated, nearest_correlation, place, scores, systematic
from smoothsynth.model.sampling import generator as seeded
from smoothsynth.model.scales import scaled
from smoothsynth.queries.bases import LATTICE, evaluate
from smoothsynth.queries.transformation import knot_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.model.scales import Known
    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


_SIMULATED = 6000
_ALIKE = 6
# The transformation reaches beyond the lengths that the model expects by a flat share. Noise in correlations makes rows too
# much alike in length, so what is learned starts from the model's lengths and a smaller flat share.
_FLAT_SHARE, _FLAT_LEFT = 0.1, 0.03
_FLAT = 400
# Weights are flattened until so large a share of the rows counts: else few rows would stand for all.
_LEAST_COUNTING = 0.1
# The root of 0 would stay 0, however often it is taken.
_TINY = 1e-300


def mean_square(rows: Array) -> Array:
    """Return the mean square t of each row, from 0 to 1."""
    return np.asarray(np.mean(rows**2, axis=1))


def lengths_of(rows: Array) -> Array:
    """Return the mean squares of rows in their order, neighbours put together: for where nothing but lengths matters."""
    found = np.sort(mean_square(rows))
    return found[: len(found) // _ALIKE * _ALIKE].reshape(-1, _ALIKE).mean(axis=1)


def expected_ranks(columns: Marginals, correlation: Array) -> Array:
    """Return the model's distribution function of t at the knots of a transformation, with a flat share around it."""
    found = np.sort(mean_square(place(_simulated(columns, correlation), columns)))
    low, high = _reach(found)
    places = (knot_places() + 1.0) / 2.0
    own = np.searchsorted(found, places, side="right") / len(found)
    flat = np.clip((places - low) / max(high - low, 1e-9), 0.0, 1.0)
    return np.asarray((1.0 - _FLAT_SHARE) * own + _FLAT_SHARE * flat)


def scale_to_lengths(
    columns: Marginals, correlation: Array, noisy: NoisyMoments, *, square: tuple[float, float] | None, known: Known
) -> Marginals:
    """Move all columns together until rows have the right mean square.

    That is the mean of the model's rows weighted by the noisy cosines; where one was released before, `square` with its
    noise, both count by what they are worth. `known` says what else may be wrong.
    """
    drawn = _simulated(columns, correlation)

    def found(lengths: Array) -> tuple[float, float]:
        seen, noise = _weighted_mean(lengths, noisy)
        return (seen, noise) if square is None else between(seen, noise, *square)

    def missing(now: Marginals) -> float:
        lengths = lengths_of(place(drawn, now))
        return found(lengths)[0] - float(lengths.mean())

    _, doubt = found(lengths_of(place(drawn, columns)))
    return scaled(columns, missing, known, doubt=doubt)


def between(found: float, noise: float, known: float, known_noise: float) -> tuple[float, float]:
    """Weigh two means of lengths by their variances, and say with what noise; a gap beyond it is an error of the first.

    Few cosines tell little of the tails that a mean hangs on.
    """
    variance = max(noise**2, (found - known) ** 2 - known_noise**2)
    both = known_noise**2 + variance
    return (found * known_noise**2 + known * variance) / both, known_noise * math.sqrt(variance / both)


def _reach(lengths: Array) -> tuple[float, float]:
    """Return an interval that reaches beyond the lengths on both sides by their own spread."""
    low, high = np.quantile(lengths, [0.005, 0.995])
    return float(max(2 * low - high, 0.0)), float(min(2 * high - low, 1.0))


def cosines(lengths: Array, noisy: NoisyMoments) -> Array:
    """Return what was measured of rows, for rows that have these mean squares."""
    transformation = noisy.measurement.transformation
    if transformation is None:
        raise ValueError("lengths are measured through a view")
    bent = transformation.bend(0, np.floor((2.0 * lengths - 1.0) * LATTICE)) / LATTICE
    return evaluate(noisy.features, bent[:, None])


def _weighted_mean(lengths: Array, noisy: NoisyMoments) -> tuple[float, float]:
    """Return the mean square of rows after the noisy cosines, and about its noise; the start has a flat share."""
    places = np.concatenate([lengths, np.linspace(*_reach(lengths), _FLAT)])
    base = np.repeat([(1.0 - _FLAT_LEFT) / len(lengths), _FLAT_LEFT / _FLAT], [len(lengths), _FLAT])
    weights = fit_maximum_entropy(cosines(places, noisy), noisy.values, scale=noisy.deviations, base=base).weights
    mean = float(weights @ places)
    # t = mean - sqrt(2) sd cos(pi F) and smaller terms, if normal.
    spread = math.sqrt(max(float(weights @ places**2) - mean**2, 0.0))
    return mean, math.sqrt(2.0) * spread * float(noisy.deviations[0])


def believed(rows: Array, noisy: NoisyMoments) -> Array:
    """Return the noisy cosines, as far as they differ from those of the model's rows by more than noise.

    Rows that are chosen by noise would lose the correlations they were drawn with.
    """
    own = noisy.measurement.evaluate(rows).mean(axis=0)
    return np.asarray(own + _kept_share(own, noisy) * (noisy.values - own))


def _kept_share(own: Array, noisy: NoisyMoments) -> float:
    size = float(np.sum(((noisy.values - own) / noisy.deviations) ** 2))
    return max(0.0, 1.0 - (len(own) - 2.0) / max(size, 1e-9))


def length_weights(rows: Array, noisy: NoisyMoments, values: Array) -> Array:
    """Weigh rows so that their lengths, seen through the transformation, have these cosines within noise."""
    seen = noisy.measurement.evaluate(rows)
    return _flattened(fit_maximum_entropy(seen, values, scale=noisy.deviations).weights)


def choose_scores(
    drawn: Array,
    columns: Marginals,
    noisy: NoisyMoments,
    count: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    """Choose scores so that the rows placed by them have the measured lengths."""
    rows = place(drawn, columns)
    values = believed(rows, noisy)
    weights = length_weights(rows, noisy, values)
    rows = place(drawn, columns, weights=weights)
    weights, order = length_weights(rows, noisy, values), _in_order(rows, columns)
    # Any run of candidates is chosen as often as it should be, up to one row: so rows that are alike stand together.
    return drawn[order[systematic(weights[order], count, generator=generator)]]


def _in_order(rows: Array, columns: Marginals) -> NDArray[np.intp]:
    """Order rows by their levels, by what is missing, then by length."""
    codes = [np.argmax(rows[:, list(group)], axis=1) for group in columns.groups.levels]
    indicators = [rows[:, indicator] for _, indicator in columns.groups.missing]
    return np.lexsort((mean_square(rows), *indicators, *codes))


def _simulated(columns: Marginals, correlation: Array) -> Array:
    return correlated(scores(_SIMULATED, columns.count, generator=seeded(5)), correlation)


def _flattened(weights: Array) -> Array:
    """Take roots of the weights until enough rows count (their effective number is 1 / sum w^2)."""
    weights = np.maximum(weights, _TINY)
    while 1.0 / np.sum(weights**2) < _LEAST_COUNTING * len(weights):
        weights = np.sqrt(weights)
        weights = weights / weights.sum()
    return weights


# Steps from none to large.
_ALONG, _SCALES = (1.0, 1.5, 2.5, 4.0), (0.0, 0.25, 0.5, 0.8)
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

    found, least = (0, 0), cost(Stretch())
    while True:
        steps = [(found[0] + 1, found[1]), (found[0], found[1] + 1)]
        tried = {(i, j): cost(Stretch(_ALONG[i], _SCALES[j])) for i, j in steps if i < len(_ALONG) and j < len(_SCALES)}
        best = min(tried, key=lambda step: tried[step], default=found)
        if tried.get(best, least) >= least - _LESS_COST:
            return Stretch(_ALONG[found[0]], _SCALES[found[1]])
        found, least = best, tried[best]


def _values(columns: Marginals) -> NDArray[np.bool_]:
    return ~np.isin(np.arange(columns.count), columns.groups.indicators)


def _cost_of_choice(seen: Array, noisy: NoisyMoments) -> float:
    """Return KL(w || flat) + sum of ((E_w cosine - noisy) / noise)^2 / 2 at the weights w that make it least."""
    weights = fit_maximum_entropy(seen, noisy.values, scale=noisy.deviations).weights
    left = (weights @ seen - noisy.values) / noisy.deviations
    return float(np.sum(weights * np.log(np.maximum(weights * len(weights), 1e-300))) + 0.5 * np.sum(left**2))
