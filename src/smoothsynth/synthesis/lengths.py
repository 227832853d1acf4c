"""The distribution of the length of rows: one number a row that every radial query depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.basis import chebyshev
from smoothsynth.synthesis.copula import retarget, standard_functions
from smoothsynth.synthesis.maximum_entropy import fit_maximum_entropy
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.sample import generator, systematic
from smoothsynth.view import knot_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.moments import NoisyMoments
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

_SIMULATED = 6000
_FLAT_SHARE = 0.1
_CELLS = 400
# Rows are chosen so that their lengths have the measured distribution, up to this degree of cosines.
_DEGREES = 6


def mean_square(rows: Array) -> Array:
    """Return the mean square t of each row, from 0 to 1."""
    return np.asarray(np.mean(rows**2, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """A distribution of the mean square of rows: its function on a grid of places."""

    places: Array
    probabilities: Array

    @property
    def mean(self) -> float:
        """The mean."""
        middles = (self.places[1:] + self.places[:-1]) / 2.0
        return float(np.diff(self.probabilities) @ middles)

    def at(self, values: Array) -> Array:
        """Return the distribution function."""
        return np.interp(values, self.places, self.probabilities)


def expected_lengths(columns: Columns, correlation: Array) -> Lengths:
    """Return the lengths of rows of the model, with a flat share around them for what the model may miss."""
    drawn = scores(_SIMULATED, columns.count, generator=generator(5))
    found = np.sort(mean_square(place(correlated(drawn, correlation), columns)))
    low, high = np.quantile(found, [0.005, 0.995])
    low, high = max(2 * low - high, 0.0), min(2 * high - low, 1.0)
    places = np.unique(
        np.concatenate([np.linspace(low, high, _CELLS), np.quantile(found, np.linspace(0.0, 1.0, _CELLS)), [0.0, 1.0]])
    )
    own = np.interp(places, found, np.linspace(0.0, 1.0, _SIMULATED), left=0.0, right=1.0)
    flat = np.clip((places - low) / max(high - low, 1e-9), 0.0, 1.0)
    return Lengths(places, (1.0 - _FLAT_SHARE) * own + _FLAT_SHARE * flat)


def at_knots(lengths: Lengths) -> Array:
    """Return the distribution function where a pooled view has its knots."""
    return lengths.at((knot_places() + 1.0) / 2.0)


def learn_lengths(expected: Lengths, noisy: NoisyMoments) -> Lengths:
    """Tilt the expected lengths until their cosines agree with the noisy ones within noise."""
    base = np.diff(expected.probabilities)
    inside = base > 1e-12
    middles = ((expected.probabilities[1:] + expected.probabilities[:-1]) / 2.0)[inside]
    degree = max(feature.degree for feature in noisy.features)
    cosines = chebyshev(np.cos(np.pi * middles)[:, None], degree)[1:, 0]
    chosen = cosines[[feature.degree - 1 for feature in noisy.features]].T
    found = fit_maximum_entropy(
        np.ascontiguousarray(chosen), noisy.values, scale=noisy.deviations, base=base[inside] / base[inside].sum()
    )
    masses = np.zeros(len(base))
    masses[inside] = found.weights
    return Lengths(expected.places, np.concatenate([[0.0], np.cumsum(masses)]))


def scaled_to(columns: Columns, correlation: Array, mean: float) -> Columns:
    """Scale the variances of all columns together until rows have the given mean square."""
    drawn = correlated(scores(_SIMULATED, columns.count, generator=generator(5)), correlation)
    functions, first, second = standard_functions(columns)
    spread = float(np.mean(columns.deviations() ** 2))
    start, factor = columns, 1.0
    for _ in range(5):
        gap = mean - float(mean_square(place(drawn, columns)).mean())
        factor = float(np.clip(factor * (1.0 + gap / spread), 0.3, 3.0))
        columns = retarget(start, functions, first, second * factor)
    return columns


def choose_rows(
    drawn: Array,
    columns: Columns,
    lengths: Lengths,
    count: int,
    *,
    generator: np.random.Generator,  # noqa: TID251
) -> Array:
    """Choose scores so that the rows placed by them have the given distribution of lengths, and place them."""
    weights = np.full(len(drawn), 1.0 / len(drawn))
    base = weights
    for _ in range(2):
        levels = lengths.at(mean_square(place(drawn, columns, weights=weights)))
        cosines = chebyshev(np.cos(np.pi * levels)[:, None], _DEGREES)[1:, 0].T
        found = fit_maximum_entropy(np.ascontiguousarray(cosines), np.zeros(_DEGREES), scale=0.02, base=base)
        weights = found.weights
    picked = systematic(weights, count, generator=generator)
    return place(drawn[picked], columns, generator=generator)
