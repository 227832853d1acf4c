"""Public moments in the model: columns are tilted until they have them, in place of what was measured with noise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Category
from smoothsynth.schema.valued import from_unit
from smoothsynth.synthesis.columns import tilt
from smoothsynth.synthesis.shares import missing_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments
    from smoothsynth.schema import Measure, Schema
    from smoothsynth.schema.constraints import PublicMoment
    from smoothsynth.synthesis.columns import Columns

    Array = NDArray[np.float64]

# A public moment is held within this, in half ranges; what is not public is not held.
_EXACT, _UNKNOWN, _MOST = 1e-4, 1e3, 0.9999
# Weights of candidates match public moments within this; their rows are moved the rest of the way.
_FITTED = 1e-3


def hold_public(columns: Columns, private_rows: int) -> Columns:
    """Tell columns how many private rows there are, and hold the moments that are public; without constraints, nothing.

    The tilted density is the nearest to what was learned, in KL, of those with the moments.
    """
    if columns.limits is None:
        return columns
    limits = replace(columns.limits, private_rows=private_rows)
    columns = replace(columns, limits=limits)
    if not limits.moments:
        return columns
    functions, values = np.zeros((columns.count, 2, columns.places.shape[1])), np.zeros((columns.count, 2))
    scale = np.full((columns.count, 2), _UNKNOWN)
    for moment in limits.moments:
        c, k = limits.schema.coordinates_of(moment.column).start, moment.power - 1
        functions[c, k], values[c, k] = _standard(moment, limits.measure(moment.column), columns, c, private_rows)
        scale[c, k] = _EXACT
    marks = {mark: columns.share(mark) for mark in columns.groups.marks}
    return tilt(columns, functions, values, scale).with_shares(marks)


def _standard(
    moment: PublicMoment, column: Measure, columns: Columns, coordinate: int, private_rows: int
) -> tuple[Array, float]:
    """Return x or x^2 on the cells of a column, and its known mean, both in half ranges from the middle."""
    own = from_unit(columns.places[coordinate], column) ** moment.power
    known = moment.mean(private_rows, missing=missing_share(columns, coordinate))
    centre, half = own.min() / 2.0 + own.max() / 2.0, own.max() / 2.0 - own.min() / 2.0
    # A density has no mean at the very end of its range.
    return (own - centre) / half, float(np.clip((known - centre) / half, -_MOST, _MOST))


def public_values(schema: Schema, noisy: NoisyMoments) -> tuple[Array, Array]:
    """Return moments and their noise with those replaced that are public: x, and T_2 if both moments are.

    Only of columns without a transform and without missing cells: the moments of others are not those of the cube.
    """
    values, deviations = noisy.values.copy(), noisy.deviations.copy()
    if schema.rules is None or noisy.measurement.view is not None:
        return values, deviations
    for place, feature in enumerate(noisy.features):
        (coordinate, degree), *rest = feature.terms[0]
        column = schema.columns[schema.owners[coordinate][0]]
        if (
            len(feature.terms) > 1
            or rest
            or degree > 2
            or isinstance(column, Category)
            or column.map
            or column.nullable
        ):
            continue
        known = {
            moment.power: moment.mean(noisy.rows)
            for moment in schema.rules.moments
            if moment.column == schema.owners[coordinate][0]
        }
        if 1 in known and (degree == 1 or 2 in known):
            low, high = column.bounds
            centre, half = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
            square = (known.get(2, 0.0) - 2.0 * centre * known[1] + centre**2) / half**2
            values[place] = (known[1] - centre) / half if degree == 1 else 2.0 * square - 1.0
            deviations[place] = min(deviations[place], _FITTED)
    return values, deviations
