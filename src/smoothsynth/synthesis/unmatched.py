"""Cells that are no level of a category whose synthetic rows always have one.

Such a row has 0 at all levels. While the model learns it is one without a level, as in a nullable category: taken for a row
with some level, it would be longer than what was measured, and other columns would be narrowed to make up for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.schema import Category, Schema
from smoothsynth.synthesis.sample import systematic
from smoothsynth.synthesis.shares import unmatched_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from smoothsynth.queries.measurement import NoisyMoments

    Array = NDArray[np.float64]


def unmatched(schema: Schema, moments: Sequence[NoisyMoments]) -> dict[str, float]:
    """Return the share of cells that are no level, for each category that can have such rows only unawares.

    Post-processing of released shares; a category is left out where noise explains what they leave of 1.
    """
    names = [name for name, column in schema.columns.items() if isinstance(column, Category)]
    uncut = [noisy for noisy in moments if noisy.measurement.uncut]
    found = zip(names, schema.whole, unmatched_shares(schema.exclusive, uncut), strict=True)
    return {name: share for name, whole, share in found if whole and share}


def opened(schema: Schema, moments: Sequence[NoisyMoments]) -> Schema:
    """Return the schema with those categories nullable that have cells which are no level."""
    lacking = unmatched(schema, moments)
    if not lacking:
        return schema
    columns = {
        name: replace(column, nullable=True) if name in lacking and isinstance(column, Category) else column
        for name, column in schema.columns.items()
    }
    return Schema(columns, schema.constraints)


def with_levels(schema: Schema, points: Array, *, generator: np.random.Generator) -> Array:  # noqa: TID251
    """Give rows without a level one of them, as often as other rows have it, and whatever else the row has."""
    for group, whole in zip(schema.exclusive, schema.whole, strict=True):
        own = points[:, group[0] : group[-1] + 1]
        bare = np.flatnonzero(own.max(axis=1) < 0.5)
        if whole and len(bare):
            often = np.bincount(np.delete(own, bare, axis=0).argmax(axis=1), minlength=len(group)).astype(np.float64)
            chosen = systematic(often if often.any() else often + 1.0, len(bare), generator=generator)
            points = points.copy()
            points[bare, group[0] : group[-1] + 1] = np.eye(len(group))[chosen]
    return points
