"""The model of a table: columns, correlations, lengths of rows; what it learns from each release, and its rows.

Everything here is computed from public and released numbers, so that anyone who has a release can do it again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.errors import PlanError
from smoothsynth.synthesis.columns import Columns, flat_columns, tilt
from smoothsynth.synthesis.copula import learn_pairs
from smoothsynth.synthesis.independent import fit_independent, separable
from smoothsynth.synthesis.lengths import choose_rows, expected_ranks, scale_to_lengths
from smoothsynth.synthesis.looks import FLAT_SHARE, length_view, rank_view, score_length, score_view
from smoothsynth.synthesis.placing import correlated, place, scores
from smoothsynth.synthesis.shares import learn_shares, missing_share, where_there

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.basis import Feature
    from smoothsynth.moments import Measurement, NoisyMoments
    from smoothsynth.schema import Schema
    from smoothsynth.view import View

    Array = NDArray[np.float64]

# The weight of flatness against agreement where only a pooled second moment is known. At 1, the textbook value,
# every narrow column is pulled towards the flat density, all in the same direction.
_POOLED_FLATNESS = 0.1
_MOST_OVERSAMPLED = 20_000
# The noise of what was not measured.
_UNKNOWN = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What is known of a table so far."""

    columns: Columns
    correlation: Array
    low: tuple[NoisyMoments, ...] = ()
    lengths: NoisyMoments | None = None

    def look(self, kind: str | None, measurement: Measurement, rows: int) -> View | None:
        """Return the view that a stage of this kind shall use: what is known, and how much noise there will be."""
        if kind is None:
            return None
        if kind == "ranks":
            return rank_view(self.columns)
        if kind == "scores":
            return score_view(self.columns, score_length(measurement, rows))
        if kind == "lengths":
            return length_view(expected_ranks(self.columns, self.correlation))
        raise PlanError(f"There is no look {kind!r}.")

    def learn(self, kind: str | None, noisy: NoisyMoments) -> Model:
        """Return the model after a release that was looked at in this way."""
        if kind == "ranks":
            return replace(self, columns=_learn_ranks(self.columns, noisy, self.low))
        if kind == "scores":
            columns, correlation = learn_pairs(self.columns, noisy)
            return replace(self, columns=columns, correlation=correlation)
        if kind == "lengths":
            return self._learn_lengths(noisy)
        if not any(map(separable, noisy.features)):
            return self
        low = (*self.low, noisy)
        return replace(self, low=low, columns=_learn_low(self.columns, low))

    def _learn_lengths(self, noisy: NoisyMoments) -> Model:
        """Learn the lengths of rows, and scale all columns until their mean length is right.

        Under pure epsilon the mean is known better from the pooled second moment, measured before.
        """
        mean = None if noisy.measurement.multiplier is not None else _pooled_mean_square(self.columns, self.low)
        columns = scale_to_lengths(self.columns, self.correlation, noisy, mean=mean)
        return replace(self, lengths=noisy, columns=columns)

    def rows(self, count: int, *, generator: np.random.Generator) -> Array:  # noqa: TID251
        """Draw rows: their columns have the model's densities almost exactly, whatever their number."""
        if self.lengths is None:
            drawn = correlated(scores(count, self.columns.count, generator=generator), self.correlation)
            return place(drawn, self.columns, generator=generator)
        many = max(6 * count, 6000) if count <= _MOST_OVERSAMPLED else 2 * count
        drawn = correlated(scores(many, self.columns.count, generator=generator), self.correlation)
        return choose_rows(drawn, self.columns, self.lengths, count, generator=generator)


def empty_model(schema: Schema) -> Model:
    """Return the model that knows only the schema: flat, independent columns."""
    columns = flat_columns(schema)
    return Model(columns, np.eye(columns.count))


def _learn_low(columns: Columns, low: tuple[NoisyMoments, ...]) -> Columns:
    """Fit flat columns to all low moments that are sums over columns; levels and marks have their moments as shares."""
    columns = learn_shares(replace(columns, masses=columns.base, converged=True, steps=0), low)
    parts = [
        (feature, *_low_moment(columns, feature, value, deviation))
        for noisy in low
        for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True)
        if separable(feature) and feature.terms[0][0][0] not in columns.groups.marks
    ]
    if not parts:
        return columns
    features = [feature for feature, _, _ in parts]
    pooled = any(feature.pooled for feature in features) or max(f.degree for f in features) == 1
    fitted = fit_independent(
        columns,
        features,
        np.array([value for _, value, _ in parts]),
        np.array([deviation for _, _, deviation in parts]),
        flatness=_POOLED_FLATNESS if pooled else 1.0,
    )
    return fitted.with_shares({mark: columns.share(mark) for mark in columns.groups.marks})


def _low_moment(columns: Columns, feature: Feature, value: float, deviation: float) -> tuple[float, float]:
    """Return the moment of the rows whose value is there; T_k(0) = cos(k pi / 2) is that of a missing one."""
    missing = float(np.mean([missing_share(columns, term[0][0]) for term in feature.terms]))
    return where_there(value, deviation, missing=missing, centre=math.cos(feature.degree * math.pi / 2.0))


def _pooled_mean_square(columns: Columns, low: tuple[NoisyMoments, ...]) -> float:
    """Return the mean square of a row from the pooled T_2 = 2 t - 1 of its values and from the shares of its marks."""
    pooled = [(len(noisy.features[0].terms), float(noisy.values[0])) for noisy in low if noisy.features[0].pooled]
    if not pooled:
        raise PlanError("Lengths under pure epsilon need a pooled second moment, measured before.")
    values, square = pooled[0]
    marks = sum(columns.share(mark) for mark in columns.groups.marks)
    return float(np.clip((values * (square + 1.0) / 2.0 + marks) / columns.count, 0.0, 1.0))


def _learn_ranks(columns: Columns, noisy: NoisyMoments, low: tuple[NoisyMoments, ...]) -> Columns:
    """Tilt columns to noisy cosines of their own distribution functions, each degree shrunk by what it is worth.

    For degree k, t_k^2 = mean over columns of b^2 minus noise^2 is the signal there is; the noise counts
    sqrt(0.5/t_k^2) times, so that degrees without signal change nothing. Under pure epsilon the means, measured before
    and better, are held within their noise.
    """
    columns = learn_shares(columns, (*low, noisy))
    lines = [c for c in range(columns.count) if c not in columns.groups.marks]
    if not lines:
        return columns
    values, deviations = _cosines(columns, noisy)
    signal = np.maximum(np.mean(values[lines] ** 2, axis=0) - np.mean(deviations[lines] ** 2, axis=0), 1e-4)
    scale = deviations * np.sqrt(0.5 / signal)
    mixed = columns.mixed(FLAT_SHARE)
    degrees = np.arange(1, values.shape[1] + 1)
    functions = np.cos(np.pi * mixed.middles()[:, None, :] * degrees[:, None])
    if noisy.measurement.multiplier is None:
        means, held = _held_means(columns, low[0])
        functions = np.concatenate([functions, columns.places[:, None, :]], axis=1)
        values, scale = np.column_stack([values, means]), np.column_stack([scale, held])
    shares = {mark: columns.share(mark) for mark in columns.groups.marks}
    return tilt(mixed, functions, values, scale).with_shares(shares)


def _cosines(columns: Columns, noisy: NoisyMoments) -> tuple[Array, Array]:
    """Return cosines of ranks where values are there, and their noise, (coordinates, degrees); marks have none."""
    degree = max(feature.degree for feature in noisy.features)
    values, deviations = np.zeros((columns.count, degree)), np.full((columns.count, degree), _UNKNOWN)
    seen = noisy.measurement.evaluate(np.zeros((1, columns.count)))[0]
    for feature, value, deviation, centre in zip(noisy.features, noisy.values, noisy.deviations, seen, strict=True):
        ((coordinate, k),) = feature.terms[0]
        if coordinate not in columns.groups.marks:
            missing = missing_share(columns, coordinate)
            found = where_there(value, deviation, missing=missing, centre=float(centre))
            values[coordinate, k - 1], deviations[coordinate, k - 1] = found
    return values, deviations


def _held_means(columns: Columns, noisy: NoisyMoments) -> tuple[Array, Array]:
    """Return the means of values, measured before, with their noise; marks are not held."""
    means, held = np.zeros(columns.count), np.full(columns.count, _UNKNOWN)
    for feature, value, deviation in zip(noisy.features, noisy.values, noisy.deviations, strict=True):
        coordinate = feature.terms[0][0][0]
        if feature.degree == 1 and coordinate not in columns.groups.marks:
            means[coordinate], held[coordinate] = _low_moment(columns, feature, value, deviation)
    return means, held
