"""How much is believed of what a release of pairs shows: the rest is noise, or was known before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.denoising import denoise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]

# Ranks have told the spread of each column already, and without a cut: of what a cut says beyond, half is believed.
_OWN_SQUARES = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """First and second moments of standardised rows, the noise of a pair and of a mean, and of means released before.

    `normal` if the noise of pairs is, or is but for its length, which is nearly certain; `pure` if epsilon is.
    """

    means: Array
    squares: Array
    noise: float
    mean_noise: float
    known: Array
    normal: bool
    pure: bool


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What is to be believed of what was seen: `worth` of each mean, `common` and `own` of squares, from 0 to 1.

    `covariance` is what is believed of the covariance of cut rows, off the diagonal.
    """

    worth: Array
    squares: Array
    seen_squares: Array | None
    expected: Array
    common: float
    own: float
    covariance: Array
    correlation: Array

    def lacking_squares(self, squares: Array, *, known: Array) -> Array:
        """Return by how much the squares of cut rows are too small; `known` is by how much those of whole rows are.

        Under pure epsilon what is not believed of cut rows is left to the ranks, which tell more of it. With a delta it is
        left to cut rows as they would be without dependence.
        """
        if self.seen_squares is None:
            return self.squares - squares
        short = self.seen_squares - squares
        together, before = short.mean() * self.expected, known.mean() * self.expected
        common = self.common * together + (1.0 - self.common) * before
        return np.asarray(common + self.own * (short - together) + (1.0 - self.own) * (known - before))


def unpack(noisy: NoisyMoments, length: float, *, known: Array) -> Seen:
    """Turn moments of the view (in units of its length) into those of standardised rows."""
    spread = length**2
    d = len(noisy.measurement.view.knots) if noisy.measurement.view is not None else 1
    means, squares = np.zeros(d), np.zeros((d, d))
    noise = mean_noise = 0.0
    for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
        term = feature.terms[0]
        if feature.degree == 1:
            means[term[0][0]], mean_noise = value * math.sqrt(spread), deviation * math.sqrt(spread)
        elif len(term) == 1:
            squares[term[0][0], term[0][0]] = (value + 1.0) / 2.0 * spread
        else:
            (i, _), (j, _) = term
            squares[i, j] = squares[j, i] = value * spread
            noise = deviation * spread
    normal = noisy.measurement.mechanism in ("discrete gaussian", "ball")
    return Seen(means, squares, noise, mean_noise, known, normal, noisy.measurement.multiplier is None)


def targets(
    seen: Seen,
    means: Array,
    squares: Array,
    covariance: Array,
    free: Array,
    *,
    expected: Array,
    tied: Array | None = None,
) -> Target:
    """Decide how much of the difference between what was seen and the model is more than noise."""
    d, noise = len(means), seen.noise
    difference = seen.means - means
    known = seen.known**2 / (seen.known**2 + seen.mean_noise**2)
    worth = np.minimum(_shrinkage(difference, seen.mean_noise), known)
    first = means + worth * difference
    difference = np.diag(seen.squares) - squares
    common = float(difference.mean())
    together = common**2 / (common**2 + 2.0 * noise**2 / d)
    own = _OWN_SQUARES * _shrinkage(difference - common, noise * math.sqrt(2.0))
    second = np.maximum(squares + together * common * expected + own * (difference - common), 0.05 * squares)
    rest = (seen.squares - np.outer(seen.means, seen.means) - covariance) * free
    variances = np.maximum(second - first**2, np.maximum(0.05 * squares, 0.7 * noise))
    found = denoise(rest, noise, normal=seen.normal)
    wanted = found if tied is None else tied + found
    return Target(
        worth,
        second,
        np.diag(seen.squares) if seen.pure else None,
        expected,
        together,
        own,
        wanted,
        wanted / np.sqrt(np.outer(variances, variances)),
    )


def _shrinkage(differences: Array, noise: float) -> float:
    """Return the empirical-Bayes factor t^2/(t^2 + s^2) for a group of noisy differences."""
    signal = max(float(np.mean(differences**2)) - noise**2, 0.0)
    return signal / (signal + noise**2 + 1e-30)
