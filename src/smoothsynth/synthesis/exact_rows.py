"""Rows that keep every constraint to the last bit: whole numbers of steps, then public moments by small moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsynth.synthesis.half_spaces import Polytope
from smoothsynth.synthesis.public_moments import with_moments
from smoothsynth.synthesis.tied import tied_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoothsynth.schema import Schema

    Array = NDArray[np.float64]


def exact_rows(schema: Schema, points: Array, *, private_rows: int | None = None) -> Array:
    """Return points of the cube whose rows, in own units, keep every relation; with `private_rows`, public moments too."""
    if schema.rules is None:
        return points
    points = points.copy()
    for tied in tied_columns(schema):
        own = tied.own_units(points)
        wanted = tied.moved(points, own, Polytope.nearest) / tied.block.steps
        whole = np.zeros(wanted.shape, dtype=np.int64)
        for active, which in tied.patterns(points):
            whole[which] = tied.block.points(active).nearest(wanted[which])
        if private_rows is not None and tied.block.moments:
            whole = with_moments(tied, points, whole, private_rows=private_rows)
        tied.write(points, own, whole * tied.block.steps)
    return points
