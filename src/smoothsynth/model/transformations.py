"""Views made of the current model: how the next measurement shall look at the rows. Public, since the model is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.queries.families import ClippedSecondMoments, RankHistogram, RowNorms
from smoothsynth.queries.transformation import Transformation, knot_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.model.marginals import Marginals
    from smoothsynth.queries.measurement import Measurement

    Array = NDArray[np.float64]


# A share of the flat density keeps ranks from being constant where the model believes no row to be.
FLAT_SHARE = 0.1
# Standardised rows are cut to length sqrt(s d): shorter rows mean less noise, and less is seen of far ones. So s is as
# large as keeps the noise of a correlation at PAIR_NOISE, within these limits. It is kept at FINE_PAIR_NOISE under pure
# epsilon, where other releases tell means and squares, and where products are two-way tables of levels or missing values.
# But where noise is above ROUGH_NOISE and most of the variance of columns lies outside their middle, rows are expected to
# be short, and are cut shorter still.
LEAST_SHORT, MOST_SHORT, PAIR_NOISE, FINE_PAIR_NOISE = 0.6, 5.0, 0.02, 0.01
LEAST_MIDDLE, ROUGH_NOISE = 0.25, 0.02
# Above this noise of a correlation, rows are seen in roots of deviations: products drown, and errors of wide columns count.
DROWNING_NOISE = 0.2


def rank_transformation(columns: Marginals, counts: int | None = None) -> Transformation:
    """See each coordinate as cos(pi F(x)), F its distribution function: T_k of it is cos(k pi F(x)).

    A column that the model thinks crowded in a corner is spread over the whole cube. Levels and indicators stay what they
    are. For soft counts a coordinate is 2 F(x) - 1: they are evenly spread over ranks.
    """
    ranks = _ranks(columns, FLAT_SHARE)
    lines = [knot_places() if f is None else np.cos(np.pi * f) if counts is None else 2.0 * f - 1.0 for f in ranks]
    return Transformation.from_values(np.stack(lines), RankHistogram(counts))


def _ranks(columns: Marginals, flat: float) -> list[Array | None]:
    """Return the distribution function of each value at the knots, a share of the flat one mixed in; None for indicators."""
    mixed, indicators = columns.without_spikes().mixed(flat), set(columns.groups.indicators)
    return [None if c in indicators else mixed.probabilities(c, knot_places()) for c in range(columns.count)]


def score_length(columns: Marginals, measurement: Measurement, rows: int) -> float:
    """Return the length sqrt(s d) to which standardised rows are cut: from the noise, which is known beforehand.

    A product has noise w in units of the transformation, so a correlation has noise  w s d.
    """
    noise = _pair_noise(columns, measurement, rows)
    middle = max(LEAST_MIDDLE, ROUGH_NOISE / noise, float(columns.middles_of_variance().mean()))
    fine = measurement.multiplier is None or bool(columns.groups.indicators)
    allowed = FINE_PAIR_NOISE if fine else PAIR_NOISE
    return math.sqrt(columns.count * min(MOST_SHORT, max(min(LEAST_SHORT, middle), allowed / noise)))


def score_units(columns: Marginals, measurement: Measurement, rows: int) -> Array:
    """Return the unit u of each coordinate: its deviation s where pairs are seen well, towards the root of it where not.

    Noise is equal in these units, and grows with the length of rows in them:  sum u^2 sum (s/u)^2  over the columns for means
    and products together. It is least for the root. Correlations are seen alike in all columns for u = s. Units are scaled
    so that rows have a mean square of 1 in them.
    """
    noise = _pair_noise(columns, measurement, rows)
    deviations = columns.deviations()
    units = deviations ** (1.0 - 0.5 * noise**2 / (noise**2 + DROWNING_NOISE**2))
    return np.asarray(units * math.sqrt(np.mean((deviations / units) ** 2)))


def score_transformation(columns: Marginals, units: Array) -> Transformation:
    """See each coordinate as (x - m)/u, rows cut to length 1."""
    return Transformation.from_values(
        (knot_places()[None, :] - columns.means()[:, None]) / units[:, None], ClippedSecondMoments(1.0)
    )


def _pair_noise(columns: Marginals, measurement: Measurement, rows: int) -> float:
    """Return the noise that a correlation has if rows are cut at the length that they have on average."""
    return float(measurement.deviations(rows).min()) * columns.count


def length_transformation(distribution: Array) -> Transformation:
    """See the mean square t of a row as cos(pi F(t)); `distribution` is F at the knots, t from 0 to 1."""
    return Transformation.from_values(np.cos(np.pi * distribution)[None, :], RowNorms())
